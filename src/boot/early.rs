//! Applies the shield at each boot, before ordinary services start: a unit before `basic.target`
//! with systemd, else a script of the init system.
//!
//! The initramfs needs no part of it: its programs have exited when the root file system takes
//! over.

use super::document::{Enabled, InitSystem};
use super::error::BootError;
use crate::quote::{quote_for_shell, quote_for_unit};
use cpushield_linux::{FileAttributes, Host, Store};

/// The journal of what was written, in the state directory.
pub const JOURNAL: &str = "at-boot.json";
/// The unit.
pub const UNIT: &str = "cpushield.service";
/// The line that identifies a file of ours.
pub const MARK: &str = "# Made by cpushield; `cpushield disable` removes it.\n";
/// The script for init systems other than systemd.
const SCRIPT: &str = "/etc/init.d/cpushield";

/// The command line that the init system runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartCommand {
    /// This program.
    pub program: String,
    /// Its state directory.
    pub state: String,
    /// Its arguments: `apply`, `--cpus`, `3`.
    pub words: Vec<String>,
}

impl StartCommand {
    fn command_line(&self, quote: fn(&str) -> String) -> String {
        let head = [self.program.as_str(), "--quiet", "--state", self.state.as_str()];
        let words = head.into_iter().chain(self.words.iter().map(String::as_str));
        words.map(quote).collect::<Vec<_>>().join(" ")
    }
}

/// The path, the text and the permissions of the file for an init system.
#[must_use]
pub fn file(init: InitSystem, call: &StartCommand) -> (String, String, u32) {
    match init {
        InitSystem::Systemd => (format!("/etc/systemd/system/{UNIT}"), unit(call), 0o644),
        InitSystem::Openrc => (SCRIPT.to_owned(), openrc(call), 0o755),
        InitSystem::Sysv => (SCRIPT.to_owned(), sysv(call), 0o755),
    }
}

/// The unit. It has no default dependencies, because they would order it after `basic.target`. A
/// shield that cannot be applied in a minute is undone and the boot continues: no unit requires it.
/// Nothing fails when the program is removed and its unit is left behind.
fn unit(call: &StartCommand) -> String {
    let (state, program) = (quote_for_unit(&call.state), quote_for_unit(&call.program));
    let line = call.command_line(quote_for_unit);
    // A path, not a word: only `%` is special there.
    let path = call.program.replace('%', "%%");
    format!(
        "{MARK}[Unit]\n\
         Description=cpushield: shield CPUs before services start\n\
         DefaultDependencies=no\n\
         Conflicts=shutdown.target\n\
         After=local-fs.target\n\
         Before=basic.target shutdown.target\n\
         RequiresMountsFor={state} {program}\n\
         ConditionFileIsExecutable={path}\n\n\
         [Service]\n\
         Type=oneshot\n\
         RemainAfterExit=yes\n\
         TimeoutStartSec=60\n\
         ExecStart={line}\n\n\
         [Install]\n\
         WantedBy=basic.target\n"
    )
}

/// The OpenRC script. It runs after the services that mount file systems, by OpenRC's own names and
/// by Debian's. It uses no `need`: OpenRC 0.56 does not start a service that needs a missing one.
fn openrc(call: &StartCommand) -> String {
    let (line, program) = (call.command_line(quote_for_shell), quote_for_shell(&call.program));
    format!(
        "#!/sbin/openrc-run\n{MARK}\
         description='shield CPUs before services start'\n\n\
         depend() {{\n    after sysfs cgroups localmount mountkernfs mountall\n    \
         before bootmisc procps networking\n}}\n\n\
         start() {{\n    [ -x {program} ] || return 0\n    \
         ebegin 'Shielding CPUs'\n    {line}\n    eend $?\n}}\n"
    )
}

fn sysv(call: &StartCommand) -> String {
    let (line, program) = (call.command_line(quote_for_shell), quote_for_shell(&call.program));
    format!(
        "#!/bin/sh\n### BEGIN INIT INFO\n\
         # Provides:          cpushield\n\
         # Required-Start:    mountkernfs $local_fs\n\
         # Required-Stop:\n\
         # X-Start-Before:    procps networking\n\
         # Default-Start:     S\n\
         # Default-Stop:\n\
         # Short-Description: shield CPUs before services start\n\
         ### END INIT INFO\n{MARK}\
         case $1 in\n\
         start) [ ! -x {program} ] || {line} ;;\n\
         stop | restart | force-reload) ;; # undo is `cpushield undo`\n\
         *)\n    echo \"usage: $0 start\" >&2\n    exit 2\n    ;;\n\
         esac\n"
    )
}

/// The OpenRC runlevel that sets the machine up: `boot`, or with Debian's scripts `sysinit`, which
/// has the services of both (`rcS` of its package, 0.56).
fn openrc_runlevel(host: &Host) -> &'static str {
    let names = host.list("/etc/runlevels/sysinit").unwrap_or_default();
    if names.iter().any(|name| name == "bootmisc.sh") { "sysinit" } else { "boot" }
}

/// Detects the running init system.
fn detect_init(host: &Host) -> Option<InitSystem> {
    if host.exists("/run/systemd/system") {
        Some(InitSystem::Systemd)
    } else if host.exists("/run/openrc") {
        Some(InitSystem::Openrc)
    } else {
        host.program("update-rc.d").map(|_| InitSystem::Sysv)
    }
}

/// The shield that is applied at boot; `None` when there is none.
///
/// # Errors
/// The journal cannot be read, or is invalid.
pub fn installed(store: &Store) -> Result<Option<Enabled>, BootError> {
    let Some(bytes) = store.read(JOURNAL)? else { return Ok(None) };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| BootError::Journal { path: store.path(JOURNAL), why: error.to_string() })
}

/// Makes the machine run this command at each boot.
///
/// # Errors
/// The init system is unknown, a file of the same name is not ours, or a step fails; then nothing
/// is left behind.
pub fn install(host: &Host, store: &Store, call: &StartCommand) -> Result<Enabled, BootError> {
    let _lock = store.lock()?;
    let Some(init) = detect_init(host) else {
        return Err(BootError::ByHand {
            why: "this machine's init system is unknown".to_owned(),
            instructions: vec![
                "run this at boot, before other programs start:".to_owned(),
                format!("    {}", call.command_line(quote_for_shell)),
            ],
        });
    };
    let (path, text, mode) = file(init, call);
    check_not_foreign(host, &path)?;
    let enabled = Enabled { init, path, words: call.words.clone() };
    let journal = serde_json::to_string_pretty(&enabled).unwrap_or_default();
    store.replace(JOURNAL, journal.as_bytes())?;
    match write_and_enable(host, &enabled, &text, mode) {
        Ok(()) => Ok(enabled),
        Err(BootError::Killed) => Err(BootError::Killed),
        Err(error) => {
            let undo_error = uninstall(host, store, &enabled).err();
            Err(BootError::Failed {
                why: error.to_string(),
                undone: undo_error.map(|error| error.to_string()),
                hint: None,
            })
        }
    }
}

fn write_and_enable(
    host: &Host,
    enabled: &Enabled,
    text: &str,
    mode: u32,
) -> Result<(), BootError> {
    host.replace_file(&enabled.path, text.as_bytes(), FileAttributes { mode, owner: None })?;
    match enabled.init {
        InitSystem::Systemd => host.systemctl(&["enable", UNIT])?,
        InitSystem::Openrc => {
            drop(host.run_program(&["rc-update", "add", "cpushield", openrc_runlevel(host)])?);
        }
        InitSystem::Sysv => drop(host.run_program(&["update-rc.d", "cpushield", "defaults"])?),
    }
    Ok(())
}

/// Refuses a file that exists and was not made by us.
fn check_not_foreign(host: &Host, path: &str) -> Result<(), BootError> {
    match host.read(path) {
        Ok(text) if !text.contains(MARK) => Err(BootError::Foreign { path: path.to_owned() }),
        Err(error) if !error.is_absent() => Err(error.into()),
        _ => Ok(()),
    }
}

/// Removes the shield from the boot; `None` when there is none.
///
/// # Errors
/// A file cannot be removed; the journal is kept then.
pub fn remove(host: &Host, store: &Store) -> Result<Option<Enabled>, BootError> {
    let Some(enabled) = installed(store)? else { return Ok(None) };
    let _lock = store.lock()?;
    uninstall(host, store, &enabled)?;
    Ok(Some(enabled))
}

fn uninstall(host: &Host, store: &Store, enabled: &Enabled) -> Result<(), BootError> {
    check_not_foreign(host, &enabled.path)?;
    match enabled.init {
        // A failure is fine: the unit was never enabled, or is gone. systemd finds the links of a
        // missing file by its name.
        InitSystem::Systemd => drop(host.systemctl(&["disable", UNIT])),
        InitSystem::Openrc => drop(host.run_program(&["rc-update", "--all", "del", "cpushield"])),
        InitSystem::Sysv => {}
    }
    host.erase_file(&enabled.path)?;
    match enabled.init {
        InitSystem::Systemd => drop(host.systemctl(&["daemon-reload"])),
        InitSystem::Openrc => {}
        // Removes the links of a script that is gone.
        InitSystem::Sysv => drop(host.run_program(&["update-rc.d", "cpushield", "remove"])?),
    }
    Ok(store.remove(JOURNAL)?)
}
