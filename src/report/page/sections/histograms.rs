//! The charts of latencies: overlaid histograms of all documents, and the worst latency over time.
//! Threads of one kind are combined.

use crate::documents::count_text::joined;
use crate::documents::latency::{LatencyMeasurement, ThreadSeries};
use crate::latency;
use crate::report::blocks::{
    Axis, Curve, CurveChart, Drawing, Picture, Stroke, Table, TableCell, TableColumn, words,
};
use crate::report::page::material::LabelledDocument;
use crate::report::table::span;
use std::collections::BTreeMap;

/// Steps of a histogram for each power of ten.
const STEPS: f64 = 24.0;
/// Rows of the table of a timeline.
const TIMELINE_ROWS: usize = 24;
/// Highlighted latencies in the chart.
const MARKS: usize = 3;

/// The threads of one instrument with the same role.
pub(super) struct ChosenThreads<'a> {
    pub(super) all: &'a [LabelledDocument<LatencyMeasurement>],
    pub(super) instrument: &'a str,
    pub(super) role: &'a str,
    /// The number of this kind, for the anchors of the charts.
    pub(super) nth: usize,
}

/// The number of events of each value.
type ValueCounts = BTreeMap<u64, u64>;

impl ChosenThreads<'_> {
    fn documents(&self) -> impl Iterator<Item = (&str, Vec<&ThreadSeries>)> {
        let same = self.all.iter().filter(|l| l.document.instrument == self.instrument);
        same.filter_map(|latency| {
            let threads =
                latency.document.series.iter().filter(|series| series.role() == self.role);
            let threads: Vec<&ThreadSeries> = threads.collect();
            (!threads.is_empty()).then_some((latency.label.as_str(), threads))
        })
    }

    fn id(&self, name: &str) -> String {
        if self.nth == 0 { name.to_owned() } else { format!("{name}-{}", self.nth + 1) }
    }

    /// The histograms; `None` without samples.
    pub(super) fn histogram(&self) -> Option<Picture> {
        let counted = self.documents().map(|(label, series)| {
            let mut counts = ValueCounts::new();
            // A histogram that cannot be read is a doubt at the top of the report.
            for (value, count) in series.iter().filter_map(|s| latency::counts(s).ok()).flatten() {
                *counts.entry(value.max(1)).or_default() += count;
            }
            (label, counts)
        });
        let counted: Vec<(&str, ValueCounts)> = counted.collect();
        let values = counted.iter().flat_map(|(_, counts)| counts.keys().copied());
        let (least, most) = (values.clone().min()?, values.max()?);
        let series: Vec<Curve> =
            counted.iter().map(|(label, counts)| curve(label, counts)).collect();
        let highest = series.iter().flat_map(|curve| &curve.steps).map(|step| step.2);
        let highest = highest.fold(1.0, f64::max);
        let kind = super::threads::kind(self.instrument, self.role);
        let label = "latency (logarithmic)".to_owned();
        let (from, to) = (words::float(round_down(least)), words::float(round_up(most)));
        let x = Axis { label, from, to, log: true, is_time: true };
        let to = 10.0_f64.powf((highest * 1.3).log10().ceil());
        let y = Axis { label: "events".to_owned(), from: 0.5, to, log: true, is_time: false };
        Some(Picture {
            id: self.id("histogram"),
            title: format!("Distribution of latencies: {kind}"),
            about: describe_counts(&counted),
            how:
                "Latency grows to the right, and the rightmost step is the worst case. Both scales \
                 are logarithmic, so a single event is visible even next to a million."
                    .to_owned(),
            drawing: Drawing::Curves(CurveChart { x, y, stroke: Stroke::Area, series }),
            table: table(&counted, least, most),
        })
    }

    /// The worst latency over time; `None` without samples.
    pub(super) fn timeline(&self) -> Option<Picture> {
        let series: Vec<Curve> =
            self.documents().map(|(label, series)| timeline_curve(label, &series)).collect();
        let steps = series.iter().flat_map(|curve| &curve.steps);
        let end = steps.clone().map(|step| step.1).fold(0.0, f64::max);
        let heights = steps.map(|step| step.2);
        let marks = series.iter().flat_map(|curve| &curve.marks).map(|mark| mark.1);
        let (least, most) =
            (heights.clone().fold(f64::MAX, f64::min), heights.chain(marks).fold(0.0, f64::max));
        if end <= 0.0 || most <= 0.0 {
            return None;
        }
        let kind = super::threads::kind(self.instrument, self.role);
        let label = "time since the start".to_owned();
        let x = Axis { label, from: 0.0, to: end, log: false, is_time: true };
        let (from, to) = (round_below(least), round_above(most));
        let label = "worst latency (logarithmic)".to_owned();
        let y = Axis { label, from, to, log: true, is_time: true };
        let worst = series.iter().map(|curve| {
            let worst = curve.marks.first().map_or("nothing", |(_, _, label)| label.as_str());
            format!("{}: {worst}", curve.label)
        });
        Some(Picture {
            id: self.id("timeline"),
            title: format!("Worst latency over time: {kind}"),
            about: format!(
                "The worst latency of each curve. {}.",
                joined(worst, "; ")
            ),
            how: "Lower is better; at a peak, a thread had to wait. Dots mark the longest latencies. The \
                  line is broken where there was no sample."
                .to_owned(),
            table: timeline_table(&series, end),
            drawing: Drawing::Curves(CurveChart { x, y, stroke: Stroke::Line, series }),
        })
    }
}

/// The counts as steps of equal width on a logarithmic scale.
fn curve(label: &str, counts: &ValueCounts) -> Curve {
    let mut steps: BTreeMap<i32, u64> = BTreeMap::new();
    for (value, count) in counts {
        #[expect(clippy::cast_possible_truncation, reason = "a logarithm is small")]
        let step = (words::float(*value).log10() * STEPS + 1e-9).floor() as i32;
        *steps.entry(step).or_default() += count;
    }
    let steps = steps.into_iter().map(|(n, count)| {
        let [from, to] = [n, n + 1].map(|step| 10.0_f64.powf(f64::from(step) / STEPS));
        (from, to, words::float(count))
    });
    Curve { label: label.to_owned(), steps: steps.collect(), marks: Vec::new() }
}

/// The text alternative of a histogram.
fn describe_counts(counted: &[(&str, ValueCounts)]) -> String {
    let sentences =
        counted.iter().map(|(label, counts)| match (counts.keys().next(), counts.keys().last()) {
            (Some(least), Some(most)) => {
                let all = words::grouped(counts.values().sum());
                format!("{label}: {all} events between {} and {}", span(*least), span(*most))
            }
            _ => format!("{label}: no events"),
        });
    format!("{}.", joined(sentences, "; "))
}

/// 1, 2 or 5 times a power of ten, ascending.
fn round_values() -> impl Iterator<Item = u64> {
    (0..19).flat_map(|power| [1, 2, 5].map(|n: u64| n.saturating_mul(10_u64.saturating_pow(power))))
}

fn round_down(ns: u64) -> u64 {
    round_values().take_while(|round| *round <= ns).last().unwrap_or(1)
}

fn round_up(ns: u64) -> u64 {
    round_values().find(|round| *round > ns).unwrap_or(u64::MAX)
}

/// The largest round value at least a fifth below a number.
fn round_below(n: f64) -> f64 {
    let round = round_values().map(words::float).take_while(|round| *round <= n * 0.8).last();
    round.unwrap_or(1.0)
}

/// The smallest round value at least a quarter above a number.
fn round_above(n: f64) -> f64 {
    round_values().map(words::float).find(|round| *round >= n * 1.25).unwrap_or(n * 2.0)
}

/// The table of the histograms, with a row from each round value to the next.
fn table(counted: &[(&str, ValueCounts)], least: u64, most: u64) -> Table {
    let mut columns = vec![TableColumn::words("latency")];
    columns.extend(counted.iter().map(|(label, _)| TableColumn::numbers(*label)));
    let rounds: Vec<u64> = round_values()
        .skip_while(|round| *round < round_down(least))
        .take_while(|round| *round <= round_up(most))
        .collect();
    let pairs = rounds.iter().zip(rounds.iter().skip(1));
    let rows = pairs.map(|(from, to)| {
        let [low, high] = [from, to].map(|ns| words::time(words::float(*ns)));
        let mut row = vec![TableCell::new(format!("{low} to {high}"))];
        row.extend(counted.iter().map(|(_, counts)| {
            match counts.range(*from..*to).map(|c| c.1).sum() {
                0 => TableCell::new("–"),
                n => TableCell::new(words::grouped(n)),
            }
        }));
        row
    });
    Table::new("Events by latency", columns, rows.collect())
}

/// The worst latency of all threads over time.
fn timeline_curve(label: &str, series: &[&ThreadSeries]) -> Curve {
    let step_ns = series.iter().map(|thread| thread.timeline.step_ns).max().unwrap_or(0).max(1);
    let mut worst: BTreeMap<u64, u64> = BTreeMap::new();
    for thread in series {
        for (n, ns) in (0_u64..).zip(&thread.timeline.worst_ns).filter(|(_, ns)| **ns > 0) {
            let at = n.saturating_mul(thread.timeline.step_ns) / step_ns;
            let known = worst.entry(at).or_default();
            *known = (*known).max(*ns);
        }
    }
    let steps = worst.into_iter().map(|(n, ns)| {
        let from = n.saturating_mul(step_ns);
        (words::float(from), words::float(from.saturating_add(step_ns)), words::float(ns))
    });
    let mut marks: Vec<(u64, u64, usize)> = series
        .iter()
        .flat_map(|thread| {
            thread.worst.iter().map(|worst| (worst.late_ns, worst.at_ns, thread.cpu))
        })
        .collect();
    marks.sort_by_key(|(late_ns, _, _)| std::cmp::Reverse(*late_ns));
    marks.truncate(MARKS);
    let marks = marks.into_iter().map(|(late_ns, at_ns, cpu)| {
        let label = format!("{} on CPU {cpu} at {}", span(late_ns), span(at_ns));
        (words::float(at_ns), words::float(late_ns), label)
    });
    Curve { label: label.to_owned(), steps: steps.collect(), marks: marks.collect() }
}

/// The table of the timelines.
fn timeline_table(series: &[Curve], end: f64) -> Table {
    let mut columns = vec![TableColumn::words("time")];
    columns.extend(series.iter().map(|curve| TableColumn::numbers(&curve.label)));
    let part = end / words::float(TIMELINE_ROWS as u64);
    let rows = (0..TIMELINE_ROWS).map(|n| {
        let (from, to) = (part * words::float(n as u64), part * words::float(n as u64 + 1));
        let mut row = vec![TableCell::new(format!("{} to {}", words::time(from), words::time(to)))];
        row.extend(series.iter().map(|curve| {
            let inside = curve.steps.iter().filter(|step| step.0 < to && step.1 > from);
            match inside.map(|step| step.2).reduce(f64::max) {
                Some(ns) => TableCell::new(words::time(ns)),
                None => TableCell::new("–"),
            }
        }));
        row
    });
    Table::new("The worst latency in each part of the run", columns, rows.collect())
}
