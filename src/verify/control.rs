//! The positive control: interruptions provoked on purpose, which every witness must have seen. A
//! witness that misses them is blind, and its silence proves nothing. Pure.

use crate::causes::Cause;
use crate::verify::counters::Counts;
use crate::verify::sampler::Provoked;
use crate::verify::trace::TraceEvidence;
use crate::verify::{Control, Interruptions};

/// What was provoked and what was seen of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provocation {
    /// What the sampler did and saw, or why it could not.
    pub provoked: Result<Provoked, String>,
    /// CPU and function-call interrupts counted meanwhile; `None` when they could not be counted.
    pub counted: Vec<(usize, Option<u64>)>,
    /// CPU and function-call interrupts traced meanwhile; `None` without a trace.
    pub traced: Option<Vec<(usize, u64)>>,
}

/// Function-call interrupts among the rows.
fn calls(rows: &[Interruptions]) -> u64 {
    rows.iter().filter(|row| row.cause == Cause::IpiCall).map(|row| row.count + row.nested).sum()
}

/// Function-call interrupts in the counts; `None` when there are no counts.
#[must_use]
pub fn counted(counts: &Counts) -> Option<u64> {
    counts.entries.map(|_| calls(&counts.interruptions))
}

/// Function-call interrupts in the trace, by CPU.
#[must_use]
pub fn traced(seen: &[TraceEvidence]) -> Vec<(usize, u64)> {
    seen.iter().map(|cpu| (cpu.cpu, calls(&cpu.interruptions))).collect()
}

/// What came of it.
#[must_use]
pub fn judge(provocation: &Provocation) -> Control {
    let provoked = match &provocation.provoked {
        Ok(provoked) => provoked,
        Err(why) => return Control::NotDone { why: why.clone() },
    };
    let times = provoked.times;
    // A spinner that is just not on its CPU is not interrupted, so not all of them must be seen.
    let enough = times.div_ceil(2).max(1);
    let what = format!("{times} function-call IPIs by membarrier(2) to each CPU");
    let mut missed = Vec::new();
    for (cpu, seen) in &provoked.seen {
        if *seen < enough {
            missed.push(format!("the sampler on CPU {cpu} saw {seen}"));
        }
    }
    // Without counters there is nothing to be proven about them; the judge says so.
    let counted = provocation.counted.iter().filter_map(|(cpu, n)| Some((cpu, (*n)?)));
    for (cpu, n) in counted.filter(|(_, n)| *n < enough as u64) {
        missed.push(format!("the counters of CPU {cpu} saw {n}"));
    }
    let traced = provocation.traced.iter().flatten();
    for (cpu, n) in traced.filter(|(_, n)| *n < enough as u64) {
        missed.push(format!("the trace of CPU {cpu} saw {n}"));
    }
    if missed.is_empty() {
        Control::Seen { what }
    } else {
        Control::Missed { what: format!("{what}, but {}", missed.join(", ")) }
    }
}
