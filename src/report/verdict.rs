//! The text of `cpushield verify`: per CPU the verdict, what interrupted it and how to remove that,
//! the longest stretch, what no witness could see, and the limits. Pure.

use crate::causes::{Cause, Culprit, known};
use crate::report::moment::moment;
use crate::report::table::{Align, fit, fold, lay_out, many, rate, span};
use crate::verify::SentIpi;
use crate::verify::{
    Breach, BreachNode, CpuEvidence, CpuVerdict, EntryClass, Evidence, GapAttribution,
    GapStatistics, InterruptSender, InterruptionCount, Leak, LimitsKept, PositiveControl, Verdict,
    VerdictState, WitnessKind, WitnessReport, list_classes,
};

/// Rows of the table of one CPU; the rest is summed up in one line.
const ROWS_MAX: usize = 15;

/// Senders of interrupts that are shown of one CPU.
const SENDERS_MAX: usize = 6;

/// Gives the word of a verdict its colour.
pub type StatePainter<'a> = &'a dyn Fn(VerdictState, &str) -> String;

/// The whole text, for a terminal of so many columns.
#[must_use]
pub fn text(
    evidence: &Evidence,
    verdict: &Verdict,
    paint: StatePainter<'_>,
    width: usize,
) -> String {
    let mut text = String::new();
    for (seen, judged) in evidence.cpus.iter().zip(&verdict.cpus) {
        text.push_str(&cpu(evidence, seen, judged, paint, width));
    }
    let first = evidence.breach.as_ref().map(|it| breach(it, evidence.began_s));
    text.push_str(&first.unwrap_or_default());
    text.push_str(&witnesses(evidence));
    for gate in &verdict.gates {
        let word = match gate.held {
            Some(true) => "held",
            Some(false) => "NOT held",
            None => "UNKNOWN: the evidence cannot say",
        };
        text.push_str(&format!("limit {}: found {}: {word}", gate.limit, gate.found));
        match (gate.held, gate.reasons()) {
            (_, why) if why.is_empty() => text.push('\n'),
            (None, why) => text.push_str(&format!(": {why}\n")),
            (Some(_), why) => text.push_str(&format!(" {why}\n")),
        }
    }
    fold(&text, width)
}

/// When a breach was: since the span began, and where that is known by the wall clock.
#[must_use]
pub fn when(breach: &Breach, began_s: Option<u64>) -> String {
    let at = span(breach.at_ns);
    let by_clock = began_s.map(|s| moment(s.saturating_add(breach.at_ns / 1_000_000_000)));
    by_clock.map_or_else(|| at.clone(), |clock| format!("{at} ({clock})"))
}

/// The first breach of a limit, and what ran then.
fn breach(breach: &Breach, began_s: Option<u64>) -> String {
    let Breach { cpu, what, tree, .. } = breach;
    let mut text = format!("first breach: CPU {cpu} at {}: {what}\n", when(breach, began_s));
    if tree.is_empty() {
        text.push_str("  the trace shows nothing there\n");
    }
    for BreachNode { depth, kind, cause, culprit, after_ns, took_ns, stack } in tree {
        let indent = 2 + 2 * depth;
        let kind = if *depth == 0 { cause.name() } else { kind };
        let times = match (*depth, *took_ns) {
            (0, took_ns) => span(took_ns),
            (_, 0) => format!("after {}", span(*after_ns)),
            (_, took_ns) => format!("after {}, {}", span(*after_ns), span(took_ns)),
        };
        text.push_str(&format!("{:indent$}{kind} {}: {times}\n", "", who(culprit)));
        text.push_str(&way(indent + 2, stack));
    }
    text
}

/// The functions that led there, innermost first; nothing where there is no stack.
fn way(indent: usize, stack: &[String]) -> String {
    if stack.is_empty() {
        return String::new();
    }
    format!("{:indent$}stack: {}\n", "", stack.join(" < "))
}

/// The word of a verdict.
#[must_use]
pub fn word(state: VerdictState) -> &'static str {
    match state {
        VerdictState::Holds => "holds",
        VerdictState::Leaks => "leaks",
        VerdictState::Unknown => "unknown",
    }
}

/// The word that decides the exit code; beside limits the other one too.
fn headline(judged: &CpuVerdict, paint: StatePainter<'_>) -> String {
    let alone = word(judged.state);
    let (state, words) = match judged.limits {
        None => return paint(judged.state, alone),
        Some(LimitsKept::Within) => (VerdictState::Holds, "within the limits"),
        Some(LimitsKept::Beyond) => (VerdictState::Leaks, "beyond the limits"),
        Some(LimitsKept::Unknown) => (VerdictState::Unknown, "not known to be within the limits"),
    };
    format!("{} (without limits: {alone})", paint(state, words))
}

fn cpu(
    evidence: &Evidence,
    seen: &CpuEvidence,
    judged: &CpuVerdict,
    paint: StatePainter<'_>,
    width: usize,
) -> String {
    let mut text = format!("CPU {}: {}", seen.cpu, headline(judged, paint));
    text.push_str(&entered(seen, evidence.span_ns));
    for why in &judged.unknown {
        text.push_str(&format!("  not proven: {why}\n"));
    }
    if !judged.leaks.is_empty() {
        text.push_str(&table(&judged.leaks, seen, evidence.span_ns, width));
    }
    text.push_str(&senders(seen));
    text.push_str(&stretch(evidence, seen));
    text.push_str(&coverage(judged));
    text
}

/// Both figures of one CPU: entries from user mode, and interrupts that hit the kernel itself.
fn entered(seen: &CpuEvidence, span_ns: u64) -> String {
    let watched = span(span_ns);
    let entries = match seen.entries {
        Some(0) => format!(", no kernel entry in {watched}\n"),
        Some(1) => format!(", 1 kernel entry in {watched}\n"),
        Some(n) => format!(", {n} kernel entries in {watched} ({}/s)\n", rate(n, span_ns)),
        None => format!(", watched for {watched}\n"),
    };
    match (seen.entries, seen.kernel_interrupts) {
        (Some(user), Some(kernel)) if kernel > 0 => format!(
            "{entries}  entries from user mode: {user}, interrupts that hit the kernel itself: \
             {kernel}\n"
        ),
        _ => entries,
    }
}

/// Who sent interrupts from other CPUs, and what for.
fn senders(seen: &CpuEvidence) -> String {
    let mut text = String::new();
    let mut remedies = Vec::new();
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
            SentIpi::Call { function } => who(&Culprit::function(function)),
        };
        text.push_str(&format!("  sent from elsewhere: {what} by {by}{from}{within}, {times}\n"));
        text.push_str(&way(4, stack));
        if !remedy.is_empty() && !remedies.contains(remedy) {
            text.push_str(&format!("    remedy: {remedy}\n"));
            remedies.push(remedy.clone());
        }
    }
    match seen.senders.len().saturating_sub(SENDERS_MAX) {
        0 => {}
        more => text.push_str(&format!("  and by {more} more (--json has all)\n")),
    }
    text
}

fn table(leaks: &[Leak], seen: &CpuEvidence, span_ns: u64, width: usize) -> String {
    let left = Align::Left;
    let right = Align::Right;
    let columns = [left, left, right, right, right, right, right, left];
    let head = ["cause", "culprit", "count", "rate/s", "inside", "time", "longest", "remedy"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(leaks.iter().take(ROWS_MAX).map(|leak| row(leak, seen, span_ns)));
    let mut text = lay_out("  ", &columns, &rows);
    if text.lines().any(|line| line.chars().count() > width) {
        text = narrow(&columns, rows, width);
    }
    if leaks.len() > ROWS_MAX {
        text.push_str(&format!("  and {} more (--json has all)\n", leaks.len() - ROWS_MAX));
    }
    for leak in leaks.iter().take(ROWS_MAX) {
        let InterruptionCount { cause, culprit, stack, .. } = &leak.interruptions;
        if !stack.is_empty() {
            text.push_str(&format!("  how {cause} {culprit} came there\n"));
            text.push_str(&way(4, stack));
        }
    }
    text
}

/// The table with the remedy, its last column, below each row.
fn narrow(columns: &[Align], rows: Vec<Vec<String>>, width: usize) -> String {
    let mut remedies = Vec::new();
    let cells: Vec<Vec<String>> = rows
        .into_iter()
        .map(|mut row| {
            remedies.push(row.pop().unwrap_or_default());
            row
        })
        .collect();
    let columns = columns.get(..columns.len().saturating_sub(1)).unwrap_or_default();
    let mut text = String::new();
    // One piece for each row, so that the remedy can stand below it.
    let table = fit("  ", columns, &cells, width);
    let mut lines = table.lines().peekable();
    for (n, remedy) in remedies.iter().enumerate() {
        while let Some(line) = lines.next() {
            text.push_str(line);
            text.push('\n');
            // Where a row goes on, its cause is blank.
            if !lines.peek().is_some_and(|next| next.starts_with("    ")) {
                break;
            }
        }
        if n > 0 && remedy != "-" {
            text.push_str(&format!("      remedy: {remedy}\n"));
        }
    }
    text
}

fn row(leak: &Leak, seen: &CpuEvidence, span_ns: u64) -> Vec<String> {
    let InterruptionCount { cause, culprit, count, nested, time_ns, max_ns, .. } =
        &leak.interruptions;
    let number = |n: &u64| if *n == 0 { "-".to_owned() } else { n.to_string() };
    let time = |ns: &Option<u64>| ns.map_or_else(|| "-".to_owned(), span);
    let remedy = leak.remedy.as_ref().map_or_else(
        || leak.why_none.clone().unwrap_or_else(|| "-".to_owned()),
        |remedy| match remedy.when {
            crate::change::EffectTime::Runtime => format!("{}: {}", remedy.tunable, remedy.how),
            crate::change::EffectTime::Boot => format!("at boot: {}", remedy.how),
        },
    );
    vec![
        cause.to_string(),
        match &leak.device {
            Some(device) => format!("{culprit}: {device}"),
            None => who(culprit) + &sent_by(&leak.interruptions, seen),
        },
        number(count),
        rate(*count, span_ns),
        number(nested),
        time(time_ns),
        time(max_ns),
        remedy,
    ]
}

/// What sent a function call, where all that sent it did so for one purpose: `, because the kernel
/// gives back addresses`. A function alone does not say who is to blame.
pub(super) fn sent_by(row: &InterruptionCount, seen: &CpuEvidence) -> String {
    let (Cause::IpiCall, Culprit::Function { name }) = (row.cause, &row.culprit) else {
        return String::new();
    };
    let call = SentIpi::Call { function: name.clone() };
    let of_row = seen.senders.iter().filter(|sender| sender.what == call);
    let origin = |sender: &InterruptSender| match (&sender.within, &sender.purpose) {
        (Some(within), None) => within.to_string(),
        (Some(within), Some(purpose)) => format!("{within} ({purpose})"),
        (None, Some(purpose)) => purpose.to_string(),
        (None, None) => sender.by.to_string(),
    };
    let mut origins: Vec<String> = of_row.map(origin).collect();
    origins.sort();
    origins.dedup();
    match origins.as_slice() {
        [] => String::new(),
        [only] => format!(", sent by {only}"),
        [first, others @ ..] => format!(", sent by {first} and {} more", others.len()),
    }
}

/// The culprit, and what it is for where that is known.
fn who(culprit: &Culprit) -> String {
    known::explained(culprit).unwrap_or_else(|| "-".to_owned())
}

fn percent(part: u64, whole: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
    let percent = part as f64 * 100.0 / whole.max(1) as f64;
    // What is not the whole must not be rounded up to it.
    let percent = if part < whole { percent.min(99.99) } else { 100.0 };
    format!("{percent:.2} %")
}

fn stretch(evidence: &Evidence, seen: &CpuEvidence) -> String {
    let mut text = String::new();
    if let Some(longest) = seen.longest_ns {
        let share = percent(longest, evidence.span_ns);
        text.push_str(&format!("  longest stretch: {} ({share})\n", span(longest)));
    }
    if let Some(gaps) = &seen.gaps {
        let least = span(gaps.threshold_ns);
        match gaps.count {
            0 => text.push_str(&format!("  no gap of {least} or more in user space\n")),
            n => text.push_str(&format!(
                "  gaps of {least} or more: {n}, longest {}, together {} ({})\n",
                span(gaps.max_ns),
                span(gaps.sum_ns),
                percent(gaps.sum_ns, evidence.span_ns)
            )),
        }
        match &seen.joined {
            Some(joined) => text.push_str(&laid_beside(joined, seen, evidence.guest)),
            None => text.push_str(&explained(gaps, seen)),
        }
    }
    if let Some(ns) = seen.steal_ns.filter(|ns| *ns > 0) {
        text.push_str(&format!("  the hypervisor took {}\n", span(ns)));
    }
    text
}

/// How many of the gaps the trace explains, and whose the others may be.
fn laid_beside(joined: &GapAttribution, seen: &CpuEvidence, guest: Option<bool>) -> String {
    let (known, dark) = (&joined.explained, &joined.unexplained);
    if known.count + dark.count == 0 {
        return String::new();
    }
    let mut text = format!(
        "  the trace explains {} of {} gaps ({})",
        known.count,
        known.count + dark.count,
        span(known.sum_ns)
    );
    let (longest, all) = (span(dark.max_ns), span(dark.sum_ns));
    if dark.count > 0 {
        text.push_str(&format!("; in {} it saw nothing (longest {longest}, {all})", dark.count));
    }
    text.push('\n');
    if dark.count == 0 {
        return text;
    }
    let by_smi = seen.smis.unwrap_or(0).min(dark.count);
    let whose = match (by_smi, guest) {
        (0, Some(true)) => match seen.steal_ns.unwrap_or(0).min(dark.sum_ns) {
            0 => "the hypervisor's or its firmware's".to_owned(),
            ns if ns == dark.sum_ns => "the hypervisor's, by the steal counter".to_owned(),
            ns => format!(
                "the hypervisor's for {}, by the steal counter; the other {} is unexplained",
                span(ns),
                span(dark.sum_ns - ns)
            ),
        },
        (0, _) if seen.smis.is_some() => "of no known cause: no SMI was counted".to_owned(),
        (0, _) => format!(
            "firmware's, or of no known cause: SMIs cannot be counted here; `cpushield latency \
             hardware --cpus {}` looks with interrupts off",
            seen.cpu
        ),
        (n, _) if n == dark.count => "firmware's, by the SMI counter".to_owned(),
        (n, _) => format!("firmware's in {n}, by the SMI counter, the others of no known cause"),
    };
    text.push_str(&format!("  that time is {whose}\n"));
    let at =
        joined.worst.iter().take(3).map(|gap| format!("{} at {}", span(gap.ns), span(gap.at_ns)));
    let at: Vec<String> = at.collect();
    text.push_str(&format!("  the longest of it: {}\n", at.join(", ")));
    text
}

/// How much of the time that was lost the trace explains; what it does not is not the kernel's.
fn explained(gaps: &GapStatistics, seen: &CpuEvidence) -> String {
    if gaps.count == 0 || seen.lost.is_none() {
        return String::new();
    }
    let kernel = seen.interruptions.iter().filter(|row| row.cause != Cause::Steal);
    let known: u64 = kernel.filter_map(|row| row.time_ns).sum();
    match gaps.sum_ns.saturating_sub(known) {
        0 => "  the kernel's work explains all of that\n".to_owned(),
        rest => {
            let (known, rest) = (span(known), span(rest));
            format!(
                "  the kernel's work explains {known}, firmware or the hypervisor took {rest}\n"
            )
        }
    }
}

fn witnesses(evidence: &Evidence) -> String {
    let mut text = String::new();
    let control = match &evidence.control {
        PositiveControl::Seen { what } => format!("seen by every witness: {what}"),
        PositiveControl::Missed { what } => format!("MISSED: {what}"),
        PositiveControl::NotDone { why } => format!("not done: {why}"),
    };
    text.push_str(&format!("positive control: {control}\n"));
    let is_traced = |w: &WitnessReport| w.kind == WitnessKind::Trace && w.absent.is_none();
    let traced = evidence.witnesses.iter().any(is_traced);
    for witness in &evidence.witnesses {
        let name = match witness.kind {
            WitnessKind::Trace => "kernel trace",
            WitnessKind::Counters => "counters",
            WitnessKind::EventCounters => "perf event counters",
            WitnessKind::Sampler => "gap sampler",
            WitnessKind::Firmware => "SMI counter",
        };
        match &witness.absent {
            Some(why) => text.push_str(&format!("{name}: not there: {why}\n")),
            // What the counters cannot see is no loss where the trace can.
            None if witness.kind == WitnessKind::EventCounters => {
                text.push_str(&format!("{name}: watched; {}\n", agreement(evidence)));
            }
            None if traced && witness.kind == WitnessKind::Counters || witness.blind.is_empty() => {
                text.push_str(&format!("{name}: watched\n"));
            }
            None => {
                let blind: Vec<String> = witness.blind.iter().map(ToString::to_string).collect();
                let blind = blind.join("; ");
                text.push_str(&format!("{name}: watched; cannot see: {blind}\n"));
            }
        }
    }
    if evidence.stopped {
        text.push_str("stopped before its time; this is what was seen until then\n");
    }
    text
}

/// How the perf events compare with the trace.
fn agreement(evidence: &Evidence) -> String {
    let events = || evidence.cpus.iter().flat_map(|cpu| &cpu.events);
    let counted: u64 = events().filter_map(|event| event.counted).sum();
    if evidence.cpus.iter().any(|cpu| !cpu.witness_doubts.is_empty()) {
        return "they DISAGREE with the kernel trace".to_owned();
    }
    format!("they agree with the kernel trace ({counted} events counted)")
}

/// The classes of entries that fewer than two witnesses watched.
fn coverage(judged: &CpuVerdict) -> String {
    let mut text = String::new();
    if !judged.one_witness.is_empty() {
        let classes = list_classes(&judged.one_witness);
        text.push_str(&format!("  watched by one witness only: {classes}\n"));
    }
    if !judged.unwatched.is_empty() {
        let classes = list_classes(&judged.unwatched);
        let hint = match judged.unwatched.contains(&EntryClass::SystemCall) {
            true => " (--syscalls watches system calls)",
            false => "",
        };
        text.push_str(&format!("  not watched: {classes}{hint}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causes::purpose::InterruptPurpose;
    use crate::change::EffectTime;
    use crate::policy::VerifyLimits;
    use crate::tunables::RemedyAnswer;
    use crate::verify::judge::examples;
    use crate::verify::{
        AbsenceReason, BlindSpot, DeferredBy, DeferredFunction, GapPart, IpiOrigin, Remedy, SCHEMA,
        UnexplainedGap, WatchedWorkload, judge,
    };

    fn row(cause: Cause, culprit: &str, count: u64, nested: u64) -> InterruptionCount {
        InterruptionCount {
            cause,
            culprit: Culprit::shown(cause, culprit),
            count,
            nested,
            time_ns: Some(2_500_000 * count.max(1)),
            max_ns: Some(4_100).filter(|_| count > 0),
            witness: WitnessKind::Trace,
            stack: Vec::new(),
        }
    }

    fn work(function: &str) -> DeferredFunction {
        DeferredFunction { by: DeferredBy::Work, function: function.to_owned() }
    }

    fn evidence() -> Evidence {
        let witness = |kind, absent, blind: &[BlindSpot]| WitnessReport {
            kind,
            absent,
            blind: blind.to_vec(),
        };
        let gaps = GapStatistics {
            resolution_ns: 12.0,
            threshold_ns: 1_000,
            count: 3,
            max_ns: 41_000,
            sum_ns: 9_000_000,
            longest_ns: 0,
            overflow: 0,
        };
        let clean = CpuEvidence {
            cpu: 2,
            longest_ns: Some(10_000_000_000),
            gaps: Some(GapStatistics { count: 0, ..gaps.clone() }),
            joined: None,
            ..examples::clean().cpus.remove(0)
        };
        Evidence {
            schema: SCHEMA,
            began_s: None,
            began_ns: None,
            span_ns: 10_000_000_000,
            asked_ns: 10_000_000_000,
            ended: None,
            stopped: false,
            workload: WatchedWorkload::Sampler,
            guest: Some(false),
            cpus: vec![
                clean.clone(),
                CpuEvidence {
                    cpu: 3,
                    entries: Some(2),
                    kernel_interrupts: Some(5),
                    interruptions: vec![
                        row(Cause::Tick, "tick_nohz_handler", 2, 0),
                        row(Cause::Softirq, "", 0, 5),
                        InterruptionCount {
                            witness: WitnessKind::Counters,
                            ..row(Cause::Steal, "hypervisor", 1, 0)
                        },
                    ],
                    longest_ns: Some(9_999_999_999),
                    gaps: Some(gaps),
                    steal_ns: Some(30_000_000),
                    ..clean
                },
            ],
            witnesses: vec![
                witness(WitnessKind::Trace, None, &[BlindSpot::SystemCalls, BlindSpot::Signals]),
                witness(WitnessKind::Counters, None, &[]),
                witness(WitnessKind::Sampler, Some(AbsenceReason::failed("no CPU for it")), &[]),
            ],
            control: PositiveControl::Seen { what: "10 IPIs".to_owned() },
            interference: Vec::new(),
            traced: None,
            breach: None,
        }
    }

    #[test]
    fn a_breach_is_told_by_the_wall_clock_where_that_is_known() {
        let (cpu, what, tree) = (2, "more than 0 entries".to_owned(), Vec::new());
        let it = Breach { cpu, what, at_ns: 90_500_000_000, tree };
        assert_eq!(when(&it, Some(1_800_000_000)), "90.50 s (2027-01-15 08:01:30 UTC)");
        assert_eq!(when(&it, None), "90.50 s");
    }

    #[test]
    fn the_text_says_which_gaps_the_trace_explains_and_whose_the_others_are() {
        let part = |count, sum_ns, max_ns| GapPart { count, sum_ns, max_ns };
        let joined = GapAttribution {
            explained: part(7, 90_000, 20_000),
            unexplained: part(2, 80_000, 50_000),
            long: 2,
            worst: vec![
                UnexplainedGap { at_ns: 3_000_000_000, ns: 50_000 },
                UnexplainedGap { at_ns: 4_000_000_000, ns: 30_000 },
            ],
            ..GapAttribution::default()
        };
        let told = |smis, guest| {
            let seen = CpuEvidence { smis, ..evidence().cpus[0].clone() };
            laid_beside(&joined, &seen, guest)
        };
        let text = |whose: &str| {
            format!(
                "  the trace explains 7 of 9 gaps (90.0 µs); in 2 it saw nothing (longest 50.0 µs, \
                 80.0 µs)\n  that time is {whose}\n  the longest of it: 50.0 µs at 3.00 s, 30.0 µs \
                 at 4.00 s\n"
            )
        };
        assert_eq!(told(Some(0), None), text("of no known cause: no SMI was counted"));
        assert_eq!(told(Some(9), None), text("firmware's, by the SMI counter"));
        assert_eq!(
            told(Some(1), None),
            text("firmware's in 1, by the SMI counter, the others of no known cause")
        );
        assert_eq!(told(None, Some(true)), text("the hypervisor's or its firmware's"));
        let hwlat = "firmware's, or of no known cause: SMIs cannot be counted here; `cpushield \
                     latency hardware --cpus 2` looks with interrupts off";
        assert_eq!(told(None, Some(false)), text(hwlat));
        let stolen = |steal_ns| {
            let seen = CpuEvidence { smis: None, steal_ns, ..evidence().cpus[0].clone() };
            laid_beside(&joined, &seen, Some(true))
        };
        assert_eq!(stolen(Some(90_000)), text("the hypervisor's, by the steal counter"));
        let part = "the hypervisor's for 60.0 µs, by the steal counter; the other 20.0 µs is \
                    unexplained";
        assert_eq!(stolen(Some(60_000)), text(part));
    }

    #[test]
    fn the_text_says_who_sends_interrupts_and_what_for() {
        let sender = |n: usize| InterruptSender {
            what: SentIpi::Call { function: "do_sync_core".to_owned() },
            by: IpiOrigin::Task { pid: i32::try_from(n).unwrap(), comm: "modprobe".to_owned() },
            site: "text_poke_bp_batch".to_owned(),
            within: (n == 0).then(|| work("bpf_prog_free_deferred")),
            purpose: (n == 1).then_some(InterruptPurpose::ModuleLoad { asked_for: None }),
            remedy: if n == 1 { "load it before".to_owned() } else { String::new() },
            count: 3,
            stack: Vec::new(),
        };
        let seen = CpuEvidence {
            senders: (0..SENDERS_MAX + 2).map(sender).collect(),
            ..evidence().cpus[0].clone()
        };
        let text = senders(&seen);
        assert_eq!(text.lines().count(), SENDERS_MAX + 2);
        let second = " by modprobe (1), loads a module, 3 times\n    remedy: load it before\n";
        assert!(text.contains(second), "{text}");
        let first = "  sent from elsewhere: do_sync_core: text patching (static key, BPF) by \
                     modprobe (0) in text_poke_bp_batch() for work bpf_prog_free_deferred, 3 times\n";
        assert!(text.starts_with(first), "{text}");
        assert!(text.ends_with("  and by 2 more (--json has all)\n"));
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
        let flush = row(Cause::IpiCall, "do_flush_tlb_all", 1, 0);
        let mut seen = evidence().cpus[0].clone();
        assert_eq!(sent_by(&flush, &seen), "");
        let what = "gives back addresses of the kernel".to_owned();
        let load = InterruptPurpose::ModuleLoad { asked_for: None };
        seen.senders = vec![
            sender(
                "do_flush_tlb_all",
                Some(work("drain_vmap_area_work")),
                InterruptPurpose::Known { what },
            ),
            sender("do_sync_core", None, load.clone()),
        ];
        let drain = ", sent by work drain_vmap_area_work (gives back addresses of the kernel)";
        assert_eq!(sent_by(&flush, &seen), drain);
        seen.senders.push(sender("do_flush_tlb_all", None, load));
        assert_eq!(sent_by(&flush, &seen), ", sent by loads a module and 1 more");
        assert_eq!(sent_by(&row(Cause::Tick, "do_flush_tlb_all", 1, 0), &seen), "");
    }

    #[test]
    fn the_text_says_who_how_often_how_long_and_what_to_do() {
        let evidence = evidence();
        let limits =
            VerifyLimits { max_entries: Some(0), max_gap_ns: Some(50_000), two_witnesses: false };
        let verdict = judge(&evidence, &limits, &|row| match row.cause {
            Cause::Tick => RemedyAnswer::Remedy(Remedy {
                tunable: "nohz-full".to_owned(),
                when: EffectTime::Boot,
                how: "nohz_full=3".to_owned(),
            }),
            _ => RemedyAnswer::Unknown,
        });
        let expected = "\
CPU 2: within the limits (without limits: holds), no kernel entry in 10.00 s
  longest stretch: 10.00 s (100.00 %)
  no gap of 1.0 µs or more in user space
CPU 3: beyond the limits (without limits: leaks), 2 kernel entries in 10.00 s (0.20/s)
  entries from user mode: 2, interrupts that hit the kernel itself: 5
  cause    culprit            count  rate/s  inside     time  longest  remedy
  tick     tick_nohz_handler      2    0.20       -  5.00 ms   4.1 µs  at boot: nohz_full=3
  softirq  -                      -       -       5  2.50 ms        -  -
  steal    hypervisor             1    0.10       -  2.50 ms   4.1 µs  -
  longest stretch: 10.00 s (99.99 %)
  gaps of 1.0 µs or more: 3, longest 41.0 µs, together 9.00 ms (0.09 %)
  the kernel's work explains 7.50 ms, firmware or the hypervisor took 1.50 ms
  the hypervisor took 30.00 ms
positive control: seen by every witness: 10 IPIs
kernel trace: watched; cannot see: system calls of the workload (not requested); signals of the
    workload (no signal:signal_deliver)
counters: watched
gap sampler: not there: no CPU for it
limit --max-entries 0: found 2: NOT held
limit --max-gap 50us: found 41us: held by the gap sampler
";
        let paint = |_: VerdictState, words: &str| words.to_owned();
        assert_eq!(text(&evidence, &verdict, &paint, 100), expected);
        let narrow = text(&evidence, &verdict, &paint, 70);
        assert!(narrow.lines().all(|line| line.chars().count() <= 70), "{narrow}");
        let below = "\n  tick     tick_nohz_handler      2    0.20       -  5.00 ms   4.1 µs\n      \
                     remedy: at boot: nohz_full=3\n  softirq  -    ";
        assert!(narrow.contains(below), "{narrow}");
        let verdict = judge(&evidence, &VerifyLimits::default(), &|_| RemedyAnswer::Unknown);
        let headlines: Vec<_> = verdict.cpus.iter().map(|cpu| headline(cpu, &paint)).collect();
        assert_eq!(headlines, ["holds", "leaks"]);
    }
}
