//! [`ShieldStatus`]: the active shields, their changes since apply, and the threads and interrupts
//! on their CPUs. Plain data.

mod program_risk;
mod state;
mod unchecked_part;
mod unfinished_work;

pub use program_risk::ProgramRisk;
pub use state::{ShieldState, StateReport};
pub use unchecked_part::UncheckedPart;
pub use unfinished_work::{ShieldWork, UnfinishedWork};

use crate::policy::ShieldOperators;
use cpushield_linux::{CpuSet, SchedPolicy, Task, TaskId};
use serde::{Deserialize, Serialize};

/// The version of the document's schema.
pub const SCHEMA: u32 = 1;

/// The state of the shield.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShieldStatus {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The state of all shields: in force only if each of them is.
    pub state: StateReport,
    /// The shields, in the order in which they were applied; empty without one, or when the state
    /// is unknown.
    pub shields: Vec<ShieldSummary>,
    /// CPUs that were isolated at boot (`/sys/devices/system/cpu/isolated`); `None` when unknown.
    pub isolated: Option<CpuSet>,
    /// CPUs whose tick stops while the scheduler does not need it
    /// (`/sys/devices/system/cpu/nohz_full`); `None` if the kernel does not support this.
    pub nohz_full: Option<CpuSet>,
    /// Traces that a killed `verify` left recording; this command removed them.
    pub swept: usize,
    /// What this user could not check; empty for root.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unchecked: Vec<UncheckedPart>,
}

/// A shield, perhaps an incomplete one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShieldSummary {
    /// Its name.
    pub name: String,
    /// Its state, as a tag and as a sentence.
    pub state: StateReport,
    /// Directory of its cgroup; `None` for a shield that consists of affinities only.
    pub group: Option<String>,
    /// Every other online CPU.
    pub housekeeping: CpuSet,
    /// The CPUs that are isolated already, where nothing is moved.
    #[serde(default, skip_serializing_if = "CpuSet::is_empty")]
    pub closed: CpuSet,
    /// Siblings that stay idle.
    pub idle_siblings: CpuSet,
    /// Those among them that the shield has taken offline.
    #[serde(default, skip_serializing_if = "CpuSet::is_empty")]
    pub offline_siblings: CpuSet,
    /// Settings that changed since apply.
    pub drift: Vec<Drift>,
    /// One entry for each shielded CPU.
    pub cpus: Vec<OnCpu>,
    /// Kernel threads that were raised above real-time programs.
    pub raised: Vec<RaisedThread>,
    /// Programs that may starve the kernel, or compete for one CPU; empty for a user other than
    /// root, and without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "crate::with_text::list")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Vec<crate::with_text::WithText<ProgramRisk>>")
    )]
    pub risks: Vec<ProgramRisk>,
    /// Users other than root that may enter it; `None` if only root may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operators: Option<ShieldOperators>,
}

/// A setting that changed since apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Drift {
    /// The file or the task.
    pub what: String,
    /// The value that apply left.
    pub left: String,
    /// The current value; `None` when it is gone.
    pub now: Option<String>,
    /// The tunable that the setting belongs to.
    pub tunable: String,
}

/// A kernel thread that was raised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RaisedThread {
    /// The thread.
    pub task: TaskId,
    /// Its name.
    pub comm: String,
    /// The CPUs it was raised for.
    pub cpus: CpuSet,
    /// Its original policy.
    pub original: SchedPolicy,
    /// The last policy it was given.
    pub given: SchedPolicy,
}

/// The protections of a shielded CPU, and what is on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OnCpu {
    /// The CPU.
    pub cpu: usize,
    /// Whether it is offline. Siblings that the shield has taken offline are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub offline: bool,
    /// Whether other programs are kept out.
    pub processes: CpuProtection,
    /// Whether device interrupts are delivered here.
    pub interrupts: CpuProtection,
    /// Whether the timer tick stops.
    pub tick: CpuProtection,
    /// Threads whose last CPU this is, and programs of the shield whose next CPU it is.
    pub threads: Vec<OnThread>,
    /// Interrupts that are delivered here.
    pub irqs: Vec<OnIrq>,
}

/// One of the three protections of a CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuProtection {
    /// Whether the protection holds; also false if that is unknown.
    pub holds: bool,
    /// Whether it is unknown if the protection holds.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
    /// How, or why not.
    pub how: String,
}

/// A thread whose last or next CPU is shielded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OnThread {
    /// The thread.
    #[serde(flatten)]
    pub task: Task,
    /// The reason.
    pub role: ThreadRole,
}

/// Why a thread is on a shielded CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ThreadRole {
    /// A foreign task, which may run there.
    Foreign,
    /// A program of the shield.
    Program,
    /// A program of the shield that has not run since it was added: its last CPU is another one.
    Waiting,
    /// A kernel thread that belongs to this CPU and cannot be moved.
    Kernel,
    /// It last ran there before the shield, and cannot return.
    Gone,
}

/// An interrupt that is delivered to a shielded CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OnIrq {
    /// Its number.
    pub irq: u32,
    /// Its actions (`nvme0q3`), comma-separated.
    pub actions: String,
    /// Its affinity mask already has other CPUs: many controllers move an interrupt only when it
    /// occurs again.
    pub leaving: bool,
}
