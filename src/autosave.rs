//! Saves the document of running work: a whole file each time, so that a power cut loses only what
//! came after the last one. A separate thread writes, because a disk may be slow. It starts with
//! the first document and inherits the housekeeping CPUs of the caller. A failed write is tried
//! again with the next document.

use cpushield_linux::UserFiles;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The name of the thread that writes.
pub const THREAD: &str = "autosave";

/// Writes a document.
type WriteDocument = Box<dyn Fn(&str) -> Result<(), String> + Send>;

/// Saves the newest document to a file.
#[derive(Debug)]
pub struct Autosave {
    path: PathBuf,
    files: UserFiles,
    writer: Option<AutosaveWriter>,
    state: Arc<Mutex<AutosaveState>>,
}

#[derive(Debug)]
struct AutosaveWriter {
    documents: SyncSender<String>,
    thread: JoinHandle<()>,
}

/// The state that the writer shares.
#[derive(Debug, Default)]
struct AutosaveState {
    /// Why the last document could not be written.
    last_error: Option<String>,
    results: AutosaveResults,
}

/// The results of the writes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AutosaveResults {
    /// The first error, and the number of failed writes.
    pub failed: Option<(String, u64)>,
    /// The longest duration of a write.
    pub longest: Duration,
}

impl Autosave {
    /// Makes an autosave for this file. Nothing is written yet.
    #[must_use]
    pub fn new(path: &Path, files: &UserFiles) -> Autosave {
        let (path, files) = (path.to_owned(), files.clone());
        Autosave { path, files, writer: None, state: Arc::default() }
    }

    /// Writes the document, unless the previous one is still being written. Returns the error of
    /// the last write.
    pub fn offer(&mut self, text: String) -> Option<String> {
        let (path, files) = (self.path.clone(), self.files.clone());
        self.offer_to(text, || {
            Box::new(move |text| files.keep(&path, text).map_err(|e| e.reason()))
        })
    }

    fn offer_to(&mut self, text: String, write: impl FnOnce() -> WriteDocument) -> Option<String> {
        if self.writer.is_none() {
            match start_writer(write(), &self.state) {
                Ok(writer) => self.writer = Some(writer),
                Err(e) => return Some(e.to_string()),
            }
        }
        let sent = self.writer.as_ref().map(|writer| writer.documents.try_send(text));
        if let Some(Err(TrySendError::Disconnected(_))) = sent {
            return Some("the writer thread has ended".to_owned());
        }
        self.state.lock().unwrap_or_else(PoisonError::into_inner).last_error.clone()
    }

    /// Waits for the last write. Returns the results of all writes.
    #[must_use]
    pub fn end(mut self) -> AutosaveResults {
        if let Some(AutosaveWriter { documents, thread }) = self.writer.take() {
            drop(documents);
            // The caller writes the last document anyway, so a panic of the thread does not matter.
            let _ = thread.join();
        }
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.results.clone()
    }
}

fn start_writer(
    write: WriteDocument,
    state: &Arc<Mutex<AutosaveState>>,
) -> std::io::Result<AutosaveWriter> {
    let (documents, received) = sync_channel(1);
    let state = Arc::clone(state);
    let builder = thread::Builder::new().name(THREAD.to_owned());
    let thread = builder.spawn(move || write_documents(&received, &write, &state))?;
    Ok(AutosaveWriter { documents, thread })
}

fn write_documents(
    documents: &Receiver<String>,
    write: &WriteDocument,
    state: &Mutex<AutosaveState>,
) {
    while let Ok(text) = documents.recv() {
        let began = Instant::now();
        let written = write(&text);
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        state.results.longest = state.results.longest.max(began.elapsed());
        if let Err(why) = &written {
            state.results.failed.get_or_insert_with(|| (why.clone(), 0)).1 += 1;
        }
        state.last_error = written.err();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_failed_write_is_reported_and_tried_again() {
        let full = Arc::new(AtomicBool::new(true));
        let saved = Arc::new(Mutex::new(String::new()));
        let mut keeper = Autosave::new(Path::new("/nonexistent"), &UserFiles::default());
        let offer = |keeper: &mut Autosave, number: u32| {
            let (full, saved) = (Arc::clone(&full), Arc::clone(&saved));
            keeper.offer_to(format!("document {number}"), || {
                Box::new(move |text| {
                    if full.load(Ordering::Relaxed) {
                        return Err("no room".to_owned());
                    }
                    text.clone_into(&mut saved.lock().unwrap());
                    Ok(())
                })
            })
        };
        let until = |keeper: &mut Autosave, wanted: Option<&str>| {
            (1..1000).any(|number| {
                thread::sleep(Duration::from_millis(5));
                offer(keeper, number).as_deref() == wanted
            })
        };
        assert!(until(&mut keeper, Some("no room")));
        full.store(false, Ordering::Relaxed);
        assert!(until(&mut keeper, None));
        let (why, times) = keeper.end().failed.unwrap();
        assert_eq!((why.as_str(), times > 0), ("no room", true));
        assert!(saved.lock().unwrap().starts_with("document "));
    }
}
