//! Saves how far a watch has come (`verify -o FILE`), so that a power cut does not lose that.
//!
//! A watch cannot be resumed, because nothing was seen in between. The file says how long it was
//! unbroken.

use super::WorkContext;
use crate::autosave::Autosave;
use crate::documents::evidence::{SCHEMA, UnfinishedWatch};
use crate::failure::Failure;
use crate::json::to_json;
use crate::ui::Ui;
use crate::verify::WorstSoFar;
use cpushield_linux::sys::clock::nanos;
use cpushield_linux::{CpuSet, UserFiles};
use serde::Serialize;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The time between two saves.
const INTERVAL: Duration = Duration::from_secs(60);

/// The file of a watch.
pub struct WatchCheckpoint<'a> {
    path: PathBuf,
    files: UserFiles,
    autosave: RefCell<Autosave>,
    /// How much of the watch was over at the last save.
    saved: Cell<Duration>,
    /// Whether the user was warned that the file cannot be written.
    warned: Cell<bool>,
    ui: &'a Ui,
}

impl fmt::Debug for WatchCheckpoint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchCheckpoint").field("path", &self.path).finish_non_exhaustive()
    }
}

impl<'a> WatchCheckpoint<'a> {
    /// Opens the file of `-o`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn open(work: &WorkContext<'a>, path: &Path) -> Result<WatchCheckpoint<'a>, Failure> {
        let files = work.host.user_files();
        files.check_writable(path)?;
        Ok(WatchCheckpoint {
            path: path.to_owned(),
            autosave: RefCell::new(Autosave::new(path, &files)),
            files,
            saved: Cell::default(),
            warned: Cell::default(),
            ui: work.ui,
        })
    }

    /// Saves how far the watch has come, once a minute. Warns once if that fails.
    pub fn save(&self, cpus: &CpuSet, done: Duration, of: Duration, worst: WorstSoFar) {
        if done < self.saved.get() {
            // The watch of another round began.
            self.saved.set(Duration::ZERO);
        }
        if done - self.saved.get() < INTERVAL {
            return;
        }
        self.saved.set(done);
        let unfinished = UnfinishedWatch {
            schema: SCHEMA,
            cpus: cpus.clone(),
            asked_ns: nanos(of),
            watched_ns: nanos(done),
            entries: worst.entries,
            gap_ns: worst.gap_ns,
        };
        let error = match to_json(&unfinished) {
            Ok(text) => self.autosave.borrow_mut().offer(text),
            Err(error) => Some(error.to_string()),
        };
        if let Some(why) = error.filter(|_| !self.warned.replace(true)) {
            let file = self.path.display();
            self.ui.warn(&format!(
                "cannot write {file}: {why}; the watch continues, and cpushield retries the write \
                 every minute"
            ));
        }
    }

    /// Writes the whole document in place of the unfinished one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(&self, document: &impl Serialize) -> Result<(), Failure> {
        // No later write of the thread may replace the document.
        let _ = self.autosave.replace(Autosave::new(&self.path, &self.files)).end();
        let text = to_json(document)?;
        self.files.keep(&self.path, &text).map_err(|error| {
            Failure::from(error).hint("save standard output instead: cpushield verify --json")
        })?;
        self.ui.status(&format!("saved: {}", self.path.display()));
        Ok(())
    }
}
