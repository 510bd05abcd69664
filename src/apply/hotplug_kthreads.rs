//! Kernel threads that the kernel gives other CPUs when a CPU goes offline or comes online: those
//! of RCU may then run on every online CPU of their node outside `nohz_full=`
//! (`rcutree_affinity_setting()` in kernel/rcu/tree.c, 6.12).

use crate::documents::applied::StepNote;
use cpushield_linux::{CpuSet, Host, Result, TaskId};

/// The affinities of kernel threads before a CPU changes.
pub(super) struct KthreadAffinities {
    threads: Vec<(TaskId, CpuSet)>,
}

impl KthreadAffinities {
    /// Reads those that can be set.
    pub(super) fn read(host: &Host) -> Result<KthreadAffinities> {
        let tasks = host.tasks()?.into_iter().filter(|task| task.kthread && !task.bound);
        let threads = tasks.filter_map(|task| Some((task.id, host.affinity(task.id.tid).ok()?)));
        Ok(KthreadAffinities { threads: threads.collect() })
    }

    /// Restores those that have gained CPUs. Returns a note about the first that could not be
    /// restored.
    pub(super) fn restore(&self, host: &Host) -> Result<Option<StepNote>> {
        let mut failed = None;
        for (id, before) in &self.threads {
            let gained = host.affinity(id.tid).is_ok_and(|now| !now.is_subset(before));
            if !gained || !host.is_same_task(*id) {
                continue;
            }
            match host.set_affinity(id.tid, before) {
                Ok(()) => {}
                Err(error) if error.is_stop() => return Err(error),
                Err(error) => {
                    let (tid, answer) = (id.tid, error.reason());
                    failed.get_or_insert(StepNote::KthreadNotRestored { tid, answer });
                }
            }
        }
        Ok(failed)
    }
}
