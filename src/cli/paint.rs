//! Documents on the terminal: their blocks in its width, with its colours for the tones.

use crate::failure::Failure;
use crate::report::blocks::{ReportBlock, terminal_blocks};
use crate::ui::{Ui, paint};
use serde::Serialize;

/// Shows a document as JSON or as its blocks.
///
/// # Errors
/// Standard output cannot be written.
pub(super) fn show<T: Serialize>(
    ui: &Ui,
    document: &T,
    blocks: impl FnOnce() -> Vec<ReportBlock>,
) -> Result<(), Failure> {
    ui.show(document, || terminal_blocks(&blocks(), ui.width(), &paint))
}

/// Shows what a command has done to shields.
///
/// # Errors
/// Standard output cannot be written. The error says that only the text is lost.
pub(super) fn show_done<T: Serialize>(
    ui: &Ui,
    document: &T,
    blocks: impl FnOnce() -> Vec<ReportBlock>,
) -> Result<(), Failure> {
    let hint = "the command completed, but its output is lost; to see the result: cpushield status";
    show(ui, document, blocks).map_err(|failure| failure.hint(hint))
}
