//! `frequency`: its name, its page and other words for it. Pure.

use super::CauseEntry;

pub(super) const ENTRY: CauseEntry = CauseEntry {
    name: "frequency",
    summary: "a CPU's frequency was set from this CPU",
    words: &[],
    beginnings: &[],
    page: PAGE,
};

const PAGE: &str = "\
The kernel set a CPU's frequency from this CPU (`power:cpu_frequency`). The change itself may stop
the clock of the core for a few microseconds. A governor with a fixed frequency (`cpu-governor`)
prevents this. Processors that choose their own frequency (HWP) change it without an event.

Source: cpufreq_notify_transition() and cpufreq_driver_fast_switch() in drivers/cpufreq/cpufreq.c
(6.12), Documentation/admin-guide/pm/intel_pstate.rst.";
