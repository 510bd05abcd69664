//! The first releases of what kernels have, one constant for each fact, with its source. A constant
//! whose name ends in `_UNTIL` is the first release without it.

use super::kernel_version::KernelVersion;
use std::ops::Range;

/// The list of an interrupt's CPUs, `smp_affinity_list` (commit 4b060420a596). Every kernel has the
/// mask.
pub const IRQ_AFFINITY_LIST: KernelVersion = KernelVersion::new(3, 0);

/// `rcu_nocbs=` and `rcu_nocb_poll` (commit 3fbfbf7a3b66).
pub const RCU_NOCBS: KernelVersion = KernelVersion::new(3, 8);

/// `intel_pstate=` came with its driver (commit 93f0822dff5d).
pub const INTEL_PSTATE: KernelVersion = KernelVersion::new(3, 9);

/// `nohz_full=` and `CONFIG_NO_HZ_FULL` (kernel/time/Kconfig).
pub const NOHZ_FULL: KernelVersion = KernelVersion::new(3, 10);

/// Trace instances, `instances` in the directory of the trace (commits 277ba04461c2 and
/// 0c8916c34203).
pub const TRACE_INSTANCES: KernelVersion = KernelVersion::new(3, 10);

/// The file system tracefs; before, the directory of the trace is `tracing` in debugfs
/// (Documentation/ABI/obsolete/automount-tracefs-debugfs).
pub const TRACEFS: KernelVersion = KernelVersion::new(4, 1);

/// The CPUs of the lockup detectors, `watchdog_cpumask` (commit fe4ba3c34352). The detectors are
/// older.
pub const WATCHDOG_CPUMASK: KernelVersion = KernelVersion::new(4, 2);

/// `irqaffinity=`: "genirq: Add default affinity mask command line option". The RT patches had it
/// before.
pub const IRQAFFINITY: KernelVersion = KernelVersion::new(4, 8);

/// `CONFIG_SOFTLOCKUP_DETECTOR` (commit 05a4a9527931). Before, every kernel with lockup detectors
/// had what it enables.
pub const SOFTLOCKUP_DETECTOR_OPTION: KernelVersion = KernelVersion::new(4, 13);

/// `CONFIG_CPU_ISOLATION` (commit 5c4991e24c69). Before, every kernel had what it enables.
pub const CPU_ISOLATION_OPTION: KernelVersion = KernelVersion::new(4, 15);

/// The flags of `isolcpus=` (commit 150dfee95f8a).
pub const ISOLCPUS_FLAGS: KernelVersion = KernelVersion::new(4, 15);

/// One list for `nohz_full=` and `isolcpus=` (kernel/sched/isolation.c).
pub const ONE_ISOLATION_LIST: KernelVersion = KernelVersion::new(4, 15);

/// `nowatchdog` wins whatever follows it: `lockup_detector_update_enable()`, kernel/watchdog.c,
/// returns early if it cleared `watchdog_user_enabled`. Sources: the function is in Ubuntu's kernel
/// 4.15, where `lockup_detector_init()` calls it, and not in 4.13
/// (l/lockup_detector_update_enable.md of DepSurf/function). kernel/watchdog.c has the return in
/// versions with `HK_FLAG_TIMER` and with `HK_TYPE_TIMER`; 004417a6d468 (2.6.38) has neither the
/// variable nor the function. Before, the last word counted.
pub const NOWATCHDOG_WINS: KernelVersion = KernelVersion::new(4, 15);

/// Opening `/proc/cpuinfo` interrupts every CPU of an x86 machine to read its frequency (commit
/// 7d5905dc14a8).
pub const CPUINFO_INTERRUPTS: KernelVersion = KernelVersion::new(4, 15);

/// Reading `/proc/cpuinfo` no longer interrupts any CPU (commit f3eca381bd49).
pub const CPUINFO_INTERRUPTS_UNTIL: KernelVersion = KernelVersion::new(5, 19);

/// `nosmt` and `CONFIG_HOTPLUG_SMT` (commit 05736e4ac13c). s390 has a parameter of this name since
/// 4.0.
pub const NOSMT: KernelVersion = KernelVersion::new(4, 19);

/// Series whose stable releases got `nosmt` with the fixes for L1TF of August 2018. Sources: a
/// patch for 4.14 ("[PATCH 4.14 065/122] cpu/SMT: State SMT is disabled even with nosmt") and
/// Ubuntu's kernel 4.18 (s/smt_cmdline_disable.md of DepSurf/function). The others were maintained
/// at that time; that they have it is a guess.
pub const NOSMT_BACKPORTS: &[KernelVersion] = &[
    KernelVersion::new(3, 16),
    KernelVersion::new(4, 4),
    KernelVersion::new(4, 9),
    KernelVersion::new(4, 14),
    KernelVersion::new(4, 17),
    KernelVersion::new(4, 18),
];

/// `workqueue.unbound_cpus=` (commit ace3c5499e61).
pub const WORKQUEUE_UNBOUND_CPUS: KernelVersion = KernelVersion::new(6, 6);

/// `mitigations=`: "cpu/speculation: Add 'mitigations=' cmdline option" (commit 98af8452945c) was
/// merged after 5.1.
pub const MITIGATIONS: KernelVersion = KernelVersion::new(5, 2);

/// Series whose stable releases got `mitigations=` with the fixes for MDS of May 2019. Sources: the
/// patches for 4.4 ("[PATCH 4.4 249/266] x86/speculation/mds: Add mitigations= support for MDS")
/// and for 3.16.68. The other series were maintained at that time.
pub const MITIGATIONS_BACKPORTS: &[KernelVersion] = &[
    KernelVersion::new(3, 16),
    KernelVersion::new(4, 4),
    KernelVersion::new(4, 9),
    KernelVersion::new(4, 14),
    KernelVersion::new(4, 19),
    KernelVersion::new(5, 0),
    KernelVersion::new(5, 1),
];

/// The flag `managed_irq` of `isolcpus=` (commit 11ea68f553e2).
pub const MANAGED_IRQ_FLAG: KernelVersion = KernelVersion::new(5, 6);

/// Flags of `isolcpus=` that a kernel does not know are skipped (commit 3662daf02350). Before, the
/// kernel ignored the whole parameter ("isolcpus: Error, unknown flag").
pub const UNKNOWN_FLAGS_SKIPPED: KernelVersion = KernelVersion::new(5, 8);

/// `N` in a CPU list (`bitmap_getnum()`, lib/bitmap.c, 5.13).
pub const LAST_CPU_WORD: KernelVersion = KernelVersion::new(5, 13);

/// `all` in a CPU list (commit b18def121f07, in the RCU changes for 5.14).
pub const ALL_CPUS_WORD: KernelVersion = KernelVersion::new(5, 14);

/// `rcu_nocbs` without a list (commit d2cf0854d728).
pub const BARE_RCU_NOCBS: KernelVersion = KernelVersion::new(5, 17);

/// A list for each kind of isolation (`housekeeping.cpumasks[]`, kernel/sched/isolation.c).
pub const LIST_PER_ISOLATION: KernelVersion = KernelVersion::new(5, 18);

/// The value `isolated` of `cpuset.cpus.partition` (commit f28e22441f35; kernel/cgroup/cpuset.c of
/// 5.15 knows `member` and `root`).
pub const ISOLATED_PARTITION: KernelVersion = KernelVersion::new(6, 1);

/// The parser of CPU lists always ends at the last possible CPU: `nr_cpumask_bits` is `nr_cpu_ids`
/// (include/linux/cpumask.h, 6.3, commit 596ff4a09b89). Before, that was so with
/// `CONFIG_CPUMASK_OFFSTACK` only; kernels before 5.18 compare with `nr_cpu_ids` themselves.
pub const STRICT_CPU_RANGE: KernelVersion = KernelVersion::new(6, 3);

/// An x86 machine starts one SMT sibling of each core first, and `maxcpus=` counts these
/// (`cpuhp_bringup_cpus_parallel()`, kernel/cpu.c, 6.5, with `CONFIG_HOTPLUG_PARALLEL`).
pub const PARALLEL_BRINGUP: KernelVersion = KernelVersion::new(6, 5);

/// `cpuset.cpus.exclusive` (commit 0c7f293efc87).
pub const EXCLUSIVE_CPUS: KernelVersion = KernelVersion::new(6, 7);

/// A partition with CPUs of `isolcpus=` is refused: commit 4a74e418881f (6.7) checks the new kind
/// of partition before it is set. It is accepted again since commit 216217ebee16 (6.18, also in
/// 6.17.3).
pub const PARTITION_REFUSES_ISOLCPUS: Range<KernelVersion> =
    KernelVersion::new(6, 7)..KernelVersion::new(6, 18);

/// A switch for boost in each frequency policy, which a write to the common one sets (commit
/// 218a06a79d9a).
pub const BOOST_OF_POLICY: KernelVersion = KernelVersion::new(6, 11);

/// The fair server of each CPU (dl_server in kernel/sched/deadline.c).
pub const FAIR_SERVER: KernelVersion = KernelVersion::new(6, 12);

/// Without `CONFIG_RT_GROUP_SCHED`, real-time tasks are no longer throttled (commit
/// 5f6bd380c7bd).
pub const RT_THROTTLING_UNTIL: KernelVersion = KernelVersion::new(6, 12);

/// `rt_group_sched=` (commits e34e0131fea1 to d6809c2f606c, applied in April 2025 after 6.15-rc1).
pub const RT_GROUP_SCHED: KernelVersion = KernelVersion::new(6, 16);

/// `nohz_full=` no longer keeps new kernel threads away; `isolcpus=` does (commit 041ee6f3727a).
pub const KTHREADS_AVOID_NOHZ_FULL_UNTIL: KernelVersion = KernelVersion::new(7, 0);
