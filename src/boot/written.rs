//! What an apply wrote, and which entry boots next. Reads the menu.

use super::error::BootError;
use super::loaders::BootLoader;
use crate::documents::boot::{BootJournal, SCHEMA, WrittenParameters};
use cpushield_linux::Host;

/// Summarizes an apply; `replaced` are the words of an earlier one.
///
/// # Errors
/// The menu cannot be read.
pub(super) fn summarize(
    host: &Host,
    loader: &dyn BootLoader,
    journal: BootJournal,
    replaced: Vec<String>,
) -> Result<WrittenParameters, BootError> {
    let BootJournal { words, kernels, groups, trial, files, .. } = journal;
    let found = loader.find(host)?.unwrap_or_default();
    let ours = || found.entries.iter().filter(|entry| entry.ours && entry.has_words(&groups));
    let next = found.next_entry().map(|entry| &entry.version);
    let of_next = ours().find(|entry| Some(&entry.version) == next);
    let entry = of_next.or_else(|| ours().next()).and_then(|entry| entry.id.clone());
    let entry = trial.as_ref().map(|trial| trial.entry.clone()).or(entry);
    Ok(WrittenParameters {
        schema: SCHEMA,
        loader: loader.name().to_owned(),
        next: found.next_boot(),
        next_has: found.next_entry().is_some_and(|entry| entry.has_words(&groups)),
        choice: entry.as_deref().map(|entry| loader.boot_instructions(host, entry)),
        entry,
        menu: found.menu.clone(),
        entries_without: found.titles_by_words(&groups).1,
        replaced,
        words,
        kernels,
        groups,
        files: files.into_iter().map(|saved| saved.path).collect(),
        trial,
    })
}
