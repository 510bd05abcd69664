//! Whose the interruptions of a CPU were, and how late its workload was activated → lines and a
//! table. Pure.

use super::describe_culprit;
use super::interruptions::more_line;
use crate::documents::count_text::many;
use crate::documents::evidence::{ActivationDelays, OwnedRow, Owner, OwnerSum, OwnershipEvidence};
use crate::report::blocks::{
    ReportBlock, Table, TableCell, TableColumn, TableHead, TextLine, words,
};
use crate::report::table::span;

/// Rows that are shown for one CPU.
const ROWS_MAX: usize = 12;

/// The sums, the delays, and what is not in the table of leaks.
pub(super) fn ownership_blocks(cpu: usize, seen: &OwnershipEvidence) -> Vec<ReportBlock> {
    let mut lines: Vec<String> = Vec::new();
    let sums: Vec<String> = seen.sums.iter().map(describe_sum).collect();
    lines.extend((!sums.is_empty()).then(|| format!("interruptions: {}", sums.join("; "))));
    lines.extend(describe_delays(seen.activations, &seen.delays));
    let rows = seen.rows.iter().filter(|row| row.owner != Owner::Foreign || row.harmless);
    let rows: Vec<Vec<TableCell>> = rows.map(table_row).collect();
    let more = more_line(rows.len(), ROWS_MAX, "more");
    let mut columns = ["whose", "cause", "culprit", "by"].map(TableColumn::words).to_vec();
    columns.extend(["count", "time", "longest"].map(TableColumn::numbers));
    let caption = format!("Interruptions of CPU {cpu} that do not count against the shield");
    let rows = rows.into_iter().take(ROWS_MAX).collect();
    let table = Table::new(caption, columns, rows).with_head(TableHead::Names).into_block();
    let lines = lines.into_iter().map(|line| TextLine::new(line).below()).collect();
    let lines = ReportBlock::Lines(lines);
    let more = ReportBlock::Lines(more.into_iter().map(TextLine::below).collect());
    [lines].into_iter().chain(table).chain([more]).collect()
}

/// `foreign, harmless: 12, 40 µs, longest 9 µs`.
fn describe_sum(sum: &OwnerSum) -> String {
    let harmless = if sum.harmless { ", harmless" } else { "" };
    let count = words::grouped(sum.count);
    let (time, longest) = (span(sum.time_ns), span(sum.max_ns));
    format!("{}{harmless} {count}, {time}, longest {longest}", sum.owner)
}

/// How often the workload was activated, and the longest delay.
fn describe_delays(activations: u64, delays: &ActivationDelays) -> Vec<String> {
    let worst = delays.worst.first().map(|worst| format!(", longest delay {worst}"));
    let first = format!("{}{}", many(activations, "activation"), worst.unwrap_or_default());
    let kinds = [
        (delays.foreign, "delayed by something foreign"),
        (delays.elsewhere, "by a timer that expired on another CPU"),
        (delays.by_wake, "measured from the wake-up on, without the timer's due time"),
    ];
    let kinds = kinds.into_iter().filter(|(count, _)| *count > 0);
    let kinds = kinds.map(|(count, what)| format!("{} {what}", many(count, "activation")));
    [first].into_iter().chain(kinds).collect()
}

fn table_row(row: &OwnedRow) -> Vec<TableCell> {
    let by = match (&row.by, row.same_process) {
        (None, _) => String::new(),
        (Some(by), false) => by.to_string(),
        (Some(by), true) => format!("{by}, same process"),
    };
    let cells = [
        if row.harmless { format!("{}, harmless", row.owner) } else { row.owner.to_string() },
        row.cause.to_string(),
        describe_culprit(&row.culprit),
        by,
        words::grouped(row.count),
        span(row.time_ns),
        span(row.max_ns),
    ];
    cells.map(TableCell::new).to_vec()
}
