//! What a report is made from: documents by kind, each kind in the order it was given.

use crate::change::Outcome;
use crate::compare::Comparison;
use crate::experiment::Experiment;
use crate::latency::LatencyMeasurement;
use crate::plan::{Plan, Step};
use crate::report::fix_report::FixReport;
use crate::report::try_report::TryReport;
use crate::run::Drift;
use crate::survey::Machine;
use crate::verify::{Evidence, Verdict};

/// A document with its name.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelledDocument<T> {
    /// The name that the reader sees.
    pub label: String,
    /// The document.
    pub it: T,
}

/// Everything that a report is made from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReportMaterial {
    /// The title; one is made when there is none.
    pub title: Option<String>,
    /// Machines.
    pub machines: Vec<LabelledDocument<Machine>>,
    /// Plans, and what came of them.
    pub settings: Vec<LabelledDocument<PlanWithOutcome>>,
    /// What was watched.
    pub looks: Vec<LabelledDocument<WatchWithVerdict>>,
    /// How late threads were.
    pub latencies: Vec<LabelledDocument<LatencyMeasurement>>,
    /// Rounds of looking and mending.
    pub fixes: Vec<LabelledDocument<FixReport>>,
    /// Repeated runs side by side.
    pub comparisons: Vec<LabelledDocument<Comparison>>,
    /// Matrices of configurations.
    pub experiments: Vec<LabelledDocument<Experiment>>,
    /// What is doubtful about the report itself.
    pub doubts: Vec<String>,
    /// The name of the file that the report is written to, for repeating it.
    pub output: Option<String>,
    /// No document was given: it is about this machine and the shield in force.
    pub live: bool,
}

/// A plan and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanWithOutcome {
    /// The plan.
    pub plan: Plan,
    /// What came of its steps; empty for a plan that was only made.
    pub outcomes: Vec<(Step, Outcome)>,
    /// What is no longer as it was left.
    pub drift: Vec<Drift>,
    /// Everything was put back since.
    pub undone: bool,
}

/// The command that watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchCommand {
    /// `verify`.
    Verify,
    /// `verify --fix`, one of its rounds.
    Fix,
    /// `try`, before its shield or under it.
    Attempt,
}

/// What was watched, and what that means.
#[derive(Debug, Clone, PartialEq)]
pub struct WatchWithVerdict {
    /// The command that watched.
    pub origin: WatchCommand,
    /// What was observed.
    pub evidence: Evidence,
    /// What that means; `None` where nobody judged.
    pub verdict: Option<Verdict>,
}

impl<T> LabelledDocument<T> {
    /// A document with its name.
    pub fn new(label: impl Into<String>, it: T) -> LabelledDocument<T> {
        LabelledDocument { label: label.into(), it }
    }
}

impl PlanWithOutcome {
    /// A plan that was only made.
    #[must_use]
    pub fn planned(plan: Plan) -> PlanWithOutcome {
        PlanWithOutcome { plan, outcomes: Vec::new(), drift: Vec::new(), undone: false }
    }
}

impl ReportMaterial {
    /// Nothing was given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let machine = self.machines.is_empty() && self.settings.is_empty();
        let runs =
            self.comparisons.is_empty() && self.experiments.is_empty() && self.fixes.is_empty();
        machine && runs && self.looks.is_empty() && self.latencies.is_empty()
    }

    /// What `try` found: a plan that was undone, a look before it and one under it.
    pub fn add_attempt(&mut self, label: &str, attempt: TryReport) {
        let TryReport { plan, before, shielded, verdict, left, .. } = attempt;
        let (undone, origin) = (left.is_empty(), WatchCommand::Attempt);
        self.settings.push(LabelledDocument::new(
            label,
            PlanWithOutcome { undone, ..PlanWithOutcome::planned(plan) },
        ));
        let name =
            |what: &str| if label.is_empty() { what.into() } else { format!("{label}: {what}") };
        self.looks.push(LabelledDocument::new(
            name("before"),
            WatchWithVerdict { origin, evidence: before, verdict: None },
        ));
        let look = WatchWithVerdict { origin, evidence: shielded, verdict: Some(verdict) };
        self.looks.push(LabelledDocument::new(name("shielded"), look));
        let left = left.into_iter().map(|what| format!("{label}: not put back: {what}"));
        self.doubts.extend(left);
    }

    /// What `verify --fix` found: its first look and its last one.
    pub fn add_fixed(&mut self, label: &str, fixed: FixReport) {
        let rounds = fixed.rounds.len();
        for (n, round) in fixed.rounds.iter().enumerate() {
            let when = match n {
                0 => "first look".to_owned(),
                n if n + 1 == rounds => "last look".to_owned(),
                _ => continue,
            };
            let (evidence, verdict) = (round.evidence.clone(), Some(round.verdict.clone()));
            let look = WatchWithVerdict { origin: WatchCommand::Fix, evidence, verdict };
            self.looks.push(LabelledDocument::new(format!("{label}: {when}"), look));
        }
        self.fixes.push(LabelledDocument::new(label, fixed));
    }
}
