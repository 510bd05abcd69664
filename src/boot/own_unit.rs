//! The files of the systemd units that cpushield makes for a trial boot and for an experiment: how
//! they are recognized, disabled and removed. Their texts are where they are needed.

use cpushield_linux::{Error, Host};

/// The first words of such a file.
pub const MARK: &str = "# Made by cpushield;";

/// The path of a unit's file.
#[must_use]
pub fn path(unit: &str) -> String {
    format!("/etc/systemd/system/{unit}")
}

/// Disables a unit while its file exists, which names the link.
pub(super) fn disable(host: &Host, unit: &str) {
    if host.exists(&path(unit)) {
        // An error is fine: the link may already be gone.
        let _ = host.systemctl(&["disable", unit]);
    }
}

/// Removes a unit. A file of that name that cpushield did not make stays.
///
/// # Errors
/// The file cannot be read or removed.
pub fn remove(host: &Host, unit: &str) -> Result<(), Error> {
    let path = path(unit);
    if !host.read_if_present(&path)?.is_some_and(|text| text.starts_with(MARK)) {
        return Ok(());
    }
    disable(host, unit);
    host.erase_file(&path)
}
