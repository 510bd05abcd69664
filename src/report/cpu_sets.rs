//! [`MaskDocument`] → lines. Pure.

use super::blocks::{ReportBlock, TextLine};
use crate::documents::count_text::many;
use crate::documents::cpu_sets::MaskDocument;

/// The blocks of `cpushield mask`: a line for each set. Programs read it, so it is never wrapped.
#[must_use]
pub fn cpu_set_blocks(document: &MaskDocument) -> Vec<ReportBlock> {
    let lines = document.sets.iter().map(|set| {
        let count = many(set.count, "CPU");
        TextLine::verbatim(format!("{}  {}  {}  ({count})", set.list, set.hex, set.mask))
    });
    vec![ReportBlock::Lines(lines.collect())]
}
