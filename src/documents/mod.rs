//! Documents that several stages exchange. They lie below all stages: a stage imports a document,
//! and a document imports no stage. Pure data.

pub mod evidence;
pub mod inapplicable;
pub mod leftovers;
pub mod plan;
pub mod policy_plans;
pub mod process_note;
pub mod remedy;
