//! An earlier apply whose words a later one replaces: its files are undone first, and written again
//! if the later one fails. Also the menu without its words, for the plan of the later one.

use super::entry_changes::find_changes;
use super::error::BootError;
use super::journal::{read_journal, remove_journal, save_journal};
use super::line;
use super::loaders::{self, BootLoader, FoundLoader, InstalledLoader};
use super::present_files::{changed_since_plan, check_space};
use super::restore::{find_loader, restore_texts, restore_units, strip_later_files, text_before};
use super::trial_unit::is_unit;
use crate::documents::boot::{
    BootJournal, BootPlan, EntryChange, FileBytes, KernelWords, RemovedParameters, SavedFile,
};
use crate::refusal::UserError;
use cpushield_linux::{Host, Store};

/// The files of an apply or a trial, without its units, each with the text before it and the
/// present one.
///
/// # Errors
/// A file cannot be read.
pub(super) fn read_files(
    host: &Host,
    loader: &dyn BootLoader,
    journal: &BootJournal,
) -> Result<Vec<SavedFile>, BootError> {
    let wrap = |bytes: &[u8]| FileBytes::new(bytes);
    let mut files = Vec::new();
    for saved in journal.files.iter().filter(|saved| !is_unit(&saved.path)) {
        let now = host.read_bytes_if_present(&saved.path)?;
        let before = text_before(host, loader, (journal, saved), now.as_deref());
        let (original, left) = (before.as_deref().map(wrap), now.as_deref().map(wrap));
        let access = if now.is_some() { host.access(&saved.path)? } else { saved.access() };
        let (path, mode, owner) = (saved.path.clone(), access.mode, access.owner);
        files.push(SavedFile { path, original, mode, owner, left });
    }
    if journal.trial.is_some() {
        return Ok(files);
    }
    let known: Vec<&str> = journal.files.iter().map(|saved| saved.path.as_str()).collect();
    for (path, before) in strip_later_files(host, loader, &known, journal) {
        let (left, access) = (Some(wrap(&host.read_bytes(&path)?)), host.access(&path)?);
        let (original, mode, owner) = (Some(wrap(&before)), access.mode, access.owner);
        files.push(SavedFile { path, original, mode, owner, left });
    }
    Ok(files)
}

/// Undoes the apply that this journal is written over. The journal on the disk has its texts first.
///
/// # Errors
/// A file cannot be written, or another program has changed one.
pub(super) fn remove_earlier(
    host: &Host,
    store: &Store,
    loader: &dyn BootLoader,
    journal: &mut BootJournal,
) -> Result<(), BootError> {
    let Some(earlier) = &mut journal.earlier else { return Ok(()) };
    if earlier.removed.is_empty() {
        let removed = read_files(host, loader, &earlier.journal)?;
        for SavedFile { path, original, left, .. } in &removed {
            let [before, now] = [original, left].map(|it| it.as_ref().and_then(FileBytes::get));
            let size = [&before, &now].map(|it| it.as_ref().map_or(0, Vec::len));
            check_space(host, path, size.into_iter().max().unwrap_or(0) as u64)?;
            // What was created is erased.
            if before.is_none() && now.is_some_and(|now| !loader.is_ours(path, &now)) {
                return Err(BootError::Foreign { path: path.clone() });
            }
        }
        earlier.removed = removed;
    }
    save_journal(store, journal)?;
    remove(host, journal.removed())
}

/// Writes the texts before an apply.
///
/// # Errors
/// As [`remove_earlier`].
pub(super) fn remove(host: &Host, files: &[SavedFile]) -> Result<(), BootError> {
    exchange(host, files.iter().rev(), |saved| [&saved.left, &saved.original])
}

/// Takes back an apply or a trial: what it is written over is in force again, with its journal;
/// without that, there is no journal.
pub(super) fn take_back(
    host: &Host,
    store: &Store,
    journal: &BootJournal,
) -> Result<RemovedParameters, BootError> {
    let loader = find_loader(store, journal)?;
    let mut undone = restore_texts(host, loader, journal)?;
    let put_back = exchange(host, journal.removed().iter(), |saved| [&saved.original, &saved.left]);
    if put_back.as_ref().is_err_and(UserError::is_stop) {
        return put_back.map(|()| undone);
    }
    restore_units(host, loader, journal, &mut undone)?;
    match &journal.earlier {
        Some(earlier) => save_journal(store, &earlier.journal)?,
        None => remove_journal(store)?,
    }
    put_back.map(|()| undone)
}

/// Replaces one text of each file by the other. A file that has neither stays as it is.
fn exchange<'a>(
    host: &Host,
    files: impl Iterator<Item = &'a SavedFile>,
    texts: impl Fn(&'a SavedFile) -> [&'a Option<FileBytes>; 2],
) -> Result<(), BootError> {
    let mut foreign = Vec::new();
    for saved in files {
        let now = host.read_bytes_if_present(&saved.path)?;
        let [from, to] = texts(saved).map(|text| text.as_ref().and_then(FileBytes::get));
        match to {
            to if now == to => {}
            _ if now != from => foreign.push(saved.path.as_str()),
            Some(bytes) => host.replace_file(&saved.path, &bytes, saved.access())?,
            None => host.erase_file(&saved.path)?,
        }
    }
    if foreign.is_empty() {
        return Ok(());
    }
    let paths = foreign.join(", ");
    let why = format!("another process changed these files, so they were not restored: {paths}");
    Err(BootError::wrong(why, None))
}

/// The loader of this machine with its menu as it was before an earlier apply: without its words.
///
/// # Errors
/// The files of a loader cannot be read or parsed, or the journal is invalid.
pub fn find_menu(host: &Host, store: &Store) -> Result<Option<InstalledLoader>, BootError> {
    let mut menu = loaders::find(host)?;
    let journal = match read_journal(store) {
        // A user without the right to read the journal sees the menu as it is.
        Err(BootError::Access(error)) if error.is_denied() => None,
        journal => journal?,
    };
    if let (Some((_, found)), Some(journal)) = (&mut menu, journal) {
        let earlier = journal.earlier.as_ref().map(|earlier| &*earlier.journal);
        remove_words(found, earlier.unwrap_or(&journal));
    }
    Ok(menu)
}

/// Checks that the entries of the chosen kernels are those of the plan.
pub(super) fn check_menu(
    host: &Host,
    store: &Store,
    loader: &dyn BootLoader,
    plan: &BootPlan,
) -> Result<(), BootError> {
    let chosen = plan.kernels.iter().filter(|kernel| kernel.chosen);
    let versions: Vec<&str> = chosen.map(|kernel| kernel.version.as_str()).collect();
    let found = find_menu(host, store)?.map(|(_, found)| found).unwrap_or_default();
    let now = find_changes(loader, &found, &versions, &plan.parameters);
    let line = |change: &EntryChange| (change.version.clone(), change.kept.clone());
    match now.iter().map(line).eq(plan.entries.iter().map(line)) {
        true => Ok(()),
        false => Err(changed_since_plan("the boot menu")),
    }
}

/// Removes the words of an earlier apply from the entries of a menu.
fn remove_words(found: &mut FoundLoader, journal: &BootJournal) {
    // A trial over the earlier apply has entries of cpushield with other words.
    let groups = &journal.groups;
    let own = found.entries.iter().filter(|it| it.ours && it.has_words(groups));
    let own: Vec<String> = own.map(|it| it.version.clone()).collect();
    for entry in found.entries.iter_mut().filter(|entry| !entry.ours) {
        let words = KernelWords::of(groups, &entry.version).unwrap_or(&journal.words);
        let args = match (own.is_empty(), journal.kernels.contains(&entry.version)) {
            // The words are in entries of cpushield, and the other entries do not have them.
            (false, _) => {
                if own.contains(&entry.version) {
                    entry.replaced = words.to_vec();
                }
                continue;
            }
            (true, has_words) if has_words || found.covers_later => {
                line::without_front(&entry.args, words)
            }
            (true, _) => continue,
        };
        let before = &entry.args;
        let removed =
            words.iter().filter(|word| line::has(before, word) && !line::has(&args, word));
        entry.replaced = removed.cloned().collect();
        entry.args = args;
    }
}
