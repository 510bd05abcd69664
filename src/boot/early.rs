//! Applies the shield at each boot, before ordinary services start: a unit before `basic.target`
//! with systemd, else a script of the init system.
//!
//! The initramfs needs no part of it: its programs have exited when the root file system takes
//! over.

pub use super::init_files::{
    BAN_COMMAND, InitFile, MARK, OperatorHelper, StartCommand, StartTarget, files, operator_files,
};

use super::error::{BootError, EVERY_BOOT_JOURNAL, WrittenFiles};
use super::init_files::{BAN, SHIELD, UNIT_MODE, operator_socket, socket_path, socket_units};
use crate::documents::boot::{Enabled, InitSystem};
use crate::quote::quote_for_shell;
use crate::refusal::UserError;
use cpushield_linux::{FileAttributes, Host, Store};

/// The journal of what was written, in the state directory.
pub const JOURNAL: &str = EVERY_BOOT_JOURNAL;

/// The OpenRC runlevel that sets the machine up: `boot`, or with Debian's scripts `sysinit`, which
/// has the services of both (`rcS` of its package, 0.56).
fn openrc_runlevel(host: &Host) -> &'static str {
    let names = host.list("/etc/runlevels/sysinit").unwrap_or_default();
    if names.iter().any(|name| name == "bootmisc.sh") { "sysinit" } else { "boot" }
}

/// Detects the running init system.
fn detect_init(host: &Host) -> Option<InitSystem> {
    if host.has_systemd() {
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
/// The init system is unknown, a file of the same name is not ours, the journal of an earlier
/// installation is invalid, or a step fails. Then all is as before, an earlier installation
/// included.
pub fn install(host: &Host, store: &Store, call: &StartCommand) -> Result<Enabled, BootError> {
    let _lock = store.lock()?;
    let Some(init) = detect_init(host) else {
        return Err(BootError::ByHand {
            why: "this machine's init system is unknown".to_owned(),
            instructions: vec![
                "run this at boot, before other programs start:".to_owned(),
                format!("    {}", call.start_line(quote_for_shell)),
            ],
        });
    };
    let files = files(init, call);
    let helpers = call.helpers.iter().filter(|_| init == InitSystem::Systemd);
    let for_operators: Vec<InitFile> =
        helpers.flat_map(|helper| operator_files(call, helper)).collect();
    for file in files.iter().chain(&for_operators) {
        check_not_foreign(host, &file.path)?;
    }
    // Only the journal names the sockets for operators, so a damaged one is an error.
    let earlier = match installed(store)? {
        Some(enabled) => Some(EarlierInstallation::read(host, enabled, call)?),
        None => None,
    };
    let [path, ban_path] = files.each_ref().map(|file| file.path.clone());
    let operator_paths: Vec<String> = for_operators.iter().map(|file| file.path.clone()).collect();
    let (shield, policy) = match call.target.clone() {
        StartTarget::Shield(name) => (Some(name), None),
        StartTarget::Policy(file) => (None, Some(file)),
    };
    let (words, ban_path) = (call.words.clone(), Some(ban_path));
    let enabled = Enabled { init, path, ban_path, words, shield, policy, operator_paths };
    let write = || {
        if let Some(earlier) = &earlier {
            remove_helpers(host, &earlier.enabled)?;
        }
        store.replace_json(JOURNAL, &enabled)?;
        write_and_enable(host, init, &files)?;
        write_helpers(host, &for_operators)
    };
    match write() {
        Ok(()) => Ok(enabled),
        Err(error) if error.is_stop() => Err(error),
        Err(error) => {
            let undo_error = match uninstall(host, store, &enabled, RunningUnit::Kept) {
                Ok(()) => earlier.and_then(|earlier| earlier.restore(host, store).err()),
                Err(error) => Some(error),
            };
            Err(BootError::Failed {
                why: error.to_string(),
                written: WrittenFiles::AtEveryBoot,
                undone: undo_error.map(|error| error.to_string()),
                hint: None,
            })
        }
    }
}

/// What an earlier installation wrote, to restore it where a later one fails.
struct EarlierInstallation {
    enabled: Enabled,
    /// The files of its services.
    files: Vec<InitFile>,
    /// The units of its helpers for operators.
    helpers: Vec<InitFile>,
}

impl EarlierInstallation {
    /// Reads its files; those that are gone are left out.
    fn read(
        host: &Host,
        enabled: Enabled,
        call: &StartCommand,
    ) -> Result<EarlierInstallation, BootError> {
        let paths = [Some(enabled.path.clone()), enabled.ban_path.clone()];
        let mut services = Vec::new();
        for (file, path) in files(enabled.init, call).into_iter().zip(paths) {
            let Some(path) = path else { continue };
            let text = host.read_if_present(&path)?;
            services.extend(text.map(|text| InitFile { path, text, ..file }));
        }
        let mut helpers = Vec::new();
        for path in &enabled.operator_paths {
            let (service, path) = (String::new(), path.clone());
            let text = host.read_if_present(&path)?;
            helpers.extend(text.map(|text| InitFile { service, path, text, mode: UNIT_MODE }));
        }
        Ok(EarlierInstallation { enabled, files: services, helpers })
    }

    fn restore(&self, host: &Host, store: &Store) -> Result<(), BootError> {
        store.replace_json(JOURNAL, &self.enabled)?;
        write_and_enable(host, self.enabled.init, &self.files)?;
        write_helpers(host, &self.helpers)
    }
}

fn write_and_enable(host: &Host, init: InitSystem, files: &[InitFile]) -> Result<(), BootError> {
    for InitFile { service, path, text, mode } in files {
        let attributes = FileAttributes { mode: *mode, owner: None };
        host.replace_file(path, text.as_bytes(), attributes)?;
        match init {
            InitSystem::Systemd => host.systemctl(&["enable", &format!("{service}.service")])?,
            InitSystem::Openrc => {
                let level = if service == SHIELD { openrc_runlevel(host) } else { "default" };
                drop(host.run_program(&["rc-update", "add", service, level])?);
            }
            InitSystem::Sysv => drop(host.run_program(&["update-rc.d", service, "defaults"])?),
        }
    }
    Ok(())
}

/// Writes the units of the helpers for operators, and opens their sockets.
fn write_helpers(host: &Host, files: &[InitFile]) -> Result<(), BootError> {
    for InitFile { path, text, mode, .. } in files {
        let attributes = FileAttributes { mode: *mode, owner: None };
        host.replace_file(path, text.as_bytes(), attributes)?;
    }
    let paths: Vec<String> = files.iter().map(|file| file.path.clone()).collect();
    Ok(socket_units(&paths).try_for_each(|unit| host.systemctl(&["enable", "--now", unit]))?)
}

/// Whether the installed unit of the socket for the operators of a shield is the one that this
/// helper needs; without a helper, whether there is none. Only systemd has such units.
#[must_use]
pub fn has_socket(
    host: &Host,
    enabled: &Enabled,
    shield: &str,
    helper: Option<&OperatorHelper>,
) -> bool {
    let path = socket_path(shield);
    let installed = enabled.operator_paths.contains(&path).then(|| host.read(&path).ok());
    enabled.init != InitSystem::Systemd || installed.flatten() == helper.map(operator_socket)
}

/// Closes the sockets for operators, and removes their units.
fn remove_helpers(host: &Host, enabled: &Enabled) -> Result<(), BootError> {
    for unit in socket_units(&enabled.operator_paths) {
        // A failure is fine: the unit was never enabled, or is gone.
        drop(host.systemctl(&["disable", "--now", unit]));
    }
    for path in &enabled.operator_paths {
        check_not_foreign(host, path)?;
        host.erase_file(path)?;
    }
    Ok(())
}

/// Tells the init system that the shield is active, so that it can stop its service, and services
/// that are bound to it can start. sysvinit keeps no such state.
///
/// # Errors
/// The service cannot be started.
pub fn start(host: &Host, enabled: &Enabled) -> Result<(), BootError> {
    match enabled.init {
        InitSystem::Systemd => host.systemctl(&["start", &format!("{SHIELD}.service")])?,
        InitSystem::Openrc => drop(host.run_program(&["rc-service", SHIELD, "start"])?),
        InitSystem::Sysv => {}
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

/// What happens to the unit of the shield that runs, when its file is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunningUnit {
    /// It stays active, and so do the units that are bound to it.
    Kept,
    /// It is stopped. Without its file that undoes nothing.
    Stopped,
}

/// Removes the shield from the boot; `None` when there is none.
///
/// # Errors
/// A file cannot be removed; the journal is kept then.
pub fn remove(
    host: &Host,
    store: &Store,
    running: RunningUnit,
) -> Result<Option<Enabled>, BootError> {
    let _lock = store.lock()?;
    let Some(enabled) = installed(store)? else { return Ok(None) };
    uninstall(host, store, &enabled, running)?;
    Ok(Some(enabled))
}

fn uninstall(
    host: &Host,
    store: &Store,
    enabled: &Enabled,
    running: RunningUnit,
) -> Result<(), BootError> {
    let files = [Some((SHIELD, &enabled.path)), enabled.ban_path.as_ref().map(|path| (BAN, path))];
    for (_, path) in files.iter().flatten() {
        check_not_foreign(host, path)?;
    }
    remove_helpers(host, enabled)?;
    for (service, path) in files.into_iter().flatten() {
        match enabled.init {
            // A failure is fine: the unit was never enabled, or is gone. systemd finds the links of
            // a missing file by its name.
            InitSystem::Systemd => {
                drop(host.systemctl(&["disable", &format!("{service}.service")]));
            }
            InitSystem::Openrc => {
                drop(host.run_program(&["rc-update", "--all", "del", service]));
                // OpenRC forgets that it has started the service, without stopping it.
                drop(host.run_program(&["rc-service", service, "zap"]));
            }
            InitSystem::Sysv => {}
        }
        host.erase_file(path)?;
        // Removes the links of a script that is gone.
        if enabled.init == InitSystem::Sysv {
            drop(host.run_program(&["update-rc.d", service, "remove"])?);
        }
    }
    if enabled.init == InitSystem::Systemd {
        drop(host.systemctl(&["daemon-reload"]));
        if running == RunningUnit::Stopped {
            // A failure is fine: the unit was not active.
            drop(host.systemctl(&["stop", &format!("{SHIELD}.service")]));
        }
    }
    Ok(store.remove(JOURNAL)?)
}
