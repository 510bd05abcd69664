//! `softirq`: its name, its page and other words for it. Pure.

use super::CauseEntry;

pub(super) const ENTRY: CauseEntry =
    CauseEntry { name: "softirq", summary: "a softirq", words: &[], beginnings: &[], page: PAGE };

const PAGE: &str = "\
A softirq is the bottom half of an interrupt: network receive, block completion, timers, RCU
callbacks. It runs on the CPU that raised it: after the interrupt, in ksoftirqd, or when a task
enables bottom halves again (local_bh_enable()). On PREEMPT_RT it always runs in a thread. The
report shows its name and what raised it. If you move interrupts and packet steering (`rps`) to
other CPUs, their softirqs move too. `rcu_nocbs=` moves RCU callbacks to threads (rcuo), which can
run on other CPUs.

Source: raise_softirq_irqoff(), __local_bh_enable_ip() and handle_softirqs() in kernel/softirq.c
(6.12).";
