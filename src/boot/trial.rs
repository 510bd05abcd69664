//! A trial: the new entry boots once, while the default stays what it was. After that boot the
//! words are looked for and a shield is watched: when it holds they become permanent, else, or when
//! the entry never came up, everything is taken back. A machine that hangs comes back on its old
//! entry at the next reset.
//!
//! The trial's entries stand behind all others, so neither a number nor a lost `saved_entry` can
//! make them the default.

use super::document::{BootJournal, SettledAs, TrialEnd};
use super::error::BootError;
use super::loaders::{self, BootLoader};
use super::{line, refusals, status, write};
use cpushield_linux::{CpuSet, Error, Host, Store};

/// What became of the last trial, in the state directory.
pub const TRIAL: &str = "boot-trial.json";

/// The unit that looks after the boot, where systemd is.
pub const UNIT: &str = "cpushield-trial.service";

/// How long a kernel that panics waits before it starts the machine again.
pub const PANIC: &str = "panic=30";

/// How the unit begins.
const MARK: &str = "# Made by cpushield;";

/// The path of the unit.
#[must_use]
pub fn unit_path() -> String {
    format!("/etc/systemd/system/{UNIT}")
}

/// The unit: it runs once after the trial's boot. `simple`: nobody who waits for the end of the
/// boot waits for the proof too.
#[must_use]
pub fn unit(program: &str, state: &str) -> String {
    format!(
        "{MARK} `cpushield boot undo` removes it.\n\
         [Unit]\n\
         Description=cpushield: keep or take back the boot parameters that this boot tries\n\
         After=multi-user.target\n\n\
         [Service]\n\
         Type=simple\n\
         ExecStart={} --state {} boot conclude\n\n\
         [Install]\n\
         WantedBy=multi-user.target\n",
        quoted(program),
        quoted(state)
    )
}

/// A word of a command line in a unit: `%` and `$` are doubled (systemd.service(5), "Command
/// lines").
#[must_use]
pub fn quoted(word: &str) -> String {
    let word = word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    format!("\"{}\"", word.replace('$', "$$"))
}

/// What this boot says of a trial before anything is tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialObservation {
    /// CPUs that are to be shielded and watched.
    pub proves: CpuSet,
    /// What speaks against it already.
    pub against: Vec<String>,
}

/// Looks whether the trial booted, its words are in force and the machine is up.
///
/// # Errors
/// There is no trial, or the machine was not booted since it was armed.
pub fn look(host: &Host, store: &Store) -> Result<TrialObservation, BootError> {
    let Some(journal) = super::journal(store)? else { return Err(BootError::NoTrial) };
    let Some(trial) = &journal.trial else { return Err(BootError::NoTrial) };
    let now = host.read_line("/proc/sys/kernel/random/boot_id").ok();
    if now == journal.boot_id {
        return Err(BootError::NotBooted { entry: trial.entry.clone() });
    }
    let mut against = missing(host, &journal)?;
    if trial.unit {
        let failed = host.failed_units()?;
        let new = failed.into_iter().filter(|unit| !trial.failed.contains(unit));
        against.extend(new.map(|unit| format!("{unit} failed, and had not before")));
    }
    Ok(TrialObservation { proves: trial.proves.clone(), against })
}

/// Why watching the shield that is up proves nothing of these CPUs; `None` when it has them all.
#[must_use]
pub fn unproved(proves: &CpuSet, shielded: &CpuSet) -> Option<String> {
    let missing = proves.minus(shielded);
    (!missing.is_empty()).then(|| {
        format!(
            "CPU {shielded} is shielded, not CPU {missing}, so no shield on CPU {proves} was \
             watched (before a trial: `cpushield disable`, or `cpushield enable` with these CPUs)"
        )
    })
}

/// Ends a trial, when the machine was booted since it was armed. `doubts` is what `verify` says
/// against it; none means that it holds.
///
/// # Errors
/// There is none, the machine was not booted, or a file cannot be written.
pub fn conclude(host: &Host, store: &Store, doubts: &[String]) -> Result<TrialEnd, BootError> {
    let _lock = store.lock()?;
    let mut against = look(host, store)?.against;
    let booted = against.is_empty();
    against.extend_from_slice(doubts);
    let Some(journal) = super::journal(store)? else { return Err(BootError::NoTrial) };
    let Some(trial) = journal.trial.clone() else { return Err(BootError::NoTrial) };
    let loader = loaders::named(&journal.loader).ok_or(BootError::NoTrial)?;
    // First: whatever happens then, the trial does not boot again. The unit goes last, so that the
    // next boot settles what a kill has left.
    forget(host, loader, &journal)?;
    let mut files = None;
    if against.is_empty() {
        match write::make_permanent(host, store, journal.clone()) {
            Ok(written) => files = Some(written),
            Err(BootError::Killed) => return Err(BootError::Killed),
            Err(error) => against.push(format!("it cannot be made permanent: {error}")),
        }
    }
    let entry = trial.entry;
    let end = match files {
        Some(files) => {
            let why = match trial.proves.is_empty() {
                true => "the parameters are in force".to_owned(),
                false => format!(
                    "the parameters are in force, and a shield on CPU {} holds",
                    trial.proves
                ),
            };
            TrialEnd { entry, end: SettledAs::Permanent, why, files }
        }
        None => {
            let what = match (booted, doubts.is_empty()) {
                (true, true) => "the trial booted and holds",
                (true, false) => "the trial booted, and does not hold",
                (false, _) => "this boot is not the trial's, or it did not take",
            };
            let why = format!("{what}: {}", against.join("; "));
            // What making it permanent has begun is in the journal of now.
            let journal = super::journal(store)?.unwrap_or(journal);
            let undone = write::take_back(host, store, &journal).map_err(|error| match error {
                BootError::Killed => BootError::Killed,
                error => {
                    let undone = Some(error.to_string());
                    BootError::Failed { why: why.clone(), undone, hint: None }
                }
            })?;
            let files = undone.files.into_iter().map(|(path, _)| path).collect();
            TrialEnd { entry, end: SettledAs::TakenBack, why, files }
        }
    };
    let text = serde_json::to_string_pretty(&end).unwrap_or_default();
    store.replace(TRIAL, text.as_bytes())?;
    retire(host)?;
    Ok(end)
}

/// Words that this boot does not have, or that the kernel does not show in force.
fn missing(host: &Host, journal: &BootJournal) -> Result<Vec<String>, Error> {
    let booted = host.read_line("/proc/cmdline")?;
    let log = host.kernel_log().unwrap_or_default();
    let mut missing = Vec::new();
    for word in &journal.words {
        let (shows, in_force) = status::shown(host, word);
        if !line::has(&booted, word) {
            missing.push(format!("not booted with {word}"));
        } else if in_force == Some(false) {
            missing.push(format!("{word}: {}", shows.unwrap_or_default()));
            let said = refusals::of(&log, word);
            missing.extend(said.iter().map(|said| refusals::told(word, said)));
        }
    }
    Ok(missing)
}

/// Takes the wish for one boot back.
pub(super) fn forget(
    host: &Host,
    loader: &dyn BootLoader,
    journal: &BootJournal,
) -> Result<(), BootError> {
    journal.trial.as_ref().map_or(Ok(()), |trial| loader.forget_once(host, &trial.entry))
}

/// Takes the unit's link away, as long as its file is there to say where that is.
pub(super) fn disable(host: &Host) {
    if host.exists(&unit_path()) {
        // A link that is gone already is what is wanted.
        let _ = host.systemctl(&["disable", UNIT]);
    }
}

/// The unit has nothing to do any more.
fn retire(host: &Host) -> Result<(), BootError> {
    let path = unit_path();
    if host.read(&path).is_ok_and(|text| text.starts_with(MARK)) {
        disable(host);
        host.erase_file(&path)?;
    }
    Ok(())
}

/// Removes the unit where no trial is under way: settling one was killed at its end.
///
/// # Errors
/// The journal cannot be read, or the file cannot be removed.
pub fn clear(host: &Host, store: &Store) -> Result<(), BootError> {
    let _lock = store.lock()?;
    match super::journal(store)?.and_then(|journal| journal.trial) {
        Some(_) => Ok(()),
        None => retire(host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_a_unit_says_what_it_says_whatever_is_in_it() {
        assert_eq!(quoted("/usr/bin/cpushield"), "\"/usr/bin/cpushield\"");
        assert_eq!(quoted(r#"/a b/$x/100%"\"#), r#""/a b/$$x/100%%\"\\""#);
        assert!(unit("/x", "/y").contains("ExecStart=\"/x\" --state \"/y\" boot conclude\n"));
    }
}
