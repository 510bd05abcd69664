//! The limits of observations and measurements → one table. Pure.

use super::blocks::{ReportBlock, Table, TableCell, TextTone};
use crate::documents::evidence::Gate;
use std::fmt::Display;

/// The row of a limit. `name` is the run that it belongs to, and empty for the only run.
pub fn limit_row<R: Display>(name: &str, gate: &Gate<R>, found: &str) -> Vec<TableCell> {
    let held = match gate.held {
        Some(true) => TableCell::toned(TextTone::Good, "held"),
        Some(false) => TableCell::toned(TextTone::Bad, "not held"),
        None => TableCell::unknown(),
    };
    let (limit, found) = (TableCell::code(gate.limit), TableCell::new(found));
    vec![TableCell::new(name), limit, found, held, TableCell::new(gate.reasons())]
}

/// The limits of some runs; `None` when there are none.
pub fn limit_block(rows: Vec<Vec<TableCell>>) -> Option<ReportBlock> {
    Table::new("Limits", ["run", "limit", "found", "held", "why"], rows)
        .without_empty_columns()
        .into_block()
}
