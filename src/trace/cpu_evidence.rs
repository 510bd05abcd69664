//! [`TraceEvidence`]: what the trace saw on one CPU in one phase, and how it is built from the
//! counted events. Pure. The recorder adds what needs other CPUs or other witnesses.

use super::channel::TracePhase;
use super::culprit_stats::CulpritNames;
use crate::documents::evidence::{
    CpuDoubt, GapAttribution, InterruptSender, InterruptionCount, OwnershipEvidence,
};
use cpushield_linux::sys::clock::TickScale;
use serde::{Deserialize, Serialize};

/// What the trace saw on one CPU in one phase.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceEvidence {
    /// The CPU.
    pub cpu: usize,
    /// Length of the phase in nanoseconds.
    pub span_ns: u64,
    /// Entries into the kernel from user mode: those with an event of their own (vectors, device
    /// interrupts, page faults, NMIs, and system calls when requested), and on CPUs of `nohz_full=`
    /// those that only context tracking reports.
    pub entries: u64,
    /// Interrupts and NMIs that hit kernel code: a system call, a page fault, another interrupt, a
    /// kernel thread, the idle loop.
    pub kernel_interrupts: u64,
    /// Whether `entries` is complete: system calls were traced, or context tracking reported on
    /// this CPU.
    pub whole: bool,
    /// Whether context tracking reported on this CPU.
    pub tracked: bool,
    /// Task switches.
    pub switches: u64,
    /// The number of interruptions: the sum of `count` over [`Self::interruptions`].
    pub interruption_count: u64,
    /// Interruptions by cause and culprit, most frequent first.
    pub interruptions: Vec<InterruptionCount>,
    /// Longest time of the workload in user mode without an interruption, in nanoseconds; without a
    /// workload, the longest idle time. `None` when it never ran.
    pub longest_ns: Option<u64>,
    /// The correlation with the gaps of the sampler; `None` without a sampler.
    pub joined: Option<GapAttribution>,
    /// Whose the interruptions are, if that was asked and could be seen.
    pub ownership: Option<OwnershipEvidence>,
    /// The senders of interrupts from other CPUs.
    pub senders: Vec<InterruptSender>,
    /// Events that the kernel dropped because the buffer was full.
    pub lost: u64,
    /// Bytes of the trace that could not be decoded.
    pub skipped_bytes: u64,
    /// Name and count of each event that was seen.
    pub events: Vec<(String, u64)>,
    /// What weakens the evidence: a clock that went backwards, …
    pub doubts: Vec<CpuDoubt>,
}

/// Builds the evidence of one CPU.
pub(super) fn build_evidence(
    cpu: usize,
    span_ns: u64,
    phase: &TracePhase,
    names: &CulpritNames<'_>,
    scale: &TickScale,
    counted_lost: u64,
    ran: Option<bool>,
) -> TraceEvidence {
    let stats = &phase.stats;
    let lost = phase.lost.max(counted_lost).max(u64::from(phase.lost_unknown));
    let after = stats.silent.map(|pid| names.thread(pid));
    let interruptions = stats.rows.interruptions(names, scale);
    let has_row = interruptions.iter().any(|row| row.count > 0 || row.nested > 0);
    let unattributed = if has_row { 0 } else { stats.entries };
    let counted = [
        (phase.skipped, CpuDoubt::BytesNotUnderstood { count: phase.skipped }),
        (stats.backwards, CpuDoubt::EventsBackwards { count: stats.backwards }),
        (stats.resyncs, CpuDoubt::TaskNotAnnounced { times: stats.resyncs, after }),
        (unattributed, CpuDoubt::EntriesNotAttributed { count: unattributed }),
    ];
    let happened = counted.into_iter().filter(|(times, _)| *times > 0);
    let mut doubts: Vec<CpuDoubt> = happened.map(|(_, doubt)| doubt).collect();
    // Without a single event, only its CPU time shows that the workload ran at all. If it ran, it
    // ran the whole time, because a switch would have been an event.
    let silent = phase.records() == 0;
    let longest_ns = match (silent, ran) {
        (true, Some(true)) => Some(span_ns),
        (true, Some(false)) => None,
        _ => stats.longest.map(|ticks| scale.ns(ticks)),
    };
    if silent && ran == Some(false) {
        doubts.push(CpuDoubt::WorkloadDidNotRun);
    }
    if scale.error_ppm > 1000.0 {
        doubts.push(CpuDoubt::ClockInaccurate { error_ppm: scale.error_ppm });
    }
    TraceEvidence {
        cpu,
        span_ns,
        entries: stats.entries,
        kernel_interrupts: stats.kernel_interrupts,
        switches: stats.switches,
        interruption_count: stats.interruptions,
        interruptions,
        longest_ns,
        whole: false,
        tracked: false,
        joined: None,
        ownership: None,
        senders: Vec::new(),
        lost,
        skipped_bytes: phase.skipped,
        events: phase.named().map(|(spec, n)| (spec.name.to_owned(), n)).collect(),
        doubts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpushield_linux::text::kallsyms::KernelSymbols;
    use std::collections::HashMap;

    #[test]
    fn entries_that_belong_to_no_interruption_make_the_figures_doubtful() {
        let (symbols, tasks) = (KernelSymbols::default(), HashMap::new());
        let names = CulpritNames { symbols: &symbols, tasks: &tasks, stacks: None };
        let scale = TickScale { ns_per_tick: 1.0, error_ppm: 0.0 };
        let doubts = |entries| {
            let mut phase = TracePhase { events: vec![1], ..TracePhase::default() };
            phase.stats.entries = entries;
            build_evidence(3, 1_000_000, &phase, &names, &scale, 0, None).doubts
        };
        assert_eq!(doubts(0), []);
        assert_eq!(doubts(7), [CpuDoubt::EntriesNotAttributed { count: 7 }]);
    }
}
