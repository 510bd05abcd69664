//! Comparisons of repeated runs: ratios, and what of the difference is more than chance.

use crate::compare::{Answer, Comparison, Pair, Row};
use crate::report::compare::{chance, figure, times, value};
use crate::report::page::block::{Block, Cell, Column, Table, Tone};
use crate::report::page::material::{Labelled, Material};

/// The section.
pub(super) fn blocks(material: &Material) -> Vec<Block> {
    material.comparisons.iter().flat_map(of).collect()
}

fn of(comparison: &Labelled<Comparison>) -> Vec<Block> {
    let it = &comparison.it;
    let mut blocks = Vec::new();
    let runs: Vec<String> = it.doubts().collect();
    for pair in &it.pairs {
        blocks.push(Block::Heading(format!("{} against {}", pair.other, pair.base)));
        let items: Vec<String> = pair.doubts.iter().chain(&runs).cloned().collect();
        if !items.is_empty() {
            let title = format!("Doubtful: {}", comparison.label);
            blocks.push(Block::Doubts { title, items });
        }
        blocks.push(Block::Table(figures(pair)));
        if !pair.differences.is_empty() {
            let row = |it: &crate::compare::Difference| {
                vec![Cell::new(&it.what), Cell::new(&it.base), Cell::new(&it.other)]
            };
            let names = ["what", pair.base.as_str(), pair.other.as_str()];
            let columns = names.map(Column::words).to_vec();
            let rows = pair.differences.iter().map(row).collect();
            let caption = "What else was different".to_owned();
            blocks.push(Block::Table(Table { caption, columns, rows }));
        }
        if !pair.notes.is_empty() {
            blocks.push(Block::List(pair.notes.clone()));
        }
    }
    blocks
}

fn figures(pair: &Pair) -> Table {
    let row = |row: &Row| {
        let tone = match (row.finding.answer, row.is_better()) {
            (Answer::Differs, Some(true)) => Tone::Good,
            (Answer::Differs, _) => Tone::Bad,
            (Answer::NotShown, _) => Tone::Plain,
            (Answer::Unknown, _) => Tone::Doubt,
        };
        let why = row.finding.why.join("; ");
        vec![
            Cell::new(figure(row)),
            Cell::new(&row.subject),
            Cell::new(value(row, row.base.value)),
            Cell::new(value(row, row.other.value)),
            row.ratio.map_or_else(Cell::unknown, |ratio| Cell::new(times(ratio))),
            Cell::toned(tone, chance(row)),
            Cell::new(why),
        ]
    };
    let mut columns = vec![Column::words("figure"), Column::words("of")];
    columns.extend([pair.base.as_str(), pair.other.as_str(), "times"].map(Column::numbers));
    columns.extend(["significant", "why not known"].map(Column::words));
    let caption = format!("{} against {}", pair.other, pair.base);
    Table { caption, columns, rows: pair.rows.iter().map(row).collect() }
}
