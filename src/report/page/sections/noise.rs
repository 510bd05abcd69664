//! What interrupts: the rate of each cause in each observation, each CPU, and the blind spots.

use crate::causes::Cause;
use crate::documents::evidence::{Evidence, WitnessKind};
use crate::report::blocks::{
    BarChart, BarRow, Drawing, Picture, ReportBlock, Table, TableCell, TableColumn, TextTone, words,
};
use crate::report::page::material::{LabelledDocument, ReportMaterial, WatchWithVerdict};
use crate::report::table::span;
use crate::report::verdict::{WatchedRun, blind_spot_block};

/// The section.
pub(super) fn blocks(material: &ReportMaterial) -> Vec<ReportBlock> {
    let observations = &material.observations;
    if observations.is_empty() {
        return Vec::new();
    }
    let mut blocks = Vec::new();
    match causes(observations).as_slice() {
        [] => blocks
            .push(ReportBlock::Text("No witness saw an interruption of these CPUs.".to_owned())),
        causes => blocks.push(ReportBlock::Picture(Box::new(picture(observations, causes)))),
    }
    blocks.push(ReportBlock::Table(gaps(observations)));
    let runs: Vec<WatchedRun<'_>> = observations.iter().map(LabelledDocument::run).collect();
    blocks.extend(runs.iter().filter_map(WatchedRun::breach_block));
    for run in &runs {
        let name = run.name;
        let title = format!("Each CPU and witness: {name}");
        // The title has the name.
        let run = WatchedRun { name: "", ..*run };
        let mut inner = run.cpu_blocks();
        inner.push(run.witness_block());
        // A list of all tables, as screen readers have, shows the caption alone.
        for block in &mut inner {
            if let ReportBlock::Table(table) = block {
                table.caption = format!("{} ({name})", table.caption);
            }
        }
        blocks.push(ReportBlock::Fold { title, blocks: inner });
    }
    blocks.extend(blind_spot_block(&runs));
    blocks
}

/// The causes that any observation contains, the most frequent first.
fn causes(observations: &[LabelledDocument<WatchWithVerdict>]) -> Vec<Cause> {
    let mut causes = Cause::ALL.to_vec();
    causes.retain(|cause| {
        observations.iter().any(|o| count(&o.document.evidence, *cause).is_some_and(|n| n > 0))
    });
    causes
        .sort_by(|a, b| highest_rate(observations, *b).total_cmp(&highest_rate(observations, *a)));
    causes
}

/// The highest rate of a cause in any observation.
fn highest_rate(observations: &[LabelledDocument<WatchWithVerdict>], cause: Cause) -> f64 {
    let rates = observations.iter().filter_map(|o| per_second(&o.document.evidence, cause));
    rates.fold(0.0, f64::max)
}

/// The number of interruptions by a cause, including nested ones; `None` when no witness could
/// count them.
fn count(evidence: &Evidence, cause: Cause) -> Option<u64> {
    let all = evidence.cpus.iter().flat_map(|cpu| &cpu.interruptions);
    let mut counts = all.filter(|seen| seen.cause == cause).peekable();
    let is_seen = counts.peek().is_some();
    // Without a trace, a cause that the counters do not list may still have occurred.
    let is_certain = match cause {
        Cause::Smi => has_witness(evidence, WitnessKind::Firmware),
        Cause::Steal => evidence.cpus.iter().all(|cpu| cpu.steal_ns.is_some()),
        _ => has_witness(evidence, WitnessKind::Trace),
    };
    (is_seen || is_certain).then(|| counts.map(|seen| seen.count + seen.nested).sum())
}

fn has_witness(evidence: &Evidence, kind: WitnessKind) -> bool {
    evidence.witnesses.iter().any(|witness| witness.kind == kind && witness.absent.is_none())
}

/// The rate of a cause per second and CPU.
fn per_second(evidence: &Evidence, cause: Cause) -> Option<f64> {
    let n = count(evidence, cause)?;
    let cpus = words::float(evidence.cpus.len() as u64);
    let is_watched = evidence.span_ns > 0 && cpus > 0.0;
    is_watched.then(|| words::float(n) * 1e9 / words::float(evidence.span_ns) / cpus)
}

fn picture(observations: &[LabelledDocument<WatchWithVerdict>], causes: &[Cause]) -> Picture {
    let rows: Vec<BarRow> = causes
        .iter()
        .map(|cause| BarRow {
            label: cause.name().to_owned(),
            amounts: observations
                .iter()
                .map(|observation| per_second(&observation.document.evidence, *cause))
                .collect(),
        })
        .collect();
    let mut columns = vec![TableColumn::words("cause")];
    columns.extend(
        observations
            .iter()
            .map(|observation| TableColumn::numbers(format!("{}, 1/s", observation.label))),
    );
    columns.push(TableColumn::words("what it is"));
    let table_rows = causes.iter().zip(&rows).map(|(cause, row)| {
        let mut cells = vec![TableCell::new(cause.name())];
        cells.extend(row.amounts.iter().map(amount_cell));
        cells.push(TableCell::new(cause.summary()));
        cells
    });
    let table = Table {
        caption: "Interruptions per CPU per second, by cause".to_owned(),
        columns,
        rows: table_rows.collect(),
        ..Table::default()
    };
    let series: Vec<String> =
        observations.iter().map(|observation| observation.label.clone()).collect();
    Picture {
        id: "noise".to_owned(),
        title: "Interruptions per second, by cause".to_owned(),
        about: format!(
            "Bars for {} causes, one bar for each run: {}.",
            causes.len(),
            series.join(", ")
        ),
        how: "Per CPU, on a logarithmic scale: every grey line is ten times the one before it. \
              Shorter is quieter. \u{201c}none\u{201d}: watched, but not seen; \
              \u{201c}unknown\u{201d}: could not be watched."
            .to_owned(),
        drawing: Drawing::Bars(BarChart { unit: "/s".to_owned(), series, rows }),
        table,
    }
}

fn amount_cell(amount: &Option<f64>) -> TableCell {
    match amount {
        Some(0.0) => TableCell::toned(TextTone::Good, "none"),
        amount => TableCell::known(amount.map(words::plain)),
    }
}

/// The entries and the gaps of each CPU.
fn gaps(observations: &[LabelledDocument<WatchWithVerdict>]) -> Table {
    let gaps = ["gaps", "unexplained", "longest gap", "lost to gaps", "longest stretch"];
    let numbers = [&["CPU", "kernel entries"][..], &gaps].concat();
    let columns = TableColumn::words_and_numbers(&["run"], &numbers);
    let mut rows = Vec::new();
    for observation in observations {
        for cpu in &observation.document.evidence.cpus {
            let gaps = cpu.gaps.as_ref();
            let unexplained = cpu.joined.as_ref().map(|joined| joined.unexplained.count);
            let unexplained = match unexplained {
                Some(n) if n > 0 => TableCell::toned(TextTone::Doubt, words::grouped(n)),
                known => TableCell::known(known.map(words::grouped)),
            };
            rows.push(vec![
                TableCell::new(&observation.label),
                TableCell::new(cpu.cpu),
                TableCell::known(cpu.entries.map(words::grouped)),
                TableCell::known(gaps.map(|gaps| words::grouped(gaps.count))),
                unexplained,
                TableCell::known(gaps.map(|gaps| span(gaps.max_ns))),
                TableCell::known(gaps.map(|gaps| span(gaps.sum_ns))),
                TableCell::known(cpu.longest_ns.map(span)),
            ]);
        }
    }
    Table::new("Time that each CPU lost", columns, rows)
}
