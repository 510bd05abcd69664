//! How late threads are: each thread, histograms over each other, the worst of each moment, the
//! longest with their times, and what loads got done meanwhile.

use super::histograms;
use crate::latency::{LatencyMeasurement, ThreadSeries, WorstLatency};
use crate::report::latency::describe_cause;
use crate::report::page::block::{Picture, ReportBlock, Table, TableCell, TableColumn, TextTone};
use crate::report::page::material::{LabelledDocument, ReportMaterial};
use crate::report::page::words;
use crate::report::table::span;

/// How many of the longest are told of each kind.
const MOMENTS: usize = 5;

/// The section.
pub(super) fn blocks(material: &ReportMaterial) -> Vec<ReportBlock> {
    let all = &material.latencies;
    if all.is_empty() {
        return Vec::new();
    }
    let mut blocks = vec![ReportBlock::Table(threads(all))];
    let over = over(all);
    if !over.rows.is_empty() {
        blocks.push(ReportBlock::Table(over));
    }
    for (n, (instrument, role)) in kinds(material).iter().enumerate() {
        let chosen = histograms::ChosenThreads { all, instrument, role, nth: n };
        let pictures: Vec<Picture> =
            [chosen.histogram(), chosen.timeline()].into_iter().flatten().collect();
        if !pictures.is_empty() {
            blocks.push(ReportBlock::Heading(capital(&kind(instrument, role))));
        }
        blocks.extend(pictures.into_iter().map(|picture| ReportBlock::Picture(Box::new(picture))));
    }
    blocks.push(ReportBlock::Table(moments(all)));
    blocks.push(ReportBlock::Table(circumstances(all)));
    let loads = loads(all);
    if !loads.rows.is_empty() {
        blocks.push(ReportBlock::Table(loads));
    }
    let notes = all.iter().flat_map(|it| {
        it.it.notes.iter().map(|note| format!("{}: {note}", it.label)).collect::<Vec<_>>()
    });
    let notes: Vec<String> = notes.collect();
    if !notes.is_empty() {
        blocks.push(ReportBlock::List(notes));
    }
    blocks
}

/// Instruments with what their threads do, in the order they were given. Figures of two kinds are
/// never taken together: stages of a wakeup are not.
pub(super) fn kinds(material: &ReportMaterial) -> Vec<(String, String)> {
    let mut kinds = Vec::new();
    for latency in &material.latencies {
        let mut series: Vec<&ThreadSeries> = latency.it.series.iter().collect();
        series.sort_by_key(|one| one.period_ns);
        for one in series {
            let kind = (latency.it.instrument.clone(), one.role());
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
    }
    kinds
}

/// `timer, threads of 1ms`.
pub(super) fn kind(instrument: &str, role: &str) -> String {
    format!("{instrument}, {role}")
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    first + chars.as_str()
}

/// Which thread it is.
pub(super) fn thread(series: &ThreadSeries) -> String {
    let stage = series.stage.as_ref().map_or_else(String::new, |stage| format!(" ({stage})"));
    match series.period_ns {
        0 => format!("CPU {}{stage}", series.cpu),
        ns => format!("CPU {}, {}{stage}", series.cpu, words::time(words::float(ns))),
    }
}

fn threads(all: &[LabelledDocument<LatencyMeasurement>]) -> Table {
    let mut columns =
        vec![TableColumn::words("run"), TableColumn::words("thread"), TableColumn::words("policy")];
    let names = ["worst", "99.99 %", "99.9 %", "99 %", "median", "least", "max jitter"];
    columns.extend(names.map(TableColumn::numbers));
    columns.extend(["samples", "missed"].map(TableColumn::numbers));
    let mut rows = Vec::new();
    for latency in all {
        for series in &latency.it.series {
            // A percentile that so few values cannot tell is none.
            let some = |ns: Option<u64>| TableCell::new(ns.map_or_else(|| "–".to_owned(), span));
            let worst =
                series.max_ns.map_or_else(TableCell::unknown, |ns| TableCell::new(span(ns)));
            let missed = match series.missed {
                0 => TableCell::new("0"),
                n => TableCell::toned(TextTone::Bad, words::grouped(n)),
            };
            let mut row = vec![TableCell::new(&latency.label), TableCell::new(thread(series))];
            row.push(TableCell::new(series.policy.replace("SCHED_", "")));
            row.push(worst);
            row.extend([99.99, 99.9, 99.0, 50.0].map(|p| some(series.percentile(p))));
            row.extend([some(series.min_ns), some(series.jitter_ns)]);
            row.extend([TableCell::new(words::grouped(series.samples)), missed]);
            rows.push(row);
        }
    }
    Table { caption: "Each thread, worst first".to_owned(), columns, rows }
}

fn over(all: &[LabelledDocument<LatencyMeasurement>]) -> Table {
    let mut columns = vec![TableColumn::words("run"), TableColumn::words("thread")];
    columns.extend(["longer than", "how many", "of all"].map(TableColumn::numbers));
    let mut rows = Vec::new();
    for latency in all {
        for series in &latency.it.series {
            rows.extend(series.over.iter().map(|over| {
                let limit = words::time(words::float(over.limit_ns));
                let count = match over.count {
                    0 => TableCell::toned(TextTone::Good, "none"),
                    n => TableCell::new(words::grouped(n)),
                };
                let part = TableCell::new(format!("{:.4} %", over.percent));
                let thread = TableCell::new(thread(series));
                vec![TableCell::new(&latency.label), thread, TableCell::new(limit), count, part]
            }));
        }
    }
    Table { caption: "Latencies over a limit".to_owned(), columns, rows }
}

/// The longest of all threads with their times.
fn moments(all: &[LabelledDocument<LatencyMeasurement>]) -> Table {
    let asked = all.iter().any(|latency| latency.it.tracing.asked);
    let mut rows = Vec::new();
    for latency in all {
        let of = |series| -> Vec<(&ThreadSeries, &WorstLatency)> {
            let series: &ThreadSeries = series;
            series.worst.iter().map(|worst| (series, worst)).collect()
        };
        let mut worst: Vec<_> = latency.it.series.iter().flat_map(of).collect();
        worst.sort_by_key(|(_, worst)| std::cmp::Reverse(worst.late_ns));
        rows.extend(worst.into_iter().take(MOMENTS).map(|(series, worst)| {
            let times = [worst.late_ns, worst.at_ns].map(|ns| TableCell::new(span(ns)));
            let mut row = vec![TableCell::new(&latency.label)];
            row.extend(times);
            row.push(TableCell::new(thread(series)));
            row.extend(asked.then(|| meanwhile(worst)));
            row
        }));
    }
    let mut columns = vec![
        TableColumn::words("run"),
        TableColumn::numbers("latency"),
        TableColumn::numbers("after the beginning"),
        TableColumn::words("thread"),
    ];
    columns.extend(asked.then(|| TableColumn::words("what ran meanwhile")));
    let caption = format!("The longest, at most {MOMENTS} of each");
    Table { caption, columns, rows }
}

/// What ran on the CPU while a thread waited.
fn meanwhile(worst: &WorstLatency) -> TableCell {
    match &worst.why {
        None => TableCell::unknown(),
        Some(why) if why.unknown.is_some() => {
            TableCell::toned(TextTone::Doubt, describe_cause(why, worst.late_ns))
        }
        Some(why) => TableCell::new(describe_cause(why, worst.late_ns)),
    }
}

/// What kept others away, and by which clock.
fn circumstances(all: &[LabelledDocument<LatencyMeasurement>]) -> Table {
    let columns = ["run", "shield", "isolated at boot", "nohz_full", "clock", "clock read"];
    let row = |latency: &LabelledDocument<LatencyMeasurement>| {
        let (isolation, setting) = (&latency.it.isolation, &latency.it.setting);
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
                format!("{name}, by affinities alone: not checked"),
            ),
        };
        let cpus = |cpus: &Option<cpushield_linux::CpuSet>| match cpus {
            None => TableCell::new("not reported by this kernel"),
            Some(cpus) if cpus.is_empty() => TableCell::new("none"),
            Some(cpus) => TableCell::new(format!("CPU {cpus}")),
        };
        let source = setting.clocksource.as_deref().unwrap_or("unknown");
        vec![
            TableCell::new(&latency.label),
            shield,
            cpus(&isolation.isolated),
            cpus(&isolation.nohz_full),
            TableCell::new(format!("{} ({source})", setting.clock)),
            TableCell::new(span(setting.clock_read_ns)),
        ]
    };
    Table {
        caption: "What kept others away, and by which clock".to_owned(),
        columns: columns.map(TableColumn::words).to_vec(),
        rows: all.iter().map(row).collect(),
    }
}

/// What else the machine was given to do, and what that came to: the price of the shield.
fn loads(all: &[LabelledDocument<LatencyMeasurement>]) -> Table {
    let mut rows = Vec::new();
    for latency in all {
        rows.extend(latency.it.loads.iter().map(|load| {
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
        ["of", "load", "got done", "on CPU", "what it does"].map(TableColumn::words).to_vec();
    Table { caption: "What the rest of the machine got done meanwhile".to_owned(), columns, rows }
}
