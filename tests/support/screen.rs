//! A screen is compared with its snapshot in `tests/document_screens/`. `SNAPSHOTS=overwrite`
//! renews it.

use cpushield::report::blocks::{ReportBlock, terminal_blocks, unpainted};
use snapbox::{Assert, Data};
use std::path::Path;

/// A terminal that shows every column.
const COLUMNS: usize = 100;

/// Asserts that the screen of these blocks is the snapshot of this name.
pub fn check(name: &str, blocks: &[ReportBlock]) {
    let screen = terminal_blocks(blocks, COLUMNS, &unpainted);
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/document_screens/{name}.txt"));
    let expected = Data::read_from(&file, None).raw();
    Assert::new().action_env("SNAPSHOTS").eq(screen, expected);
}
