//! Makes the parameters of a trial that has passed permanent. Where an earlier apply wrote other
//! words, they are replaced in place, and undo restores the text before the first change.

use super::earlier::EarlierApply;
use super::error::BootError;
use super::journal::save_journal;
use super::loaders::{BootLoader, EarlierTexts, EntryPosition, ParameterAssignment, generator_of};
use super::present_files::{PresentTexts, read_originals};
use super::restore::{find_loader, restore_earlier_texts};
use super::trial_unit;
use super::write::{finish, write_files};
use crate::documents::boot::{BootJournal, EarlierJournal, EarlierState};
use cpushield_linux::{Host, Store};

/// Makes the parameters of a trial permanent, without the words that only the trial needs.
/// Returns the files. After an error the journal has what to restore.
pub(super) fn make_permanent(
    host: &Host,
    store: &Store,
    mut journal: BootJournal,
) -> Result<Vec<String>, BootError> {
    let keep_default = journal.trial.as_ref().is_some_and(|trial| trial.keep_default);
    let loader = find_loader(store, &journal)?;
    // A kernel that was removed since the trial was armed needs no entry.
    let found = loader.find(host)?.unwrap_or_default();
    journal.kernels.retain(|version| found.entries.iter().any(|it| it.version == *version));
    if journal.kernels.is_empty() {
        let why = "none of the kernels chosen for the parameters is still in the boot menu";
        return Err(BootError::wrong(why.to_owned(), None));
    }
    let position = if keep_default { EntryPosition::Last } else { EntryPosition::First };
    if let Some(earlier) = journal.earlier.clone() {
        return replace_earlier(host, store, journal, (loader, position, earlier));
    }
    let file_plan = {
        let (kernels, words) = (&journal.kernels, &journal.words);
        let rule = &journal.rule;
        let earlier = &EarlierTexts::new();
        let assignment = ParameterAssignment { rule, kernels, words, position, earlier };
        loader.plan_files(host, &assignment)?
    };
    let present = PresentTexts::read(host, &file_plan)?;
    for saved in read_originals(host, loader, &file_plan)? {
        match journal.files.iter_mut().find(|known| known.path == saved.path) {
            Some(known) => {
                known.left = saved.left;
                // A generated file is read again, without our entries, because kernels may have
                // been installed or removed. In any other file the trial's text is no original.
                if generator_of(loader, &saved.path).is_some() {
                    known.original = saved.original;
                }
            }
            None => journal.files.insert(0, saved),
        }
    }
    journal.complete = false;
    save_journal(store, &journal)?;
    write_files(host, loader, &file_plan, &present, &mut journal)?;
    journal.trial = None;
    journal.complete = true;
    save_journal(store, &journal)?;
    Ok(journal.files.iter().map(|saved| saved.path.clone()).collect())
}

/// Replaces the words of an earlier apply. It first removes the trial's entries, and starts again
/// from the texts of the earlier apply when a kill has interrupted it.
fn replace_earlier(
    host: &Host,
    store: &Store,
    mut journal: BootJournal,
    (loader, position, earlier): (&dyn BootLoader, EntryPosition, EarlierJournal),
) -> Result<Vec<String>, BootError> {
    restore_earlier_texts(host, loader, &journal, earlier.state)?;
    let mut applied = EarlierApply::read(host, loader, (*earlier.journal).clone())?;
    let mut file_plan = {
        let (kernels, words, rule) = (&journal.kernels, &journal.words, &journal.rule);
        let earlier = &applied.texts;
        let assignment = ParameterAssignment { rule, kernels, words, position, earlier };
        loader.plan_files(host, &assignment)?
    };
    applied.add_leftovers(loader, &mut file_plan);
    applied.read_planned(host, &file_plan)?;
    let present = PresentTexts::read(host, &file_plan)?;
    let units = journal.files.iter().filter(|saved| trial_unit::is_unit(&saved.path));
    let units: Vec<_> = units.cloned().collect();
    journal.files = applied.merge_files(read_originals(host, loader, &file_plan)?);
    journal.files.extend(units);
    journal.complete = false;
    journal.earlier = Some(EarlierJournal { state: EarlierState::Replaced, ..earlier });
    save_journal(store, &journal)?;
    write_files(host, loader, &file_plan, &present, &mut journal)?;
    let mut journal = finish(&journal, &file_plan);
    (journal.trial, journal.earlier) = (None, None);
    save_journal(store, &journal)?;
    Ok(journal.files.iter().map(|saved| saved.path.clone()).collect())
}
