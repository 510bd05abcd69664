//! The documents of all stages. They lie below the stages: a stage imports a document, and a
//! document imports no stage. Pure data.
//!
//! This keeps the stages free of import cycles. Where a stage computes something from its own
//! document, the `impl` is in the stage. What only one subcommand prints may be in its workflow.
//! See `plan.rs` and `evidence/document.rs`.

pub mod applied;
pub mod boot;
pub mod command_line_fault;
pub mod comparison;
pub mod count_text;
pub mod cpu_sets;
pub mod evidence;
pub mod experiment;
pub mod fix_reason;
pub mod fix_report;
pub mod free_cpus;
pub mod inapplicable;
pub mod latency;
pub mod leftovers;
pub mod load_done;
pub mod load_doubt;
pub mod load_price;
pub mod load_refusal;
pub mod machine;
pub mod machine_difference;
pub mod moved_process;
pub mod option_search;
pub mod plan;
pub mod policy_plans;
pub mod process_note;
pub mod remedy;
pub mod shield_status;
pub mod time_text;
pub mod try_report;
