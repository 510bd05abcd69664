//! `softirq`: its name, its page and other words for it. Pure.

use super::CauseEntry;

pub(super) const ENTRY: CauseEntry =
    CauseEntry { name: "softirq", summary: "a softirq", words: &[], beginnings: &[], page: PAGE };

const PAGE: &str = "\
The bottom half of an interrupt: network receive, block completion, timers, RCU callbacks. It runs
on the CPU that raised it, after the interrupt or in ksoftirqd; its name is shown with what raised
it. Move the interrupts and packet steering (`rps`) to other CPUs, and their softirqs move too.
`rcu_nocbs=` moves RCU callbacks.

Source: raise_softirq_irqoff() and handle_softirqs() in kernel/softirq.c (6.12).";
