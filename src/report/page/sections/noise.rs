//! What interrupts: how often each cause came, before and after, who it was, what nobody could see.

use crate::causes::{Cause, Culprit, known};
use crate::report::page::block::{
    Amount, BarChart, BarRow, Drawing, Picture, ReportBlock, Table, TableCell, TableColumn,
    TextTone,
};
use crate::report::page::material::{LabelledDocument, ReportMaterial, WatchWithVerdict};
use crate::report::page::words;
use crate::report::table::span;
use crate::report::verdict::when;
use crate::verify::{Breach, BreachNode, Evidence, WitnessKind};

/// Rows of a table of culprits; the rest is counted.
const ROWS_MAX: usize = 40;

/// The section.
pub(super) fn blocks(material: &ReportMaterial) -> Vec<ReportBlock> {
    let looks = &material.looks;
    if looks.is_empty() {
        return Vec::new();
    }
    let mut blocks = Vec::new();
    match causes(looks).as_slice() {
        [] => {
            blocks.push(ReportBlock::Text("Nothing was seen to interrupt these CPUs.".to_owned()))
        }
        causes => blocks.push(ReportBlock::Picture(Box::new(picture(looks, causes)))),
    }
    blocks.push(ReportBlock::Table(gaps(looks)));
    for look in looks {
        let evidence = &look.it.evidence;
        let at = |it: &Breach| when(it, evidence.began_s);
        blocks.extend(evidence.breach.iter().map(|it| breach(&look.label, it, &at(it))));
    }
    for look in looks {
        let table = culprits(look);
        if !table.rows.is_empty() {
            let title = format!("Who it was: {}", look.label);
            blocks.push(ReportBlock::Fold { title, blocks: vec![ReportBlock::Table(table)] });
        }
    }
    let blind = blind(looks);
    if !blind.is_empty() {
        let title = "What no witness could have seen".to_owned();
        blocks.push(ReportBlock::Doubts { title, items: blind });
    }
    blocks
}

/// The name of a witness.
pub(super) fn witness(kind: WitnessKind) -> &'static str {
    match kind {
        WitnessKind::Trace => "the kernel's trace",
        WitnessKind::Counters => "the kernel's counters",
        WitnessKind::EventCounters => "perf's event counters",
        WitnessKind::Sampler => "the gap sampler",
        WitnessKind::Firmware => "the SMI counter",
    }
}

/// Causes that were seen in any look, the most frequent first.
fn causes(looks: &[LabelledDocument<WatchWithVerdict>]) -> Vec<Cause> {
    let count = |cause: Cause| -> u64 {
        looks.iter().filter_map(|look| counted(&look.it.evidence, cause)).sum()
    };
    let mut causes: Vec<Cause> =
        Cause::ALL.iter().copied().filter(|cause| count(*cause) > 0).collect();
    causes.sort_by(|a, b| rate(looks, *b).total_cmp(&rate(looks, *a)));
    causes
}

/// The highest rate of a cause in any look.
fn rate(looks: &[LabelledDocument<WatchWithVerdict>], cause: Cause) -> f64 {
    let rates = looks.iter().map(|look| match per_second(&look.it.evidence, cause) {
        Amount::Known(rate) => rate,
        Amount::Unknown => 0.0,
    });
    rates.fold(0.0, f64::max)
}

/// How often a cause was seen, inside others too; `None` when nothing could count it.
fn counted(evidence: &Evidence, cause: Cause) -> Option<u64> {
    let watched =
        |kind: WitnessKind| evidence.witnesses.iter().any(|w| w.kind == kind && w.absent.is_none());
    let all = evidence.cpus.iter().flat_map(|cpu| &cpu.interruptions);
    let mut of = all.filter(|seen| seen.cause == cause).peekable();
    let seen = of.peek().is_some();
    // Without a trace what the counters do not name is not known not to have been.
    let sure = match cause {
        Cause::Smi => watched(WitnessKind::Firmware),
        Cause::Steal => evidence.cpus.iter().all(|cpu| cpu.steal_ns.is_some()),
        _ => watched(WitnessKind::Trace),
    };
    (seen || sure).then(|| of.map(|seen| seen.count + seen.nested).sum())
}

/// Times in a second on each CPU.
fn per_second(evidence: &Evidence, cause: Cause) -> Amount {
    match counted(evidence, cause) {
        None => Amount::Unknown,
        Some(_) if evidence.span_ns == 0 || evidence.cpus.is_empty() => Amount::Unknown,
        Some(n) => {
            let cpus = words::float(evidence.cpus.len() as u64);
            Amount::Known(words::float(n) * 1e9 / words::float(evidence.span_ns) / cpus)
        }
    }
}

fn picture(looks: &[LabelledDocument<WatchWithVerdict>], causes: &[Cause]) -> Picture {
    let rows: Vec<BarRow> = causes
        .iter()
        .map(|cause| BarRow {
            label: cause.name().to_owned(),
            amounts: looks.iter().map(|look| per_second(&look.it.evidence, *cause)).collect(),
        })
        .collect();
    let mut columns = vec![TableColumn::words("cause")];
    columns.extend(looks.iter().map(|look| TableColumn::numbers(format!("{}, 1/s", look.label))));
    columns.push(TableColumn::words("what it is"));
    let cell = |amount: &Amount| match amount {
        Amount::Known(0.0) => TableCell::toned(TextTone::Good, "none"),
        Amount::Known(n) => TableCell::new(words::plain(*n)),
        Amount::Unknown => TableCell::unknown(),
    };
    let row = |(cause, row): (&Cause, &BarRow)| {
        let mut cells = vec![TableCell::new(cause.name())];
        cells.extend(row.amounts.iter().map(cell));
        cells.push(TableCell::new(cause.summary()));
        cells
    };
    let table = Table {
        caption: "Interruptions of each CPU in a second, by cause".to_owned(),
        columns,
        rows: causes.iter().zip(&rows).map(row).collect(),
    };
    let series: Vec<String> = looks.iter().map(|look| look.label.clone()).collect();
    Picture {
        id: "noise".to_owned(),
        title: "Interruptions in a second, by cause".to_owned(),
        about: format!("Bars for {} causes, a bar each for: {}.", causes.len(), series.join(", ")),
        how: "Each CPU's own, on a logarithmic scale: every grey line is ten times the one before \
              it. Shorter is quieter; \u{201c}none\u{201d} was watched and not seen, \
              \u{201c}unknown\u{201d} could not be watched."
            .to_owned(),
        drawing: Drawing::Bars(BarChart { unit: "/s".to_owned(), series, rows }),
        table,
    }
}

/// What each CPU lost, by the best witness.
fn gaps(looks: &[LabelledDocument<WatchWithVerdict>]) -> Table {
    let mut columns = vec![TableColumn::words("of"), TableColumn::numbers("CPU")];
    let names = ["kernel entries", "gaps", "longest gap", "lost to gaps", "longest quiet"];
    columns.extend(names.map(TableColumn::numbers));
    columns.push(TableColumn::words("explained by the trace"));
    let mut rows = Vec::new();
    for look in looks {
        for cpu in &look.it.evidence.cpus {
            let gap = |of: &dyn Fn(&crate::verify::GapStatistics) -> String| {
                cpu.gaps.as_ref().map_or_else(TableCell::unknown, |gaps| TableCell::new(of(gaps)))
            };
            let explained = cpu.joined.as_ref().map_or_else(TableCell::unknown, |joined| {
                let all = joined.explained.count + joined.unexplained.count;
                match joined.unexplained.count {
                    0 => TableCell::new(format!("all {all}")),
                    dark => TableCell::toned(
                        TextTone::Doubt,
                        format!(
                            "{} of {all}; nothing explains {dark}, the longest {}",
                            joined.explained.count,
                            span(joined.unexplained.max_ns)
                        ),
                    ),
                }
            });
            rows.push(vec![
                TableCell::new(&look.label),
                TableCell::new(cpu.cpu.to_string()),
                cpu.entries.map_or_else(TableCell::unknown, |n| TableCell::new(words::grouped(n))),
                gap(&|gaps| words::grouped(gaps.count)),
                gap(&|gaps| span(gaps.max_ns)),
                gap(&|gaps| span(gaps.sum_ns)),
                cpu.longest_ns.map_or_else(TableCell::unknown, |ns| TableCell::new(span(ns))),
                explained,
            ]);
        }
    }
    Table { caption: "Time that each CPU lost".to_owned(), columns, rows }
}

fn culprits(look: &LabelledDocument<WatchWithVerdict>) -> Table {
    let evidence = &look.it.evidence;
    let names = ["CPU", "count", "inside others", "time", "longest"];
    let mut columns = vec![TableColumn::words("culprit"), TableColumn::words("cause")];
    columns.extend(names.map(TableColumn::numbers));
    columns.push(TableColumn::words("seen by"));
    let mut rows = Vec::new();
    for cpu in &evidence.cpus {
        for seen in &cpu.interruptions {
            let time = |ns: Option<u64>| TableCell::new(ns.map_or_else(|| "–".to_owned(), span));
            rows.push(vec![
                TableCell::new(who(&seen.culprit)),
                TableCell::new(seen.cause.name()),
                TableCell::new(cpu.cpu.to_string()),
                TableCell::new(words::grouped(seen.count)),
                TableCell::new(words::grouped(seen.nested)),
                time(seen.time_ns),
                time(seen.max_ns),
                TableCell::new(witness(seen.witness)),
            ]);
        }
    }
    let more = rows.len().saturating_sub(ROWS_MAX);
    rows.truncate(ROWS_MAX);
    let more =
        if more == 0 { String::new() } else { format!(" ({more} more are in its document)") };
    Table { caption: format!("Culprits: {}{more}", look.label), columns, rows }
}

/// The culprit, and what it is for where that is known.
pub(super) fn who(culprit: &Culprit) -> String {
    known::describe(culprit).unwrap_or_else(|| "unknown".to_owned())
}

/// The moment in which a limit was broken.
fn breach(label: &str, breach: &Breach, at: &str) -> ReportBlock {
    let Breach { cpu, what, tree, .. } = breach;
    let mut text = String::new();
    for BreachNode { depth, kind, cause, culprit, after_ns, took_ns, stack } in tree {
        let indent = 2 * depth;
        let kind = if *depth == 0 { cause.name() } else { kind };
        let (after, took) = (span(*after_ns), span(*took_ns));
        text.push_str(&format!("{:indent$}{kind} {}: after {after}, {took}\n", "", who(culprit)));
        if !stack.is_empty() {
            text.push_str(&format!("{:indent$}  stack: {}\n", "", stack.join(" < ")));
        }
    }
    if tree.is_empty() {
        text.push_str("the trace shows nothing there\n");
    }
    ReportBlock::Code { caption: format!("{label}: first breach, CPU {cpu} at {at}: {what}"), text }
}

/// What cannot be seen on this machine, once for all looks.
fn blind(looks: &[LabelledDocument<WatchWithVerdict>]) -> Vec<String> {
    let mut told = Vec::new();
    for witness in looks.iter().flat_map(|look| &look.it.evidence.witnesses) {
        for blind in &witness.blind {
            let line = format!("{}: {blind}", self::witness(witness.kind));
            if !told.contains(&line) {
                told.push(line);
            }
        }
    }
    told
}
