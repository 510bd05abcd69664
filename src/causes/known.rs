//! Culprits that are known by name: functions and threads of the kernel, the purpose of each, and
//! its file in the kernel. One table; a name that is not in it is shown alone. Pure.

use super::{Cause, Culprit};
use crate::glob;

/// A culprit of the kernel with a known purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownCulprit {
    /// The name of the function or thread; with a star at its end, a prefix.
    pub name: &'static str,
    /// Its purpose, in a few words.
    pub what: &'static str,
    /// Its file in the kernel.
    pub source: &'static str,
    /// The cause that it is counted under.
    pub cause: Cause,
}

type Text = &'static str;

const fn call(name: Text, what: Text, source: Text) -> KnownCulprit {
    KnownCulprit { name, what, source, cause: Cause::IpiCall }
}

const fn irq_work(name: Text, what: Text, source: Text) -> KnownCulprit {
    KnownCulprit { name, what, source, cause: Cause::IpiIrqWork }
}

const fn hrtimer(name: Text, what: Text, source: Text) -> KnownCulprit {
    KnownCulprit { name, what, source, cause: Cause::Hrtimer }
}

const fn timer(name: Text, what: Text, source: Text) -> KnownCulprit {
    KnownCulprit { name, what, source, cause: Cause::Timer }
}

const fn work(name: Text, what: Text, source: Text) -> KnownCulprit {
    KnownCulprit { name, what, source, cause: Cause::Workqueue }
}

const fn thread(name: Text, what: Text, source: Text) -> KnownCulprit {
    KnownCulprit { name, what, source, cause: Cause::Kthread }
}

const fn nmi(name: Text, what: Text, source: Text) -> KnownCulprit {
    KnownCulprit { name, what, source, cause: Cause::Nmi }
}

/// The file of `kfree_rcu()`, which moved in 6.14.
const KFREE_RCU: Text = "mm/slab_common.c (kernel/rcu/tree.c before 6.14)";

/// The file of `schedule_timeout()`, which moved in 6.13.
const SCHEDULE_TIMEOUT: Text = "kernel/time/sleep_timeout.c (timer.c before 6.13)";

/// Every known culprit (names of 4.17 to 6.18).
pub const KNOWN: &[KnownCulprit] = &[
    // Function calls.
    call("flush_tlb_func*", "TLB shootdown", "arch/x86/mm/tlb.c"),
    call("do_flush_tlb_all", "full TLB shootdown", "arch/x86/mm/tlb.c"),
    call("do_kernel_range_flush", "TLB shootdown, kernel memory", "arch/x86/mm/tlb.c"),
    call("do_sync_core", "text patching (static key, BPF)", "arch/x86/kernel/alternative.c"),
    call("ipi_mb", "membarrier", "kernel/sched/membarrier.c"),
    call("ipi_sync_core", "membarrier", "kernel/sched/membarrier.c"),
    call("ipi_rseq", "membarrier", "kernel/sched/membarrier.c"),
    call("ipi_sync_rq_state", "membarrier, first use", "kernel/sched/membarrier.c"),
    call("sched_ttwu_pending", "task wake-up", "kernel/sched/core.c"),
    call("nohz_csd_func", "idle load balancing", "kernel/sched/core.c"),
    call("__hrtick_start", "precise preemption (HRTICK)", "kernel/sched/core.c"),
    // An irq_work of another CPU arrives as a call (irq_work_queue_on() in kernel/irq_work.c).
    call("nohz_full_kick_func", "kick: something needs the tick", "kernel/time/tick-sched.c"),
    call("rto_push_irq_work_func", "real-time task balancing", "kernel/sched/rt.c"),
    call("irq_work_wake", "irq_work on PREEMPT_RT", "kernel/irq_work.c"),
    call("rcu_iw_handler", "a long RCU grace period", "kernel/rcu/tree.c"),
    call("rcu_exp_handler", "expedited RCU grace period", "kernel/rcu/tree_exp.h"),
    call("rcu_barrier_handler", "RCU barrier", "kernel/rcu/tree.c"),
    call("mce_cpu_restart", "changing machine check settings", "arch/x86/kernel/cpu/mce/core.c"),
    call("generic_smp_call_function*", "a function call from another CPU", "kernel/smp.c"),
    call("remote_function", "perf", "kernel/events/core.c"),
    call("__perf_event_read", "reading a perf counter", "kernel/events/core.c"),
    call("__perf_event_*", "perf", "kernel/events/core.c"),
    call("clocksource_verify_one_cpu", "clocksource watchdog", "kernel/time/clocksource.c"),
    call("watchdog_check_skew_remote", "clocksource watchdog", "kernel/time/clocksource.c"),
    call("invalidate_bh_lru", "dropping buffer heads (unmount)", "fs/buffer.c"),
    call("tlb_remove_table_smp_sync", "freeing page tables", "mm/mmu_gather.c"),
    call("retrigger_next_event", "setting the clock", "kernel/time/hrtimer.c"),
    call("__rdmsr_on_cpu*", "reading a register (MSR)", "arch/x86/lib/msr-smp.c"),
    call("__rdmsr_safe_on_cpu", "reading a register (MSR)", "arch/x86/lib/msr-smp.c"),
    call("__wrmsr_on_cpu*", "writing a register (MSR)", "arch/x86/lib/msr-smp.c"),
    call("aperfmperf_snapshot_khz", "reading the frequency (/proc/cpuinfo)", "arch/x86/kernel/cpu"),
    call("cpuid_smp_cpuid", "reading cpuid (/dev/cpu)", "arch/x86/kernel/cpuid.c"),
    call("mtrr_rendezvous_handler", "setting memory types (MTRR)", "arch/x86/kernel/cpu/mtrr"),
    call("rdt_*", "cache or bandwidth control (resctrl)", "arch/x86/kernel/cpu/resctrl"),
    call("resctrl_arch_sync_*", "cache or bandwidth (resctrl)", "arch/x86/kernel/cpu/resctrl"),
    call("mon_event_count", "reading counters of resctrl", "fs/resctrl/monitor.c"),
    call("ack_kick", "kicking the CPUs of a guest (KVM)", "virt/kvm/kvm_main.c"),
    call("rps_trigger_softirq", "packet steering (RPS)", "net/core/dev.c"),
    call("trigger_rx_softirq", "packet steering", "net/core/dev.c"),
    call("__blk_mq_complete_request_remote", "block completion", "block/blk-mq.c"),
    // irq_work.
    irq_work("sugov_irq_work", "frequency governor", "kernel/sched/cpufreq_schedutil.c"),
    irq_work("dbs_irq_work", "frequency governor", "drivers/cpufreq/cpufreq_governor.c"),
    // High-resolution timers.
    hrtimer("hrtimer_wakeup", "end of a sleep", "kernel/time/hrtimer.c"),
    hrtimer("posix_timer_fn", "timer_create(2)", "kernel/time/posix-timers.c"),
    hrtimer("it_real_fn", "setitimer(2)", "kernel/time/itimer.c"),
    hrtimer("timerfd_tmrproc", "timerfd", "fs/timerfd.c"),
    hrtimer("watchdog_timer_fn", "lockup watchdog", "kernel/watchdog.c"),
    hrtimer("dl_task_timer", "deadline task or fair server", "kernel/sched/deadline.c"),
    hrtimer("inactive_task_timer", "deadline task or fair server", "kernel/sched/deadline.c"),
    hrtimer("sched_rt_period_timer", "real-time throttling", "kernel/sched/rt.c"),
    hrtimer("sched_cfs_period_timer", "CPU quota of a cgroup", "kernel/sched/fair.c"),
    hrtimer("sched_cfs_slack_timer", "CPU quota of a cgroup", "kernel/sched/fair.c"),
    hrtimer("hrtick", "precise preemption (HRTICK)", "kernel/sched/core.c"),
    hrtimer("perf_mux_hrtimer_handler", "perf counter multiplexing", "kernel/events/core.c"),
    hrtimer("perf_swevent_hrtimer", "perf cpu-clock", "kernel/events/core.c"),
    hrtimer("rseq_slice_expired", "time slice extension (rseq)", "kernel/rseq.c"),
    hrtimer("apic_timer_fn", "the local timer of a guest (KVM)", "arch/x86/kvm/lapic.c"),
    hrtimer("bpf_timer_cb", "BPF timer", "kernel/bpf/helpers.c"),
    hrtimer("schedule_page_work_fn", "kfree_rcu batches (krcu)", KFREE_RCU),
    // Timers of the wheel.
    timer("delayed_work_timer_fn", "delayed work", "kernel/workqueue.c"),
    timer("process_timeout", "end of a sleep in the kernel", SCHEDULE_TIMEOUT),
    timer("clocksource_watchdog", "clocksource watchdog", "kernel/time/clocksource.c"),
    timer("mce_timer_fn", "machine check poll", "arch/x86/kernel/cpu/mce/core.c"),
    timer("tcp_*", "TCP", "net/ipv4/tcp_timer.c"),
    timer("neigh_timer_handler", "network neighbours (ARP, NDP)", "net/core/neighbour.c"),
    timer("idle_worker_timeout", "ending idle kworkers", "kernel/workqueue.c"),
    timer("wq_watchdog_timer_fn", "workqueue watchdog", "kernel/workqueue.c"),
    timer("writeout_period", "writeback", "mm/page-writeback.c"),
    timer("srcu_delay_timer", "SRCU callbacks", "kernel/rcu/srcutree.c"),
    timer("dev_watchdog", "network transmit watchdog", "net/sched/sch_generic.c"),
    timer("fq_flush_timeout", "IOMMU unmapping", "drivers/iommu/dma-iommu.c"),
    timer("blk_rq_timed_out_timer", "block request timeouts", "block/blk-core.c"),
    // Work items.
    work("vmstat_update", "memory statistics", "mm/vmstat.c"),
    work("refresh_vm_stats", "memory statistics (vm.stat_refresh)", "mm/vmstat.c"),
    work("vmstat_shepherd", "memory statistics", "mm/vmstat.c"),
    work("lru_add_drain_per_cpu", "draining a CPU's page lists", "mm/swap.c"),
    work("drain_local_pages*", "draining a CPU's page lists", "mm/page_alloc.c"),
    work("flush_cpu_slab", "draining slab caches", "mm/slub.c (before 7.0)"),
    work("flush_cpu_sheaves", "draining slab caches", "mm/slub.c (since 7.0)"),
    work("flush_rcu_sheaf", "RCU callbacks (kfree_rcu)", "mm/slub.c (since 6.18)"),
    work("cache_reap", "draining slab caches", "mm/slab.c (before 6.8)"),
    work("wb_workfn", "writeback", "fs/fs-writeback.c"),
    work("neigh_managed_work", "network neighbours (ARP, NDP)", "net/core/neighbour.c"),
    work("neigh_periodic_work", "network neighbours (ARP, NDP)", "net/core/neighbour.c"),
    work("psi_avgs_work", "pressure statistics (PSI)", "kernel/sched/psi.c"),
    work("drain_vmap_area_work", "freeing kernel addresses (vmalloc)", "mm/vmalloc.c"),
    work("delayed_vfree_work", "freeing kernel memory (vmalloc)", "mm/vmalloc.c"),
    work("kfree_rcu_monitor", "RCU callbacks (kfree_rcu)", KFREE_RCU),
    work("srcu_invoke_callbacks", "SRCU callbacks", "kernel/rcu/srcutree.c"),
    work("process_srcu", "SRCU grace periods", "kernel/rcu/srcutree.c"),
    work("mm_cid_work_fn", "CPU numbers of rseq", "kernel/sched/core.c"),
    work("wq_barrier_func", "waiting for a work item", "kernel/workqueue.c"),
    work("flush_backlog", "removing a network interface", "net/core/dev.c"),
    work("mbm_handle_overflow", "memory bandwidth counters (resctrl)", "fs/resctrl/monitor.c"),
    work("cqm_handle_limbo", "cache counters (resctrl)", "fs/resctrl/monitor.c"),
    work("strict_work_handler", "strict RCU grace period", "kernel/rcu/tree.c"),
    work("update_pages_handler", "resizing a trace buffer", "kernel/trace/ring_buffer.c"),
    work("bpf_prog_free_deferred", "freeing a BPF program", "kernel/bpf/core.c"),
    work("key_garbage_collector", "expired keys", "security/keys/gc.c"),
    work("wait_rcu_exp_gp", "expedited RCU grace period", "kernel/rcu/tree_exp.h"),
    work("sync_rcu_exp_select_node_cpus", "expedited RCU grace period", "kernel/rcu/tree_exp.h"),
    work("mce_gen_pool_process", "machine check log", "arch/x86/kernel/cpu/mce/genpool.c"),
    work("fb_flashcursor", "console cursor", "drivers/video/fbdev/core/fbcon.c"),
    work("drm_fb_helper_damage_work", "drawing the console", "drivers/gpu/drm/drm_fb_helper.c"),
    // Threads.
    thread("ksoftirqd/*", "deferred softirqs", "kernel/softirq.c"),
    thread("ktimers/*", "timer softirqs (PREEMPT_RT, threadirqs)", "kernel/softirq.c"),
    thread("ktimersd/*", "timer softirqs on PREEMPT_RT", "kernel/softirq.c"),
    thread("rcuc/*", "RCU callbacks of this CPU", "kernel/rcu/tree.c"),
    thread("rcuo*", "RCU callbacks of rcu_nocbs= CPUs", "kernel/rcu/tree_nocb.h"),
    thread("rcub/*", "RCU priority boost", "kernel/rcu/tree_plugin.h"),
    thread("migration/*", "task migration, stop_machine", "kernel/stop_machine.c"),
    thread("multi_cpu_stop", "stop_machine, run by migration/N", "kernel/stop_machine.c"),
    thread("cpuhp/*", "CPU hotplug", "kernel/cpu.c"),
    thread("idle_inject/*", "idle injection (power or heat)", "drivers/powercap/idle_inject.c"),
    thread("irq/*", "device interrupt handler", "kernel/irq/manage.c"),
    thread("kthreadd", "creating kernel threads", "kernel/kthread.c"),
    thread("khungtaskd", "hung task detection", "kernel/hung_task.c"),
    thread("kauditd", "audit log", "kernel/audit.c"),
    thread("oom_reaper", "freeing memory of killed programs", "mm/oom_kill.c"),
    thread("rcu_preempt", "RCU grace periods", "kernel/rcu/tree.c"),
    thread("rcu_sched", "RCU grace periods", "kernel/rcu/tree.c"),
    thread("rcu_exp_*", "expedited RCU grace periods", "kernel/rcu/tree.c"),
    thread("rcu_tasks*", "RCU grace periods for tracing", "kernel/rcu/tasks.h"),
    thread("watchdogd", "hardware watchdog", "drivers/watchdog/watchdog_dev.c"),
    thread("scsi_eh_*", "SCSI error handling", "drivers/scsi/hosts.c"),
    thread("napi/*", "threaded network receive (NAPI)", "net/core/dev.c"),
    thread("irq_work/*", "irq_work on PREEMPT_RT", "kernel/irq_work.c"),
    thread("kcompactd*", "memory compaction", "mm/compaction.c"),
    thread("kswapd*", "memory reclaim", "mm/vmscan.c"),
    thread("khugepaged", "huge pages", "mm/khugepaged.c"),
    thread("ksmd", "same-page merging", "mm/ksm.c"),
    thread("jbd2/*", "ext4 journal", "fs/jbd2/journal.c"),
    thread("backlog_napi/*", "threaded network receive (NAPI)", "net/core/dev.c"),
    thread("vhost-*", "a guest's devices", "drivers/vhost/vhost.c (before 6.4)"),
    thread("kvm-nx-lpage-re*", "huge pages of guests", "arch/x86/kvm/mmu/mmu.c (before 6.13)"),
    thread("pr/*", "console output", "kernel/printk/nbcon.c"),
    thread("psimon", "pressure statistics (PSI triggers)", "kernel/sched/psi.c"),
    thread("sugov:*", "frequency governor", "kernel/sched/cpufreq_schedutil.c"),
    // NMI handlers.
    nmi("perf_event_nmi_handler", "perf, or the hard lockup watchdog", "arch/x86/events/core.c"),
    nmi("nmi_cpu_backtrace_handler", "backtrace", "arch/x86/kernel/apic/hw_nmi.c"),
    nmi("ghes_notify_nmi", "error reported by firmware", "drivers/acpi/apei/ghes.c"),
];

impl KnownCulprit {
    /// The culprit as the trace names it.
    #[must_use]
    pub fn culprit(&self) -> Culprit {
        let name = self.name.trim_end_matches('*').to_owned();
        match self.cause {
            Cause::Kthread => Culprit::Kthread { comm: name },
            Cause::Workqueue => Culprit::Work { function: name, unbound: false },
            _ => Culprit::Function { name },
        }
    }
}

/// Finds a culprit by its function or by the name of its kernel thread.
#[must_use]
pub fn find(culprit: &Culprit) -> Option<&'static KnownCulprit> {
    match culprit {
        Culprit::Kthread { comm } => find_by_name(comm),
        culprit => culprit.kernel_function().and_then(find_by_name),
    }
}

/// A culprit as tables show it, with its purpose where that is known; `None` for an unknown
/// culprit.
#[must_use]
pub fn describe(culprit: &Culprit) -> Option<String> {
    match (culprit.to_string(), find(culprit)) {
        (text, _) if text.is_empty() => None,
        (text, Some(known)) => Some(format!("{text}: {}", known.what)),
        (text, None) => Some(text),
    }
}

/// Finds a function or a kernel thread by its name.
#[must_use]
pub fn find_by_name(name: &str) -> Option<&'static KnownCulprit> {
    let exact = KNOWN.iter().find(|known| known.name == name);
    exact.or_else(|| KNOWN.iter().find(|known| glob::matches(known.name, name)))
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
        let what = |name| find_by_name(name).map(|known| known.what);
        assert_eq!(what("flush_tlb_func_remote"), Some("TLB shootdown"));
        assert_eq!(what("__perf_event_read"), Some("reading a perf counter"));
        assert_eq!(what("__perf_event_enable"), Some("perf"));
        let is_known = |culprit: Culprit| find(&culprit).map(|known| known.what);
        let unbound = Culprit::Work { function: "wb_workfn".to_owned(), unbound: true };
        assert_eq!(is_known(unbound), Some("writeback"));
        let thread = is_known(Culprit::kthread("ksoftirqd/3"));
        assert_eq!(thread, Some("deferred softirqs"));
        let unknown = [Culprit::Unknown, Culprit::irq(24, "eth0"), Culprit::task(812, "rcuc/3")];
        assert_eq!(unknown.map(is_known), [None; 3], "a user task may have any name");
    }
}
