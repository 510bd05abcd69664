//! `tick`: its name, its page and other words for it. Pure.

use super::CauseEntry;

pub(super) const ENTRY: CauseEntry = CauseEntry {
    name: "tick",
    summary: "the scheduler's periodic tick",
    words: &["tick_nohz_handler", "tick_nohz_highres_handler", "tick_sched_timer"],
    beginnings: &[],
    page: PAGE,
};

const PAGE: &str = "\
The kernel interrupts every busy CPU HZ times a second (CONFIG_HZ: 100, 250, 300 or 1000). This tick
keeps time, accounts CPU use and shares the CPU among programs.

Nothing stops it at runtime on a busy CPU. To stop it, boot with `nohz_full=`. Then run only one
ordinary task on the CPU, one SCHED_RR task, or any number of SCHED_FIFO tasks
(sched_can_stop_tick() in kernel/sched/core.c, 6.12). Since 4.17, no residual tick remains on that
CPU: once a second, another CPU runs a tick on its behalf (sched_tick_remote() in the same file).

On a `nohz_full` CPU the following restart the tick:

* a second runnable ordinary task, a SCHED_DEADLINE task or the fair server (`fair-server`);
* a CPU quota of the task's cgroup (`cpu.max`; cfs_task_bw_constrained() in kernel/sched/fair.c,
  6.12);
* a POSIX CPU timer, or an unstable scheduler clock;
* an RCU grace period that waits for the CPU;
* a perf event that the kernel throttles on this CPU;
* a perf event with a sampling frequency, the default of `perf record`. Wherever it counts, it
  restarts the tick of every `nohz_full` CPU (account_freq_event_nohz() in kernel/events/core.c).

The kernel reports which of them it was (`timer:tick_stop`, `enum tick_dep_bits` in
include/linux/tick.h), and the culprit of the tick includes it: `kept for perf`.

On x86 the tick appears as `Local timer interrupts` in /proc/interrupts, on arm64 as `arch_timer`.
In the trace it is `hrtimer_expire_entry` with `tick_nohz_handler` (`tick_nohz_highres_handler` in
6.7 and 6.8, `tick_sched_timer` before).

Source: kernel/time/tick-sched.c and sched_tick_remote() in kernel/sched/core.c (6.12),
Documentation/timers/no_hz.rst.";
