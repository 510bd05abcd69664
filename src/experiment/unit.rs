//! The systemd unit that resumes an experiment after each boot.

use crate::boot::own_unit::{self, MARK};
use crate::quote::quote_for_unit;
use cpushield_linux::{Error, FileAttributes, Host};

/// The name of the unit.
pub const UNIT: &str = "cpushield-experiment.service";

/// The content of its file. Its type is `simple`, so the boot does not wait for the experiment.
#[must_use]
pub fn text(program: &str, state: &str) -> String {
    format!(
        "{MARK} the experiment or `cpushield experiment --stop` removes this file at the end.\n\
         [Unit]\n\
         Description=cpushield: resume an experiment that reboots the machine\n\
         After=multi-user.target\n\n\
         [Service]\n\
         Type=simple\n\
         ExecStart={} --quiet --state {} experiment --resume\n\n\
         [Install]\n\
         WantedBy=multi-user.target\n",
        quote_for_unit(program),
        quote_for_unit(state)
    )
}

/// Installs and enables the unit. An installed one is not written again.
///
/// # Errors
/// A file cannot be written, or systemd refuses it.
pub fn install(host: &Host, program: &str, state: &str) -> Result<(), Error> {
    let (path, text) = (own_unit::path(UNIT), text(program, state));
    if host.read(&path).ok().as_ref() != Some(&text) {
        host.replace_file(&path, text.as_bytes(), FileAttributes { mode: 0o644, owner: None })?;
    }
    host.systemctl(&["enable", UNIT])
}

/// Removes the unit. A file of that name that cpushield did not make stays.
///
/// # Errors
/// The file cannot be read or removed.
pub fn remove(host: &Host) -> Result<(), Error> {
    own_unit::remove(host, UNIT)
}
