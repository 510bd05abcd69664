//! cpushield: CPUs that nothing interrupts, proven.
//!
//! The pipeline, in the order of its stages; each is a function from documents to a document:
//! [`survey`] → [`plan`] → [`apply`] → [`run`] → [`verify`] → undo. See ARCHITECTURE.md.
#![forbid(unsafe_code)]

pub mod apply;
pub mod autosave;
pub mod boot;
pub mod causes;
pub mod change;
pub mod cli;
pub mod compare;
pub mod cpu_selection;
pub mod documents;
pub mod exchange;
pub mod experiment;
pub mod export;
pub mod failure;
pub mod glob;
pub mod input;
pub mod json;
pub mod latency;
pub mod live;
pub mod load;
pub mod observe;
pub mod plan;
pub mod policy;
pub mod quote;
pub mod refusal;
pub mod registry;
pub mod report;
pub mod run;
pub mod screen;
pub mod survey;
pub mod trace;
pub mod tunables;
pub mod ui;
pub mod verify;
pub mod with_text;
pub mod worker;
pub mod workflow;

#[cfg(test)]
#[path = "../tests/support/not_run.rs"]
mod not_run;
