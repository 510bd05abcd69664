//! `mce-check-interval`: stops polling for corrected hardware errors. Pure.

use super::setting::{FileSetting, always, anywhere};
use crate::causes::Cause;
use crate::causes::culprit::CulpritPattern;
use crate::change::{Risk, ValueComparison};
use crate::documents::plan::MachineWideEffect;

pub(super) const MCE_CHECK_INTERVAL: FileSetting = FileSetting {
    name: "mce-check-interval",
    summary: "stop the timer on each CPU that polls for corrected hardware errors",
    page: "\
On x86 a timer on every CPU checks for corrected hardware errors every five minutes, more often
while there are some. It is pinned to its CPU. The interval is one value for the whole machine,
whichever CPU's file is written; 0 stops the timers.

Cost: corrected errors that the CPU does not signal with an interrupt (CMCI, threshold
interrupts) are not logged while the shield is active. Uncorrected errors still raise a machine
check. Writing the file restarts the timers with a function call on every CPU, including those of
other shields. So this setting is left out while another shield without it is active, unless
`--disturb` accepts that.

Source: mce_timer_fn(), store_int_with_restart() and mce_restart() in
arch/x86/kernel/cpu/mce/core.c (6.12); Documentation/ABI/testing/sysfs-mce.",
    file: &["/sys/devices/system/machinecheck/machinecheck0/check_interval"],
    value: "0",
    compare: ValueComparison::Text,
    reason: "otherwise a timer on each CPU polls for corrected errors",
    removes: &[Cause::Timer, Cause::MachineCheck],
    culprits: &[CulpritPattern::Function("mce_timer")],
    risk: Risk::Low,
    optional: always,
    disturbs: Some(MachineWideEffect::CallsCpus),
    applies: anywhere,
};
