//! `-o FILE` and `--resume FILE` of `cpushield latency`: the document that is kept while it is
//! measured, and the one that is gone on with.

use super::saved_document::SavedDocument;
use crate::failure::Failure;
use crate::latency::autosave::{self, Autosave};
use crate::latency::{
    LatencyMeasurement, MeasureRequest, ResumeMismatch, find_mismatch, join_parts,
};
use crate::ui::Ui;
use cpushield_linux::{Host, can_write, keep_document};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long is measured, unless it is told.
const SPAN: Duration = Duration::from_secs(10);

/// Where a measurement is kept, and what was measured before.
pub(super) struct MeasurementCheckpoint<'a> {
    path: PathBuf,
    before: Option<Box<LatencyMeasurement>>,
    max_ns: Option<u64>,
    keeper: RefCell<Autosave>,
    /// Whether it was told that the file cannot be written.
    warned: Cell<bool>,
    ui: &'a Ui,
}

impl<'a> MeasurementCheckpoint<'a> {
    /// For `-o` or `--resume`.
    pub(super) fn open(
        ui: &'a Ui,
        output: Option<&Path>,
        resume: Option<&Path>,
        max_ns: Option<u64>,
    ) -> Result<Option<MeasurementCheckpoint<'a>>, Failure> {
        let (path, before) = match (output, resume) {
            (None, None) => return Ok(None),
            (_, Some(path)) => (path, Some(begun(path)?)),
            (Some(path), None) => (path, None),
        };
        can_write(path)?;
        if before.is_none()
            && let Ok(SavedDocument::Latency(latency)) = SavedDocument::read(path)
            && latency.unfinished
        {
            let file = path.display();
            return Err(Failure::usage(format!("{file} holds a measurement that is not finished"))
                .hint(format!("resume it: --resume {file}"))
                .hint("or remove it, or name another file"));
        }
        let keeper = RefCell::new(Autosave::new(path));
        let (path, warned) = (path.to_owned(), Cell::new(false));
        Ok(Some(MeasurementCheckpoint { path, before, max_ns, keeper, warned, ui }))
    }

    /// What the threads wait for: as it was asked for, which a measurement that is gone on with
    /// knows itself.
    pub(super) fn instrument<'b>(
        &'b self,
        asked: Option<&'b str>,
    ) -> Result<Option<&'b str>, Failure> {
        let Some(before) = &self.before else { return Ok(asked) };
        let was = before.instrument.as_str();
        match asked.filter(|asked| *asked != was) {
            None => Ok(Some(was)),
            Some(is) => Err(self.unlike("the instrument", was, is)),
        }
    }

    /// What of a resumed measurement is over, and its worst.
    pub(super) fn over(&self) -> (Duration, Option<u64>) {
        self.before.as_ref().map_or((Duration::ZERO, None), |before| {
            let worst = before.worst().map(|(_, worst)| worst.late_ns);
            (Duration::from_nanos(before.span_ns), worst)
        })
    }

    /// Whether it can be gone on with by this order.
    pub(super) fn fits(&self, host: &Host, order: &MeasureRequest<'_>) -> Result<(), Failure> {
        let Some(before) = &self.before else { return Ok(()) };
        let line = |path: &str| host.read_line(path).ok();
        let (kernel, cmdline) = (line("/proc/sys/kernel/osrelease"), line("/proc/cmdline"));
        let Some(ResumeMismatch { what, was, is }) = find_mismatch(before, order, kernel, cmdline)
        else {
            return Ok(());
        };
        Err(self.unlike(what, &was, &is))
    }

    /// It would not go on as it began.
    fn unlike(&self, what: &str, was: &str, is: &str) -> Failure {
        let file = self.path.display();
        Failure::usage(format!("cannot resume {file}: {what} was {was}, now it is {is}"))
            .hint("resume with the original options")
            .hint("or start a new measurement in another file: -o FILE")
    }

    /// Puts what was seen so far on the disk. That it cannot be is told once.
    pub(super) fn keep(&self, latency: LatencyMeasurement) {
        let trouble = match self.whole(latency) {
            Ok(whole) => self.keeper.borrow_mut().offer(&whole),
            Err(failure) => Some(failure.message),
        };
        if let Some(why) = trouble.filter(|_| !self.warned.replace(true)) {
            let file = self.path.display();
            self.ui.warn(&format!(
                "cannot write {file}: {why}; the results stay in memory, and cpushield tries to write \
                 them again every second"
            ));
        }
    }

    fn whole(&self, latency: LatencyMeasurement) -> Result<LatencyMeasurement, Failure> {
        match &self.before {
            None => Ok(latency),
            Some(before) => join_parts(before, &latency, self.max_ns).map_err(|why| {
                Failure::machine(format!("cannot resume {}: {why}", self.path.display()))
            }),
        }
    }

    /// The whole document, saved; why it is not, when it could not be.
    pub(super) fn end(
        self,
        latency: LatencyMeasurement,
    ) -> Result<(LatencyMeasurement, Option<Failure>), Failure> {
        let mut whole = self.whole(latency)?;
        whole.notes.extend(self.keeper.into_inner().end());
        let text = autosave::to_json(&whole).map_err(Failure::machine)?;
        let lost = match keep_document(&self.path, &text) {
            Ok(()) => {
                self.ui.status(&format!("saved: {}", self.path.display()));
                None
            }
            Err(error) => Some(
                Failure::from(error).hint("nothing is lost: the document is on standard output"),
            ),
        };
        Ok((whole, lost))
    }
}

/// The document that is gone on with.
fn begun(path: &Path) -> Result<Box<LatencyMeasurement>, Failure> {
    match SavedDocument::read_for(path, &["latency --json"])? {
        SavedDocument::Latency(latency) => Ok(latency),
        other => {
            let (file, from) = (path.display(), other.from());
            let why =
                format!("{file} is not a measurement: it is a document of `cpushield {from}`");
            Err(Failure::usage(why).hint("start a measurement: cpushield latency timer -o FILE"))
        }
    }
}

/// How long is to be measured now: what was asked for, less what is measured.
pub(super) fn span(
    kept: Option<&MeasurementCheckpoint<'_>>,
    asked: Option<Duration>,
) -> Result<Duration, Failure> {
    let Some((kept, before)) = kept.and_then(|kept| Some((kept, kept.before.as_ref()?))) else {
        return Ok(asked.unwrap_or(SPAN));
    };
    let asked = asked.unwrap_or(Duration::from_nanos(before.asked_ns));
    let left = asked.saturating_sub(Duration::from_nanos(before.span_ns));
    if left.is_zero() {
        let file = kept.path.display();
        return Err(Failure::usage(format!("{file} is complete: it covers all of {asked:?}"))
            .hint("measure longer: --for TIME, the total of all parts"));
    }
    Ok(left)
}
