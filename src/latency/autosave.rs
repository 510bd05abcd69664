//! A measurement's document on the disk while it goes on: written whole once a second, so that a
//! power cut loses at most what came since. A thread of its own writes, because a disk may take
//! long and the figures are looked at meanwhile; it starts with the first document and so runs
//! where that was made, on housekeeping CPUs. What cannot be written is kept here and tried again.

use super::LatencyMeasurement;
use cpushield_linux::keep_document;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A disk that takes longer for a document than this is told about.
const SLOW: Duration = Duration::from_secs(2);
/// The name of the thread that writes.
pub const THREAD: &str = "latency-keep";

/// How a document is put on the disk.
type WriteDocument = Box<dyn Fn(&str) -> Result<(), String> + Send>;

/// Keeps the newest document on the disk.
#[derive(Debug)]
pub struct Autosave {
    path: PathBuf,
    writer: Option<AutosaveWriter>,
    fate: Arc<Mutex<AutosaveState>>,
}

#[derive(Debug)]
struct AutosaveWriter {
    tell: SyncSender<String>,
    thread: JoinHandle<()>,
}

/// What became of the documents.
#[derive(Debug, Default)]
struct AutosaveState {
    /// Why the last one could not be written.
    trouble: Option<String>,
    /// The first reason, and how many could not be written.
    failed: Option<(String, u64)>,
    /// The longest time that one took.
    longest: Duration,
}

impl Autosave {
    /// One for this file. Nothing is written yet.
    #[must_use]
    pub fn new(path: &Path) -> Autosave {
        Autosave { path: path.to_owned(), writer: None, fate: Arc::default() }
    }

    /// Writes what was seen so far, unless the one before is still being written. Gives the reason
    /// when the last one could not be written.
    pub fn offer(&mut self, latency: &LatencyMeasurement) -> Option<String> {
        let path = self.path.clone();
        self.offer_to(latency, || {
            Box::new(move |text| keep_document(&path, text).map_err(|e| e.reason()))
        })
    }

    fn offer_to(
        &mut self,
        latency: &LatencyMeasurement,
        write: impl FnOnce() -> WriteDocument,
    ) -> Option<String> {
        let text = match text(latency) {
            Ok(text) => text,
            Err(why) => return Some(why),
        };
        if self.writer.is_none() {
            match start(write(), &self.fate) {
                Ok(writer) => self.writer = Some(writer),
                Err(e) => return Some(e.to_string()),
            }
        }
        let told = self.writer.as_ref().map(|writer| writer.tell.try_send(text));
        if let Some(Err(TrySendError::Disconnected(_))) = told {
            return Some("the thread that writes is gone".to_owned());
        }
        self.fate.lock().unwrap_or_else(PoisonError::into_inner).trouble.clone()
    }

    /// Waits for the last one, and tells what is to be known of them.
    #[must_use]
    pub fn end(mut self) -> Vec<String> {
        if let Some(AutosaveWriter { tell, thread }) = self.writer.take() {
            drop(tell);
            // A thread that panicked has written nothing more; the last document is written anyway.
            let _ = thread.join();
        }
        let fate = self.fate.lock().unwrap_or_else(PoisonError::into_inner);
        let mut notes = Vec::new();
        if let Some((why, times)) = &fate.failed {
            notes.push(format!(
                "what was seen so far could not be saved {times} times ({why}); a power cut then \
                 would have lost it"
            ));
        }
        if fate.longest > SLOW {
            let seconds = fate.longest.as_secs();
            notes.push(format!(
                "the disk took {seconds} s to save what was seen so far; a power cut then would \
                 have lost as much"
            ));
        }
        notes
    }
}

/// The document as it is saved.
///
/// # Errors
/// A defect of this program.
pub fn text(latency: &LatencyMeasurement) -> Result<String, String> {
    let text = serde_json::to_string_pretty(latency);
    text.map(|text| text + "\n").map_err(|e| format!("cannot make JSON: {e}"))
}

fn start(
    write: WriteDocument,
    fate: &Arc<Mutex<AutosaveState>>,
) -> std::io::Result<AutosaveWriter> {
    let (tell, told) = sync_channel(1);
    let fate = Arc::clone(fate);
    let work = move || serve(&told, &write, &fate);
    let thread = thread::Builder::new().name(THREAD.to_owned()).spawn(work)?;
    Ok(AutosaveWriter { tell, thread })
}

fn serve(told: &Receiver<String>, write: &WriteDocument, fate: &Mutex<AutosaveState>) {
    while let Ok(text) = told.recv() {
        let began = Instant::now();
        let written = write(&text);
        let mut fate = fate.lock().unwrap_or_else(PoisonError::into_inner);
        fate.longest = fate.longest.max(began.elapsed());
        if let Err(why) = &written {
            fate.failed.get_or_insert_with(|| (why.clone(), 0)).1 += 1;
        }
        fate.trouble = written.err();
    }
}

#[cfg(test)]
mod tests {
    use super::super::measure::tests::latency_of;
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_disk_that_is_full_for_a_while_is_told_and_tried_again() {
        let full = Arc::new(AtomicBool::new(true));
        let kept = Arc::new(Mutex::new(String::new()));
        let mut keeper = Autosave::new(Path::new("/nonexistent"));
        let offer = |keeper: &mut Autosave, samples| {
            let (full, kept) = (Arc::clone(&full), Arc::clone(&kept));
            keeper.offer_to(&latency_of(&[(1_000, samples)]), || {
                Box::new(move |text| {
                    if full.load(Ordering::Relaxed) {
                        return Err("no room".to_owned());
                    }
                    text.clone_into(&mut kept.lock().unwrap());
                    Ok(())
                })
            })
        };
        let until = |keeper: &mut Autosave, wanted: Option<&str>| {
            (1..1000).any(|samples| {
                thread::sleep(Duration::from_millis(5));
                offer(keeper, samples).as_deref() == wanted
            })
        };
        assert!(until(&mut keeper, Some("no room")));
        full.store(false, Ordering::Relaxed);
        assert!(until(&mut keeper, None));
        let notes = keeper.end();
        assert!(notes[0].contains("times (no room)") && notes.len() == 1, "{notes:?}");
        assert!(kept.lock().unwrap().contains("\"samples\""));
    }
}
