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
Timers of the timer wheel (kernel/time/timer.c): network retransmission, delayed work, device
polling. A timer that was armed on a CPU before it was shielded stays there. One that re-arms itself
keeps returning. Since 6.9 another CPU expires a global timer but re-arms it on its old base, which
kicks a `nohz_full` CPU each time. To move all of them away, take the CPU offline and online once
(`cpu-hotplug-cycle`).

With commit 7dec062cfcf2 (November 2025), another CPU expires the global timers of an isolated CPU
only if that is in `nohz_full=`. Other CPUs of an isolated partition, or of `isolcpus=`, leave the
timer migration hierarchy. Global timers that are armed there then fire there.

From 6.9 on, a CPU that ticks also expires the global timers of idle CPUs. In a guest with 6.12, 22
timers of CPU 2 expired on the shielded CPU 3 in 12 s. Taking the CPU offline and online does not
change that. A CPU whose tick is stopped (`nohz_full=`) does not expire them. With commit
7dec062cfcf2, nor does an isolated CPU.

Source: __mod_timer(), trigger_dyntick_cpu() and timers_dead_cpu() in kernel/time/timer.c,
tmigr_handle_remote() and tmigr_cpu_deactivate() in kernel/time/timer_migration.c (6.12);
tmigr_is_isolated() in the latter (7dec062cfcf2).";
