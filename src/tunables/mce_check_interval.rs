//! `mce-check-interval`: stops polling for corrected hardware errors. Pure.

use super::Tunable;
use super::setting::set_file;
use crate::causes::Cause;
use crate::causes::culprit::CulpritPattern;
use crate::change::{Risk, ValueComparison};
use crate::documents::plan::MachineWideEffect;

const FILE: &str = "/sys/devices/system/machinecheck/machinecheck0/check_interval";

pub(super) const MCE_CHECK_INTERVAL: Tunable = Tunable {
    name: "mce-check-interval",
    summary: "stop the timer on each CPU that polls for corrected hardware errors",
    page: "\
On x86 a timer on every CPU checks for corrected hardware errors, by default every five minutes, and
more often while it finds some. The timer is pinned to its CPU. The interval applies to the whole
machine, whichever CPU's file is written; 0 stops the timers.

Cost: corrected errors that the CPU does not signal with an interrupt (CMCI, threshold interrupts)
are not logged while the shield is active. Errors that need an immediate reaction still raise a
machine check. A write to the file restarts the timers with a function call on every CPU, including
the CPUs of other shields. So apply leaves it out while a shield without this setting is active,
unless you pass `--disturb`.

Source: mce_timer_fn(), store_int_with_restart() and mce_restart() in
arch/x86/kernel/cpu/mce/core.c (6.12); Documentation/ABI/testing/sysfs-mce.",
    reads: &[FILE],
    removes: &[Cause::Timer, Cause::MachineCheck],
    culprits: &[CulpritPattern::Function("mce_timer")],
    risk: Risk::Low,
    disturbs_others: Some(MachineWideEffect::CallsCpus),
    disturbs_when_undone: Some(MachineWideEffect::CallsCpus),
    wants: |machine, _| {
        set_file(
            machine,
            FILE,
            "0",
            ValueComparison::Text,
            "otherwise a timer on each CPU polls for corrected errors",
        )
    },
    ..Tunable::PLAIN
};
