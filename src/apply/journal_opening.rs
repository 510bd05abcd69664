//! Writes the lines that begin a join or an amendment to the journal of active shields. They are on
//! the disk before the first change, or the journal is as it was.

use super::journal::JOURNAL;
use cpushield_linux::error::ErrorCause;
use cpushield_linux::files::store::Appender;
use cpushield_linux::{Error, Store};

/// Appends `lines` to the first `whole` bytes of the journal.
///
/// # Errors
/// The lines could not be written, and the journal is as before. Where it could not be shortened to
/// that, the error says that an undo is needed.
pub(super) fn append_opening(
    store: &Store,
    whole: u64,
    lines: &[Vec<u8>],
) -> Result<Appender, Error> {
    let mut log = store.append(JOURNAL, whole)?;
    let written = lines.iter().try_for_each(|line| log.add(line)).and_then(|()| log.sync());
    let Err(error) = written else { return Ok(log) };
    // With the line that begins a change, every later apply would wait for an undo.
    let Err(second) = log.truncate(whole) else { return Err(error) };
    let (first, second) = (error.reason(), second.reason());
    let cause = ErrorCause::Message(format!(
        "{first}; the new lines could not be removed again ({second}): run `cpushield undo`"
    ));
    Err(Error { cause, ..error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_failed_write_the_journal_is_as_before() {
        let name = format!("cpushield-opening-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let store = Store::new(&dir);
        store.replace(JOURNAL, b"one\n").unwrap();
        let lines = [b"two\n".to_vec(), b"three\n".to_vec()];
        let text = || String::from_utf8(store.read(JOURNAL).unwrap().unwrap()).unwrap();
        // Opening the journal, each line and the sync take one write each.
        for writes in 0..4 {
            let full = store.clone().with_room_for(writes);
            let error = append_opening(&full, 4, &lines).unwrap_err();
            assert_eq!(error.errno(), Some(28), "room for {writes} writes: {error}");
            assert_eq!(text(), "one\n", "room for {writes} writes");
        }
        drop(append_opening(&store, 4, &lines).unwrap());
        assert_eq!(text(), "one\ntwo\nthree\n");
        std::fs::remove_dir_all(dir).unwrap();
    }
}
