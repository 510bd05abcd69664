//! Latencies: a row for each thread, overlaid histograms, the worst latency over time, the longest
//! latencies with their times, and the throughput of the loads.

use super::histograms;
use super::machine::reported_cpus;
use super::threads::{describe_thread, kind, kinds};
use crate::latency::{LatencyMeasurement, ThreadSeries, WorstLatency};
use crate::report::latency::describe_cause;
use crate::report::page::block::{Picture, ReportBlock, Table, TableCell, TableColumn, TextTone};
use crate::report::page::material::{LabelledDocument, ReportMaterial};
use crate::report::page::words;
use crate::report::table::span;

/// How many of the longest latencies of each document are shown.
const LONGEST_MAX: usize = 5;

/// The section.
pub(super) fn blocks(material: &ReportMaterial) -> Vec<ReportBlock> {
    let all = &material.latencies;
    if all.is_empty() {
        return Vec::new();
    }
    let mut blocks = vec![ReportBlock::Table(threads(all))];
    let over = over_limits(all);
    if !over.rows.is_empty() {
        blocks.push(ReportBlock::Table(over));
    }
    for (n, (instrument, role)) in kinds(material).iter().enumerate() {
        let chosen = histograms::ChosenThreads { all, instrument, role, nth: n };
        let pictures: Vec<Picture> =
            [chosen.histogram(), chosen.timeline()].into_iter().flatten().collect();
        if !pictures.is_empty() {
            blocks.push(ReportBlock::Heading(capitalize(&kind(instrument, role))));
        }
        blocks.extend(pictures.into_iter().map(|picture| ReportBlock::Picture(Box::new(picture))));
    }
    blocks.push(ReportBlock::Table(longest(all)));
    blocks.push(ReportBlock::Table(conditions(all)));
    let loads = loads(all);
    if !loads.rows.is_empty() {
        blocks.push(ReportBlock::Table(loads));
    }
    let mut notes = Vec::new();
    for latency in all {
        notes
            .extend(latency.document.notes.iter().map(|note| format!("{}: {note}", latency.label)));
    }
    if !notes.is_empty() {
        blocks.push(ReportBlock::List(notes));
    }
    blocks
}

fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    first + chars.as_str()
}

fn threads(all: &[LabelledDocument<LatencyMeasurement>]) -> Table {
    let mut columns =
        vec![TableColumn::words("run"), TableColumn::words("thread"), TableColumn::words("policy")];
    let names = ["worst", "99.99 %", "99.9 %", "99 %", "median", "least", "max jitter"];
    columns.extend(names.map(TableColumn::numbers));
    columns.extend(["samples", "missed"].map(TableColumn::numbers));
    let mut rows = Vec::new();
    for latency in all {
        for series in &latency.document.series {
            let worst =
                series.max_ns.map_or_else(TableCell::unknown, |ns| TableCell::new(span(ns)));
            let missed = match series.missed {
                0 => TableCell::new("0"),
                n => TableCell::toned(TextTone::Bad, words::grouped(n)),
            };
            let mut row =
                vec![TableCell::new(&latency.label), TableCell::new(describe_thread(series))];
            row.push(TableCell::new(series.policy.replace("SCHED_", "")));
            row.push(worst);
            row.extend([99.99, 99.9, 99.0, 50.0].map(|p| span_or_dash(series.percentile(p))));
            row.extend([span_or_dash(series.min_ns), span_or_dash(series.jitter_ns)]);
            row.extend([TableCell::new(words::grouped(series.samples)), missed]);
            rows.push(row);
        }
    }
    Table { caption: "Latencies of each thread".to_owned(), columns, rows, ..Table::default() }
}

/// A time span; `–` for a percentile that needs more samples.
fn span_or_dash(ns: Option<u64>) -> TableCell {
    TableCell::new(ns.map_or_else(|| "–".to_owned(), span))
}

fn over_limits(all: &[LabelledDocument<LatencyMeasurement>]) -> Table {
    let mut columns = vec![TableColumn::words("run"), TableColumn::words("thread")];
    columns.extend(["longer than", "count", "of all"].map(TableColumn::numbers));
    let mut rows = Vec::new();
    for latency in all {
        for series in &latency.document.series {
            rows.extend(series.over.iter().map(|over| {
                let limit = words::time(words::float(over.limit_ns));
                let count = match over.count {
                    0 => TableCell::toned(TextTone::Good, "none"),
                    n => TableCell::new(words::grouped(n)),
                };
                let part = TableCell::new(format!("{:.4} %", over.percent));
                let thread = TableCell::new(describe_thread(series));
                vec![TableCell::new(&latency.label), thread, TableCell::new(limit), count, part]
            }));
        }
    }
    Table { caption: "Latencies over a limit".to_owned(), columns, rows, ..Table::default() }
}

/// The longest latencies of all threads with their times and, where traced, their causes.
fn longest(all: &[LabelledDocument<LatencyMeasurement>]) -> Table {
    let traced = all.iter().any(|latency| latency.document.tracing.asked);
    let mut rows = Vec::new();
    for latency in all {
        let threads = latency.document.series.iter();
        let mut worst: Vec<(&ThreadSeries, &WorstLatency)> = threads
            .flat_map(|series| series.worst.iter().map(move |worst| (series, worst)))
            .collect();
        worst.sort_by_key(|(_, worst)| std::cmp::Reverse(worst.late_ns));
        rows.extend(worst.into_iter().take(LONGEST_MAX).map(|(series, worst)| {
            let times = [worst.late_ns, worst.at_ns].map(|ns| TableCell::new(span(ns)));
            let mut row = vec![TableCell::new(&latency.label)];
            row.extend(times);
            row.push(TableCell::new(describe_thread(series)));
            row.extend(traced.then(|| cause_cell(worst)));
            row
        }));
    }
    let mut columns = vec![
        TableColumn::words("run"),
        TableColumn::numbers("latency"),
        TableColumn::numbers("time since start"),
        TableColumn::words("thread"),
    ];
    columns.extend(traced.then(|| TableColumn::words("cause")));
    let caption = format!("The longest latencies, up to {LONGEST_MAX} of each run");
    Table { caption, columns, rows, ..Table::default() }
}

/// What ran on the CPU while a thread waited.
fn cause_cell(worst: &WorstLatency) -> TableCell {
    match &worst.why {
        None => TableCell::unknown(),
        Some(why) if why.unknown.is_some() => {
            TableCell::toned(TextTone::Doubt, describe_cause(why, worst.late_ns))
        }
        Some(why) => TableCell::new(describe_cause(why, worst.late_ns)),
    }
}

/// The isolation and the clock of each measurement.
fn conditions(all: &[LabelledDocument<LatencyMeasurement>]) -> Table {
    let columns = ["run", "shield", "isolated at boot", "nohz_full", "clock", "clock read"];
    let rows = all.iter().map(|latency| {
        let (isolation, setting) = (&latency.document.isolation, &latency.document.setting);
        let shield = match (&isolation.shield, isolation.held) {
            (None, _) => TableCell::new("none"),
            (Some(name), Some(true)) => {
                TableCell::toned(TextTone::Good, format!("{name}, in force at every check"))
            }
            (Some(name), Some(false)) => {
                TableCell::toned(TextTone::Bad, format!("{name}, did not stay in force"))
            }
            (Some(name), None) => TableCell::toned(
                TextTone::Doubt,
                format!("{name}, by affinities only: not checked"),
            ),
        };
        let source = setting.clocksource.as_deref().unwrap_or("unknown");
        vec![
            TableCell::new(&latency.label),
            shield,
            reported_cpus(isolation.isolated.as_ref()),
            reported_cpus(isolation.nohz_full.as_ref()),
            TableCell::new(format!("{} ({source})", setting.clock)),
            TableCell::new(span(setting.clock_read_ns)),
        ]
    });
    Table {
        caption: "Isolation and clock".to_owned(),
        columns: columns.map(TableColumn::words).to_vec(),
        rows: rows.collect(),
        ..Table::default()
    }
}

/// The throughput of the loads that ran during the measurement: the price of the shield.
fn loads(all: &[LabelledDocument<LatencyMeasurement>]) -> Table {
    let mut rows = Vec::new();
    for latency in all {
        rows.extend(latency.document.loads.iter().map(|load| {
            let done = load.per_s.map_or_else(TableCell::unknown, |n| {
                TableCell::new(format!("{} {}/s", words::plain(n), load.unit))
            });
            let cpus = TableCell::new(load.cpus.to_string());
            vec![
                TableCell::new(&latency.label),
                TableCell::new(&load.name),
                done,
                cpus,
                TableCell::new(&load.what),
            ]
        }));
    }
    let columns =
        ["run", "load", "throughput", "on CPU", "what it does"].map(TableColumn::words).to_vec();
    Table { caption: "Throughput of the loads".to_owned(), columns, rows, ..Table::default() }
}
