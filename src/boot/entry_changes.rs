//! What a plan does to each entry of the menu: the words that its command line loses and gets, and
//! the entries that stay as they are because they are for repairs. Pure.

use super::line;
use super::loaders::{BootLoader, FoundLoader, LoaderEntry};
use crate::documents::boot::{EntryChange, SparedEntry, WantedParameter};

/// The changes of the entries of these kernels.
pub(super) fn find_changes(
    loader: &dyn BootLoader,
    found: &FoundLoader,
    versions: &[&str],
    parameters: &[WantedParameter],
) -> Vec<EntryChange> {
    let new = parameters.iter().filter(|it| !it.already);
    let mut changes: Vec<EntryChange> = Vec::new();
    let chosen = found.entries.iter().filter(|it| versions.contains(&it.version.as_str()));
    for entry in chosen.filter(|it| !it.ours && it.purpose.is_none()) {
        let words = new.clone().filter(|it| it.is_for(&entry.version));
        let words: Vec<&str> = words.map(|it| it.word.as_str()).collect();
        let is_copied = loader.generator().is_some();
        let is_next = changes.iter().any(|change| change.version == entry.version);
        // Of several entries of a kernel, the first one is copied.
        if words.is_empty() || is_copied && is_next {
            continue;
        }
        changes.push(find_change(entry, &words, is_copied));
    }
    changes
}

fn find_change(entry: &LoaderEntry, words: &[&str], is_copied: bool) -> EntryChange {
    let is_replaced = |word: &str| entry.replaced.iter().any(|it| it == word);
    let new = words.iter().filter(|word| !line::has(&entry.args, word));
    let (same, added): (Vec<&str>, Vec<&str>) = new.partition(|word| is_replaced(word));
    let removed = entry.replaced.iter().filter(|word| !words.contains(&word.as_str()));
    let same: Vec<String> = same.into_iter().map(str::to_owned).collect();
    EntryChange {
        version: entry.version.clone(),
        title: entry.title.clone(),
        place: entry.place.clone(),
        is_copied,
        removed: removed.cloned().collect(),
        added: added.into_iter().map(str::to_owned).collect(),
        kept: line::with_words(&entry.args, &same),
    }
}

/// The entries that never get parameters.
pub(super) fn find_spared(found: &FoundLoader) -> Vec<SparedEntry> {
    let spared = found.entries.iter().filter_map(|entry| {
        let (title, place) = (entry.title.clone(), entry.place.clone());
        Some(SparedEntry { title, place, purpose: entry.purpose? })
    });
    spared.collect()
}
