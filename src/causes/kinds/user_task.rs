//! `user-task`: its name, its page and other words for it. Pure.

use super::CauseEntry;

pub(super) const ENTRY: CauseEntry = CauseEntry {
    name: "user-task",
    summary: "another program",
    words: &[],
    beginnings: &[],
    page: PAGE,
};

const PAGE: &str = "\
Another program ran on this CPU. In a cpuset partition, the scheduler places no other task here. The
kernel refuses an affinity that contains only CPUs of the partition (EINVAL), and removes them from
any other affinity (`cpuset`). Tasks that are already in the partition's cgroup still run here.
Without a partition, any task whose affinity includes this CPU can run here.

Source: cpuset_cpus_allowed() in kernel/cgroup/cpuset.c and __sched_setaffinity() in
kernel/sched/syscalls.c (6.12; core.c before 6.11), `cpuset.cpus.partition` in
Documentation/admin-guide/cgroup-v2.rst.";
