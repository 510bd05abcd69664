//! The text of `cpushield verify`: the verdict for each CPU, the interruptions and their remedies,
//! the longest stretch, the blind spots of the witnesses, and the limits. Pure.

use crate::causes::{Cause, Culprit, known};
use crate::report::blocks::{TextPainter, TextTone};
use crate::report::latency::span_or_dash;
use crate::report::moment::moment;
use crate::report::table::{Align, columns_of, fit, fold, lay_out, many, rate, span};
use crate::verify::SentIpi;
use crate::verify::{
    Breach, BreachNode, CpuEvidence, CpuVerdict, EntryClass, Evidence, GapAttribution, GapPart,
    GapStatistics, InterruptSender, InterruptionCount, Leak, LimitsKept, PositiveControl, Verdict,
    VerdictState, WitnessKind, join_texts, list_classes,
};

/// Rows that the table of one CPU lists; the others are counted in one line.
const ROWS_MAX: usize = 15;

/// Senders of interrupts that are shown for one CPU.
const SENDERS_MAX: usize = 6;

/// The whole text, for a terminal of `width` columns.
#[must_use]
pub fn text(
    evidence: &Evidence,
    verdict: &Verdict,
    paint: TextPainter<'_>,
    width: usize,
) -> String {
    let mut text = String::new();
    for (seen, judged) in evidence.cpus.iter().zip(&verdict.cpus) {
        text.push_str(&cpu_text(evidence, seen, judged, paint, width));
    }
    if let Some(breach) = &evidence.breach {
        text.push_str(&breach_text(breach, evidence.began_s));
    }
    text.push_str(&witnesses(evidence));
    for gate in &verdict.gates {
        let word = match gate.held {
            Some(true) => "held",
            Some(false) => "EXCEEDED",
            None => "UNKNOWN: the evidence is not sufficient",
        };
        text.push_str(&format!("limit {}: found {}: {word}", gate.limit, gate.found));
        match (gate.held, gate.reasons()) {
            (_, why) if why.is_empty() => text.push('\n'),
            (None, why) => text.push_str(&format!(": {why}\n")),
            (Some(_), why) => text.push_str(&format!(", {why}\n")),
        }
    }
    fold(&text, width)
}

/// The time of a breach since the start of the span, with the wall-clock time where that is known.
#[must_use]
pub fn when(breach: &Breach, began_s: Option<u64>) -> String {
    let at = span(breach.at_ns);
    let by_clock = began_s.map(|s| moment(s.saturating_add(breach.at_ns / 1_000_000_000)));
    by_clock.map_or_else(|| at.clone(), |clock| format!("{at} ({clock})"))
}

/// The first breach of a limit, and what ran at that moment.
fn breach_text(breach: &Breach, began_s: Option<u64>) -> String {
    let Breach { cpu, what, tree, .. } = breach;
    let mut text = format!("first breach: CPU {cpu} at {}: {what}\n", when(breach, began_s));
    if tree.is_empty() {
        text.push_str("  the trace has no events at that moment\n");
    }
    for BreachNode { depth, kind, cause, culprit, after_ns, took_ns, stack } in tree {
        let indent = 2 + 2 * depth;
        let kind = if *depth == 0 { cause.name() } else { kind };
        let times = match (*depth, *took_ns) {
            (0, took_ns) => span(took_ns),
            (_, 0) => format!("after {}", span(*after_ns)),
            (_, took_ns) => format!("after {}, {}", span(*after_ns), span(took_ns)),
        };
        text.push_str(&format!("{:indent$}{kind} {}: {times}\n", "", describe_culprit(culprit)));
        text.push_str(&stack_line(indent + 2, stack));
    }
    text
}

/// The functions of a stack, innermost first; empty without a stack.
fn stack_line(indent: usize, stack: &[String]) -> String {
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

/// The meaning of a verdict.
#[must_use]
pub fn tone(state: VerdictState) -> TextTone {
    match state {
        VerdictState::Holds => TextTone::Good,
        VerdictState::Leaks => TextTone::Bad,
        VerdictState::Unknown => TextTone::Doubt,
    }
}

/// The word that decides the exit code; with limits, the verdict without them as well.
fn headline(judged: &CpuVerdict, paint: TextPainter<'_>) -> String {
    let alone = word(judged.state);
    let (state, words) = match judged.limits {
        None => return paint(tone(judged.state), alone),
        Some(LimitsKept::Within) => (VerdictState::Holds, "within the limits"),
        Some(LimitsKept::Beyond) => (VerdictState::Leaks, "beyond the limits"),
        Some(LimitsKept::Unknown) => {
            (VerdictState::Unknown, "unknown whether it is within the limits")
        }
    };
    format!("{} (without limits: {alone})", paint(tone(state), words))
}

fn cpu_text(
    evidence: &Evidence,
    seen: &CpuEvidence,
    judged: &CpuVerdict,
    paint: TextPainter<'_>,
    width: usize,
) -> String {
    let mut text = format!("CPU {}: {}", seen.cpu, headline(judged, paint));
    text.push_str(&entry_counts(seen, evidence.span_ns));
    for why in &judged.unknown {
        text.push_str(&format!("  not proven: {why}\n"));
    }
    if !judged.leaks.is_empty() {
        text.push_str(&table(&judged.leaks, seen, evidence.span_ns, width));
    }
    text.push_str(&senders(seen));
    text.push_str(&gaps_and_steal(evidence, seen));
    text.push_str(&coverage(judged));
    text
}

/// The entries from user mode of one CPU, and the interrupts that hit the kernel itself.
fn entry_counts(seen: &CpuEvidence, span_ns: u64) -> String {
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

/// The senders of interrupts from other CPUs, and their purposes.
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
            SentIpi::Call { function } => describe_culprit(&Culprit::function(function)),
        };
        text.push_str(&format!("  sent from another CPU: {what} by {by}{from}{within}, {times}\n"));
        text.push_str(&stack_line(4, stack));
        if !remedy.is_empty() && !remedies.contains(remedy) {
            text.push_str(&format!("    remedy: {remedy}\n"));
            remedies.push(remedy.clone());
        }
    }
    match seen.senders.len().saturating_sub(SENDERS_MAX) {
        0 => {}
        more => text.push_str(&format!("  and {more} more senders (--json lists all)\n")),
    }
    text
}

fn table(leaks: &[Leak], seen: &CpuEvidence, span_ns: u64, width: usize) -> String {
    let left = Align::Left;
    let right = Align::Right;
    let columns = [left, left, right, right, right, right, right, left];
    let head = ["cause", "culprit", "count", "rate/s", "nested", "time", "longest", "remedy"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(leaks.iter().take(ROWS_MAX).map(|leak| leak_row(leak, seen, span_ns)));
    let mut text = lay_out("  ", &columns, &rows);
    if text.lines().any(|line| columns_of(line) > width) {
        text = table_with_remedies_below(&columns, rows, width);
    }
    if leaks.len() > ROWS_MAX {
        text.push_str(&format!("  and {} more (--json lists all)\n", leaks.len() - ROWS_MAX));
    }
    for leak in leaks.iter().take(ROWS_MAX) {
        let InterruptionCount { cause, culprit, stack, .. } = &leak.interruptions;
        if !stack.is_empty() {
            text.push_str(&format!("  call stack of {cause} {culprit}\n"));
            text.push_str(&stack_line(4, stack));
        }
    }
    text
}

/// The table with the remedy, its last column, on a line below each row.
fn table_with_remedies_below(columns: &[Align], rows: Vec<Vec<String>>, width: usize) -> String {
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
    // The lines of each row are found again, so that its remedy can follow them.
    let table = fit("  ", columns, &cells, width);
    let mut lines = table.lines().peekable();
    for (n, remedy) in remedies.iter().enumerate() {
        while let Some(line) = lines.next() {
            text.push_str(line);
            text.push('\n');
            // The cause is blank on the continuation lines of a row.
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

fn leak_row(leak: &Leak, seen: &CpuEvidence, span_ns: u64) -> Vec<String> {
    let InterruptionCount { cause, culprit, count, nested, time_ns, max_ns, .. } =
        &leak.interruptions;
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
            None => describe_culprit(culprit) + &sent_by(&leak.interruptions, seen),
        },
        number_or_dash(*count),
        rate(*count, span_ns),
        number_or_dash(*nested),
        span_or_dash(*time_ns),
        span_or_dash(*max_ns),
        remedy,
    ]
}

fn number_or_dash(n: u64) -> String {
    if n == 0 { "-".to_owned() } else { n.to_string() }
}

/// The sender of a function call: `, sent by work drain_vmap_area_work`, and the number of further
/// ones. The function alone does not show what caused the call.
pub(super) fn sent_by(row: &InterruptionCount, seen: &CpuEvidence) -> String {
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

/// The culprit with its purpose where that is known; `-` where the culprit is unknown.
fn describe_culprit(culprit: &Culprit) -> String {
    known::describe(culprit).unwrap_or_else(|| "-".to_owned())
}

fn percent(part: u64, whole: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
    let percent = part as f64 * 100.0 / whole.max(1) as f64;
    // A part must not be rounded up to the whole.
    let percent = if part < whole { percent.min(99.99) } else { 100.0 };
    format!("{percent:.2} %")
}

fn gaps_and_steal(evidence: &Evidence, seen: &CpuEvidence) -> String {
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
                "  gaps of {least} or more: {n}, longest {}, total {} ({})\n",
                span(gaps.max_ns),
                span(gaps.sum_ns),
                percent(gaps.sum_ns, evidence.span_ns)
            )),
        }
        match &seen.joined {
            Some(joined) => text.push_str(&attributed_gaps(joined, seen, evidence.guest)),
            None => text.push_str(&explained_gaps(gaps, seen)),
        }
    }
    if let Some(ns) = seen.steal_ns.filter(|ns| *ns > 0) {
        text.push_str(&format!("  the hypervisor took {}\n", span(ns)));
    }
    text
}

/// How many of the gaps the trace explains, and the possible causes of the others.
fn attributed_gaps(joined: &GapAttribution, seen: &CpuEvidence, guest: Option<bool>) -> String {
    let GapAttribution { explained, unexplained, .. } = joined;
    if explained.count + unexplained.count == 0 {
        return String::new();
    }
    let mut text = format!(
        "  the trace explains {} of {} gaps ({})",
        explained.count,
        explained.count + unexplained.count,
        span(explained.sum_ns)
    );
    if unexplained.count == 0 {
        text.push('\n');
        return text;
    }
    text.push_str(&format!(
        "; {} without a trace event (longest {}, total {})\n",
        unexplained.count,
        span(unexplained.max_ns),
        span(unexplained.sum_ns)
    ));
    text.push_str(&format!("  {}\n", unexplained_cause(unexplained, seen, guest)));
    let longest = joined.worst.iter().take(3);
    let longest: Vec<String> =
        longest.map(|gap| format!("{} at {}", span(gap.ns), span(gap.at_ns))).collect();
    text.push_str(&format!("  the longest of them: {}\n", longest.join(", ")));
    text
}

/// The cause of the gaps that the trace does not explain, by the steal and the SMI counters.
fn unexplained_cause(gaps: &GapPart, seen: &CpuEvidence, guest: Option<bool>) -> String {
    let by_smi = seen.smis.unwrap_or(0).min(gaps.count);
    match (by_smi, guest) {
        (0, Some(true)) => match seen.steal_ns.unwrap_or(0).min(gaps.sum_ns) {
            0 => "cause: the hypervisor or its firmware".to_owned(),
            ns if ns == gaps.sum_ns => "cause: the hypervisor, by the steal counter".to_owned(),
            ns => format!(
                "cause: the hypervisor for {}, by the steal counter; the other {} is unexplained",
                span(ns),
                span(gaps.sum_ns - ns)
            ),
        },
        (0, _) if seen.smis.is_some() => "cause unknown: no SMI was counted".to_owned(),
        (0, _) => format!(
            "cause: firmware or unknown, because SMIs cannot be counted here; `cpushield latency \
                     hardware --cpus {}` measures with interrupts off",
            seen.cpu
        ),
        (n, _) if n == gaps.count => "cause: firmware, according to the SMI counter".to_owned(),
        (n, _) => format!(
            "cause: firmware for {n}, according to the SMI counter; the cause of the others is unknown"
        ),
    }
}

/// How much of the lost time the trace explains; the kernel did not cause the rest.
fn explained_gaps(gaps: &GapStatistics, seen: &CpuEvidence) -> String {
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
        PositiveControl::Seen { provoked } => {
            format!("seen by every witness: {}", join_texts(provoked))
        }
        PositiveControl::Missed { missed } => format!("MISSED: {}", join_texts(missed)),
        PositiveControl::NotDone { reason } => format!("not done: {reason}"),
    };
    text.push_str(&format!("positive control: {control}\n"));
    let traced = (evidence.witnesses.iter())
        .any(|witness| witness.kind == WitnessKind::Trace && witness.absent.is_none());
    for witness in &evidence.witnesses {
        let name = match witness.kind {
            WitnessKind::Trace => "kernel trace",
            WitnessKind::Counters => "counters",
            WitnessKind::EventCounters => "perf event counters",
            WitnessKind::Sampler => "gap sampler",
            WitnessKind::Firmware => "SMI counter",
        };
        match &witness.absent {
            Some(why) => text.push_str(&format!("{name}: not available: {why}\n")),
            // The blind spots of the counters do not matter where the trace sees them.
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
        text.push_str("stopped early: the figures cover the time until then\n");
    }
    text
}

/// How the perf events compare with the trace.
fn agreement(evidence: &Evidence) -> String {
    let events = evidence.cpus.iter().flat_map(|cpu| &cpu.events);
    let counted: u64 = events.filter_map(|event| event.counted).sum();
    if evidence.cpus.iter().any(|cpu| !cpu.witness_doubts.is_empty()) {
        return "DISAGREES with the kernel trace".to_owned();
    }
    format!("agrees with the kernel trace ({counted} events counted)")
}

/// The entry classes that fewer than two witnesses watched.
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
    use crate::causes::purpose::{InterruptPurpose, KernelOperation};
    use crate::change::EffectTime;
    use crate::policy::VerifyLimits;
    use crate::tunables::RemedyAnswer;
    use crate::verify::judge::examples;
    use crate::verify::{
        AbsenceReason, BlindSpot, ControlAt, DeferredBy, DeferredFunction, IpiOrigin, LimitBreach,
        ProvokeMethod, ProvokedIpis, Remedy, SCHEMA, UnexplainedGap, WatchedWorkload,
        WitnessReport, judge,
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
            control: PositiveControl::Seen {
                provoked: vec![ProvokedIpis {
                    count: 10,
                    by: ProvokeMethod::Membarrier,
                    at: ControlAt::BeforeSpan,
                }],
            },
            interference: Vec::new(),
            traced: None,
            breach: None,
        }
    }

    #[test]
    fn a_breach_shows_the_wall_clock_time_where_that_is_known() {
        let what = LimitBreach::Entries { count: 1, most: 0 };
        let (cpu, tree) = (2, Vec::new());
        let breach = Breach { cpu, what, at_ns: 90_500_000_000, tree };
        assert_eq!(when(&breach, Some(1_800_000_000)), "90.50 s (2027-01-15 08:01:30 UTC)");
        assert_eq!(when(&breach, None), "90.50 s");
    }

    #[test]
    fn the_text_shows_which_gaps_the_trace_explains_and_what_caused_the_others() {
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
        let hwlat = "cause: firmware or unknown, because SMIs cannot be counted here; `cpushield \
                     latency hardware --cpus 2` measures with interrupts off";
        let stolen = Some(90_000);
        for (smis, steal_ns, guest, cause) in [
            (Some(0), None, None, "cause unknown: no SMI was counted"),
            (Some(9), None, None, "cause: firmware, according to the SMI counter"),
            (
                Some(1),
                None,
                None,
                "cause: firmware for 1, according to the SMI counter; the cause of the others is unknown",
            ),
            (None, None, Some(true), "cause: the hypervisor or its firmware"),
            (None, None, Some(false), hwlat),
            (None, stolen, Some(true), "cause: the hypervisor, by the steal counter"),
            (
                None,
                Some(60_000),
                Some(true),
                "cause: the hypervisor for 60.0 µs, by the steal counter; the other 20.0 µs is \
                 unexplained",
            ),
        ] {
            let seen = CpuEvidence { smis, steal_ns, ..evidence().cpus[0].clone() };
            let expected = format!(
                "  the trace explains 7 of 9 gaps (90.0 µs); 2 without a trace event (longest 50.0 \
                 µs, total 80.0 µs)\n  {cause}\n  the longest of them: 50.0 µs at 3.00 s, 30.0 µs \
                 at 4.00 s\n"
            );
            assert_eq!(attributed_gaps(&joined, &seen, guest), expected);
        }
    }

    #[test]
    fn the_text_shows_the_senders_of_interrupts_and_their_purposes() {
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
            ..evidence().cpus[0].clone()
        };
        let text = senders(&seen);
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
        let flush = row(Cause::IpiCall, "do_flush_tlb_all", 1, 0);
        let mut seen = evidence().cpus[0].clone();
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
        assert_eq!(sent_by(&row(Cause::Tick, "do_flush_tlb_all", 1, 0), &seen), "");
    }

    #[test]
    fn the_text_shows_culprits_counts_times_and_remedies() {
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
  cause    culprit            count  rate/s  nested     time  longest  remedy
  tick     tick_nohz_handler      2    0.20       -  5.00 ms   4.1 µs  at boot: nohz_full=3
  softirq  -                      -       -       5  2.50 ms        -  -
  steal    hypervisor             1    0.10       -  2.50 ms   4.1 µs  -
  longest stretch: 10.00 s (99.99 %)
  gaps of 1.0 µs or more: 3, longest 41.0 µs, total 9.00 ms (0.09 %)
  the kernel's work explains 7.50 ms, firmware or the hypervisor took 1.50 ms
  the hypervisor took 30.00 ms
positive control: seen by every witness: 10 function-call IPIs by membarrier(2) to each CPU
    before the span
kernel trace: watched; cannot see: system calls of the workload (not requested); signals of the
    workload (no signal:signal_deliver)
counters: watched
gap sampler: not available: no CPU for it
limit --max-entries 0: found 2: EXCEEDED
limit --max-gap 50us: found 41us: held, according to the gap sampler
";
        let paint = |_: TextTone, words: &str| words.to_owned();
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
