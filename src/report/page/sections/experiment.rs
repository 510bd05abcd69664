//! Matrices of configurations and measurements: the worst of each cell, which row is best, what
//! each option does alone.

use crate::experiment::{EffectMeaning, Experiment, ExperimentState, RankedFigure};
use crate::report::page::block::{ReportBlock, Table, TableCell, TableColumn, TextTone};
use crate::report::page::material::{LabelledDocument, ReportMaterial};
use crate::report::page::words;
use crate::report::table::span;

/// The section.
pub(super) fn blocks(material: &ReportMaterial) -> Vec<ReportBlock> {
    material.experiments.iter().flat_map(of).collect()
}

fn of(experiment: &LabelledDocument<Experiment>) -> Vec<ReportBlock> {
    let it = &experiment.it;
    let mut blocks = vec![ReportBlock::Heading(it.name.clone())];
    let doubts = doubts(it);
    if !doubts.is_empty() {
        let title = "Doubtful or not measured".to_owned();
        blocks.push(ReportBlock::Doubts { title, items: doubts });
    }
    blocks.push(ReportBlock::Table(matrix(it)));
    let best: Vec<String> = it.best.iter().map(|best| which(it, best)).collect();
    if !best.is_empty() {
        blocks.push(ReportBlock::List(best));
    }
    let effects = effects(it);
    if !effects.rows.is_empty() {
        blocks.push(ReportBlock::Table(effects));
    }
    if !it.notes.is_empty() {
        blocks.push(ReportBlock::List(it.notes.clone()));
    }
    blocks
}

/// `LinuxCNC 25 µs, max jitter: no winner: 4 repetitions of each are needed`.
fn which(experiment: &Experiment, best: &crate::experiment::BestRow) -> String {
    let winner = best.winner.and_then(|row| experiment.rows.get(row));
    let found = winner.map_or_else(|| "no winner".to_owned(), |row| format!("{} wins", row.name));
    format!("{}: {found}: {}", name(experiment, (best.column, best.period_ns)), best.why)
}

fn name(experiment: &Experiment, (column, period_ns): (usize, u64)) -> String {
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

/// The worst of all repetitions, and the least of them where they differ.
fn matrix(experiment: &Experiment) -> Table {
    let tracks = experiment.tracks();
    let mut columns = vec![TableColumn::words("configuration")];
    columns.extend(tracks.iter().map(|track| TableColumn::numbers(name(experiment, *track))));
    let cell = |row: usize, track: (usize, u64)| {
        let figures = experiment.figures(row, track);
        let wins = |best: &crate::experiment::BestRow| {
            (best.column, best.period_ns) == track && best.winner == Some(row)
        };
        let tone = if experiment.best.iter().any(wins) { TextTone::Good } else { TextTone::Plain };
        match (figures.iter().min(), figures.iter().max()) {
            (Some(least), Some(most)) if least == most => TableCell::toned(tone, span(*most)),
            (Some(least), Some(most)) => {
                TableCell::toned(tone, format!("{} ({} at best)", span(*most), span(*least)))
            }
            _ => TableCell::toned(TextTone::Doubt, "not measured"),
        }
    };
    let row = |(n, row): (usize, &crate::experiment::ExperimentRow)| {
        let mut cells = vec![TableCell::new(&row.name)];
        cells.extend(tracks.iter().map(|track| cell(n, *track)));
        cells
    };
    let caption = format!("{}: the worst of {} repetitions", experiment.name, experiment.repeats);
    Table { caption, columns, rows: experiment.rows.iter().enumerate().map(row).collect() }
}

fn effects(experiment: &Experiment) -> Table {
    let row = |effect: &crate::experiment::OptionEffect| {
        let (tone, word) = match effect.verdict {
            EffectMeaning::Better => (TextTone::Good, "shorter"),
            EffectMeaning::Worse => (TextTone::Bad, "longer"),
            EffectMeaning::Chance => (TextTone::Plain, "chance explains it"),
            EffectMeaning::Unknown => (TextTone::Doubt, "unknown"),
        };
        let ratio = effect
            .ratio
            .map_or_else(TableCell::unknown, |ratio| TableCell::new(words::plain(ratio)));
        let of = TableCell::new(name(experiment, (effect.column, effect.period_ns)));
        let (option, word) = (TableCell::new(&effect.option), TableCell::toned(tone, word));
        vec![option, of, ratio, word, TableCell::new(&effect.why)]
    };
    let mut columns = vec![TableColumn::words("option"), TableColumn::words("of")];
    columns.push(TableColumn::numbers("times"));
    columns.extend(["it is", "how that is known"].map(TableColumn::words));
    let caption = "What each option does alone".to_owned();
    Table { caption, columns, rows: experiment.effects.iter().map(row).collect() }
}

fn doubts(experiment: &Experiment) -> Vec<String> {
    let mut doubts = Vec::new();
    match experiment.state {
        ExperimentState::Finished => {}
        ExperimentState::Unfinished => doubts.push("the experiment has not ended".to_owned()),
        ExperimentState::Stopped => {
            doubts.push("the experiment was stopped before its end".to_owned())
        }
    }
    for row in &experiment.rows {
        doubts.extend(row.missing.iter().map(|why| format!("{}: {why}", row.name)));
    }
    for cell in &experiment.cells {
        let row = experiment.rows.get(cell.row).map_or("", |row| row.name.as_str());
        let of_runs = cell.runs.iter().flat_map(|run| &run.doubts);
        let missing = cell.missing.iter().map(|missing| &missing.why);
        for doubt in of_runs.chain(missing).map(|why| format!("{row}: {why}")) {
            if !doubts.contains(&doubt) {
                doubts.push(doubt);
            }
        }
    }
    doubts
}
