//! What remains, how to remove it: leaks with their remedies, tasks and interrupts that cannot be
//! moved, and advice on boot parameters.

use crate::documents::evidence::VerdictState;
use crate::report::blocks::ReportBlock;
use crate::report::page::material::{LabelledDocument, PlanWithOutcome, ReportMaterial};
use crate::report::plan::{boot_advice, immovable, warnings};

/// The section.
pub(super) fn blocks(material: &ReportMaterial) -> Vec<ReportBlock> {
    let mut blocks = leaks(material);
    for fixed in &material.fixes {
        blocks.push(ReportBlock::Heading(format!("After all fixes: {}", fixed.label)));
        blocks.extend(fixed.document.conclusion());
    }
    if let Some(settings) = material.settings.last() {
        blocks.extend(advice(settings));
    }
    blocks
}

/// The leaks in the last observation with a verdict.
fn leaks(material: &ReportMaterial) -> Vec<ReportBlock> {
    let mut runs = material.observations.iter().rev().map(LabelledDocument::run);
    let Some(run) = runs.find(|run| run.verdict.is_some()) else { return Vec::new() };
    let blocks = run.remaining(&format!("Remaining interruptions: {}", run.name), usize::MAX);
    if !blocks.is_empty() {
        return blocks;
    }
    let mut cpus = run.verdict.iter().flat_map(|verdict| &verdict.cpus).peekable();
    let text = match cpus.peek().is_some() && cpus.all(|cpu| cpu.state == VerdictState::Holds) {
        true => format!("Nothing interrupted these CPUs in \u{201c}{}\u{201d}.", run.name),
        false => format!("Unknown: \u{201c}{}\u{201d} proves nothing, see above.", run.name),
    };
    vec![ReportBlock::Text(text)]
}

fn advice(settings: &LabelledDocument<PlanWithOutcome>) -> Vec<ReportBlock> {
    let plan = &settings.document.plan;
    let mut blocks: Vec<ReportBlock> = boot_advice(plan).into_iter().collect();
    blocks.extend(immovable(&plan.immovable));
    blocks.extend(warnings(plan));
    blocks
}
