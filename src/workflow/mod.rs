//! What a subcommand does: each workflow calls stages in order on the machine of a [`WorkContext`],
//! shows its progress, and returns a document. It parses no arguments and prints no result.

pub mod apply_shield;
mod apply_with_fallback;
pub mod between;
pub mod between_ends;
pub mod boot_parameters;
mod checkpoint;
pub mod comparison;
pub mod conclude;
mod context;
pub mod document_bundle;
pub mod every_boot;
mod experiment_cpus;
mod experiment_machine;
pub mod explained_page;
pub mod fix;
mod given_file;
pub mod internal;
mod irqbalance_ban;
pub mod live_view;
pub mod load_options;
pub mod machine_survey;
pub mod measure_latency;
mod measured_row;
pub mod membership;
pub mod minimize;
mod operators;
mod page_text;
mod price;
pub mod report_material;
pub mod run_experiment;
pub mod run_program;
pub mod saved_document;
mod search_machine;
pub mod shield_options;
pub mod standing;
pub mod take_down;
pub mod try_shield;
mod undo_watchdog;
pub mod verdict_check;
pub mod verify_shield;
mod watch_checkpoint;
mod watch_target;

pub use context::{WorkContext, catch_stops, runs_as_root, step_aside};
