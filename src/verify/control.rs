//! The positive control: interruptions provoked on purpose, which every witness must see. A
//! witness that misses them is blind, and its silence proves nothing.

use crate::causes::Cause;
use crate::documents::evidence::{
    BlindWitness, ControlAt, InterruptionCount, MissedControl, PositiveControl, ProvokeFailure,
    ProvokedIpis, WitnessKind,
};
use crate::observe::counters::CpuCounts;
use crate::observe::provoke::{ProvokedInterrupt, TIMES};
use crate::trace::TraceEvidence;
use cpushield_linux::CpuSet;

/// How many interruptions every witness must see. A spinner that is off its CPU for a moment is not
/// interrupted, so half of them are enough.
pub const ENOUGH: u64 = TIMES.div_ceil(2) as u64;

/// What was provoked, and what each witness saw of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provocation {
    /// The end of the span at which it was provoked.
    pub at: ControlAt,
    /// What was provoked, or why nothing could be.
    pub provoked: Result<ProvokedInterrupt, ProvokeFailure>,
    /// Each CPU, and its function-call interrupts during the control; `None` when they could not be
    /// counted.
    pub counted: Vec<(usize, Option<u64>)>,
    /// Each CPU, and the function-call interrupts that perf events counted; `None` when they could
    /// not be counted.
    pub perf: Vec<(usize, Option<u64>)>,
    /// Each CPU, and its function-call interrupts in the trace; `None` without a trace.
    pub traced: Option<Vec<(usize, u64)>>,
}

/// The number of function-call interrupts in the rows.
fn count_calls<'a>(rows: impl IntoIterator<Item = &'a InterruptionCount>) -> u64 {
    let rows = rows.into_iter();
    rows.filter(|row| row.cause == Cause::IpiCall).map(|row| row.count + row.nested).sum()
}

/// The number of function-call interrupts in the counts; `None` when nothing was counted.
#[must_use]
pub fn counted(counts: &CpuCounts) -> Option<u64> {
    counts.entries.map(|_| count_calls(counts.interruptions()))
}

/// The number of function-call interrupts in the trace, by CPU.
#[must_use]
pub fn traced(seen: &[TraceEvidence]) -> Vec<(usize, u64)> {
    seen.iter().map(|cpu| (cpu.cpu, count_calls(&cpu.interruptions))).collect()
}

/// Decides whether every witness saw what was provoked.
#[must_use]
pub fn judge(provocation: &Provocation) -> PositiveControl {
    let provoked = match &provocation.provoked {
        Ok(provoked) => provoked,
        Err(reason) => return PositiveControl::NotDone { reason: reason.clone() },
    };
    let ipis = ProvokedIpis { count: TIMES, by: provoked.by, at: provocation.at };
    let idle = provoked.idle.iter();
    let never_busy: CpuSet = idle.filter(|(_, sent)| *sent == 0).map(|(cpu, _)| *cpu).collect();
    let enough = |cpu: usize| {
        let sent = provoked.idle.iter().find(|(idle, _)| *idle == cpu).map(|(_, sent)| *sent);
        sent.map_or(ENOUGH, |sent| sent.div_ceil(2) as u64)
    };
    // Without counters there is nothing to prove about them; the judge reports their absence.
    let counted = provocation.counted.iter().filter_map(|(cpu, n)| Some((*cpu, (*n)?)));
    let perf = provocation.perf.iter().filter_map(|(cpu, n)| Some((*cpu, (*n)?)));
    let traced = provocation.traced.iter().flatten().copied();
    let seen = (provoked.seen.iter().map(|(cpu, n)| (WitnessKind::Sampler, *cpu, *n as u64)))
        .chain(counted.map(|(cpu, n)| (WitnessKind::Counters, cpu, n)))
        .chain(perf.map(|(cpu, n)| (WitnessKind::EventCounters, cpu, n)))
        .chain(traced.map(|(cpu, n)| (WitnessKind::Trace, cpu, n)));
    let witnesses: Vec<BlindWitness> = seen
        .filter(|(_, cpu, saw)| *saw < enough(*cpu))
        .map(|(witness, cpu, saw)| BlindWitness { witness, cpu, saw })
        .collect();
    if !witnesses.is_empty() {
        PositiveControl::Missed { missed: vec![MissedControl { provoked: ipis, witnesses }] }
    } else if !never_busy.is_empty() {
        let reason = ProvokeFailure::Idle { cpus: never_busy, at: provocation.at };
        PositiveControl::NotDone { reason }
    } else {
        PositiveControl::Seen { provoked: vec![ipis] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::evidence::ProvokeMethod;

    fn judge_seen(
        seen: &[(usize, usize)],
        counted: &[(usize, Option<u64>)],
        traced: Option<&[(usize, u64)]>,
    ) -> PositiveControl {
        judge(&Provocation {
            at: ControlAt::BeforeSpan,
            perf: Vec::new(),
            provoked: Ok(ProvokedInterrupt {
                by: ProvokeMethod::Membarrier,
                seen: seen.to_vec(),
                idle: Vec::new(),
            }),
            counted: counted.to_vec(),
            traced: traced.map(<[_]>::to_vec),
        })
    }

    #[test]
    fn a_witness_that_misses_what_was_provoked_is_named() {
        let (by, at) = (ProvokeMethod::Membarrier, ControlAt::BeforeSpan);
        let ipis = ProvokedIpis { count: 10, by, at };
        let seen = PositiveControl::Seen { provoked: vec![ipis] };
        assert_eq!(judge_seen(&[(3, 10)], &[(3, Some(11))], Some(&[(3, 10)])), seen);
        assert_eq!(judge_seen(&[], &[(3, None)], None), seen);
        let missed = |by: &str| {
            format!(
                "the positive control was not seen: 10 function-call IPIs to each CPU with \
                 membarrier(2) before the span, but {by}"
            )
        };
        assert_eq!(
            judge_seen(&[(3, 4)], &[(3, Some(10))], None).to_string(),
            missed("the sampler on CPU 3 saw 4")
        );
        assert_eq!(
            judge_seen(
                &[(2, 9), (3, 10)],
                &[(2, Some(10)), (3, Some(0))],
                Some(&[(2, 0), (3, 10)])
            )
            .to_string(),
            missed("the counters of CPU 3 saw 0, the trace of CPU 2 saw 0")
        );
        let reason = ProvokeFailure::PerfEventRefused { answer: "ENOSYS".to_owned() };
        let at = ControlAt::AfterSpan;
        let (counted, perf) = (Vec::new(), Vec::new());
        let not = Provocation { at, provoked: Err(reason.clone()), counted, perf, traced: None };
        assert_eq!(judge(&not), PositiveControl::NotDone { reason });
        let by = ProvokeMethod::PerfEvent;
        let provoked = Ok(ProvokedInterrupt { by, seen: Vec::new(), idle: Vec::new() });
        let blind = judge(&Provocation { provoked, perf: vec![(3, Some(0))], ..not });
        let witness = WitnessKind::EventCounters;
        let miss = MissedControl {
            provoked: ProvokedIpis { count: 10, by, at },
            witnesses: vec![BlindWitness { witness, cpu: 3, saw: 0 }],
        };
        assert_eq!(blind, PositiveControl::Missed { missed: vec![miss] });
    }

    #[test]
    fn a_cpu_that_was_idle_must_show_only_what_was_sent_to_it() {
        let judged = |sent: usize, saw: u64| {
            judge(&Provocation {
                at: ControlAt::AfterSpan,
                provoked: Ok(ProvokedInterrupt {
                    by: ProvokeMethod::PerfEvent,
                    seen: Vec::new(),
                    idle: vec![(2, sent)],
                }),
                counted: vec![(2, Some(saw)), (3, Some(10))],
                perf: vec![(2, Some(saw)), (3, Some(10))],
                traced: Some(vec![(2, saw), (3, 10)]),
            })
        };
        assert!(matches!(judged(4, 2), PositiveControl::Seen { .. }));
        assert!(matches!(judged(4, 1), PositiveControl::Missed { .. }));
        let PositiveControl::NotDone { reason } = judged(0, 0) else { panic!() };
        assert!(reason.concerns(2) && !reason.concerns(3), "{reason}");
    }
}
