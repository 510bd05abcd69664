//! Saves a latency measurement while it runs (`-o FILE`), and resumes a saved one
//! (`--resume FILE`).

use super::WorkContext;
use super::saved_document::SavedDocument;
use crate::autosave::{Autosave, AutosaveResults};
use crate::documents::latency::{LatencyMeasurement, LatencyNote};
use crate::documents::time_text::exact_duration;
use crate::failure::Failure;
use crate::json::to_json;
use crate::latency::{MeasureRequest, ResumeMismatch, find_mismatch, join_parts};
use crate::policy::LatencyLimits;
use crate::ui::Ui;
use cpushield_linux::{Host, UserFiles};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Default duration of a measurement.
const SPAN: Duration = Duration::from_secs(10);
/// A user who loses the results of a longer run loses much time.
const LONG: Duration = Duration::from_secs(10 * 60);
/// A write that takes longer is reported.
const SLOW: Duration = Duration::from_secs(2);

/// The file that a measurement is saved in, and the earlier parts of a resumed measurement.
pub struct MeasurementCheckpoint<'a> {
    path: PathBuf,
    files: UserFiles,
    before: Option<Box<LatencyMeasurement>>,
    limits: LatencyLimits,
    autosave: RefCell<Autosave>,
    /// Whether the user was warned that the file cannot be written.
    warned: Cell<bool>,
    ui: &'a Ui,
}

/// Mentions `-o` for a long run whose results would otherwise be lost if it is killed.
pub(super) fn mention_saving(ui: &Ui, span: Duration) {
    if let Some(note) = saving_note(span) {
        ui.status(note);
    }
}

fn saving_note(span: Duration) -> Option<&'static str> {
    (span > LONG).then_some("not saved until the end; to save once a minute: -o FILE")
}

impl<'a> MeasurementCheckpoint<'a> {
    /// Opens the file of `-o` or `--resume`; `None` without either.
    ///
    /// # Errors
    /// The file cannot be written or resumed, or `-o` names an unfinished measurement.
    pub fn open(
        work: &WorkContext<'a>,
        output: Option<&Path>,
        resume: Option<&Path>,
        limits: LatencyLimits,
    ) -> Result<Option<MeasurementCheckpoint<'a>>, Failure> {
        let files = work.host.user_files();
        let (path, before) = match (output, resume) {
            (None, None) => return Ok(None),
            (_, Some(path)) => (path, Some(read_measurement(&files, path)?)),
            (Some(path), None) => (path, None),
        };
        files.check_writable(path)?;
        if before.is_none()
            && let Ok(SavedDocument::Latency(latency)) = SavedDocument::read(&files, path)
            && latency.unfinished
        {
            let file = path.display();
            return Err(Failure::usage(format!("{file} holds an unfinished measurement"))
                .hint(format!("resume it: --resume {file}"))
                .hint("or remove it, or name another file"));
        }
        let autosave = RefCell::new(Autosave::new(path, &files));
        let (path, warned) = (path.to_owned(), Cell::new(false));
        let ui = work.ui;
        Ok(Some(MeasurementCheckpoint { path, files, before, limits, autosave, warned, ui }))
    }

    /// The instrument: the one of the resumed measurement, else the requested one.
    ///
    /// # Errors
    /// The two differ.
    pub fn instrument<'b>(
        &'b self,
        requested: Option<&'b str>,
    ) -> Result<Option<&'b str>, Failure> {
        let Some(before) = &self.before else { return Ok(requested) };
        let was = before.instrument.as_str();
        match requested.filter(|requested| *requested != was) {
            None => Ok(Some(was)),
            Some(is) => Err(self.fail_mismatch("the instrument", was, is)),
        }
    }

    /// How much of a resumed measurement is done, and its worst latency in nanoseconds.
    pub fn progress_before(&self) -> (Duration, Option<u64>) {
        self.before.as_ref().map_or((Duration::ZERO, None), |before| {
            let worst = before.worst().map(|(_, worst)| worst.late_ns);
            (Duration::from_nanos(before.span_ns), worst)
        })
    }

    /// Checks that the measurement can be resumed with these options on this machine.
    ///
    /// # Errors
    /// An option or the machine differs.
    pub fn check_resumable(&self, host: &Host, order: &MeasureRequest<'_>) -> Result<(), Failure> {
        let Some(before) = &self.before else { return Ok(()) };
        let kernel = host.read_line("/proc/sys/kernel/osrelease").ok();
        let cmdline = host.read_line("/proc/cmdline").ok();
        let Some(ResumeMismatch { what, was, is }) = find_mismatch(before, order, kernel, cmdline)
        else {
            return Ok(());
        };
        Err(self.fail_mismatch(what, &was, &is))
    }

    /// The failure when the measurement would not continue as it began.
    fn fail_mismatch(&self, what: &str, was: &str, is: &str) -> Failure {
        let file = self.path.display();
        Failure::usage(format!("cannot resume {file}: {what} changed: {was} before, {is} now"))
            .hint("resume with the original options")
            .hint("or start a new measurement in another file: -o FILE")
    }

    /// Saves the results so far. Warns once if they cannot be saved.
    pub fn save(&self, latency: LatencyMeasurement) {
        let error = match self.join_with_before(latency) {
            Ok(whole) => match to_json(&whole) {
                Ok(text) => self.autosave.borrow_mut().offer(text),
                Err(error) => Some(error.to_string()),
            },
            Err(failure) => Some(failure.message),
        };
        if let Some(why) = error.filter(|_| !self.warned.replace(true)) {
            let file = self.path.display();
            self.ui.warn(&format!(
                "cannot write {file}: {why}; the results stay in memory, and cpushield retries the \
                 write every second"
            ));
        }
    }

    /// Joins the results with the earlier parts of a resumed measurement.
    fn join_with_before(&self, latency: LatencyMeasurement) -> Result<LatencyMeasurement, Failure> {
        match &self.before {
            None => Ok(latency),
            Some(before) => join_parts(before, &latency, self.limits).map_err(|why| {
                Failure::machine(format!("cannot resume {}: {why}", self.path.display()))
            }),
        }
    }

    /// Saves and returns the whole document. The second value says why it could not be saved.
    pub fn finish(
        self,
        latency: LatencyMeasurement,
    ) -> Result<(LatencyMeasurement, Option<Failure>), Failure> {
        let mut whole = self.join_with_before(latency)?;
        whole.notes.extend(notes_of(self.autosave.into_inner().end()));
        let text = to_json(&whole)?;
        let save_error = match self.files.keep(&self.path, &text) {
            Ok(()) => {
                self.ui.status(&format!("saved: {}", self.path.display()));
                None
            }
            Err(error) => Some(Failure::from(error).hint("take the document from standard output")),
        };
        Ok((whole, save_error))
    }
}

/// Notes about failed and slow writes.
fn notes_of(AutosaveResults { failed, longest }: AutosaveResults) -> Vec<LatencyNote> {
    let failed = failed.map(|(why, times)| LatencyNote::NotSaved { why, times });
    let slow =
        (longest > SLOW).then_some(LatencyNote::SavedSlowly { longest_s: longest.as_secs() });
    failed.into_iter().chain(slow).collect()
}

/// Reads the measurement to resume.
fn read_measurement(files: &UserFiles, path: &Path) -> Result<Box<LatencyMeasurement>, Failure> {
    match SavedDocument::read_for(files, path, &["latency --json"])? {
        SavedDocument::Latency(latency) => Ok(latency),
        other => Err(other
            .is_not(path.display(), "a measurement")
            .hint("start a measurement: cpushield latency timer -o FILE")),
    }
}

/// The time left to measure: the requested total minus what is already measured.
///
/// # Errors
/// The measurement is complete.
pub fn remaining_span(
    checkpoint: Option<&MeasurementCheckpoint<'_>>,
    requested: Option<Duration>,
) -> Result<Duration, Failure> {
    let resumed = checkpoint.and_then(|checkpoint| Some((checkpoint, checkpoint.before.as_ref()?)));
    let Some((checkpoint, before)) = resumed else { return Ok(requested.unwrap_or(SPAN)) };
    let total = requested.unwrap_or(Duration::from_nanos(before.asked_ns));
    let left = total.saturating_sub(Duration::from_nanos(before.span_ns));
    if left.is_zero() {
        let file = checkpoint.path.display();
        let total = exact_duration(u64::try_from(total.as_nanos()).unwrap_or(u64::MAX));
        return Err(Failure::usage(format!("{file} is complete: it already covers {total}"))
            .hint("to measure longer: --for TIME (the total of all parts)"));
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_long_run_mentions_how_to_save_it() {
        assert_eq!(saving_note(Duration::from_secs(10 * 60)), None);
        assert!(saving_note(Duration::from_secs(60 * 60)).is_some());
    }
}
