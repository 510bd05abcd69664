//! What a report is made from: documents by kind, each kind in the order it was given.

use crate::change::Outcome;
use crate::compare::Comparison;
use crate::experiment::Experiment;
use crate::latency::Latency;
use crate::plan::{Plan, Step};
use crate::report::attempt::Attempt;
use crate::report::fixed::Fixed;
use crate::run::Drift;
use crate::survey::Machine;
use crate::verify::{Evidence, Verdict};

/// A document with its name.
#[derive(Debug, Clone, PartialEq)]
pub struct Labelled<T> {
    /// The name that the reader sees.
    pub label: String,
    /// The document.
    pub it: T,
}

/// Everything that a report is made from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Material {
    /// The title; one is made when there is none.
    pub title: Option<String>,
    /// Machines.
    pub machines: Vec<Labelled<Machine>>,
    /// Plans, and what came of them.
    pub settings: Vec<Labelled<Settings>>,
    /// What was watched.
    pub looks: Vec<Labelled<Look>>,
    /// How late threads were.
    pub latencies: Vec<Labelled<Latency>>,
    /// Rounds of looking and mending.
    pub fixes: Vec<Labelled<Fixed>>,
    /// Repeated runs side by side.
    pub comparisons: Vec<Labelled<Comparison>>,
    /// Matrices of configurations.
    pub experiments: Vec<Labelled<Experiment>>,
    /// What is doubtful about the report itself.
    pub doubts: Vec<String>,
    /// The name of the file that the report is written to, for repeating it.
    pub output: Option<String>,
    /// No document was given: it is about this machine and the shield in force.
    pub live: bool,
}

/// A plan and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
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
pub enum Origin {
    /// `verify`.
    Verify,
    /// `verify --fix`, one of its rounds.
    Fix,
    /// `try`, before its shield or under it.
    Attempt,
}

/// What was watched, and what that means.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// The command that watched.
    pub origin: Origin,
    /// What was observed.
    pub evidence: Evidence,
    /// What that means; `None` where nobody judged.
    pub verdict: Option<Verdict>,
}

impl<T> Labelled<T> {
    /// A document with its name.
    pub fn new(label: impl Into<String>, it: T) -> Labelled<T> {
        Labelled { label: label.into(), it }
    }
}

impl Settings {
    /// A plan that was only made.
    #[must_use]
    pub fn planned(plan: Plan) -> Settings {
        Settings { plan, outcomes: Vec::new(), drift: Vec::new(), undone: false }
    }
}

impl Material {
    /// Nothing was given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let machine = self.machines.is_empty() && self.settings.is_empty();
        let runs =
            self.comparisons.is_empty() && self.experiments.is_empty() && self.fixes.is_empty();
        machine && runs && self.looks.is_empty() && self.latencies.is_empty()
    }

    /// What `try` found: a plan that was undone, a look before it and one under it.
    pub fn add_attempt(&mut self, label: &str, attempt: Attempt) {
        let Attempt { plan, before, shielded, verdict, left, .. } = attempt;
        let (undone, origin) = (left.is_empty(), Origin::Attempt);
        self.settings.push(Labelled::new(label, Settings { undone, ..Settings::planned(plan) }));
        let name =
            |what: &str| if label.is_empty() { what.into() } else { format!("{label}: {what}") };
        self.looks
            .push(Labelled::new(name("before"), Look { origin, evidence: before, verdict: None }));
        let look = Look { origin, evidence: shielded, verdict: Some(verdict) };
        self.looks.push(Labelled::new(name("shielded"), look));
        let left = left.into_iter().map(|what| format!("{label}: not put back: {what}"));
        self.doubts.extend(left);
    }

    /// What `verify --fix` found: its first look and its last one.
    pub fn add_fixed(&mut self, label: &str, fixed: Fixed) {
        let rounds = fixed.rounds.len();
        for (n, round) in fixed.rounds.iter().enumerate() {
            let when = match n {
                0 => "first look".to_owned(),
                n if n + 1 == rounds => "last look".to_owned(),
                _ => continue,
            };
            let (evidence, verdict) = (round.evidence.clone(), Some(round.verdict.clone()));
            let look = Look { origin: Origin::Fix, evidence, verdict };
            self.looks.push(Labelled::new(format!("{label}: {when}"), look));
        }
        self.fixes.push(Labelled::new(label, fixed));
    }
}
