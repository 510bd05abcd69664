//! The unit that goes on with an experiment after each boot, where systemd is.

use crate::boot::trial::quote_for_unit;
use cpushield_linux::{Error, FileAttributes, Host};

/// Its name.
pub const UNIT: &str = "cpushield-experiment.service";
/// How it begins.
const MARK: &str = "# Made by cpushield;";

/// Its path.
#[must_use]
pub fn path() -> String {
    format!("/etc/systemd/system/{UNIT}")
}

/// Its text. `simple`: nobody who waits for the end of the boot waits for the experiment too.
#[must_use]
pub fn text(program: &str, state: &str) -> String {
    format!(
        "{MARK} the end of the experiment removes it, `cpushield experiment --stop` does so too.\n\
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

/// Puts it in place; where it is already nothing is done.
///
/// # Errors
/// A file cannot be written, or systemd refuses it.
pub fn install(host: &Host, program: &str, state: &str) -> Result<(), Error> {
    let text = text(program, state);
    if host.read(&path()).ok().as_ref() != Some(&text) {
        host.replace_file(&path(), text.as_bytes(), FileAttributes { mode: 0o644, owner: None })?;
    }
    host.systemctl(&["enable", UNIT])
}

/// Takes it away; a file of that name that is not ours stays.
///
/// # Errors
/// The file cannot be removed.
pub fn remove(host: &Host) -> Result<(), Error> {
    if !host.read(&path()).is_ok_and(|text| text.starts_with(MARK)) {
        return Ok(());
    }
    // A link that is gone already is what is wanted.
    let _ = host.systemctl(&["disable", UNIT]);
    host.erase_file(&path())
}
