//! Latency → blocks: the worst latency first, then a row for each thread, the longest latencies
//! with their causes, the loads and the conditions. Pure.

use super::blocks::words;
use super::blocks::{
    ReportBlock, Table, TableCell, TableColumn, TableHead, TextLine, TextPart, TextTone,
};
use super::limits::{limit_block, limit_row};
use super::table::{span, span_or_dash};
use super::verdict::describe_remedy;
use crate::documents::count_text::joined;
use crate::documents::evidence::{Gate, GateFinding, TimeBreakdown, TimeShare};
use crate::documents::latency::{
    LatencyDoubt, LatencyMeasurement, MeasuredPower, ThreadSeries, WorstLatency, memory_size,
};

/// How many of the longest latencies of each run are shown.
const LONGEST_MAX: usize = 5;

/// The unit that is abbreviated to one letter.
const BYTES: &str = "bytes";

/// A measurement with its name among several.
#[derive(Debug, Clone, Copy)]
pub struct LatencyRun<'a> {
    /// The name; empty for a single measurement, whose tables then need no column for it.
    pub name: &'a str,
    /// The measurement.
    pub latency: &'a LatencyMeasurement,
}

/// The blocks of one measurement.
#[must_use]
pub fn blocks(latency: &LatencyMeasurement) -> Vec<ReportBlock> {
    let runs = [LatencyRun { name: "", latency }];
    let mut blocks = vec![ReportBlock::line(headline(latency))];
    blocks.extend(thread_blocks(&runs));
    blocks.extend(background_blocks(&runs));
    blocks.extend(ReportBlock::doubts("Doubtful", latency.every_doubt()));
    let rows = latency.gates.iter().map(|gate| limit_row("", gate, &measured_value(gate)));
    blocks.extend(limit_block(rows.collect()));
    blocks
}

/// The figures of the threads: percentiles, and latencies over a limit.
#[must_use]
pub fn thread_blocks(runs: &[LatencyRun<'_>]) -> Vec<ReportBlock> {
    let tables = [threads(runs), over_limits(runs)].into_iter();
    tables.filter_map(|table| without_empty_names(table, runs).into_block()).collect()
}

/// The longest latencies with their causes, the loads, and the conditions of the measurements.
#[must_use]
pub fn background_blocks(runs: &[LatencyRun<'_>]) -> Vec<ReportBlock> {
    let mut blocks = Vec::new();
    let longest = longest(runs);
    if !longest.rows.is_empty() {
        blocks.push(ReportBlock::Table(without_empty_names(longest, runs)));
        blocks.push(ReportBlock::Lines(about_causes(runs)));
    }
    let loads = loads(runs);
    if !loads.rows.is_empty() {
        blocks.push(ReportBlock::Table(without_empty_names(loads, runs)));
        blocks.push(ReportBlock::Lines(describe_loads(runs)));
    }
    blocks.push(ReportBlock::Table(conditions(runs)));
    let mut lines = Vec::new();
    for run in runs {
        let assessments = super::linuxcnc::lines(run.latency);
        lines.extend(assessments.into_iter().map(|line| run.line(&line)));
        for series in &run.latency.series {
            let smis = series.smis.map(|smis| format!("SMIs on CPU {}: {smis}", series.cpu));
            lines.extend(smis.map(|line| run.line(&line)));
        }
        lines.extend(run.latency.notes.iter().map(|note| run.line(&format!("note: {note}"))));
    }
    blocks.push(ReportBlock::Lines(lines));
    blocks.retain(|block| !matches!(block, ReportBlock::Lines(lines) if lines.is_empty()));
    blocks
}

impl LatencyRun<'_> {
    /// A line about this run, with its name where it has one.
    fn line(&self, text: &str) -> TextLine {
        match self.name {
            "" => TextLine::new(text),
            name => TextLine::new(format!("{name}: {text}")),
        }
    }

    /// The longest latencies, the longest one first.
    fn longest(&self) -> Vec<(&ThreadSeries, &WorstLatency)> {
        let threads = self.latency.series.iter();
        let mut all: Vec<(&ThreadSeries, &WorstLatency)> = threads
            .flat_map(|series| series.worst.iter().map(move |worst| (series, worst)))
            .collect();
        all.sort_by_key(|(_, worst)| std::cmp::Reverse(worst.late_ns));
        all.truncate(LONGEST_MAX);
        all
    }
}

/// The table without its first column when the only run has no name.
fn without_empty_names(table: Table, runs: &[LatencyRun<'_>]) -> Table {
    match runs {
        [LatencyRun { name: "", .. }] => Table {
            columns: table.columns.into_iter().skip(1).collect(),
            rows: table.rows.into_iter().map(|row| row.into_iter().skip(1).collect()).collect(),
            ..table
        },
        _ => table,
    }
}

/// The value that a limit was judged by, rounded and exact: `9.64 ms (9635321ns)`.
#[must_use]
pub fn measured_value(gate: &Gate<LatencyDoubt>) -> String {
    match &gate.found {
        GateFinding::Latency { longest_ns } => format!("{} ({})", span(*longest_ns), gate.found),
        found => found.to_string(),
    }
}

fn headline(latency: &LatencyMeasurement) -> TextLine {
    let instrument = &latency.instrument;
    let parts = match (latency.worst(), latency.silent_below_ns()) {
        (Some((series, worst)), _) => {
            let stopped = if latency.stopped { ", stopped early" } else { "" };
            let rest = format!(
                " on CPU {}{}, {} after the start ({instrument}, {} measured{stopped})",
                series.cpu,
                series.stage_text(),
                span(worst.at_ns),
                span(latency.span_ns),
            );
            let worst = format!("Worst {}", span(worst.late_ns));
            vec![TextPart::toned(TextTone::Head, worst), TextPart::new(rest)]
        }
        (None, Some(least)) => {
            let none = format!("No latency of {} or more", span(least));
            let rest = format!(" in {} ({instrument})", span(latency.span_ns));
            vec![TextPart::toned(TextTone::Head, none), TextPart::new(rest)]
        }
        (None, None) => vec![
            TextPart::toned(TextTone::Doubt, "nothing was measured"),
            TextPart::new(format!(" ({instrument})")),
        ],
    };
    TextLine::of(parts)
}

/// `CPU 3, 1 ms`: the CPU and the period of a thread.
#[must_use]
pub fn describe_thread(series: &ThreadSeries) -> String {
    let period = match series.period_ns {
        0 => String::new(),
        ns => format!(", {}", words::time(words::float(ns))),
    };
    format!("CPU {}{period}{}", series.cpu, series.stage_text())
}

fn threads(runs: &[LatencyRun<'_>]) -> Table {
    let mut columns = TableColumn::words_and_numbers(
        &["run", "thread", "policy"],
        &["worst", "99.99 %", "99.9 %", "99 %", "median", "average", "minimum", "max jitter"],
    );
    columns.extend(["samples", "missed"].map(TableColumn::numbers));
    let mut rows = Vec::new();
    for run in runs {
        for series in &run.latency.series {
            let missed = match series.missed {
                0 => TableCell::new("0"),
                n => TableCell::toned(TextTone::Bad, words::grouped(n)),
            };
            let mut row = vec![TableCell::new(run.name), TableCell::new(describe_thread(series))];
            row.push(TableCell::new(format!("{:#}", series.policy)));
            row.push(TableCell::known(series.max_ns.map(span)));
            row.extend([99.99, 99.9, 99.0, 50.0].map(|p| span_cell(series.percentile(p))));
            row.extend([span_cell(series.mean_ns), span_cell(series.min_ns)]);
            row.push(span_cell(series.jitter_ns));
            row.extend([TableCell::new(words::grouped(series.samples)), missed]);
            rows.push(row);
        }
    }
    Table::new("Latencies of each thread", columns, rows)
}

/// A time span; `-` for a percentile that needs more samples.
fn span_cell(ns: Option<u64>) -> TableCell {
    TableCell::new(span_or_dash(ns))
}

fn over_limits(runs: &[LatencyRun<'_>]) -> Table {
    let numbers = ["longer than", "count", "of all"];
    let columns = TableColumn::words_and_numbers(&["run", "thread"], &numbers);
    let mut rows = Vec::new();
    for run in runs {
        for series in &run.latency.series {
            rows.extend(series.over.iter().map(|over| {
                let count = match over.count {
                    0 => TableCell::toned(TextTone::Good, "none"),
                    n => TableCell::new(words::grouped(n)),
                };
                vec![
                    TableCell::new(run.name),
                    TableCell::new(describe_thread(series)),
                    TableCell::new(words::time(words::float(over.limit_ns))),
                    count,
                    TableCell::new(format!("{:.4} %", over.percent)),
                ]
            }));
        }
    }
    Table::new("Latencies over a limit", columns, rows)
}

/// The longest latencies of all threads with their times and, where traced, their causes.
fn longest(runs: &[LatencyRun<'_>]) -> Table {
    let traced = runs.iter().any(|run| run.latency.tracing.asked);
    let mut rows = Vec::new();
    for run in runs {
        rows.extend(run.longest().into_iter().map(|(series, worst)| {
            let mut row = vec![TableCell::new(run.name)];
            row.extend([worst.late_ns, worst.at_ns].map(|ns| TableCell::new(span(ns))));
            row.push(TableCell::new(describe_thread(series)));
            row.extend(traced.then(|| cause_cell(worst)));
            row
        }));
    }
    let mut columns = TableColumn::words_and_numbers(&["run"], &["latency", "time since start"]);
    columns.push(TableColumn::words("thread"));
    columns.extend(traced.then(|| TableColumn::words("cause")));
    let caption = match runs {
        [_] => "The longest latencies".to_owned(),
        _ => format!("The longest latencies, up to {LONGEST_MAX} of each run"),
    };
    Table::new(caption, columns, rows)
}

/// What ran on the CPU while a thread waited.
fn cause_cell(worst: &WorstLatency) -> TableCell {
    match &worst.why {
        None => TableCell::unknown(),
        Some(why) => {
            let tone = if why.unknown.is_some() { TextTone::Doubt } else { TextTone::Plain };
            TableCell::toned(tone, describe_cause(why, worst.late_ns))
        }
    }
}

/// What takes less than one part in this many of a latency is not its cause.
const PARTS: u64 = 20;

/// Where the time went: `900.0 µs workqueue vmstat_update, 100.0 µs other`.
fn describe_cause(why: &TimeBreakdown, late_ns: u64) -> String {
    if let Some(unknown) = &why.unknown {
        return format!("cause unknown: {unknown}");
    }
    let shares = why.shares.iter().map(|share| (share.took_ns, describe_culprit(share)));
    let unseen = (why.unseen_ns, "without a trace event".to_owned());
    let mut parts: Vec<(u64, String)> = shares.chain([unseen]).collect();
    parts.retain(|(ns, _)| *ns > 0 && *ns >= late_ns / PARTS);
    parts.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    let named: u64 = parts.iter().map(|(ns, _)| ns).sum();
    let mut words: Vec<String> =
        parts.into_iter().map(|(ns, culprit)| format!("{} {culprit}", span(ns))).collect();
    words.push(format!("{} other", span(late_ns.saturating_sub(named))));
    words.join(", ")
}

fn describe_culprit(share: &TimeShare) -> String {
    format!("{} {}", share.cause, share.culprit).trim_end().to_owned()
}

/// How exact the times of the causes are, and how to remove the causes.
fn about_causes(runs: &[LatencyRun<'_>]) -> Vec<TextLine> {
    let longest = runs.iter().flat_map(LatencyRun::longest);
    let worst: Vec<&WorstLatency> = longest.map(|(_, worst)| worst).collect();
    let explained = worst.iter().filter_map(|worst| worst.why.as_ref());
    let error = explained.filter(|why| why.unknown.is_none()).map(|why| why.error_ns).max();
    let exact =
        error.map(|error| format!("(times of causes are accurate to within {})", span(error)));
    let exact = exact.map(|line| TextLine::new(line).below());
    exact.into_iter().chain(remedies(&worst)).collect()
}

/// How to remove the causes: each remedy once, with the culprits that it removes.
fn remedies(all: &[&WorstLatency]) -> Vec<TextLine> {
    let mut remedies: Vec<(String, Vec<String>)> = Vec::new();
    for worst in all {
        for share in worst.why.iter().flat_map(|why| &why.shares) {
            let is_cause = share.took_ns >= worst.late_ns / PARTS;
            let Some(remedy) = share.remedy.as_ref().filter(|_| is_cause) else { continue };
            let how = describe_remedy(remedy);
            let culprit = describe_culprit(share);
            match remedies.iter_mut().find(|(known, _)| *known == how) {
                Some((_, culprits)) if culprits.contains(&culprit) => {}
                Some((_, culprits)) => culprits.push(culprit),
                None => remedies.push((how, vec![culprit])),
            }
        }
    }
    let lines = remedies.into_iter().flat_map(|(how, culprits)| {
        let culprits = format!("removes {}", culprits.join(", "));
        [TextLine::new(how).below(), TextLine::new(culprits).below().below()]
    });
    lines.collect()
}

/// The loads that ran during the measurement: the price of the shield.
fn loads(runs: &[LatencyRun<'_>]) -> Table {
    let mut rows = Vec::new();
    for run in runs {
        rows.extend(run.latency.loads.iter().map(|load| {
            let unit = if load.unit == BYTES { BYTES } else { "" };
            vec![
                TableCell::new(run.name),
                TableCell::new(&load.name),
                TableCell::new(&load.cpus),
                amount_or_unknown(load.count.map(|n| n as f64), &load.unit),
                amount_or_unknown(load.per_s, unit),
            ]
        }));
    }
    let words = ["run", "load", "on CPU"];
    let columns = TableColumn::words_and_numbers(&words, &["work", "per second"]);
    Table::new("Loads", columns, rows)
}

/// What each load does, once.
fn describe_loads(runs: &[LatencyRun<'_>]) -> Vec<TextLine> {
    let mut lines = Vec::new();
    for load in runs.iter().flat_map(|run| &run.latency.loads) {
        let name = &load.name;
        let line = TextLine::new(format!("{name}: {}", load.what)).below();
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

fn amount_or_unknown(number: Option<f64>, unit: &str) -> TableCell {
    TableCell::known(number.map(|number| amount(number, unit)))
}

/// An amount with three digits: `1.25 GB`, `871 k messages`.
pub(super) fn amount(number: f64, unit: &str) -> String {
    let scales = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let scale = scales.into_iter().find(|(scale, _)| number >= *scale * 0.9995);
    let (scale, letter) = scale.unwrap_or((1.0, ""));
    let number = number / scale;
    let digits = match number {
        _ if letter.is_empty() && number.fract() == 0.0 => 0,
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    let words = match unit {
        BYTES => format!("{letter}B"),
        unit => joined([letter, unit].into_iter().filter(|word| !word.is_empty()), " "),
    };
    format!("{number:.digits$} {words}").trim_end().to_owned()
}

/// The name of a condition, and its cell for a run.
type ConditionRow = (&'static str, fn(&LatencyMeasurement) -> TableCell);

/// The isolation, the clock and the machine of each run. Figures can only be compared when the
/// machine that they were measured on is known.
fn conditions(runs: &[LatencyRun<'_>]) -> Table {
    let facts: [ConditionRow; 16] = [
        ("shield", shield),
        ("isolated at boot", |latency| TableCell::cpus(latency.isolation.isolated.as_ref())),
        ("nohz_full", |latency| TableCell::cpus(latency.isolation.nohz_full.as_ref())),
        ("clock", clock),
        ("clock read", |latency| TableCell::new(span(latency.setting.clock_read_ns))),
        ("spin read", spin_read),
        ("processor", |latency| TableCell::known(latency.setting.processor.clone())),
        ("kernel", kernel),
        ("CPUs online", |latency| TableCell::new(&latency.setting.online)),
        ("hypervisor", |latency| {
            TableCell::new(latency.setting.hypervisor.as_deref().unwrap_or("none"))
        }),
        ("memory", |latency| TableCell::known(latency.setting.memory_kib.map(memory_size))),
        ("governor", |latency| {
            TableCell::known(latency.setting.power.as_ref().map(MeasuredPower::governor_text))
        }),
        ("turbo", |latency| {
            TableCell::yes_or_no(latency.setting.power.as_ref().and_then(|power| power.turbo))
        }),
        ("idle states", |latency| {
            TableCell::known(latency.setting.power.as_ref().map(MeasuredPower::idle_text))
        }),
        ("stolen time", |latency| TableCell::known(latency.setting.steal_ns.map(span))),
        ("timer migration", |latency| TableCell::yes_or_no(latency.setting.timer_migration)),
    ];
    let rows = facts.into_iter().map(|(name, fact)| {
        let mut row = vec![TableCell::new(name)];
        row.extend(runs.iter().map(|run| fact(run.latency)));
        row
    });
    let rows = rows.filter(|row| row.iter().skip(1).any(|cell| !cell.text.is_empty())).collect();
    let head = match runs {
        [_] => TableHead::Caption,
        _ => TableHead::Whole,
    };
    let names = runs.iter().map(|run| if run.name.is_empty() { "value" } else { run.name });
    Table::new("Conditions", ["condition"].into_iter().chain(names), rows).with_head(head)
}

fn shield(latency: &LatencyMeasurement) -> TableCell {
    match (&latency.isolation.shield, latency.isolation.held) {
        (None, _) => TableCell::new("none"),
        (Some(name), Some(true)) => {
            TableCell::toned(TextTone::Good, format!("{name}, active at every check"))
        }
        (Some(name), Some(false)) => {
            TableCell::toned(TextTone::Bad, format!("{name}, did not stay active"))
        }
        (Some(name), None) => {
            TableCell::toned(TextTone::Doubt, format!("{name}, by affinities only: not checked"))
        }
    }
}

fn clock(latency: &LatencyMeasurement) -> TableCell {
    let source = latency.setting.clocksource.as_deref().unwrap_or("unknown");
    TableCell::new(format!("{} ({source})", latency.setting.clock))
}

/// The time of one read by the spinning instrument; empty for the others.
fn spin_read(latency: &LatencyMeasurement) -> TableCell {
    let slowest = latency.series.iter().filter_map(|series| series.look_ns).reduce(f64::max);
    slowest.map_or_else(TableCell::default, |ns| TableCell::new(format!("{ns:.1} ns")))
}

fn kernel(latency: &LatencyMeasurement) -> TableCell {
    let Some(kernel) = &latency.setting.kernel else { return TableCell::unknown() };
    match latency.setting.realtime {
        Some(true) => TableCell::new(format!("{kernel} (PREEMPT_RT)")),
        _ => TableCell::new(kernel),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causes::{Cause, Culprit};
    use crate::change::EffectTime;
    use crate::documents::evidence::UnknownBreakdown;
    use crate::documents::remedy::Remedy;

    fn share(cause: Cause, culprit: &str, took_ns: u64, how: Option<&str>) -> TimeShare {
        let remedy = how.map(|how| Remedy {
            tunable: how.to_owned(),
            when: EffectTime::Runtime,
            how: "do it".to_owned(),
        });
        TimeShare { cause, culprit: Culprit::shown(cause, culprit), took_ns, remedy }
    }

    #[test]
    fn a_cause_shows_its_times_and_short_parts_become_other() {
        let why = TimeBreakdown {
            shares: vec![
                share(Cause::Workqueue, "vmstat_update", 900_000, Some("vmstat")),
                share(Cause::Hrtimer, "hrtimer_wakeup", 7_000, Some("none")),
            ],
            unseen_ns: 100_000,
            rest_ns: 33_000,
            ..TimeBreakdown::default()
        };
        let all = "900.0 µs workqueue vmstat_update, 100.0 µs without a trace event, 40.0 µs other";
        assert_eq!(describe_cause(&why, 1_040_000), all);
        let lost = "cause unknown: the trace lost events at that time";
        let unknown = TimeBreakdown::unknown(UnknownBreakdown::EventsLost);
        assert_eq!(describe_cause(&unknown, 1_040_000), lost);
        assert_eq!(
            describe_cause(&TimeBreakdown { rest_ns: 500, ..TimeBreakdown::default() }, 500),
            "500 ns other"
        );
    }

    #[test]
    fn a_remedy_is_shown_once_with_all_that_it_removes() {
        let hog = |name: &str| share(Cause::UserTask, name, 900, Some("cpuset"));
        let short = share(Cause::Tick, "", 40, Some("nohz"));
        let why = TimeBreakdown {
            shares: vec![hog("a (1)"), hog("b (2)"), short],
            ..TimeBreakdown::default()
        };
        let worst = WorstLatency { at_ns: 0, late_ns: 1_000, why: Some(why) };
        let lines = [
            TextLine::new("cpuset: do it").below(),
            TextLine::new("removes user-task a (1), user-task b (2)").below().below(),
        ];
        assert_eq!(remedies(&[&worst, &worst]), lines);
    }

    #[test]
    fn amounts_have_three_digits_and_their_unit() {
        for (number, unit, wanted) in [
            (0.0, "calls", "0 calls"),
            (999.0, "calls", "999 calls"),
            (0.5, "calls", "0.50 calls"),
            (999.6, "messages", "1.00 k messages"),
            (12_345.0, "messages", "12.3 k messages"),
            (871_000_000.0, "bytes", "871 MB"),
            (1_250_000_000.0, "bytes", "1.25 GB"),
            (640.0, "bytes", "640 B"),
            (12_345.0, "", "12.3 k"),
            (3.0, "", "3"),
        ] {
            assert_eq!(amount(number, unit), wanted);
        }
    }
}
