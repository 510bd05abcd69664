//! A screen is compared with its snapshot. `SNAPSHOTS=overwrite` renews it.

use cpushield::report::blocks::{ReportBlock, terminal_blocks, unpainted};
use snapbox::{Assert, Data};
use std::path::Path;

/// A terminal that shows every column.
const COLUMNS: usize = 100;

/// The screen of these blocks.
pub fn text(blocks: &[ReportBlock]) -> String {
    terminal_blocks(blocks, COLUMNS, &unpainted)
}

/// Asserts that a screen is the snapshot in this file, which is named from the project's directory.
pub fn check(screen: &str, file: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let expected = Data::read_from(&file, None).raw();
    Assert::new().action_env("SNAPSHOTS").eq(screen, expected);
}
