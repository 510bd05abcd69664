//! Checks the kernel parameters and kernels of an experiment's rows before it begins, as far as the
//! files of the machine show. Writes nothing.

use super::WorkContext;
use super::experiment_cpus::at_row;
use crate::boot::loaders::{BootLoader, FoundLoader};
use crate::boot::{
    BootError, GivenWords, RowWords, WordSource, check_row_kernel, check_row_words, loaders,
    plan as boot_plan,
};
use crate::documents::boot::WordFault;
use crate::documents::count_text::joined;
use crate::documents::experiment::RowBoot;
use crate::documents::machine::Machine;
use crate::experiment::{Matrix, RebootPermission};
use crate::failure::Failure;
use crate::policy::RequestedParameter;
use crate::refusal::suggest;
use cpushield_linux::Host;

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
        let named = boot
            .parameters
            .iter()
            .map(|word| RequestedParameter { word: word.clone(), place: "boot".to_owned() });
        let (kernel, named) = (boot.kernel.as_deref(), named.collect::<Vec<_>>());
        let unknown = matrix.places.get(index).map(|place| place.unknown_words).unwrap_or_default();
        let words = RowWords { kernel, words: &named, unknown, cpus: &row.cpus };
        check_row(&work.host, machine, (&boot, &words), menu.as_ref(), reboot)
            .map_err(|error| at_row(matrix, index, file, explain_error(error)))?;
    }
    Ok(())
}

/// Checks the boot of one row, and its words.
fn check_row(
    host: &Host,
    machine: &Machine,
    (boot, words): (&RowBoot, &RowWords<'_>),
    menu: Option<&(&'static dyn BootLoader, FoundLoader)>,
    reboot: RebootPermission,
) -> Result<(), BootError> {
    check_row_words(host, machine, words)?;
    if reboot == RebootPermission::Granted {
        check_row_kernel(host, machine, words, menu)?;
    }
    let given = GivenWords::of_row(machine, words.kernel, &boot.words());
    boot_plan::plan(host, machine, WordSource::Given(&given), menu).map(drop)
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
