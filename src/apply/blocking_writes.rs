//! Files whose writes make the kernel wait for an ordinary thread on a certain CPU. Where a
//! real-time task keeps that CPU busy, the write would never return (`hogs`).

use crate::change::ValueComparison;
use cpushield_linux::{CpuSet, Host};

const WATCHDOG_CPUS: &str = "/proc/sys/kernel/watchdog_cpumask";
pub(super) const CPU: &str = "/sys/devices/system/cpu";

/// Returns the content of a file if writing the value would change it.
pub(super) fn value_to_replace(
    host: &Host,
    path: &str,
    value: &str,
    compare: ValueComparison,
) -> Option<String> {
    host.read_line(path).ok().filter(|now| !compare.already(now, value))
}

/// The switch of an event: the first write after boot expands the main trace buffer.
const SWITCH: &str = "/events/sched/sched_switch/enable";

/// Whether a write to this file may wait for a thread on a certain CPU.
pub(super) fn waits_for_threads(path: &str) -> bool {
    path == WATCHDOG_CPUS || path.ends_with(SWITCH)
}

/// The CPUs on each of which the kernel needs an ordinary thread before a write returns.
/// `watchdog_cpumask`: smp_call_on_cpu() for all CPUs of the old and the new mask
/// (softlockup_stop_all() and softlockup_start_all() in kernel/watchdog.c, 4.19 to 6.12). The trace
/// buffer: schedule_work_on() for every CPU (ring_buffer_resize(), kernel/trace/ring_buffer.c,
/// 6.1).
pub(super) fn cpus_to_wait_for(host: &Host, path: &str, now: &str, value: &str) -> Option<CpuSet> {
    if path.ends_with(SWITCH) {
        return host.read_value(&format!("{CPU}/online"));
    }
    let sets = [now, value].map(|text| text.parse::<CpuSet>().unwrap_or_default());
    Some(sets[0].union(&sets[1]))
}
