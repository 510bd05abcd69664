//! Search: a configuration and a goal → the least set of options that meets the goal
//! (`--minimize`), or the least set of differences that breaks it (`--between`). Each configuration
//! is measured until an exact test decides.

mod document;
mod dry_run;
mod request;
mod run;
mod sequential;
mod subset;

pub use document::{
    OptionFate, OptionSearch, OptionState, SCHEMA, SearchEnd, SearchNote, SearchTrial,
    collect_search, list_only,
};
pub use dry_run::{SearchDryRun, describe_search};
pub use request::{
    FixedOption, FixedReason, SearchGoal, SearchKind, SearchOption, SearchRequest, combine,
};
pub use run::{TrialDocument, TrialMachine, TrialMeasurement, TrialPlan, plan_trials, run_search};
pub use sequential::{GoalDecision, GoalTally, SequentialTest, TestEndRates};
pub use subset::{
    GoalObservation, OptionSubset, SearchAim, SubsetEnd, SubsetSearch, SubsetTrial, TrialPurpose,
    replay_search,
};
