//! The shields of a journal: the first one is made with it, others join it, and each can leave
//! while the others stay. Steps of several shields about the same thing keep the first original.

use super::{ApplyJournal, JournalHeader, StepOriginal, TaskMasks};
use super::{JournalLine, opening_lines};
use crate::apply::original::OriginalState;
use crate::change::{Change, Outcome};
use crate::documents::applied::StepDone;
use crate::documents::plan::{Plan, Shield, Step};
use cpushield_linux::{CpuSet, Error};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// An active shield.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournaledShield {
    /// Its plan without steps. They are in the journal's own list.
    pub plan: Plan,
    /// The indices of its steps in that list.
    pub steps: BTreeSet<usize>,
}

/// The end of the name of a shield that its successor replaces. No shield can have such a name.
const REPLACED: &str = ".replaced";

/// The name of a shield while its successor replaces it.
#[must_use]
pub fn replaced_name(name: &str) -> String {
    format!("{name}{REPLACED}")
}

/// The name that users know.
fn common_name(name: &str) -> &str {
    name.strip_suffix(REPLACED).unwrap_or(name)
}

/// Whether a shield that joins is another one, or the successor of one with the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JoinKind {
    /// No active shield has its name.
    Additional,
    /// The active shield of its name leaves as soon as this one is in force.
    Successor,
}

/// A shield that joins others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShieldJoin {
    /// Whether it replaces one.
    pub kind: JoinKind,
    /// Its plan.
    pub plan: Plan,
    /// The original of each runtime step: before the first step of any shield about the same thing.
    pub originals: Vec<OriginalState>,
}

/// A shield that leaves others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShieldLeave {
    /// Its name.
    pub shield: String,
    /// Steps of the other shields about things that it changed too.
    pub replaced: Vec<ReplacedChange>,
}

/// A step of a shield that stays, with the change that it has without the one that leaves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplacedChange {
    /// The index of the step.
    pub step: usize,
    /// Its change.
    pub change: Change,
    /// The value before; another value was set by another process.
    pub before: Option<String>,
}

impl JournaledShield {
    /// The first shield of a journal, which has all steps.
    pub(super) fn first(header: &JournalHeader) -> JournaledShield {
        let steps = (0..header.plan.steps.len()).collect();
        JournaledShield { plan: without_steps(&header.plan), steps }
    }

    /// This shield after another one has left and freed these CPUs. If its successor has left, it
    /// has its name again.
    fn without(&self, leaving: &str, freed: &CpuSet) -> JournaledShield {
        let mut live = self.clone();
        let shield = &mut live.plan.shield;
        shield.housekeeping = shield.housekeeping.union(&freed.difference(&shield.closed));
        if shield.name == replaced_name(leaving) {
            leaving.clone_into(&mut shield.name);
        }
        live
    }
}

fn without_steps(plan: &Plan) -> Plan {
    Plan { steps: Vec::new(), ..plan.clone() }
}

impl ApplyJournal {
    /// All active shields, with the housekeeping CPUs that they were planned with.
    pub(in crate::apply) fn planned_shields(&self) -> impl Iterator<Item = &Shield> + Clone {
        self.shields.iter().map(|live| &live.plan.shield)
    }

    /// The active shield of this name.
    #[must_use]
    pub fn find_shield(&self, name: &str) -> Option<&JournaledShield> {
        self.shields.iter().find(|live| live.plan.shield.name == name)
    }

    /// The names of the active shields, in the order in which they were applied. A shield that is
    /// being replaced is left out: its successor has its name.
    #[must_use]
    pub fn shield_names(&self) -> Vec<String> {
        let names = self.planned_shields().map(|shield| shield.name.clone());
        names.filter(|name| common_name(name) == name).collect()
    }

    /// The name of the shield whose apply, change or undo has not ended, while others stay.
    #[must_use]
    pub fn unfinished_name(&self) -> Option<String> {
        let leaving = self.leaving.as_ref().map(|leave| common_name(&leave.shield).to_owned());
        leaving.or_else(|| self.joining.clone()).or_else(|| {
            let mut shields = self.planned_shields();
            shields.find_map(|shield| shield.name.strip_suffix(REPLACED)).map(str::to_owned)
        })
    }

    /// Whether a shield is being replaced.
    #[must_use]
    pub fn is_replacing(&self) -> bool {
        self.planned_shields().any(|shield| shield.name.ends_with(REPLACED))
    }

    /// The version of this shield that must leave before anything else can happen to the shield:
    /// the replaced one once its successor is complete, otherwise the successor.
    #[must_use]
    pub fn superfluous_version(&self, name: &str) -> Option<String> {
        let replaced = replaced_name(name);
        self.find_shield(&replaced)?;
        let is_complete = self.joining.is_none()
            && self.leaving.as_ref().is_none_or(|leave| leave.shield == replaced);
        Some(if is_complete { replaced } else { name.to_owned() })
    }

    /// The shielded CPUs of a shield, in all its versions.
    #[must_use]
    pub fn cpus_of_versions(&self, name: &str) -> CpuSet {
        let versions = self.planned_shields().filter(|shield| common_name(&shield.name) == name);
        versions.map(|version| &version.cpus).collect()
    }

    /// The shielded CPUs of all active shields except one.
    #[must_use]
    pub fn cpus_of_others(&self, name: &str) -> CpuSet {
        let others = self.planned_shields().filter(|shield| shield.name != name);
        others.map(|shield| &shield.cpus).collect()
    }

    /// The shielded CPUs of all active shields.
    #[must_use]
    pub fn shielded_cpus(&self) -> CpuSet {
        self.planned_shields().map(|shield| &shield.cpus).collect()
    }

    /// An active shield. Its housekeeping CPUs are in no shield.
    #[must_use]
    pub fn shield(&self, name: &str) -> Option<Shield> {
        let shield = self.find_shield(name)?.plan.shield.clone();
        let housekeeping = shield.housekeeping.difference(&self.cpus_of_others(name));
        Some(Shield { housekeeping, ..shield })
    }

    /// The CPUs that are in no shield.
    #[must_use]
    pub fn housekeeping(&self) -> CpuSet {
        let mut shields = self.planned_shields().map(|shield| shield.housekeeping.clone());
        let first = shields.next().unwrap_or_default();
        shields.fold(first, |left, shield| left.intersection(&shield))
    }

    /// The plan of an active shield with its own steps, and the boot it was applied in.
    #[must_use]
    pub fn plan_of(&self, name: &str) -> Option<Plan> {
        let live = self.find_shield(name)?;
        Some(Plan {
            boot_id: self.header.boot_id.clone(),
            shield: self.shield(name)?,
            steps: self.steps_of(live).cloned().collect(),
            ..live.plan.clone()
        })
    }

    /// The steps of a shield.
    pub(in crate::apply) fn steps_of<'a>(
        &'a self,
        live: &'a JournaledShield,
    ) -> impl Iterator<Item = &'a Step> {
        live.steps.iter().filter_map(|step| self.header.plan.steps.get(*step))
    }

    /// The originals of the steps of the shield of this name.
    pub fn intents_of(&self, name: &str) -> impl DoubleEndedIterator<Item = &StepOriginal> {
        let live = self.find_shield(name);
        let is_own = move |step| live.is_some_and(|live| live.steps.contains(step));
        self.intents.iter().filter(move |intent| is_own(&intent.step))
    }

    /// The originals of all runtime steps about the same thing as a change.
    pub(in crate::apply) fn intents_about(
        &self,
        change: &Change,
    ) -> impl DoubleEndedIterator<Item = &StepOriginal> {
        let is_about = |intent| self.step(intent).is_some_and(|it| it.change.is_about_same(change));
        self.intents.iter().filter(move |intent| is_about(intent))
    }

    /// The plans of all active shields, as [`ApplyJournal::plan_of`].
    #[must_use]
    pub fn plans(&self) -> Vec<Plan> {
        self.shield_names().iter().filter_map(|name| self.plan_of(name)).collect()
    }

    /// The last step about the same thing as a change, of a shield other than this one. A step that
    /// was refused does not count: it needs nothing to stay as it is.
    #[must_use]
    pub fn last_of_others(&self, name: &str, change: &Change) -> Option<&StepOriginal> {
        let own = &self.find_shield(name)?.steps;
        let is_other = |step| !own.contains(step) && self.may_be_made(*step);
        self.intents_about(change).rev().find(|intent| is_other(&intent.step))
    }

    /// The last step about the same thing as a change, of any shield, that was not refused.
    #[must_use]
    pub fn last_made_about(&self, change: &Change) -> Option<&StepOriginal> {
        self.intents_about(change).rev().find(|intent| self.may_be_made(intent.step))
    }

    /// Whether a step was made, or may have been.
    #[must_use]
    pub fn may_be_made(&self, step: usize) -> bool {
        let outcome = self.outcomes.get(&step).map(|done| &done.outcome);
        !matches!(outcome, Some(Outcome::Refused { .. } | Outcome::Absent))
    }

    /// The shields that have a step about the same thing as a change.
    pub fn shields_about<'a>(&'a self, change: &'a Change) -> impl Iterator<Item = &'a Shield> {
        let is_about = |live| self.steps_of(live).any(|step| step.change.is_about_same(change));
        let shields = self.shields.iter().filter(move |live| is_about(live));
        shields.map(|live| &live.plan.shield)
    }

    /// Whether a shield has a cgroup.
    #[must_use]
    pub fn has_group(&self, name: &str) -> bool {
        let Some(live) = self.find_shield(name) else { return false };
        let group = live.plan.shield.group();
        self.steps_of(live).any(|step| step.change.is_about_group(&group))
    }

    /// Adds a shield that joins others.
    pub fn join(&mut self, join: ShieldJoin) {
        let plan = without_steps(&join.plan);
        if join.kind == JoinKind::Successor
            && let Some(old) =
                self.shields.iter_mut().find(|live| live.plan.shield.name == plan.shield.name)
        {
            old.plan.shield.name = replaced_name(&plan.shield.name);
        }
        let mut originals = join.originals.into_iter();
        let mut steps = BTreeSet::new();
        for step in join.plan.steps {
            let original = if step.is_runtime() { originals.next() } else { None };
            steps.insert(self.add_step(step, original));
        }
        self.joining = Some(plan.shield.name.clone());
        self.shields.push(JournaledShield { plan, steps });
    }

    /// Begins the undo of a shield while others stay.
    pub fn leave(&mut self, leave: ShieldLeave) {
        for ReplacedChange { step, change, .. } in &leave.replaced {
            if let Some(step) = self.header.plan.steps.get_mut(*step) {
                step.change = change.clone();
            }
        }
        self.leaving = Some(leave);
    }

    /// The journal of the other shields, after the undo of one has ended, as if only they had been
    /// applied. `masks` are the current affinities.
    ///
    /// # Errors
    /// It cannot be encoded.
    pub fn without_shield(&self, name: &str, masks: &TaskMasks) -> Result<Vec<u8>, Error> {
        let leaving = self.find_shield(name);
        let leaving = leaving.map(|live| live.plan.shield.cpus.clone()).unwrap_or_default();
        let freed = leaving.difference(&self.cpus_of_others(name));
        let others = self.shields.iter().filter(|live| live.plan.shield.name != name);
        let others: Vec<JournaledShield> = others.map(|live| live.without(name, &freed)).collect();
        let mut others = others.iter();
        let Some(first) = others.next() else { return Ok(Vec::new()) };
        let mut count = 0;
        let (plan, intents) = self.section(first, &mut count);
        let header = JournalHeader { plan, ..self.header.clone() };
        let mut bytes = opening_lines(&header, &intents)?;
        bytes.extend(self.results(first, 0)?);
        bytes.extend(JournalLine::applied(masks).encode()?);
        for live in others {
            let start = count;
            let (plan, intents) = self.section(live, &mut count);
            let originals = intents.into_iter().map(|intent| intent.original).collect();
            let join = ShieldJoin { kind: JoinKind::Additional, plan, originals };
            bytes.extend(JournalLine::Join(Box::new(join)).encode()?);
            bytes.extend(self.results(live, start)?);
            bytes.extend(JournalLine::applied(masks).encode()?);
        }
        Ok(bytes)
    }

    /// The plan of a shield with its steps, and their originals, numbered from `count` on.
    fn section(&self, live: &JournaledShield, count: &mut usize) -> (Plan, Vec<StepOriginal>) {
        let (mut steps, mut intents): (Vec<Step>, Vec<StepOriginal>) = (Vec::new(), Vec::new());
        for index in &live.steps {
            let Some(step) = self.header.plan.steps.get(*index) else { continue };
            steps.push(step.clone());
            let known = self.intents.iter().find(|intent| intent.step == *index);
            if let Some(intent) = known {
                let original = self.original(intent).clone();
                intents.push(StepOriginal { step: *count, original });
            }
            *count += 1;
        }
        (Plan { steps, ..live.plan.clone() }, intents)
    }

    /// The lines of the results of a shield's steps, numbered from `start` on.
    fn results(&self, live: &JournaledShield, start: usize) -> Result<Vec<u8>, Error> {
        let known = live.steps.iter().filter(|index| self.header.plan.steps.get(**index).is_some());
        let results = known.enumerate().filter_map(|(n, index)| {
            let done = self.outcomes.get(index)?;
            Some(JournalLine::Outcome(StepDone { step: start + n, ..done.clone() }).encode())
        });
        Ok(results.collect::<Result<Vec<_>, _>>()?.concat())
    }
}
