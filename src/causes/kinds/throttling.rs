//! `throttling`: its name, its page and other words for it. Pure.

use super::CauseEntry;

pub(super) const ENTRY: CauseEntry = CauseEntry {
    name: "throttling",
    summary: "the workload had used up its CPU time and had to wait",
    words: &[],
    beginnings: &[],
    page: PAGE,
};

const PAGE: &str = "\
The workload was ready to run, but the scheduler let the CPU idle, because a limit on CPU time was
reached:

* Real-time throttling: before 6.12 the real-time tasks of a CPU may run for 0.95 s of each second
  by default (`rt-throttling`). Since 6.12 only kernels with CONFIG_RT_GROUP_SCHED have it. Before
  5.10 (commit 2586af1ac187), a CPU first borrows time that other CPUs of its scheduling domain do
  not use.
* `cpu.max` of a cgroup v2 (`cpu.cfs_quota_us` of v1) limits all ordinary tasks of the cgroup
  together. It does not limit real-time tasks.
* A SCHED_DEADLINE task waits for its next period when its runtime is used up.

cpushield recognizes throttling in the trace: the idle task runs although the workload is not
asleep. Before that, an interrupt requested the switch, or a task of lower priority replaced a
real-time task. cpushield reads the priorities from sched:sched_switch.

Source: sched_rt_runtime_exceeded() in kernel/sched/rt.c (6.1), throttle_cfs_rq() in
kernel/sched/fair.c and update_curr_dl_se() in kernel/sched/deadline.c (6.12).";
