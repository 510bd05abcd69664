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

#[cfg(feature = "schema")]
const fn printed<T: schemars::JsonSchema>(
    file: &'static str,
    title: &'static str,
) -> PrintedDocument {
    PrintedDocument { file, title, schema: schemars::SchemaGenerator::into_root_schema_for::<T> }
}

/// Every document that a subcommand prints.
#[cfg(feature = "schema")]
pub const PRINTED_DOCUMENTS: &[PrintedDocument] = &[
    printed::<crate::documents::machine::Machine>("survey.schema.json", "cpushield survey --json"),
    printed::<crate::documents::boot::CommandLineLint>(
        "lint.schema.json",
        "cpushield survey --lint --json",
    ),
    printed::<crate::documents::plan::Plan>("plan.schema.json", "cpushield plan --json"),
    printed::<crate::documents::policy_plans::PolicyPlans>(
        "policy-plans.schema.json",
        "cpushield plan --all --json",
    ),
    printed::<crate::documents::free_cpus::FreeCpus>(
        "free-cpus.schema.json",
        "cpushield plan --free --json",
    ),
    printed::<crate::exchange::ImportedPolicy>(
        "imported-policy.schema.json",
        "cpushield plan --from --json",
    ),
    printed::<other_tools::ExportedPlan>(
        "exported-plan.schema.json",
        "cpushield plan --export --json",
    ),
    printed::<crate::documents::try_report::TryReport>("try.schema.json", "cpushield try --json"),
    printed::<crate::documents::applied::AppliedPlan>(
        "apply.schema.json",
        "cpushield apply --json",
    ),
    printed::<crate::documents::applied::AppliedPolicy>(
        "apply-all.schema.json",
        "cpushield apply --all --json",
    ),
    printed::<shield_status::StatusDocument>("status.schema.json", "cpushield status --json"),
    printed::<undo_shields::UndoDocument>("undo.schema.json", "cpushield undo --json"),
    printed::<every_boot::EnabledShield>("enable.schema.json", "cpushield enable --json"),
    printed::<every_boot::EnabledPolicy>("enable-all.schema.json", "cpushield enable --all --json"),
    printed::<every_boot::DisabledShield>("disable.schema.json", "cpushield disable --json"),
    printed::<crate::documents::moved_process::MovedProcesses>(
        "moved.schema.json",
        "cpushield add --json, cpushield remove --json",
    ),
    printed::<crate::documents::boot::BootPlan>(
        "boot-plan.schema.json",
        "cpushield boot plan --json",
    ),
    printed::<crate::documents::boot::WrittenParameters>(
        "boot-apply.schema.json",
        "cpushield boot apply --json",
    ),
    printed::<crate::documents::boot::BootStatus>(
        "boot-status.schema.json",
        "cpushield boot status --json",
    ),
    printed::<crate::documents::boot::UndoneParameters>(
        "boot-undo.schema.json",
        "cpushield boot undo --json",
    ),
    printed::<crate::documents::boot::ConcludedTrial>(
        "boot-conclude.schema.json",
        "cpushield boot conclude --json",
    ),
    printed::<crate::registry::ExplainPage>("explain.schema.json", "cpushield explain NAME --json"),
    printed::<explained_page::PageList>("explain-list.schema.json", "cpushield explain --json"),
    printed::<crate::documents::cpu_sets::MaskDocument>(
        "mask.schema.json",
        "cpushield mask --json",
    ),
    printed::<crate::ui::FailureDocument<'static>>(
        "error.schema.json",
        "An error from any command with --json",
    ),
    printed::<crate::documents::evidence::VerifyDocument>(
        "verify.schema.json",
        "cpushield verify --json",
    ),
    printed::<crate::documents::fix_report::FixReport>(
        "fix.schema.json",
        "cpushield verify --fix --json",
    ),
    printed::<crate::documents::latency::LatencyMeasurement>(
        "latency.schema.json",
        "cpushield latency --json",
    ),
    printed::<crate::documents::experiment::Experiment>(
        "experiment.schema.json",
        "cpushield experiment --json",
    ),
    printed::<crate::documents::option_search::OptionSearch>(
        "search.schema.json",
        "cpushield experiment --minimize --json",
    ),
    printed::<crate::documents::experiment::DryRun>(
        "dry-run.schema.json",
        "cpushield experiment --dry-run --json",
    ),
    printed::<crate::documents::option_search::SearchDryRun>(
        "search-dry-run.schema.json",
        "cpushield experiment --minimize --dry-run --json",
    ),
    printed::<crate::documents::comparison::Comparison>(
        "compare.schema.json",
        "cpushield compare --json",
    ),
    printed::<document_bundle::DocumentBundle<'static>>(
        "report.schema.json",
        "cpushield report --json",
    ),
    printed::<crate::live::LiveFrame>("watch.schema.json", "A line of cpushield watch --json"),
];

#[cfg(test)]
mod tests;
