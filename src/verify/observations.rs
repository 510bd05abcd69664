//! Combines what the witnesses saw. Each fact comes from the best witness that was present. Pure.

use crate::causes::culprit::KernelEvent;
use crate::causes::{Cause, Culprit};
use crate::documents::evidence::{
    AbsenceReason, BlindSpot, CpuDoubt, CpuEvidence, EntryClass, EventEvidence, GapAttribution,
    InterruptionCount, WatchedWorkload, WitnessKind, WitnessReport,
};
use crate::observe::counters::{self, CountedRow, CounterSnapshot, CpuCounts};
use crate::observe::event_counters::ComparedCpu;
use crate::observe::firmware::{self, SmiCounts};
use crate::observe::rows::Tracepoint;
use crate::observe::sampler;
use crate::trace::TraceEvidence;

/// What the trace and the sampler saw in the span.
#[derive(Debug, Clone, PartialEq)]
pub struct SpanObservation {
    /// One entry for each CPU; `None` without a trace.
    pub trace: Option<Vec<TraceEvidence>>,
    /// Each CPU and what its sampler saw; empty without a sampler.
    pub gaps: Vec<(usize, Option<sampler::SamplerObservation>)>,
    /// For how long each sampler had to run at least, in nanoseconds; 0 without a sampler.
    pub sampled_ns: u64,
}

/// Everything that was observed, of all CPUs.
#[derive(Debug, Clone, PartialEq)]
pub struct CombinedObservations {
    /// Counters at the start of the span.
    pub before: CounterSnapshot,
    /// Counters at its end.
    pub after: CounterSnapshot,
    /// SMI counters at both ends.
    pub smis: (SmiCounts, SmiCounts),
    /// What the trace and the sampler saw.
    pub seen: SpanObservation,
    /// The trace compared with the perf events that count the same.
    pub compared: Vec<ComparedCpu>,
    /// The threads of the workload.
    pub threads: Vec<i32>,
    /// Doubts about all figures.
    pub doubts: Vec<CpuDoubt>,
    /// The length of the span, in nanoseconds.
    pub span_ns: u64,
}

impl CombinedObservations {
    /// The evidence about one CPU.
    #[must_use]
    pub fn cpu_evidence(&self, cpu: usize, workload: WatchedWorkload) -> CpuEvidence {
        let counts = counters::compare(&self.before, &self.after, cpu, &self.threads);
        let sampled = self.seen.gaps.iter().find(|(sampled_cpu, _)| *sampled_cpu == cpu);
        let gaps = sampled.and_then(|(_, observation)| observation.clone());
        let trace = self.seen.trace.iter().flatten().find(|trace| trace.cpu == cpu);
        let compared = self.compared.iter().find(|compared| compared.cpu == cpu);
        let (events, witness_doubts) = compared
            .cloned()
            .map_or_else(Default::default, |compared| (compared.events, compared.doubts));
        let smis = firmware::between(&self.smis.0, &self.smis.1, cpu);
        let mut doubts = self.doubts.clone();
        doubts.extend(counts.doubts.iter().cloned());
        match &gaps {
            Some(sampled) => doubts.extend(self.sampler_doubts(sampled)),
            None if workload == WatchedWorkload::Sampler => doubts.push(CpuDoubt::NoSampler),
            None => {}
        }
        let sampler_longest_ns = gaps.as_ref().map(|seen| seen.gaps.longest_ns);
        match trace {
            Some(trace) => {
                doubts.extend(trace_doubts(trace, &events));
                doubts.extend(disagreement(trace, &counts));
                let mut interruptions = merge_rows(trace, &counts, smis);
                // What was lost may have been an entry whose interruption was still counted.
                let rows = trace.interruptions.iter().map(|row| row.count);
                let least = if trace.lost > 0 { rows.sum() } else { 0 };
                if workload == WatchedWorkload::Sampler {
                    // It makes no system call, and raises no exception.
                    interruptions.iter_mut().for_each(forget_guess);
                }
                CpuEvidence {
                    cpu,
                    entries: Some(trace.entries.max(least)),
                    kernel_interrupts: Some(trace.kernel_interrupts),
                    whole: trace.whole,
                    tracked: trace.tracked,
                    interruptions,
                    longest_ns: sampler_longest_ns.or(trace.longest_ns),
                    gaps: gaps.map(|seen| seen.gaps),
                    lost: Some(trace.lost),
                    steal_ns: counts.steal_ns,
                    idle_ns: self.idle_ns(&counts),
                    smis,
                    joined: trace.joined.clone(),
                    ownership: trace.ownership.clone(),
                    senders: trace.senders.clone(),
                    events,
                    witness_doubts,
                    doubts,
                }
            }
            None => CpuEvidence {
                cpu,
                entries: counts.entries,
                kernel_interrupts: None,
                whole: false,
                tracked: false,
                interruptions: counts.interruptions().cloned().chain(smi_row(smis, None)).collect(),
                longest_ns: sampler_longest_ns,
                gaps: gaps.map(|seen| seen.gaps),
                lost: None,
                steal_ns: counts.steal_ns,
                idle_ns: self.idle_ns(&counts),
                smis,
                joined: None,
                ownership: None,
                senders: Vec::new(),
                events,
                witness_doubts,
                doubts,
            },
        }
    }
}

impl CombinedObservations {
    /// The idle time of the span. The two reads of the times lie inside it, because the files of
    /// all tasks are read after them. Where the CPU was idle, what lies outside counts as idle too.
    fn idle_ns(&self, counts: &CpuCounts) -> Option<u64> {
        let read_ns = self.after.times_at_ns.saturating_sub(self.before.times_at_ns);
        let unread_ns = self.span_ns.saturating_sub(read_ns);
        counts.idle_ns.map(|ns| if ns == 0 { 0 } else { ns.saturating_add(unread_ns) })
    }
}

/// A sampler that ran for less than this part of its span, in thousandths, is doubted. It runs from
/// before its answer at the beginning until after the request to end, and counts the gap that is
/// under way then. So only the error of the two clocks can make the two times differ:
/// `environment` doubts a rate of the counter that changes by 200 ppm.
const WHOLE_PERMILLE: u64 = 999;

impl CombinedObservations {
    fn sampler_doubts(&self, seen: &sampler::SamplerObservation) -> Vec<CpuDoubt> {
        let mut doubts = Vec::new();
        if seen.backwards > 0 {
            doubts.push(CpuDoubt::SamplerClockBackwards { times: seen.backwards });
        }
        if seen.moved {
            doubts.push(CpuDoubt::SamplerMoved);
        }
        let span_ns = self.seen.sampled_ns;
        if seen.span_ns < span_ns / 1000 * WHOLE_PERMILLE {
            doubts.push(CpuDoubt::SamplerAway { ran_ns: seen.span_ns, span_ns });
        }
        doubts
    }
}

/// The SMIs that the processor counted; where gaps are correlated with the trace, at most the
/// number of unexplained gaps.
fn smi_row(smis: Option<u64>, joined: Option<&GapAttribution>) -> Option<InterruptionCount> {
    let count = smis?.min(joined.map_or(u64::MAX, |joined| joined.unexplained.count));
    (count > 0).then(|| {
        InterruptionCount::counted(Cause::Smi, Culprit::Firmware, count, WitnessKind::Firmware)
    })
}

/// The rows of the trace, plus the counters of what no event reports.
fn merge_rows(
    trace: &TraceEvidence,
    counts: &CpuCounts,
    smis: Option<u64>,
) -> Vec<InterruptionCount> {
    let mut rows = trace.interruptions.clone();
    for CountedRow { interruptions: row, tracepoint } in &counts.rows {
        let untraced = match tracepoint {
            Tracepoint::Present | Tracepoint::Inside => false,
            Tracepoint::Uncertain => trace.interruptions.iter().all(|seen| seen.cause != row.cause),
            Tracepoint::Absent => true,
        };
        if untraced {
            // Stolen time is no interrupt.
            if row.cause != Cause::Steal {
                rows.iter_mut().for_each(forget_guess);
            }
            rows.push(row.clone());
        }
    }
    rows.extend(smi_row(smis, trace.joined.as_ref()));
    rows
}

/// Entries without an event may have been interrupts without a tracepoint.
fn forget_guess(row: &mut InterruptionCount) {
    let guesses = [KernelEvent::SyscallOrException, KernelEvent::ExceptionWithoutSignal];
    if guesses.into_iter().any(|guess| row.culprit == guess.into()) {
        (row.cause, row.culprit) = (Cause::Unattributed, KernelEvent::WithoutEvent.into());
    }
}

/// A doubt when the trace saw less than the counters: its span encloses theirs, so it must see
/// more.
fn disagreement(trace: &TraceEvidence, counts: &CpuCounts) -> Option<CpuDoubt> {
    let traced = trace.entries.saturating_add(trace.kernel_interrupts);
    let untraced = counts.rows.iter().filter(|row| row.interruptions.cause != Cause::Steal);
    let untraced = untraced.filter(|row| row.tracepoint != Tracepoint::Present);
    let untraced: u64 = untraced.map(|row| row.interruptions.count).sum();
    let counted = counts.entries?.saturating_sub(untraced);
    (counted > traced).then_some(CpuDoubt::CountersSawMore { counted, traced })
}

/// The doubts of the trace. Where both witnesses saw every switch, a task that runs without one has
/// only changed its number, as a thread does that calls execve(2) (`de_thread()` in fs/exec.c,
/// 6.12).
fn trace_doubts(trace: &TraceEvidence, events: &[EventEvidence]) -> Vec<CpuDoubt> {
    let mut switches = events.iter().filter(|event| event.class == EntryClass::TaskSwitch);
    let complete = trace.lost == 0 && switches.any(EventEvidence::is_confirmed);
    let is_refuted = |doubt: &CpuDoubt| matches!(doubt, CpuDoubt::TaskNotAnnounced { .. });
    trace.doubts.iter().filter(|doubt| !(complete && is_refuted(doubt))).cloned().collect()
}

/// The report of the counters.
#[must_use]
pub fn counters_witness(before: &CounterSnapshot, after: &CounterSnapshot) -> WitnessReport {
    let mut blind = vec![BlindSpot::Exceptions, BlindSpot::Purposes, BlindSpot::Durations];
    if let Some(answer) = unread(&before.softirqs, &after.softirqs) {
        blind.push(BlindSpot::SoftirqCounts { answer });
    }
    if let Some(answer) = unread(&before.tasks, &after.tasks) {
        blind.push(BlindSpot::TaskRuns { answer });
    }
    if let Some(answer) = unread(&before.times, &after.times) {
        blind.push(BlindSpot::StolenTime { answer });
    }
    let absent = unread(&before.interrupts, &after.interrupts).map(AbsenceReason::failed);
    WitnessReport { kind: WitnessKind::Counters, absent, blind }
}

/// Why a file could not be read at one end of the span: then it shows nothing of the span.
fn unread<T>(before: &Result<T, String>, after: &Result<T, String>) -> Option<String> {
    before.as_ref().err().or(after.as_ref().err()).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::evidence::{GapPart, GapStatistics};
    use cpushield_linux::CpuSet;
    use cpushield_linux::text::{interrupts, stat};

    fn snapshot(local: u64, nmi: u64, steal: u64) -> CounterSnapshot {
        let table = format!(
            " CPU3\nLOC: {local} Local timer interrupts\nNMI: {nmi} Non-maskable interrupts\n"
        );
        CounterSnapshot {
            interrupts: interrupts::parse(&table).map_err(|e| e.to_string()),
            softirqs: Err("not there".to_owned()),
            times: stat::parse(&format!("cpu3 0 0 0 0 0 0 0 {steal}\n")).map_err(|e| e.to_string()),
            times_at_ns: 0,
            sched: Err("not there".to_owned()),
            tasks: Ok(std::collections::BTreeMap::new()),
        }
    }

    fn row(cause: Cause, count: u64, witness: WitnessKind) -> InterruptionCount {
        let culprit = match cause {
            Cause::Tick => Culprit::function("tick_nohz_handler"),
            _ => Culprit::Unknown,
        };
        InterruptionCount::counted(cause, culprit, count, witness)
    }

    fn trace(entries: u64) -> TraceEvidence {
        TraceEvidence {
            cpu: 3,
            span_ns: 1_000_000_000,
            entries,
            kernel_interrupts: 0,
            whole: false,
            tracked: false,
            switches: 0,
            interruption_count: entries,
            interruptions: vec![row(Cause::Tick, entries, WitnessKind::Trace)],
            longest_ns: Some(400_000_000),
            joined: None,
            ownership: None,
            senders: Vec::new(),
            lost: 2,
            skipped_bytes: 0,
            events: Vec::new(),
            doubts: vec![CpuDoubt::BytesNotUnderstood { count: 2 }],
        }
    }

    fn sampled(span_ns: u64) -> sampler::SamplerObservation {
        let gaps = GapStatistics {
            resolution_ns: 12.0,
            threshold_ns: 1_000,
            count: 7,
            max_ns: 5_000,
            sum_ns: 9_000,
            longest_ns: 300_000_000,
            overflow: 0,
        };
        sampler::SamplerObservation { gaps, span_ns, backwards: 0, moved: false }
    }

    fn gathered(
        trace: Option<TraceEvidence>,
        gaps: Option<sampler::SamplerObservation>,
    ) -> CombinedObservations {
        CombinedObservations {
            before: snapshot(100, 1, 5),
            after: snapshot(106, 2, 8),
            smis: (Err(AbsenceReason::Guest), Err(AbsenceReason::Guest)),
            seen: SpanObservation {
                trace: trace.map(|seen| vec![seen]),
                gaps: vec![(3, gaps)],
                sampled_ns: 1_000_000_000,
            },
            compared: Vec::new(),
            threads: Vec::new(),
            doubts: Vec::new(),
            span_ns: 1_000_000_000,
        }
    }

    #[test]
    fn the_trace_is_preferred_and_counters_add_what_it_cannot_see() {
        let seen = gathered(Some(trace(8)), Some(sampled(999_000_000)))
            .cpu_evidence(3, WatchedWorkload::Sampler);
        let mut steal = row(Cause::Steal, 1, WitnessKind::Counters);
        steal.culprit = Culprit::Hypervisor;
        steal.time_ns = Some(30_000_000);
        let expected = CpuEvidence {
            cpu: 3,
            entries: Some(8),
            kernel_interrupts: Some(0),
            whole: false,
            tracked: false,
            interruptions: vec![
                row(Cause::Tick, 8, WitnessKind::Trace),
                row(Cause::Nmi, 1, WitnessKind::Counters),
                steal,
            ],
            longest_ns: Some(300_000_000),
            gaps: Some(sampled(0).gaps),
            lost: Some(2),
            steal_ns: Some(30_000_000),
            idle_ns: Some(0),
            smis: None,
            joined: None,
            ownership: None,
            senders: Vec::new(),
            events: Vec::new(),
            witness_doubts: Vec::new(),
            doubts: vec![CpuDoubt::BytesNotUnderstood { count: 2 }],
        };
        assert_eq!(seen, expected);
    }

    #[test]
    fn interrupts_without_a_tracepoint_are_named_by_their_counters() {
        let rows = |traced: Vec<InterruptionCount>| {
            let mut all = gathered(Some(TraceEvidence { interruptions: traced, ..trace(8) }), None);
            for (snapshot, count) in [(&mut all.before, 2), (&mut all.after, 5)] {
                let table = format!(
                    " CPU3\nHYP: {count} Hypervisor callback interrupts\n\
                     HRE: {count} Hyper-V reenlightenment interrupts\n\
                     SPU: {count} Spurious interrupts\n"
                );
                snapshot.interrupts = interrupts::parse(&table).map_err(|e| e.to_string());
            }
            let rows = all.cpu_evidence(3, WatchedWorkload::Given).interruptions.into_iter();
            let rows = rows.filter(|row| row.cause != Cause::Steal);
            rows.map(|row| (row.count, row.culprit.to_string())).collect::<Vec<_>>()
        };
        let guess = InterruptionCount::counted(
            Cause::Unattributed,
            KernelEvent::SyscallOrException.into(),
            7,
            WitnessKind::Trace,
        );
        let expected = [
            (7, "an entry into the kernel without an event".to_owned()),
            (3, "Hyper-V reenlightenment interrupts".to_owned()),
            (3, "hypervisor callback".to_owned()),
        ];
        assert_eq!(rows(vec![guess]), expected);
        let device = row(Cause::Irq, 7, WitnessKind::Trace);
        let expected = [
            (7, String::new()),
            (3, "Hyper-V reenlightenment interrupts".to_owned()),
            (3, "hypervisor callback".to_owned()),
        ];
        assert_eq!(
            rows(vec![device]),
            expected,
            "a traced interrupt of a device hides none of them"
        );
    }

    #[test]
    fn firmware_is_named_when_smis_were_counted_and_time_is_missing() {
        let counts = |n: u64| -> SmiCounts { Ok([(3, n)].into_iter().collect()) };
        let rows = |gaps: Option<u64>| {
            let mut trace = trace(8);
            trace.joined = gaps.map(|count| GapAttribution {
                unexplained: GapPart { count, ..GapPart::default() },
                ..GapAttribution::default()
            });
            let smis = (counts(40), counts(43));
            let seen = CombinedObservations { smis, ..gathered(Some(trace), None) }
                .cpu_evidence(3, WatchedWorkload::Given);
            assert_eq!(seen.smis, Some(3));
            let smi = seen.interruptions.into_iter().filter(|row| row.cause == Cause::Smi);
            smi.map(|row| (row.culprit, row.count)).collect::<Vec<_>>()
        };
        assert_eq!(rows(Some(2)), [(Culprit::Firmware, 2)]);
        assert_eq!(rows(None), [(Culprit::Firmware, 3)]);
        assert_eq!(rows(Some(0)), [], "the SMIs were before or after the span");
    }

    #[test]
    fn a_trace_that_saw_less_than_the_counters_is_doubted() {
        let seen = gathered(Some(trace(6)), Some(sampled(999_000_000)))
            .cpu_evidence(3, WatchedWorkload::Sampler);
        assert_eq!(seen.doubts, [CpuDoubt::BytesNotUnderstood { count: 2 }]);
        // Of 7 interrupts, one is an NMI, which a trace may not report.
        let seen = gathered(Some(trace(4)), Some(sampled(999_000_000)))
            .cpu_evidence(3, WatchedWorkload::Sampler);
        let more = CpuDoubt::CountersSawMore { counted: 6, traced: 4 };
        assert_eq!(seen.doubts, [CpuDoubt::BytesNotUnderstood { count: 2 }, more]);
    }

    #[test]
    fn a_task_without_a_switch_is_no_doubt_where_both_witnesses_saw_every_switch() {
        let doubt = CpuDoubt::TaskNotAnnounced { times: 1, after: None };
        let doubted = |counted: Option<u64>, lost: u64| {
            let traced = TraceEvidence { lost, doubts: vec![doubt.clone()], ..trace(8) };
            let events = vec![EventEvidence {
                class: EntryClass::TaskSwitch,
                event: "sched:sched_switch".to_owned(),
                recorded_least: 4,
                recorded_most: 5,
                counted,
            }];
            let compared = vec![ComparedCpu { cpu: 3, events, doubts: Vec::new() }];
            let all = CombinedObservations { compared, ..gathered(Some(traced), None) };
            all.cpu_evidence(3, WatchedWorkload::Given).doubts.contains(&doubt)
        };
        assert!(!doubted(Some(5), 0));
        assert!(doubted(Some(6), 0) && doubted(None, 0) && doubted(Some(5), 1));
    }

    #[test]
    fn without_a_trace_the_other_witnesses_provide_the_figures() {
        let seen =
            gathered(None, Some(sampled(999_000_000))).cpu_evidence(3, WatchedWorkload::Sampler);
        assert_eq!((seen.entries, seen.longest_ns, seen.lost), (Some(7), Some(300_000_000), None));
        assert_eq!(seen.doubts, []);
    }

    #[test]
    fn what_could_not_be_read_at_one_end_of_the_span_is_a_blind_spot() {
        let whole = || CounterSnapshot {
            softirqs: cpushield_linux::text::softirqs::parse(" CPU3\n RCU: 1\n")
                .map_err(|e| e.to_string()),
            ..snapshot(100, 1, 5)
        };
        let answer = || "EIO".to_owned();
        let broken = || CounterSnapshot {
            interrupts: Err(answer()),
            softirqs: Err(answer()),
            times: Err(answer()),
            tasks: Err(answer()),
            ..whole()
        };
        let usual = [BlindSpot::Exceptions, BlindSpot::Purposes, BlindSpot::Durations];
        let unread = [
            BlindSpot::SoftirqCounts { answer: answer() },
            BlindSpot::TaskRuns { answer: answer() },
            BlindSpot::StolenTime { answer: answer() },
        ];
        assert_eq!(counters_witness(&whole(), &whole()).blind, usual);
        for (before, after) in [(whole(), broken()), (broken(), whole())] {
            let report = counters_witness(&before, &after);
            assert_eq!(report.blind, [&usual[..], &unread[..]].concat());
            assert_eq!(report.absent, Some(AbsenceReason::failed("EIO")));
        }
    }

    #[test]
    fn a_cpu_was_idle_for_the_whole_span_however_long_the_tasks_take_to_read() {
        let idle = |ticks: u64, times_at_ns| {
            let mut all = gathered(None, None);
            for (snapshot, ticks, at) in
                [(&mut all.before, 0, 1_000_000), (&mut all.after, ticks, times_at_ns)]
            {
                let line = format!("cpu3 0 0 0 {ticks} 0 0 0 0\n");
                snapshot.times = stat::parse(&line).map_err(|e| e.to_string());
                snapshot.times_at_ns = at;
            }
            all.cpu_evidence(3, WatchedWorkload::Given).idle_ns
        };
        // 0.7 s of a span of 1 s passed between the two reads.
        assert_eq!(idle(70, 701_000_000), Some(1_000_000_000));
        assert_eq!(idle(30, 701_000_000), Some(600_000_000));
        assert_eq!(idle(0, 701_000_000), Some(0), "a CPU that never idles");
        assert_eq!(idle(100, 1_001_000_000), Some(1_000_000_000));
    }

    #[test]
    fn a_change_of_the_machine_makes_every_cpu_doubtful() {
        let doubts = vec![CpuDoubt::CpusOffline { cpus: CpuSet::single(3) }];
        let all = CombinedObservations {
            doubts: doubts.clone(),
            ..gathered(None, Some(sampled(1 << 30)))
        };
        assert_eq!(all.cpu_evidence(3, WatchedWorkload::Sampler).doubts, doubts);
    }

    #[test]
    fn a_sampler_that_missed_a_part_of_the_span_is_doubted() {
        let doubts = |seen| gathered(None, seen).cpu_evidence(3, WatchedWorkload::Sampler).doubts;
        assert_eq!(doubts(None), [CpuDoubt::NoSampler]);
        assert_eq!(gathered(None, None).cpu_evidence(3, WatchedWorkload::Given).doubts, []);
        let late = sampled(998_000_000);
        let away = CpuDoubt::SamplerAway { ran_ns: 998_000_000, span_ns: 1_000_000_000 };
        assert_eq!(doubts(Some(late.clone())), std::slice::from_ref(&away));
        // The trace saw that time, but not what happened below the kernel in it.
        let traced = gathered(Some(trace(8)), Some(late.clone()));
        let traced = traced.cpu_evidence(3, WatchedWorkload::Sampler).doubts;
        assert_eq!(traced, [away, CpuDoubt::BytesNotUnderstood { count: 2 }]);
        // Messages to the sampler lie outside of its span, but in that of the trace.
        let mut slow = gathered(Some(trace(8)), Some(late));
        (slow.span_ns, slow.seen.sampled_ns) = (1_100_000_000, 998_000_000);
        let slow = slow.cpu_evidence(3, WatchedWorkload::Sampler).doubts;
        assert_eq!(slow, [CpuDoubt::BytesNotUnderstood { count: 2 }]);
        let strayed =
            sampler::SamplerObservation { backwards: 3, moved: true, ..sampled(1_000_000_000) };
        assert_eq!(
            doubts(Some(strayed)),
            [CpuDoubt::SamplerClockBackwards { times: 3 }, CpuDoubt::SamplerMoved]
        );
    }
}
