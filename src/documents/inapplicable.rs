//! [`InapplicableReason`]: why a tunable does nothing on a machine. Pure data.

use cpushield_linux::CpuSet;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a tunable does nothing on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "inapplicable", rename_all = "kebab-case")]
pub enum InapplicableReason {
    /// The running kernel cannot change it; a parameter of the next boot can.
    OnlyAtBoot,
    /// The kernel is too old for the fair server.
    NoFairServer,
    /// The directory of the fair server does not exist.
    FairServerUnseen,
    /// The console has no framebuffer.
    NoFramebufferConsole,
    /// Tracefs is not mounted.
    TracefsUnmounted,
    /// The kernel has no trace instances.
    NoTraceInstances,
    /// A trace instance does not enlarge the main buffer of this kernel.
    OwnTraceBuffers,
    /// A file does not exist.
    PathAbsent {
        /// Its path.
        path: String,
    },
    /// A file cannot be read.
    PathUnreadable {
        /// Its path.
        path: String,
        /// The kernel's error.
        answer: String,
    },
    /// The kernel has no such file of settings.
    SettingAbsent {
        /// Its path.
        file: String,
    },
    /// The file of a setting cannot be read.
    SettingUnreadable {
        /// Its path.
        file: String,
        /// The kernel's error.
        answer: String,
    },
    /// The survey does not show whether the kernel has a file.
    SettingUnknown {
        /// Its path.
        file: String,
    },
    /// The shielded CPUs have no such file.
    CpuFileAbsent {
        /// Its path within the directory of a CPU.
        file: String,
    },
    /// The tick of the shielded CPUs continues.
    TickContinues,
    /// A cpuset of version 1 loses a CPU that goes offline.
    CpusetLosesCpu,
    /// Without a cpuset, tasks return to a CPU that comes online.
    TasksReturn,
    /// These CPUs have no switch to take them offline.
    CpusStayOnline {
        /// These CPUs.
        cpus: CpuSet,
    },
    /// These CPUs are in the shield that is changed: taking them offline would interrupt its
    /// programs.
    ShieldedAlready {
        /// These CPUs.
        cpus: CpuSet,
    },
    /// No core has several threads.
    NoSiblings,
    /// The request takes no SMT siblings offline.
    SiblingsStayOnline,
    /// There is no driver for idle states.
    NoIdleStates,
    /// The kernel shows no masks of workqueues.
    NoWorkqueueMasks,
    /// The kernel cannot stop the tick of a busy CPU.
    TickAlwaysOn,
    /// Whether the kernel can stop the tick is unknown.
    TickStopUnknown,
    /// The tick of this CPU never stops.
    TickOfCpu {
        /// The CPU.
        cpu: usize,
    },
    /// The kernel cannot offload RCU callbacks.
    NoRcuOffload,
    /// It is useful only where the trace shows this timer.
    OnlyWhereSeen {
        /// The function of the timer.
        function: String,
        /// The boot parameter that stops the timer.
        parameter: String,
    },
    /// No interrupt has a mask.
    NoIrqMasks,
    /// The masks of interrupts are unknown.
    IrqMasksUnknown,
    /// The lockup detectors are off.
    WatchdogOff,
    /// The kernel has no lockup detectors.
    NoWatchdog,
    /// Whether the kernel has lockup detectors is unknown.
    WatchdogUnknown,
    /// The daemon irqbalance is not running.
    NoIrqbalance,
    /// No interface steers packets to the shield.
    NoSteeredPackets,
    /// No transmit queue is bound to the shield.
    NoBoundQueue,
    /// The machine has one memory node.
    OneMemoryNode,
    /// The kernel does not throttle real-time tasks.
    NoThrottling,
    /// One switch of the kernel sets those of all frequency policies.
    BoostOfPolicies,
    /// A program sets the frequency by the governor `userspace`, which forgets it.
    FrequencySet,
    /// Without turbo the kernel would lower the least performance, and nothing restores that.
    LeastPerformanceLost,
    /// The interval in a file is already longer.
    IntervalLonger {
        /// Its path.
        file: String,
        /// Its value.
        now: String,
    },
    /// The kernel does not write dirty pages back periodically.
    NoPeriodicWriteback,
}

const SHIELDED: &str =
    "is shielded already, and this would interrupt its programs; undo the shield first";
const TICK_ALWAYS_ON: &str =
    "this kernel cannot stop the tick of a busy CPU (CONFIG_NO_HZ_FULL, since 3.10)";
const LONGER: &str = "the interval is already longer";
const NO_INSTANCES: &str = "this kernel has no trace instances (CONFIG_TRACING, since 3.10)";

impl fmt::Display for InapplicableReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PathAbsent { path } => return write!(f, "{path} does not exist"),
            Self::IntervalLonger { file, now } => return write!(f, "{file} is {now}: {LONGER}"),
            Self::NoPeriodicWriteback => "periodic writeback is off (dirty_writeback_centisecs=0)",
            Self::SettingAbsent { file } => return write!(f, "this kernel has no {file}"),
            Self::PathUnreadable { path: file, answer }
            | Self::SettingUnreadable { file, answer } => {
                return write!(f, "{file} cannot be read: {answer}");
            }
            Self::SettingUnknown { file } => {
                return write!(f, "it is unknown whether this kernel has {file}");
            }
            Self::CpuFileAbsent { file } => return write!(f, "this machine has no {file}"),
            Self::CpusStayOnline { cpus } => {
                return write!(f, "CPU {cpus} cannot be taken offline");
            }
            Self::ShieldedAlready { cpus } => return write!(f, "CPU {cpus} {SHIELDED}"),
            Self::TickOfCpu { cpu } => return write!(f, "the tick of CPU {cpu} cannot be stopped"),
            Self::OnlyWhereSeen { function, parameter } => {
                return write!(f, "useful only if the trace shows {function}: {parameter}");
            }
            Self::OnlyAtBoot => "only a boot parameter can do that: `cpushield boot plan`",
            Self::NoFairServer => "kernels before Linux 6.12 have no fair server",
            Self::FairServerUnseen => {
                "/sys/kernel/debug/sched/fair_server does not exist: debugfs is not mounted \
                 (mount -t debugfs debugfs /sys/kernel/debug), or the kernel has no fair server"
            }
            Self::NoFramebufferConsole => "the console has no framebuffer",
            Self::TracefsUnmounted => "tracefs is not mounted",
            Self::NoTraceInstances => NO_INSTANCES,
            Self::OwnTraceBuffers => "on this kernel, each trace has its own buffers",
            Self::TickContinues => {
                "the tick continues on the shield, so removing other timers would not stop it"
            }
            Self::CpusetLosesCpu => "a v1 cpuset permanently loses a CPU that goes offline",
            Self::TasksReturn => "without a cpuset, tasks return to a CPU that comes online",
            Self::NoSiblings => "this machine has no SMT siblings",
            Self::SiblingsStayOnline => {
                "the request leaves SMT siblings online (to change that: --siblings offline)"
            }
            Self::NoIdleStates => "this machine has no idle states to choose from",
            Self::NoWorkqueueMasks => "no workqueue masks are visible",
            Self::TickAlwaysOn => TICK_ALWAYS_ON,
            Self::TickStopUnknown => {
                "it is unknown whether this kernel can stop the tick of a busy CPU"
            }
            Self::NoRcuOffload => {
                "this kernel cannot offload RCU callbacks (CONFIG_RCU_NOCB_CPU, since 3.8)"
            }
            Self::NoIrqMasks => "this machine has no IRQ affinity to set",
            Self::IrqMasksUnknown => "the IRQ affinities are unknown",
            Self::WatchdogOff => "the lockup detectors are off",
            Self::NoWatchdog => "this kernel has no lockup detectors",
            Self::WatchdogUnknown => "it is unknown whether this kernel has lockup detectors",
            Self::NoIrqbalance => "irqbalance is not running",
            Self::NoSteeredPackets => "no network interface steers packets to the shield",
            Self::NoBoundQueue => "no transmit queue is bound to the shield",
            Self::OneMemoryNode => "this machine has one memory node",
            Self::FrequencySet => "the userspace governor would forget the frequency that was set",
            Self::LeastPerformanceLost => {
                "switching turbo off may lower intel_pstate/min_perf_pct, which undo cannot restore"
            }
            Self::BoostOfPolicies => {
                "since 6.11, this switch also sets the boost switch of every cpufreq policy"
            }
            Self::NoThrottling => {
                "since 6.12, only kernels with CONFIG_RT_GROUP_SCHED throttle real-time tasks"
            }
        })
    }
}
