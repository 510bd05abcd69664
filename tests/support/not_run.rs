//! One way to report a check that cannot run here.

use std::io::{self, Write};

/// Writes the line that `scripts/test` counts as skipped. It bypasses the test harness, which hides
/// the output of a test that passes.
pub fn not_run(why: &str) {
    let _ = writeln!(io::stderr(), "NOT RUN: {why}");
}
