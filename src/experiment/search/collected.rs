//! Collects what a search found, with the evidence for every option: [`OptionSearch`].

use super::request::SearchRequest;
use super::run::TrialPlan;
use super::subset::{SubsetEnd, SubsetTrial};
use crate::documents::option_search::{
    GoalDecision, OptionFate, OptionSearch, OptionState, OptionSubset, SCHEMA, SearchEnd,
    SearchGoal, SearchNote, SearchTrial,
};
use crate::experiment::journal::ExperimentJournal;
use crate::experiment::{ExperimentRow, Matrix};

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
        Some(SubsetEnd::Found { least, .. }) => Some(request.row_with(least)),
        Some(SubsetEnd::NoOptionsSuffice) => Some(request.row_with(&OptionSubset::new())),
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
        let (state, trial) = find_fate(index, &search.trials, search.end.as_ref());
        OptionFate { option: option.clone(), state, trial }
    });
    OptionSearch {
        schema: SCHEMA,
        name: matrix.name.clone(),
        version: journal.version.clone(),
        row: request.row.clone(),
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
        trials: trials.collect(),
        end: search.end.as_ref().map(name_end),
        found: found.map(|row| ExperimentRow { name: "result".to_owned(), ..row }),
        notes: list_notes(request, &search.trials),
    }
}

/// The result of an option, and the trial that shows it.
fn find_fate(
    option: usize,
    trials: &[SubsetTrial],
    end: Option<&SubsetEnd>,
) -> (OptionState, Option<usize>) {
    // The first trial whose set was kept without the option shows that it is superfluous.
    let last_kept = |least: &OptionSubset| {
        trials.iter().position(|trial| {
            trial.decision == Some(GoalDecision::Met)
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

fn name_end(end: &SubsetEnd) -> SearchEnd {
    match end {
        SubsetEnd::AllOptionsDiffer(GoalDecision::Missed) => SearchEnd::NotSufficient,
        SubsetEnd::AllOptionsDiffer(_) => SearchEnd::SufficiencyUnknown,
        SubsetEnd::NoOptionsSuffice => SearchEnd::NothingNeeded,
        SubsetEnd::Found { undecided, .. } if undecided.is_empty() => SearchEnd::LeastSet,
        SubsetEnd::Found { .. } => SearchEnd::SomeUndecided,
        SubsetEnd::NotConfirmed { now: GoalDecision::NoAnswer, .. } => {
            SearchEnd::ConfirmationUndecided
        }
        SubsetEnd::NotConfirmed { .. } => SearchEnd::NotConfirmed,
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

    #[test]
    fn measurements_that_do_not_decide_are_not_reported_as_met_or_missed() {
        let end = |now| name_end(&SubsetEnd::NotConfirmed { least: OptionSubset::new(), now });
        assert_eq!(end(GoalDecision::Missed), SearchEnd::NotConfirmed);
        assert_eq!(end(GoalDecision::NoAnswer), SearchEnd::ConfirmationUndecided);
        assert!(!end(GoalDecision::NoAnswer).is_answer());
    }
}
