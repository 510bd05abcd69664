//! The [`Plan`] document: a shield and the ordered steps to it, each with now, wanted, reason and
//! risk. It can be kept, reviewed, edited and applied later.

use crate::causes::Cause;
use crate::change::{Change, EffectTime, Risk};
use crate::policy::Workload;
use cpushield_linux::CpuSet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The version of the document's form; a reader refuses what it does not know.
pub const SCHEMA: u32 = 1;

/// A shield and the steps to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The boot the plan was made in; `apply` surveys again when it is another one.
    pub boot_id: Option<String>,
    /// The kernel release the plan was made for.
    pub kernel: Option<String>,
    /// What is to be shielded.
    pub shield: Shield,
    /// The choice of CPUs, explained in sentences.
    pub why: Vec<String>,
    /// What to do, in order.
    pub steps: Vec<Step>,
    /// Changes that are not needed because the machine is like that, counted by tunable.
    pub already: BTreeMap<String, usize>,
    /// Tunables that do nothing here, each with the reason.
    pub skipped: Vec<SkippedTunable>,
    /// What cannot be moved away, each with the reason.
    pub immovable: Vec<Immovable>,
    /// What remains although the plan is applied, with the boot parameter that would remove it.
    pub boot: Vec<BootAdvice>,
    /// Warnings with advice.
    pub warnings: Vec<String>,
}

/// The CPUs of a shield.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shield {
    /// Its name.
    pub name: String,
    /// Shielded CPUs, idle siblings included.
    pub cpus: CpuSet,
    /// SMT siblings in the shield that are to stay idle.
    pub idle_siblings: CpuSet,
    /// Every other online CPU.
    pub housekeeping: CpuSet,
    /// Memory nodes of the shielded CPUs.
    pub mems: CpuSet,
    /// What will run there.
    pub workload: Workload,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The tunable that wants it.
    pub tunable: String,
    /// What to do.
    pub change: Change,
    /// What is there now; `None` when it could not be read or is not a value.
    pub now: Option<String>,
    /// Why.
    #[serde(with = "crate::with_text")]
    pub reason: StepReason,
    /// What it can harm.
    pub risk: Risk,
    /// When it takes effect.
    pub when: EffectTime,
    /// Causes it removes.
    pub removes: Vec<Cause>,
    /// Whether the shield is worthless without it: when it fails, everything is undone.
    pub required: bool,
}

/// A tunable that does nothing here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SkippedTunable {
    /// The tunable.
    pub tunable: String,
    /// The kind of reason.
    pub kind: SkipKind,
    /// Why.
    pub reason: String,
}

/// Why a tunable does nothing, as far as it decides how that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SkipKind {
    /// The user does not want it.
    SwitchedOff,
    /// It is only for those who ask for it by name.
    OnlyWhenAsked,
    /// It has nothing to do on this machine.
    NotApplicable,
}

/// Something that stays on the shielded CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Immovable {
    /// What.
    #[serde(with = "crate::with_text")]
    pub what: ImmovableThing,
    /// Why.
    #[serde(with = "crate::with_text")]
    pub reason: ImmovableReason,
}

/// What stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ImmovableThing {
    /// An interrupt.
    Irq {
        /// Its number.
        irq: u32,
        /// The names it was requested with.
        actions: String,
    },
    /// A kernel thread.
    Kthread {
        /// Its name.
        comm: String,
    },
}

impl fmt::Display for ImmovableThing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImmovableThing::Irq { irq, actions } if actions.is_empty() => write!(f, "irq {irq}"),
            ImmovableThing::Irq { irq, actions } => write!(f, "irq {irq} ({actions})"),
            ImmovableThing::Kthread { comm } => write!(f, "kthread {comm}"),
        }
    }
}

/// Why something stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ImmovableReason {
    /// The kernel refuses to move an interrupt.
    Refused {
        /// Its answer.
        answer: String,
        /// When the interrupt arrives all the same.
        arrives: RefusedIrq,
    },
    /// The kernel has bound a thread.
    Bound {
        /// To these CPUs.
        cpus: CpuSet,
    },
}

impl fmt::Display for ImmovableReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImmovableReason::Refused { answer, arrives } => {
                write!(f, "the kernel refuses ({answer}); {arrives}")
            }
            ImmovableReason::Bound { cpus } => write!(f, "bound to CPU {cpus} by the kernel"),
        }
    }
}

/// What an interrupt that the kernel does not let move does on the shield.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum RefusedIrq {
    /// It serves CPUs outside the shield too.
    ServesOthers {
        /// All that it serves.
        cpus: CpuSet,
    },
    /// It serves shielded CPUs only.
    OwnRequests,
    /// It is no message of a device: the same answer has three reasons
    /// (`irq_can_set_affinity_usr()` in kernel/irq/manage.c, 6.12).
    NotKnown,
}

impl fmt::Display for RefusedIrq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RefusedIrq::ServesOthers { cpus } => write!(f, "it serves CPU {cpus}"),
            RefusedIrq::OwnRequests => f.write_str("it fires only for I/O issued from the shield"),
            RefusedIrq::NotKnown => f.write_str(
                "whether it is bound to its CPU, its chip cannot move any, or the kernel manages \
                 it, for which isolcpus=managed_irq may help, is not known",
            ),
        }
    }
}

/// Why a step is taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum StepReason {
    /// This interrupt may interrupt the shield.
    Irq {
        /// Its number.
        irq: u32,
        /// The names it was requested with; empty when no driver has requested it.
        actions: String,
    },
    /// What the tunable says.
    Tunable {
        /// One sentence.
        why: String,
    },
}

impl From<&str> for StepReason {
    fn from(why: &str) -> StepReason {
        StepReason::Tunable { why: why.to_owned() }
    }
}

impl From<&String> for StepReason {
    fn from(why: &String) -> StepReason {
        StepReason::from(why.as_str())
    }
}

impl fmt::Display for StepReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StepReason::Irq { irq, actions } => {
                let (irq, actions) = (*irq, actions.clone());
                write!(f, "{} may interrupt the shield", ImmovableThing::Irq { irq, actions })
            }
            StepReason::Tunable { why } => f.write_str(why),
        }
    }
}

/// What only a boot parameter removes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BootAdvice {
    /// `nohz_full=3 rcu_nocbs=3`.
    pub parameter: String,
    /// What it removes.
    pub removes: Vec<Cause>,
    /// Why.
    pub reason: String,
}

impl Step {
    /// Whether it takes effect on the running kernel.
    #[must_use]
    pub fn is_runtime(&self) -> bool {
        self.when == EffectTime::Runtime
    }
}

impl Shield {
    /// The name of its cgroup, and of its slice without `.slice`. No dash: to systemd
    /// `a-b.slice` lies inside `a.slice` (systemd.slice(5)), and a partition must lie in the root.
    #[must_use]
    pub fn group(&self) -> String {
        match self.name.as_str() {
            "cpushield" => self.name.clone(),
            name => format!("cpushield_{name}"),
        }
    }
}
