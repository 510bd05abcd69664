//! Comparison → text: the headline first, then every figure with its spread. Pure.

use super::TextStyle;
use super::table::{Align, fold, lay_out, many, span};
use crate::compare::{
    ComparedFigure, Comparison, DifferenceScope, FigureRow, FindingAnswer, GroupFigure, GroupPair,
    RunOrder,
};
use std::collections::BTreeSet;
use std::fmt::Display;

/// The text, no wider than `width` where that is possible; `paint` colours words.
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
        lines.extend(pair_lines(comparison, pair, width, paint));
    }
    for doubt in comparison.doubts() {
        lines.extend(wrap_lines(&[doubt_line(&doubt, paint)], width));
    }
    lines.join("\n") + "\n"
}

fn pair_lines(
    comparison: &Comparison,
    pair: &GroupPair,
    width: usize,
    paint: &dyn Fn(TextStyle, &str) -> String,
) -> Vec<String> {
    let mut lines = wrap_lines(&[headline(pair, paint), describe_runs(comparison, pair)], width);
    lines.push(String::new());
    lines.extend(tables(pair));
    lines.push(String::new());
    lines.extend(wrap_lines(&remarks(pair, paint), width));
    lines
}

/// Wraps the lines that are wider than `width`.
fn wrap_lines(lines: &[String], width: usize) -> Vec<String> {
    lines
        .iter()
        .flat_map(|line| fold(line, width).lines().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

fn doubt_line(doubt: &dyn Display, paint: &dyn Fn(TextStyle, &str) -> String) -> String {
    format!("{}: {doubt}", paint(TextStyle::Doubt, "doubtful"))
}

/// The differences between the groups, the doubts and the notes: what a reader of the figures must
/// know.
fn remarks(pair: &GroupPair, paint: &dyn Fn(TextStyle, &str) -> String) -> Vec<String> {
    let mut lines = Vec::new();
    for difference in &pair.differences {
        let (base, other) = (&difference.base, &difference.other);
        let what = match difference.realm {
            DifferenceScope::Machine => paint(TextStyle::Doubt, "different machine"),
            DifferenceScope::Kernel => paint(TextStyle::Doubt, "different kernel"),
            DifferenceScope::Setting => "different setting".to_owned(),
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
    // A reason that holds for many rows is shown once.
    let reasons: BTreeSet<String> =
        pair.rows.iter().flat_map(|row| &row.finding.why).map(ToString::to_string).collect();
    lines.extend(reasons.into_iter().map(|reason| format!("unknown: {reason}")));
    lines.extend(pair.doubts.iter().map(|doubt| doubt_line(doubt, paint)));
    lines.extend(pair.notes.iter().map(|note| format!("note: {note}")));
    lines
}

/// One sentence on the worst case, or on the first figure when there is no worst case.
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

/// The number of runs of each group, and their order.
fn describe_runs(comparison: &Comparison, pair: &GroupPair) -> String {
    let order = match pair.sequence {
        RunOrder::Alternated => ", interleaved",
        RunOrder::Mixed => ", in mixed order",
        RunOrder::Apart => ", one after the other",
        RunOrder::Unknown => "",
    };
    let [base, other] = [&pair.base, &pair.other].map(|name| {
        let group = comparison.groups.iter().find(|group| group.name == *name);
        many(group.map_or(0, |group| group.runs.len()), "run")
    });
    format!("{base} of {}, {other} of {}{order}", pair.base, pair.other)
}

/// A table for each subject, with the spread of the runs below each figure and the confidence
/// interval below each ratio.
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
        rows.push(vec![format!("  {}", figure(row)), base, other, ratio, significance(row)]);
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

/// `better, p 0.029`.
pub(super) fn significance(row: &FigureRow) -> String {
    let p = row.finding.p.map_or_else(String::new, |p| format!(", p {}", format_p(p)));
    match (row.finding.answer, row.is_better()) {
        (FindingAnswer::Differs, Some(true)) => format!("better{p}"),
        (FindingAnswer::Differs, _) => format!("worse{p}"),
        (FindingAnswer::NotShown, _) => format!("not shown{p}"),
        (FindingAnswer::Unknown, _) => "unknown".to_owned(),
    }
}

/// `0.029`, `< 0.001`.
fn format_p(p: f64) -> String {
    if p < 0.001 { "< 0.001".to_owned() } else { format!("{p:.3}") }
}

/// The smallest and the largest figure of the runs; `None` for fewer than two runs.
fn spread(row: &FigureRow, side: &GroupFigure) -> Option<String> {
    let (least, most) = side.spread().filter(|_| side.known().len() > 1)?;
    Some(format!("{}–{}", value(row, Some(least)), value(row, Some(most))))
}

/// `4.1 µs`, `0.25/s`, `-` when it is unknown.
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

/// A number with three digits, without decimals from 100 on.
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

/// The name of a row's figure.
pub(super) fn figure(row: &FigureRow) -> String {
    match row.figure {
        ComparedFigure::Worst => "worst".to_owned(),
        ComparedFigure::Percentile { percent } if (percent - 50.0).abs() < 1e-9 => {
            "median".to_owned()
        }
        ComparedFigure::Percentile { percent } => format!("{percent} %"),
        ComparedFigure::Jitter => "max jitter".to_owned(),
        ComparedFigure::Noise => "kernel entries per CPU".to_owned(),
        ComparedFigure::Gap => "longest gap".to_owned(),
        ComparedFigure::Throughput => "throughput".to_owned(),
    }
}
