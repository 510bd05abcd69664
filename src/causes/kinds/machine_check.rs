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
The CPU handled a hardware error, a thermal or power-limit event, or polled for corrected errors
(`Thermal event interrupts`, `Machine check polls` in /proc/interrupts). On x86 a timer on each CPU
polls every five minutes, and more often while it finds errors (`mce-check-interval`).

Source: mce_timer_fn() in arch/x86/kernel/cpu/mce/core.c, drivers/thermal/intel/therm_throt.c
(6.12).";
