//! Restores what [`super::write`] wrote: each boot file to its original bytes, as its journal has
//! them. A file that another program changed since loses our parameters only.

use super::error::BootError;
use super::journal::invalid_journal;
use super::loaders::{self, BootLoader, MenuGenerator, generator_of};
use super::{own_unit, trial_unit};
use crate::documents::boot::{
    BootJournal, FileBytes, FileFate, KernelWords, RemovedParameters, SavedFile, UndoNote,
};
use cpushield_linux::{Host, Store};
use std::cmp::Reverse;

/// Cancels the one boot of the trial's entry.
pub(super) fn disarm_trial(
    host: &Host,
    loader: &dyn BootLoader,
    journal: &BootJournal,
) -> Result<(), BootError> {
    journal.trial.as_ref().map_or(Ok(()), |trial| loader.cancel_boot_once(host, &trial.entry))
}

/// Restores every file of the journal, and leaves the journal and the units of a trial.
pub(super) fn restore_texts(
    host: &Host,
    loader: &dyn BootLoader,
    journal: &BootJournal,
) -> Result<RemovedParameters, BootError> {
    let mut undone = RemovedParameters::default();
    let files = journal.files.iter().filter(|saved| !trial_unit::is_unit(&saved.path));
    // What is generated needs the other files. The last one written goes first: it names others.
    let (generated, edited): (Vec<_>, Vec<_>) =
        files.partition(|saved| generator_of(loader, &saved.path).is_some());
    for saved in edited.into_iter().rev().chain(generated) {
        let fate = restore_file(host, loader, saved, journal, &mut undone.notes)?;
        undone.files.push((saved.path.clone(), fate));
    }
    if !journal.is_layer() {
        let known = journal.files.iter().chain(journal.removed());
        let known: Vec<&str> = known.map(|saved| saved.path.as_str()).collect();
        for (path, bytes) in strip_later_files(host, loader, &known, journal) {
            host.replace_file(&path, &bytes, host.access(&path)?)?;
            undone.files.push((path, FileFate::WordsRemoved));
        }
    }
    Ok(undone)
}

/// Files with our words that are not in the journal, because they were created later; each with
/// its bytes without the words.
pub(super) fn strip_later_files(
    host: &Host,
    loader: &dyn BootLoader,
    known: &[&str],
    journal: &BootJournal,
) -> Vec<(String, Vec<u8>)> {
    let mut groups = journal.groups.clone();
    // The words of one group may begin with those of another one.
    groups.sort_by_key(|group| Reverse(group.words.len()));
    let mut found: Vec<(String, Vec<u8>)> = Vec::new();
    for KernelWords { words, .. } in groups {
        let known = known.iter().copied().chain(found.iter().map(|(path, _)| path.as_str()));
        let more = loader.strip_later_files(host, &known.collect::<Vec<_>>(), &words);
        found.extend(more);
    }
    found
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
pub(super) fn restore_units(
    host: &Host,
    loader: &dyn BootLoader,
    journal: &BootJournal,
    undone: &mut RemovedParameters,
) -> Result<(), BootError> {
    for unit in trial_unit::UNITS {
        let path = own_unit::path(unit);
        let Some(saved) = journal.files.iter().find(|saved| saved.path == path) else { continue };
        own_unit::disable(host, unit);
        let fate = restore_file(host, loader, saved, journal, &mut undone.notes)?;
        undone.files.push((saved.path.clone(), fate));
    }
    Ok(())
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

/// A generated text without the entries of this apply; `None` for a file that is not generated.
pub(super) fn without_entries(
    loader: &dyn BootLoader,
    journal: &BootJournal,
    (path, text): (&str, &[u8]),
) -> Option<Vec<u8>> {
    let generator = generator_of(loader, path)?;
    Some(match journal.is_layer() {
        true => loader.without_trial(text),
        false => generator.without_ours(text),
    })
}

/// Whether a file has only what we wrote, so that it can get its original bytes.
fn is_only_ours(
    loader: &dyn BootLoader,
    journal: &BootJournal,
    saved: &SavedFile,
    now: Option<&[u8]>,
) -> bool {
    let [original, left] =
        [&saved.original, &saved.left].map(|it| it.as_ref().and_then(FileBytes::get));
    let rest = now.and_then(|now| without_entries(loader, journal, (&saved.path, now)));
    // A kill may have interrupted the return of an earlier apply.
    let is_earlier = |it: &SavedFile| {
        it.path == saved.path && it.left.as_ref().and_then(FileBytes::get).as_deref() == now
    };
    [&left, &original].map(Option::as_deref).contains(&now)
        || rest.is_some() && rest == original
        || journal.removed().iter().any(is_earlier)
}

/// The text that a file had before its words were written; `None`: it did not exist. A file that
/// another program changed since keeps that change.
pub(super) fn text_before(
    host: &Host,
    loader: &dyn BootLoader,
    (journal, saved): (&BootJournal, &SavedFile),
    now: Option<&[u8]>,
) -> Option<Vec<u8>> {
    let original = saved.before();
    let is_generated = generator_of(loader, &saved.path).is_some();
    if original.is_none() && !is_generated || is_only_ours(loader, journal, saved, now) {
        return original;
    }
    let now = now?;
    without_entries(loader, journal, (&saved.path, now))
        .or_else(|| strip(host, loader, (journal, saved), now))
        .or_else(|| Some(now.to_vec()))
}

/// A text that another program changed since, without our words; `None` when it has none.
fn strip(
    host: &Host,
    loader: &dyn BootLoader,
    record: (&BootJournal, &SavedFile),
    now: &[u8],
) -> Option<Vec<u8>> {
    match loader.without_trial(now) {
        rest if rest != now => Some(rest),
        _ => loaders::lines_of(loader)?.strip_words(host, record, now),
    }
}

fn restore_file(
    host: &Host,
    loader: &dyn BootLoader,
    saved: &SavedFile,
    journal: &BootJournal,
    notes: &mut Vec<UndoNote>,
) -> Result<FileFate, BootError> {
    let path = saved.path.as_str();
    let now = host.read_bytes_if_present(path)?;
    let original = saved.before();
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
    let only_ours = is_only_ours(loader, journal, saved, now.as_deref());
    let without = |text: &[u8]| without_entries(loader, journal, (path, text)).unwrap_or_default();
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
        (_, Some(_)) if now.as_ref().is_some_and(|now| without(now) == *now) => {
            Ok(FileFate::Drifted)
        }
        (_, Some(generator)) => regenerate(host, generator, saved, &without),
        // Keeps what other programs wrote since, and removes our words.
        (Some(_), None) => {
            let stripped = now.and_then(|now| strip(host, loader, (journal, saved), &now));
            let Some(stripped) = stripped else { return Ok(FileFate::Drifted) };
            host.replace_file(path, &stripped, host.access(path)?)?;
            Ok(FileFate::WordsRemoved)
        }
    }
}
