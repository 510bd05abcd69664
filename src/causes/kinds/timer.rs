//! `timer`: its name, its page and other words for it. Pure.

use super::CauseEntry;

pub(super) const ENTRY: CauseEntry = CauseEntry {
    name: "timer",
    summary: "a timer of the timer wheel",
    words: &[],
    beginnings: &[],
    page: PAGE,
};

const PAGE: &str = "\
A timer of the timer wheel (kernel/time/timer.c) expired. The kernel uses such timers for network
retransmission, delayed work and device polling. A timer that was armed on a CPU before the CPU was
shielded stays there. If it re-arms itself, it fires again and again. Since 6.9 another CPU may
expire such a timer if it is global and the old CPU has stopped its tick. It re-arms the timer on
its old base. If that base belongs to a `nohz_full` CPU with a stopped tick, this kicks the CPU. To
move all timers away, take the CPU offline and back online once (`cpu-hotplug-cycle`).

With commit 7dec062cfcf2 (November 2025), another CPU expires the global timers of an isolated CPU
only if the isolated CPU is in `nohz_full=`. Other CPUs in an isolated partition or in `isolcpus=`
are not in the timer-migration hierarchy. A global timer that is armed on such a CPU fires on that
CPU.

From 6.9 on, some CPUs whose tick runs (migrators) also expire the global timers of idle CPUs. In a
guest with 6.12, the shielded CPU 3 expired 22 timers of CPU 2 in 12 s. Taking the CPU offline and
back online does not prevent that. A CPU whose tick is stopped (`nohz_full=`) does not expire the
timers of idle CPUs. With commit 7dec062cfcf2, an isolated CPU does not either.

Source: __mod_timer(), trigger_dyntick_cpu() and timers_dead_cpu() in kernel/time/timer.c,
tmigr_handle_remote() and tmigr_cpu_deactivate() in kernel/time/timer_migration.c (6.12);
tmigr_is_isolated() in the latter (7dec062cfcf2).";
