//! What remains, and how to remove it: leaks with their remedies, what cannot be moved, what only a
//! boot parameter removes.

use crate::change::When;
use crate::report::page::block::{Block, Cell, Column, Table, Tone};
use crate::report::page::material::{Labelled, Material, Settings};
use crate::report::page::words;
use crate::verify::{Leak, State};

/// The section.
pub(super) fn blocks(material: &Material) -> Vec<Block> {
    let mut blocks = leaks(material);
    for fixed in &material.fixes {
        let rows: Vec<Vec<Cell>> = fixed
            .it
            .remains
            .iter()
            .map(|it| {
                let boot = it.boot.as_ref().map_or_else(|| Cell::new("–"), Cell::code);
                let (cpu, count) = (it.cpu.to_string(), words::grouped(it.count));
                let cells = [Cell::new(&it.what), Cell::new(cpu), Cell::new(count)];
                cells.into_iter().chain([Cell::new(&it.why), boot]).collect()
            })
            .collect();
        let names = ["what", "CPU", "how often", "why it stays", "boot parameter"];
        let columns = names.map(Column::words).to_vec();
        let caption = format!("{}: what stayed when nothing more could be done", fixed.label);
        blocks.extend((!rows.is_empty()).then_some(Block::Table(Table { caption, columns, rows })));
    }
    if let Some(settings) = material.settings.last() {
        blocks.extend(advice(settings));
    }
    blocks
}

/// What leaked in the last look that was judged.
fn leaks(material: &Material) -> Vec<Block> {
    let judged = |look: &&Labelled<crate::report::page::Look>| look.it.verdict.is_some();
    let Some(look) = material.looks.iter().rfind(judged) else { return Vec::new() };
    let verdicts = look.it.verdict.iter().flat_map(|verdict| &verdict.cpus);
    let mut rows = Vec::new();
    for cpu in verdicts.clone() {
        rows.extend(cpu.leaks.iter().map(|leak| row(cpu.cpu, leak)));
    }
    if rows.is_empty() {
        let holds = verdicts.clone().all(|cpu| cpu.state == State::Holds);
        let text = if holds && verdicts.clone().next().is_some() {
            format!("Nothing: in \u{201c}{}\u{201d} nothing interrupted these CPUs.", look.label)
        } else {
            format!("It is not known: \u{201c}{}\u{201d} carries no claim, see above.", look.label)
        };
        return vec![Block::Text(text)];
    }
    let mut columns = ["what", "cause", "CPU", "how often"].map(Column::words).to_vec();
    columns.extend(["by", "how to remove it"].map(Column::words));
    let caption = format!("What still interrupts: {}", look.label);
    vec![Block::Table(Table { caption, columns, rows })]
}

fn row(cpu: usize, leak: &Leak) -> Vec<Cell> {
    let seen = &leak.interruptions;
    let (by, how) = match (&leak.remedy, &leak.why_none) {
        (Some(remedy), _) => {
            let when = match remedy.when {
                When::Runtime => "now",
                When::Boot => "at the next boot",
            };
            (Cell::new(format!("{}, {when}", remedy.tunable)), Cell::code(&remedy.how))
        }
        (None, Some(why)) => (Cell::new("nothing known"), Cell::new(why)),
        (None, None) => (Cell::toned(Tone::Doubt, "nothing known"), Cell::new("–")),
    };
    vec![
        Cell::new(super::noise::who(&seen.culprit)),
        Cell::new(seen.cause.name()),
        Cell::new(cpu.to_string()),
        Cell::new(words::grouped(seen.count + seen.nested)),
        by,
        how,
    ]
}

fn advice(settings: &Labelled<Settings>) -> Vec<Block> {
    let plan = &settings.it.plan;
    let mut blocks = Vec::new();
    if !plan.boot.is_empty() {
        let row = |it: &crate::plan::BootAdvice| {
            let removes: Vec<&str> = it.removes.iter().map(|cause| cause.name()).collect();
            vec![Cell::code(&it.parameter), Cell::new(removes.join(", ")), Cell::new(&it.reason)]
        };
        let columns = ["parameter", "removes", "why"].map(Column::words).to_vec();
        let caption = "Kernel parameters that would remove more (cpushield boot apply)";
        let rows = plan.boot.iter().map(row).collect();
        blocks.push(Block::Table(Table { caption: caption.to_owned(), columns, rows }));
    }
    if !plan.immovable.is_empty() {
        let columns = ["what", "the kernel's reason"].map(Column::words).to_vec();
        let row = |it: &crate::plan::Immovable| {
            vec![Cell::new(it.what.to_string()), Cell::new(it.reason.to_string())]
        };
        let rows = plan.immovable.iter().map(row).collect();
        let caption = "What cannot be moved away from the shielded CPUs".to_owned();
        let title = format!("{} things cannot be moved away", plan.immovable.len());
        let table = Block::Table(Table { caption, columns, rows });
        blocks.push(Block::Fold { title, blocks: vec![table] });
    }
    if !plan.warnings.is_empty() {
        let (title, items) = ("Warnings of the plan".to_owned(), plan.warnings.clone());
        blocks.push(Block::Doubts { title, items });
    }
    blocks
}
