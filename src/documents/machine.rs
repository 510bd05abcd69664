//! The [`Machine`] document: the facts about a machine, and what could not be read and why. Plain
//! data; absence is `None` or a [`SurveyNote`], never a zero.

mod realtime_kind;
mod topology;

pub use realtime_kind::RealtimeKind;
pub use topology::*;

use cpushield_linux::text::first_releases::{NOHZ_FULL, PARTITION_REFUSES_ISOLCPUS};
use cpushield_linux::text::kernel_version::KernelVersion;
use cpushield_linux::text::partition::PartitionState;
use cpushield_linux::{CpuSet, Task};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the document's format; a reader refuses unknown versions.
pub const SCHEMA: u32 = 1;

/// A surveyed machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Machine {
    /// [`SCHEMA`].
    pub schema: u32,
    /// `/proc/sys/kernel/random/boot_id` of the surveyed boot; `None` in old recordings.
    pub boot_id: Option<String>,
    /// The kernel.
    pub kernel: Kernel,
    /// CPU topology.
    pub topology: Topology,
    /// CPUs that are already isolated, at boot or by cpusets.
    pub isolation: Isolation,
    /// The cpusets of the cgroup tree.
    pub cgroup: Cgroup,
    /// Interrupts.
    pub irqs: Vec<Irq>,
    /// Default affinity of interrupts requested later (`/proc/irq/default_smp_affinity`).
    pub irq_default: Option<CpuSet>,
    /// Every thread.
    pub tasks: Vec<PlacedThread>,
    /// Functions of the high-resolution timers armed on each CPU, with their number
    /// (`/proc/timer_list`); `None` when it was not read.
    pub timers: Option<BTreeMap<usize, BTreeMap<String, usize>>>,
    /// Network interfaces and block devices with their node and interrupts.
    pub devices: Vec<Device>,
    /// Power management drivers.
    pub power: PowerManagement,
    /// Hypervisor and container.
    pub virt: Virtualization,
    /// Tracing support.
    pub tracing: Tracing,
    /// Programs and settings that work against isolation.
    pub conflicts: Vec<SurveyFinding>,
    /// The processes of this program: itself, and those that started it.
    #[serde(skip)]
    pub own_processes: Vec<i32>,
    /// Whether LinuxCNC, or another program with its `rtapi_app`, is installed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub linuxcnc: bool,
    /// Firmware and hardware settings that affect isolation.
    pub firmware: Vec<SurveyFinding>,
    /// Subjects of advice about firmware and devices that could not be observed.
    pub unobserved: Vec<String>,
    /// The files that tunables need, by path.
    pub settings: BTreeMap<String, TunableReading>,
    /// What could not be read, and why.
    pub notes: Vec<SurveyNote>,
}

impl Machine {
    /// The idle states of a CPU, or those of another CPU of its core type; empty if unknown.
    #[must_use]
    pub fn idle_states_of(&self, cpu: usize) -> &[IdleState] {
        let groups = || self.power.idle_states.iter();
        let kind = |cpu| self.topology.cpus.iter().find(|it| it.cpu == cpu).map(|it| it.kind);
        let own = groups().find(|group| group.cpus.contains(cpu));
        let alike = |group: &&IdleStates| group.cpus.iter().any(|it| kind(it) == kind(cpu));
        own.or_else(|| groups().find(alike)).map_or(&[], |group| &group.states)
    }

    /// Whether the kernel can stop the tick of a busy CPU; `None` when unknown. The kernel creates
    /// `isolated` and `nohz_full` together, the second only with `CONFIG_NO_HZ_FULL`
    /// (drivers/base/cpu.c, 6.12), but a partial recording may lack it for another reason.
    #[must_use]
    pub fn can_stop_tick(&self) -> Option<bool> {
        if self.isolation.nohz_full.is_some() {
            return Some(true);
        }
        self.kernel.is_built_to_stop_tick().or_else(|| {
            let complete = self.isolation.isolated.is_some() && self.kernel.cmdline.is_some();
            complete.then_some(false)
        })
    }

    /// Whether a kernel of this version cannot make a partition of CPUs of `isolcpus=`, or that is
    /// unknown. Only cgroup v2 has partitions.
    #[must_use]
    pub fn may_refuse_partition(&self, version: Option<KernelVersion>) -> bool {
        self.cgroup.mode == CgroupMode::V2
            && version.is_none_or(|version| PARTITION_REFUSES_ISOLCPUS.contains(&version))
    }

    /// Whether anything in `/proc` could be read; if not, an absent file there says nothing about
    /// the kernel.
    #[must_use]
    pub fn shows_proc(&self) -> bool {
        self.kernel.release.is_some() || self.kernel.cmdline.is_some() || !self.tasks.is_empty()
    }

    /// CPUs that the kernel shows as isolated while its command line, which says how, is unknown.
    /// From 7.0 the file names live partitions too, which are left out.
    #[must_use]
    pub fn isolated_somehow(&self) -> CpuSet {
        match (&self.kernel.cmdline, &self.isolation.isolated) {
            (None, Some(isolated)) => {
                isolated.difference(self.isolation.partitions.as_ref().unwrap_or(&CpuSet::new()))
            }
            _ => CpuSet::new(),
        }
    }
}

/// The contents of a tunable's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TunableReading {
    /// Its text without the line end.
    Value(String),
    /// It does not exist.
    Absent,
    /// It exists but could not be read.
    Unreadable(String),
}

impl TunableReading {
    /// The text; `None` when it could not be read.
    #[must_use]
    pub fn value(&self) -> Option<&str> {
        match self {
            TunableReading::Value(text) => Some(text),
            TunableReading::Absent | TunableReading::Unreadable(_) => None,
        }
    }
}

/// Something that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SurveyNote {
    /// The file or the fact.
    pub what: String,
    /// Why not.
    pub why: String,
}

/// A finding for the user, with advice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SurveyFinding {
    /// A short stable name: `irqbalance`, `smt`, `turbo`, `isolcpus-domain`.
    pub name: String,
    /// What was found.
    pub seen: String,
    /// The devices that it was found for; empty when it is not about devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// What it means for isolation and what to do.
    pub advice: String,
}

impl SurveyFinding {
    pub(crate) fn new(name: &str, seen: impl Into<String>, advice: &str) -> SurveyFinding {
        let (name, advice) = (name.to_owned(), advice.to_owned());
        SurveyFinding { name, seen: seen.into(), devices: Vec::new(), advice }
    }

    /// The same finding for these devices.
    pub(crate) fn of_devices(self, devices: Vec<String>) -> SurveyFinding {
        SurveyFinding { devices, ..self }
    }

    /// What was found, with all devices.
    #[must_use]
    pub fn describe(&self) -> String {
        match self.devices.is_empty() {
            true => self.seen.clone(),
            false => format!("{}: {}", self.seen, self.devices.join(", ")),
        }
    }
}

/// The kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Kernel {
    /// `/proc/sys/kernel/osrelease`.
    pub release: Option<String>,
    /// Major and minor version of the release.
    pub version: Option<KernelVersion>,
    /// Machine architecture as `uname -m` says, where known.
    pub arch: Option<String>,
    /// Whether it is a real-time kernel (PREEMPT_RT, RTAI, Xenomai); `None` when unknown.
    pub realtime: Option<bool>,
    /// What makes it a real-time kernel; `None`: nothing does, or that is unknown.
    pub realtime_kind: Option<RealtimeKind>,
    /// The source of [`Kernel::realtime`].
    pub realtime_source: Option<String>,
    /// Options of the kernel's configuration that matter, `CONFIG_NO_HZ_FULL` → `y`; empty when it
    /// cannot be read (a note says so).
    pub config: BTreeMap<String, String>,
    /// `/proc/cmdline`.
    pub cmdline: Option<String>,
    /// `CONFIG_HZ`.
    pub hz: Option<u32>,
    /// The current clocksource.
    pub clocksource: Option<String>,
    /// The available clocksources.
    pub clocksources: Vec<String>,
}

impl Kernel {
    /// Whether it was built to stop the tick of a busy CPU (`CONFIG_NO_HZ_FULL`); `None` if neither
    /// its configuration nor its version shows that.
    #[must_use]
    pub fn is_built_to_stop_tick(&self) -> Option<bool> {
        if !self.config.is_empty() {
            return Some(self.config.get("CONFIG_NO_HZ_FULL").is_some_and(|value| value == "y"));
        }
        self.version.is_some_and(|version| version < NOHZ_FULL).then_some(false)
    }

    /// Whether it is a PREEMPT_RT kernel; `None` when unknown.
    #[must_use]
    pub fn is_preempt_rt(&self) -> Option<bool> {
        Some(self.realtime? && self.realtime_kind == Some(RealtimeKind::PreemptRt))
    }
}

/// CPUs that are already isolated, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Isolation {
    /// `/sys/devices/system/cpu/isolated`: from `isolcpus=` (and, from 7.0, live partitions).
    pub isolated: Option<CpuSet>,
    /// `/sys/devices/system/cpu/nohz_full`; `None` without kernel support, `(null)` is empty.
    pub nohz_full: Option<CpuSet>,
    /// `isolcpus=` of the command line, flags included.
    pub isolcpus: Option<String>,
    /// CPUs that `isolcpus=` takes out of the scheduling domains (flag `domain`, the default).
    pub isolcpus_domain: CpuSet,
    /// CPUs of `isolcpus=managed_irq,…`.
    pub managed_irq: CpuSet,
    /// CPUs of `rcu_nocbs=` (those of `nohz_full=` are included by the kernel).
    pub rcu_nocbs: CpuSet,
    /// CPUs of `irqaffinity=`.
    pub irqaffinity: Option<CpuSet>,
    /// CPUs of unbound workqueues (`/sys/devices/virtual/workqueue/cpumask`).
    pub unbound_work: Option<CpuSet>,
    /// `cpuset.cpus.isolated` of the v2 root, without the CPUs of `isolcpus=`, which newer kernels
    /// include.
    pub partitions: Option<CpuSet>,
}

/// The cgroup version that has the cpuset controller.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CgroupMode {
    /// No cpusets are available.
    #[default]
    None,
    /// The cpuset controller is on a v1 hierarchy, and v2 is not mounted.
    V1,
    /// v2 is mounted too, but the controller is on v1.
    Hybrid,
    /// The controller is on v2.
    V2,
}

/// The cpusets of the cgroup tree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cgroup {
    /// The cgroup version with the cpuset controller.
    pub mode: CgroupMode,
    /// The mount point of its hierarchy.
    pub mount: Option<String>,
    /// Whether systemd is PID 1 and owns the tree.
    pub systemd: bool,
    /// Prefix of v1 file names: `cpuset.` or empty (mounted with `noprefix`).
    pub prefix: String,
    /// Cpusets below the root: every group with its own CPUs.
    pub groups: Vec<CpusetGroup>,
    /// Memory nodes that cpusets can use (`cpuset.mems.effective` or `cpuset.mems` of the root).
    pub mems: CpuSet,
    /// Whether the v2 root enables the cpuset controller (`cgroup.subtree_control`).
    pub delegated: bool,
    /// `cpuset.sched_load_balance` of the v1 root.
    pub balanced: Option<bool>,
    /// Members of the root group: processes (v2) or threads (v1).
    pub root_tasks: Option<usize>,
    /// The kernel's reason when it refused a partition with CPUs of `isolcpus=`; `None` when it did
    /// not refuse, or when none was requested. Only apply requests one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_partition: Option<String>,
}

/// A cpuset below the root.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpusetGroup {
    /// The directory.
    pub path: String,
    /// `cpuset.cpus`.
    pub cpus: CpuSet,
    /// `cpuset.cpus.effective` (v2) or `cpuset.effective_cpus` (v1).
    pub effective: Option<CpuSet>,
    /// `cpuset.cpus.partition` (v2), the kernel's reason included.
    pub partition: Option<String>,
    /// `cpuset.cpu_exclusive` (v1), or `cpuset.cpus.exclusive` names CPUs (v2, from 6.7).
    pub exclusive: bool,
    /// `cpuset.sched_load_balance` (v1).
    pub balanced: Option<bool>,
    /// Members: processes (v2) or threads (v1).
    pub tasks: Option<usize>,
}

impl CpusetGroup {
    /// The name of the directory.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Whether it is a partition (v2); without the file it is none.
    #[must_use]
    pub fn partition_state(&self) -> PartitionState {
        self.partition.as_deref().map_or(PartitionState::Member, PartitionState::from_text)
    }

    /// Whether no sibling cpuset can have its CPUs: an exclusive cpuset, or a partition that the
    /// kernel accepts.
    #[must_use]
    pub fn is_exclusive(&self) -> bool {
        self.exclusive || self.partition_state().is_valid_partition()
    }
}

/// Whether an interrupt's affinity can be changed, tested by writing the same mask back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum IrqMovability {
    /// The kernel accepted the mask.
    Yes,
    /// It refused: EIO before 6.12, EPERM since (managed or per-CPU interrupts).
    No(String),
    /// This user may not try (EACCES).
    Denied(String),
    /// Not tried, because a recording did not or because it would disturb a shield.
    Unknown(String),
}

/// A device interrupt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Irq {
    /// Its number.
    pub irq: u32,
    /// Names of its actions (`nvme0q3`), comma-separated; empty when no driver requested it.
    pub actions: String,
    /// The interrupt controller (`PCI-MSIX-0000:00:02.0`, `IO-APIC`).
    pub chip: String,
    /// `smp_affinity_list`.
    pub affinity: Option<CpuSet>,
    /// `effective_affinity_list`.
    pub effective: Option<CpuSet>,
    /// `affinity_hint`, the mask that its driver wants; read only where `affinity` has no CPU but
    /// those of `isolcpus=`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<CpuSet>,
    /// Whether it can be moved.
    pub movable: IrqMovability,
    /// Non-zero counts by CPU, from `/proc/interrupts`.
    pub counts: BTreeMap<usize, u64>,
}

/// A thread and its affinity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlacedThread {
    /// The thread.
    #[serde(flatten)]
    pub task: Task,
    /// CPUs it may run on.
    pub affinity: CpuSet,
    /// The directory of its cpuset, for a user thread that may not run on all CPUs of the first
    /// process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// A network interface or a block device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Device {
    /// `eth0`, `nvme0n1`.
    pub name: String,
    /// `net` or `block`.
    pub class: String,
    /// Its driver (`virtio_blk`), if the bus has one.
    pub driver: Option<String>,
    /// NUMA node, if the bus has one.
    pub node: Option<usize>,
    /// CPUs local to it.
    pub local: CpuSet,
    /// Its interrupts (`msi_irqs`, else `irq`).
    pub irqs: Vec<u32>,
}

/// Power management.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PowerManagement {
    /// `cpufreq` driver.
    pub cpufreq_driver: Option<String>,
    /// Frequency policies by number, with their CPUs, offline ones included; empty where the kernel
    /// shows none.
    pub policies: BTreeMap<usize, CpuSet>,
    /// Governors in use, with their CPUs.
    pub governors: BTreeMap<String, CpuSet>,
    /// `cpuidle` driver.
    pub cpuidle_driver: Option<String>,
    /// The idle states of the online CPUs; CPUs with the same states share an entry. On machines
    /// with more than 64 CPUs, those of one CPU of each core type.
    pub idle_states: Vec<IdleStates>,
    /// Whether turbo or boost is allowed.
    pub turbo: Option<bool>,
}

/// The idle states of some CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IdleStates {
    /// The CPUs whose states were read.
    pub cpus: CpuSet,
    /// The states, the shallowest first.
    pub states: Vec<IdleState>,
}

/// An idle state (`Documentation/admin-guide/pm/cpuidle.rst`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IdleState {
    /// `C6`, `POLL`.
    pub name: String,
    /// Exit latency in µs.
    pub latency_us: u64,
    /// Whether it is switched off (`disable`).
    pub disabled: bool,
    /// How often the CPUs together have entered it (`usage`); `None` before 2.6.24 and where a
    /// recording does not have the file.
    pub usage: Option<u64>,
}

/// Hypervisor and container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Virtualization {
    /// Whether it runs under a hypervisor (`hypervisor` flag of cpuinfo, or DMI).
    pub guest: Option<bool>,
    /// The hypervisor's name, if known (`KVM`, `Xen`, …).
    pub hypervisor: Option<String>,
    /// The container, with the source of that fact; `None` outside a container.
    pub container: Option<String>,
}

/// Tracing support.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tracing {
    /// The directory of the trace: the mount point of tracefs, or `tracing` in debugfs before 4.1.
    pub tracefs: Option<String>,
    /// Whether the kernel has trace instances: tracefs in `/proc/filesystems`, mounted or not, or
    /// `tracing/instances` in debugfs (3.10 to 4.0).
    pub supported: Option<bool>,
    /// `available_tracers`.
    pub tracers: Vec<String>,
    /// Whether `trace_clock` can be `x86-tsc`.
    pub tsc_clock: bool,
}
