//! `ipi-reschedule`: its name, its page and other words for it. Pure.

use super::CauseEntry;
use crate::causes::purpose::{IDLE_CPU, RESCHEDULE};

pub(super) const ENTRY: CauseEntry = CauseEntry {
    name: "ipi-reschedule",
    summary: "another CPU asked this one to reschedule",
    words: &[RESCHEDULE, IDLE_CPU],
    beginnings: &[],
    page: PAGE,
};

const PAGE: &str = "\
Another CPU woke a task that is to run on this CPU, or asked this CPU to reschedule. In a cpuset
partition, other CPUs wake only tasks of the workload and kernel threads of this CPU here. When
another CPU arms a timer for a `nohz_full` CPU, it sends a function call (`nohz_full_kick_func`)
instead of this IPI.

Source: resched_curr() and wake_up_nohz_cpu() in kernel/sched/core.c, tick_nohz_full_kick_cpu() in
kernel/time/tick-sched.c (6.12).";
