//! The high-resolution timers that are armed on each CPU. Not read while CPUs are shielded: the
//! kernel takes the lock of each CPU's timers again for every line (`print_active_timers()` in
//! kernel/time/timer_list.c, 6.12), and that CPU would wait for it.

use super::reader::Reader;
use cpushield_linux::CpuSet;
use cpushield_linux::text::timer_list::{self, Functions};
use std::collections::BTreeMap;

/// The timers by CPU; `None` where the kernel does not show them, or not to this user.
pub(super) fn timers(r: &Reader, shielded: &CpuSet) -> Option<BTreeMap<usize, Functions>> {
    if !shielded.is_empty() {
        return None;
    }
    // That a normal user may not read it is no defect of the machine.
    r.host.read("/proc/timer_list").ok().map(|text| timer_list::parse(&text))
}
