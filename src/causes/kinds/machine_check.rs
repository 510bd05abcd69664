//! `machine-check`: its name, its page and other words for it. Pure.

use super::CauseEntry;

pub(super) const ENTRY: CauseEntry = CauseEntry {
    name: "machine-check",
    summary: "a machine check or a thermal interrupt",
    words: &[],
    beginnings: &["Machine check", "Thermal ", "Threshold ", "Deferred Error"],
    page: PAGE,
};

const PAGE: &str = "\
Corrected hardware errors and thermal or power-limit events (`Thermal event interrupts`,
`Machine check polls` in /proc/interrupts). The poll comes from a timer on each CPU every five
minutes (`mce-check-interval`).

Source: mce_timer_fn() in arch/x86/kernel/cpu/mce/core.c, drivers/thermal/intel/therm_throt.c
(6.12).";
