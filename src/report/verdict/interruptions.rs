//! The interruptions of a CPU → a table with culprits and remedies, their stacks, and the senders
//! of interrupts from other CPUs. Pure.

use super::{WatchedRun, describe_culprit, stack_line};
use crate::causes::{Cause, Culprit};
use crate::change::EffectTime;
use crate::documents::count_text::many;
use crate::documents::evidence::{
    CpuEvidence, CpuVerdict, InterruptSender, InterruptionCount, Leak, SentIpi,
};
use crate::documents::remedy::Remedy;
use crate::report::blocks::{
    ReportBlock, Table, TableCell, TableColumn, TableHead, TextLine, TextTone,
};
use crate::report::table::{rate, span_or_dash};

/// Interruptions that the table of one CPU lists; the others are counted in one line.
const ROWS_MAX: usize = 15;

/// Senders of interrupts that are shown for one CPU.
const SENDERS_MAX: usize = 6;

/// What interrupted a CPU, with the remedies where there is a verdict.
pub(super) fn interruption_blocks(
    seen: &CpuEvidence,
    judged: Option<&CpuVerdict>,
    span_ns: u64,
) -> Vec<ReportBlock> {
    let rows: Vec<(&InterruptionCount, Option<&Leak>)> = match judged {
        Some(judged) => judged.leaks.iter().map(|leak| (&leak.interruptions, Some(leak))).collect(),
        None => seen.interruptions.iter().map(|row| (row, None)).collect(),
    };
    let shown = rows.iter().take(ROWS_MAX);
    let cells = shown.clone().map(|(row, leak)| interruption_row(row, *leak, seen, span_ns));
    let mut columns = ["cause", "culprit"].map(TableColumn::words).to_vec();
    columns.extend(["count", "rate/s", "nested", "own time", "longest"].map(TableColumn::numbers));
    columns.push(TableColumn::remarks("remedy"));
    let caption = format!("What interrupted CPU {}", seen.cpu);
    let table = Table::new(caption, columns, cells.collect()).with_head(TableHead::Names);
    let mut lines = Vec::new();
    lines.extend(more_line(rows.len(), ROWS_MAX, "more"));
    for (row, _) in shown.filter(|(row, _)| !row.stack.is_empty()) {
        lines.push(TextLine::new(format!("call stack of {} {}", row.cause, row.culprit)));
        lines.extend(stack_line(&row.stack).map(TextLine::below));
    }
    let lines = ReportBlock::Lines(lines.into_iter().map(TextLine::below).collect());
    table.into_block().into_iter().chain([lines]).collect()
}

/// `and 3 more senders`: what a list leaves out.
pub fn more_line(all: usize, shown: usize, what: &str) -> Option<TextLine> {
    let more = all.checked_sub(shown).filter(|more| *more > 0)?;
    Some(TextLine::new(format!("and {more} {what} (--json lists all)")))
}

fn interruption_row(
    row: &InterruptionCount,
    leak: Option<&Leak>,
    seen: &CpuEvidence,
    span_ns: u64,
) -> Vec<TableCell> {
    let InterruptionCount { cause, culprit, count, nested, time_ns, max_ns, .. } = row;
    let device = leak.and_then(|leak| leak.device.as_ref());
    let culprit = match device {
        Some(device) => format!("{culprit}: {device}"),
        None => describe_culprit(culprit) + &sent_by(row, seen),
    };
    let cells = [
        cause.to_string(),
        culprit,
        number_or_dash(*count),
        rate(*count, span_ns),
        number_or_dash(*nested),
        span_or_dash(*time_ns),
        span_or_dash(*max_ns),
    ];
    let remedy = leak.map_or_else(TableCell::default, remedy_cell);
    cells.map(TableCell::new).into_iter().chain([remedy]).collect()
}

fn number_or_dash(n: u64) -> String {
    if n == 0 { "-".to_owned() } else { n.to_string() }
}

/// How to remove a leak, or why that is impossible; empty when no way is known.
fn remedy_cell(leak: &Leak) -> TableCell {
    match (&leak.remedy, &leak.why_none) {
        (Some(remedy), _) => TableCell::new(describe_remedy(remedy)),
        (None, Some(obstacle)) => TableCell::new(format!("none: {obstacle}")),
        (None, None) => TableCell::default(),
    }
}

/// `at boot: nohz_full=3`.
pub fn describe_remedy(remedy: &Remedy) -> String {
    match remedy.when {
        EffectTime::Runtime => format!("{}: {}", remedy.tunable, remedy.how),
        EffectTime::Boot => format!("at boot: {}", remedy.how),
    }
}

impl WatchedRun<'_> {
    /// What still interrupts the CPUs, and how to remove it, in at most `rows_max` rows; nothing
    /// when no CPU is interrupted. What only ran inside another interruption disappears together
    /// with that one.
    pub fn remaining(&self, caption: &str, rows_max: usize) -> Vec<ReportBlock> {
        let cpus = self.verdict.iter().flat_map(|verdict| &verdict.cpus);
        let leaks = cpus.flat_map(|cpu| cpu.leaks.iter().map(move |leak| (cpu.cpu, leak)));
        let leaks = leaks.filter(|(_, leak)| leak.interruptions.count > 0);
        let rows = leaks.clone().take(rows_max).map(|(cpu, leak)| remaining_row(cpu, leak));
        let mut columns = ["cause", "culprit"].map(TableColumn::words).to_vec();
        columns.extend(["CPU", "count"].map(TableColumn::numbers));
        columns.push(TableColumn::remarks("remedy"));
        let table = Table::new(caption, columns, rows.collect()).into_block();
        let more = more_line(leaks.count(), rows_max, "more").map(TextLine::below);
        table.into_iter().chain(more.map(|line| ReportBlock::Lines(vec![line]))).collect()
    }
}

fn remaining_row(cpu: usize, leak: &Leak) -> Vec<TableCell> {
    let InterruptionCount { cause, culprit, count, .. } = &leak.interruptions;
    let remedy = match remedy_cell(leak) {
        cell if cell.text.is_empty() => TableCell::toned(TextTone::Doubt, "none known"),
        cell => cell,
    };
    let [cause, cpu, count] = [cause.to_string(), cpu.to_string(), count.to_string()];
    let cells = [cause, describe_culprit(culprit), cpu, count].map(TableCell::new);
    cells.into_iter().chain([remedy]).collect()
}

/// The senders of interrupts from other CPUs, and their purposes.
pub(super) fn sender_lines(seen: &CpuEvidence) -> Vec<TextLine> {
    let mut lines = Vec::new();
    let mut remedies: Vec<&String> = Vec::new();
    for sender in seen.senders.iter().take(SENDERS_MAX) {
        let InterruptSender { what, by, site, within, purpose, remedy, count, stack } = sender;
        let times = many(usize::try_from(*count).unwrap_or(usize::MAX), "time");
        let from = match (purpose, site.as_str()) {
            (None, "") => String::new(),
            (None, site) => format!(" in {site}()"),
            (Some(purpose), _) => format!(", {purpose}"),
        };
        let within = within.as_ref().map(|within| format!(" for {within}")).unwrap_or_default();
        let what = match what {
            SentIpi::Reschedule => what.to_string(),
            SentIpi::Call { function } => describe_culprit(&Culprit::function(function)),
        };
        let sent = format!("sent from another CPU: {what} by {by}{from}{within}, {times}");
        lines.push(TextLine::new(sent));
        lines.extend(stack_line(stack).map(TextLine::below));
        if !remedy.is_empty() && !remedies.contains(&remedy) {
            lines.push(TextLine::new(format!("remedy: {remedy}")).below());
            remedies.push(remedy);
        }
    }
    lines.extend(more_line(seen.senders.len(), SENDERS_MAX, "more senders"));
    lines
}

/// The sender of a function call: `, sent by work drain_vmap_area_work`, and the number of further
/// ones. The function alone does not show what caused the call.
fn sent_by(row: &InterruptionCount, seen: &CpuEvidence) -> String {
    let (Cause::IpiCall, Culprit::Function { name }) = (row.cause, &row.culprit) else {
        return String::new();
    };
    let call = SentIpi::Call { function: name.clone() };
    let senders = seen.senders.iter().filter(|sender| sender.what == call);
    let mut origins: Vec<String> = senders.map(describe_sender).collect();
    origins.sort();
    origins.dedup();
    match origins.as_slice() {
        [] => String::new(),
        [only] => format!(", sent by {only}"),
        [first, others @ ..] => format!(", sent by {first} and {} more", others.len()),
    }
}

fn describe_sender(sender: &InterruptSender) -> String {
    match (&sender.within, &sender.purpose) {
        (Some(within), None) => within.to_string(),
        (Some(within), Some(purpose)) => format!("{within} ({purpose})"),
        (None, Some(purpose)) => purpose.to_string(),
        (None, None) => sender.by.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causes::purpose::{InterruptPurpose, KernelOperation};
    use crate::documents::evidence::{DeferredBy, DeferredFunction, IpiOrigin, WitnessKind};
    use crate::report::blocks::{terminal_blocks, unpainted};
    use crate::verify::judge::examples;

    fn work(function: &str) -> DeferredFunction {
        DeferredFunction { by: DeferredBy::Work, function: function.to_owned() }
    }

    #[test]
    fn the_lines_show_the_senders_of_interrupts_and_their_purposes() {
        let sender = |n: usize| InterruptSender {
            what: SentIpi::Call { function: "do_sync_core".to_owned() },
            by: IpiOrigin::Task { pid: i32::try_from(n).unwrap(), comm: "modprobe".to_owned() },
            site: "text_poke_bp_batch".to_owned(),
            within: (n == 0).then(|| work("bpf_prog_free_deferred")),
            purpose: (n == 1).then_some(KernelOperation::ModuleLoad.into()),
            remedy: if n == 1 { "load it before".to_owned() } else { String::new() },
            count: 3,
            stack: Vec::new(),
        };
        let seen = CpuEvidence {
            senders: (0..SENDERS_MAX + 2).map(sender).collect(),
            ..examples::clean().cpus.remove(0)
        };
        let lines = sender_lines(&seen).into_iter().map(TextLine::below).collect();
        let text = terminal_blocks(&[ReportBlock::Lines(lines)], usize::MAX, &unpainted);
        assert_eq!(text.lines().count(), SENDERS_MAX + 2);
        let second = " by modprobe (1), module load, 3 times\n    remedy: load it before\n";
        assert!(text.contains(second), "{text}");
        let first = "  sent from another CPU: do_sync_core: text patching (static key, BPF) by \
                     modprobe (0) in text_poke_bp_batch() for work bpf_prog_free_deferred, 3 times\n";
        assert!(text.starts_with(first), "{text}");
        assert!(text.ends_with("  and 2 more senders (--json lists all)\n"));
    }

    #[test]
    fn a_function_call_is_named_by_its_sender() {
        let sender = |what: &str, within: Option<DeferredFunction>, purpose: InterruptPurpose| {
            InterruptSender {
                what: SentIpi::Call { function: what.to_owned() },
                by: IpiOrigin::Task { pid: 9, comm: "kworker/0:1".to_owned() },
                site: "__purge_vmap_area_lazy".to_owned(),
                within,
                purpose: Some(purpose),
                remedy: String::new(),
                count: 1,
                stack: Vec::new(),
            }
        };
        let row = |cause| InterruptionCount {
            cause,
            culprit: Culprit::function("do_flush_tlb_all"),
            count: 1,
            nested: 0,
            time_ns: None,
            max_ns: None,
            witness: WitnessKind::Trace,
            stack: Vec::new(),
        };
        let flush = row(Cause::IpiCall);
        let mut seen = examples::clean().cpus.remove(0);
        assert_eq!(sent_by(&flush, &seen), "");
        let load: InterruptPurpose = KernelOperation::ModuleLoad.into();
        seen.senders = vec![
            sender(
                "do_flush_tlb_all",
                Some(work("drain_vmap_area_work")),
                KernelOperation::VmapFree.into(),
            ),
            sender("do_sync_core", None, load.clone()),
        ];
        let drain = ", sent by work drain_vmap_area_work (freeing kernel addresses (vmalloc))";
        assert_eq!(sent_by(&flush, &seen), drain);
        seen.senders.push(sender("do_flush_tlb_all", None, load));
        assert_eq!(sent_by(&flush, &seen), ", sent by module load and 1 more");
        assert_eq!(sent_by(&row(Cause::Tick), &seen), "");
    }
}
