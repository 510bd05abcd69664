//! The [`Plan`] document: a shield and the ordered steps to it, each with now, wanted, reason and
//! risk. It can be kept, reviewed, edited and applied later.

use crate::causes::Cause;
use crate::change::{Change, Risk, When};
use crate::policy::Workload;
use cpushield_linux::CpuSet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
    pub skipped: Vec<Skipped>,
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
    /// Why, in one sentence.
    pub reason: String,
    /// What it can harm.
    pub risk: Risk,
    /// When it takes effect.
    pub when: When,
    /// Causes it removes.
    pub removes: Vec<Cause>,
    /// Whether the shield is worthless without it: when it fails, everything is undone.
    pub required: bool,
}

/// A tunable that does nothing here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Skipped {
    /// The tunable.
    pub tunable: String,
    /// Why.
    pub reason: String,
}

/// Something that stays on the shielded CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Immovable {
    /// `irq 24 (nvme0q3)`, `kthread ksoftirqd/3`.
    pub what: String,
    /// The kernel's reason.
    pub reason: String,
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
        self.when == When::Runtime
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
