//! [`InapplicableReason`]: why a tunable does nothing on a machine. Pure data.

use cpushield_linux::CpuSet;
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};

/// Why a tunable does nothing on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "inapplicable", rename_all = "kebab-case")]
pub enum InapplicableReason {
    /// only a boot parameter can do that: `cpushield boot plan`.
    OnlyAtBoot,
    /// kernels before Linux 6.12 have no fair server.
    NoFairServer,
    /// /sys/kernel/debug/sched/fair_server does not exist: debugfs is not mounted (mount -t debugfs
    /// debugfs /sys/kernel/debug), or the kernel has no fair server.
    FairServerUnseen,
    /// the console has no framebuffer.
    NoFramebufferConsole,
    /// tracefs is not mounted.
    TracefsUnmounted,
    /// this kernel has no trace instances (CONFIG_TRACING, since 3.10).
    NoTraceInstances,
    /// on this kernel, each trace has its own buffers.
    OwnTraceBuffers,
    /// {path} does not exist.
    PathAbsent {
        /// Its path.
        path: String,
    },
    /// {path} cannot be read: {answer}.
    PathUnreadable {
        /// Its path.
        path: String,
        /// The kernel's error.
        answer: String,
    },
    /// this kernel has no {file}.
    SettingAbsent {
        /// Its path.
        file: String,
    },
    /// {file} cannot be read: {answer}.
    SettingUnreadable {
        /// Its path.
        file: String,
        /// The kernel's error.
        answer: String,
    },
    /// it is unknown whether this kernel has {file}.
    SettingUnknown {
        /// Its path.
        file: String,
    },
    /// this machine has no {file}.
    CpuFileAbsent {
        /// Its path within the directory of a CPU.
        file: String,
    },
    /// the tick continues on the shield, so removing other timers would not stop it.
    TickContinues,
    /// a v1 cpuset permanently loses a CPU that goes offline.
    CpusetLosesCpu,
    /// without a cpuset, tasks return to a CPU that comes online.
    TasksReturn,
    /// CPU {cpus} cannot be taken offline.
    CpusStayOnline {
        /// These CPUs.
        cpus: CpuSet,
    },
    /// CPU {cpus} is shielded already, and this would interrupt its programs; undo the shield
    /// first.
    ShieldedAlready {
        /// These CPUs.
        cpus: CpuSet,
    },
    /// this machine has no SMT siblings.
    NoSiblings,
    /// the request leaves SMT siblings online (to change that: --siblings offline).
    SiblingsStayOnline,
    /// this machine has no idle states to choose from.
    NoIdleStates,
    /// the CPUs have no sleep state with an exit latency of more than {limit_us} µs.
    ShallowSleep {
        /// The limit.
        limit_us: u64,
    },
    /// no workqueue masks are visible.
    NoWorkqueueMasks,
    /// this kernel cannot stop the tick of a busy CPU (CONFIG_NO_HZ_FULL, since 3.10).
    TickAlwaysOn,
    /// it is unknown whether this kernel can stop the tick of a busy CPU.
    TickStopUnknown,
    /// the tick of CPU {cpu} cannot be stopped.
    TickOfCpu {
        /// The CPU.
        cpu: usize,
    },
    /// this kernel cannot offload RCU callbacks (CONFIG_RCU_NOCB_CPU, since 3.8).
    NoRcuOffload,
    /// useful only if the trace shows {function}: {parameter}.
    OnlyWhereSeen {
        /// The function of the timer.
        function: String,
        /// The boot parameter that stops the timer.
        parameter: String,
    },
    /// this machine has no IRQ affinity to set.
    NoIrqMasks,
    /// the IRQ affinities are unknown.
    IrqMasksUnknown,
    /// the lockup detectors are off.
    WatchdogOff,
    /// this kernel has no lockup detectors.
    NoWatchdog,
    /// it is unknown whether this kernel has lockup detectors.
    WatchdogUnknown,
    /// irqbalance is not running.
    NoIrqbalance,
    /// no network interface steers packets to the shield.
    NoSteeredPackets,
    /// no transmit queue is bound to the shield.
    NoBoundQueue,
    /// this machine has one memory node.
    OneMemoryNode,
    /// since 6.12, only kernels with CONFIG_RT_GROUP_SCHED throttle real-time tasks.
    NoThrottling,
    /// since 6.11, this switch also sets the boost switch of every cpufreq policy.
    BoostOfPolicies,
    /// the userspace governor would forget the frequency that was set.
    FrequencySet,
    /// switching turbo off may lower intel_pstate/min_perf_pct, which undo cannot restore.
    LeastPerformanceLost,
    /// {file} is {now}: the interval is already longer.
    IntervalLonger {
        /// Its path.
        file: String,
        /// Its value.
        now: String,
    },
    /// periodic writeback is off (dirty_writeback_centisecs=0).
    NoPeriodicWriteback,
}
