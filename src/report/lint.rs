//! What is wrong with the command line of the running kernel → blocks. Pure.

use super::blocks::{ReportBlock, TextLine, TextTone};
use crate::documents::boot::{CommandLineLint, LintFinding};

/// The findings, each with its advice; no blocks without findings.
#[must_use]
pub fn lint_blocks(findings: &[LintFinding]) -> Vec<ReportBlock> {
    let lines = findings.iter().flat_map(|finding| {
        [TextLine::new(finding), TextLine::new(finding.advice()).below().below()]
    });
    ReportBlock::section("Kernel command line", lines)
}

/// The blocks of `cpushield survey --lint`.
#[must_use]
pub fn command_line_blocks(lint: &CommandLineLint) -> Vec<ReportBlock> {
    match lint.findings.is_empty() {
        true => {
            let good = TextLine::remark(TextTone::Good, "Kernel command line", "no problem found");
            vec![ReportBlock::line(good)]
        }
        false => lint_blocks(&lint.findings),
    }
}
