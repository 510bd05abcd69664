//! A trial: the new entry boots once, while the default stays what it was. After that boot the
//! words are looked for: found, they become permanent; not found, because the entry never came up,
//! everything is taken back. A machine that hangs comes back on its old entry at the next reset.
//!
//! The trial's entries stand behind all others, so neither a number nor a lost `saved_entry` can
//! make them the default.

use super::document::{BootJournal, SettledAs, TrialEnd};
use super::error::BootError;
use super::loaders::{self, Loader};
use super::{line, status, write};
use cpushield_linux::{Error, Host, Store};

/// What became of the last trial, in the state directory.
pub const TRIAL: &str = "boot-trial.json";

/// The unit that looks after the boot, where systemd is.
pub const UNIT: &str = "cpushield-trial.service";

/// How long a kernel that panics waits before it starts the machine again.
pub(super) const PANIC: &str = "panic=30";

/// The path of the unit.
#[must_use]
pub fn unit_path() -> String {
    format!("/etc/systemd/system/{UNIT}")
}

/// The unit: it runs once after the trial's boot.
#[must_use]
pub fn unit(program: &str, state: &str) -> String {
    let quoted = |word: &str| format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""));
    format!(
        "# Made by cpushield; `cpushield undo --boot` removes it.\n\
         [Unit]\n\
         Description=cpushield: keep or take back the boot parameters that this boot tries\n\
         After=multi-user.target\n\n\
         [Service]\n\
         Type=oneshot\n\
         ExecStart={} --state {} apply --boot --settle\n\n\
         [Install]\n\
         WantedBy=multi-user.target\n",
        quoted(program),
        quoted(state)
    )
}

/// Ends a trial, when the machine was booted since it was armed.
///
/// # Errors
/// There is none, the machine was not booted, or a file cannot be written.
pub fn settle(host: &Host, store: &Store) -> Result<TrialEnd, BootError> {
    let _lock = store.lock()?;
    let Some(journal) = super::journal(store)? else { return Err(BootError::NoTrial) };
    let Some(trial) = journal.trial.clone() else { return Err(BootError::NoTrial) };
    let now = host.read_line("/proc/sys/kernel/random/boot_id").ok();
    if now == journal.boot_id {
        return Err(BootError::NotBooted { entry: trial.entry });
    }
    let loader = loaders::named(&journal.loader).ok_or(BootError::NoTrial)?;
    let missing = missing(host, &journal)?;
    let end = if missing.is_empty() {
        let files = write::make_permanent(host, store, journal.clone())?;
        let why = "the trial booted, and the parameters are in force".to_owned();
        TrialEnd { entry: trial.entry, end: SettledAs::Permanent, why, files }
    } else {
        let undone = write::take_back(host, store, &journal)?;
        let files = undone.files.into_iter().map(|(path, _)| path).collect();
        let why =
            format!("this boot is not the trial's, or it did not take: {}", missing.join("; "));
        TrialEnd { entry: trial.entry, end: SettledAs::TakenBack, why, files }
    };
    disarm(host, loader, &journal)?;
    let text = serde_json::to_string_pretty(&end).unwrap_or_default();
    store.replace(TRIAL, text.as_bytes())?;
    Ok(end)
}

/// Words that this boot does not have, or that the kernel does not show in force.
fn missing(host: &Host, journal: &BootJournal) -> Result<Vec<String>, Error> {
    let booted = host.read_line("/proc/cmdline")?;
    let mut missing = Vec::new();
    for word in &journal.words {
        let (shows, in_force) = status::shown(host, word);
        if !line::has(&booted, word) {
            missing.push(format!("not booted with {word}"));
        } else if in_force == Some(false) {
            missing.push(format!("{word}: {}", shows.unwrap_or_default()));
        }
    }
    Ok(missing)
}

/// What a trial leaves beside files: the wish for one boot, and the unit's link.
pub(super) fn disarm(
    host: &Host,
    loader: &dyn Loader,
    journal: &BootJournal,
) -> Result<(), BootError> {
    let Some(trial) = &journal.trial else { return Ok(()) };
    if trial.unit {
        // The link goes with the file; a unit that is gone already is what is wanted.
        let _ = host.systemctl(&["disable", UNIT]);
    }
    loader.forget_once(host, &trial.entry)
}
