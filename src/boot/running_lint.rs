//! Lints the command line of the running kernel, with the messages of its log. Only reads.

use super::lint::{lint, may_be_reported};
use crate::documents::boot::{EffectSource, LintFinding};
use crate::documents::machine::Machine;
use crate::survey::survey_isolation;
use cpushield_linux::Host;

/// What is wrong with the command line of the running kernel, with the kernel's messages where its
/// log can be read.
#[must_use]
pub fn lint_running(host: &Host, machine: &Machine) -> Vec<LintFinding> {
    let found = lint(machine, &[]);
    if !may_be_reported(machine, &found) {
        return found;
    }
    lint(machine, &host.kernel_log().unwrap_or_default())
}

/// How `/sys/devices/system/cpu/nohz_full` differs from what the command line requests, with the
/// kernel's messages; `None` when it does not, or when one of the two is unknown. Kernels in which
/// partitions change the file are proposed, and none is released.
#[must_use]
pub fn nohz_full_difference(host: &Host) -> Option<LintFinding> {
    let of_tick = |finding: &LintFinding| {
        matches!(
            finding,
            LintFinding::NotInForce { source: EffectSource::NohzFull, .. }
                | LintFinding::NotRequested { source: EffectSource::NohzFull, .. }
        )
    };
    let machine = survey_isolation(host);
    // Most often there is no difference, and then the log is not read.
    lint(&machine, &[]).into_iter().find(of_tick)?;
    lint_running(host, &machine).into_iter().find(of_tick)
}
