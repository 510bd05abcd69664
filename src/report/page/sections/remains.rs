//! What remains, how to remove it: leaks with their remedies, tasks and interrupts that cannot be
//! moved, and advice on boot parameters.

use crate::documents::evidence::VerdictState;
use crate::report::blocks::{ReportBlock, Table, TableCell, TableColumn};
use crate::report::page::material::{LabelledDocument, PlanWithOutcome, ReportMaterial};

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
    let blocks = run.remaining(&format!("What still interrupts: {}", run.name), usize::MAX);
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
    let mut blocks = Vec::new();
    if !plan.boot.is_empty() {
        let rows = plan.boot.iter().map(|advice| {
            let removes: Vec<&str> = advice.removes.iter().map(|cause| cause.name()).collect();
            vec![
                TableCell::code(&advice.parameter),
                TableCell::new(removes.join(", ")),
                TableCell::new(&advice.reason),
            ]
        });
        let rows = rows.collect();
        let columns = ["parameter", "removes", "why"].map(TableColumn::words).to_vec();
        let caption = "Kernel parameters that would remove more (cpushield boot apply)";
        blocks.push(ReportBlock::Table(Table {
            caption: caption.to_owned(),
            columns,
            rows,
            ..Table::default()
        }));
    }
    if !plan.immovable.is_empty() {
        let columns = ["what", "the kernel's reason"].map(TableColumn::words).to_vec();
        let rows = plan.immovable.iter().map(|immovable| {
            let (what, reason) = (immovable.what.to_string(), immovable.reason.to_string());
            vec![TableCell::new(what), TableCell::new(reason)]
        });
        let rows = rows.collect();
        let caption =
            "Tasks and interrupts that cannot be moved away from the shielded CPUs".to_owned();
        let title = format!("{} tasks and interrupts cannot be moved away", plan.immovable.len());
        let table = ReportBlock::Table(Table { caption, columns, rows, ..Table::default() });
        blocks.push(ReportBlock::Fold { title, blocks: vec![table] });
    }
    if !plan.warnings.is_empty() {
        let (title, items) = ("Warnings of the plan".to_owned(), plan.warnings.clone());
        blocks.push(ReportBlock::Doubts { title, items });
    }
    blocks
}
