//! Collects what a search found, with the evidence for every option: [`OptionSearch`].

use super::request::SearchRequest;
use super::run::TrialPlan;
use super::subset::{SubsetEnd, SubsetTrial};
use crate::documents::option_search::{
    GoalDecision, OptionFate, OptionSearch, OptionState, OptionSubset, SCHEMA, SearchEnd,
    SearchGoal, SearchKind, SearchNote, SearchTrial,
};
use crate::experiment::journal::ExperimentJournal;
use crate::experiment::{ExperimentRow, ExperimentSetup, ExperimentState, ListedReason, Matrix};
use cpushield_linux::CpuSet;

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
