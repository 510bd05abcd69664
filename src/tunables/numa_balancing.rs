//! `numa-balancing`: stops hinting faults and page migration. Pure.

use super::setting::{PATCHES, set_file};
use super::{Tunable, WantedChanges};
use crate::causes::Cause;
use crate::change::{Risk, ValueComparison};
use crate::documents::inapplicable::InapplicableReason;
use crate::documents::machine::Machine;
use crate::documents::plan::Shield;

const FILE: &str = "/proc/sys/kernel/numa_balancing";

pub(super) const NUMA_BALANCING: Tunable = Tunable {
    name: "numa-balancing",
    summary: "stop the kernel from unmapping pages to learn which node uses them",
    page: "\
On machines with several memory nodes the kernel periodically unmaps parts of each program's memory.
The page faults that follow show which node uses the memory, and the kernel moves the pages or the
program. On the shield this causes page faults and TLB flushes while the workload runs.

Cost: while the shield is active, the kernel moves no program closer to its memory, and no memory
closer to its program. With the value 2 (since 5.18), the kernel moves hot pages from slow memory to
faster memory; this stops too.

A write that changes the value makes the kernel patch its code, which interrupts every CPU. So apply
leaves it out while another shield is active, unless you pass `--disturb`.

Source: set_numabalancing_state() in kernel/sched/core.c, task_numa_work() in
kernel/sched/fair.c (6.12); Documentation/admin-guide/sysctl/kernel.rst.",
    reads: &[FILE],
    removes: &[Cause::PageFault],
    risk: Risk::Low,
    disturbs_others: PATCHES,
    disturbs_when_undone: PATCHES,
    wants,
    ..Tunable::PLAIN
};

fn wants(machine: &Machine, _: &Shield) -> WantedChanges {
    let reason = "otherwise the kernel unmaps pages of the workload to cause page faults";
    match machine.topology.nodes.len() {
        0 | 1 => WantedChanges::Nothing(InapplicableReason::OneMemoryNode),
        _ => set_file(machine, FILE, "0", ValueComparison::Text, reason),
    }
}
