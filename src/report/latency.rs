//! Latency → text: the worst first, then a row for each thread. Pure.

use super::table::{Align, lay_out, span};
use crate::latency::{Latency, Series};
use crate::verify::Gate;
use std::fmt::Write;

/// What a few words are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// Holds.
    Good,
    /// Does not.
    Bad,
    /// Nobody can say.
    Doubt,
    /// A heading.
    Head,
}

/// How many of the longest are told.
const MOMENTS: usize = 5;

/// The text; `paint` gives words their colour.
#[must_use]
pub fn text(latency: &Latency, paint: &dyn Fn(Word, &str) -> String) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(text, "{}", headline(latency, paint));
    text.push('\n');
    text.push_str(&threads(latency));
    text.push_str(&moments(latency));
    text.push_str(&over(latency));
    for line in circumstances(latency) {
        let _ = writeln!(text, "{line}");
    }
    for doubt in doubts(latency) {
        let _ = writeln!(text, "{}: {doubt}", paint(Word::Doubt, "doubtful"));
    }
    for note in &latency.notes {
        let _ = writeln!(text, "note: {note}");
    }
    for gate in &latency.gates {
        let (tone, word) = match gate.held {
            Some(true) => (Word::Good, "holds"),
            Some(false) => (Word::Bad, "does not hold"),
            None => (Word::Doubt, "unknown"),
        };
        let found = found(latency, gate);
        let _ = writeln!(text, "{}: {}, found {found}", gate.limit, paint(tone, word));
    }
    text
}

/// What was found, readable and exact: `9.64 ms (9635321ns)`.
#[must_use]
pub fn found(latency: &Latency, gate: &Gate) -> String {
    match latency.worst() {
        Some((_, worst)) => format!("{} ({})", span(worst.late_ns), gate.found),
        None => gate.found.clone(),
    }
}

fn headline(latency: &Latency, paint: &dyn Fn(Word, &str) -> String) -> String {
    let Some((series, worst)) = latency.worst() else {
        let words = paint(Word::Doubt, "nothing was measured");
        return format!("{words} ({})", latency.instrument);
    };
    let stopped = if latency.stopped { ", stopped before its time" } else { "" };
    format!(
        "{} on CPU {}, {} after the beginning ({}, {} measured{stopped})",
        paint(Word::Head, &format!("Worst {}", span(worst.late_ns))),
        place(series),
        span(worst.at_ns),
        latency.instrument,
        span(latency.span_ns),
    )
}

/// `3`, `3 (irq)` where a wakeup is measured in stages.
fn place(series: &Series) -> String {
    let stage = series.stage.as_ref().map_or_else(String::new, |stage| format!(" ({stage})"));
    format!("{}{stage}", series.cpu)
}

fn threads(latency: &Latency) -> String {
    let head = ["CPU", "period", "policy", "worst", "99.9 %", "99 %", "median", "least"];
    let more = ["max jitter", "samples", "missed"];
    let mut rows = vec![head.iter().chain(&more).map(|word| (*word).to_owned()).collect()];
    for series in &latency.series {
        let some = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), span);
        rows.push(vec![
            place(series),
            period(series),
            series.policy.replace("SCHED_", ""),
            some(series.max_ns),
            some(percentile(series, 99.9)),
            some(percentile(series, 99.0)),
            some(percentile(series, 50.0)),
            some(series.min_ns),
            some(series.jitter_ns),
            series.samples.to_string(),
            series.missed.to_string(),
        ]);
    }
    use Align::{Left, Right};
    let columns = [Right, Right, Left, Right, Right, Right, Right, Right, Right, Right, Right];
    lay_out("  ", &columns, &rows)
}

/// `1.00 ms`, `-` for a thread that never sleeps.
fn period(series: &Series) -> String {
    if series.period_ns == 0 { "-".to_owned() } else { span(series.period_ns) }
}

/// Which thread it is.
fn thread(series: &Series) -> String {
    match series.period_ns {
        0 => format!("CPU {}", place(series)),
        period_ns => format!("CPU {}, {}", place(series), span(period_ns)),
    }
}

fn percentile(series: &Series, percent: f64) -> Option<u64> {
    let same = |found: f64| (found - percent).abs() < 1e-6;
    series.percentiles.iter().find(|one| same(one.percent)).map(|one| one.ns)
}

/// The longest of all threads with their times.
fn moments(latency: &Latency) -> String {
    let mut all: Vec<(&Series, _)> = latency
        .series
        .iter()
        .flat_map(|series| series.worst.iter().map(move |worst| (series, *worst)))
        .collect();
    all.sort_by_key(|(_, worst)| std::cmp::Reverse(worst.late_ns));
    all.truncate(MOMENTS);
    if all.is_empty() {
        return String::new();
    }
    let row = |(series, worst): &(&Series, crate::latency::Worst)| {
        let at = format!("at {}", span(worst.at_ns));
        vec![span(worst.late_ns), at, thread(series)]
    };
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    let columns = [Align::Right, Align::Left, Align::Left];
    format!("\nThe longest\n{}", lay_out("  ", &columns, &rows))
}

fn over(latency: &Latency) -> String {
    let mut rows = Vec::new();
    for series in &latency.series {
        for over in &series.over {
            rows.push(vec![
                format!("> {}", span(over.limit_ns)),
                thread(series),
                over.count.to_string(),
                format!("{:.4} %", over.percent),
            ]);
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let columns = [Align::Left, Align::Left, Align::Right, Align::Right];
    format!("\nOver a limit\n{}", lay_out("  ", &columns, &rows))
}

/// What kept others away, and the clock.
fn circumstances(latency: &Latency) -> Vec<String> {
    let isolation = &latency.isolation;
    let shield = match (&isolation.shield, isolation.held) {
        (None, _) => "no shield of cpushield's".to_owned(),
        (Some(name), Some(true)) => format!("shield {name}, in force at every look"),
        (Some(name), Some(false)) => format!("shield {name}, which did not stay in force"),
        (Some(name), None) => format!("shield {name}, by affinities alone"),
    };
    let list = |name: &str, cpus: &Option<cpushield_linux::CpuSet>| {
        cpus.as_ref().filter(|cpus| !cpus.is_empty()).map(|cpus| format!("; {name}: {cpus}"))
    };
    let isolated = list("isolated at boot", &isolation.isolated).unwrap_or_default();
    let nohz = list("nohz_full", &isolation.nohz_full).unwrap_or_default();
    let setting = &latency.setting;
    let clock = format!(
        "{} by {}, {} a look",
        setting.clock,
        setting.clocksource.as_deref().unwrap_or("unknown"),
        span(setting.clock_read_ns)
    );
    let mut kernel = setting.kernel.clone().unwrap_or_else(|| "unknown".to_owned());
    if setting.realtime == Some(true) {
        kernel.push_str(" (PREEMPT_RT)");
    }
    if let Some(hypervisor) = &setting.hypervisor {
        kernel.push_str(&format!(", guest of {hypervisor}"));
    }
    vec![
        String::new(),
        format!("isolation: {shield}{isolated}{nohz}"),
        format!("clock: {clock}"),
        format!("kernel: {kernel}"),
    ]
}

/// Every doubt once, with its thread.
fn doubts(latency: &Latency) -> Vec<String> {
    let mut doubts = latency.doubts.clone();
    doubts.extend(latency.isolation.broken.iter().map(|why| format!("the shield, {why}")));
    for series in &latency.series {
        let thread = thread(series);
        doubts.extend(series.doubts.iter().map(|doubt| format!("{thread}: {doubt}")));
    }
    doubts
}
