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
printk, for perf and BPF wake-ups, or for RCU. A `nohz_full` CPU also kicks itself this way
(nohz_full_kick_func) when a timer is armed or a task needs the tick. If another CPU queues the
function, it arrives as a function call (`ipi-call`) instead.

cpushield records no event that names a function that a CPU queues for itself. The report shows what
ran when the function was queued, or just before. Since 6.4 the kernel's event `ipi:ipi_send_cpu`
names such a function, but only the first one in the queue.

Source: irq_work_queue_on(), irq_work_raise() and irq_work_run() in kernel/irq_work.c,
nohz_full_kick_func() in kernel/time/tick-sched.c, the events irq_work_entry and irq_work_exit in
arch/x86/include/asm/trace/irq_vectors.h (6.12).";
