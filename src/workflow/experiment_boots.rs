//! Checks the kernel parameters and kernels of an experiment's rows before it begins, as far as the
//! files of the machine show. Writes nothing.

use super::WorkContext;
use super::experiment_cpus::at_row;
use crate::boot::{BootError, GivenWords, WordSource, loaders, plan as boot_plan};
use crate::documents::boot::WordFault;
use crate::documents::count_text::joined;
use crate::documents::machine::Machine;
use crate::experiment::{Matrix, RebootPermission};
use crate::failure::Failure;
use crate::refusal::suggest;

/// Checks the boot of each row. Without `--reboot` no row boots, so a word that its kernel lacks is
/// no error. `file` is the name of the matrix file, for errors.
///
/// # Errors
/// A kernel would ignore or does not have a word of a row, it would start without CPUs of the row,
/// or the boot menu does not have the kernel of a row. A word is unknown.
pub(super) fn check_row_boots(
    work: &WorkContext<'_>,
    machine: &Machine,
    matrix: &Matrix,
    file: &str,
    reboot: RebootPermission,
) -> Result<(), Failure> {
    // An ordinary user may not read every menu, and a recording has none.
    let menu = loaders::find(&work.host).ok().flatten();
    for (index, row) in matrix.rows.iter().enumerate() {
        let boot = row.needed_boot();
        let is_unknown = boot.kernel.is_some() && menu.is_none();
        if boot.is_original() || is_unknown {
            continue;
        }
        let mut given = GivenWords::of_row(machine, boot.kernel.as_deref(), &boot.words());
        // Without a word of its own, a row has a mark.
        if !boot.parameters.is_empty() {
            let place = matrix.places.get(index);
            given.unknown = place.map(|place| place.unknown_words).unwrap_or_default();
        }
        given.cpus.clone_from(&row.cpus);
        let source = WordSource::Given(&given);
        match boot_plan::plan(&work.host, machine, source, menu.as_ref()) {
            Err(error) if reboot == RebootPermission::Granted || !is_of_kernel(&error) => {
                return Err(at_row(matrix, index, file, explain_error(error)));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether only the kernel of a row is wrong.
fn is_of_kernel(error: &BootError) -> bool {
    let BootError::FaultyWord(word) = error else { return false };
    matches!(word.fault, WordFault::NotInKernels { .. } | WordFault::CpusNotStarted { .. })
}

/// The failure of a row: a hint names keys of the matrix, not options.
fn explain_error(error: BootError) -> Failure {
    let message = error.to_string();
    match error {
        BootError::NoKernel { known, .. } if !known.is_empty() => {
            let known = known.iter().map(|it| format!("kernel = {it:?}"));
            Failure::usage(message)
                .hint(format!("choose one from the menu: {}", joined(known, " or ")))
        }
        BootError::FaultyWord(faulty) => {
            let advice = match &faulty.fault {
                WordFault::NotInKernels { .. } => {
                    "omit the parameter, or name a kernel that has it: kernel = \"RELEASE\""
                        .to_owned()
                }
                fault if fault.is_unknown() => {
                    "if the parameter is correct: allow_unknown = true".to_owned()
                }
                fault => fault.advice(&faulty.word),
            };
            let hints = suggest(&faulty.near).chain([advice]).collect();
            Failure { hints, ..Failure::usage(message) }
        }
        error => error.into(),
    }
}
