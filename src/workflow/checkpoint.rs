//! Saves a latency measurement while it runs (`-o FILE`).

use super::WorkContext;
use super::saved_document::SavedDocument;
use crate::autosave::{Autosave, AutosaveResults};
use crate::documents::latency::{LatencyMeasurement, LatencyNote};
use crate::failure::Failure;
use crate::json::to_json;
use crate::ui::Ui;
use cpushield_linux::UserFiles;
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A user who loses the results of a longer run loses much time.
const LONG: Duration = Duration::from_secs(10 * 60);
/// A write that takes longer is reported.
const SLOW: Duration = Duration::from_secs(2);

/// The file that a measurement is saved in.
pub struct MeasurementCheckpoint<'a> {
    path: PathBuf,
    files: UserFiles,
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
    /// Opens the file.
    ///
    /// # Errors
    /// The file cannot be written, or holds an unfinished measurement.
    pub fn open(work: &WorkContext<'a>, path: &Path) -> Result<MeasurementCheckpoint<'a>, Failure> {
        let files = work.host.user_files();
        files.check_writable(path)?;
        if let Ok(SavedDocument::Latency(latency)) = SavedDocument::read(&files, path)
            && latency.unfinished
        {
            let file = path.display();
            return Err(Failure::usage(format!("{file} holds an unfinished measurement"))
                .hint("remove it, or name another file"));
        }
        let autosave = RefCell::new(Autosave::new(path, &files));
        let (path, warned) = (path.to_owned(), Cell::new(false));
        Ok(MeasurementCheckpoint { path, files, autosave, warned, ui: work.ui })
    }

    /// Saves the results so far. Warns once if they cannot be saved.
    pub fn save(&self, latency: &LatencyMeasurement) {
        let error = match to_json(latency) {
            Ok(text) => self.autosave.borrow_mut().offer(text),
            Err(error) => Some(error.to_string()),
        };
        if let Some(why) = error.filter(|_| !self.warned.replace(true)) {
            let file = self.path.display();
            self.ui.warn(&format!(
                "cannot write {file}: {why}; the results stay in memory, and cpushield retries the \
                 write every second"
            ));
        }
    }

    /// Saves and returns the whole document. The second value says why it could not be saved.
    pub fn finish(
        self,
        mut latency: LatencyMeasurement,
    ) -> Result<(LatencyMeasurement, Option<Failure>), Failure> {
        latency.notes.extend(notes_of(self.autosave.into_inner().end()));
        let text = to_json(&latency)?;
        let save_error = match self.files.keep(&self.path, &text) {
            Ok(()) => {
                self.ui.status(&format!("saved: {}", self.path.display()));
                None
            }
            Err(error) => Some(Failure::from(error).hint("take the document from standard output")),
        };
        Ok((latency, save_error))
    }
}

/// Notes about failed and slow writes.
fn notes_of(AutosaveResults { failed, longest }: AutosaveResults) -> Vec<LatencyNote> {
    let failed = failed.map(|(why, times)| LatencyNote::NotSaved { why, times });
    let slow =
        (longest > SLOW).then_some(LatencyNote::SavedSlowly { longest_s: longest.as_secs() });
    failed.into_iter().chain(slow).collect()
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
