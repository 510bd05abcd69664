//! The high-resolution timers that are armed on each CPU. They are not read while CPUs are
//! shielded: the kernel takes the lock of each CPU's timers again for every line
//! (`print_active_timers()` in kernel/time/timer_list.c, 6.12), and that CPU would wait for it.

use super::reader::SurveyReader;
use cpushield_linux::CpuSet;
use cpushield_linux::text::timer_list::{self, TimerFunctions};
use std::collections::BTreeMap;

/// The timers by CPU; `None` when the kernel does not show them, or not to this user.
pub(super) fn read_timers(
    r: &SurveyReader,
    shielded: &CpuSet,
) -> Option<BTreeMap<usize, TimerFunctions>> {
    if !shielded.is_empty() {
        return None;
    }
    // No note: a normal user may not read it.
    r.host.read("/proc/timer_list").ok().map(|text| timer_list::parse(&text))
}
