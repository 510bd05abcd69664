//! Finds a least set of options by leaving options out. Pure.
//!
//! A search is a function of the measurements so far: it replays them in order and says which
//! configuration is measured next. So a search that was killed resumes from its measurements.
//!
//! Options are left out of the set one after the other. What is not missed stays out. Passes repeat
//! until one leaves nothing out. Each option of the result has then been left out of exactly the
//! result: it is 1-minimal, whatever the interactions between the options are.

use crate::documents::option_search::{
    GoalDecision, GoalTally, OptionSubset, SequentialTest, TrialPurpose,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// One measurement of a configuration, as the search sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "result", rename_all = "kebab-case")]
pub enum GoalObservation {
    /// It met the goal.
    Met {
        /// The figure that the goal limits.
        figure: u64,
    },
    /// It missed the goal.
    Missed {
        /// The figure that the goal limits.
        figure: u64,
    },
    /// It is doubtful whether it met the goal.
    Doubtful {
        /// The first reason.
        why: String,
    },
    /// This configuration cannot be measured.
    Impossible {
        /// Why.
        why: String,
    },
}

/// One configuration and its decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubsetTrial {
    /// Why it is measured.
    pub purpose: TrialPurpose,
    /// The options that it has.
    pub options: OptionSubset,
    /// The options that it leaves out of the set that was reached before.
    pub left_out: OptionSubset,
    /// Its measurements.
    pub tally: GoalTally,
    /// How many observations it used.
    pub observations: usize,
    /// The figures of the measurements that have one, in order.
    pub figures: Vec<u64>,
    /// The reason of the last measurement that did not count.
    pub trouble: Option<String>,
    /// The decision; `None` while it is being measured.
    pub decision: Option<GoalDecision>,
}

/// The end of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubsetEnd {
    /// The set with every option does not meet the goal.
    AllOptionsDiffer(GoalDecision),
    /// The set without any option meets it too.
    NoOptionsSuffice,
    /// The least set was found.
    Found {
        /// The set.
        least: OptionSubset,
        /// Those of its options that no measurement decides about.
        undecided: OptionSubset,
    },
    /// The set that was found did not meet it again in the end: the machine changed.
    NotConfirmed {
        /// The set.
        least: OptionSubset,
        /// The decision in the end.
        now: GoalDecision,
    },
}

/// A search after some measurements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubsetSearch {
    /// The configurations so far, in order. The last one is undecided while the search runs.
    pub trials: Vec<SubsetTrial>,
    /// The end; `None` while the last trial needs another measurement.
    pub end: Option<SubsetEnd>,
}

/// The last trial needs another measurement.
struct NeedsMeasurement;

/// The state of a replay.
struct SearchReplay<'a> {
    test: &'a SequentialTest,
    observations: std::slice::Iter<'a, GoalObservation>,
    trials: Vec<SubsetTrial>,
}

/// Replays the observations of a search over this many options.
#[must_use]
pub fn replay_search(
    count: usize,
    test: &SequentialTest,
    observations: &[GoalObservation],
) -> SubsetSearch {
    let observations = observations.iter();
    let mut replay = SearchReplay { test, observations, trials: Vec::new() };
    let end = replay.search(count).ok();
    SubsetSearch { trials: replay.trials, end }
}

impl SearchReplay<'_> {
    fn search(&mut self, count: usize) -> Result<SubsetEnd, NeedsMeasurement> {
        let (all, none): (OptionSubset, OptionSubset) = ((0..count).collect(), BTreeSet::new());
        let reached = self.decide(TrialPurpose::AllOptions, &all, &all)?;
        if reached != GoalDecision::Met {
            return Ok(SubsetEnd::AllOptionsDiffer(reached));
        }
        let suffices = all.is_empty()
            || self.decide(TrialPurpose::NoOptions, &none, &all)? == GoalDecision::Met;
        if suffices {
            return Ok(SubsetEnd::NoOptionsSuffice);
        }
        let mut kept = all;
        while self.pass(&mut kept)? {}
        let now = self.decide(TrialPurpose::Confirmation, &kept, &kept)?;
        let undecided = kept.iter().copied().filter(|option| self.is_undecided(&kept, *option));
        let (undecided, least) = (undecided.collect(), kept);
        match now == GoalDecision::Met {
            true => Ok(SubsetEnd::Found { least, undecided }),
            false => Ok(SubsetEnd::NotConfirmed { least, now }),
        }
    }

    /// Tries to leave out each option. Returns whether one was left out.
    fn pass(&mut self, kept: &mut OptionSubset) -> Result<bool, NeedsMeasurement> {
        let order: Vec<usize> = kept.iter().copied().collect();
        let mut any = false;
        for option in order {
            let mut fewer = kept.clone();
            fewer.remove(&option);
            // Without any option, the decision is known.
            if fewer.is_empty() {
                continue;
            }
            if self.decide(TrialPurpose::LeaveOut, &fewer, kept)? == GoalDecision::Met {
                *kept = fewer;
                any = true;
            }
        }
        Ok(any)
    }

    /// Whether the set without this option has no answer.
    fn is_undecided(&self, set: &OptionSubset, option: usize) -> bool {
        let mut fewer = set.clone();
        fewer.remove(&option);
        let known = self.trials.iter().find(|trial| trial.options == fewer);
        known.is_none_or(|trial| trial.decision == Some(GoalDecision::NoAnswer))
    }

    /// Decides about a configuration by the next observations. Only a confirmation decides about a
    /// configuration again.
    fn decide(
        &mut self,
        purpose: TrialPurpose,
        options: &OptionSubset,
        before: &OptionSubset,
    ) -> Result<GoalDecision, NeedsMeasurement> {
        let known = self.trials.iter().find(|trial| trial.options == *options);
        if let Some(decision) = known.and_then(|trial| trial.decision)
            && purpose != TrialPurpose::Confirmation
        {
            return Ok(decision);
        }
        let mut trial = SubsetTrial {
            purpose,
            options: options.clone(),
            left_out: before.difference(options).copied().collect(),
            tally: GoalTally::default(),
            observations: 0,
            figures: Vec::new(),
            trouble: None,
            decision: None,
        };
        while trial.decision.is_none() {
            match self.observations.next() {
                Some(observation) => trial.decision = trial.count(observation, self.test),
                None => break,
            }
        }
        let decision = trial.decision.ok_or(NeedsMeasurement);
        self.trials.push(trial);
        decision
    }
}

impl SubsetTrial {
    /// Counts an observation. Returns the decision, if it is made now.
    fn count(
        &mut self,
        observation: &GoalObservation,
        test: &SequentialTest,
    ) -> Option<GoalDecision> {
        self.observations += 1;
        match observation {
            GoalObservation::Met { figure } => {
                self.tally.met += 1;
                self.figures.push(*figure);
            }
            GoalObservation::Missed { figure } => {
                self.tally.missed += 1;
                self.figures.push(*figure);
            }
            GoalObservation::Doubtful { why } => {
                self.tally.doubtful += 1;
                self.trouble = Some(why.clone());
            }
            GoalObservation::Impossible { why } => {
                self.trouble = Some(why.clone());
                return Some(GoalDecision::NoAnswer);
            }
        }
        test.decide(&self.tally)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches with measurements that depend only on the configuration. Returns the end and the
    /// number of decisions.
    fn search(
        count: usize,
        measure: impl Fn(&OptionSubset) -> GoalObservation,
    ) -> (SubsetEnd, usize) {
        let test = SequentialTest::for_decisions(2 * count + 3);
        let mut observations = Vec::new();
        for _ in 0..10_000 {
            let found = replay_search(count, &test, &observations);
            if let Some(end) = found.end {
                assert!(found.trials.iter().all(|trial| trial.decision.is_some()));
                return (end, found.trials.len());
            }
            observations.push(measure(&found.trials.last().unwrap().options));
        }
        panic!("the search does not end");
    }

    fn met(yes: bool) -> GoalObservation {
        match yes {
            true => GoalObservation::Met { figure: 0 },
            false => GoalObservation::Missed { figure: 9 },
        }
    }

    fn found(least: &[usize]) -> SubsetEnd {
        SubsetEnd::Found { least: least.iter().copied().collect(), undecided: BTreeSet::new() }
    }

    #[test]
    fn the_needed_options_are_found_whichever_they_are() {
        for one in 0..10 {
            for other in 0..10 {
                let needs = |set: &OptionSubset| set.contains(&one) && set.contains(&other);
                let (end, _) = search(10, |set| met(needs(set)));
                let least = BTreeSet::from([one, other]);
                assert_eq!(end, SubsetEnd::Found { least, undecided: BTreeSet::new() });
            }
        }
    }

    #[test]
    fn the_result_is_1_minimal_even_where_options_harm_each_other() {
        // Option 0 is needed only while option 1 is there.
        let measure =
            |set: &OptionSubset| met(set.contains(&2) && (!set.contains(&1) || set.contains(&0)));
        assert_eq!(search(4, measure).0, found(&[2]));
        // One of two options suffices: the one that is left out last stays.
        assert_eq!(search(4, |set| met(set.contains(&1) || set.contains(&3))).0, found(&[3]));
    }

    #[test]
    fn ends_that_do_not_reproduce_end_the_search() {
        let all_missed = SubsetEnd::AllOptionsDiffer(GoalDecision::Missed);
        assert_eq!(search(4, |_| met(false)), (all_missed, 1));
        assert_eq!(search(4, |_| met(true)), (SubsetEnd::NoOptionsSuffice, 2));
    }

    #[test]
    fn an_option_without_an_answer_stays_and_is_named() {
        let measure = |set: &OptionSubset| match (set.contains(&1), set.contains(&2)) {
            (false, _) => met(false),
            (true, false) => GoalObservation::Impossible { why: "refused".to_owned() },
            (true, true) => met(true),
        };
        let (end, _) = search(4, measure);
        let (least, undecided) = (BTreeSet::from([1, 2]), BTreeSet::from([2]));
        assert_eq!(end, SubsetEnd::Found { least, undecided });
    }
}
