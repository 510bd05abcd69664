//! The [`SearchRequest`]: what a search varies, from which configuration, and towards which goal.
//! It is in the journal, so a search resumes with the same request. Pure.

use super::subset::{GoalObservation, SubsetSearch, replay_search};
use crate::documents::option_search::{
    FixedOption, OptionSubset, SearchGoal, SearchOption, SequentialTest, TrialPurpose,
};
use crate::experiment::{ExperimentRow, Matrix};
use crate::policy::TunableSettings;
use serde::{Deserialize, Serialize};

/// What a search does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchRequest {
    /// The row with all options.
    pub row: String,
    /// The goal of each measurement.
    pub goal: SearchGoal,
    /// The configuration without its options.
    pub base: ExperimentRow,
    /// What is varied, in the order in which it is left out.
    pub options: Vec<SearchOption>,
    /// Tunables that are requested by name wherever they are on; all others are on by default.
    pub forced: TunableSettings,
    /// Whether the base keeps its shield when every tunable that is varied is off.
    pub shield_stays: bool,
    /// What is not varied.
    pub fixed: Vec<FixedOption>,
}

impl SearchRequest {
    /// The test of each decision. The decisions that a search usually makes share its error rate.
    #[must_use]
    pub fn test(&self) -> SequentialTest {
        SequentialTest::for_decisions(2 * self.options.len() + 3)
    }

    /// Whether a configuration may need a reboot.
    #[must_use]
    pub fn has_boots(&self) -> bool {
        self.options.iter().any(|option| matches!(option, SearchOption::Parameter { .. }))
    }

    /// The number of measurements of each repetition.
    #[must_use]
    pub fn columns(&self, matrix: &Matrix) -> usize {
        match self.goal {
            SearchGoal::MaxLatency { .. } => matrix.columns.len(),
            SearchGoal::MaxEntries { .. } => 1,
        }
    }

    /// Replays the observations so far.
    #[must_use]
    pub fn replay(&self, observations: &[GoalObservation]) -> SubsetSearch {
        replay_search(self.options.len(), &self.test(), observations)
    }

    /// The configuration with these options.
    #[must_use]
    pub fn row_with(&self, options: &OptionSubset) -> ExperimentRow {
        let mut row = self.base.clone();
        let mut has_shield = self.shield_stays;
        for (index, option) in self.options.iter().enumerate() {
            let has = options.contains(&index);
            match option {
                SearchOption::Tunable { name } if has => {
                    has_shield = true;
                    if let Some(setting) = self.forced.get(name) {
                        row.tunables.set(name, setting.clone());
                    }
                }
                SearchOption::Tunable { name } => {
                    row.tunables.set(name, false);
                }
                SearchOption::Parameter { word } if has => row.boot.push(word.clone()),
                SearchOption::Parameter { .. } => {}
            }
        }
        // A shield without a single tunable would change nothing.
        row.shield = row.shield && has_shield;
        if !row.shield {
            row.tunables.clear();
        }
        row
    }

    /// The name of a configuration in progress lines.
    #[must_use]
    pub fn trial_name(&self, purpose: TrialPurpose, left_out: &OptionSubset) -> String {
        match purpose {
            TrialPurpose::AllOptions => "every option".to_owned(),
            TrialPurpose::NoOptions => "no option".to_owned(),
            TrialPurpose::Confirmation => "the result again".to_owned(),
            TrialPurpose::LeaveOut => {
                let options = left_out.iter().filter_map(|index| self.options.get(*index));
                let names: Vec<String> = options.map(ToString::to_string).collect();
                format!("without {}", names.join(", "))
            }
        }
    }
}

/// The observation of a repetition that measured several columns.
#[must_use]
pub fn combine(columns: Vec<GoalObservation>) -> GoalObservation {
    let severity = |observation: &GoalObservation| match observation {
        GoalObservation::Impossible { .. } => (3, 0),
        GoalObservation::Missed { figure } => (2, *figure),
        GoalObservation::Doubtful { .. } => (1, 0),
        GoalObservation::Met { figure } => (0, *figure),
    };
    let worst = columns.into_iter().max_by_key(severity);
    worst.unwrap_or(GoalObservation::Doubtful { why: "nothing was measured".to_owned() })
}
