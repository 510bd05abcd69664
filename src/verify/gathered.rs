//! What the witnesses saw, put together: for each fact the best witness there was. Pure.

use crate::causes::Cause;
use crate::verify::counters::{self, Counts, Snapshot};
use crate::verify::sampler;
use crate::verify::trace::TraceEvidence;
use crate::verify::{CpuEvidence, Witness, WitnessKind};

/// What trace and sampler saw in the span.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// One entry for each CPU; `None` without a trace.
    pub trace: Option<Vec<TraceEvidence>>,
    /// CPU and what its sampler saw; empty without a sampler.
    pub gaps: Vec<(usize, Option<sampler::Seen>)>,
}

/// Everything.
#[derive(Debug, Clone, PartialEq)]
pub struct Gathered {
    /// Counters when the span began.
    pub before: Snapshot,
    /// Counters when it was over.
    pub after: Snapshot,
    /// The other witnesses.
    pub seen: Seen,
    /// Threads of the workload.
    pub own: Vec<i32>,
}

impl Gathered {
    /// What is known about one CPU. `sampled`: the sampler was the workload.
    #[must_use]
    pub fn of(&self, cpu: usize, sampled: bool) -> CpuEvidence {
        let counts = counters::compare(&self.before, &self.after, cpu, &self.own);
        let gaps = self.seen.gaps.iter().find(|(at, _)| *at == cpu);
        let gaps = gaps.and_then(|(_, seen)| seen.clone());
        let trace = self.seen.trace.as_ref();
        let trace = trace.and_then(|cpus| cpus.iter().find(|seen| seen.cpu == cpu));
        let mut doubts = counts.doubts.clone();
        match &gaps {
            Some(seen) if seen.backwards > 0 => {
                doubts.push(format!("the sampler's clock went back {} times", seen.backwards));
            }
            None if sampled => doubts.push("the gap sampler did not watch this CPU".to_owned()),
            _ => {}
        }
        let by_eye = gaps.as_ref().map(|seen| seen.gaps.longest_ns);
        match trace {
            Some(trace) => {
                doubts.extend(trace.doubts.iter().cloned());
                doubts.extend(disagreement(trace, &counts));
                CpuEvidence {
                    cpu,
                    entries: Some(trace.entries),
                    interruptions: joined(trace, counts.interruptions),
                    longest_ns: trace.longest_ns.or(by_eye),
                    gaps: gaps.map(|seen| seen.gaps),
                    lost: Some(trace.lost),
                    steal_ns: counts.steal_ns,
                    doubts,
                }
            }
            None => CpuEvidence {
                cpu,
                entries: counts.entries,
                interruptions: counts.interruptions,
                longest_ns: by_eye,
                gaps: gaps.map(|seen| seen.gaps),
                lost: None,
                steal_ns: counts.steal_ns,
                doubts,
            },
        }
    }
}

/// The trace's rows, and those counters that no event tells of.
fn joined(
    trace: &TraceEvidence,
    counts: Vec<crate::verify::Interruptions>,
) -> Vec<crate::verify::Interruptions> {
    let mut rows = trace.interruptions.clone();
    for row in counts {
        let untraced = [Cause::Steal, Cause::Nmi, Cause::MachineCheck].contains(&row.cause);
        if untraced && !rows.iter().any(|seen| seen.cause == row.cause) {
            rows.push(row);
        }
    }
    rows
}

/// The trace's time encloses that of the counters, so it cannot have seen less than they.
fn disagreement(trace: &TraceEvidence, counts: &Counts) -> Option<String> {
    let counted = counts.entries.filter(|counted| *counted > trace.entries)?;
    Some(format!("the counters saw {counted} interrupts, the trace {} entries", trace.entries))
}

/// The counters as witness.
#[must_use]
pub fn counters_witness(before: &Snapshot, after: &Snapshot) -> Witness {
    let mut blind = vec![
        "system calls, page faults and exceptions".to_owned(),
        "the tick from other timers, and what a timer or an IPI was for".to_owned(),
        "how long an interrupt took".to_owned(),
    ];
    let mut missing = |what: &str, why: Option<&String>| {
        if let Some(why) = why {
            blind.push(format!("{what} ({why})"));
        }
    };
    missing("soft interrupts", after.softirqs.as_ref().err());
    missing("time taken by the hypervisor", after.times.as_ref().err());
    let absent = before.interrupts.as_ref().err().or(after.interrupts.as_ref().err()).cloned();
    Witness { kind: WitnessKind::Counters, absent, blind }
}
