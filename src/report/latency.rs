//! Latency → text: the worst latency first, then a row for each thread. Pure.

use super::page::block::{TextPainter, TextTone};
use super::table::{Align, lay_out, span};
use crate::change::EffectTime;
use crate::latency::{LatencyDoubt, LatencyMeasurement, ThreadSeries, WorstLatency};
use crate::verify::{Gate, TimeBreakdown, TimeShare};
use cpushield_linux::CpuSet;
use std::fmt::Write;

/// How many of the longest latencies are shown.
const LONGEST_MAX: usize = 5;

/// The unit that is abbreviated to one letter.
const BYTES: &str = "bytes";

/// The text; `paint` colours words.
#[must_use]
pub fn text(latency: &LatencyMeasurement, paint: TextPainter<'_>) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(text, "{}", headline(latency, paint));
    text.push('\n');
    text.push_str(&threads(latency));
    text.push_str(&longest(latency));
    text.push_str(&over_limits(latency));
    text.push_str(&loads(latency));
    let linuxcnc = super::linuxcnc::lines(latency);
    if !linuxcnc.is_empty() {
        let _ = writeln!(text, "\n{}", linuxcnc.join("\n"));
    }
    for line in conditions(latency) {
        let _ = writeln!(text, "{line}");
    }
    for series in &latency.series {
        if let Some(smis) = series.smis {
            let _ = writeln!(text, "SMIs of CPU {}: {smis}", series.cpu);
        }
    }
    for doubt in latency.every_doubt() {
        let _ = writeln!(text, "{}: {doubt}", paint(TextTone::Doubt, "doubtful"));
    }
    for note in &latency.notes {
        let _ = writeln!(text, "note: {note}");
    }
    for gate in &latency.gates {
        let (tone, word) = match gate.held {
            Some(true) => (TextTone::Good, "holds"),
            Some(false) => (TextTone::Bad, "does not hold"),
            None => (TextTone::Doubt, "unknown"),
        };
        let measured = measured_value(latency, gate);
        let _ = writeln!(text, "{}: {}, found {measured}", gate.limit, paint(tone, word));
    }
    text
}

/// The value that a limit was judged by, rounded and exact: `9.64 ms (9635321ns)`.
#[must_use]
pub fn measured_value(latency: &LatencyMeasurement, gate: &Gate<LatencyDoubt>) -> String {
    match latency.worst() {
        Some((_, worst)) => format!("{} ({})", span(worst.late_ns), gate.found),
        None => gate.found.clone(),
    }
}

fn headline(latency: &LatencyMeasurement, paint: TextPainter<'_>) -> String {
    let Some((series, worst)) = latency.worst() else {
        if let Some(least) = latency.silent_below_ns() {
            return format!(
                "{} in {} ({})",
                paint(TextTone::Head, &format!("No latency of {} or more", span(least))),
                span(latency.span_ns),
                latency.instrument
            );
        }
        let words = paint(TextTone::Doubt, "nothing was measured");
        return format!("{words} ({})", latency.instrument);
    };
    let stopped = if latency.stopped { ", stopped early" } else { "" };
    format!(
        "{} on CPU {}, {} after the start ({}, {} measured{stopped})",
        paint(TextTone::Head, &format!("Worst {}", span(worst.late_ns))),
        cpu_and_stage(series),
        span(worst.at_ns),
        latency.instrument,
        span(latency.span_ns),
    )
}

/// `3`, or `3 (irq)` where a wakeup is measured in stages.
fn cpu_and_stage(series: &ThreadSeries) -> String {
    let stage = series.stage.as_ref().map_or_else(String::new, |stage| format!(" ({stage})"));
    format!("{}{stage}", series.cpu)
}

fn threads(latency: &LatencyMeasurement) -> String {
    let head = ["CPU", "period", "policy", "worst", "99.9 %", "99 %", "median", "least"];
    let more = ["max jitter", "samples", "missed"];
    let mut rows = vec![head.iter().chain(&more).map(|word| (*word).to_owned()).collect()];
    for series in &latency.series {
        rows.push(vec![
            cpu_and_stage(series),
            period(series),
            series.policy.replace("SCHED_", ""),
            span_or_dash(series.max_ns),
            span_or_dash(series.percentile(99.9)),
            span_or_dash(series.percentile(99.0)),
            span_or_dash(series.percentile(50.0)),
            span_or_dash(series.min_ns),
            span_or_dash(series.jitter_ns),
            series.samples.to_string(),
            series.missed.to_string(),
        ]);
    }
    use Align::{Left, Right};
    let columns = [Right, Right, Left, Right, Right, Right, Right, Right, Right, Right, Right];
    lay_out("  ", &columns, &rows)
}

pub(super) fn span_or_dash(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), span)
}

/// `1.00 ms`, or `-` for a thread that never sleeps.
fn period(series: &ThreadSeries) -> String {
    if series.period_ns == 0 { "-".to_owned() } else { span(series.period_ns) }
}

/// `CPU 3, 1.00 ms`: the CPU and the period of a thread.
fn describe_thread(series: &ThreadSeries) -> String {
    match series.period_ns {
        0 => format!("CPU {}", cpu_and_stage(series)),
        period_ns => format!("CPU {}, {}", cpu_and_stage(series), span(period_ns)),
    }
}

/// The longest latencies of all threads with their times, and their causes where a trace ran.
fn longest(latency: &LatencyMeasurement) -> String {
    let mut all: Vec<(&ThreadSeries, &WorstLatency)> = latency
        .series
        .iter()
        .flat_map(|series| series.worst.iter().map(move |worst| (series, worst)))
        .collect();
    all.sort_by_key(|(_, worst)| std::cmp::Reverse(worst.late_ns));
    all.truncate(LONGEST_MAX);
    if all.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|(series, worst)| {
            let at = format!("at {}", span(worst.at_ns));
            let why = worst
                .why
                .as_ref()
                .map_or_else(String::new, |why| describe_cause(why, worst.late_ns));
            vec![span(worst.late_ns), at, describe_thread(series), why]
        })
        .collect();
    let columns = [Align::Right, Align::Left, Align::Left, Align::Left];
    let mut text = format!("\nLongest latencies\n{}", lay_out("  ", &columns, &rows));
    let explained = all.iter().filter_map(|(_, worst)| worst.why.as_ref());
    let error = explained.filter(|why| why.unknown.is_none()).map(|why| why.error_ns).max();
    if let Some(error) = error {
        let _ = writeln!(text, "  (times of causes are exact to {})", span(error));
    }
    let worst: Vec<&WorstLatency> = all.iter().map(|(_, worst)| *worst).collect();
    text.push_str(&remedies(&worst));
    text
}

/// What takes less than one part in this many of a latency is not its cause.
const PARTS: u64 = 20;

/// Where the time went: `900.0 µs workqueue vmstat_update, 100.0 µs other`.
pub(super) fn describe_cause(why: &TimeBreakdown, late_ns: u64) -> String {
    if let Some(unknown) = &why.unknown {
        return format!("cause unknown: {unknown}");
    }
    let shares = why.shares.iter().map(|share| (share.took_ns, describe_culprit(share)));
    let unseen = (why.unseen_ns, "with no event in the trace".to_owned());
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

/// How to remove the causes: each remedy once, with the culprits that it removes.
fn remedies(all: &[&WorstLatency]) -> String {
    let mut remedies: Vec<(String, Vec<String>)> = Vec::new();
    for worst in all {
        for share in worst.why.iter().flat_map(|why| &why.shares) {
            let is_cause = share.took_ns >= worst.late_ns / PARTS;
            let Some(remedy) = share.remedy.as_ref().filter(|_| is_cause) else { continue };
            let how = match remedy.when {
                EffectTime::Runtime => format!("{}: {}", remedy.tunable, remedy.how),
                EffectTime::Boot => format!("at boot: {}", remedy.how),
            };
            let culprit = describe_culprit(share);
            match remedies.iter_mut().find(|(known, _)| *known == how) {
                Some((_, culprits)) if culprits.contains(&culprit) => {}
                Some((_, culprits)) => culprits.push(culprit),
                None => remedies.push((how, vec![culprit])),
            }
        }
    }
    let lines = remedies.iter();
    lines.map(|(how, culprits)| format!("  {how}\n    removes {}\n", culprits.join(", "))).collect()
}

fn over_limits(latency: &LatencyMeasurement) -> String {
    let mut rows = Vec::new();
    for series in &latency.series {
        for over in &series.over {
            rows.push(vec![
                format!("> {}", span(over.limit_ns)),
                describe_thread(series),
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

/// The loads that ran during the measurement.
fn loads(latency: &LatencyMeasurement) -> String {
    if latency.loads.is_empty() {
        return String::new();
    }
    let head = ["load", "on CPU", "work", "per second"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let mut descriptions = String::new();
    let mut previous = None;
    for load in &latency.loads {
        let unit = if load.unit == BYTES { BYTES } else { "" };
        #[expect(clippy::cast_precision_loss, reason = "the text rounds it")]
        let count = load.count.map(|n| n as f64);
        rows.push(vec![
            load.name.clone(),
            load.cpus.to_string(),
            amount_or_unknown(count, &load.unit),
            amount_or_unknown(load.per_s, unit),
        ]);
        // Several parts of one program are described once.
        if previous != Some(&load.what) {
            let name = load.name.split(':').next().unwrap_or(&load.name);
            let _ = writeln!(descriptions, "  {name}: {}", load.what);
        }
        previous = Some(&load.what);
    }
    let columns = [Align::Left, Align::Left, Align::Right, Align::Right];
    format!("\nLoad\n{}{descriptions}", lay_out("  ", &columns, &rows))
}

fn amount_or_unknown(number: Option<f64>, unit: &str) -> String {
    number.map_or_else(|| "unknown".to_owned(), |number| amount(number, unit))
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
        unit => {
            [letter, unit].into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
        }
    };
    format!("{number:.digits$} {words}").trim_end().to_owned()
}

/// The isolation, the clock and the kernel of the measurement.
fn conditions(latency: &LatencyMeasurement) -> Vec<String> {
    let isolation = &latency.isolation;
    let shield = match (&isolation.shield, isolation.held) {
        (None, _) => "no cpushield shield".to_owned(),
        (Some(name), Some(true)) => format!("shield {name}, in force at every check"),
        (Some(name), Some(false)) => format!("shield {name}, which did not stay in force"),
        (Some(name), None) => format!("shield {name}, by affinities only"),
    };
    let isolated = name_cpus("isolated at boot", isolation.isolated.as_ref());
    let nohz = name_cpus("nohz_full", isolation.nohz_full.as_ref());
    let setting = &latency.setting;
    let clock = format!(
        "{} ({}), {} per read",
        setting.clock,
        setting.clocksource.as_deref().unwrap_or("unknown"),
        span(setting.clock_read_ns)
    );
    let slowest = latency.series.iter().filter_map(|series| series.look_ns).reduce(f64::max);
    let spin_read = slowest.map_or_else(String::new, |ns| format!("; {ns:.1} ns per read of spin"));
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
        format!("clock: {clock}{spin_read}"),
        format!("kernel: {kernel}"),
    ]
}

/// `; nohz_full: 2-3`, or nothing without CPUs.
fn name_cpus(name: &str, cpus: Option<&CpuSet>) -> String {
    match cpus {
        Some(cpus) if !cpus.is_empty() => format!("; {name}: {cpus}"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causes::{Cause, Culprit};
    use crate::tunables::Remedy;
    use crate::verify::UnknownBreakdown;

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
        let all = "900.0 µs workqueue vmstat_update, \
                   100.0 µs with no event in the trace, 40.0 µs other";
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
        let text = remedies(&[&worst, &worst]);
        assert_eq!(text, "  cpuset: do it\n    removes user-task a (1), user-task b (2)\n");
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
