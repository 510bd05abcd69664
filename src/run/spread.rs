//! [`ThreadSpread`]: one thread per CPU. An isolated partition has no load balancing: a thread
//! stays on the CPU it was created on, that of its parent thread. So each thread must be placed.
//!
//! The parent does that shortly after a thread appears, by its affinity. It is not for programs
//! that place their threads themselves. Nothing is changed until a second thread appears, so that a
//! program that asks for its number of CPUs at its start gets the right answer.

use cpushield_linux::{CpuSet, Host, TaskId};
use std::collections::BTreeMap;

/// The threads of a program and the CPUs they were placed on.
#[derive(Debug)]
pub struct ThreadSpread {
    cpus: CpuSet,
    placed: BTreeMap<TaskId, usize>,
}

impl ThreadSpread {
    /// A spread over these CPUs, with no thread yet.
    #[must_use]
    pub fn new(cpus: &CpuSet) -> ThreadSpread {
        ThreadSpread { cpus: cpus.clone(), placed: BTreeMap::new() }
    }

    /// Places new threads, each on the CPU with the fewest of them. Threads that have ended, and
    /// those that cannot be placed, are skipped.
    pub fn place_new_threads(&mut self, host: &Host, pid: i32) {
        let Ok(tids) = host.thread_ids(pid) else { return };
        self.placed.retain(|task, _| tids.contains(&task.tid));
        if tids.len() < 2 && self.placed.is_empty() {
            return;
        }
        for tid in tids {
            if self.placed.keys().any(|task| task.tid == tid) {
                continue;
            }
            let (Some(cpu), Some(started)) = (self.least_used_cpu(), host.start_time(tid)) else {
                continue;
            };
            if host.set_affinity(tid, &CpuSet::single(cpu)).is_ok() {
                self.placed.insert(TaskId { tid, started }, cpu);
            }
        }
    }

    fn least_used_cpu(&self) -> Option<usize> {
        let threads = self.placed.values();
        self.cpus.iter().min_by_key(|cpu| (threads.clone().filter(|at| *at == cpu).count(), *cpu))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_thread_gets_the_cpu_with_the_fewest_threads() {
        let mut spread = ThreadSpread::new(&"2-4".parse().unwrap());
        let mut order = Vec::new();
        for tid in 0..4 {
            let cpu = spread.least_used_cpu().unwrap();
            spread.placed.insert(TaskId { tid, started: 0 }, cpu);
            order.push(cpu);
        }
        assert_eq!(order, [2, 3, 4, 2]);
        spread.placed.retain(|task, _| task.tid != 1);
        assert_eq!(spread.least_used_cpu(), Some(3));
    }
}
