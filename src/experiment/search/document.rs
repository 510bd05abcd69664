//! The [`OptionSearch`] document: what a search found, with the evidence for every option.

use super::request::{FixedOption, SearchGoal, SearchKind, SearchOption, SearchRequest};
use super::run::TrialPlan;
use super::sequential::{GoalDecision, GoalTally, SequentialTest};
use super::subset::{OptionSubset, SubsetEnd, SubsetTrial, TrialPurpose};
use crate::experiment::journal::ExperimentJournal;
use crate::experiment::{
    Difference, ExperimentColumn, ExperimentRow, ExperimentSetup, ExperimentState, ListedReason,
    Matrix,
};
use cpushield_linux::CpuSet;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The version of the document's format.
pub const SCHEMA: u32 = 1;

/// The results of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OptionSearch {
    /// The version of this format: [`SCHEMA`].
    pub schema: u32,
    /// The name of the experiment.
    pub name: String,
    /// The version of cpushield that ran it.
    pub version: String,
    /// What it looks for.
    pub search: SearchKind,
    /// Whether it is unfinished, finished or stopped.
    pub state: ExperimentState,
    /// When it started, in seconds since 1970.
    pub began_s: u64,
    /// When it ended; `None` while it is unfinished.
    pub ended_s: Option<u64>,
    /// The CPUs that were measured.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub cpus: CpuSet,
    /// The goal of each measurement.
    #[serde(with = "crate::with_text")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::with_text::WithText<SearchGoal>"))]
    pub goal: SearchGoal,
    /// The rule of each decision.
    pub test: SequentialTest,
    /// The duration of each measurement in nanoseconds.
    pub span_ns: u64,
    /// The duration of the warm-up in nanoseconds.
    pub warmup_ns: u64,
    /// What each measurement measures; empty where entries into the kernel are counted.
    pub columns: Vec<ExperimentColumn>,
    /// The machine and its software, before the first measurement.
    pub setup: ExperimentSetup,
    /// What was varied, with the result, in the order in which it was left out.
    pub options: Vec<OptionFate>,
    /// What was not varied.
    pub fixed: Vec<FixedOption>,
    /// What differs between the two documents; empty without two documents.
    pub differences: Vec<Difference>,
    /// Each configuration that was measured, in order, with its decision.
    pub trials: Vec<SearchTrial>,
    /// How the search ended; `None` while it is unfinished and when it was stopped.
    #[serde(with = "crate::with_text::option")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::with_text::WithText<SearchEnd>>")
    )]
    pub end: Option<SearchEnd>,
    /// The configuration that was found; `None` when none was.
    pub found: Option<ExperimentRow>,
    /// Remarks.
    #[serde(with = "crate::with_text::list")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::with_text::WithText<SearchNote>>"))]
    pub notes: Vec<SearchNote>,
}

/// An option and its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OptionFate {
    /// The option.
    #[serde(with = "crate::with_text")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::with_text::WithText<SearchOption>"))]
    pub option: SearchOption,
    /// The result.
    pub state: OptionState,
    /// The index of the trial that shows it; `None` while it is open.
    pub trial: Option<usize>,
}

/// The result of a search for one option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum OptionState {
    /// It is part of the result: without it, the result changes.
    Needed,
    /// It is not part of the result.
    LeftOut,
    /// It stays, because the measurements without it do not decide.
    NoAnswer,
    /// The search has not ended, or ended before it was tried.
    Open,
}

/// A configuration that was measured until a decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SearchTrial {
    /// Its name.
    pub name: String,
    /// Why it was measured.
    pub purpose: TrialPurpose,
    /// The indexes of its options.
    pub options: OptionSubset,
    /// The indexes of the options that it leaves out of the set that was reached before.
    pub left_out: OptionSubset,
    /// The number of measurements by their result.
    pub tally: GoalTally,
    /// The figure of each measurement that counts: nanoseconds or entries into the kernel.
    pub figures: Vec<u64>,
    /// Why the last measurement that does not count is doubtful or was not possible.
    pub trouble: Option<String>,
    /// The decision; `None` while it is being measured.
    pub decision: Option<GoalDecision>,
}

/// How a search ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "end", rename_all = "kebab-case")]
pub enum SearchEnd {
    /// The least sufficient set was found, and every option of it is needed.
    LeastSet,
    /// The set is sufficient, but some of its options may be superfluous.
    SomeUndecided,
    /// No option is needed.
    NothingNeeded,
    /// Even with every option the goal is missed.
    NotSufficient,
    /// It is unknown whether the goal is met with every option.
    SufficiencyUnknown,
    /// The set that was found did not meet the goal in the end.
    NotConfirmed,
    /// It is unknown whether the goal was met or missed with the result in the end.
    ConfirmationUndecided,
    /// The culprits were found.
    Culprits,
    /// Some of the culprits may be innocent.
    CulpritsUndecided,
    /// The bad end does not miss the goal now.
    BadNotReproduced,
    /// It is unknown whether the bad end misses the goal now.
    BadUndecided,
    /// The good end does not meet the goal now.
    GoodNotReproduced,
    /// It is unknown whether the good end meets the goal now.
    GoodUndecided,
    /// The culprits that were found did not break the goal in the end.
    CulpritsNotConfirmed,
    /// Nothing was measured: the differences are listed only.
    Listed {
        /// Why.
        why: ListedReason,
    },
}

impl SearchEnd {
    /// Whether the search has an answer.
    #[must_use]
    pub fn is_answer(&self) -> bool {
        match self {
            SearchEnd::LeastSet
            | SearchEnd::SomeUndecided
            | SearchEnd::NothingNeeded
            | SearchEnd::Culprits
            | SearchEnd::CulpritsUndecided
            | SearchEnd::Listed { .. } => true,
            SearchEnd::NotSufficient
            | SearchEnd::SufficiencyUnknown
            | SearchEnd::NotConfirmed
            | SearchEnd::ConfirmationUndecided
            | SearchEnd::BadNotReproduced
            | SearchEnd::BadUndecided
            | SearchEnd::GoodNotReproduced
            | SearchEnd::GoodUndecided
            | SearchEnd::CulpritsNotConfirmed => false,
        }
    }
}

impl fmt::Display for SearchEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SearchEnd::LeastSet => {
                "this set is sufficient and 1-minimal: if any one of its options is left out, the \
                 goal is missed"
            }
            SearchEnd::SomeUndecided => {
                "this set is sufficient; the measurements do not decide whether every option of it \
                 is needed"
            }
            SearchEnd::NothingNeeded => "the goal is met without any option",
            SearchEnd::NotSufficient => "the goal is missed even with every option",
            SearchEnd::SufficiencyUnknown => {
                "no answer: the measurements do not decide whether the goal is met with every \
                 option"
            }
            SearchEnd::NotConfirmed => {
                "no answer: when the set was measured again at the end, it did not meet the goal; \
                 the machine may have changed during the search"
            }
            SearchEnd::ConfirmationUndecided => {
                "no answer: the result was measured again at the end, and these measurements do \
                 not decide whether the goal is met"
            }
            SearchEnd::Culprits => {
                "together these differences make the machine miss the goal; if any one of them is \
                 left out, the goal is met"
            }
            SearchEnd::CulpritsUndecided => {
                "together these differences make the machine miss the goal; the measurements do \
                 not decide whether all of them are needed for that"
            }
            SearchEnd::BadNotReproduced => {
                "when measured again on this machine, BAD meets the goal: the cause is not among \
                 the differences that cpushield can set"
            }
            SearchEnd::BadUndecided => {
                "no answer: BAD was measured again on this machine, and these measurements do not \
                 decide whether it misses the goal"
            }
            SearchEnd::GoodUndecided => {
                "no answer: GOOD was measured again on this machine, and these measurements do \
                 not decide whether it meets the goal"
            }
            SearchEnd::GoodNotReproduced => {
                "when measured again on this machine, GOOD misses the goal: the cause is not \
                 among the differences that cpushield can set"
            }
            SearchEnd::CulpritsNotConfirmed => {
                "no answer: when these differences were measured again at the end, the goal was \
                 met; the machine may have changed during the search"
            }
            SearchEnd::Listed { why } => return write!(f, "nothing was measured: {why}"),
        })
    }
}

/// A remark on a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "note", rename_all = "kebab-case")]
pub enum SearchNote {
    /// The measurements of a configuration with kernel parameters are of one boot.
    OneBoot,
    /// More decisions were made than those that share the error rate.
    ManyDecisions {
        /// How many.
        decisions: usize,
    },
}

impl fmt::Display for SearchNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SearchNote::OneBoot => f.write_str(
                "measurements from one boot are not independent: the error rate does not include \
                 differences between boots",
            ),
            SearchNote::ManyDecisions { decisions } => write!(
                f,
                "the search made {decisions} decisions, more than it allows for: the probability \
                 of a wrong decision may exceed 5 %"
            ),
        }
    }
}

/// The document of a search that only lists the differences.
#[must_use]
pub fn list_only(
    request: &SearchRequest,
    name: String,
    setup: ExperimentSetup,
    why: ListedReason,
) -> OptionSearch {
    let state = OptionState::Open;
    let options = request.options.iter();
    let options =
        options.map(|option| OptionFate { option: option.clone(), state, trial: None }).collect();
    OptionSearch {
        schema: SCHEMA,
        name,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        search: request.kind.clone(),
        state: ExperimentState::Finished,
        began_s: 0,
        ended_s: None,
        cpus: CpuSet::new(),
        goal: request.goal,
        test: request.test(),
        span_ns: 0,
        warmup_ns: 0,
        columns: Vec::new(),
        setup,
        options,
        fixed: request.fixed.clone(),
        differences: request.differences.clone(),
        trials: Vec::new(),
        end: Some(SearchEnd::Listed { why }),
        found: None,
        notes: Vec::new(),
    }
}

/// Collects the results of a search so far.
#[must_use]
pub fn collect_search(
    request: &SearchRequest,
    matrix: &Matrix,
    journal: &ExperimentJournal,
    plan: &TrialPlan,
) -> OptionSearch {
    let TrialPlan { search, rows, .. } = plan;
    let found = match &search.end {
        Some(SubsetEnd::Found { least, .. }) => Some(request.row(least)),
        Some(SubsetEnd::NoOptionsSuffice) if is_minimize(request) => {
            Some(request.row(&OptionSubset::new()))
        }
        _ => None,
    };
    let trials = search.trials.iter().zip(rows).map(|(trial, row)| SearchTrial {
        name: row.name.clone(),
        purpose: trial.purpose,
        options: trial.options.clone(),
        left_out: trial.left_out.clone(),
        tally: trial.tally,
        figures: trial.figures.clone(),
        trouble: trial.trouble.clone(),
        decision: trial.decision,
    });
    let options = request.options.iter().enumerate().map(|(index, option)| {
        let (state, trial) = find_fate(index, request, &search.trials, search.end.as_ref());
        OptionFate { option: option.clone(), state, trial }
    });
    OptionSearch {
        schema: SCHEMA,
        name: matrix.name.clone(),
        version: journal.version.clone(),
        search: request.kind.clone(),
        state: journal.phase.state(),
        began_s: journal.began_s,
        ended_s: journal.ended_s,
        cpus: journal.row_cpus.first().map(|row| row.measured.clone()).unwrap_or_default(),
        goal: request.goal,
        test: request.test(),
        span_ns: matrix.span_ns,
        warmup_ns: matrix.warmup_ns,
        columns: match request.goal {
            SearchGoal::MaxLatency { .. } => matrix.columns.clone(),
            SearchGoal::MaxEntries { .. } => Vec::new(),
        },
        setup: journal.setup.clone(),
        options: options.collect(),
        fixed: request.fixed.clone(),
        differences: request.differences.clone(),
        trials: trials.collect(),
        end: search.end.as_ref().map(|end| name_end(request, end)),
        found: found.map(|row| ExperimentRow { name: "result".to_owned(), ..row }),
        notes: list_notes(request, &search.trials),
    }
}

fn is_minimize(request: &SearchRequest) -> bool {
    matches!(request.kind, SearchKind::Minimize { .. })
}

/// The result of an option, and the trial that shows it.
fn find_fate(
    option: usize,
    request: &SearchRequest,
    trials: &[SubsetTrial],
    end: Option<&SubsetEnd>,
) -> (OptionState, Option<usize>) {
    // The first trial whose set was kept without the option shows that it is superfluous.
    let last_kept = |least: &OptionSubset| {
        trials.iter().position(|trial| {
            trial.decision == Some(request.aim().keeps)
                && least.is_subset(&trial.options)
                && !trial.options.contains(&option)
        })
    };
    match end {
        Some(SubsetEnd::Found { least, .. } | SubsetEnd::NotConfirmed { least, .. })
            if !least.contains(&option) =>
        {
            (OptionState::LeftOut, last_kept(least))
        }
        Some(SubsetEnd::Found { least, undecided }) => {
            let mut fewer = least.clone();
            fewer.remove(&option);
            let trial = trials.iter().position(|trial| trial.options == fewer);
            match undecided.contains(&option) {
                true => (OptionState::NoAnswer, trial),
                false => (OptionState::Needed, trial),
            }
        }
        Some(SubsetEnd::NoOptionsSuffice) if trials.len() > 1 => (OptionState::LeftOut, Some(1)),
        _ => (OptionState::Open, None),
    }
}

fn name_end(request: &SearchRequest, end: &SubsetEnd) -> SearchEnd {
    match (is_minimize(request), end) {
        (true, SubsetEnd::AllOptionsDiffer(GoalDecision::Missed)) => SearchEnd::NotSufficient,
        (true, SubsetEnd::AllOptionsDiffer(_) | SubsetEnd::NoOptionsUndecided) => {
            SearchEnd::SufficiencyUnknown
        }
        (true, SubsetEnd::NoOptionsSuffice) => SearchEnd::NothingNeeded,
        (true, SubsetEnd::Found { undecided, .. }) if undecided.is_empty() => SearchEnd::LeastSet,
        (true, SubsetEnd::Found { .. }) => SearchEnd::SomeUndecided,
        (_, SubsetEnd::NotConfirmed { now: GoalDecision::NoAnswer, .. }) => {
            SearchEnd::ConfirmationUndecided
        }
        (true, SubsetEnd::NotConfirmed { .. }) => SearchEnd::NotConfirmed,
        (false, SubsetEnd::AllOptionsDiffer(GoalDecision::NoAnswer)) => SearchEnd::BadUndecided,
        (false, SubsetEnd::AllOptionsDiffer(_)) => SearchEnd::BadNotReproduced,
        (false, SubsetEnd::NoOptionsSuffice) => SearchEnd::GoodNotReproduced,
        (false, SubsetEnd::NoOptionsUndecided) => SearchEnd::GoodUndecided,
        (false, SubsetEnd::Found { undecided, .. }) if undecided.is_empty() => SearchEnd::Culprits,
        (false, SubsetEnd::Found { .. }) => SearchEnd::CulpritsUndecided,
        (false, SubsetEnd::NotConfirmed { .. }) => SearchEnd::CulpritsNotConfirmed,
    }
}

fn list_notes(request: &SearchRequest, trials: &[SubsetTrial]) -> Vec<SearchNote> {
    let one_boot = request.has_boots().then_some(SearchNote::OneBoot);
    let decisions = trials.len();
    let many = decisions > 2 * request.options.len() + 3;
    let many = many.then_some(SearchNote::ManyDecisions { decisions });
    one_boot.into_iter().chain(many).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn request(kind: SearchKind) -> SearchRequest {
        let text = "[[row]]\nname = \"r\"\n[[column]]\nname = \"c\"\ninstrument = \"timer\"\n";
        SearchRequest {
            kind,
            goal: SearchGoal::MaxEntries { count: 0 },
            base: Matrix::parse(text, "m.toml").unwrap().rows.remove(0),
            options: Vec::new(),
            forced: BTreeSet::new(),
            shield_stays: false,
            fixed: Vec::new(),
            differences: Vec::new(),
        }
    }

    #[test]
    fn measurements_that_do_not_decide_are_not_reported_as_met_or_missed() {
        let minimize = request(SearchKind::Minimize { row: "r".to_owned() });
        let (good, bad) = ("a.json".to_owned(), "b.json".to_owned());
        let between = request(SearchKind::Between { good, bad });
        let not_confirmed = |now| SubsetEnd::NotConfirmed { least: OptionSubset::new(), now };
        for (request, decided, undecided) in [
            (
                &minimize,
                (not_confirmed(GoalDecision::Missed), SearchEnd::NotConfirmed),
                (not_confirmed(GoalDecision::NoAnswer), SearchEnd::ConfirmationUndecided),
            ),
            (
                &between,
                (not_confirmed(GoalDecision::Met), SearchEnd::CulpritsNotConfirmed),
                (not_confirmed(GoalDecision::NoAnswer), SearchEnd::ConfirmationUndecided),
            ),
            (
                &between,
                (SubsetEnd::AllOptionsDiffer(GoalDecision::Met), SearchEnd::BadNotReproduced),
                (SubsetEnd::AllOptionsDiffer(GoalDecision::NoAnswer), SearchEnd::BadUndecided),
            ),
            (
                &between,
                (SubsetEnd::NoOptionsSuffice, SearchEnd::GoodNotReproduced),
                (SubsetEnd::NoOptionsUndecided, SearchEnd::GoodUndecided),
            ),
        ] {
            assert_eq!(name_end(request, &decided.0), decided.1);
            let end = name_end(request, &undecided.0);
            assert_eq!(end, undecided.1);
            assert!(!end.is_answer());
        }
    }
}
