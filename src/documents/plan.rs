//! The [`Plan`] document: a shield and the ordered steps that make it. Each step has the current
//! value, the change, the reason and the risk. A plan can be saved, reviewed and applied later; to
//! change it, plan again.

mod boot_advice;
mod candidate;
mod candidate_reason;
mod choice_reason;
mod choice_warning;
mod cpuset_warning;
mod disturbance;
mod evidence_limit;
mod shield;
mod skip_reason;
mod version_difference;
mod warning;

pub use boot_advice::{BootAdvice, BootAdviceReason};
pub use candidate::CpuCandidate;
pub use candidate_reason::CandidateReason;
pub use choice_reason::{BootPreparation, ChoiceReason};
pub use choice_warning::{ChoiceWarning, RemoteMemoryReason};
pub use cpuset_warning::{BootLine, CpusetWarning};
pub use disturbance::{Disturbance, MachineWideEffect};
pub use evidence_limit::EvidenceLimit;
pub use shield::{NamedShield, Shield, list_shields};
pub use skip_reason::{OffReason, SkipReason};
pub use version_difference::{SettingsFate, VersionSettings, version_differences};
pub use warning::PlanWarning;

use crate::causes::Cause;
use crate::change::{Change, ChangeFault, EffectTime, Risk};
use crate::policy::ShieldOperators;
use cpushield_linux::CpuSet;
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The schema version of the document. A reader refuses unknown versions.
pub const SCHEMA: u32 = 1;

/// A shield and the steps that make it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The boot that the plan was made in; `apply` surveys again in another boot.
    pub boot_id: Option<String>,
    /// The kernel release that the plan was made for.
    pub kernel: Option<String>,
    /// The shield.
    pub shield: Shield,
    /// Why these CPUs were chosen.
    #[serde(with = "crate::with_text::TextList::<ChoiceReason>")]
    pub why: Vec<ChoiceReason>,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// Number of changes that the machine already has, by tunable.
    pub already: BTreeMap<String, usize>,
    /// Tunables that do nothing here, each with the reason.
    pub skipped: Vec<SkippedTunable>,
    /// Interrupts and threads that cannot be moved away, each with the reason.
    pub immovable: Vec<Immovable>,
    /// What remains after the plan is applied, with the boot parameter that would remove it.
    pub boot: Vec<BootAdvice>,
    /// What `verify` cannot prove about the shield on this machine.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        with = "crate::with_text::TextList::<EvidenceLimit>"
    )]
    pub unproven: Vec<EvidenceLimit>,
    /// Warnings with advice.
    #[serde(with = "crate::with_text::TextList::<PlanWarning>")]
    pub warnings: Vec<PlanWarning>,
    /// Users other than root that may enter the shield; `None` if only root may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operators: Option<ShieldOperators>,
}

impl Plan {
    /// Counts a tunable that is off by default as requested, because a step of it was added later.
    /// A command that requests this shield again then keeps it.
    pub fn request_tunable(&mut self, tunable: &str) {
        let is_it = |skipped: &SkippedTunable| {
            skipped.tunable == tunable && skipped.reason.is_off_by_default()
        };
        if self.skipped.iter().any(is_it) {
            self.skipped.retain(|skipped| !is_it(skipped));
            self.shield.tunables.set(tunable, true);
        }
    }
}

/// `CPU 3`, `CPUs 2-3`.
#[must_use]
pub fn named(cpus: &CpuSet) -> String {
    if cpus.len() == 1 { format!("CPU {cpus}") } else { format!("CPUs {cpus}") }
}

/// The shields that are active when another one is planned, and their changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ActiveShields {
    /// The shields.
    pub shields: Vec<Shield>,
    /// The name of a shield, and a step of it.
    pub changes: Vec<(String, Step)>,
    /// The runtime steps of the version that the planned shield replaces; they are made already.
    pub replaced: Vec<Step>,
    /// The CPUs of that version; empty if there is none.
    pub replaced_cpus: CpuSet,
    /// Number of changes that that version found already made, by tunable.
    pub replaced_already: BTreeMap<String, usize>,
}

impl ActiveShields {
    /// The shields of these plans.
    #[must_use]
    pub fn new(plans: &[Plan]) -> ActiveShields {
        let changes = plans.iter().flat_map(|plan| {
            let runtime = plan.steps.iter().filter(|step| step.is_runtime());
            runtime.map(|step| (plan.shield.name.clone(), step.clone()))
        });
        let shields = plans.iter().map(|plan| plan.shield.clone()).collect();
        ActiveShields { shields, changes: changes.collect(), ..ActiveShields::default() }
    }

    /// Whether the version that the planned shield replaces has made this change.
    #[must_use]
    pub fn has_made(&self, change: &Change) -> bool {
        self.replaced.iter().any(|step| step.change == *change)
    }

    /// The same when the planned shield replaces this version.
    #[must_use]
    pub fn replacing(self, version: Option<&Plan>) -> ActiveShields {
        let steps = version.iter().flat_map(|plan| &plan.steps);
        let steps = steps.filter(|step| step.is_runtime()).cloned();
        let replaced_cpus = version.map(|plan| plan.shield.cpus.clone()).unwrap_or_default();
        let replaced_already = version.map(|plan| plan.already.clone()).unwrap_or_default();
        ActiveShields { replaced: steps.collect(), replaced_cpus, replaced_already, ..self }
    }

    /// All shielded CPUs.
    #[must_use]
    pub fn cpus(&self) -> CpuSet {
        self.shields.iter().map(|shield| &shield.cpus).collect()
    }

    /// The last change about the same thing, with the name of its shield.
    #[must_use]
    pub fn find_same(&self, change: &Change) -> Option<(&str, &Change)> {
        let found = self.changes.iter().rev().find(|(_, known)| known.change.is_about_same(change));
        found.map(|(name, step)| (name.as_str(), &step.change))
    }
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The tunable that wants it.
    pub tunable: String,
    /// The change.
    pub change: Change,
    /// The current value; `None` if it could not be read or is not a value.
    pub now: Option<String>,
    /// The reason.
    #[serde(with = "crate::with_text::WithText::<StepReason>")]
    pub reason: StepReason,
    /// The risk.
    pub risk: Risk,
    /// When it takes effect.
    pub when: EffectTime,
    /// Causes of interruptions that it removes.
    pub removes: Vec<Cause>,
    /// Whether the shield is useless without it. If it fails, every change is undone.
    pub required: bool,
}

/// A tunable that does nothing here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SkippedTunable {
    /// The tunable.
    pub tunable: String,
    /// The reason.
    #[serde(with = "crate::with_text::WithText::<SkipReason>")]
    pub reason: SkipReason,
}

/// Something that stays on the shielded CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Immovable {
    /// The interrupt or thread.
    #[serde(with = "crate::with_text::WithText::<ImmovableThing>")]
    pub what: ImmovableThing,
    /// The reason.
    #[serde(with = "crate::with_text::WithText::<ImmovableReason>")]
    pub reason: ImmovableReason,
}

/// An interrupt or a thread that stays on the shielded CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ImmovableThing {
    /// An interrupt.
    #[print(write_irq(f, irq, actions))]
    Irq {
        /// Its number.
        irq: u32,
        /// The names it was requested with.
        actions: String,
    },
    /// kthread {comm}.
    Kthread {
        /// Its name.
        comm: String,
    },
}

fn write_irq(f: &mut fmt::Formatter<'_>, irq: &u32, actions: &str) -> fmt::Result {
    match irq {
        irq if actions.is_empty() => write!(f, "irq {irq}"),
        irq => write!(f, "irq {irq} ({actions})"),
    }
}

/// Why an interrupt or a thread cannot be moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ImmovableReason {
    /// the kernel refuses to move it ({answer}); {arrives}.
    Refused {
        /// The answer of the kernel.
        answer: String,
        /// When the interrupt still arrives.
        arrives: RefusedIrq,
    },
    /// bound to CPU {cpus} by the kernel.
    Bound {
        /// The CPUs.
        cpus: CpuSet,
    },
    /// stays where it was put, on CPUs of isolcpus=; --evict moves it.
    PlacedByUser,
    /// keeps CPU {cpus}: its node has no other CPU that is not isolated.
    NodeClosed {
        /// The CPUs of the thread.
        cpus: CpuSet,
    },
}

/// When an interrupt that the kernel refuses to move arrives on the shield.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum RefusedIrq {
    /// it serves CPU {cpus}.
    ServesOthers {
        /// All CPUs that it serves.
        cpus: CpuSet,
    },
    /// it fires only for I/O issued from the shield.
    OwnRequests,
    /// the reason is unknown: it may be bound to its CPU, its chip may be unable to move
    /// interrupts, or the kernel may manage it (then isolcpus=managed_irq may help).
    ///
    /// Then the same answer has three possible reasons (`irq_can_set_affinity_usr()` in
    /// kernel/irq/manage.c, 6.12).
    NotKnown,
}

/// Why a step is taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum StepReason {
    /// {what} may interrupt the shield.
    #[with(what = ImmovableThing::Irq { irq: *irq, actions: actions.clone() })]
    Irq {
        /// Its number.
        irq: u32,
        /// The names it was requested with; empty if no driver has requested it.
        actions: String,
    },
    /// leaving {deeper} takes longer than {limit_us} µs; lighter sleep costs power.
    DeepSleep {
        /// The CPU.
        cpu: usize,
        /// Its deeper idle states: `C6 (133 µs)`.
        deeper: String,
        /// The limit.
        limit_us: u64,
    },
    /// {why}.
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

impl Plan {
    /// The first step that no plan may contain, counted from 0, and why.
    #[must_use]
    pub fn unfit(&self) -> Option<(usize, ChangeFault)> {
        let mut steps = self.steps.iter().enumerate();
        let invalid = steps.find_map(|(n, step)| Some((n, step.check(&self.shield).err()?)));
        invalid.or_else(|| self.loses_affinities())
    }

    /// A step that takes a CPU offline before a step saves the affinities of tasks. Tasks that may
    /// only run on that CPU would never return to it.
    fn loses_affinities(&self) -> Option<(usize, ChangeFault)> {
        let before = self.steps.iter().take_while(|step| step.change != Change::KeepAffinities);
        let mut offline = before.enumerate().filter(|(_, step)| {
            matches!(step.change, Change::CycleCpu { .. } | Change::OfflineSibling { .. })
        });
        offline.next().map(|(n, _)| (n, ChangeFault::AffinitiesNotSaved))
    }

    /// The directory of the shield's cgroup: the one that the steps make or write to and that has
    /// the name of the shield's group or slice. `None` for a shield that consists of affinities
    /// only.
    #[must_use]
    pub fn cgroup_dir(&self) -> Option<String> {
        let names = self.shield.cgroup_names();
        self.steps.iter().find_map(|step| {
            let path = match &step.change {
                Change::MakeDir { path } | Change::Write { path, .. } => path,
                _ => return None,
            };
            names.iter().find_map(|name| prefix_through(path, name))
        })
    }
}

/// Returns `path` up to and including its component `name`.
fn prefix_through(path: &str, name: &str) -> Option<String> {
    let mut dir = String::new();
    for component in path.split('/').filter(|c| !c.is_empty()) {
        dir.push('/');
        dir.push_str(component);
        if component == name {
            return Some(dir);
        }
    }
    None
}

impl Step {
    /// Whether it takes effect on the running kernel.
    #[must_use]
    pub fn is_runtime(&self) -> bool {
        self.when == EffectTime::Runtime
    }

    /// Checks whether a plan for this shield may contain the step.
    ///
    /// # Errors
    /// It may not.
    pub fn check(&self, shield: &Shield) -> Result<(), ChangeFault> {
        self.change.check(&shield.cpus, &shield.group())
    }
}

impl Shield {
    /// Its CPUs that are online while it is active.
    #[must_use]
    pub fn online_cpus(&self) -> CpuSet {
        self.cpus.difference(&self.offline_siblings)
    }

    /// The name of its cgroup, and of its slice without `.slice`. It has no dash, because for
    /// systemd `a-b.slice` is inside `a.slice` (systemd.slice(5)), and a partition must be in the
    /// root.
    #[must_use]
    pub fn group(&self) -> String {
        // A shield that is being replaced shares the group with its successor.
        match self.name.split('.').next().unwrap_or_default() {
            "cpushield" => "cpushield".to_owned(),
            name => format!("cpushield_{name}"),
        }
    }

    /// The possible names of its cgroup directory.
    #[must_use]
    pub fn cgroup_names(&self) -> [String; 2] {
        [self.group(), format!("{}.slice", self.group())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_is_the_component_of_that_name() {
        let slice = "/sys/fs/cgroup/cpushield.slice/cpuset.cpus.partition";
        assert_eq!(
            prefix_through(slice, "cpushield.slice").unwrap(),
            "/sys/fs/cgroup/cpushield.slice"
        );
        assert_eq!(prefix_through(slice, "cpushield"), None);
        assert_eq!(
            prefix_through("/sys/fs/cgroup/cpushield_housekeeping/tasks", "cpushield"),
            None
        );
    }
}
