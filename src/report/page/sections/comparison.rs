//! Comparisons of repeated runs: the ratios, and which differences are significant.

use crate::compare::{Comparison, FigureRow, FindingAnswer, GroupPair};
use crate::report::compare::{figure, significance, times, value};
use crate::report::page::block::{ReportBlock, Table, TableCell, TableColumn, TextTone};
use crate::report::page::material::{LabelledDocument, ReportMaterial};

/// The section.
pub(super) fn blocks(material: &ReportMaterial) -> Vec<ReportBlock> {
    material.comparisons.iter().flat_map(comparison_blocks).collect()
}

fn comparison_blocks(comparison: &LabelledDocument<Comparison>) -> Vec<ReportBlock> {
    let mut blocks = Vec::new();
    let runs: Vec<String> = comparison.document.doubts().collect();
    for pair in &comparison.document.pairs {
        blocks.push(ReportBlock::Heading(format!("{} against {}", pair.other, pair.base)));
        let doubts = pair.doubts.iter().map(ToString::to_string);
        let items: Vec<String> = doubts.chain(runs.iter().cloned()).collect();
        if !items.is_empty() {
            let title = format!("Doubtful: {}", comparison.label);
            blocks.push(ReportBlock::Doubts { title, items });
        }
        blocks.push(ReportBlock::Table(figures(pair)));
        if !pair.differences.is_empty() {
            blocks.push(ReportBlock::Table(differences(pair)));
        }
        if !pair.notes.is_empty() {
            let notes = pair.notes.iter().map(ToString::to_string);
            blocks.push(ReportBlock::List(notes.collect()));
        }
    }
    blocks
}

fn differences(pair: &GroupPair) -> Table {
    let names = ["what", pair.base.as_str(), pair.other.as_str()];
    let rows = pair.differences.iter().map(|difference| {
        [&difference.what, &difference.base, &difference.other].map(TableCell::new).to_vec()
    });
    Table {
        caption: "Other differences".to_owned(),
        columns: names.map(TableColumn::words).to_vec(),
        rows: rows.collect(),
    }
}

fn figure_row(row: &FigureRow) -> Vec<TableCell> {
    let tone = match (row.finding.answer, row.is_better()) {
        (FindingAnswer::Differs, Some(true)) => TextTone::Good,
        (FindingAnswer::Differs, _) => TextTone::Bad,
        (FindingAnswer::NotShown, _) => TextTone::Plain,
        (FindingAnswer::Unknown, _) => TextTone::Doubt,
    };
    vec![
        TableCell::new(figure(row)),
        TableCell::new(&row.subject),
        TableCell::new(value(row, row.base.value)),
        TableCell::new(value(row, row.other.value)),
        row.ratio.map_or_else(TableCell::unknown, |ratio| TableCell::new(times(ratio))),
        TableCell::toned(tone, significance(row)),
        TableCell::new(row.finding.reasons()),
    ]
}

fn figures(pair: &GroupPair) -> Table {
    let mut columns = vec![TableColumn::words("figure"), TableColumn::words("of")];
    columns.extend([pair.base.as_str(), pair.other.as_str(), "times"].map(TableColumn::numbers));
    columns.extend(["significant", "why unknown"].map(TableColumn::words));
    let caption = format!("{} against {}", pair.other, pair.base);
    Table { caption, columns, rows: pair.rows.iter().map(figure_row).collect() }
}
