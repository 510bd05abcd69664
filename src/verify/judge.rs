//! Judge: [`Evidence`] → [`Verdict`]. Pure. A claim needs its evidence: `holds` when nothing was
//! seen and the witnesses prove that they see, `leaks` when something was seen, else `unknown` with
//! the reason.

use crate::policy::Limits;
use crate::verify::{
    Control, CpuEvidence, CpuVerdict, Evidence, Gate, Interruptions, Leak, Remedy, SCHEMA, State,
    Verdict, Watched, Witness, WitnessKind,
};

/// Judges. `remedy` says how an interruption can be removed, or why it cannot, where known.
#[must_use]
pub fn judge(
    evidence: &Evidence,
    limits: &Limits,
    remedy: &dyn Fn(&Interruptions) -> Result<Remedy, Option<String>>,
) -> Verdict {
    let mut gates = Vec::new();
    if let Some(most) = limits.max_entries {
        gates.push(entries_gate(evidence, most));
    }
    if let Some(most_ns) = limits.max_gap_ns {
        gates.push(gap_gate(evidence, most_ns));
    }
    let cpus = evidence.cpus.iter().map(|cpu| judge_cpu(evidence, cpu, remedy)).collect();
    Verdict { schema: SCHEMA, cpus, gates }
}

impl Verdict {
    /// Whether all is well: with limits, each of them held for certain; without, every CPU holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        if self.gates.is_empty() {
            !self.cpus.is_empty() && self.cpus.iter().all(|cpu| cpu.state == State::Holds)
        } else {
            self.gates.iter().all(|gate| gate.held == Some(true))
        }
    }
}

fn witness(evidence: &Evidence, kind: WitnessKind) -> Option<&Witness> {
    evidence.witnesses.iter().find(|witness| witness.kind == kind)
}

/// Why a witness did not watch; `None` when it did.
fn absent(evidence: &Evidence, kind: WitnessKind) -> Option<String> {
    match witness(evidence, kind) {
        Some(witness) => witness.absent.clone(),
        None => Some("it was not asked".to_owned()),
    }
}

fn judge_cpu(
    evidence: &Evidence,
    cpu: &CpuEvidence,
    remedy: &dyn Fn(&Interruptions) -> Result<Remedy, Option<String>>,
) -> CpuVerdict {
    let leaks: Vec<Leak> = cpu
        .interruptions
        .iter()
        .filter(|row| row.count > 0 || row.nested > 0)
        .map(|row| leak(row, remedy(row)))
        .collect();
    let broken = broken(evidence, cpu);
    let mut unknown = broken.clone();
    unknown.extend(cpu.doubts.iter().cloned());
    if leaks.is_empty() {
        unknown.extend(unproven(evidence, cpu));
    }
    let state = match (broken.is_empty(), leaks.is_empty(), unknown.is_empty()) {
        (false, ..) => State::Unknown,
        (true, false, _) => State::Leaks,
        (true, true, false) => State::Unknown,
        (true, true, true) => State::Holds,
    };
    CpuVerdict { cpu: cpu.cpu, state, leaks, unknown }
}

/// What makes an instrument worthless: neither what it saw nor what it did not see counts.
fn broken(evidence: &Evidence, cpu: &CpuEvidence) -> Vec<String> {
    let mut why = Vec::new();
    if let Some(lost) = cpu.lost.filter(|lost| *lost > 0) {
        why.push(format!("the trace lost {lost} events"));
    }
    if let Control::Missed { what } = &evidence.control {
        why.push(format!("the positive control was not seen: {what}"));
    }
    why
}

/// What is missing for the claim that nothing happened.
fn unproven(evidence: &Evidence, cpu: &CpuEvidence) -> Vec<String> {
    let mut why = Vec::new();
    if evidence.stopped {
        why.push("it was stopped before its time".to_owned());
    }
    if let Control::NotDone { why: reason } = &evidence.control {
        why.push(format!("no interruption was provoked to prove that the witnesses see: {reason}"));
    }
    if cpu.entries.is_none() {
        why.push("nothing could count entries into the kernel".to_owned());
    }
    let Some(no_trace) = absent(evidence, WitnessKind::Trace) else { return why };
    match (evidence.workload, &cpu.gaps) {
        (Watched::Given, _) => why.push(format!(
            "without the kernel's trace nobody sees system calls, page faults and exceptions of \
             the workload: {no_trace}"
        )),
        (Watched::Sampler, None) => {
            why.push(format!("neither the trace nor the gap sampler watched: {no_trace}"));
        }
        (Watched::Sampler, Some(gaps)) if gaps.count > 0 => why.push(format!(
            "{} gaps that no counter explains: firmware, the hypervisor or uncounted kernel work; \
             the kernel's trace could tell: {no_trace}",
            gaps.count
        )),
        (Watched::Sampler, Some(_)) => {}
    }
    why
}

/// Whether the number of entries on this CPU is the whole number.
fn is_complete(evidence: &Evidence, cpu: &CpuEvidence) -> bool {
    let counted =
        absent(evidence, WitnessKind::Trace).is_none() || evidence.workload == Watched::Sampler;
    let proven = matches!(evidence.control, Control::Seen { .. });
    counted
        && proven
        && !evidence.stopped
        && broken(evidence, cpu).is_empty()
        && cpu.doubts.is_empty()
}

fn entries_gate(evidence: &Evidence, most: u64) -> Gate {
    let over = evidence.cpus.iter().any(|cpu| cpu.entries.is_some_and(|n| n > most));
    let sure = evidence.cpus.iter().all(|cpu| cpu.entries.is_some() && is_complete(evidence, cpu));
    let found = evidence.cpus.iter().filter_map(|cpu| cpu.entries).max();
    Gate {
        limit: format!("--max-entries {most}"),
        found: found.map_or_else(|| "nothing counted".to_owned(), |n| n.to_string()),
        held: held(over, sure),
    }
}

fn gap_gate(evidence: &Evidence, most_ns: u64) -> Gate {
    let longest: Vec<Option<u64>> = evidence.cpus.iter().map(longest_gap).collect();
    let over = longest.iter().flatten().any(|ns| *ns > most_ns);
    let sure = evidence.cpus.iter().all(|cpu| sees_gaps(evidence, cpu, most_ns));
    let found = longest.iter().flatten().max();
    Gate {
        limit: format!("--max-gap {}", limit(most_ns)),
        found: found.map_or_else(|| "nothing measured".to_owned(), |ns| measured(*ns)),
        held: held(over, sure && !evidence.cpus.is_empty()),
    }
}

/// A limit as it may have been written: in the largest unit that divides it.
fn limit(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
    let fit = units.into_iter().find(|(scale, _)| ns.is_multiple_of(*scale));
    fit.map_or_else(String::new, |(scale, unit)| format!("{}{unit}", ns / scale))
}

/// A measured time with two digits at least, never less than it was.
fn measured(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
    let fit = units.into_iter().find(|(scale, _)| ns / scale >= 10);
    let (scale, unit) = fit.unwrap_or((1, "ns"));
    format!("{}{unit}", ns.div_ceil(scale))
}

/// More than the limit was seen, or else the evidence is complete; else nobody knows.
fn held(over: bool, sure: bool) -> Option<bool> {
    match (over, sure) {
        (true, _) => Some(false),
        (false, true) => Some(true),
        (false, false) => None,
    }
}

/// The longest time lost, by the workload's own view where there is one, else by the trace.
fn longest_gap(cpu: &CpuEvidence) -> Option<u64> {
    match &cpu.gaps {
        Some(gaps) if gaps.count == 0 => Some(0),
        Some(gaps) => Some(gaps.max_ns),
        None => cpu.interruptions.iter().filter_map(|row| row.max_ns).max(),
    }
}

/// Whether a gap of that length could not have escaped.
fn sees_gaps(evidence: &Evidence, cpu: &CpuEvidence, limit_ns: u64) -> bool {
    let by_eye = cpu.gaps.as_ref().is_some_and(|gaps| gaps.threshold_ns <= limit_ns);
    let by_trace = absent(evidence, WitnessKind::Trace).is_none()
        && cpu.interruptions.iter().all(|row| row.max_ns.is_some());
    (by_eye || cpu.gaps.is_none() && by_trace) && is_complete(evidence, cpu)
}

fn leak(row: &Interruptions, remedy: Result<Remedy, Option<String>>) -> Leak {
    let interruptions = row.clone();
    match remedy {
        Ok(remedy) => Leak { interruptions, remedy: Some(remedy), why_none: None },
        Err(why_none) => Leak { interruptions, remedy: None, why_none },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causes::Cause;
    use crate::change::When;
    use crate::verify::Gaps;

    fn row(cause: Cause, count: u64, max_ns: Option<u64>) -> Interruptions {
        let witness = WitnessKind::Trace;
        let culprit = String::new();
        Interruptions { cause, culprit, count, nested: 0, time_ns: None, max_ns, witness }
    }

    fn gaps(count: u64, max_ns: u64) -> Gaps {
        Gaps {
            resolution_ns: 12.0,
            threshold_ns: 1_000,
            count,
            max_ns,
            sum_ns: max_ns,
            longest_ns: 1_000_000,
            overflow: 0,
        }
    }

    /// One CPU on which all three witnesses watched and saw nothing.
    fn clean() -> Evidence {
        let watched = |kind| Witness { kind, absent: None, blind: Vec::new() };
        Evidence {
            schema: SCHEMA,
            span_ns: 1_000_000_000,
            stopped: false,
            workload: Watched::Sampler,
            cpus: vec![CpuEvidence {
                cpu: 3,
                entries: Some(0),
                interruptions: Vec::new(),
                longest_ns: Some(1_000_000_000),
                gaps: Some(gaps(0, 0)),
                lost: Some(0),
                steal_ns: Some(0),
                doubts: Vec::new(),
            }],
            witnesses: vec![
                watched(WitnessKind::Trace),
                watched(WitnessKind::Counters),
                watched(WitnessKind::Sampler),
            ],
            control: Control::Seen { what: "10 IPIs".to_owned() },
        }
    }

    fn untraced(mut evidence: Evidence) -> Evidence {
        evidence.witnesses[0].absent = Some("no tracefs".to_owned());
        evidence.cpus[0].lost = None;
        evidence
    }

    fn with(mut evidence: Evidence, change: impl FnOnce(&mut Evidence)) -> Evidence {
        change(&mut evidence);
        evidence
    }

    fn state(evidence: &Evidence) -> (State, Vec<String>) {
        let mut verdict = judge(evidence, &Limits::default(), &|_| Err(None));
        let cpu = verdict.cpus.remove(0);
        (cpu.state, cpu.unknown)
    }

    #[test]
    fn nothing_seen_by_witnesses_that_see_holds() {
        assert_eq!(state(&clean()), (State::Holds, Vec::new()));
        // Gaps without an event are not the kernel's; the trace proves that.
        let stolen = with(clean(), |e| e.cpus[0].gaps = Some(gaps(2, 50_000)));
        assert_eq!(state(&stolen), (State::Holds, Vec::new()));
        // Counters and a sampler without a gap are proof enough of a sampler's CPU.
        assert_eq!(state(&untraced(clean())), (State::Holds, Vec::new()));
    }

    #[test]
    fn no_claim_without_evidence() {
        let why = |text: &str| (State::Unknown, vec![text.to_owned()]);
        let tick = |e: &mut Evidence| e.cpus[0].interruptions.push(row(Cause::Tick, 9, None));
        for (evidence, expected) in [
            (with(clean(), |e| e.cpus[0].lost = Some(7)), why("the trace lost 7 events")),
            (
                with(clean(), |e| (e.cpus[0].lost = Some(7), tick(e)).1),
                why("the trace lost 7 events"),
            ),
            (
                with(clean(), |e| e.control = Control::Missed { what: "x".to_owned() }),
                why("the positive control was not seen: x"),
            ),
            (
                with(clean(), |e| e.control = Control::NotDone { why: "x".to_owned() }),
                why("no interruption was provoked to prove that the witnesses see: x"),
            ),
            (
                with(clean(), |e| e.cpus[0].doubts.push("it was offline".to_owned())),
                why("it was offline"),
            ),
            (
                with(clean(), |e| e.cpus[0].entries = None),
                why("nothing could count entries into the kernel"),
            ),
            (with(clean(), |e| e.stopped = true), why("it was stopped before its time")),
            (
                with(untraced(clean()), |e| e.cpus[0].gaps = None),
                why("neither the trace nor the gap sampler watched: no tracefs"),
            ),
            (
                with(untraced(clean()), |e| e.workload = Watched::Given),
                why("without the kernel's trace nobody sees system calls, page faults and \
                     exceptions of the workload: no tracefs"),
            ),
            (
                with(untraced(clean()), |e| e.cpus[0].gaps = Some(gaps(2, 50_000))),
                why("2 gaps that no counter explains: firmware, the hypervisor or uncounted \
                     kernel work; the kernel's trace could tell: no tracefs"),
            ),
        ] {
            assert_eq!(state(&evidence), expected);
            assert!(!judge(&evidence, &Limits::default(), &|_| Err(None)).holds());
        }
    }

    #[test]
    fn what_was_seen_leaks_with_its_remedy_even_without_a_trace() {
        let remedy = Remedy {
            tunable: "nohz-full".to_owned(),
            when: When::Boot,
            how: "nohz_full=3".to_owned(),
        };
        let tick = row(Cause::Tick, 250, None);
        let evidence = with(untraced(clean()), |e| e.cpus[0].interruptions.push(tick.clone()));
        let verdict = judge(&evidence, &Limits::default(), &|row| {
            if row.cause == Cause::Tick { Ok(remedy.clone()) } else { Err(None) }
        });
        let leaks = vec![Leak { interruptions: tick, remedy: Some(remedy), why_none: None }];
        let cpu = CpuVerdict { cpu: 3, state: State::Leaks, leaks, unknown: Vec::new() };
        assert_eq!(verdict, Verdict { schema: SCHEMA, cpus: vec![cpu], gates: Vec::new() });
        let nested = with(clean(), |e| {
            e.cpus[0]
                .interruptions
                .push(Interruptions { nested: 1, ..row(Cause::Softirq, 0, None) });
        });
        assert_eq!(state(&nested).0, State::Leaks);
    }

    #[test]
    fn limits_are_told_as_written_and_measured_times_never_smaller_than_they_were() {
        for (ns, text) in [(5_000, "5us"), (5_001, "5001ns"), (3_000_000_000, "3s"), (0, "0s")] {
            assert_eq!(limit(ns), text);
        }
        for (ns, text) in [(410_299, "411us"), (9_999, "9999ns"), (41_000_000, "41ms")] {
            assert_eq!(measured(ns), text);
        }
    }

    #[test]
    fn limits_are_held_broken_or_not_known() {
        let entries = |n| Limits { max_entries: Some(n), max_gap_ns: None };
        let gap = |ns| Limits { max_entries: None, max_gap_ns: Some(ns) };
        let ten = || {
            with(clean(), |e| {
                e.cpus[0].entries = Some(10);
                e.cpus[0].interruptions.push(row(Cause::Tick, 10, Some(4_000)));
                e.cpus[0].gaps = Some(gaps(10, 5_000));
            })
        };
        let lost = |e: &mut Evidence| e.cpus[0].lost = Some(1);
        let given = |e: &mut Evidence| (e.workload, e.cpus[0].gaps) = (Watched::Given, None);
        for (evidence, limits, held) in [
            (ten(), entries(10), Some(true)),
            (ten(), entries(9), Some(false)),
            (with(ten(), lost), entries(10), None),
            (with(ten(), lost), entries(9), Some(false)),
            (untraced(ten()), entries(10), Some(true)),
            (untraced(with(ten(), given)), entries(10), None),
            (with(ten(), |e| e.cpus[0].entries = None), entries(10), None),
            (ten(), gap(5_000), Some(true)),
            (ten(), gap(4_999), Some(false)),
            (clean(), gap(999), None),
            (with(ten(), given), gap(4_000), Some(true)),
            (with(ten(), given), gap(3_999), Some(false)),
            (untraced(with(ten(), given)), gap(4_000), None),
        ] {
            let verdict = judge(&evidence, &limits, &|_| Err(None));
            let found: Vec<_> = verdict.gates.iter().map(|gate| gate.held).collect();
            assert_eq!(found, [held], "{limits:?} {evidence:?}");
            assert_eq!(verdict.holds(), held == Some(true));
        }
    }
}
