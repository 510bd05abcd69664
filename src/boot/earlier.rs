//! An earlier apply whose words a later one replaces: [`BootJournal`] → the texts that the boot
//! files had before it, and the menu without its words. The later apply adds its words to these
//! texts, so that one undo restores the text before the first change. If the later apply fails,
//! [`EarlierApply::put_back`] restores what the earlier one wrote.

use super::error::BootError;
use super::journal::{read_journal, save_journal};
use super::line;
use super::loaders::{
    self, BootFilePlan, BootLoader, EarlierTexts, FileEdit, FoundLoader, InstalledLoader,
    generator_of,
};
use super::restore::text_before;
use crate::documents::boot::{BootJournal, FileBytes, SavedFile};
use cpushield_linux::{FileAttributes, Host, Store};
use std::collections::BTreeMap;

/// A file as it is now; `None`: it does not exist.
type PresentFile = Option<(Vec<u8>, FileAttributes)>;

/// What an earlier apply has written, and the texts before it.
pub(super) struct EarlierApply {
    pub(super) journal: BootJournal,
    /// The files before the earlier apply.
    pub(super) texts: EarlierTexts,
    /// The same files as they are now, and those that only the later apply writes or removes.
    present: BTreeMap<String, PresentFile>,
}

impl EarlierApply {
    /// Reads the files that an earlier apply has written.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(super) fn read(
        host: &Host,
        loader: &dyn BootLoader,
        journal: BootJournal,
    ) -> Result<EarlierApply, BootError> {
        let (mut texts, mut present) = (EarlierTexts::new(), BTreeMap::new());
        for saved in &journal.files {
            let now = read_present(host, &saved.path)?;
            let bytes = now.as_ref().map(|(bytes, _)| bytes.as_slice());
            texts.insert(saved.path.clone(), text_before(loader, saved, bytes, &journal.words));
            present.insert(saved.path.clone(), now);
        }
        let known: Vec<&str> = journal.files.iter().map(|saved| saved.path.as_str()).collect();
        for (path, bytes) in loader.strip_later_files(host, &known, &journal.words) {
            present.insert(path.clone(), read_present(host, &path)?);
            texts.insert(path, Some(bytes));
        }
        Ok(EarlierApply { journal, texts, present })
    }

    /// Reads the other files that the later apply writes or removes, before its first write.
    /// Without them, [`EarlierApply::put_back`] would leave what it has written there.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(super) fn read_planned(
        &mut self,
        host: &Host,
        file_plan: &BootFilePlan,
    ) -> Result<(), BootError> {
        for path in file_plan.paths() {
            if !self.present.contains_key(path) {
                self.present.insert(path.clone(), read_present(host, path)?);
            }
        }
        Ok(())
    }

    /// Adds the files of the earlier apply that a plan does not mention: they get back the text
    /// that they had before it.
    pub(super) fn add_leftovers(&self, loader: &dyn BootLoader, plan: &mut BootFilePlan) {
        for (path, text) in &self.texts {
            let present = self.present.get(path).and_then(Option::as_ref);
            let is_planned =
                plan.paths().any(|planned| planned == path) || generator_of(loader, path).is_some();
            match (text, present) {
                _ if is_planned => {}
                (Some(text), present) if present.map(|(bytes, _)| bytes) != Some(text) => {
                    let mode = present.map_or(0o644, |(_, attributes)| attributes.mode);
                    let (path, bytes) = (path.clone(), text.clone());
                    plan.edits.push(FileEdit { path, bytes, mode });
                }
                (None, Some(_)) => plan.removed.push(path.clone()),
                _ => {}
            }
        }
    }

    /// The files of the later apply as its journal has them: with the originals of the earlier one,
    /// and with those that only the earlier one has written.
    pub(super) fn merge_files(&self, planned: Vec<SavedFile>) -> Vec<SavedFile> {
        let mut files = planned;
        for saved in &mut files {
            let Some(text) = self.texts.get(&saved.path) else { continue };
            saved.original = text.as_deref().map(FileBytes::new);
            if let Some(first) = self.journal.files.iter().find(|it| it.path == saved.path) {
                (saved.mode, saved.owner) = (first.mode, first.owner);
            }
        }
        for saved in &self.journal.files {
            if files.iter().all(|it| it.path != saved.path) {
                let text = self.texts.get(&saved.path).and_then(Option::as_deref);
                let original = text.map(FileBytes::new);
                files.push(SavedFile { original, left: None, ..saved.clone() });
            }
        }
        for saved in &mut files {
            let present = self.present.get(&saved.path).and_then(Option::as_ref);
            saved.replaced = present.map(|(bytes, _)| FileBytes::new(bytes));
        }
        files
    }

    /// Whether a later apply gives the same words to the same kernels, and only the default entry
    /// differs.
    pub(super) fn is_moved_by(&self, later: &BootJournal) -> bool {
        self.journal.words == later.words && self.journal.rule == later.rule
    }

    /// Restores every file that the later apply has changed, with the journal of the earlier one. A
    /// file that another program has changed stays as it is.
    ///
    /// # Errors
    /// A file cannot be written, or another program has changed one.
    pub(super) fn put_back(
        &self,
        host: &Host,
        store: &Store,
        later: &BootJournal,
    ) -> Result<(), BootError> {
        let mut foreign = Vec::new();
        for (path, present) in &self.present {
            let now = read_present(host, path)?;
            if now == *present {
                continue;
            }
            let saved = later.files.iter().find(|saved| saved.path == *path);
            let left = saved.and_then(|saved| saved.left.as_ref()).and_then(FileBytes::get);
            if now.is_some_and(|(bytes, _)| Some(bytes) != left) {
                foreign.push(path.as_str());
                continue;
            }
            match present {
                Some((bytes, attributes)) => host.replace_file(path, bytes, *attributes)?,
                None => host.erase_file(path)?,
            }
        }
        save_journal(store, &self.journal)?;
        match foreign.is_empty() {
            true => Ok(()),
            false => {
                let paths = foreign.join(", ");
                let why = format!(
                    "another process changed these files, so they were not restored: {paths}"
                );
                Err(BootError::wrong(why, None))
            }
        }
    }
}

fn read_present(host: &Host, path: &str) -> Result<PresentFile, BootError> {
    let Some(bytes) = host.read_bytes_if_present(path)? else { return Ok(None) };
    Ok(Some((bytes, host.access(path)?)))
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

/// Removes the words of an earlier apply from the entries of a menu.
fn remove_words(found: &mut FoundLoader, journal: &BootJournal) {
    // A trial over the earlier apply has entries of cpushield with other words.
    let own = found.entries.iter().filter(|it| it.ours && it.has_words(&journal.words));
    let own: Vec<String> = own.map(|it| it.version.clone()).collect();
    for entry in found.entries.iter_mut().filter(|entry| !entry.ours) {
        let args = match (own.is_empty(), journal.kernels.contains(&entry.version)) {
            // The words are in entries of cpushield, and the other entries do not have them.
            (false, _) => {
                if own.contains(&entry.version) {
                    entry.replaced.clone_from(&journal.words);
                }
                continue;
            }
            (true, has_words) if has_words || found.covers_later => {
                line::without_front(&entry.args, &journal.words)
            }
            (true, _) => continue,
        };
        let (before, words) = (&entry.args, journal.words.iter());
        let removed = words.filter(|word| line::has(before, word) && !line::has(&args, word));
        entry.replaced = removed.cloned().collect();
        entry.args = args;
    }
}
