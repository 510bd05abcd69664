//! Latencies: the figures of each thread, overlaid histograms and the worst latency over time, then
//! the longest latencies, the loads and the conditions.

use super::histograms;
use super::threads::{kind, kinds};
use crate::report::blocks::{Picture, ReportBlock};
use crate::report::latency::{LatencyRun, background_blocks, thread_blocks};
use crate::report::page::material::ReportMaterial;

/// The section.
pub(super) fn blocks(material: &ReportMaterial) -> Vec<ReportBlock> {
    let all = &material.latencies;
    if all.is_empty() {
        return Vec::new();
    }
    let runs = all.iter().map(|run| LatencyRun { name: &run.label, latency: &run.document });
    let runs: Vec<LatencyRun<'_>> = runs.collect();
    let mut blocks = thread_blocks(&runs);
    for (n, (instrument, role)) in kinds(material).iter().enumerate() {
        let chosen = histograms::ChosenThreads { all, instrument, role, nth: n };
        let pictures: Vec<Picture> =
            [chosen.histogram(), chosen.timeline()].into_iter().flatten().collect();
        if !pictures.is_empty() {
            blocks.push(ReportBlock::Heading(capitalize(&kind(instrument, role))));
        }
        blocks.extend(pictures.into_iter().map(|picture| ReportBlock::Picture(Box::new(picture))));
    }
    blocks.extend(background_blocks(&runs));
    blocks
}

fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    first + chars.as_str()
}
