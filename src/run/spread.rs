//! [`ThreadSpread`]: one thread per CPU. An isolated partition has no load balancing: a thread
//! stays on the CPU it was born on, that of its parent thread. So somebody must place them.
//!
//! This is done from outside, shortly after a thread appears, by its affinity. It is not for
//! programs that place their threads themselves. Until a second thread appears nothing is touched,
//! so that a program that asks how many CPUs it has gets the true answer at its start.

use cpushield_linux::{CpuSet, Host, TaskId};
use std::collections::BTreeMap;

/// The threads of one program and where they were put.
#[derive(Debug)]
pub struct ThreadSpread {
    cpus: CpuSet,
    placed: BTreeMap<TaskId, usize>,
}

impl ThreadSpread {
    /// Over these CPUs.
    #[must_use]
    pub fn over(cpus: &CpuSet) -> ThreadSpread {
        ThreadSpread { cpus: cpus.clone(), placed: BTreeMap::new() }
    }

    /// Places the threads that are new, each on the CPU that has fewest of them. Threads that end
    /// meanwhile, and those that cannot be placed, are left out.
    pub fn round(&mut self, host: &Host, pid: i32) {
        let Ok(names) = host.list(&format!("/proc/{pid}/task")) else { return };
        let tids: Vec<i32> = names.iter().filter_map(|name| name.parse().ok()).collect();
        self.placed.retain(|task, _| tids.contains(&task.tid));
        if tids.len() < 2 && self.placed.is_empty() {
            return;
        }
        for tid in tids {
            if self.placed.keys().any(|task| task.tid == tid) {
                continue;
            }
            let (Some(cpu), Some(started)) = (self.emptiest(), host.start_time(tid)) else {
                continue;
            };
            if host.set_affinity(tid, &CpuSet::one(cpu)).is_ok() {
                self.placed.insert(TaskId { tid, started }, cpu);
            }
        }
    }

    fn emptiest(&self) -> Option<usize> {
        let threads = |cpu: &usize| self.placed.values().filter(|at| *at == cpu).count();
        self.cpus.iter().min_by_key(|cpu| (threads(cpu), *cpu))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_thread_goes_where_fewest_are() {
        let mut spread = ThreadSpread::over(&"2-4".parse().unwrap());
        let mut order = Vec::new();
        for tid in 0..4 {
            let cpu = spread.emptiest().unwrap();
            spread.placed.insert(TaskId { tid, started: 0 }, cpu);
            order.push(cpu);
        }
        assert_eq!(order, [2, 3, 4, 2]);
        spread.placed.retain(|task, _| task.tid != 1);
        assert_eq!(spread.emptiest(), Some(3));
    }
}
