//! Restores what [`super::write`] wrote: each boot file to its original bytes, as its journal has
//! them. A file that another program changed since loses our parameters only.

use super::error::BootError;
use super::journal::{invalid_journal, remove_journal, save_journal};
use super::loaders::{self, BootLoader, MenuGenerator, generator_of};
use super::{own_unit, trial_unit};
use crate::documents::boot::{
    BootJournal, EarlierJournal, EarlierState, FileBytes, FileFate, RemovedParameters, SavedFile,
    UndoNote,
};
use cpushield_linux::{Host, Store};

/// Cancels the one boot of the trial's entry.
pub(super) fn disarm_trial(
    host: &Host,
    loader: &dyn BootLoader,
    journal: &BootJournal,
) -> Result<(), BootError> {
    journal.trial.as_ref().map_or(Ok(()), |trial| loader.cancel_boot_once(host, &trial.entry))
}

/// Restores every file of the journal, then removes the journal.
pub(super) fn restore_all(
    host: &Host,
    store: &Store,
    journal: &BootJournal,
) -> Result<RemovedParameters, BootError> {
    let loader = find_loader(store, journal)?;
    let mut undone = RemovedParameters::default();
    let words = words_to_remove(journal);
    for saved in journal.files.iter().filter(|saved| !trial_unit::is_unit(&saved.path)) {
        let fate = restore_file(host, loader, saved, &words, &mut undone.notes)?;
        undone.files.push((saved.path.clone(), fate));
    }
    let known: Vec<&str> = journal.files.iter().map(|saved| saved.path.as_str()).collect();
    for (path, bytes) in loader.strip_later_files(host, &known, &words) {
        host.replace_file(&path, &bytes, host.access(&path)?)?;
        undone.files.push((path, FileFate::WordsRemoved));
    }
    restore_units(host, loader, journal, &mut undone)?;
    remove_journal(store)?;
    Ok(undone)
}

/// The loader that a journal names.
///
/// # Errors
/// This version does not know it.
pub(super) fn find_loader(
    store: &Store,
    journal: &BootJournal,
) -> Result<&'static dyn BootLoader, BootError> {
    loaders::named(&journal.loader).ok_or_else(|| {
        let why =
            format!("this version of cpushield does not support boot loader {:?}", journal.loader);
        invalid_journal(store, why)
    })
}

/// Removes the units of a trial. They come last: after a kill before this, the next boot restores
/// the rest.
fn restore_units(
    host: &Host,
    loader: &dyn BootLoader,
    journal: &BootJournal,
    undone: &mut RemovedParameters,
) -> Result<(), BootError> {
    for unit in trial_unit::UNITS {
        let path = own_unit::path(unit);
        let Some(saved) = journal.files.iter().find(|saved| saved.path == path) else { continue };
        own_unit::disable(host, unit);
        let fate = restore_file(host, loader, saved, &[], &mut undone.notes)?;
        undone.files.push((saved.path.clone(), fate));
    }
    Ok(())
}

/// Restores what an earlier apply wrote, after a trial over it, with its journal.
pub(super) fn restore_earlier(
    host: &Host,
    store: &Store,
    journal: &BootJournal,
    earlier: &EarlierJournal,
) -> Result<RemovedParameters, BootError> {
    let loader = find_loader(store, journal)?;
    let mut undone = restore_earlier_texts(host, loader, journal, earlier.state)?;
    restore_units(host, loader, journal, &mut undone)?;
    save_journal(store, &earlier.journal)?;
    Ok(undone)
}

/// Restores the texts of an earlier apply, and leaves the journal and the units of the trial.
pub(super) fn restore_earlier_texts(
    host: &Host,
    loader: &dyn BootLoader,
    journal: &BootJournal,
    state: EarlierState,
) -> Result<RemovedParameters, BootError> {
    let mut undone = RemovedParameters::default();
    let files = journal.files.iter().filter(|saved| !trial_unit::is_unit(&saved.path));
    // What is generated needs the other files. The last one written goes first: it names others.
    let (generated, edited): (Vec<_>, Vec<_>) =
        files.partition(|saved| generator_of(loader, &saved.path).is_some());
    for saved in edited.into_iter().rev().chain(generated) {
        let mut saved = saved.clone();
        if state == EarlierState::Replaced {
            saved.original = saved.replaced.take();
        }
        let fate = restore_earlier_text(host, loader, &saved, &journal.words, &mut undone.notes)?;
        undone.files.push((saved.path, fate));
    }
    Ok(undone)
}

/// Restores one file to its `original`, which has the words of the earlier apply. A file that
/// another program changed since loses what the trial wrote only.
fn restore_earlier_text(
    host: &Host,
    loader: &dyn BootLoader,
    saved: &SavedFile,
    words: &[String],
    notes: &mut Vec<UndoNote>,
) -> Result<FileFate, BootError> {
    let path = saved.path.as_str();
    let now = host.read_bytes_if_present(path)?;
    let original = saved.original.as_ref().and_then(FileBytes::get);
    if now == original {
        return Ok(FileFate::AlreadySo);
    }
    let is_only_ours = now == saved.left.as_ref().and_then(FileBytes::get);
    let generator = generator_of(loader, path);
    let changed = match (original, now, generator) {
        (None, _, _) => {
            if !is_only_ours {
                notes.push(UndoNote::ChangedFileRemoved { path: path.to_owned() });
            }
            host.erase_file(path)?;
            return Ok(FileFate::Removed);
        }
        (Some(original), now, _) if is_only_ours || now.is_none() => {
            host.replace_file(path, &original, saved.access())?;
            return Ok(FileFate::Restored);
        }
        (Some(_), _, Some(generator)) => {
            return regenerate(host, generator, saved, &|text| loader.without_trial(text));
        }
        (Some(_), now, None) => {
            let now = now.unwrap_or_default();
            match loader.without_trial(&now) {
                rest if rest != now => rest,
                _ => loader.strip_words(&now, words).unwrap_or(now),
            }
        }
    };
    let access = host.access(path).unwrap_or_else(|_| saved.access());
    host.replace_file(path, &changed, access)?;
    Ok(FileFate::WordsRemoved)
}

/// Generates a menu again that another program has generated since, for example after a kernel was
/// installed. `without` removes the entries that it must no longer have.
fn regenerate(
    host: &Host,
    generator: &dyn MenuGenerator,
    saved: &SavedFile,
    without: &dyn Fn(&[u8]) -> Vec<u8>,
) -> Result<FileFate, BootError> {
    let path = saved.path.as_str();
    let generated = generator.generate(host)?;
    if without(&generated) != generated {
        return Err(BootError::wrong(
            format!("{path} would still contain cpushield's entries"),
            None,
        ));
    }
    let access = host.access(path).unwrap_or_else(|_| saved.access());
    host.replace_file(path, &generated, access)?;
    Ok(FileFate::Regenerated)
}

/// The words that the files may have: while an apply replaces those of an earlier one, both.
fn words_to_remove(journal: &BootJournal) -> Vec<String> {
    let mut words = journal.words.clone();
    if let Some(change) = journal.history.last().filter(|_| !journal.complete) {
        words.extend(change.before.iter().filter(|word| !journal.words.contains(word)).cloned());
    }
    words
}

/// Whether a file has only what we wrote, so that it can get its original bytes.
fn is_only_ours(loader: &dyn BootLoader, saved: &SavedFile, now: Option<&[u8]>) -> bool {
    let is = |bytes: &Option<FileBytes>| bytes.as_ref().and_then(FileBytes::get).as_deref() == now;
    let original = saved.original.as_ref().and_then(FileBytes::get);
    is(&saved.left)
        || saved.replaced.is_some() && is(&saved.replaced)
        || generator_of(loader, &saved.path)
            .is_some_and(|generator| now.map(|now| generator.without_ours(now)) == original)
}

/// The text that a file had before its words were written; `None`: it did not exist. A file that
/// another program changed since keeps that change.
pub(super) fn text_before(
    loader: &dyn BootLoader,
    saved: &SavedFile,
    now: Option<&[u8]>,
    words: &[String],
) -> Option<Vec<u8>> {
    let original = saved.original.as_ref().and_then(FileBytes::get);
    let generator = generator_of(loader, &saved.path);
    if original.is_none() && generator.is_none() || is_only_ours(loader, saved, now) {
        return original;
    }
    let now = now?;
    match generator {
        Some(generator) => Some(generator.without_ours(now)),
        None => Some(loader.strip_words(now, words).unwrap_or_else(|| now.to_vec())),
    }
}

fn restore_file(
    host: &Host,
    loader: &dyn BootLoader,
    saved: &SavedFile,
    words: &[String],
    notes: &mut Vec<UndoNote>,
) -> Result<FileFate, BootError> {
    let path = saved.path.as_str();
    let now = host.read_bytes_if_present(path)?;
    let original = saved.original.as_ref().and_then(FileBytes::get);
    let dir = path.rsplit_once('/').map_or("/", |(dir, _)| dir);
    if now.is_none() && original.is_some() && !host.exists(dir) {
        return Err(BootError::wrong(
            format!("cannot restore {path}: {dir} does not exist"),
            Some("mount its file system, then: cpushield boot undo"),
        ));
    }
    if now == original {
        return Ok(FileFate::AlreadySo);
    }
    let only_ours = is_only_ours(loader, saved, now.as_deref());
    match (original, generator_of(loader, path)) {
        (Some(original), _) if only_ours => {
            host.replace_file(path, &original, saved.access())?;
            Ok(FileFate::Restored)
        }
        // A file that we created is removed, even when it was changed since.
        (None, None) => {
            if !only_ours {
                notes.push(UndoNote::ChangedFileRemoved { path: path.to_owned() });
            }
            host.erase_file(path)?;
            Ok(FileFate::Removed)
        }
        // Without our entries there is nothing to remove.
        (_, Some(generator))
            if now.as_ref().is_some_and(|now| generator.without_ours(now) == *now) =>
        {
            Ok(FileFate::Drifted)
        }
        (_, Some(generator)) => {
            regenerate(host, generator, saved, &|text| generator.without_ours(text))
        }
        // Keeps what other programs wrote since, and removes our words.
        (Some(_), None) => {
            let stripped = now.as_ref().and_then(|now| loader.strip_words(now, words));
            let Some(stripped) = stripped else { return Ok(FileFate::Drifted) };
            host.replace_file(path, &stripped, host.access(path)?)?;
            Ok(FileFate::WordsRemoved)
        }
    }
}
