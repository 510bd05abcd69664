//! Judge: [`Evidence`] → [`Verdict`]. Pure. Every claim needs evidence: `holds` when nothing was
//! seen and the witnesses prove that they see, `leaks` when something was seen, otherwise `unknown`
//! with the reason.
//!
//! Time may also go missing below the kernel. What the SMI counter or the steal counter shows is a
//! leak. Long gaps that nothing explains make the verdict `unknown` on a physical machine. In a
//! guest, the hypervisor may take time at any moment, which no shield can prevent: there such gaps
//! are reported, and count only against `--max-gap`.

use crate::causes::Culprit;
use crate::documents::evidence::{
    CpuEvidence, CpuVerdict, Evidence, GateLimit, InterruptSender, InterruptionCount, JudgeReason,
    LONG_NS, Leak, LimitsKept, SCHEMA, TickShare, Verdict, VerdictState, WatchedWorkload,
    WitnessKind,
};
use crate::policy::{TickLimit, VerifyLimits};
use crate::tunables::RemedyAnswer;
use crate::verify::class_coverage::ClassCoverage;
use crate::verify::gates::{judge_limits, limits_kept};
use crate::verify::reasons::{
    absence, doubtful_figures, ended_early, idle_cpu, incomplete_run, longest_interruption,
    uncompared_gaps, unreliable_instruments,
};
use crate::verify::{certain, cyclic};

/// Returns how to remove an interruption of a CPU, or why that is impossible. The senders are those
/// of all interrupts from other CPUs to that CPU.
pub type FindRemedy<'a> = dyn Fn(&InterruptionCount, &[InterruptSender]) -> RemedyAnswer + 'a;

/// Judges the evidence.
#[must_use]
pub fn judge(evidence: &Evidence, limits: &VerifyLimits, remedy: &FindRemedy<'_>) -> Verdict {
    let mut cpus = Vec::new();
    for cpu in &evidence.cpus {
        let limits_kept = limits_kept(&judge_limits(evidence, std::slice::from_ref(cpu), limits));
        let verdict = judge_cpu(evidence, cpu, limits, remedy);
        cpus.push(CpuVerdict { limits: limits_kept, ..verdict });
    }
    let gates = judge_limits(evidence, &evidence.cpus, limits);
    Verdict { schema: SCHEMA, cpus, gates, tick: limits.tick }
}

impl Verdict {
    /// Adds to each leaked interrupt the device that raises it; `device` maps an IRQ to its device.
    #[must_use]
    pub fn with_devices(mut self, device: impl Fn(u32) -> Option<String>) -> Verdict {
        for leak in self.cpus.iter_mut().flat_map(|cpu| &mut cpu.leaks) {
            leak.device = match leak.interruptions.culprit {
                Culprit::Irq { irq, .. } => device(irq),
                _ => None,
            };
        }
        self
    }

    /// Whether it claims more than the evidence shows. No verdict of [`judge`] does, but a document
    /// that another program changed may.
    #[must_use]
    pub fn claims_more_than(&self, evidence: &Evidence) -> bool {
        let mut limits = VerifyLimits::default();
        for gate in &self.gates {
            match gate.limit {
                GateLimit::Entries { most } => limits.max_entries = Some(most),
                GateLimit::Gap { most_ns } => limits.max_gap_ns = Some(most_ns),
                GateLimit::Foreign { most } => limits.max_foreign = Some(most),
                GateLimit::Steal { most_ppm } => limits.max_steal_ppm = Some(most_ppm),
                GateLimit::Latency { .. } | GateLimit::LinuxCnc { .. } => {}
            }
        }
        let judged = judge(evidence, &limits, &|_, _| RemedyAnswer::Unknown);
        let proven: Vec<_> = judged.holding_cpus().collect();
        let kept: Vec<GateLimit> = judged.kept_limits().collect();
        let within: Vec<usize> = judged.cpus_within_limits().collect();
        self.holding_cpus().any(|cpu| !proven.contains(&cpu))
            || self.kept_limits().any(|limit| !kept.contains(&limit))
            || self.cpus_within_limits().any(|cpu| !within.contains(&cpu))
    }

    /// The CPUs that hold, and apart from what.
    fn holding_cpus(&self) -> impl Iterator<Item = (usize, Option<TickShare>)> {
        let holding = self.cpus.iter().filter(|cpu| cpu.state == VerdictState::Holds);
        holding.map(|cpu| (cpu.cpu, cpu.apart_from))
    }

    /// The CPUs on which all limits are certainly kept.
    fn cpus_within_limits(&self) -> impl Iterator<Item = usize> {
        let within = self.cpus.iter().filter(|cpu| cpu.limits == Some(LimitsKept::Within));
        within.map(|cpu| cpu.cpu)
    }

    /// The limits that are certainly kept.
    fn kept_limits(&self) -> impl Iterator<Item = GateLimit> {
        self.gates.iter().filter(|gate| gate.held == Some(true)).map(|gate| gate.limit)
    }

    /// Whether the verdict is positive: every limit certainly held or, without limits, every CPU
    /// holds, without a tick unless that is allowed.
    #[must_use]
    pub fn holds(&self) -> bool {
        if self.gates.is_empty() {
            let allowed = self.tick == TickLimit::Allowed;
            let holds = |cpu: &CpuVerdict| {
                cpu.state == VerdictState::Holds && (allowed || cpu.apart_from.is_none())
            };
            !self.cpus.is_empty() && self.cpus.iter().all(holds)
        } else {
            self.gates.iter().all(|gate| gate.held == Some(true))
        }
    }
}

fn judge_cpu(
    evidence: &Evidence,
    cpu: &CpuEvidence,
    limits: &VerifyLimits,
    remedy: &FindRemedy<'_>,
) -> CpuVerdict {
    let leaks = cyclic::counted_rows(evidence, cpu);
    let remedy = |row: &InterruptionCount| leak_of_row(row, remedy(row, &cpu.senders));
    let leaks: Vec<Leak> = leaks.iter().map(remedy).collect();
    let mut unreliable = unreliable_instruments(evidence, cpu);
    // Nothing was interrupted by what hit the idle loop.
    unreliable.extend(idle_cpu(evidence, cpu));
    unreliable.extend(cyclic::missing_records(evidence, cpu));
    let mut unknown = unreliable.clone();
    unknown.extend(doubtful_figures(cpu));
    unknown.extend(unnamed_gaps(evidence, cpu));
    // In a guest they are no reason for doubt either.
    unknown.extend(uncompared_gaps(cpu).filter(|_| evidence.guest != Some(true)));
    unknown.extend(ended_early(evidence));
    unknown.extend(cyclic::doubts(evidence, cpu));
    if leaks.is_empty() {
        unknown.extend(missing_proof(evidence, cpu));
    }
    let coverage = ClassCoverage::assess(evidence, cpu);
    unknown.extend(coverage.missing_witnesses().filter(|_| limits.two_witnesses));
    let is_certain = |leak: &Leak| certain::is_certain(cpu, &leak.interruptions, &unreliable);
    let is_reliable = unreliable.is_empty() || leaks.iter().any(is_certain);
    let state = match (is_reliable, leaks.is_empty(), unknown.is_empty()) {
        (false, ..) => VerdictState::Unknown,
        (true, false, _) => VerdictState::Leaks,
        (true, true, false) => VerdictState::Unknown,
        (true, true, true) => VerdictState::Holds,
    };
    let ClassCoverage { one_witness, unwatched } = coverage;
    let apart_from = cyclic::tick_share(cpu).filter(|_| state == VerdictState::Holds);
    let (cpu, limits) = (cpu.cpu, None);
    CpuVerdict { cpu, state, apart_from, limits, leaks, one_witness, unwatched, unknown }
}

/// Which evidence is missing for the claim that nothing happened.
fn missing_proof(evidence: &Evidence, cpu: &CpuEvidence) -> Vec<JudgeReason> {
    let mut why = incomplete_run(evidence, cpu);
    if cpu.entries.is_none() {
        why.push(JudgeReason::NoEntryCounter);
    }
    let Some(no_trace) = absence(evidence, WitnessKind::Trace) else { return why };
    match (evidence.workload, &cpu.gaps) {
        (WatchedWorkload::Given | WatchedWorkload::Cyclic, _) => {
            why.push(JudgeReason::WorkloadUnseen { no_trace });
        }
        (WatchedWorkload::Sampler, None) => why.push(JudgeReason::NothingWatched { no_trace }),
        (WatchedWorkload::Sampler, Some(gaps)) if gaps.count > 0 => {
            why.push(JudgeReason::GapsUnexplained { count: gaps.count, no_trace });
        }
        (WatchedWorkload::Sampler, Some(_)) => {}
    }
    why
}

/// Long gaps that no witness explains. In a guest they are no reason for doubt, because there the
/// hypervisor may take the CPU unseen.
fn unnamed_gaps(evidence: &Evidence, cpu: &CpuEvidence) -> Option<JudgeReason> {
    if evidence.guest == Some(true) {
        return None;
    }
    let Some(joined) = &cpu.joined else { return gap_of_unknown_moment(evidence, cpu) };
    let count = joined.long.saturating_sub(cpu.smis.unwrap_or(0));
    let longest_ns = joined.unexplained.max_ns;
    (count > 0).then_some(JudgeReason::GapsUnnamed { count, longest_ns, smis: cpu.smis })
}

/// The longest gap, where the clock of the trace could not tell when the gaps were. What the trace
/// saw cannot be the reason if all of it was shorter.
fn gap_of_unknown_moment(evidence: &Evidence, cpu: &CpuEvidence) -> Option<JudgeReason> {
    let gaps = cpu.gaps.as_ref().filter(|gaps| gaps.count > 0)?;
    let longest_seen = longest_interruption(cpu).unwrap_or(0);
    let is_unseen = gaps.max_ns >= longest_seen.saturating_add(LONG_NS);
    let is_traced = absence(evidence, WitnessKind::Trace).is_none();
    let is_counted = |count: Option<u64>| count.is_some_and(|count| count > 0);
    let is_explained = is_counted(cpu.smis) || is_counted(cpu.steal_ns);
    (is_traced && is_unseen && !is_explained).then_some(JudgeReason::GapsUnnamed {
        count: 1,
        longest_ns: gaps.max_ns,
        smis: cpu.smis,
    })
}

fn leak_of_row(row: &InterruptionCount, remedy: RemedyAnswer) -> Leak {
    let interruptions = row.clone();
    let device = None;
    match remedy {
        RemedyAnswer::Remedy(remedy) => {
            Leak { interruptions, remedy: Some(remedy), why_none: None, device }
        }
        RemedyAnswer::Impossible(obstacle) => {
            Leak { interruptions, remedy: None, why_none: Some(obstacle), device }
        }
        RemedyAnswer::Unknown => Leak { interruptions, remedy: None, why_none: None, device },
    }
}

#[cfg(test)]
pub(crate) mod examples {
    use super::*;
    use crate::documents::evidence::{
        EntryClass, EventEvidence, GapAttribution, GapStatistics, PositiveControl, WitnessReport,
    };

    /// Every event except system calls, seen by both witnesses: nothing happened.
    pub fn both_witnesses() -> Vec<EventEvidence> {
        let classes = EntryClass::all().filter(|class| *class != EntryClass::SystemCall);
        classes
            .flat_map(|class| {
                class.witnesses().events.iter().map(move |event| EventEvidence {
                    class,
                    event: (*event).to_owned(),
                    recorded_least: 0,
                    recorded_most: 0,
                    counted: Some(0),
                })
            })
            .collect()
    }

    pub fn gaps(count: u64, max_ns: u64) -> GapStatistics {
        GapStatistics {
            resolution_ns: 12.0,
            threshold_ns: 1_000,
            count,
            max_ns,
            sum_ns: max_ns,
            longest_ns: 1_000_000,
            overflow: 0,
        }
    }

    fn watched(kind: WitnessKind) -> WitnessReport {
        WitnessReport { kind, absent: None, blind: Vec::new() }
    }

    /// One CPU on which all three witnesses watched and saw nothing.
    pub fn clean() -> Evidence {
        Evidence {
            shield: None,
            open_to: None,
            options: None,
            schema: SCHEMA,
            began_s: None,
            began_ns: 0,
            span_ns: 1_000_000_000,
            asked_ns: 1_000_000_000,
            ended: None,
            stopped: false,
            workload: WatchedWorkload::Sampler,
            guest: Some(false),
            machine: None,
            cpus: vec![CpuEvidence {
                cpu: 3,
                entries: Some(0),
                kernel_interrupts: Some(0),
                whole: true,
                interruptions: Vec::new(),
                longest_ns: Some(1_000_000_000),
                gaps: Some(gaps(0, 0)),
                lost: Some(0),
                steal_ns: Some(0),
                idle_ns: Some(0),
                smis: Some(0),
                ownership: None,
                joined: Some(GapAttribution::default()),
                senders: Vec::new(),
                tracked: true,
                events: both_witnesses(),
                witness_doubts: Vec::new(),
                doubts: Vec::new(),
            }],
            witnesses: vec![
                watched(WitnessKind::Trace),
                watched(WitnessKind::Counters),
                watched(WitnessKind::Sampler),
                watched(WitnessKind::Firmware),
            ],
            control: PositiveControl::Seen { provoked: Vec::new() },
            interference: Vec::new(),
            traced: None,
            breach: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::examples::{clean, gaps};
    use super::*;
    use crate::causes::Cause;
    use crate::change::EffectTime;
    use crate::documents::evidence::{AbsenceReason, PositiveControl, TraceInterference};
    use crate::documents::evidence::{
        BlindWitness, ControlAt, CpuDoubt, EntryClass, EventEvidence, GapAttribution, GapPart,
        GapStatistics, MissedControl, OwnedRow, Owner, OwnerSum, OwnershipEvidence, ProgramEnd,
        ProvokeFailure, ProvokeMethod, ProvokedIpis, WorkloadEnd,
    };
    use crate::documents::remedy::Remedy;

    fn row(cause: Cause, count: u64, max_ns: Option<u64>) -> InterruptionCount {
        let witness = WitnessKind::Trace;
        let counted = InterruptionCount::counted(cause, Culprit::Unknown, count, witness);
        InterruptionCount { max_ns, ..counted }
    }

    fn untraced(mut evidence: Evidence) -> Evidence {
        evidence.witnesses[0].absent = Some(AbsenceReason::failed("no tracefs"));
        evidence.cpus[0].lost = None;
        evidence
    }

    fn with(mut evidence: Evidence, change: impl FnOnce(&mut Evidence)) -> Evidence {
        change(&mut evidence);
        evidence
    }

    /// One gap of 50 µs in which the trace saw nothing.
    fn dark_gap(e: &mut Evidence) {
        let unexplained = GapPart { count: 1, sum_ns: 50_000, max_ns: 50_000 };
        e.cpus[0].gaps = Some(gaps(1, 50_000));
        e.cpus[0].joined =
            Some(GapAttribution { unexplained, long: 1, ..GapAttribution::default() });
    }

    #[test]
    fn a_trace_that_failed_while_it_ran_is_not_one_that_was_never_there() {
        let never = with(untraced(clean()), |e| e.cpus[0].events.clear());
        assert_eq!(state(&never).0, VerdictState::Holds, "the sampler saw no gap");
        let answer = "ENOENT".to_owned();
        let failed = with(never, |e| e.interference.push(TraceInterference::Failed { answer }));
        let why = "verify could not read its trace to the end: ENOENT".to_owned();
        assert_eq!(state(&failed), (VerdictState::Unknown, vec![why]));
    }

    #[test]
    fn a_leak_that_both_witnesses_counted_is_certain_whatever_else_is_doubted() {
        let seen = |count: Option<u64>, lost: u64| {
            with(clean(), |e| {
                e.interference.push(TraceInterference::Unreported);
                e.cpus[0].lost = Some(lost);
                e.cpus[0].interruptions.push(row(Cause::IpiCall, 175, None));
                let call = |event: &&mut EventEvidence| event.event.ends_with("single_entry");
                let event = e.cpus[0].events.iter_mut().find(call).unwrap();
                (event.recorded_least, event.recorded_most, event.counted) = (175, 175, count);
            })
        };
        let doubt = "the kernel could not report every access to the trace files";
        assert_eq!(state(&seen(Some(175), 0)), (VerdictState::Leaks, vec![doubt.to_owned()]));
        let unwitnessed = with(seen(Some(175), 0), |e| {
            e.cpus[0].interruptions[0].cause = Cause::IpiReschedule;
        });
        let idle = with(seen(Some(175), 0), |e| {
            (e.workload, e.cpus[0].idle_ns) = (WatchedWorkload::Given, Some(e.span_ns));
        });
        for unsure in [seen(None, 0), seen(Some(170), 0), seen(Some(175), 1), unwitnessed, idle] {
            assert_eq!(state(&unsure).0, VerdictState::Unknown, "{unsure:?}");
        }
    }

    #[test]
    fn a_starved_sampler_of_a_guest_does_not_decide_where_the_trace_saw_the_control() {
        let missed = |others: &[WitnessKind]| {
            let (by, at) = (ProvokeMethod::Membarrier, ControlAt::BeforeSpan);
            let kinds = others.iter().chain([&WitnessKind::Sampler]);
            let blind = kinds.map(|witness| BlindWitness { witness: *witness, cpu: 3, saw: 3 });
            let provoked = ProvokedIpis { count: 10, by, at };
            let witnesses = blind.collect();
            PositiveControl::Missed { missed: vec![MissedControl { provoked, witnesses }] }
        };
        for (guest, others, holds) in [
            (Some(true), &[][..], true),
            (Some(true), &[WitnessKind::Trace], false),
            (Some(true), &[WitnessKind::EventCounters], false),
            (Some(false), &[], false),
            (None, &[], false),
        ] {
            let evidence = with(clean(), |e| (e.guest, e.control) = (guest, missed(others)));
            let expected = if holds { VerdictState::Holds } else { VerdictState::Unknown };
            assert_eq!(state(&evidence).0, expected, "{guest:?} {others:?}");
            let limits = VerifyLimits { max_gap_ns: Some(5_000), ..VerifyLimits::default() };
            let gate = &judge(&evidence, &limits, &|_, _| RemedyAnswer::Unknown).gates[0];
            assert_eq!(gate.held, None, "the sampler measured the gaps");
            let untraced = state(&untraced(evidence));
            assert_eq!(untraced.0, VerdictState::Unknown, "{guest:?} {others:?}");
        }
    }

    #[test]
    fn a_share_that_the_host_may_take_is_a_limit_of_its_own() {
        let limits = VerifyLimits { max_steal_ppm: Some(10_000), ..VerifyLimits::default() };
        let unexplained = |ns| GapPart { count: 1, sum_ns: ns, max_ns: ns };
        for (guest, steal_ns, gaps_ns, held) in [
            (true, Some(0), Some(9_000_000), Some(true)),
            (true, Some(0), Some(11_000_000), Some(false)),
            (true, Some(20_000_000), Some(0), Some(false)),
            (true, Some(5_000_000), None, Some(true)),
            (true, Some(0), None, None),
            (true, None, None, None),
            (false, Some(0), None, Some(true)),
            (false, None, None, None),
        ] {
            let evidence = with(clean(), |e| {
                (e.guest, e.cpus[0].steal_ns) = (Some(guest), steal_ns);
                e.cpus[0].joined = gaps_ns.map(|ns| GapAttribution {
                    unexplained: unexplained(ns),
                    ..GapAttribution::default()
                });
            });
            let verdict = judge(&evidence, &limits, &|_, _| RemedyAnswer::Unknown);
            assert_eq!(verdict.gates[0].held, held, "{guest} {steal_ns:?} {gaps_ns:?}");
            assert!(!verdict.claims_more_than(&evidence));
        }
    }

    #[test]
    fn a_document_whose_verdict_was_changed_claims_more_than_its_evidence() {
        let limits = VerifyLimits { max_entries: Some(3), ..VerifyLimits::default() };
        let verdict = |evidence: &Evidence| judge(evidence, &limits, &|_, _| RemedyAnswer::Unknown);
        let leaking = with(clean(), |e| {
            e.cpus[0].entries = Some(4);
            e.cpus[0].interruptions.push(row(Cause::Tick, 4, None));
        });
        for evidence in [clean(), leaking.clone()] {
            assert!(!verdict(&evidence).claims_more_than(&evidence));
        }
        assert!(verdict(&clean()).claims_more_than(&leaking));
        let mut changed = verdict(&leaking);
        changed.cpus[0].state = VerdictState::Holds;
        assert!(changed.claims_more_than(&leaking), "the state");
        let mut changed = verdict(&leaking);
        changed.gates[0].held = Some(true);
        assert!(changed.claims_more_than(&leaking), "the limit");
        let mut changed = verdict(&leaking);
        changed.cpus[0].limits = Some(LimitsKept::Within);
        assert!(changed.claims_more_than(&leaking), "the limits of a CPU");
    }

    #[test]
    fn long_unexplained_gaps_are_firmware_the_hypervisor_or_a_doubt() {
        let why = |smis: &str| {
            let gap = "1 gap of 10us or more without a trace event, the longest 50us";
            (VerdictState::Unknown, vec![format!("{gap}; {smis}")])
        };
        let dark = |smis| {
            with(clean(), |e| {
                dark_gap(e);
                e.cpus[0].smis = smis;
            })
        };
        assert_eq!(state(&dark(Some(0))), why("no SMI was counted"));
        assert_eq!(state(&dark(None)), why("SMIs cannot be counted"));
        let smi = with(dark(Some(1)), |e| e.cpus[0].interruptions.push(row(Cause::Smi, 1, None)));
        assert_eq!(state(&smi), (VerdictState::Leaks, Vec::new()));
        // A trace whose clock is not that of the sampler cannot tell which gap is whose.
        let other_clock = |seen_ns| {
            with(dark(None), |e| {
                e.cpus[0].joined = None;
                let page_fault = row(Cause::PageFault, 0, Some(seen_ns));
                e.cpus[0].interruptions.push(page_fault);
            })
        };
        assert_eq!(state(&other_clock(4_000)), why("SMIs cannot be counted"));
        assert_eq!(state(&other_clock(49_000)), (VerdictState::Holds, Vec::new()));
        let short = with(dark(Some(0)), |e| e.cpus[0].joined.as_mut().unwrap().long = 0);
        assert_eq!(state(&short), (VerdictState::Holds, Vec::new()));
        let lost = with(clean(), |e| {
            e.cpus[0].gaps = Some(GapStatistics { overflow: 2, ..gaps(40_000, 900) });
            e.cpus[0].joined.as_mut().unwrap().unjoined = 1;
        });
        let too_fast = "3 of the gaps and interruptions could not be matched";
        assert_eq!(state(&lost), (VerdictState::Unknown, vec![too_fast.to_owned()]));
        assert_eq!(state(&with(lost, |e| e.guest = Some(true))).0, VerdictState::Holds);
        // A shield cannot keep the hypervisor away; its gaps count only against a gap limit.
        let guest = with(dark(None), |e| e.guest = Some(true));
        assert_eq!(state(&guest), (VerdictState::Holds, Vec::new()));
        let limits =
            VerifyLimits { max_entries: None, max_gap_ns: Some(20_000), ..VerifyLimits::default() };
        assert_eq!(
            judge(&guest, &limits, &|_, _| RemedyAnswer::Unknown).gates[0].held,
            Some(false)
        );
    }

    #[test]
    fn a_gap_limit_fails_for_what_only_the_trace_saw() {
        let held = |traced_ns: u64| {
            let evidence = with(clean(), |e| {
                e.cpus[0].interruptions.push(row(Cause::Tick, 1, Some(traced_ns)));
            });
            let limits = VerifyLimits {
                max_entries: None,
                max_gap_ns: Some(5_000),
                ..VerifyLimits::default()
            };
            judge(&evidence, &limits, &|_, _| RemedyAnswer::Unknown).gates[0].held
        };
        assert_eq!((held(4_000), held(8_000)), (Some(true), Some(false)));
    }

    #[test]
    fn the_trace_alone_proves_no_gap_limit_where_time_may_go_missing_below_it() {
        let gate = |change: &dyn Fn(&mut Evidence)| {
            let evidence = with(clean(), |e| {
                e.workload = WatchedWorkload::Given;
                (e.cpus[0].gaps, e.cpus[0].joined) = (None, None);
                e.cpus[0].interruptions.push(row(Cause::Tick, 10, Some(4_000)));
                e.cpus[0]
                    .interruptions
                    .push(InterruptionCount { nested: 3, ..row(Cause::Softirq, 0, None) });
                change(e);
            });
            let limits = VerifyLimits {
                max_entries: None,
                max_gap_ns: Some(5_000),
                ..VerifyLimits::default()
            };
            let gate = judge(&evidence, &limits, &|_, _| RemedyAnswer::Unknown).gates.remove(0);
            (gate.held, texts(&gate.why))
        };
        let by =
            "according to the trace; no SMI was counted, and there is no hypervisor".to_owned();
        assert_eq!(gate(&|_| ()), (Some(true), vec![by]));
        let unknown = |why: &str| (None, vec![why.to_owned()]);
        let no_smis = |e: &mut Evidence| {
            e.cpus[0].smis = None;
            e.witnesses[3].absent = Some(AbsenceReason::failed("modprobe msr"));
        };
        assert_eq!(
            gate(&no_smis),
            unknown(
                "the trace does not show time taken by firmware, and SMIs cannot be counted: \
                 modprobe msr"
            )
        );
        let smis = |e: &mut Evidence| e.cpus[0].smis = Some(2);
        assert_eq!(gate(&smis), unknown("firmware took the CPU 2 times; for how long is unknown"));
        let steal = |e: &mut Evidence| e.cpus[0].steal_ns = Some(10_000_000);
        assert_eq!(gate(&steal), unknown("the hypervisor took 10ms"));
        let guest = |e: &mut Evidence| e.guest = Some(true);
        assert_eq!(
            gate(&guest),
            unknown(
                "the trace does not show time taken by the hypervisor; run `verify` without a \
                 command, so that the gap sampler measures it"
            )
        );
        let untimed =
            |e: &mut Evidence| e.cpus[0].interruptions.push(row(Cause::PageFault, 1, None));
        assert_eq!(gate(&untimed), unknown("the duration of page-fault is unknown"));
        let syscalls = |e: &mut Evidence| e.cpus[0].whole = false;
        assert_eq!(
            gate(&syscalls),
            unknown("system calls are entries too, but were not counted: use --syscalls")
        );
    }

    #[test]
    fn interrupts_that_only_the_counters_saw_decide_no_entry_limit() {
        let held = |tracked, most| {
            let evidence = with(clean(), |e| {
                e.workload = WatchedWorkload::Given;
                (e.cpus[0].tracked, e.cpus[0].entries) = (tracked, Some(100));
                let counted = |cause| InterruptionCount {
                    witness: WitnessKind::Counters,
                    ..row(cause, 50, None)
                };
                e.cpus[0].interruptions = vec![counted(Cause::Unattributed), counted(Cause::Steal)];
            });
            let limits = VerifyLimits {
                max_entries: Some(most),
                max_gap_ns: None,
                ..VerifyLimits::default()
            };
            let gate = judge(&evidence, &limits, &|_, _| RemedyAnswer::Unknown).gates.remove(0);
            (gate.held, texts(&gate.why))
        };
        let unknown =
            "the trace did not count 50 interrupts, which caused no trace event".to_owned();
        assert_eq!(held(false, 120), (None, vec![unknown]));
        assert_eq!(held(false, 150), (Some(true), Vec::new()));
        assert_eq!(held(false, 90), (Some(false), Vec::new()));
        assert_eq!(held(true, 120), (Some(true), Vec::new()));
    }

    fn missed_control() -> PositiveControl {
        let (by, at) = (ProvokeMethod::Membarrier, ControlAt::BeforeSpan);
        let provoked = ProvokedIpis { count: 10, by, at };
        let witnesses = vec![BlindWitness { witness: WitnessKind::Trace, cpu: 3, saw: 0 }];
        PositiveControl::Missed { missed: vec![MissedControl { provoked, witnesses }] }
    }

    fn texts(reasons: &[JudgeReason]) -> Vec<String> {
        reasons.iter().map(ToString::to_string).collect()
    }

    fn state(evidence: &Evidence) -> (VerdictState, Vec<String>) {
        let mut verdict = judge(evidence, &VerifyLimits::default(), &|_, _| RemedyAnswer::Unknown);
        let cpu = verdict.cpus.remove(0);
        (cpu.state, texts(&cpu.unknown))
    }

    #[test]
    fn a_cpu_holds_when_proven_witnesses_saw_nothing() {
        assert_eq!(state(&clean()), (VerdictState::Holds, Vec::new()));
        // Gaps that the trace explains count as its rows.
        let explained = with(clean(), |e| e.cpus[0].gaps = Some(gaps(2, 50_000)));
        assert_eq!(state(&explained), (VerdictState::Holds, Vec::new()));
        // For the sampler's own CPU, counters and a sampler without a gap are proof enough.
        assert_eq!(state(&untraced(clean())), (VerdictState::Holds, Vec::new()));
    }

    #[test]
    fn an_instrument_that_was_interfered_with_proves_nothing() {
        let written = |file: String| TraceInterference::Written { file, by: None };
        let interfered = |n: usize| {
            with(clean(), |e| {
                e.interference = (0..n).map(|i| written(format!("file{i}"))).collect();
                e.cpus[0].interruptions.push(row(Cause::Tick, 9, None));
            })
        };
        let (judged, why) = state(&interfered(1));
        assert_eq!(judged, VerdictState::Unknown, "neither what it saw nor what it missed counts");
        assert_eq!(why, ["another process wrote to file0 in the trace instance of verify"]);
        let (_, why) = state(&interfered(9));
        assert_eq!(why.len(), 5);
        assert_eq!(why[4], "and 5 more changes to what the trace records");
        let limits =
            VerifyLimits { max_entries: Some(10), max_gap_ns: None, ..VerifyLimits::default() };
        assert_eq!(
            judge(&interfered(1), &limits, &|_, _| RemedyAnswer::Unknown).gates[0].held,
            None
        );
    }

    #[test]
    fn witnesses_that_disagree_prove_nothing_and_both_figures_are_shown() {
        let blind = with(clean(), |e| {
            let faults = e.cpus[0].events.iter_mut();
            let faults = faults.filter(|event| event.class == EntryClass::PageFault);
            faults.for_each(|event| event.counted = Some(1_382));
            let doubts = e.cpus[0].events.iter().filter_map(EventEvidence::disagreement);
            e.cpus[0].witness_doubts = doubts.collect();
        });
        let (unknown, why) = state(&blind);
        assert_eq!(unknown, VerdictState::Unknown);
        assert_eq!(
            why,
            ["the witnesses for page faults disagree: perf counted 1382 of \
              exceptions:page_fault_user, the trace recorded 0"]
        );
    }

    #[test]
    fn two_witnesses_can_be_required() {
        let limits = VerifyLimits { two_witnesses: true, ..VerifyLimits::default() };
        let judged = |evidence: &Evidence| judge(evidence, &limits, &|_, _| RemedyAnswer::Unknown);
        assert!(judged(&clean()).holds());
        let uncounted =
            with(clean(), |e| e.cpus[0].events.iter_mut().for_each(|event| event.counted = None));
        assert!(!judged(&uncounted).holds());
        assert_eq!(
            state(&uncounted).0,
            VerdictState::Holds,
            "one witness is enough unless two are required"
        );
    }

    #[test]
    fn a_claim_without_evidence_is_unknown() {
        let why = |text: &str| (VerdictState::Unknown, vec![text.to_owned()]);
        let tick = |e: &mut Evidence| e.cpus[0].interruptions.push(row(Cause::Tick, 9, None));
        let refused = ProvokeFailure::PerfEventRefused { answer: "ENOSYS".to_owned() };
        for (evidence, expected) in [
            (with(clean(), |e| e.cpus[0].lost = Some(7)), why("the trace lost 7 events")),
            (
                with(clean(), |e| (e.cpus[0].lost = Some(7), tick(e)).1),
                why("the trace lost 7 events"),
            ),
            (
                with(clean(), |e| e.control = missed_control()),
                why("the positive control was not seen: 10 function-call IPIs to each CPU with \
                     membarrier(2) before the span, but the trace of CPU 3 saw 0"),
            ),
            (
                with(clean(), |e| e.control = PositiveControl::NotDone { reason: refused.clone() }),
                why("the positive control could not be run: perf_event_open(2): ENOSYS"),
            ),
            (
                with(clean(), |e| e.cpus[0].doubts.push(CpuDoubt::SamplerMoved)),
                why("the sampler was moved off this CPU"),
            ),
            (
                with(clean(), |e| e.cpus[0].entries = None),
                why("no counter of kernel entries is available"),
            ),
            (with(clean(), |e| e.stopped = true), why("the run was stopped early")),
            (
                with(untraced(clean()), |e| e.cpus[0].gaps = None),
                why("neither the trace nor the gap sampler watched: no tracefs"),
            ),
            (
                with(untraced(clean()), |e| e.workload = WatchedWorkload::Given),
                why("without the kernel trace, no witness sees system calls, page faults or \
                     exceptions of the workload: no tracefs"),
            ),
            (
                with(untraced(clean()), |e| e.cpus[0].gaps = Some(gaps(2, 50_000))),
                why("2 gaps that no counter explains: firmware, the hypervisor or uncounted \
                     kernel work; the kernel trace could name the cause, but did not \
                     watch: no tracefs"),
            ),
        ] {
            assert_eq!(state(&evidence), expected);
            assert!(
                !judge(&evidence, &VerifyLimits::default(), &|_, _| RemedyAnswer::Unknown).holds()
            );
        }
    }

    #[test]
    fn a_program_that_ended_early_proves_nothing_about_the_requested_time() {
        let after = |after_ns| {
            with(clean(), |e| {
                (e.workload, e.cpus[0].gaps, e.asked_ns) =
                    (WatchedWorkload::Given, None, 2_000_000_000);
                e.ended = Some(WorkloadEnd { how: ProgramEnd::Exited { status: 0 }, after_ns });
            })
        };
        let more = "use --warmup 0s or a program that runs longer";
        let short = format!("the program ended after 2840us of the requested 2s; {more}");
        let late = format!("the program ended before the watch started (exit status: 0); {more}");
        assert_eq!(state(&after(2_840_000)), (VerdictState::Unknown, vec![short.clone()]));
        assert_eq!(state(&after(0)), (VerdictState::Unknown, vec![late.clone()]));
        assert_eq!(state(&after(999_999_999)).0, VerdictState::Unknown);
        assert_eq!(state(&after(1_000_000_000)), (VerdictState::Holds, Vec::new()));
        let tick = |mut e: Evidence| {
            e.cpus[0].interruptions.push(row(Cause::Tick, 1, Some(4_000)));
            e.cpus[0].entries = Some(1);
            e
        };
        // A leak before its end stays a leak; what came after its end does not count.
        assert_eq!(state(&tick(after(2_840_000))), (VerdictState::Leaks, vec![short.clone()]));
        assert_eq!(state(&tick(after(0))), (VerdictState::Unknown, vec![late.clone()]));
        let limits = VerifyLimits {
            max_entries: Some(1),
            max_gap_ns: Some(5_000),
            ..VerifyLimits::default()
        };
        for (after_ns, held, why) in [
            (2_840_000, None, vec![short]),
            (0, None, vec![late]),
            (2_000_000_000, Some(true), Vec::new()),
        ] {
            let verdict = judge(&tick(after(after_ns)), &limits, &|_, _| RemedyAnswer::Unknown);
            assert_eq!((verdict.gates[0].held, texts(&verdict.gates[0].why)), (held, why));
            assert_eq!(verdict.gates[1].held, held);
            assert_eq!(verdict.holds(), held == Some(true));
        }
        let limits =
            VerifyLimits { max_entries: Some(0), max_gap_ns: None, ..VerifyLimits::default() };
        let verdict = judge(&tick(after(2_840_000)), &limits, &|_, _| RemedyAnswer::Unknown);
        assert_eq!(verdict.gates[0].held, Some(false), "a limit that was broken stays broken");
    }

    #[test]
    fn a_leaked_interrupt_is_reported_with_its_device() {
        let disk = InterruptionCount {
            culprit: Culprit::irq(36, "virtio1-req.0"),
            ..row(Cause::Irq, 2, None)
        };
        let tick = row(Cause::Tick, 250, None);
        let evidence = with(untraced(clean()), |e| e.cpus[0].interruptions = vec![disk, tick]);
        let verdict = judge(&evidence, &VerifyLimits::default(), &|_, _| RemedyAnswer::Unknown);
        let verdict = verdict.with_devices(|irq| (irq == 36).then(|| "vda, virtio_blk".to_owned()));
        let devices: Vec<_> =
            verdict.cpus[0].leaks.iter().map(|leak| leak.device.as_deref()).collect();
        assert_eq!(devices, [Some("vda, virtio_blk"), None]);
    }

    #[test]
    fn counters_alone_show_a_leak_with_its_remedy() {
        let remedy = Remedy {
            tunable: "nohz-full".to_owned(),
            when: EffectTime::Boot,
            how: "nohz_full=3".to_owned(),
        };
        let tick = row(Cause::Tick, 250, None);
        let evidence = with(untraced(clean()), |e| e.cpus[0].interruptions.push(tick.clone()));
        let verdict = judge(&evidence, &VerifyLimits::default(), &|row, _| {
            if row.cause == Cause::Tick {
                RemedyAnswer::Remedy(remedy.clone())
            } else {
                RemedyAnswer::Unknown
            }
        });
        let leaks =
            vec![Leak { interruptions: tick, remedy: Some(remedy), why_none: None, device: None }];
        let cpu = CpuVerdict { leaks, state: VerdictState::Leaks, ..verdict.cpus[0].clone() };
        let (schema, cpus, gates) = (SCHEMA, vec![cpu], Vec::new());
        assert_eq!(verdict, Verdict { schema, cpus, gates, tick: TickLimit::Counts });
        let nested = with(clean(), |e| {
            e.cpus[0]
                .interruptions
                .push(InterruptionCount { nested: 1, ..row(Cause::Softirq, 0, None) });
        });
        assert_eq!(state(&nested).0, VerdictState::Leaks);
    }

    #[test]
    fn an_idle_cpu_proves_nothing_about_a_given_workload() {
        let limits =
            VerifyLimits { max_entries: Some(0), max_gap_ns: None, ..VerifyLimits::default() };
        let judged = |workload, idle_ns| {
            let evidence = with(clean(), |e| {
                (e.workload, e.cpus[0].idle_ns) = (workload, idle_ns);
            });
            let verdict = judge(&evidence, &limits, &|_, _| RemedyAnswer::Unknown);
            (state(&evidence).0, verdict.gates[0].held)
        };
        let hit = with(clean(), |e| {
            (e.workload, e.cpus[0].idle_ns) = (WatchedWorkload::Given, Some(1_000_000_000));
            e.cpus[0].interruptions.push(row(Cause::Tick, 2, None));
        });
        assert_eq!(
            state(&hit).0,
            VerdictState::Unknown,
            "what hit the idle loop disturbed nothing"
        );
        let held = (VerdictState::Holds, Some(true));
        assert_eq!(
            judged(WatchedWorkload::Given, Some(985_000_000)),
            (VerdictState::Unknown, None)
        );
        // A program that sleeps most of the time still runs.
        assert_eq!(judged(WatchedWorkload::Given, Some(970_000_000)), held);
        assert_eq!(judged(WatchedWorkload::Given, None), held);
        // The sampler reports itself how long it ran.
        assert_eq!(judged(WatchedWorkload::Sampler, Some(985_000_000)), held);
    }

    #[test]
    fn of_a_cyclic_program_only_what_is_foreign_leaks() {
        let owned = |owner, harmless, cause| OwnedRow {
            owner,
            harmless,
            cause,
            culprit: Culprit::Unknown,
            by: None,
            same_process: false,
            count: 2,
            time_ns: 10,
            max_ns: 5,
        };
        let own = owned(Owner::Own, false, Cause::Hrtimer);
        let tick = owned(Owner::Tick, false, Cause::Tick);
        let (lost, harmless) = (owned(Owner::Unassigned, false, Cause::Hrtimer), true);
        let foreign = owned(Owner::Foreign, false, Cause::Irq);
        let (holds, leaks, unknown) =
            (VerdictState::Holds, VerdictState::Leaks, VerdictState::Unknown);
        let foreign_asleep = owned(Owner::Foreign, harmless, Cause::Irq);
        for (rows, activations, partial, expected, success, all_foreign) in [
            (vec![own.clone()], 100, false, holds, [true, true], 0),
            (vec![own.clone(), tick.clone()], 100, false, holds, [false, true], 0),
            (vec![own.clone(), foreign_asleep], 100, false, holds, [true, true], 2),
            (vec![own.clone(), foreign.clone()], 100, false, leaks, [false, false], 2),
            (vec![foreign.clone()], 3, false, leaks, [false, false], 2),
            (vec![foreign], 100, true, unknown, [false, false], 2),
            (vec![own.clone(), lost], 100, false, unknown, [false, false], 0),
            (vec![own.clone()], 99, false, unknown, [false, false], 0),
            (vec![own], 100, true, unknown, [false, false], 0),
        ] {
            let sums = rows.iter().map(|row| OwnerSum {
                owner: row.owner,
                harmless: row.harmless,
                count: row.count,
                time_ns: row.time_ns,
                max_ns: row.max_ns,
            });
            let seen = OwnershipEvidence {
                sums: sums.collect(),
                rows: rows.clone(),
                activations,
                delays: Default::default(),
                partial,
            };
            let evidence = with(clean(), |e| {
                (e.workload, e.cpus[0].ownership) = (WatchedWorkload::Cyclic, Some(seen));
                e.cpus[0].interruptions.push(row(Cause::Hrtimer, 9, Some(10)));
            });
            let judged = |limits| judge(&evidence, &limits, &|_, _| RemedyAnswer::Unknown);
            for (tick, success) in [TickLimit::Counts, TickLimit::Allowed].into_iter().zip(success)
            {
                let verdict = judged(VerifyLimits { tick, ..VerifyLimits::default() });
                assert_eq!(
                    (verdict.cpus[0].state, verdict.holds()),
                    (expected, success),
                    "{rows:?}"
                );
                assert!(!verdict.claims_more_than(&evidence));
            }
            let gate = judged(VerifyLimits { max_foreign: Some(1), ..VerifyLimits::default() });
            assert_eq!(gate.gates[0].held == Some(false), all_foreign > 1 && !partial, "{rows:?}");
        }
        let blind = with(clean(), |e| e.workload = WatchedWorkload::Cyclic);
        assert_eq!(state(&blind).0, unknown, "it could not be seen whose they were");
    }

    #[test]
    fn each_cpu_is_judged_by_its_own_figures_and_every_limit() {
        let evidence = with(clean(), |e| {
            let busy = CpuEvidence { cpu: 4, entries: Some(10), ..e.cpus[0].clone() };
            let lost = CpuEvidence { cpu: 5, lost: Some(1), ..e.cpus[0].clone() };
            e.cpus.extend([busy, lost]);
        });
        let kept = |max_entries, max_gap_ns| {
            let limits = VerifyLimits { max_entries, max_gap_ns, ..VerifyLimits::default() };
            let verdict = judge(&evidence, &limits, &|_, _| RemedyAnswer::Unknown);
            verdict.cpus.iter().map(|cpu| cpu.limits).collect::<Vec<_>>()
        };
        let (within, beyond) = (Some(LimitsKept::Within), Some(LimitsKept::Beyond));
        assert_eq!(kept(Some(9), None), [within, beyond, Some(LimitsKept::Unknown)]);
        assert_eq!(kept(Some(9), Some(5_000)), [within, beyond, Some(LimitsKept::Unknown)]);
        assert_eq!(kept(Some(10), Some(5_000)), [within, within, Some(LimitsKept::Unknown)]);
        assert_eq!(kept(None, None), [None; 3]);
    }

    #[test]
    fn limits_are_held_broken_or_unknown() {
        let entries =
            |n| VerifyLimits { max_entries: Some(n), max_gap_ns: None, ..VerifyLimits::default() };
        let gap = |ns| VerifyLimits {
            max_entries: None,
            max_gap_ns: Some(ns),
            ..VerifyLimits::default()
        };
        let ten = || {
            with(clean(), |e| {
                e.cpus[0].entries = Some(10);
                e.cpus[0].interruptions.push(row(Cause::Tick, 10, Some(4_000)));
                e.cpus[0].gaps = Some(gaps(10, 5_000));
            })
        };
        let lost = |e: &mut Evidence| e.cpus[0].lost = Some(1);
        let given =
            |e: &mut Evidence| (e.workload, e.cpus[0].gaps) = (WatchedWorkload::Given, None);
        for (evidence, limits, held) in [
            (ten(), entries(10), Some(true)),
            (ten(), entries(9), Some(false)),
            (with(ten(), lost), entries(10), None),
            (with(ten(), lost), entries(9), Some(false)),
            (untraced(ten()), entries(10), Some(true)),
            (untraced(with(ten(), given)), entries(10), None),
            (with(ten(), |e| e.cpus[0].entries = None), entries(10), None),
            // A thread that ran without an interrupt counts as well.
            (with(ten(), |e| e.cpus[0].entries = Some(9)), entries(9), Some(false)),
            (with(ten(), given), entries(10), Some(true)),
            (with(with(ten(), given), |e| e.cpus[0].whole = false), entries(10), None),
            (with(ten(), |e| e.cpus[0].whole = false), entries(10), Some(true)),
            (ten(), gap(5_000), Some(true)),
            (ten(), gap(4_999), Some(false)),
            (clean(), gap(999), None),
            (with(ten(), given), gap(4_000), Some(true)),
            (with(ten(), given), gap(3_999), Some(false)),
            (untraced(with(ten(), given)), gap(4_000), None),
        ] {
            let verdict = judge(&evidence, &limits, &|_, _| RemedyAnswer::Unknown);
            let found: Vec<_> = verdict.gates.iter().map(|gate| gate.held).collect();
            assert_eq!(found, [held], "{limits:?} {evidence:?}");
            let kept = match held {
                Some(true) => LimitsKept::Within,
                Some(false) => LimitsKept::Beyond,
                None => LimitsKept::Unknown,
            };
            assert_eq!(verdict.cpus[0].limits, Some(kept), "{limits:?} {evidence:?}");
            assert_eq!(verdict.holds(), held == Some(true));
        }
    }
}
