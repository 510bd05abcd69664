//! [`MovedProcess`] → lines. Pure.

use super::blocks::{ReportBlock, TextLine};
use crate::documents::count_text::many;
use crate::documents::moved_process::MovedProcess;

/// The blocks of `cpushield add` and `remove`: a line for each process, with its notes below.
#[must_use]
pub fn moved_blocks(moved: &[MovedProcess], destination: &str) -> Vec<ReportBlock> {
    let lines = moved.iter().flat_map(|MovedProcess { tid, comm, threads, cpus, notes }| {
        let threads = many(*threads, "thread");
        let line = format!("{tid} ({comm}, {threads}) is {destination}, on CPU {cpus}");
        let notes = notes.iter().map(|note| TextLine::new(note).below());
        [TextLine::new(line)].into_iter().chain(notes)
    });
    vec![ReportBlock::Lines(lines.collect())]
}
