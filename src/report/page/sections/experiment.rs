//! Experiments: the worst figure of each cell, the best row, and the effect of each option alone.

use crate::experiment::{BestRow, EffectMeaning, Experiment, ExperimentState, RankedFigure};
use crate::report::page::block::{ReportBlock, Table, TableCell, TableColumn, TextTone};
use crate::report::page::material::ReportMaterial;
use crate::report::page::words;
use crate::report::table::span;

/// The section.
pub(super) fn blocks(material: &ReportMaterial) -> Vec<ReportBlock> {
    material.experiments.iter().flat_map(|e| experiment_blocks(&e.document)).collect()
}

fn experiment_blocks(experiment: &Experiment) -> Vec<ReportBlock> {
    let mut blocks = vec![ReportBlock::Heading(experiment.name.clone())];
    let doubts = doubts(experiment);
    if !doubts.is_empty() {
        let title = "Doubtful or not measured".to_owned();
        blocks.push(ReportBlock::Doubts { title, items: doubts });
    }
    blocks.push(ReportBlock::Table(matrix(experiment)));
    let best: Vec<String> =
        experiment.best.iter().map(|best| describe_best(experiment, best)).collect();
    if !best.is_empty() {
        blocks.push(ReportBlock::List(best));
    }
    let effects = effects(experiment);
    if !effects.rows.is_empty() {
        blocks.push(ReportBlock::Table(effects));
    }
    if !experiment.notes.is_empty() {
        let notes = experiment.notes.iter().map(ToString::to_string);
        blocks.push(ReportBlock::List(notes.collect()));
    }
    blocks
}

/// `LinuxCNC 25 µs, max jitter: no winner: 4 repetitions of each are needed`.
fn describe_best(experiment: &Experiment, best: &BestRow) -> String {
    let winner = best.winner.and_then(|row| experiment.rows.get(row));
    let result = winner.map_or_else(|| "no winner".to_owned(), |row| format!("{} wins", row.name));
    format!("{}: {result}: {}", column_name(experiment, (best.column, best.period_ns)), best.why)
}

fn column_name(experiment: &Experiment, (column, period_ns): (usize, u64)) -> String {
    let name = experiment.columns.get(column).map_or("", |column| column.name.as_str());
    let figure = match experiment.figure((column, period_ns)) {
        RankedFigure::MaxJitter => "max jitter",
        RankedFigure::Worst => "worst",
    };
    match period_ns {
        0 => format!("{name}, {figure}"),
        ns => format!("{name} {}, {figure}", words::time(words::float(ns))),
    }
}

/// The worst of all repetitions, with the best of them where they differ.
fn matrix(experiment: &Experiment) -> Table {
    let tracks = experiment.tracks();
    let mut columns = vec![TableColumn::words("configuration")];
    columns
        .extend(tracks.iter().map(|track| TableColumn::numbers(column_name(experiment, *track))));
    let rows = experiment.rows.iter().enumerate().map(|(n, row)| {
        let mut cells = vec![TableCell::new(&row.name)];
        cells.extend(tracks.iter().map(|track| figure_cell(experiment, n, *track)));
        cells
    });
    let caption = format!("{}: the worst of {} repetitions", experiment.name, experiment.repeats);
    Table { caption, columns, rows: rows.collect() }
}

fn figure_cell(experiment: &Experiment, row: usize, track: (usize, u64)) -> TableCell {
    let figures = experiment.figures(row, track);
    let wins = (experiment.best.iter())
        .any(|best| (best.column, best.period_ns) == track && best.winner == Some(row));
    let tone = if wins { TextTone::Good } else { TextTone::Plain };
    match (figures.iter().min(), figures.iter().max()) {
        (Some(least), Some(most)) if least == most => TableCell::toned(tone, span(*most)),
        (Some(least), Some(most)) => {
            TableCell::toned(tone, format!("{} ({} at best)", span(*most), span(*least)))
        }
        _ => TableCell::toned(TextTone::Doubt, "not measured"),
    }
}

fn effects(experiment: &Experiment) -> Table {
    let rows = experiment.effects.iter().map(|effect| {
        let (tone, word) = match effect.verdict {
            EffectMeaning::Better => (TextTone::Good, "shorter"),
            EffectMeaning::Worse => (TextTone::Bad, "longer"),
            EffectMeaning::Chance => (TextTone::Plain, "may be chance"),
            EffectMeaning::Unknown => (TextTone::Doubt, "unknown"),
        };
        let ratio = effect
            .ratio
            .map_or_else(TableCell::unknown, |ratio| TableCell::new(words::plain(ratio)));
        vec![
            TableCell::new(&effect.option),
            TableCell::new(column_name(experiment, (effect.column, effect.period_ns))),
            ratio,
            TableCell::toned(tone, word),
            TableCell::new(effect.why.to_string()),
        ]
    });
    let rows = rows.collect();
    let mut columns = vec![TableColumn::words("option"), TableColumn::words("measurement")];
    columns.push(TableColumn::numbers("ratio"));
    columns.extend(["latency", "evidence"].map(TableColumn::words));
    Table { caption: "The effect of each option alone".to_owned(), columns, rows }
}

fn doubts(experiment: &Experiment) -> Vec<String> {
    let mut doubts = Vec::new();
    match experiment.state {
        ExperimentState::Finished => {}
        ExperimentState::Unfinished => doubts.push("the experiment has not ended".to_owned()),
        ExperimentState::Stopped => doubts.push("the experiment was stopped early".to_owned()),
    }
    for row in &experiment.rows {
        doubts.extend(row.missing.iter().map(|why| format!("{}: {why}", row.name)));
    }
    for cell in &experiment.cells {
        let row = experiment.rows.get(cell.row).map_or("", |row| row.name.as_str());
        let run_doubts = cell.runs.iter().flat_map(|run| &run.doubts).map(ToString::to_string);
        let missing = cell.missing.iter().map(|missing| missing.why.to_string());
        for doubt in run_doubts.chain(missing).map(|why| format!("{row}: {why}")) {
            if !doubts.contains(&doubt) {
                doubts.push(doubt);
            }
        }
    }
    doubts
}
