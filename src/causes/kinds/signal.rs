//! `signal`: its name, its page and other words for it. Pure.

use super::CauseEntry;

pub(super) const ENTRY: CauseEntry = CauseEntry {
    name: "signal",
    summary: "the workload received a signal",
    words: &[],
    beginnings: &[],
    page: PAGE,
};

const PAGE: &str = "\
A signal reached the workload: from its own timer (setitimer, timer_create), from another program
(kill, tgkill) or from the kernel. If the CPU was busy, the IPI that announced the signal is counted
as part of it. CPU-time timers (ITIMER_PROF, CLOCK_PROCESS_CPUTIME_ID) also keep the tick running.
Block signals in the thread that must not be disturbed, and accept them in another thread (sigwait,
signalfd).

Source: signal_wake_up_state() and get_signal() in kernel/signal.c, arm_timer() in
kernel/time/posix-cpu-timers.c (6.12).";
