//! Makes a policy of what another tool has set up on this machine, and of a plan a file for another
//! tool.

use super::WorkContext;
use super::apply_shield::plan_options;
use super::boot_parameters::{BootOptions, plan_boot};
use super::machine_survey::survey_machine;
use super::shield_options::{ShieldOptions, plain_name};
use crate::boot::switches::{is_parameter, is_tunable};
use crate::documents::boot::BootPlan;
use crate::exchange::{ImportedPolicy, make_policy, service_drop_in, tuned_profile};
use crate::failure::Failure;
pub use crate::survey::other_tools::OtherTool;
use crate::survey::other_tools::{SetupError, read_setup};
use serde::Serialize;

/// Makes a policy with the CPUs that another tool has isolated.
///
/// # Errors
/// The tool has set up nothing here, or its files do not show its CPUs.
pub fn import_policy(work: &WorkContext<'_>, tool: OtherTool) -> Result<ImportedPolicy, Failure> {
    let machine = survey_machine(&work.host, &work.store);
    let setup = read_setup(&work.host, &machine, tool).map_err(explain_error)?;
    make_policy(&machine, &setup).map_err(|refusal| Failure::machine(refusal.to_string()))
}

/// What a plan can become for another tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ExportFormat {
    /// Parameters for the kernel command line.
    KernelParameters,
    /// A tuned profile.
    Tuned,
    /// A systemd drop-in for a service that runs on the shielded CPUs.
    SystemdDropIn,
}

/// A plan as another tool reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExportedPlan {
    /// The version of the document's format: 1.
    pub schema: u32,
    /// The format of the text.
    pub format: ExportFormat,
    /// The text, for a file.
    pub text: String,
}

/// Plans a request and makes a file of it for another tool.
///
/// # Errors
/// The request is wrong or impossible, or the format cannot say it on this machine.
pub fn export_plan(
    work: &WorkContext<'_>,
    options: &ShieldOptions,
    format: ExportFormat,
) -> Result<ExportedPlan, Failure> {
    let text = match format {
        ExportFormat::KernelParameters => {
            let words = list_words(work, options)?;
            if words.is_empty() {
                let why = "no kernel parameter applies to this shield on this kernel";
                return Err(Failure::machine(why).hint("see why: cpushield boot plan"));
            }
            words.join(" ") + "\n"
        }
        ExportFormat::Tuned => {
            let (now, boot) = split_switches(options);
            let (plan, _) = plan_options(work, &now)?;
            tuned_profile(&plan, &list_words(work, &boot)?)
        }
        ExportFormat::SystemdDropIn => {
            let (plan, (machine, _)) = plan_options(work, options)?;
            service_drop_in(&machine, &plan).map_err(|refusal| {
                Failure::machine(format!("cannot create a drop-in: {refusal}"))
                    .hint("start the program in the shield: cpushield run -- PROGRAM")
            })?
        }
    };
    Ok(ExportedPlan { schema: 1, format, text })
}

/// The kernel parameters for a request. Warnings about them are shown.
fn list_words(work: &WorkContext<'_>, options: &ShieldOptions) -> Result<Vec<String>, Failure> {
    let BootPlan { parameters, warnings, .. } = plan_boot(work, options, &BootOptions::default())?;
    for warning in warnings {
        work.ui.warn(&warning.to_string());
    }
    Ok(parameters.into_iter().map(|parameter| parameter.word).collect())
}

/// The same request for the running kernel and for the next boot. A profile is for both, so it
/// takes the names of both.
fn split_switches(options: &ShieldOptions) -> (ShieldOptions, ShieldOptions) {
    let (mut now, mut boot) = (options.clone(), options.clone());
    for names in [&mut now.on, &mut now.off] {
        names.retain(|word| is_tunable(plain_name(word)));
    }
    for names in [&mut boot.on, &mut boot.off] {
        names.retain(|word| is_parameter(plain_name(word)));
    }
    (now, boot)
}

fn explain_error(error: SetupError) -> Failure {
    match error {
        SetupError::NothingFound { tool, why, looked_in } => {
            let looked_in = looked_in.join(", ");
            let what = match tool {
                OtherTool::Cmdline => "the kernel command line isolates no CPUs".to_owned(),
                tool => format!("found no setup that {tool} made"),
            };
            Failure::machine(format!("{what}: {why}\n  looked in: {looked_in}"))
        }
        SetupError::Access(error) => error.into(),
        SetupError::UnknownCpus { what, place } => {
            Failure::machine(format!("{place}: only tuned itself can compute {what}"))
                .hint("name the CPUs yourself: cpushield plan --cpus LIST")
        }
    }
}
