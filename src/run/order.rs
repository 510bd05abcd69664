//! The order of priorities on a shielded CPU for a real-time program. Pure.
//!
//! A program under SCHED_FIFO or SCHED_RR that never sleeps lets nothing below it run. Below it by
//! default are the threads without which the kernel stalls: `rcuc/N` (RCU callbacks and,
//! on PREEMPT_RT, quiescent states), `ktimers/N` (PREEMPT_RT and `threadirqs`: timers;
//! kernel/softirq.c, 6.13), `ksoftirqd/N`, and the other RCU threads that may run there. A reader
//! that was preempted inside a read-side section is boosted to the priority of `rcub/N` only
//! (kernel/rcu/tree_plugin.h, 6.12, `rcu_boost()`), so that thread must be above the program too.
//! The kernel's own advice is `rcutree.kthread_prio` above the program
//! (Documentation/admin-guide/kernel-parameters.txt); this is the same at run time, for one CPU.

use crate::documents::process_note::ProcessNote;
use cpushield_linux::{CpuSet, SchedPolicy, TaskId};

/// The highest priority for a program: the kernel threads need a higher one, and 99 is the maximum.
pub const PRIORITY_MAX: u32 = 98;

/// A kernel thread that may run on the CPUs in question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelThread {
    /// The thread.
    pub task: TaskId,
    /// Its name.
    pub comm: String,
    /// Its current policy.
    pub policy: SchedPolicy,
    /// Its affinity.
    pub affinity: CpuSet,
}

/// What must be done before the program starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartRequirements {
    /// The program's policy, lowered if it left no room above.
    pub policy: SchedPolicy,
    /// The threads that must be above it, whatever their current policy.
    pub above: Vec<KernelThread>,
    /// Those of them that must be raised, with their new policy.
    pub raise: Vec<(KernelThread, SchedPolicy)>,
    /// Interrupt threads of these CPUs that are not above it: they wait while it does not sleep.
    pub waiting: Vec<KernelThread>,
}

/// Whether the kernel stalls when this thread cannot run on one of `cpus`.
#[must_use]
pub fn is_vital(comm: &str, affinity: &CpuSet, cpus: &CpuSet) -> bool {
    // Its own CPU does not matter: it lends its priority.
    if comm.starts_with("rcub/") {
        return true;
    }
    let prefixes = ["rcu", "ktimers/", "ksoftirqd/", "irq_work/"];
    affinity.intersects(cpus) && prefixes.iter().any(|prefix| comm.starts_with(prefix))
}

/// Determines the requirements of a program with this policy on these CPUs.
#[must_use]
pub fn order(asked: SchedPolicy, cpus: &CpuSet, threads: &[KernelThread]) -> StartRequirements {
    let policy = match asked {
        SchedPolicy::Fifo { priority } => {
            SchedPolicy::Fifo { priority: priority.min(PRIORITY_MAX) }
        }
        SchedPolicy::Rr { priority } => SchedPolicy::Rr { priority: priority.min(PRIORITY_MAX) },
        other => other,
    };
    let mut order = StartRequirements { policy, above: vec![], raise: vec![], waiting: vec![] };
    let priority = policy.rt_priority();
    if priority == 0 {
        return order;
    }
    for thread in threads {
        let below = !thread.policy.is_above(priority);
        if is_vital(&thread.comm, &thread.affinity, cpus) {
            order.above.push(thread.clone());
            if below {
                order.raise.push((thread.clone(), SchedPolicy::Fifo { priority: priority + 1 }));
            }
        } else if below && thread.comm.starts_with("irq/") && thread.affinity.is_subset(cpus) {
            order.waiting.push(thread.clone());
        }
    }
    order
}

impl StartRequirements {
    /// What the user should know about the requirements; nothing for an ordinary program.
    #[must_use]
    pub fn notes(&self, asked: SchedPolicy) -> Vec<ProcessNote> {
        let mut notes = Vec::new();
        if self.policy != asked {
            notes.push(ProcessNote::PriorityLowered { asked, given: self.policy });
        }
        if let Some((_, policy)) = self.raise.first() {
            let threads = self.raise.iter().map(|(thread, _)| thread.comm.clone()).collect();
            notes.push(ProcessNote::KernelThreadsRaised { threads, policy: *policy });
        }
        if !self.waiting.is_empty() {
            let threads = self.waiting.iter().map(|thread| thread.comm.clone()).collect();
            notes.push(ProcessNote::InterruptThreadsWait { threads });
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn thread(tid: i32, comm: &str, policy: SchedPolicy, cpus: &str) -> KernelThread {
        let affinity = cpus.parse().unwrap();
        KernelThread { task: TaskId { tid, started: 1 }, comm: comm.to_owned(), policy, affinity }
    }

    /// The threads of CPU 3 of a 6.12 PREEMPT_RT kernel with 4 CPUs, and some that do not matter.
    fn threads_of_6_12_rt() -> Vec<KernelThread> {
        let other = SchedPolicy::Other { nice: 0 };
        let fifo = |priority| SchedPolicy::Fifo { priority };
        vec![
            thread(16, "ksoftirqd/0", other, "0"),
            thread(17, "rcu_preempt", fifo(1), "0-2"),
            thread(18, "rcub/0", fifo(1), "0-2"),
            thread(19, "migration/3", fifo(99), "3"),
            thread(31, "rcuc/3", fifo(1), "3"),
            thread(32, "ktimers/3", fifo(1), "3"),
            thread(33, "ksoftirqd/3", other, "3"),
            thread(34, "irq/27-nvme0q3", fifo(50), "3"),
            thread(35, "kworker/3:1", other, "3"),
        ]
    }

    fn names(threads: &[KernelThread]) -> Vec<&str> {
        threads.iter().map(|thread| thread.comm.as_str()).collect()
    }

    #[test]
    fn the_kernels_threads_of_that_cpu_are_raised_above_the_program() {
        let order =
            order(SchedPolicy::Fifo { priority: 80 }, &CpuSet::single(3), &threads_of_6_12_rt());
        assert_eq!(order.policy, SchedPolicy::Fifo { priority: 80 });
        assert_eq!(names(&order.above), ["rcub/0", "rcuc/3", "ktimers/3", "ksoftirqd/3"]);
        assert!(
            order.raise.iter().all(|(_, policy)| *policy == SchedPolicy::Fifo { priority: 81 })
        );
        assert_eq!(order.raise.len(), 4);
        assert_eq!(names(&order.waiting), ["irq/27-nvme0q3"]);
    }

    #[test]
    fn threads_that_are_above_already_and_ordinary_programs_need_nothing() {
        let mut threads = threads_of_6_12_rt();
        for thread in &mut threads {
            thread.policy = SchedPolicy::Fifo { priority: 99 };
        }
        let cpu = CpuSet::single(3);
        assert!(order(SchedPolicy::Rr { priority: 98 }, &cpu, &threads).raise.is_empty());
        let plain = order(SchedPolicy::Other { nice: -5 }, &cpu, &threads_of_6_12_rt());
        assert_eq!((plain.above.len(), plain.raise.len()), (0, 0));
    }

    proptest! {
        /// Whatever the requested policy, every vital thread of the CPU is above the program.
        #[test]
        fn no_priority_puts_a_program_above_the_kernels_threads(
            asked in 0u32..200, rr in any::<bool>(), now in prop::collection::vec(0u32..=99, 9),
        ) {
            let cpu = CpuSet::single(3);
            let mut threads = threads_of_6_12_rt();
            for (thread, priority) in threads.iter_mut().zip(now) {
                thread.policy = match priority {
                    0 => SchedPolicy::Other { nice: 0 },
                    priority => SchedPolicy::Fifo { priority },
                };
            }
            let asked = if rr { SchedPolicy::Rr { priority: asked } } else { SchedPolicy::Fifo { priority: asked } };
            let order = order(asked, &cpu, &threads);
            let program = order.policy.rt_priority();
            for thread in threads.iter().filter(|t| is_vital(&t.comm, &t.affinity, &cpu)) {
                let raised = order.raise.iter().find(|(raised, _)| raised.task == thread.task);
                let policy = raised.map_or(thread.policy, |(_, policy)| *policy);
                prop_assert!(program == 0 || policy.is_above(program), "{thread:?}");
                prop_assert!(policy.rt_priority() <= 99);
            }
        }
    }
}
