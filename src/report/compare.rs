//! Comparison → text: what is more than chance first, then every figure with its spread. Pure.

use super::TextStyle;
use super::table::{Align, fold, lay_out, many, span};
use crate::compare::{
    ComparedFigure, Comparison, DifferenceScope, FigureRow, FindingAnswer, GroupFigure, GroupPair,
    RunOrder,
};
use std::collections::BTreeSet;

/// The text, no wider than `width` where that is possible; `paint` gives words their colour.
#[must_use]
pub fn text(
    comparison: &Comparison,
    width: usize,
    paint: &dyn Fn(TextStyle, &str) -> String,
) -> String {
    let mut lines = Vec::new();
    for (n, pair) in comparison.pairs.iter().enumerate() {
        if n > 0 {
            lines.push(String::new());
        }
        lines.extend(of_pair(comparison, pair, width, paint));
    }
    let doubt = |doubt| format!("{}: {doubt}", paint(TextStyle::Doubt, "doubtful"));
    lines.extend(told(&comparison.doubts().map(doubt).collect::<Vec<_>>(), width));
    lines.join("\n") + "\n"
}

fn of_pair(
    comparison: &Comparison,
    pair: &GroupPair,
    width: usize,
    paint: &dyn Fn(TextStyle, &str) -> String,
) -> Vec<String> {
    let mut lines = told(&[headline(pair, paint), runs(comparison, pair)], width);
    lines.push(String::new());
    lines.extend(tables(pair));
    lines.push(String::new());
    lines.extend(told(&beside(pair, paint), width));
    lines
}

/// Lines that go on below where they are too long.
fn told(lines: &[String], width: usize) -> Vec<String> {
    lines
        .iter()
        .flat_map(|line| fold(line, width).lines().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

/// What is to be known beside the figures.
fn beside(pair: &GroupPair, paint: &dyn Fn(TextStyle, &str) -> String) -> Vec<String> {
    let mut lines = Vec::new();
    for difference in &pair.differences {
        let (base, other) = (&difference.base, &difference.other);
        let what = match difference.realm {
            DifferenceScope::Machine => paint(TextStyle::Doubt, "other machine"),
            DifferenceScope::Kernel => paint(TextStyle::Doubt, "other kernel"),
            DifferenceScope::Setting => "other setting".to_owned(),
            DifferenceScope::Method => "not comparable".to_owned(),
        };
        lines.push(format!("{what}: {}: {base} → {other}", difference.what));
    }
    if pair.differences.is_empty() {
        lines.push("no other known differences".to_owned());
    }
    if pair.rows.iter().any(|row| spread(row, &row.base).or(spread(row, &row.other)).is_some()) {
        let times = "the 95 % interval of the ratio of two runs";
        lines.push(format!("below a figure: the spread of its runs; below a ratio: {times}"));
    }
    // What holds for many rows is told once.
    let why: BTreeSet<&String> = pair.rows.iter().flat_map(|row| &row.finding.why).collect();
    lines.extend(why.into_iter().map(|why| format!("not known: {why}")));
    let doubts = pair.doubts.iter();
    lines.extend(doubts.map(|doubt| format!("{}: {doubt}", paint(TextStyle::Doubt, "doubtful"))));
    lines.extend(pair.notes.iter().map(|note| format!("note: {note}")));
    lines
}

/// The worst case in one sentence, or the first figure where there is none.
fn headline(pair: &GroupPair, paint: &dyn Fn(TextStyle, &str) -> String) -> String {
    let worst = pair.rows.iter().find(|row| row.figure == ComparedFigure::Worst);
    let Some(row) = worst.or_else(|| pair.rows.first()) else {
        return format!("{} against {}", pair.other, pair.base);
    };
    let times = match row.ratio {
        Some(ratio) => format!("{}× that of {} ", times(ratio), pair.base),
        None => String::new(),
    };
    let figures = format!(
        "{} {times}({} vs {})",
        figure(row),
        value(row, row.other.value),
        value(row, row.base.value)
    );
    let chance = match (row.finding.answer, row.is_better()) {
        (FindingAnswer::Differs, Some(true)) => paint(TextStyle::Good, "significantly better"),
        (FindingAnswer::Differs, _) => paint(TextStyle::Bad, "significantly worse"),
        (FindingAnswer::NotShown, _) => paint(TextStyle::Doubt, "may be chance"),
        (FindingAnswer::Unknown, _) => {
            paint(TextStyle::Doubt, "too little data to tell whether that is chance")
        }
    };
    format!("{}: {figures}; {chance}", paint(TextStyle::Head, &pair.other))
}

/// How many runs there are, and in which order they were made.
fn runs(comparison: &Comparison, pair: &GroupPair) -> String {
    let count = |name: &String| {
        let group = comparison.groups.iter().find(|group| group.name == *name);
        many(group.map_or(0, |group| group.runs.len()), "run")
    };
    let order = match pair.sequence {
        RunOrder::Alternated => ", interleaved",
        RunOrder::Mixed => ", in mixed order",
        RunOrder::Apart => ", one after the other",
        RunOrder::Unknown => "",
    };
    let (base, other) = (count(&pair.base), count(&pair.other));
    format!("{base} of {}, {other} of {}{order}", pair.base, pair.other)
}

/// A table for each subject. Below each figure is the spread of its runs, below each ratio the
/// interval that the runs leave open.
fn tables(pair: &GroupPair) -> Vec<String> {
    let mut rows =
        vec![["", &pair.base, &pair.other, "ratio", "significant"].map(str::to_owned).to_vec()];
    let mut subject = "";
    for row in &pair.rows {
        if row.subject != subject {
            rows.push(vec![row.subject.clone()]);
            subject = &row.subject;
        }
        let ratio = row.ratio.map_or_else(|| "-".to_owned(), times);
        let (base, other) = (value(row, row.base.value), value(row, row.other.value));
        rows.push(vec![format!("  {}", figure(row)), base, other, ratio, chance(row)]);
        let interval = row.typical.as_ref().and_then(|typical| {
            Some(format!("{}–{}", times(typical.least?), times(typical.most?)))
        });
        let below = [spread(row, &row.base), spread(row, &row.other), interval];
        if below.iter().any(Option::is_some) {
            let below = below.map(Option::unwrap_or_default);
            rows.push([String::new()].into_iter().chain(below).collect());
        }
    }
    use Align::{Left, Right};
    let text = lay_out("", &[Left, Right, Right, Right, Left], &rows);
    text.lines().map(str::to_owned).collect()
}

pub(super) fn chance(row: &FigureRow) -> String {
    let p = row.finding.p.map_or_else(String::new, |p| format!(", p {}", share(p)));
    match (row.finding.answer, row.is_better()) {
        (FindingAnswer::Differs, Some(true)) => format!("better{p}"),
        (FindingAnswer::Differs, _) => format!("worse{p}"),
        (FindingAnswer::NotShown, _) => format!("not shown{p}"),
        (FindingAnswer::Unknown, _) => "not known".to_owned(),
    }
}

/// `0.029`, `< 0.001`.
fn share(p: f64) -> String {
    if p < 0.001 { "< 0.001".to_owned() } else { format!("{p:.3}") }
}

/// The least and the largest of the runs, where there are more than one.
fn spread(row: &FigureRow, side: &GroupFigure) -> Option<String> {
    let (least, most) = side.spread().filter(|_| side.known().len() > 1)?;
    Some(format!("{}–{}", value(row, Some(least)), value(row, Some(most))))
}

/// `4.1 µs`, `0.25/s`, `-` when it is not known.
pub(super) fn value(row: &FigureRow, value: Option<f64>) -> String {
    let Some(value) = value else { return "-".to_owned() };
    if row.unit == "ns" {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time")]
        return span(value.max(0.0).round() as u64);
    }
    let unit = row.unit.trim_start_matches("1/");
    let unit = if unit == row.unit { format!(" {unit}") } else { format!("/{unit}") };
    format!("{}{unit}", digits(value))
}

/// Three digits of a number; whole from a hundred on.
fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || size == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// `0.10`, `0.0021`, `13.4`.
pub(super) fn times(ratio: f64) -> String {
    if ratio > 0.0 && ratio < 0.1 { format!("{ratio:.4}") } else { digits(ratio) }
}

/// What a row is about.
pub(super) fn figure(row: &FigureRow) -> String {
    match row.figure {
        ComparedFigure::Worst => "worst".to_owned(),
        ComparedFigure::Percentile { percent } if (percent - 50.0).abs() < 1e-9 => {
            "median".to_owned()
        }
        ComparedFigure::Percentile { percent } => format!("{percent} %"),
        ComparedFigure::Jitter => "max jitter".to_owned(),
        ComparedFigure::Noise => "kernel entries of a CPU".to_owned(),
        ComparedFigure::Gap => "longest gap".to_owned(),
        ComparedFigure::Throughput => "throughput".to_owned(),
    }
}
