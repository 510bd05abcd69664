//! The input of a report: documents by kind, each kind in the order given.

use crate::change::Outcome;
use crate::documents::comparison::Comparison;
use crate::documents::evidence::{Evidence, Verdict};
use crate::documents::experiment::Experiment;
use crate::documents::fix_report::FixReport;
use crate::documents::latency::LatencyMeasurement;
use crate::documents::machine::Machine;
use crate::documents::option_search::OptionSearch;
use crate::documents::plan::{Plan, Step};
use crate::documents::shield_status::Drift;
use crate::documents::try_report::TryReport;
use crate::report::verdict::WatchedRun;
use std::collections::BTreeSet;

/// A document with its name.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelledDocument<T> {
    /// The name that the reader sees.
    pub label: String,
    /// The document.
    pub document: T,
}

/// The input of a report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReportMaterial {
    /// The title; `None` for one derived from the documents.
    pub title: Option<String>,
    /// Machines.
    pub machines: Vec<LabelledDocument<Machine>>,
    /// Plans and their outcomes.
    pub settings: Vec<LabelledDocument<PlanWithOutcome>>,
    /// Observations of CPUs.
    pub observations: Vec<LabelledDocument<WatchWithVerdict>>,
    /// Latency measurements.
    pub latencies: Vec<LabelledDocument<LatencyMeasurement>>,
    /// Reports of `verify --fix`.
    pub fixes: Vec<LabelledDocument<FixReport>>,
    /// Comparisons of repeated runs.
    pub comparisons: Vec<LabelledDocument<Comparison>>,
    /// Matrices of configurations.
    pub experiments: Vec<LabelledDocument<Experiment>>,
    /// Searches for the options that matter.
    pub searches: Vec<LabelledDocument<OptionSearch>>,
    /// Doubts about the report itself.
    pub doubts: Vec<String>,
    /// The file that the report is written to, for the commands that repeat it.
    pub output: Option<String>,
    /// Whether no document was given: the report is about this machine and the active shield.
    pub live: bool,
}

/// A plan and its outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanWithOutcome {
    /// The plan.
    pub plan: Plan,
    /// The outcomes of its steps; empty for a plan that was not applied.
    pub outcomes: Vec<(Step, Outcome)>,
    /// The settings that have changed since.
    pub drift: Vec<Drift>,
    /// Whether everything was restored since.
    pub undone: bool,
}

/// The command that observed CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchCommand {
    /// `verify`.
    Verify,
    /// `verify --fix`, one of its rounds.
    Fix,
    /// `try`, before its shield or under it.
    Attempt,
}

/// An observation and its verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct WatchWithVerdict {
    /// The command that observed.
    pub origin: WatchCommand,
    /// The shield of the observation; `None` without one. What `try` observes before its shield
    /// belongs to that shield too.
    pub shield: Option<String>,
    /// What was observed.
    pub evidence: Evidence,
    /// The verdict; `None` when the evidence was not judged.
    pub verdict: Option<Verdict>,
}

impl<T> LabelledDocument<T> {
    /// A document with its name.
    pub fn new(label: impl Into<String>, document: T) -> LabelledDocument<T> {
        LabelledDocument { label: label.into(), document }
    }
}

impl LabelledDocument<WatchWithVerdict> {
    /// The observation with its name.
    #[must_use]
    pub fn run(&self) -> WatchedRun<'_> {
        let WatchWithVerdict { evidence, verdict, .. } = &self.document;
        WatchedRun { name: &self.label, evidence, verdict: verdict.as_ref() }
    }
}

impl PlanWithOutcome {
    /// A plan that was not applied.
    #[must_use]
    pub fn planned(plan: Plan) -> PlanWithOutcome {
        PlanWithOutcome { plan, outcomes: Vec::new(), drift: Vec::new(), undone: false }
    }
}

impl ReportMaterial {
    /// Whether there are no documents.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let machine = self.machines.is_empty() && self.settings.is_empty();
        let runs = self.comparisons.is_empty() && self.fixes.is_empty();
        let experiments = self.experiments.is_empty() && self.searches.is_empty();
        machine && runs && experiments && self.observations.is_empty() && self.latencies.is_empty()
    }

    /// The hypervisors of all documents that name one.
    pub fn guests(&self) -> impl Iterator<Item = String> {
        let settings = self.latencies.iter().map(|run| run.document.setting.hypervisor.clone());
        self.machines.iter().map(|machine| guest(&machine.document)).chain(settings).flatten()
    }

    /// The names of the shields of all documents, in order; `None` comes last, for documents of no
    /// shield.
    #[must_use]
    pub fn shields(&self) -> Vec<Option<&str>> {
        let settings = self.settings.iter().map(shield_of_settings);
        let watched = self.observations.iter().map(shield_of_watch);
        let measured = self.latencies.iter().map(shield_of_latency);
        let fixed = self.fixes.iter().map(shield_of_fix);
        let all = settings.chain(watched).chain(measured).chain(fixed);
        let (named, others): (BTreeSet<_>, BTreeSet<_>) = all.partition(Option::is_some);
        named.into_iter().chain(others).collect()
    }

    /// Whether documents are of different shields.
    #[must_use]
    pub fn has_several_shields(&self) -> bool {
        self.shields().into_iter().flatten().count() > 1
    }

    /// The documents of a shield, or of none.
    #[must_use]
    pub fn of_shield(&self, name: Option<&str>) -> ReportMaterial {
        ReportMaterial {
            settings: only(&self.settings, |it| shield_of_settings(it) == name),
            observations: only(&self.observations, |it| shield_of_watch(it) == name),
            latencies: only(&self.latencies, |it| shield_of_latency(it) == name),
            fixes: only(&self.fixes, |it| shield_of_fix(it) == name),
            live: self.live,
            ..ReportMaterial::default()
        }
    }

    /// Adds the documents of `try`: an undone plan, an observation before it and one under it.
    pub fn add_attempt(&mut self, label: &str, attempt: TryReport) {
        let TryReport { plan, before, shielded, verdict, left, .. } = attempt;
        let (undone, origin) = (left.is_empty(), WatchCommand::Attempt);
        let shield = Some(plan.shield.name.clone());
        self.settings.push(LabelledDocument::new(
            label,
            PlanWithOutcome { undone, ..PlanWithOutcome::planned(plan) },
        ));
        let prefix = if label.is_empty() { String::new() } else { format!("{label}: ") };
        self.observations.push(LabelledDocument::new(
            format!("{prefix}before"),
            WatchWithVerdict { origin, shield: shield.clone(), evidence: before, verdict: None },
        ));
        let verdict = Some(verdict);
        let observation = WatchWithVerdict { origin, shield, evidence: shielded, verdict };
        self.observations.push(LabelledDocument::new(format!("{prefix}shielded"), observation));
        let not_restored = left.into_iter().map(|what| format!("{label}: not restored: {what}"));
        self.doubts.extend(not_restored);
    }

    /// Adds the report of `verify --fix`, and the observations of its first and last round.
    pub fn add_fixed(&mut self, label: &str, fixed: FixReport) {
        let rounds = fixed.rounds.len();
        for (n, round) in fixed.rounds.iter().enumerate() {
            let when = match n {
                0 => "first round".to_owned(),
                n if n + 1 == rounds => "last round".to_owned(),
                _ => continue,
            };
            let (evidence, verdict) = (round.evidence.clone(), Some(round.verdict.clone()));
            let (origin, shield) = (WatchCommand::Fix, evidence.shield.clone());
            let observation = WatchWithVerdict { origin, shield, evidence, verdict };
            self.observations.push(LabelledDocument::new(format!("{label}: {when}"), observation));
        }
        self.fixes.push(LabelledDocument::new(label, fixed));
    }
}

/// The documents for which this holds.
fn only<T: Clone>(
    all: &[LabelledDocument<T>],
    holds: impl Fn(&LabelledDocument<T>) -> bool,
) -> Vec<LabelledDocument<T>> {
    all.iter().filter(|document| holds(document)).cloned().collect()
}

fn shield_of_settings(settings: &LabelledDocument<PlanWithOutcome>) -> Option<&str> {
    Some(&settings.document.plan.shield.name)
}

fn shield_of_watch(watch: &LabelledDocument<WatchWithVerdict>) -> Option<&str> {
    watch.document.shield.as_deref()
}

fn shield_of_latency(latency: &LabelledDocument<LatencyMeasurement>) -> Option<&str> {
    latency.document.isolation.shield.as_deref()
}

fn shield_of_fix(fix: &LabelledDocument<FixReport>) -> Option<&str> {
    fix.document.rounds.first()?.evidence.shield.as_deref()
}

/// The hypervisor; `None` on bare metal.
fn guest(machine: &Machine) -> Option<String> {
    let name = machine.virt.hypervisor.clone();
    (machine.virt.guest == Some(true)).then(|| name.unwrap_or("a hypervisor".to_owned()))
}
