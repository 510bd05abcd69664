//! What interrupts: the rate of each cause in each observation, the culprits, and the blind spots.

use crate::causes::{Cause, Culprit, known};
use crate::report::blocks::words;
use crate::report::blocks::{
    Amount, BarChart, BarRow, Drawing, Picture, ReportBlock, Table, TableCell, TableColumn,
    TextTone,
};
use crate::report::page::material::{LabelledDocument, ReportMaterial, WatchWithVerdict};
use crate::report::table::span;
use crate::report::verdict::when;
use crate::verify::{Breach, BreachNode, Evidence, WitnessKind};

/// Rows that a table of culprits lists; the others are counted.
const ROWS_MAX: usize = 40;

/// The section.
pub(super) fn blocks(material: &ReportMaterial) -> Vec<ReportBlock> {
    let observations = &material.observations;
    if observations.is_empty() {
        return Vec::new();
    }
    let mut blocks = Vec::new();
    match causes(observations).as_slice() {
        [] => blocks.push(ReportBlock::Text("No interruption of these CPUs was seen.".to_owned())),
        causes => blocks.push(ReportBlock::Picture(Box::new(picture(observations, causes)))),
    }
    blocks.push(ReportBlock::Table(gaps(observations)));
    for observation in observations {
        let evidence = &observation.document.evidence;
        if let Some(breach) = &evidence.breach {
            let at = when(breach, evidence.began_s);
            blocks.push(breach_block(&observation.label, breach, &at));
        }
    }
    for observation in observations {
        let table = culprits(observation);
        if !table.rows.is_empty() {
            let title = format!("Culprits: {}", observation.label);
            blocks.push(ReportBlock::Fold { title, blocks: vec![ReportBlock::Table(table)] });
        }
    }
    let blind_spots = blind_spots(observations);
    if !blind_spots.is_empty() {
        let title = "Not visible to the witnesses".to_owned();
        blocks.push(ReportBlock::Doubts { title, items: blind_spots });
    }
    blocks
}

/// The name of a witness.
pub(super) fn witness(kind: WitnessKind) -> &'static str {
    match kind {
        WitnessKind::Trace => "the kernel's trace",
        WitnessKind::Counters => "the kernel's counters",
        WitnessKind::EventCounters => "perf's event counters",
        WitnessKind::Sampler => "the gap sampler",
        WitnessKind::Firmware => "the SMI counter",
    }
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
    let rates = observations.iter().map(|observation| {
        match per_second(&observation.document.evidence, cause) {
            Amount::Known(rate) => rate,
            Amount::Unknown => 0.0,
        }
    });
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
fn per_second(evidence: &Evidence, cause: Cause) -> Amount {
    match count(evidence, cause) {
        None => Amount::Unknown,
        Some(_) if evidence.span_ns == 0 || evidence.cpus.is_empty() => Amount::Unknown,
        Some(n) => {
            let cpus = words::float(evidence.cpus.len() as u64);
            Amount::Known(words::float(n) * 1e9 / words::float(evidence.span_ns) / cpus)
        }
    }
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
        caption: "Interruptions per CPU and second, by cause".to_owned(),
        columns,
        rows: table_rows.collect(),
        ..Table::default()
    };
    let series: Vec<String> =
        observations.iter().map(|observation| observation.label.clone()).collect();
    Picture {
        id: "noise".to_owned(),
        title: "Interruptions per second, by cause".to_owned(),
        about: format!("Bars for {} causes, one each for: {}.", causes.len(), series.join(", ")),
        how: "Per CPU, on a logarithmic scale: every grey line is ten times the one before it. \
              Shorter is quieter. \u{201c}none\u{201d} was watched and not seen; \
              \u{201c}unknown\u{201d} could not be watched."
            .to_owned(),
        drawing: Drawing::Bars(BarChart { unit: "/s".to_owned(), series, rows }),
        table,
    }
}

fn amount_cell(amount: &Amount) -> TableCell {
    match amount {
        Amount::Known(0.0) => TableCell::toned(TextTone::Good, "none"),
        Amount::Known(n) => TableCell::new(words::plain(*n)),
        Amount::Unknown => TableCell::unknown(),
    }
}

/// The entries and the gaps of each CPU.
fn gaps(observations: &[LabelledDocument<WatchWithVerdict>]) -> Table {
    let mut columns = vec![TableColumn::words("run"), TableColumn::numbers("CPU")];
    let names = ["kernel entries", "gaps", "longest gap", "lost to gaps", "longest stretch"];
    columns.extend(names.map(TableColumn::numbers));
    columns.push(TableColumn::words("explained by the trace"));
    let mut rows = Vec::new();
    for observation in observations {
        for cpu in &observation.document.evidence.cpus {
            let gaps = match &cpu.gaps {
                Some(gaps) => [words::grouped(gaps.count), span(gaps.max_ns), span(gaps.sum_ns)]
                    .map(TableCell::new),
                None => [(); 3].map(|()| TableCell::unknown()),
            };
            let explained = cpu.joined.as_ref().map_or_else(TableCell::unknown, |joined| {
                let all = joined.explained.count + joined.unexplained.count;
                match joined.unexplained.count {
                    0 => TableCell::new(format!("all {all}")),
                    unexplained => TableCell::toned(
                        TextTone::Doubt,
                        format!(
                            "{} of {all}; {unexplained} unexplained, the longest {}",
                            joined.explained.count,
                            span(joined.unexplained.max_ns)
                        ),
                    ),
                }
            });
            let entries = cpu.entries.map(words::grouped);
            let mut row =
                vec![TableCell::new(&observation.label), TableCell::new(cpu.cpu.to_string())];
            row.push(entries.map_or_else(TableCell::unknown, TableCell::new));
            row.extend(gaps);
            row.push(cpu.longest_ns.map(span).map_or_else(TableCell::unknown, TableCell::new));
            row.push(explained);
            rows.push(row);
        }
    }
    Table { caption: "Time that each CPU lost".to_owned(), columns, rows, ..Table::default() }
}

fn culprits(observation: &LabelledDocument<WatchWithVerdict>) -> Table {
    let evidence = &observation.document.evidence;
    let names = ["CPU", "count", "inside others", "time", "longest"];
    let mut columns = vec![TableColumn::words("culprit"), TableColumn::words("cause")];
    columns.extend(names.map(TableColumn::numbers));
    columns.push(TableColumn::words("seen by"));
    let mut rows = Vec::new();
    for cpu in &evidence.cpus {
        for seen in &cpu.interruptions {
            let [time, longest] = [seen.time_ns, seen.max_ns]
                .map(|ns| TableCell::new(ns.map_or_else(|| "–".to_owned(), span)));
            rows.push(vec![
                TableCell::new(describe_culprit(&seen.culprit)),
                TableCell::new(seen.cause.name()),
                TableCell::new(cpu.cpu.to_string()),
                TableCell::new(words::grouped(seen.count)),
                TableCell::new(words::grouped(seen.nested)),
                time,
                longest,
                TableCell::new(witness(seen.witness)),
            ]);
        }
    }
    let more = rows.len().saturating_sub(ROWS_MAX);
    rows.truncate(ROWS_MAX);
    let more =
        if more == 0 { String::new() } else { format!(" ({more} more are in the document)") };
    let caption = format!("Culprits: {}{more}", observation.label);
    Table { caption, columns, rows, ..Table::default() }
}

/// The culprit with its purpose where that is known.
pub(super) fn describe_culprit(culprit: &Culprit) -> String {
    known::describe(culprit).unwrap_or_else(|| "unknown".to_owned())
}

/// The events at the first breach of a limit.
fn breach_block(label: &str, breach: &Breach, at: &str) -> ReportBlock {
    let Breach { cpu, what, tree, .. } = breach;
    let mut text = String::new();
    for BreachNode { depth, kind, cause, culprit, after_ns, took_ns, stack } in tree {
        let indent = 2 * depth;
        let kind = if *depth == 0 { cause.name() } else { kind };
        let (after, took) = (span(*after_ns), span(*took_ns));
        text.push_str(&format!(
            "{:indent$}{kind} {}: after {after}, {took}\n",
            "",
            describe_culprit(culprit)
        ));
        if !stack.is_empty() {
            text.push_str(&format!("{:indent$}  stack: {}\n", "", stack.join(" < ")));
        }
    }
    if tree.is_empty() {
        text.push_str("the trace has no events at that moment\n");
    }
    ReportBlock::Code { caption: format!("{label}: first breach, CPU {cpu} at {at}: {what}"), text }
}

/// What the witnesses cannot see on this machine, without duplicates.
fn blind_spots(observations: &[LabelledDocument<WatchWithVerdict>]) -> Vec<String> {
    let mut lines = Vec::new();
    for witness in
        observations.iter().flat_map(|observation| &observation.document.evidence.witnesses)
    {
        for blind in &witness.blind {
            let line = format!("{}: {blind}", self::witness(witness.kind));
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    lines
}
