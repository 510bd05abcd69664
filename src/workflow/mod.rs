//! What a subcommand does: each workflow calls stages in order on the machine of a [`WorkContext`],
//! shows its progress, and returns a document. It parses no arguments and prints no result.
//!
//! A request has plain fields, so one workflow can call another. See `apply_shield.rs`, then
//! `context.rs`.

pub mod active_shields;
pub mod apply_policy;
pub mod apply_shield;
mod apply_with_fallback;
pub mod boot_parameters;
pub mod change_shield;
mod checkpoint;
pub mod comparison;
pub mod conclude;
mod context;
pub mod cpu_names;
pub mod document_bundle;
pub mod every_boot;
pub(crate) mod example_units;
mod experiment_boots;
mod experiment_cpus;
mod experiment_machine;
pub mod explained_page;
pub mod fix;
mod given_file;
pub mod internal;
mod irqbalance_ban;
pub mod latency_check;
pub mod list_or_mask;
pub mod live_view;
pub mod load_options;
pub mod machine_survey;
pub mod machine_without;
pub mod measure_latency;
mod measured_row;
pub mod membership;
pub mod minimize;
mod operator_units;
mod operators;
pub mod other_tools;
pub(crate) mod page_text;
pub mod policy_shields;
mod prepared_matrix;
mod price;
mod program_request;
mod remedy_target;
pub mod report_material;
mod requested_shield;
mod root_files;
pub mod run_experiment;
pub mod run_program;
pub mod saved_document;
mod search_machine;
pub mod shield_options;
pub mod shield_status;
mod take_back;
pub mod take_down;
pub mod trace_disturbance;
pub mod try_shield;
pub mod undo_shields;
mod undo_watchdog;
pub mod verdict_check;
pub mod verify_shield;
mod watch_checkpoint;
pub mod watch_request;
mod watch_target;

pub use context::{WorkContext, absolute_path, catch_stops, runs_as_root, step_aside};

/// A document that a subcommand prints with `--json`.
#[cfg(feature = "schema")]
#[derive(Debug)]
pub struct PrintedDocument {
    /// The file of its schema in `docs/`.
    pub file: &'static str,
    /// The command that prints it.
    pub title: &'static str,
    /// Generates its schema.
    pub schema: fn(schemars::SchemaGenerator) -> schemars::Schema,
}

/// Makes [`PRINTED_DOCUMENTS`]: for each the name of its schema, its command and its type.
#[cfg(feature = "schema")]
macro_rules! printed_documents {
    ($($file:literal $title:literal $document:ty;)+) => {
        /// Every document that a subcommand prints.
        pub const PRINTED_DOCUMENTS: &[PrintedDocument] = &[$(PrintedDocument {
            file: concat!($file, ".schema.json"),
            title: $title,
            schema: schemars::SchemaGenerator::into_root_schema_for::<$document>,
        },)+];
    };
}

#[cfg(feature = "schema")]
printed_documents! {
    "survey" "cpushield survey --json" crate::documents::machine::Machine;
    "lint" "cpushield survey --lint --json" crate::documents::boot::CommandLineLint;
    "plan" "cpushield plan --json" crate::documents::plan::Plan;
    "policy-plans" "cpushield plan --all --json" crate::documents::policy_plans::PolicyPlans;
    "free-cpus" "cpushield plan --free --json" crate::documents::free_cpus::FreeCpus;
    "imported-policy" "cpushield plan --from --json" crate::exchange::ImportedPolicy;
    "exported-plan" "cpushield plan --export --json" other_tools::ExportedPlan;
    "try" "cpushield try --json" crate::documents::try_report::TryReport;
    "apply" "cpushield apply --json" crate::documents::applied::AppliedPlan;
    "apply-all" "cpushield apply --all --json" crate::documents::applied::AppliedPolicy;
    "status" "cpushield status --json" shield_status::StatusDocument;
    "undo" "cpushield undo --json" undo_shields::UndoDocument;
    "enable" "cpushield enable --json" every_boot::EnabledShield;
    "enable-all" "cpushield enable --all --json" every_boot::EnabledPolicy;
    "disable" "cpushield disable --json" every_boot::DisabledShield;
    "moved" "cpushield add --json, cpushield remove --json"
        crate::documents::moved_process::MovedProcesses;
    "boot-plan" "cpushield boot plan --json" crate::documents::boot::BootPlan;
    "boot-apply" "cpushield boot apply --json" crate::documents::boot::WrittenParameters;
    "boot-status" "cpushield boot status --json" crate::documents::boot::BootStatus;
    "boot-undo" "cpushield boot undo --json" crate::documents::boot::UndoneParameters;
    "boot-conclude" "cpushield boot conclude --json" crate::documents::boot::ConcludedTrial;
    "explain" "cpushield explain NAME --json" crate::registry::ExplainPage;
    "explain-list" "cpushield explain --json" explained_page::PageList;
    "mask" "cpushield mask --json" crate::documents::cpu_sets::MaskDocument;
    "error" "An error from any command with --json" crate::ui::FailureDocument<'static>;
    "verify" "cpushield verify --json" crate::documents::evidence::VerifyDocument;
    "fix" "cpushield verify --fix --json" crate::documents::fix_report::FixReport;
    "latency" "cpushield latency --json" crate::documents::latency::LatencyMeasurement;
    "experiment" "cpushield experiment --json" crate::documents::experiment::Experiment;
    "search" "cpushield experiment --minimize --json" crate::documents::option_search::OptionSearch;
    "dry-run" "cpushield experiment --dry-run --json" crate::documents::experiment::DryRun;
    "search-dry-run" "cpushield experiment --minimize --dry-run --json"
        crate::documents::option_search::SearchDryRun;
    "compare" "cpushield compare --json" crate::documents::comparison::Comparison;
    "report" "cpushield report --json" document_bundle::DocumentBundle<'static>;
    "watch" "A line of cpushield watch --json" crate::live::LiveFrame;
}

#[cfg(test)]
mod tests;
