//! The shield from the start: what makes the machine apply it again at each boot, before ordinary
//! services start. With systemd a unit ahead of `basic.target`; else a script of the init system.
//!
//! An initramfs needs nothing of it: its programs have ended when the root takes over.

use super::error::BootError;
use super::trial::quoted;
use cpushield_linux::{FileAttributes, Host, Store};
use serde::{Deserialize, Serialize};

/// What was written, in the state directory.
pub const JOURNAL: &str = "at-boot.json";
/// The unit.
pub const UNIT: &str = "cpushield.service";
/// The line by which a file of ours is known.
pub const MARK: &str = "# Made by cpushield; `cpushield disable` removes it.\n";
/// The script where systemd is not.
const SCRIPT: &str = "/etc/init.d/cpushield";

/// Who starts it at boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InitSystem {
    /// systemd.
    Systemd,
    /// OpenRC.
    Openrc,
    /// Scripts with LSB headers, as Debian's and Devuan's sysvinit runs them.
    Sysv,
}

/// The shield that is made at every boot: what `cpushield enable` wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enabled {
    /// Who starts it.
    pub init: InitSystem,
    /// The file that was written.
    pub path: String,
    /// The words behind `cpushield`.
    pub words: Vec<String>,
}

/// The program and its words, as the init system calls them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartCommand {
    /// This program.
    pub program: String,
    /// Its state directory.
    pub state: String,
    /// What it is to do: `apply`, `--cpus`, `3`.
    pub words: Vec<String>,
}

impl StartCommand {
    fn line(&self, quoted: fn(&str) -> String) -> String {
        let head = [self.program.as_str(), "--quiet", "--state", self.state.as_str()];
        let words = head.into_iter().chain(self.words.iter().map(String::as_str));
        words.map(quoted).collect::<Vec<_>>().join(" ")
    }
}

/// For `sh`: all characters but the quote stand for themselves.
fn single(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The file for an init system, its path and permissions.
#[must_use]
pub fn file(init: InitSystem, call: &StartCommand) -> (String, String, u32) {
    match init {
        InitSystem::Systemd => (format!("/etc/systemd/system/{UNIT}"), unit(call), 0o644),
        InitSystem::Openrc => (SCRIPT.to_owned(), openrc(call), 0o755),
        InitSystem::Sysv => (SCRIPT.to_owned(), sysv(call), 0o755),
    }
}

/// Without the default dependencies, which would put it behind `basic.target`. A shield that cannot
/// be made in a minute is put back, and the boot goes on: nothing requires it. Neither does
/// anything fail when the program is removed and its unit forgotten.
fn unit(call: &StartCommand) -> String {
    let (state, program) = (quoted(&call.state), quoted(&call.program));
    let line = call.line(quoted);
    // A path, not a word: nothing but `%` means something there.
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

/// It stands behind what mounts file systems, under OpenRC's own names and under Debian's. Nothing
/// is needed by name: OpenRC 0.56 does not start what needs a service that is not there.
fn openrc(call: &StartCommand) -> String {
    let (line, program) = (call.line(single), single(&call.program));
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
    let (line, program) = (call.line(single), single(&call.program));
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

/// The runlevel of OpenRC in which the machine is set up: `boot`, and with Debian's scripts
/// `sysinit`, which has all that elsewhere is in both (`rcS` of its package, 0.56).
fn level(host: &Host) -> &'static str {
    let names = host.list("/etc/runlevels/sysinit").unwrap_or_default();
    if names.iter().any(|name| name == "bootmisc.sh") { "sysinit" } else { "boot" }
}

/// The init system that runs.
fn init(host: &Host) -> Option<InitSystem> {
    if host.exists("/run/systemd/system") {
        Some(InitSystem::Systemd)
    } else if host.exists("/run/openrc") {
        Some(InitSystem::Openrc)
    } else {
        host.program("update-rc.d").map(|_| InitSystem::Sysv)
    }
}

/// What is started at boot; `None` when nothing is.
///
/// # Errors
/// The journal cannot be read, or is none.
pub fn installed(store: &Store) -> Result<Option<Enabled>, BootError> {
    let Some(bytes) = store.read(JOURNAL)? else { return Ok(None) };
    let wrong =
        |e: serde_json::Error| BootError::Journal { path: store.path(JOURNAL), why: e.to_string() };
    serde_json::from_slice(&bytes).map(Some).map_err(wrong)
}

/// Lets the machine make this call at each boot.
///
/// # Errors
/// No init system is known here, a file of its name is not ours, or something is refused; then
/// nothing is left.
pub fn install(host: &Host, store: &Store, call: &StartCommand) -> Result<Enabled, BootError> {
    let _lock = store.lock()?;
    let Some(init) = init(host) else {
        return Err(BootError::ByHand {
            why: "this machine's init system is not known".to_owned(),
            instructions: vec![
                "call this at boot, before other programs start:".to_owned(),
                format!("    {}", call.line(single)),
            ],
        });
    };
    let (path, text, mode) = file(init, call);
    ours(host, &path)?;
    let enabled = Enabled { init, path, words: call.words.clone() };
    let journal = serde_json::to_string_pretty(&enabled).unwrap_or_default();
    store.replace(JOURNAL, journal.as_bytes())?;
    let put = || -> Result<(), BootError> {
        host.replace_file(&enabled.path, text.as_bytes(), FileAttributes { mode, owner: None })?;
        match init {
            InitSystem::Systemd => host.systemctl(&["enable", UNIT])?,
            InitSystem::Openrc => {
                drop(host.run_program(&["rc-update", "add", "cpushield", level(host)])?)
            }
            InitSystem::Sysv => {
                drop(host.run_program(&["update-rc.d", "cpushield", "defaults"])?)
            }
        }
        Ok(())
    };
    match put() {
        Ok(()) => Ok(enabled),
        Err(BootError::Killed) => Err(BootError::Killed),
        Err(error) => {
            let left = take_away(host, store, &enabled).err();
            Err(BootError::Failed {
                why: error.to_string(),
                undone: left.map(|error| error.to_string()),
                hint: None,
            })
        }
    }
}

/// A file that is there and is somebody else's is not written over.
fn ours(host: &Host, path: &str) -> Result<(), BootError> {
    match host.read(path) {
        Ok(text) if !text.contains(MARK) => Err(BootError::Foreign { path: path.to_owned() }),
        Err(error) if !error.is_absent() => Err(error.into()),
        _ => Ok(()),
    }
}

/// Takes it away again; `None` when there is nothing.
///
/// # Errors
/// A file cannot be removed; the journal is kept then.
pub fn remove(host: &Host, store: &Store) -> Result<Option<Enabled>, BootError> {
    let Some(enabled) = installed(store)? else { return Ok(None) };
    let _lock = store.lock()?;
    take_away(host, store, &enabled)?;
    Ok(Some(enabled))
}

fn take_away(host: &Host, store: &Store, enabled: &Enabled) -> Result<(), BootError> {
    ours(host, &enabled.path)?;
    match enabled.init {
        // What was never enabled, or is gone, is as it shall be; links of a file that is gone are
        // looked for by its name.
        InitSystem::Systemd => drop(host.systemctl(&["disable", UNIT])),
        InitSystem::Openrc => drop(host.run_program(&["rc-update", "--all", "del", "cpushield"])),
        InitSystem::Sysv => {}
    }
    host.erase_file(&enabled.path)?;
    match enabled.init {
        InitSystem::Systemd => drop(host.systemctl(&["daemon-reload"])),
        InitSystem::Openrc => {}
        // It removes the links of a script that is gone.
        InitSystem::Sysv => drop(host.run_program(&["update-rc.d", "cpushield", "remove"])?),
    }
    Ok(store.remove(JOURNAL)?)
}
