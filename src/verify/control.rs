//! The positive control: interruptions provoked on purpose, which every witness must see. A
//! witness that misses them is blind, and its silence proves nothing.

use crate::causes::Cause;
use crate::verify::counters::CpuCounts;
use crate::verify::trace::TraceEvidence;
use crate::verify::{InterruptionCount, PositiveControl};
use cpushield_linux::CpuSet;
use cpushield_linux::perf::{CpuEvent, PerfEvent};

/// The number of interruptions provoked on each CPU.
pub const TIMES: usize = 10;

/// The interruptions that were provoked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvokedInterrupt {
    /// How: `membarrier(2)`.
    pub how: &'static str,
    /// Each CPU, and how many of them the sampler saw; empty without a sampler.
    pub seen: Vec<(usize, usize)>,
}

/// The end of the span at which the control runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlAt {
    /// Before the span.
    BeforeSpan,
    /// After the span.
    AfterSpan,
}

impl ControlAt {
    const fn name(self) -> &'static str {
        match self {
            ControlAt::BeforeSpan => "before the span",
            ControlAt::AfterSpan => "after the span",
        }
    }
}

/// What was provoked, and what each witness saw of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provocation {
    /// The end of the span at which it was provoked.
    pub at: ControlAt,
    /// What was provoked, or why nothing could be.
    pub provoked: Result<ProvokedInterrupt, String>,
    /// Each CPU, and its function-call interrupts meanwhile; `None` when they could not be counted.
    pub counted: Vec<(usize, Option<u64>)>,
    /// Each CPU, and the function-call interrupts that perf events counted; `None` when they could
    /// not be counted.
    pub perf: Vec<(usize, Option<u64>)>,
    /// Each CPU, and its function-call interrupts in the trace; `None` without a trace.
    pub traced: Option<Vec<(usize, u64)>>,
}

/// Interrupts each CPU [`TIMES`] times from this thread, no matter what runs on it.
///
/// # Errors
/// The reason why that is not possible.
pub fn provoke(cpus: &CpuSet) -> Result<ProvokedInterrupt, String> {
    for cpu in cpus.iter() {
        let clock = CpuEvent::open(cpu, PerfEvent::CPU_CLOCK)
            .map_err(|e| format!("perf_event_open(2): {e}"))?;
        for _ in 0..TIMES {
            clock.read().map_err(|e| format!("perf_event_open(2): {e}"))?;
        }
    }
    Ok(ProvokedInterrupt { how: "perf_event_open(2)", seen: Vec::new() })
}

/// The number of function-call interrupts in the rows.
fn count_calls(rows: &[InterruptionCount]) -> u64 {
    rows.iter().filter(|row| row.cause == Cause::IpiCall).map(|row| row.count + row.nested).sum()
}

/// The number of function-call interrupts in the counts; `None` when nothing was counted.
#[must_use]
pub fn counted(counts: &CpuCounts) -> Option<u64> {
    counts.entries.map(|_| count_calls(&counts.interruptions))
}

/// The number of function-call interrupts in the trace, by CPU.
#[must_use]
pub fn traced(seen: &[TraceEvidence]) -> Vec<(usize, u64)> {
    seen.iter().map(|cpu| (cpu.cpu, count_calls(&cpu.interruptions))).collect()
}

impl PositiveControl {
    /// Combines the controls at both ends of the span: the worse one counts.
    #[must_use]
    pub fn and(self, other: PositiveControl) -> PositiveControl {
        match (self, other) {
            (PositiveControl::Missed { what }, PositiveControl::Missed { what: more }) => {
                PositiveControl::Missed { what: format!("{what}; {more}") }
            }
            (missed @ PositiveControl::Missed { .. }, _)
            | (_, missed @ PositiveControl::Missed { .. }) => missed,
            (not_done @ PositiveControl::NotDone { .. }, _)
            | (_, not_done @ PositiveControl::NotDone { .. }) => not_done,
            (PositiveControl::Seen { what }, PositiveControl::Seen { what: more }) => {
                PositiveControl::Seen { what: format!("{what}; {more}") }
            }
        }
    }
}

/// Decides whether every witness saw what was provoked.
#[must_use]
pub fn judge(provocation: &Provocation) -> PositiveControl {
    let provoked = match &provocation.provoked {
        Ok(provoked) => provoked,
        Err(why) => return PositiveControl::NotDone { why: why.clone() },
    };
    let how = provoked.how;
    let at = provocation.at.name();
    let what = format!("{TIMES} function-call IPIs by {how} to each CPU {at}");
    // A spinner that is off its CPU for a moment is not interrupted, so half of them are enough.
    let enough = TIMES.div_ceil(2);
    let mut missed = Vec::new();
    for (cpu, seen) in provoked.seen.iter().filter(|(_, seen)| *seen < enough) {
        missed.push(format!("the sampler on CPU {cpu} saw {seen}"));
    }
    // Without counters there is nothing to prove about them; the judge reports their absence.
    let counted = provocation.counted.iter().filter_map(|(cpu, n)| Some((cpu, (*n)?)));
    for (cpu, n) in counted.filter(|(_, n)| *n < enough as u64) {
        missed.push(format!("the counters of CPU {cpu} saw {n}"));
    }
    let perf = provocation.perf.iter().filter_map(|(cpu, n)| Some((cpu, (*n)?)));
    for (cpu, n) in perf.filter(|(_, n)| *n < enough as u64) {
        missed.push(format!("the perf events of CPU {cpu} counted {n}"));
    }
    let traced = provocation.traced.iter().flatten();
    for (cpu, n) in traced.filter(|(_, n)| *n < enough as u64) {
        missed.push(format!("the trace of CPU {cpu} saw {n}"));
    }
    if missed.is_empty() {
        PositiveControl::Seen { what }
    } else {
        PositiveControl::Missed { what: format!("{what}, but {}", missed.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge_seen(
        seen: &[(usize, usize)],
        counted: &[(usize, Option<u64>)],
        traced: Option<&[(usize, u64)]>,
    ) -> PositiveControl {
        judge(&Provocation {
            at: ControlAt::BeforeSpan,
            perf: Vec::new(),
            provoked: Ok(ProvokedInterrupt { how: "membarrier(2)", seen: seen.to_vec() }),
            counted: counted.to_vec(),
            traced: traced.map(<[_]>::to_vec),
        })
    }

    #[test]
    fn a_witness_that_misses_what_was_provoked_is_named() {
        let what = "10 function-call IPIs by membarrier(2) to each CPU before the span";
        let seen = PositiveControl::Seen { what: what.to_owned() };
        assert_eq!(judge_seen(&[(3, 10)], &[(3, Some(11))], Some(&[(3, 10)])), seen);
        assert_eq!(judge_seen(&[], &[(3, None)], None), seen);
        let missed = |by: &str| PositiveControl::Missed { what: format!("{what}, but {by}") };
        assert_eq!(
            judge_seen(&[(3, 4)], &[(3, Some(10))], None),
            missed("the sampler on CPU 3 saw 4")
        );
        assert_eq!(
            judge_seen(
                &[(2, 9), (3, 10)],
                &[(2, Some(10)), (3, Some(0))],
                Some(&[(2, 0), (3, 10)])
            ),
            missed("the counters of CPU 3 saw 0, the trace of CPU 2 saw 0")
        );
        let why = "ENOSYS".to_owned();
        let at = ControlAt::AfterSpan;
        let (counted, perf) = (Vec::new(), Vec::new());
        let not = Provocation { at, provoked: Err(why.clone()), counted, perf, traced: None };
        assert_eq!(judge(&not), PositiveControl::NotDone { why });
        let provoked = Ok(ProvokedInterrupt { how: "perf_event_open(2)", seen: Vec::new() });
        let perf = vec![(3, Some(0))];
        let blind = judge(&Provocation { provoked, perf, ..not });
        let what = "10 function-call IPIs by perf_event_open(2) to each CPU after the span, but \
                    the perf events of CPU 3 counted 0";
        assert_eq!(blind, PositiveControl::Missed { what: what.to_owned() });
    }

    #[test]
    fn the_worse_end_of_the_span_decides() {
        let seen = || PositiveControl::Seen { what: "a".to_owned() };
        let missed = || PositiveControl::Missed { what: "b".to_owned() };
        let not_done = || PositiveControl::NotDone { why: "c".to_owned() };
        assert_eq!(seen().and(missed()), missed());
        assert_eq!(missed().and(not_done()), missed());
        assert_eq!(not_done().and(seen()), not_done());
        assert_eq!(seen().and(seen()), PositiveControl::Seen { what: "a; a".to_owned() });
    }
}
