//! What remains, how to remove it: leaks with their remedies, tasks and interrupts that cannot be
//! moved, and advice on boot parameters.

use crate::change::EffectTime;
use crate::report::blocks::words;
use crate::report::blocks::{ReportBlock, Table, TableCell, TableColumn, TextTone};
use crate::report::page::material::{LabelledDocument, PlanWithOutcome, ReportMaterial};
use crate::verify::{Leak, VerdictState};

/// The section.
pub(super) fn blocks(material: &ReportMaterial) -> Vec<ReportBlock> {
    let mut blocks = leaks(material);
    for fixed in &material.fixes {
        let rows = fixed.document.remains.iter().map(|leak| {
            vec![
                TableCell::new(&leak.what),
                TableCell::new(leak.cpu.to_string()),
                TableCell::new(words::grouped(leak.count)),
                TableCell::new(&leak.why),
                leak.boot.as_ref().map_or_else(|| TableCell::new("–"), TableCell::code),
            ]
        });
        let rows: Vec<Vec<TableCell>> = rows.collect();
        if !rows.is_empty() {
            let names = ["what", "CPU", "count", "why it remains", "boot parameter"];
            let columns = names.map(TableColumn::words).to_vec();
            let caption = format!("{}: what remained after all fixes", fixed.label);
            blocks.push(ReportBlock::Table(Table { caption, columns, rows, ..Table::default() }));
        }
    }
    if let Some(settings) = material.settings.last() {
        blocks.extend(advice(settings));
    }
    blocks
}

/// The leaks in the last observation with a verdict.
fn leaks(material: &ReportMaterial) -> Vec<ReportBlock> {
    let mut judged = material.observations.iter().rev().filter(|o| o.document.verdict.is_some());
    let Some(observation) = judged.next() else { return Vec::new() };
    let verdicts = observation.document.verdict.iter().flat_map(|verdict| &verdict.cpus);
    let mut rows = Vec::new();
    for cpu in verdicts.clone() {
        rows.extend(cpu.leaks.iter().map(|leak| leak_row(cpu.cpu, leak)));
    }
    if rows.is_empty() {
        let holds = verdicts.clone().all(|cpu| cpu.state == VerdictState::Holds);
        let text = if holds && verdicts.clone().next().is_some() {
            format!("Nothing interrupted these CPUs in \u{201c}{}\u{201d}.", observation.label)
        } else {
            format!("Unknown: \u{201c}{}\u{201d} proves nothing, see above.", observation.label)
        };
        return vec![ReportBlock::Text(text)];
    }
    let mut columns = ["culprit", "cause", "CPU", "count"].map(TableColumn::words).to_vec();
    columns.extend(["tunable", "how to remove it"].map(TableColumn::words));
    let caption = format!("What still interrupts: {}", observation.label);
    vec![ReportBlock::Table(Table { caption, columns, rows, ..Table::default() })]
}

fn leak_row(cpu: usize, leak: &Leak) -> Vec<TableCell> {
    let seen = &leak.interruptions;
    let (tunable, how) = match (&leak.remedy, &leak.why_none) {
        (Some(remedy), _) => {
            let when = match remedy.when {
                EffectTime::Runtime => "now",
                EffectTime::Boot => "at the next boot",
            };
            (TableCell::new(format!("{}, {when}", remedy.tunable)), TableCell::code(&remedy.how))
        }
        (None, Some(why)) => (TableCell::new("none known"), TableCell::new(why)),
        (None, None) => (TableCell::toned(TextTone::Doubt, "none known"), TableCell::new("–")),
    };
    vec![
        TableCell::new(super::noise::describe_culprit(&seen.culprit)),
        TableCell::new(seen.cause.name()),
        TableCell::new(cpu.to_string()),
        TableCell::new(words::grouped(seen.count + seen.nested)),
        tunable,
        how,
    ]
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
