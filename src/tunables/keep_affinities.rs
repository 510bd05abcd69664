//! `keep-affinities`: saves the affinities that the kernel itself overwrites. Pure.

use super::{Tunable, WantedChange, WantedChanges};
use crate::change::{Change, Risk};
use crate::documents::machine::Machine;
use crate::documents::plan::Shield;

pub(super) const KEEP_AFFINITIES: Tunable = Tunable {
    name: "keep-affinities",
    summary: "save every program's CPU affinity, so that undo can restore it",
    page: "\
When a cpuset changes, the kernel recomputes the affinity of every task in it. Before 6.2, a program
that had pinned itself to one CPU may then run on all CPUs of its cpuset. Since 6.2 the kernel
remembers the affinity that the program requested (`user_cpus_ptr`, commit 8f9ea86fdf99). When all
CPUs of that affinity go offline, the program may run on all CPUs of its cpuset. Since 6.2 the
kernel also forgets the request then (commit 851a723e45d1). So apply writes the affinity of every
task to the journal before the first change. At its end, undo restores the affinities that differ
from the journal.

While the shield is active, a program may request exactly the CPUs that the shield leaves it. Undo
must not mistake that request for an effect of the shield. From 6.2 on, undo can tell the two apart
once the cpusets are gone: a program that requested nothing then has its previous CPUs again. If a
program does not have them, it (or its parent) requested its new affinity. Undo then keeps that
affinity and reports the program.

Undo cannot tell the two apart before 6.2, or if apply itself set the affinity of the task. Undo
then restores the program's previous affinity. If the program was started after apply, undo gives it
the previous affinity of the program that started it. Undo leaves out the CPUs of shields that stay
active.

Cost: some tens of bytes of journal for each task. This tunable changes nothing and removes no
interruption.

Source: __sched_setaffinity() in kernel/sched/syscalls.c, __set_cpus_allowed_ptr(),
do_set_cpus_allowed() and dup_user_cpus_ptr() in kernel/sched/core.c (6.12).",
    reads: &[],
    risk: Risk::None,
    wants,
    ..Tunable::PLAIN
};

fn wants(_machine: &Machine, _shield: &Shield) -> WantedChanges {
    WantedChanges::Changes(vec![WantedChange::new(
        Change::KeepAffinities,
        "the kernel rewrites affinities when cpusets change; undo restores them",
    )])
}
