//! Search: a configuration and a goal → the least set of options that meets the goal
//! (`--minimize`). Each configuration is measured until an exact test decides.

mod collected;
mod dry_run;
mod request;
mod run;
mod sequential;
mod subset;

pub use crate::documents::option_search::{
    FixedOption, FixedReason, GoalDecision, GoalTally, OptionFate, OptionSearch, OptionState,
    OptionSubset, SCHEMA, SearchDryRun, SearchEnd, SearchGoal, SearchNote, SearchOption,
    SearchTrial, SequentialTest, TrialPurpose,
};
pub use collected::collect_search;
pub use dry_run::describe_search;
pub use request::{SearchRequest, combine};
pub use run::{TrialDocument, TrialMachine, TrialMeasurement, TrialPlan, plan_trials, run_search};
pub use subset::{GoalObservation, SubsetEnd, SubsetSearch, SubsetTrial, replay_search};
