//! What every experiment and every search does with a matrix before it measures: it chooses the
//! CPUs of each row, and checks how each row boots. Writes nothing.

use super::WorkContext;
use super::experiment_boots::check_row_boots;
use super::experiment_cpus::choose_row_cpus;
use crate::documents::machine::Machine;
use crate::experiment::{Matrix, RebootPermission, RowCpus};
use crate::failure::Failure;

/// A matrix whose rows can be set up on this machine.
pub(super) struct PreparedMatrix {
    /// The matrix, with the CPUs of this machine and the running kernel in its rows.
    pub(super) matrix: Matrix,
    /// The CPUs of each row.
    pub(super) row_cpus: Vec<RowCpus>,
}

/// Prepares a matrix. `file` is the name of its file, for errors.
///
/// # Errors
/// A list of CPUs does not suit this machine, a shield is impossible, two rows plan the same, or a
/// row cannot be booted.
pub(super) fn prepare_matrix(
    work: &WorkContext<'_>,
    machine: &Machine,
    mut matrix: Matrix,
    file: &str,
    reboot: RebootPermission,
) -> Result<PreparedMatrix, Failure> {
    let row_cpus = choose_row_cpus(work, machine, &matrix, file)?;
    matrix.assign_cpus(&row_cpus);
    matrix.set_original_kernel(machine.kernel.release.as_deref());
    check_row_boots(work, machine, &matrix, file, reboot)?;
    Ok(PreparedMatrix { matrix, row_cpus })
}
