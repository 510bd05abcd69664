//! A trial: the new entry boots once, while the default stays as it was. After that boot the words
//! are checked and a shield is watched. If it holds, the parameters become permanent. If it does
//! not hold, or the entry never booted, everything is restored. A machine that hangs boots its old
//! entry after the next reset.
//!
//! The trial's entries follow all others, so neither a number nor a lost `saved_entry` can make
//! them the default.

use super::earlier::{read_files, remove, remove_earlier, take_back};
use super::error::{BootError, WrittenFiles};
use super::journal::{read_journal, save_journal, save_last_trial};
use super::loaders::{EntryPosition, ParameterAssignment};
use super::parameter_effect::ParameterEffect;
use super::restore::{disarm_trial, find_loader};
use super::running_kernel::boot_id;
use super::write::write_planned;
use super::{line, refusals, trial_unit};
use crate::documents::boot::{
    BootJournal, SettledAs, TrialDeadline, TrialDoubt, TrialEnd, TrialReason,
};
use crate::refusal::UserError;
use cpushield_linux::{CpuSet, Error, Host, Store};

/// What this boot shows about a trial before the shield is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialObservation {
    /// CPUs to shield and watch.
    pub proves: CpuSet,
    /// What must come up in this boot; `None`: nothing.
    pub until: Option<TrialDeadline>,
    /// Why the trial has already failed; empty when it has not.
    pub against: Vec<TrialDoubt>,
}

/// Checks whether the trial booted, its words are in force and no further units failed.
///
/// # Errors
/// There is no trial, or the machine was not rebooted since it was armed.
pub fn observe(host: &Host, store: &Store) -> Result<TrialObservation, BootError> {
    let Some(journal) = read_journal(store)? else { return Err(BootError::NoTrial) };
    let Some(trial) = &journal.trial else { return Err(BootError::NoTrial) };
    if boot_id(host) == journal.boot_id {
        return Err(BootError::NotBooted { entry: trial.entry.clone() });
    }
    let mut against = missing_words(host, &trial.words)?;
    if trial.unit {
        let failed = host.failed_units()?;
        let new = failed.into_iter().filter(|unit| !trial.failed.contains(unit));
        against.extend(new.map(|unit| TrialDoubt::UnitFailed { unit }));
    }
    Ok(TrialObservation { proves: trial.proves.clone(), until: trial.until, against })
}

/// Why watching the active shield proves nothing about these CPUs; `None` when it has all of them.
#[must_use]
pub fn why_unproved(proves: &CpuSet, shielded: &CpuSet) -> Option<TrialDoubt> {
    let (proves, shielded) = (proves.clone(), shielded.clone());
    (!proves.is_subset(&shielded)).then_some(TrialDoubt::OtherShield { proves, shielded })
}

/// Ends a trial after its boot. `doubts` is what `verify` found against the shield; empty means
/// that it holds.
///
/// # Errors
/// There is no trial, the machine was not rebooted, or a file cannot be written.
pub fn conclude(host: &Host, store: &Store, doubts: &[TrialDoubt]) -> Result<TrialEnd, BootError> {
    let _lock = store.lock()?;
    let mut against = observe(host, store)?.against;
    let booted = against.is_empty();
    against.extend_from_slice(doubts);
    let Some(journal) = read_journal(store)? else { return Err(BootError::NoTrial) };
    let Some(trial) = journal.trial.clone() else { return Err(BootError::NoTrial) };
    let loader = find_loader(store, &journal)?;
    // First: whatever happens later, the trial does not boot again. The unit is removed last, so
    // that the next boot concludes a trial whose end was interrupted.
    disarm_trial(host, loader, &journal)?;
    let mut files = None;
    if against.is_empty() {
        match make_permanent(host, store, journal.clone()) {
            Ok(written) => files = Some(written),
            Err(error) if error.is_stop() => return Err(error),
            Err(error) => against.push(TrialDoubt::CannotStay { why: error.to_string() }),
        }
    }
    let entry = trial.entry;
    let end = match files {
        Some(files) => {
            let why = TrialReason::Holds { proves: trial.proves };
            TrialEnd { entry, end: SettledAs::Permanent, why, files }
        }
        None => {
            let why = match (booted, doubts.is_empty()) {
                (true, true) => TrialReason::CannotStay { doubts: against },
                (true, false) => TrialReason::Failed { doubts: against },
                (false, _) => TrialReason::NotAsWanted { doubts: against },
            };
            // The journal on disk has the files that making it permanent has changed.
            let journal = read_journal(store)?.unwrap_or(journal);
            let undone = take_back(host, store, &journal).map_err(|error| match error {
                error if error.is_stop() => error,
                error => {
                    let undone = Some(error.to_string());
                    BootError::Failed {
                        why: why.to_string(),
                        written: WrittenFiles::Loader,
                        undone,
                        hint: None,
                    }
                }
            })?;
            let files = undone.files.into_iter().map(|(path, _)| path).collect();
            TrialEnd { entry, end: SettledAs::TakenBack, why, files }
        }
    };
    save_last_trial(store, &end)?;
    trial_unit::remove(host)?;
    Ok(end)
}

/// Makes the parameters of a trial permanent, without the words that only the trial needs.
/// Returns the files. After an error the journal has what to restore; after a kill it begins again.
fn make_permanent(
    host: &Host,
    store: &Store,
    mut journal: BootJournal,
) -> Result<Vec<String>, BootError> {
    let keep_default = journal.trial.as_ref().is_some_and(|trial| trial.keep_default);
    let loader = find_loader(store, &journal)?;
    // A kernel that was removed since the trial was armed needs no entry.
    let found = loader.find(host)?.unwrap_or_default();
    let is_there = |version: &String| found.entries.iter().any(|it| it.version == *version);
    journal.kernels.retain(is_there);
    journal.groups.iter_mut().for_each(|group| group.kernels.retain(is_there));
    journal.groups.retain(|group| !group.kernels.is_empty());
    let groups = &journal.groups;
    journal.words.retain(|word| groups.iter().any(|group| group.words.contains(word)));
    if journal.kernels.is_empty() {
        let why = "none of the kernels chosen for the parameters is still in the boot menu";
        return Err(BootError::wrong(why.to_owned(), None));
    }
    let position = if keep_default { EntryPosition::Last } else { EntryPosition::First };
    remove(host, &read_files(host, loader, &journal)?)?;
    journal.complete = false;
    journal.files.retain(|saved| trial_unit::is_unit(&saved.path));
    remove_earlier(host, store, loader, &mut journal)?;
    let (rule, groups, earlier) =
        (journal.rule.clone(), journal.groups.clone(), journal.removed().to_vec());
    let (rule, groups, earlier) = (&rule, &groups, &earlier);
    let assignment = ParameterAssignment { rule, groups, position, earlier };
    write_planned(host, store, loader, &mut journal, &|| loader.plan_files(host, &assignment))?;
    journal.files.retain(|saved| !trial_unit::is_unit(&saved.path));
    (journal.trial, journal.earlier, journal.complete) = (None, None, true);
    save_journal(store, &journal)?;
    Ok(journal.files.into_iter().map(|saved| saved.path).collect())
}

/// Words that this boot does not have, or that are not in force.
fn missing_words(host: &Host, words: &[String]) -> Result<Vec<TrialDoubt>, Error> {
    let booted = host.read_line("/proc/cmdline")?;
    let log = host.kernel_log().unwrap_or_default();
    let mut missing = Vec::new();
    for word in words {
        let ParameterEffect { shows, in_force } = ParameterEffect::read(host, word);
        if !line::has(&booted, word) {
            missing.push(TrialDoubt::NotBooted { word: word.clone() });
        } else if in_force == Some(false) {
            let shows = shows.unwrap_or_default();
            missing.push(TrialDoubt::NotInForce { word: word.clone(), shows });
            missing.extend(refusals::find(&log, word).into_iter().map(|message| {
                let parameter = line::name_of(word).to_owned();
                TrialDoubt::Refused { parameter, message }
            }));
        }
    }
    Ok(missing)
}

/// Removes the unit when there is no trial: the process that concluded one was killed at the end.
///
/// # Errors
/// The journal cannot be read, or the file cannot be removed.
pub fn remove_stale_unit(host: &Host, store: &Store) -> Result<(), BootError> {
    let _lock = store.lock()?;
    match read_journal(store)?.and_then(|journal| journal.trial) {
        Some(_) => Ok(()),
        None => trial_unit::remove(host),
    }
}
