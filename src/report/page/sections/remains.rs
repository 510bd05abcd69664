//! What remains, and how to remove it: leaks with their remedies, what cannot be moved, what only a
//! boot parameter removes.

use crate::change::EffectTime;
use crate::report::page::block::{ReportBlock, Table, TableCell, TableColumn, TextTone};
use crate::report::page::material::{LabelledDocument, PlanWithOutcome, ReportMaterial};
use crate::report::page::words;
use crate::verify::{Leak, VerdictState};

/// The section.
pub(super) fn blocks(material: &ReportMaterial) -> Vec<ReportBlock> {
    let mut blocks = leaks(material);
    for fixed in &material.fixes {
        let rows: Vec<Vec<TableCell>> = fixed
            .it
            .remains
            .iter()
            .map(|it| {
                let boot = it.boot.as_ref().map_or_else(|| TableCell::new("–"), TableCell::code);
                let (cpu, count) = (it.cpu.to_string(), words::grouped(it.count));
                let cells = [TableCell::new(&it.what), TableCell::new(cpu), TableCell::new(count)];
                cells.into_iter().chain([TableCell::new(&it.why), boot]).collect()
            })
            .collect();
        let names = ["what", "CPU", "how often", "why it stays", "boot parameter"];
        let columns = names.map(TableColumn::words).to_vec();
        let caption = format!("{}: what stayed when nothing more could be done", fixed.label);
        blocks.extend((!rows.is_empty()).then_some(ReportBlock::Table(Table {
            caption,
            columns,
            rows,
        })));
    }
    if let Some(settings) = material.settings.last() {
        blocks.extend(advice(settings));
    }
    blocks
}

/// What leaked in the last look that was judged.
fn leaks(material: &ReportMaterial) -> Vec<ReportBlock> {
    let judged =
        |look: &&LabelledDocument<crate::report::page::WatchWithVerdict>| look.it.verdict.is_some();
    let Some(look) = material.looks.iter().rfind(judged) else { return Vec::new() };
    let verdicts = look.it.verdict.iter().flat_map(|verdict| &verdict.cpus);
    let mut rows = Vec::new();
    for cpu in verdicts.clone() {
        rows.extend(cpu.leaks.iter().map(|leak| row(cpu.cpu, leak)));
    }
    if rows.is_empty() {
        let holds = verdicts.clone().all(|cpu| cpu.state == VerdictState::Holds);
        let text = if holds && verdicts.clone().next().is_some() {
            format!("Nothing: in \u{201c}{}\u{201d} nothing interrupted these CPUs.", look.label)
        } else {
            format!("It is not known: \u{201c}{}\u{201d} carries no claim, see above.", look.label)
        };
        return vec![ReportBlock::Text(text)];
    }
    let mut columns = ["what", "cause", "CPU", "how often"].map(TableColumn::words).to_vec();
    columns.extend(["by", "how to remove it"].map(TableColumn::words));
    let caption = format!("What still interrupts: {}", look.label);
    vec![ReportBlock::Table(Table { caption, columns, rows })]
}

fn row(cpu: usize, leak: &Leak) -> Vec<TableCell> {
    let seen = &leak.interruptions;
    let (by, how) = match (&leak.remedy, &leak.why_none) {
        (Some(remedy), _) => {
            let when = match remedy.when {
                EffectTime::Runtime => "now",
                EffectTime::Boot => "at the next boot",
            };
            (TableCell::new(format!("{}, {when}", remedy.tunable)), TableCell::code(&remedy.how))
        }
        (None, Some(why)) => (TableCell::new("nothing known"), TableCell::new(why)),
        (None, None) => (TableCell::toned(TextTone::Doubt, "nothing known"), TableCell::new("–")),
    };
    vec![
        TableCell::new(super::noise::who(&seen.culprit)),
        TableCell::new(seen.cause.name()),
        TableCell::new(cpu.to_string()),
        TableCell::new(words::grouped(seen.count + seen.nested)),
        by,
        how,
    ]
}

fn advice(settings: &LabelledDocument<PlanWithOutcome>) -> Vec<ReportBlock> {
    let plan = &settings.it.plan;
    let mut blocks = Vec::new();
    if !plan.boot.is_empty() {
        let row = |it: &crate::plan::BootAdvice| {
            let removes: Vec<&str> = it.removes.iter().map(|cause| cause.name()).collect();
            vec![
                TableCell::code(&it.parameter),
                TableCell::new(removes.join(", ")),
                TableCell::new(&it.reason),
            ]
        };
        let columns = ["parameter", "removes", "why"].map(TableColumn::words).to_vec();
        let caption = "Kernel parameters that would remove more (cpushield boot apply)";
        let rows = plan.boot.iter().map(row).collect();
        blocks.push(ReportBlock::Table(Table { caption: caption.to_owned(), columns, rows }));
    }
    if !plan.immovable.is_empty() {
        let columns = ["what", "the kernel's reason"].map(TableColumn::words).to_vec();
        let row = |it: &crate::plan::Immovable| {
            vec![TableCell::new(it.what.to_string()), TableCell::new(it.reason.to_string())]
        };
        let rows = plan.immovable.iter().map(row).collect();
        let caption = "What cannot be moved away from the shielded CPUs".to_owned();
        let title = format!("{} things cannot be moved away", plan.immovable.len());
        let table = ReportBlock::Table(Table { caption, columns, rows });
        blocks.push(ReportBlock::Fold { title, blocks: vec![table] });
    }
    if !plan.warnings.is_empty() {
        let (title, items) = ("Warnings of the plan".to_owned(), plan.warnings.clone());
        blocks.push(ReportBlock::Doubts { title, items });
    }
    blocks
}
