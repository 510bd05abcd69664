//! How late threads are: each thread, histograms over each other, the worst of each moment, the
//! longest with their times, and what loads got done meanwhile.

use super::histograms;
use crate::latency::{Latency, Series, Worst};
use crate::report::latency::cause;
use crate::report::page::block::{Block, Cell, Column, Picture, Table, Tone};
use crate::report::page::material::{Labelled, Material};
use crate::report::page::words;
use crate::report::table::span;

/// How many of the longest are told of each kind.
const MOMENTS: usize = 5;

/// The section.
pub(super) fn blocks(material: &Material) -> Vec<Block> {
    let all = &material.latencies;
    if all.is_empty() {
        return Vec::new();
    }
    let mut blocks = vec![Block::Table(threads(all))];
    let over = over(all);
    if !over.rows.is_empty() {
        blocks.push(Block::Table(over));
    }
    for (n, (instrument, role)) in kinds(material).iter().enumerate() {
        let chosen = histograms::Chosen { all, instrument, role, nth: n };
        let pictures: Vec<Picture> =
            [chosen.histogram(), chosen.timeline()].into_iter().flatten().collect();
        if !pictures.is_empty() {
            blocks.push(Block::Heading(capital(&kind(instrument, role))));
        }
        blocks.extend(pictures.into_iter().map(|picture| Block::Picture(Box::new(picture))));
    }
    blocks.push(Block::Table(moments(all)));
    blocks.push(Block::Table(circumstances(all)));
    let loads = loads(all);
    if !loads.rows.is_empty() {
        blocks.push(Block::Table(loads));
    }
    let notes = all.iter().flat_map(|it| {
        it.it.notes.iter().map(|note| format!("{}: {note}", it.label)).collect::<Vec<_>>()
    });
    let notes: Vec<String> = notes.collect();
    if !notes.is_empty() {
        blocks.push(Block::List(notes));
    }
    blocks
}

/// Instruments with what their threads do, in the order they were given. Figures of two kinds are
/// never taken together: stages of a wakeup are not.
pub(super) fn kinds(material: &Material) -> Vec<(String, String)> {
    let mut kinds = Vec::new();
    for latency in &material.latencies {
        let mut series: Vec<&Series> = latency.it.series.iter().collect();
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
pub(super) fn thread(series: &Series) -> String {
    let stage = series.stage.as_ref().map_or_else(String::new, |stage| format!(" ({stage})"));
    match series.period_ns {
        0 => format!("CPU {}{stage}", series.cpu),
        ns => format!("CPU {}, {}{stage}", series.cpu, words::time(words::float(ns))),
    }
}

fn threads(all: &[Labelled<Latency>]) -> Table {
    let mut columns = vec![Column::words("run"), Column::words("thread"), Column::words("policy")];
    let names = ["worst", "99.99 %", "99.9 %", "99 %", "median", "least", "max jitter"];
    columns.extend(names.map(Column::numbers));
    columns.extend(["samples", "missed"].map(Column::numbers));
    let mut rows = Vec::new();
    for latency in all {
        for series in &latency.it.series {
            // A percentile that so few values cannot tell is none.
            let some = |ns: Option<u64>| Cell::new(ns.map_or_else(|| "–".to_owned(), span));
            let worst = series.max_ns.map_or_else(Cell::unknown, |ns| Cell::new(span(ns)));
            let missed = match series.missed {
                0 => Cell::new("0"),
                n => Cell::toned(Tone::Bad, words::grouped(n)),
            };
            let mut row = vec![Cell::new(&latency.label), Cell::new(thread(series))];
            row.push(Cell::new(series.policy.replace("SCHED_", "")));
            row.push(worst);
            row.extend([99.99, 99.9, 99.0, 50.0].map(|p| some(series.percentile(p))));
            row.extend([some(series.min_ns), some(series.jitter_ns)]);
            row.extend([Cell::new(words::grouped(series.samples)), missed]);
            rows.push(row);
        }
    }
    Table { caption: "Each thread, worst first".to_owned(), columns, rows }
}

fn over(all: &[Labelled<Latency>]) -> Table {
    let mut columns = vec![Column::words("run"), Column::words("thread")];
    columns.extend(["longer than", "how many", "of all"].map(Column::numbers));
    let mut rows = Vec::new();
    for latency in all {
        for series in &latency.it.series {
            rows.extend(series.over.iter().map(|over| {
                let limit = words::time(words::float(over.limit_ns));
                let count = match over.count {
                    0 => Cell::toned(Tone::Good, "none"),
                    n => Cell::new(words::grouped(n)),
                };
                let part = Cell::new(format!("{:.4} %", over.percent));
                let thread = Cell::new(thread(series));
                vec![Cell::new(&latency.label), thread, Cell::new(limit), count, part]
            }));
        }
    }
    Table { caption: "Latencies over a limit".to_owned(), columns, rows }
}

/// The longest of all threads with their times.
fn moments(all: &[Labelled<Latency>]) -> Table {
    let asked = all.iter().any(|latency| latency.it.tracing.asked);
    let mut rows = Vec::new();
    for latency in all {
        let of = |series| -> Vec<(&Series, &Worst)> {
            let series: &Series = series;
            series.worst.iter().map(|worst| (series, worst)).collect()
        };
        let mut worst: Vec<_> = latency.it.series.iter().flat_map(of).collect();
        worst.sort_by_key(|(_, worst)| std::cmp::Reverse(worst.late_ns));
        rows.extend(worst.into_iter().take(MOMENTS).map(|(series, worst)| {
            let times = [worst.late_ns, worst.at_ns].map(|ns| Cell::new(span(ns)));
            let mut row = vec![Cell::new(&latency.label)];
            row.extend(times);
            row.push(Cell::new(thread(series)));
            row.extend(asked.then(|| meanwhile(worst)));
            row
        }));
    }
    let mut columns = vec![
        Column::words("run"),
        Column::numbers("latency"),
        Column::numbers("after the beginning"),
        Column::words("thread"),
    ];
    columns.extend(asked.then(|| Column::words("what ran meanwhile")));
    let caption = format!("The longest, at most {MOMENTS} of each");
    Table { caption, columns, rows }
}

/// What ran on the CPU while a thread waited.
fn meanwhile(worst: &Worst) -> Cell {
    match &worst.why {
        None => Cell::unknown(),
        Some(why) if why.unknown.is_some() => Cell::toned(Tone::Doubt, cause(why, worst.late_ns)),
        Some(why) => Cell::new(cause(why, worst.late_ns)),
    }
}

/// What kept others away, and by which clock.
fn circumstances(all: &[Labelled<Latency>]) -> Table {
    let columns = ["run", "shield", "isolated at boot", "nohz_full", "clock", "clock read"];
    let row = |latency: &Labelled<Latency>| {
        let (isolation, setting) = (&latency.it.isolation, &latency.it.setting);
        let shield = match (&isolation.shield, isolation.held) {
            (None, _) => Cell::new("none"),
            (Some(name), Some(true)) => {
                Cell::toned(Tone::Good, format!("{name}, in force at every check"))
            }
            (Some(name), Some(false)) => {
                Cell::toned(Tone::Bad, format!("{name}, did not stay in force"))
            }
            (Some(name), None) => {
                Cell::toned(Tone::Doubt, format!("{name}, by affinities alone: not checked"))
            }
        };
        let cpus = |cpus: &Option<cpushield_linux::CpuSet>| match cpus {
            None => Cell::new("not reported by this kernel"),
            Some(cpus) if cpus.is_empty() => Cell::new("none"),
            Some(cpus) => Cell::new(format!("CPU {cpus}")),
        };
        let source = setting.clocksource.as_deref().unwrap_or("unknown");
        vec![
            Cell::new(&latency.label),
            shield,
            cpus(&isolation.isolated),
            cpus(&isolation.nohz_full),
            Cell::new(format!("{} ({source})", setting.clock)),
            Cell::new(span(setting.clock_read_ns)),
        ]
    };
    Table {
        caption: "What kept others away, and by which clock".to_owned(),
        columns: columns.map(Column::words).to_vec(),
        rows: all.iter().map(row).collect(),
    }
}

/// What else the machine was given to do, and what that came to: the price of the shield.
fn loads(all: &[Labelled<Latency>]) -> Table {
    let mut rows = Vec::new();
    for latency in all {
        rows.extend(latency.it.loads.iter().map(|load| {
            let done = load.per_s.map_or_else(Cell::unknown, |n| {
                Cell::new(format!("{} {}/s", words::plain(n), load.unit))
            });
            let cpus = Cell::new(load.cpus.to_string());
            vec![
                Cell::new(&latency.label),
                Cell::new(&load.name),
                done,
                cpus,
                Cell::new(&load.what),
            ]
        }));
    }
    let columns = ["of", "load", "got done", "on CPU", "what it does"].map(Column::words).to_vec();
    Table { caption: "What the rest of the machine got done meanwhile".to_owned(), columns, rows }
}
