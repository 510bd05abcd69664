//! Comparisons of repeated runs: ratios, and what of the difference is more than chance.

use crate::compare::{Comparison, FigureRow, FindingAnswer, GroupPair};
use crate::report::compare::{figure, significance, times, value};
use crate::report::page::block::{ReportBlock, Table, TableCell, TableColumn, TextTone};
use crate::report::page::material::{LabelledDocument, ReportMaterial};

/// The section.
pub(super) fn blocks(material: &ReportMaterial) -> Vec<ReportBlock> {
    material.comparisons.iter().flat_map(of).collect()
}

fn of(comparison: &LabelledDocument<Comparison>) -> Vec<ReportBlock> {
    let it = &comparison.it;
    let mut blocks = Vec::new();
    let runs: Vec<String> = it.doubts().collect();
    for pair in &it.pairs {
        blocks.push(ReportBlock::Heading(format!("{} against {}", pair.other, pair.base)));
        let items: Vec<String> = pair.doubts.iter().chain(&runs).cloned().collect();
        if !items.is_empty() {
            let title = format!("Doubtful: {}", comparison.label);
            blocks.push(ReportBlock::Doubts { title, items });
        }
        blocks.push(ReportBlock::Table(figures(pair)));
        if !pair.differences.is_empty() {
            let row = |it: &crate::compare::SetupDifference| {
                vec![TableCell::new(&it.what), TableCell::new(&it.base), TableCell::new(&it.other)]
            };
            let names = ["what", pair.base.as_str(), pair.other.as_str()];
            let columns = names.map(TableColumn::words).to_vec();
            let rows = pair.differences.iter().map(row).collect();
            let caption = "What else was different".to_owned();
            blocks.push(ReportBlock::Table(Table { caption, columns, rows }));
        }
        if !pair.notes.is_empty() {
            blocks.push(ReportBlock::List(pair.notes.clone()));
        }
    }
    blocks
}

fn figures(pair: &GroupPair) -> Table {
    let row = |row: &FigureRow| {
        let tone = match (row.finding.answer, row.is_better()) {
            (FindingAnswer::Differs, Some(true)) => TextTone::Good,
            (FindingAnswer::Differs, _) => TextTone::Bad,
            (FindingAnswer::NotShown, _) => TextTone::Plain,
            (FindingAnswer::Unknown, _) => TextTone::Doubt,
        };
        let why = row.finding.why.join("; ");
        vec![
            TableCell::new(figure(row)),
            TableCell::new(&row.subject),
            TableCell::new(value(row, row.base.value)),
            TableCell::new(value(row, row.other.value)),
            row.ratio.map_or_else(TableCell::unknown, |ratio| TableCell::new(times(ratio))),
            TableCell::toned(tone, significance(row)),
            TableCell::new(why),
        ]
    };
    let mut columns = vec![TableColumn::words("figure"), TableColumn::words("of")];
    columns.extend([pair.base.as_str(), pair.other.as_str(), "times"].map(TableColumn::numbers));
    columns.extend(["significant", "why not known"].map(TableColumn::words));
    let caption = format!("{} against {}", pair.other, pair.base);
    Table { caption, columns, rows: pair.rows.iter().map(row).collect() }
}
