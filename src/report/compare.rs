//! Comparison → blocks: the headline first, then every figure with its spread, and what makes them
//! doubtful. Pure.

use super::blocks::{
    ReportBlock, Table, TableCell, TableColumn, TableHead, TextLine, TextPart, TextTone,
};
use super::table::span;
use crate::documents::comparison::{
    ComparedFigure, Comparison, DifferenceScope, FigureRow, FindingAnswer, GroupFigure, GroupPair,
    RunOrder,
};
use crate::documents::count_text::many;
use std::collections::BTreeSet;

/// The blocks of a comparison.
#[must_use]
pub fn blocks(comparison: &Comparison) -> Vec<ReportBlock> {
    let mut blocks = Vec::new();
    for pair in &comparison.pairs {
        blocks.push(ReportBlock::Space);
        let runs = TextLine::new(describe_runs(comparison, pair));
        blocks.push(ReportBlock::Lines(vec![headline(pair), runs]));
        blocks.extend([ReportBlock::Space, ReportBlock::Table(figures(pair))]);
        blocks.extend([ReportBlock::Space, ReportBlock::Lines(remarks(pair))]);
        let title = format!("Doubtful: {} against {}", pair.other, pair.base);
        blocks.extend(ReportBlock::doubts(title, &pair.doubts));
    }
    blocks.extend(ReportBlock::doubts("Doubtful runs", comparison.doubts()));
    blocks
}

/// The differences between the groups and the notes: what a reader of the figures must know.
fn remarks(pair: &GroupPair) -> Vec<TextLine> {
    let mut lines = Vec::new();
    for difference in &pair.differences {
        let (base, other) = (&difference.base, &difference.other);
        let (tone, scope) = match difference.realm {
            DifferenceScope::Machine => (TextTone::Doubt, "different machine"),
            DifferenceScope::Kernel => (TextTone::Doubt, "different kernel"),
            DifferenceScope::Setting => (TextTone::Plain, "different setting"),
            DifferenceScope::Method => (TextTone::Plain, "measured differently"),
        };
        let what = format!("{}: {base} → {other}", difference.what);
        lines.push(TextLine::remark(tone, scope, what));
    }
    if pair.differences.is_empty() {
        lines.push(TextLine::new("no known differences in the setup"));
    }
    if pair.rows.iter().any(|row| spread(row, &row.base).or(spread(row, &row.other)).is_some()) {
        let times = "the 95 % confidence interval of the ratio";
        let spread = format!("below a figure: the spread of its runs; below a ratio: {times}");
        lines.push(TextLine::new(spread));
    }
    // A reason that holds for many rows is shown once.
    let reasons: BTreeSet<String> =
        pair.rows.iter().flat_map(|row| &row.finding.why).map(ToString::to_string).collect();
    let reasons = reasons.into_iter();
    lines.extend(reasons.map(|reason| TextLine::remark(TextTone::Doubt, "unknown", reason)));
    let notes = pair.notes.iter();
    lines.extend(notes.map(|note| TextLine::remark(TextTone::Plain, "note", note)));
    lines
}

/// One sentence on the worst case, or on the first figure when there is no worst case.
fn headline(pair: &GroupPair) -> TextLine {
    let worst = pair.rows.iter().find(|row| row.figure == ComparedFigure::Worst);
    let Some(row) = worst.or_else(|| pair.rows.first()) else {
        return TextLine::new(format!("{} against {}", pair.other, pair.base));
    };
    let is_better = row.is_better();
    // The test is about typical runs. The values of all runs together may say something else.
    let (ratio, sides, of) = match is_better {
        Some(_) => (
            row.typical.map(|typical| typical.ratio).or(row.ratio),
            [row.base.median(), row.other.median()],
            " in the median run",
        ),
        None => (row.ratio, [row.base.value, row.other.value], ""),
    };
    let times = match ratio {
        Some(ratio) => format!("{}× that of {} ", times(ratio), pair.base),
        None => String::new(),
    };
    let [base, other] = sides.map(|figure| value(row, figure));
    let (tone, chance) = match (row.finding.answer, is_better) {
        (FindingAnswer::Differs, Some(true)) => (TextTone::Good, "significantly better"),
        (FindingAnswer::Differs, _) => (TextTone::Bad, "significantly worse"),
        (FindingAnswer::NotShown, _) => (TextTone::Doubt, "may be chance"),
        (FindingAnswer::Unknown, _) => {
            (TextTone::Doubt, "too little data to tell whether that is chance")
        }
    };
    let parts = vec![
        TextPart::toned(TextTone::Head, &pair.other),
        TextPart::new(format!(": {} {times}({other} vs {base}{of}); ", figure(row))),
        TextPart::toned(tone, chance),
    ];
    TextLine::of(parts)
}

/// The number of runs of each group, and their order.
fn describe_runs(comparison: &Comparison, pair: &GroupPair) -> String {
    let order = match pair.sequence {
        RunOrder::Alternated => ", interleaved",
        RunOrder::Mixed => ", in mixed order",
        RunOrder::Apart => ", one group after the other",
        RunOrder::Unknown => "",
    };
    let [base, other] = [&pair.base, &pair.other].map(|name| {
        let group = comparison.groups.iter().find(|group| group.name == *name);
        let runs = many(group.map_or(0, |group| group.runs.len()), "run");
        let shield = group.and_then(|group| group.shield.as_ref());
        let shield = shield.map_or_else(String::new, |shield| format!(" (shield {shield})"));
        format!("{runs} of {name}{shield}")
    });
    format!("{base}, {other}{order}")
}

/// The figures by subject, with the spread of the runs below each figure and the confidence
/// interval below each ratio.
fn figures(pair: &GroupPair) -> Table {
    let numbers = [pair.base.as_str(), &pair.other, "ratio"];
    let mut columns = TableColumn::words_and_numbers(&["figure"], &numbers);
    columns.push(TableColumn::words("significant"));
    let mut rows = Vec::new();
    let mut subject = "";
    for row in &pair.rows {
        if row.subject != subject {
            rows.push(vec![TableCell::new(&row.subject)]);
            subject = &row.subject;
        }
        rows.push(figure_row(row));
        let interval = row.typical.as_ref().and_then(|typical| {
            Some(format!("{}–{}", times(typical.least?), times(typical.most?)))
        });
        let below = [spread(row, &row.base), spread(row, &row.other), interval];
        if below.iter().any(Option::is_some) {
            let below = below.map(|text| TableCell::new(text.unwrap_or_default()));
            rows.push([TableCell::default()].into_iter().chain(below).collect());
        }
    }
    let caption = format!("{} against {}", pair.other, pair.base);
    Table { caption, head: TableHead::Names, columns, rows }
}

fn figure_row(row: &FigureRow) -> Vec<TableCell> {
    vec![
        TableCell::new(figure(row)),
        TableCell::new(value(row, row.base.value)),
        TableCell::new(value(row, row.other.value)),
        TableCell::new(row.ratio.map_or_else(|| "-".to_owned(), times)),
        significance(row),
    ]
}

/// `better, p 0.029`.
fn significance(row: &FigureRow) -> TableCell {
    let p = row.finding.p.map_or_else(String::new, |p| format!(", p {}", format_p(p)));
    let (tone, words) = match (row.finding.answer, row.is_better()) {
        (FindingAnswer::Differs, Some(true)) => (TextTone::Good, format!("better{p}")),
        (FindingAnswer::Differs, _) => (TextTone::Bad, format!("worse{p}")),
        (FindingAnswer::NotShown, _) => (TextTone::Plain, format!("not shown{p}")),
        (FindingAnswer::Unknown, _) => (TextTone::Doubt, "unknown".to_owned()),
    };
    TableCell::toned(tone, words)
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
fn value(row: &FigureRow, value: Option<f64>) -> String {
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
fn times(ratio: f64) -> String {
    if ratio > 0.0 && ratio < 0.1 { format!("{ratio:.4}") } else { digits(ratio) }
}

/// The name of a row's figure.
fn figure(row: &FigureRow) -> String {
    match row.figure {
        ComparedFigure::Worst => "worst".to_owned(),
        ComparedFigure::Average => "average".to_owned(),
        ComparedFigure::Percentile { percent } if (percent - 50.0).abs() < 1e-9 => {
            "median".to_owned()
        }
        ComparedFigure::Percentile { percent } => format!("{percent} %"),
        ComparedFigure::Jitter => "max jitter".to_owned(),
        ComparedFigure::GapRate => "gaps per thread".to_owned(),
        ComparedFigure::Noise => "kernel entries per CPU".to_owned(),
        ComparedFigure::Gap => "longest gap".to_owned(),
        ComparedFigure::Throughput => "throughput".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{GivenGroup, GivenRun, MeasuredDocument, compare};
    use crate::documents::latency::WakeupStage;
    use crate::latency::latency_of;

    /// A run with these worst latencies of each stage.
    fn group(name: &str, stages: &[(WakeupStage, u64)]) -> GivenGroup {
        let mut latency = latency_of(&[(1000, 1)]);
        let series = stages.iter().flat_map(|(stage, worst_ns)| {
            let mut series = latency_of(&[(1000, 20_000), (*worst_ns, 1)]).series;
            series.iter_mut().for_each(|one| one.stage = Some(*stage));
            series
        });
        latency.series = series.collect();
        let measured = MeasuredDocument::Latency(Box::new(latency));
        let run = GivenRun { name: name.to_owned(), measured };
        GivenGroup { name: name.to_owned(), runs: vec![run] }
    }

    #[test]
    fn the_headline_is_about_the_last_stage_of_a_wakeup() {
        let (irq, thread, user) = (WakeupStage::Irq, WakeupStage::Thread, WakeupStage::User);
        let before = [(user, 50_000), (irq, 2_000), (thread, 20_000)];
        let after = [(user, 10_000), (irq, 4_000), (thread, 40_000)];
        for (stages, start) in
            [(3, "after: worst 0.20× that of before "), (2, "after: worst 2.00× that of before ")]
        {
            let of = |name, all: [_; 3]| group(name, all.get(3 - stages..).unwrap());
            let comparison = compare(&[of("before", before), of("after", after)]).unwrap();
            let line = headline(&comparison.pairs[0]);
            let text: String = line.parts.iter().map(|part| part.text.as_str()).collect();
            assert!(text.starts_with(start), "{text}");
        }
    }
}
