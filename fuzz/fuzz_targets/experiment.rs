//! Files of experiments: never a panic; a schedule of what is accepted measures every cell.
#![no_main]

use cpushield::experiment::{Matrix, RebootPermission, make_schedule};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(matrix) = Matrix::parse(text, "experiment.toml") else { return };
    let cells = matrix.rows.len() * matrix.columns.len() * matrix.repeats;
    assert_eq!(make_schedule(&matrix, RebootPermission::Granted).steps.len(), cells);
});
