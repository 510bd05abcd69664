//! The systemd unit that concludes a trial after its boot.

use super::error::BootError;
use crate::quote::quote_for_unit;
use cpushield_linux::Host;

/// The name of the unit.
pub(super) const UNIT: &str = "cpushield-trial.service";

/// The first words of its file.
const MARK: &str = "# Made by cpushield;";

/// The path of its file.
pub(super) fn path() -> String {
    format!("/etc/systemd/system/{UNIT}")
}

/// The content of its file: the unit runs once after the trial's boot. It is `simple`, so the boot
/// does not wait for the watch to finish.
pub(super) fn text(program: &str, state: &str) -> String {
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

/// Disables the unit while its file exists, which names the link.
pub(super) fn disable(host: &Host) {
    if host.exists(&path()) {
        // An error is fine: the link may already be gone.
        let _ = host.systemctl(&["disable", UNIT]);
    }
}

/// Removes the unit.
pub(super) fn remove(host: &Host) -> Result<(), BootError> {
    let path = path();
    if host.read(&path).is_ok_and(|text| text.starts_with(MARK)) {
        disable(host);
        host.erase_file(&path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_concludes_the_trial_with_this_program_and_state() {
        let text = text("/x", "/y");
        assert!(text.contains("ExecStart=\"/x\" --state \"/y\" boot conclude\n"), "{text}");
    }
}
