//! Makes a policy of what another tool has set up on this machine.

use super::WorkContext;
use super::machine_survey::survey_machine;
use crate::exchange::{ImportedPolicy, make_policy};
use crate::failure::Failure;
pub use crate::survey::other_tools::OtherTool;
use crate::survey::other_tools::{SetupError, read_setup};

/// Makes a policy with the CPUs that another tool has isolated.
///
/// # Errors
/// The tool has set up nothing here, or its files do not show its CPUs.
pub fn import_policy(work: &WorkContext<'_>, tool: OtherTool) -> Result<ImportedPolicy, Failure> {
    let machine = survey_machine(&work.host, &work.store);
    let setup = read_setup(&work.host, &machine, tool).map_err(explain_error)?;
    make_policy(&machine, &setup).map_err(|refusal| Failure::machine(refusal.to_string()))
}

fn explain_error(error: SetupError) -> Failure {
    match error {
        SetupError::NothingFound { tool, why, looked_in } => {
            let looked_in = looked_in.join(", ");
            Failure::machine(format!("found no setup of {tool}: {why}\n  looked in: {looked_in}"))
        }
        SetupError::Access(error) => error.into(),
        SetupError::UnknownCpus { what, why, place } => {
            Failure::machine(format!("{place}: cannot tell the CPUs of {what}: {why}"))
                .hint("name the CPUs yourself: cpushield plan --cpus LIST")
        }
    }
}
