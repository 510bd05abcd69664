//! Culprits that are known by name: functions and threads of the kernel, what each is for, and
//! where the kernel has it. One table; a name that is not here is shown as it is. Pure.

/// A culprit of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// The name of the function or thread; with a star at its end, how it begins.
    pub name: &'static str,
    /// What it is for, in a few words.
    pub what: &'static str,
    /// Where the kernel has it.
    pub source: &'static str,
}

const fn known(name: &'static str, what: &'static str, source: &'static str) -> Known {
    Known { name, what, source }
}

/// Every culprit that is known (names of 4.17 to 6.18).
pub const KNOWN: &[Known] = &[
    // Function calls.
    known("flush_tlb_func*", "TLB shootdown", "arch/x86/mm/tlb.c"),
    known("do_flush_tlb_all", "TLB shootdown, all", "arch/x86/mm/tlb.c"),
    known("do_kernel_range_flush", "TLB shootdown, kernel memory", "arch/x86/mm/tlb.c"),
    known("do_sync_core", "text patching (static key, BPF)", "arch/x86/kernel/alternative.c"),
    known("text_poke_sync*", "text patching (static key, ftrace)", "arch/x86/kernel/alternative.c"),
    known("ipi_mb", "membarrier", "kernel/sched/membarrier.c"),
    known("ipi_sync_core", "membarrier", "kernel/sched/membarrier.c"),
    known("ipi_rseq", "membarrier", "kernel/sched/membarrier.c"),
    known("ipi_sync_rq_state", "membarrier, first use", "kernel/sched/membarrier.c"),
    known("sched_ttwu_pending", "wakes a task", "kernel/sched/core.c"),
    known("nohz_csd_func", "idle load balancing", "kernel/sched/core.c"),
    known("rcu_exp_handler", "expedited RCU grace period", "kernel/rcu/tree_exp.h"),
    known("rcu_barrier_handler", "RCU barrier", "kernel/rcu/tree.c"),
    known("strict_work_handler", "RCU, strict grace period", "kernel/rcu/tree.c"),
    known("remote_function", "perf", "kernel/events/core.c"),
    known("__perf_event_read", "perf reads a counter", "kernel/events/core.c"),
    known("__perf_event_*", "perf", "kernel/events/core.c"),
    known("clocksource_verify_one_cpu", "clocksource watchdog", "kernel/time/clocksource.c"),
    known("invalidate_bh_lru", "drops buffer heads (unmount)", "fs/buffer.c"),
    known("tlb_remove_table_smp_sync", "page tables are given back", "mm/mmu_gather.c"),
    known("tick_setup_sched_timer", "tick is set up", "kernel/time/tick-sched.c"),
    known("retrigger_next_event", "the clock was set", "kernel/time/hrtimer.c"),
    known("__rdmsr_on_cpu*", "reads a register (MSR)", "arch/x86/lib/msr-smp.c"),
    known("__rdmsr_safe_on_cpu", "reads a register (MSR)", "arch/x86/lib/msr-smp.c"),
    known("__wrmsr_on_cpu*", "writes a register (MSR)", "arch/x86/lib/msr-smp.c"),
    known("aperfmperf_snapshot_khz", "reads the frequency (/proc/cpuinfo)", "arch/x86/kernel/cpu"),
    known("cpuid_smp_cpuid", "reads cpuid (/dev/cpu)", "arch/x86/kernel/cpuid.c"),
    known("mtrr_rendezvous_handler", "memory types (MTRR)", "arch/x86/kernel/cpu/mtrr"),
    known("rdt_*", "cache or bandwidth control (resctrl)", "arch/x86/kernel/cpu/resctrl"),
    known("rps_trigger_softirq", "packet steering (RPS)", "net/core/dev.c"),
    known("trigger_rx_softirq", "packet steering", "net/core/dev.c"),
    known("__blk_mq_complete_request_remote", "block completion", "block/blk-mq.c"),
    known("multi_cpu_stop", "stop_machine", "kernel/stop_machine.c"),
    known("rb_update_pages*", "a trace buffer is resized", "kernel/trace/ring_buffer.c"),
    // irq_work.
    known("nohz_full_kick_func", "kick: something needs the tick", "kernel/time/tick-sched.c"),
    known("sugov_irq_work", "frequency governor", "kernel/sched/cpufreq_schedutil.c"),
    known("dbs_irq_work", "frequency governor", "drivers/cpufreq/cpufreq_governor.c"),
    // High-resolution timers.
    known("hrtimer_wakeup", "a sleep that ends", "kernel/time/hrtimer.c"),
    known("posix_timer_fn", "timer_create(2)", "kernel/time/posix-timers.c"),
    known("it_real_fn", "setitimer(2)", "kernel/time/itimer.c"),
    known("timerfd_tmrproc", "timerfd", "fs/timerfd.c"),
    known("watchdog_timer_fn", "lockup watchdog", "kernel/watchdog.c"),
    known("dl_task_timer", "deadline task or fair server", "kernel/sched/deadline.c"),
    known("inactive_task_timer", "deadline task or fair server", "kernel/sched/deadline.c"),
    known("sched_rt_period_timer", "real-time throttling", "kernel/sched/rt.c"),
    known("sched_cfs_period_timer", "CPU quota of a cgroup", "kernel/sched/fair.c"),
    known("sched_cfs_slack_timer", "CPU quota of a cgroup", "kernel/sched/fair.c"),
    known("hrtick", "precise preemption (HRTICK)", "kernel/sched/core.c"),
    known("perf_mux_hrtimer_handler", "perf shares its counters", "kernel/events/core.c"),
    known("perf_swevent_hrtimer", "perf, cpu-clock", "kernel/events/core.c"),
    known("bpf_timer_cb", "BPF timer", "kernel/bpf/helpers.c"),
    known("schedule_page_work_fn", "krcu: batches of kfree_rcu", "kernel/rcu/tree.c"),
    // Timers of the wheel.
    known("delayed_work_timer_fn", "delayed work", "kernel/workqueue.c"),
    known("process_timeout", "a sleep in the kernel that ends", "kernel/time/timer.c"),
    known("clocksource_watchdog", "clocksource watchdog", "kernel/time/clocksource.c"),
    known("mce_timer_fn", "machine check poll", "arch/x86/kernel/cpu/mce/core.c"),
    known("tcp_*", "TCP", "net/ipv4/tcp_timer.c"),
    known("neigh_timer_handler", "neighbours of the network", "net/core/neighbour.c"),
    known("idle_worker_timeout", "a kworker ends", "kernel/workqueue.c"),
    known("wq_watchdog_timer_fn", "watchdog of work queues", "kernel/workqueue.c"),
    known("writeout_period", "writeback", "mm/page-writeback.c"),
    known("blk_rq_timed_out_timer", "block requests", "block/blk-core.c"),
    // Work items.
    known("vmstat_update", "memory statistics", "mm/vmstat.c"),
    known("vmstat_shepherd", "memory statistics", "mm/vmstat.c"),
    known("lru_add_drain_per_cpu", "pages of a CPU are drained", "mm/swap.c"),
    known("drain_local_pages*", "pages of a CPU are drained", "mm/page_alloc.c"),
    known("flush_cpu_slab", "slab caches are drained", "mm/slub.c"),
    known("cache_reap", "slab caches are drained", "mm/slab.c (before 6.8)"),
    known("wb_workfn", "writeback", "fs/fs-writeback.c"),
    known("neigh_managed_work", "neighbours of the network", "net/core/neighbour.c"),
    known("kfree_rcu_monitor", "RCU callbacks (kfree_rcu)", "mm/slab_common.c"),
    known("rcu_work_rcufn", "work after a grace period", "kernel/workqueue.c"),
    known("bpf_prog_free_deferred", "a BPF program goes", "kernel/bpf/core.c"),
    known("key_garbage_collector", "keys that ended", "security/keys/gc.c"),
    known("wait_rcu_exp_gp", "expedited RCU grace period", "kernel/rcu/tree_exp.h"),
    known("sync_rcu_exp_select_node_cpus", "expedited RCU grace period", "kernel/rcu/tree_exp.h"),
    known("mce_gen_pool_process", "machine check log", "arch/x86/kernel/cpu/mce/genpool.c"),
    // Threads.
    known("ksoftirqd/*", "soft interrupts that were put off", "kernel/softirq.c"),
    known("ktimers/*", "timers of PREEMPT_RT", "kernel/softirq.c"),
    known("ktimersd/*", "timers of PREEMPT_RT", "kernel/softirq.c"),
    known("rcuc/*", "RCU callbacks of this CPU", "kernel/rcu/tree.c"),
    known("rcuo*", "RCU callbacks of other CPUs", "kernel/rcu/tree_nocb.h"),
    known("rcub/*", "RCU priority boost", "kernel/rcu/tree_plugin.h"),
    known("migration/*", "moves tasks, stop_machine", "kernel/stop_machine.c"),
    known("cpuhp/*", "CPU goes on or off line", "kernel/cpu.c"),
    known("idle_inject/*", "idle injection (power or heat)", "drivers/powercap/idle_inject.c"),
    known("irq_work/*", "irq_work of PREEMPT_RT", "kernel/irq_work.c"),
    known("kcompactd*", "memory compaction", "mm/compaction.c"),
    known("kswapd*", "memory reclaim", "mm/vmscan.c"),
    known("khugepaged", "huge pages", "mm/khugepaged.c"),
    known("ksmd", "same-page merging", "mm/ksm.c"),
    known("jbd2/*", "journal of ext4", "fs/jbd2/journal.c"),
    known("backlog_napi/*", "network receive in threads", "net/core/dev.c"),
    known("vhost-*", "a guest's devices", "drivers/vhost/vhost.c"),
    known("kvm-nx-lpage-re*", "huge pages of guests", "arch/x86/kvm/mmu/mmu.c"),
    // NMI handlers.
    known("perf_event_nmi_handler", "perf, or the hard lockup watchdog", "arch/x86/events/core.c"),
    known("nmi_cpu_backtrace_handler", "backtrace", "arch/x86/kernel/apic/hw_nmi.c"),
    known("ghes_notify_nmi", "error that firmware tells of", "drivers/acpi/apei/ghes.c"),
];

/// What is known of a culprit: its first word, as `wb_workfn (unbound)` and `x, kept for RCU` have
/// more behind it.
#[must_use]
pub fn of(culprit: &str) -> Option<&'static Known> {
    let name = culprit.split([' ', ',']).next().filter(|name| !name.is_empty())?;
    let exact = KNOWN.iter().find(|known| known.name == name);
    exact.or_else(|| {
        let begins = |known: &&Known| {
            known.name.strip_suffix('*').is_some_and(|start| name.starts_with(start))
        };
        KNOWN.iter().find(begins)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn culprits_are_known_by_name_with_their_source() {
        let names: BTreeSet<_> = KNOWN.iter().map(|known| known.name).collect();
        assert_eq!(names.len(), KNOWN.len(), "one line for each");
        assert!(KNOWN.iter().all(|known| known.source.contains('/') && known.what.len() < 42));
        let what = |culprit| of(culprit).map(|known| known.what);
        assert_eq!(what("flush_tlb_func_remote"), Some("TLB shootdown"));
        assert_eq!(what("__perf_event_read"), Some("perf reads a counter"));
        assert_eq!(what("__perf_event_enable"), Some("perf"));
        assert_eq!(what("wb_workfn (unbound)"), Some("writeback"));
        assert_eq!(what("ksoftirqd/3"), Some("soft interrupts that were put off"));
        assert_eq!((what(""), what("IRQ 24 eth0"), what("sh (812)")), (None, None, None));
    }
}
