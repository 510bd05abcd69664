//! `kthreads`: moves kernel threads that may run anywhere off the shield. Pure.

use super::want::keep_work_off;
use super::{Tunable, UnresolvedCause, WantedChange, WantedChanges};
use crate::causes::{Cause, Culprit};
use crate::change::Risk;
use crate::documents::evidence::InterruptSender;
use crate::documents::machine::{Machine, PlacedThread};
use crate::documents::plan::{Immovable, ImmovableReason, ImmovableThing, Shield};

const PAGE: &str = "\
Kernel threads such as kswapd, khugepaged, jbd2, rcu_preempt and the threads of threaded interrupts
may run on any CPU unless their affinity is restricted. apply removes the shielded CPUs from their
affinities. The other CPUs that are isolated already go too, and those of `nohz_full=` where the
node has others. kswapd and kcompactd of a node whose other CPUs are all isolated keep their
masks. A kernel thread that is created later does not inherit this. Before 5.9 it may run on
all CPUs. From 5.9 to 6.19, the kernel gives it all CPUs except those of `nohz_full=`; a plain
`isolcpus=` list has no effect on this. Since 7.0 it is the reverse: all CPUs except those of
`isolcpus=` and of isolated partitions. If neither keeps a new thread off the shield, `status` shows
the thread.

Threads that belong to one CPU (migration, ksoftirqd, cpuhp, per-CPU kworkers; on PREEMPT_RT also
ktimers and rcuc) cannot be moved: the kernel refuses with EINVAL (PF_NO_SETAFFINITY). They run only
when that CPU has work for them, so the plan only lists them. Kworkers of unbound queues follow the
masks of their queues (`workqueues`).

Cost: fewer CPUs run these threads.

Source: __sched_setaffinity() in kernel/sched/syscalls.c, kthread() and kthread_create_on_cpu() in
kernel/kthread.c (6.12); commits 9cc5b8656892 (5.9) and 041ee6f3727a (7.0).";

pub(super) const KTHREADS: Tunable = Tunable {
    name: "kthreads",
    summary: "move kernel threads that may run anywhere to the housekeeping CPUs",
    page: PAGE,
    removes: &[Cause::Kthread, Cause::IpiReschedule],
    spares,
    risk: Risk::None,
    wants,
    remains,
    ..Tunable::PLAIN
};

fn spares(
    machine: &Machine,
    _shield: &Shield,
    _cause: Cause,
    culprit: &Culprit,
    _senders: &[InterruptSender],
) -> bool {
    let Culprit::Kthread { comm } = culprit else { return false };
    let tasks = machine.tasks.iter().map(|placed| &placed.task);
    tasks.filter(|task| task.kthread && task.bound).any(|task| task.comm == *comm)
}

fn wants(machine: &Machine, shield: &Shield) -> WantedChanges {
    let movable = machine.tasks.iter().filter(|placed| {
        let task = &placed.task;
        let is_movable = task.kthread && !task.bound && !stays_in_node(placed, shield);
        is_movable && placed.affinity.intersects(&shield.cpus)
    });
    let reason = "this kernel thread may run on the shield";
    WantedChanges::Changes(
        movable
            .map(|placed| {
                WantedChange::affinity(
                    placed,
                    keep_work_off(&placed.affinity, machine, shield),
                    reason,
                )
            })
            .collect(),
    )
}

fn remains(machine: &Machine, shield: &Shield) -> UnresolvedCause {
    let bound = machine.tasks.iter().filter(|placed| {
        placed.task.kthread && placed.task.bound && placed.affinity.intersects(&shield.cpus)
    });
    let immovable = bound.filter_map(|placed| to_immovable(placed, shield));
    let kept = machine.tasks.iter().filter(|placed| stays_in_node(placed, shield));
    let kept = kept.filter(|placed| placed.affinity.intersects(&shield.cpus));
    let immovable = immovable.chain(kept.map(|placed| Immovable {
        what: ImmovableThing::Kthread { comm: placed.task.comm.clone() },
        reason: ImmovableReason::NodeClosed { cpus: placed.affinity.clone() },
    }));
    let immovable = immovable.collect();
    UnresolvedCause { immovable, ..UnresolvedCause::default() }
}

/// Whether a thread reclaims or compacts the memory of a node whose other CPUs are closed. It keeps
/// the kernel's mask.
fn stays_in_node(placed: &PlacedThread, shield: &Shield) -> bool {
    let comm = &placed.task.comm;
    let is_of_node = comm.starts_with("kswapd") || comm.starts_with("kcompactd");
    let rest = placed.affinity.difference(&shield.cpus);
    placed.task.kthread && is_of_node && !rest.is_empty() && rest.is_subset(&shield.closed)
}

/// A thread bound to the shield; `None` for one with more CPUs, which follows a workqueue's mask.
fn to_immovable(placed: &PlacedThread, shield: &Shield) -> Option<Immovable> {
    placed.affinity.is_subset(&shield.cpus).then(|| Immovable {
        what: ImmovableThing::Kthread { comm: placed.task.comm.clone() },
        reason: ImmovableReason::Bound { cpus: placed.affinity.clone() },
    })
}
