//! `ipi-irq-work`: its name, its page and other words for it. Pure.

use super::CauseEntry;

pub(super) const ENTRY: CauseEntry = CauseEntry {
    name: "ipi-irq-work",
    summary: "irq_work: a function queued to run in interrupt context",
    words: &[],
    beginnings: &[],
    page: PAGE,
};

const PAGE: &str = "\
The kernel queued a function to run soon in interrupt context (kernel/irq_work.c), for example for
printk, for perf and BPF wake-ups, or for RCU. It also kicks a `nohz_full` CPU this way
(nohz_full_kick_func) when a timer was armed on that CPU or a task there needs the tick. No event
names a function that a CPU queues for itself; the report shows what ran when the function was
queued, or just before.

Source: irq_work_queue() and irq_work_run() in kernel/irq_work.c, nohz_full_kick_func() in
kernel/time/tick-sched.c, the events irq_work_entry and irq_work_exit in
arch/x86/include/asm/trace/irq_vectors.h (6.12).";
