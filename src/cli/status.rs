//! `cpushield status`: shows the active shield and everything that is on its CPUs.

use super::GlobalArgs;
use super::active::ActiveArgs;
use super::help::{BUG, HelpTail, USAGE};
use super::paint::show;
use crate::documents::shield_status::ShieldState;
use crate::failure::{Failure, FailureKind};
use crate::report::{StatusAudience, status_blocks};
use crate::ui::Ui;
use crate::workflow::runs_as_root;
use crate::workflow::shield_status::{StatusDocument, read_status};
use std::process::ExitCode;

/// Show the active shields and everything that is on their CPUs
///
/// For each shielded CPU, shows whether other programs, interrupts and the timer tick are kept
/// away. Lists every thread that last ran on it, foreign threads first, and every interrupt that is
/// delivered to it.
///
/// Exit code 0: the shield is active and unchanged. Exit code 3: there is no shield. Exit code 1
/// covers every other case: a setting has changed, a foreign task is on a shielded CPU, the shield
/// is incomplete, or its state is unknown.
///
/// Any user can run this command. Only root can check whether the settings are still as `apply`
/// left them. For other users, the output says what was not checked, and exit code 0 leaves it out:
/// otherwise operators could not use the exit code.
#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    /// The active shield
    #[command(flatten)]
    active: ActiveArgs,
}

/// The end of its help.
pub(super) const HELP: HelpTail = HelpTail {
    examples: &[
        ("cpushield status", "show the shield and what is on its CPUs"),
        ("cpushield status --json", "the same as JSON, for programs"),
    ],
    exit_codes: &[
        (
            "0",
            "every shield is active and unchanged, as far as this user can check: only root can \
                 check settings, and operators need an exit code too",
        ),
        (
            "1",
            "changed settings, foreign tasks, or a shield that is incomplete, being changed or \
                 unreadable",
        ),
        USAGE,
        ("3", "failure: no shield, or the operation failed"),
        BUG,
    ],
};

/// Runs the subcommand.
///
/// # Errors
/// `/proc` cannot be read.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &StatusArgs) -> Result<ExitCode, Failure> {
    let mut work = global.open(ui)?;
    args.active.select(&mut work)?;
    let document = read_status(&work)?;
    let StatusDocument { status, at_every_boot } = &document;
    let reader = match (work.host.can_change(), runs_as_root()) {
        (false, _) => StatusAudience::Elsewhere,
        (true, true) => StatusAudience::Root,
        (true, false) => StatusAudience::User,
    };
    show(ui, &document, || status_blocks(status, at_every_boot, reader))?;
    if status.state.state == ShieldState::NoShield
        && let Some(dir) = global.state.as_ref().filter(|_| !work.store.exists())
    {
        ui.warn(&format!("--state: the directory {} does not exist", dir.display()));
    }
    Ok(ExitCode::from(exit_code(&status.state.state)))
}

/// The exit code for a state. Users other than root can never check the settings, so that alone is
/// no failure for them.
fn exit_code(state: &ShieldState) -> u8 {
    match state {
        ShieldState::InForce | ShieldState::InForceAsSeen => 0,
        ShieldState::NoShield => FailureKind::Machine.code(),
        _ => FailureKind::DoesNotHold.code(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_user_other_than_root_cannot_check_is_no_failure_and_what_the_user_sees_is_one() {
        assert_eq!(exit_code(&ShieldState::InForceAsSeen), 0);
        assert_eq!(exit_code(&ShieldState::Drifted { settings: 0, foreign: 1 }), 1);
        assert_eq!(exit_code(&ShieldState::NoShield), 3);
        // Not even the state of the shield is known.
        assert_eq!(exit_code(&ShieldState::Unknown { reason: String::new() }), 1);
    }
}
