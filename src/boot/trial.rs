//! A trial: the new entry boots once, while the default stays as it was. After that boot the words
//! are checked and a shield is watched. If it holds, the parameters become permanent. If it does
//! not hold, or the entry never booted, everything is restored. A machine that hangs boots its old
//! entry after the next reset.
//!
//! The trial's entries follow all others, so neither a number nor a lost `saved_entry` can make
//! them the default.

use super::document::{BootJournal, SettledAs, TrialDoubt, TrialEnd, TrialReason};
use super::error::BootError;
use super::loaders::{self, BootLoader};
use super::restore::restore_all;
use super::{line, refusals, status, write};
use crate::quote::quote_for_unit;
use cpushield_linux::{CpuSet, Error, Host, Store};

/// The result of the last trial, in the state directory.
pub const TRIAL: &str = "boot-trial.json";

/// The systemd unit that concludes a trial after its boot.
pub const UNIT: &str = "cpushield-trial.service";

/// Lets a kernel that panics reboot the machine after 30 seconds.
pub const PANIC: &str = "panic=30";

/// The first words of the unit.
const MARK: &str = "# Made by cpushield;";

/// The path of the unit.
#[must_use]
pub fn unit_path() -> String {
    format!("/etc/systemd/system/{UNIT}")
}

/// The unit: it runs once after the trial's boot. It is `simple`, so the boot does not wait for the
/// watch to finish.
#[must_use]
pub fn unit(program: &str, state: &str) -> String {
    format!(
        "{MARK} `cpushield boot undo` removes it.\n\
         [Unit]\n\
         Description=cpushield: keep or remove the boot parameters of this trial boot\n\
         After=multi-user.target\n\n\
         [Service]\n\
         Type=simple\n\
         ExecStart={} --state {} boot conclude\n\n\
         [Install]\n\
         WantedBy=multi-user.target\n",
        quote_for_unit(program),
        quote_for_unit(state)
    )
}

/// What this boot shows about a trial before the shield is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialObservation {
    /// CPUs to shield and watch.
    pub proves: CpuSet,
    /// Why the trial has already failed; empty when it has not.
    pub against: Vec<TrialDoubt>,
}

/// Checks whether the trial booted, its words are in force and no further units failed.
///
/// # Errors
/// There is no trial, or the machine was not rebooted since it was armed.
pub fn observe(host: &Host, store: &Store) -> Result<TrialObservation, BootError> {
    let Some(journal) = super::journal(store)? else { return Err(BootError::NoTrial) };
    let Some(trial) = &journal.trial else { return Err(BootError::NoTrial) };
    let now = host.read_line("/proc/sys/kernel/random/boot_id").ok();
    if now == journal.boot_id {
        return Err(BootError::NotBooted { entry: trial.entry.clone() });
    }
    let mut against = missing_words(host, &journal)?;
    if trial.unit {
        let failed = host.failed_units()?;
        let new = failed.into_iter().filter(|unit| !trial.failed.contains(unit));
        against.extend(new.map(|unit| TrialDoubt::UnitFailed { unit }));
    }
    Ok(TrialObservation { proves: trial.proves.clone(), against })
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
    let Some(journal) = super::journal(store)? else { return Err(BootError::NoTrial) };
    let Some(trial) = journal.trial.clone() else { return Err(BootError::NoTrial) };
    let loader = loaders::named(&journal.loader).ok_or(BootError::NoTrial)?;
    // First: whatever happens later, the trial does not boot again. The unit is removed last, so
    // that the next boot concludes a trial whose end was interrupted.
    disarm(host, loader, &journal)?;
    let mut files = None;
    if against.is_empty() {
        match write::make_permanent(host, store, journal.clone()) {
            Ok(written) => files = Some(written),
            Err(BootError::Killed) => return Err(BootError::Killed),
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
            let journal = super::journal(store)?.unwrap_or(journal);
            let undone = restore_all(host, store, &journal).map_err(|error| match error {
                BootError::Killed => BootError::Killed,
                error => {
                    let undone = Some(error.to_string());
                    BootError::Failed { why: why.to_string(), undone, hint: None }
                }
            })?;
            let files = undone.files.into_iter().map(|(path, _)| path).collect();
            TrialEnd { entry, end: SettledAs::TakenBack, why, files }
        }
    };
    let text = serde_json::to_string_pretty(&end).unwrap_or_default();
    store.replace(TRIAL, text.as_bytes())?;
    remove_unit(host)?;
    Ok(end)
}

/// Words that this boot does not have, or that are not in force.
fn missing_words(host: &Host, journal: &BootJournal) -> Result<Vec<TrialDoubt>, Error> {
    let booted = host.read_line("/proc/cmdline")?;
    let log = host.kernel_log().unwrap_or_default();
    let mut missing = Vec::new();
    for word in &journal.words {
        let (shows, in_force) = status::read_effect(host, word);
        if !line::has(&booted, word) {
            missing.push(TrialDoubt::NotBooted { word: word.clone() });
        } else if in_force == Some(false) {
            let shows = shows.unwrap_or_default();
            missing.push(TrialDoubt::NotInForce { word: word.clone(), shows });
            missing.extend(refusals::find(&log, word).into_iter().map(|message| {
                let parameter = refusals::parameter_name(word).to_owned();
                TrialDoubt::Refused { parameter, message }
            }));
        }
    }
    Ok(missing)
}

/// Cancels the one boot of the trial's entry.
pub(super) fn disarm(
    host: &Host,
    loader: &dyn BootLoader,
    journal: &BootJournal,
) -> Result<(), BootError> {
    journal.trial.as_ref().map_or(Ok(()), |trial| loader.cancel_boot_once(host, &trial.entry))
}

/// Disables the unit while its file exists, which names the link.
pub(super) fn disable(host: &Host) {
    if host.exists(&unit_path()) {
        // An error is fine: the link may already be gone.
        let _ = host.systemctl(&["disable", UNIT]);
    }
}

/// Removes the unit.
fn remove_unit(host: &Host) -> Result<(), BootError> {
    let path = unit_path();
    if host.read(&path).is_ok_and(|text| text.starts_with(MARK)) {
        disable(host);
        host.erase_file(&path)?;
    }
    Ok(())
}

/// Removes the unit when there is no trial: the process that concluded one was killed at the end.
///
/// # Errors
/// The journal cannot be read, or the file cannot be removed.
pub fn remove_stale_unit(host: &Host, store: &Store) -> Result<(), BootError> {
    let _lock = store.lock()?;
    match super::journal(store)?.and_then(|journal| journal.trial) {
        Some(_) => Ok(()),
        None => remove_unit(host),
    }
}
