//! Why what was seen, or not seen, may be wrong. Pure.

use super::certain;
use super::class_coverage::ClassCoverage;
use crate::documents::evidence::{
    AbsenceReason, CpuEvidence, Evidence, JudgeReason, PositiveControl, TraceInterference,
    WatchedWorkload, WitnessKind,
};
use crate::policy::VerifyLimits;

/// How many interferences are listed as reasons; the evidence contains all of them.
const INTERFERENCES_MAX: usize = 4;

fn list_interferences(all: &[TraceInterference]) -> Vec<JudgeReason> {
    let mut listed = Vec::new();
    for interference in all.iter().take(INTERFERENCES_MAX).cloned() {
        listed.push(JudgeReason::Interfered { interference });
    }
    let count = all.len().saturating_sub(INTERFERENCES_MAX);
    if count > 0 {
        listed.push(JudgeReason::MoreInterference { count });
    }
    listed
}

/// Why the instruments are unreliable: then neither what they saw nor what they missed counts.
pub fn unreliable_instruments(evidence: &Evidence, cpu: &CpuEvidence) -> Vec<JudgeReason> {
    let mut why = list_interferences(&evidence.interference);
    let witness_doubts = cpu.witness_doubts.iter().cloned();
    why.extend(witness_doubts.map(|doubt| JudgeReason::WitnessesDoubtful { doubt }));
    if let Some(count) = cpu.lost.filter(|lost| *lost > 0) {
        why.push(JudgeReason::EventsLost { count });
    }
    why.extend(certain::missed_control(evidence));
    why.extend(ended_before_span(evidence));
    why
}

/// Why the figures of the CPU are doubtful.
pub fn doubtful_figures(cpu: &CpuEvidence) -> impl Iterator<Item = JudgeReason> {
    cpu.doubts.iter().cloned().map(|doubt| JudgeReason::FiguresDoubtful { doubt })
}

/// The program had ended before the span, so nothing that was seen belongs to it.
fn ended_before_span(evidence: &Evidence) -> Option<JudgeReason> {
    let ended = evidence.ended.as_ref().filter(|ended| ended.after_ns == 0)?;
    Some(JudgeReason::ProgramEndedBefore { how: ended.how })
}

/// The program ended before half of the span was over. What does not happen in a short time may
/// still happen in the requested time.
pub fn ended_early(evidence: &Evidence) -> Option<JudgeReason> {
    let (after_ns, asked_ns) = (evidence.ended.as_ref()?.after_ns, evidence.asked_ns);
    (after_ns > 0 && after_ns < asked_ns / 2)
        .then_some(JudgeReason::ProgramEndedEarly { after_ns, asked_ns })
}

/// The rounding error of a time in ticks of `USER_HZ`, one tick at each end, in nanoseconds.
const ROUNDING_NS: u64 = 20_000_000;

/// A given workload was to be watched, but nothing ran that could have been interrupted.
pub fn idle_cpu(evidence: &Evidence, cpu: &CpuEvidence) -> Option<JudgeReason> {
    // A program that sleeps has to be activated often enough instead.
    let idle_ns = cpu.idle_ns.filter(|_| evidence.workload == WatchedWorkload::Given)?;
    (idle_ns > 0 && idle_ns.saturating_add(ROUNDING_NS) >= evidence.span_ns)
        .then_some(JudgeReason::CpuIdle)
}

/// Why something on this CPU may have gone unseen.
pub fn incomplete(
    evidence: &Evidence,
    cpu: &CpuEvidence,
    limits: &VerifyLimits,
) -> Vec<JudgeReason> {
    let mut why = unreliable_instruments(evidence, cpu);
    let missing_witnesses = ClassCoverage::assess(evidence, cpu).missing_witnesses();
    why.extend(missing_witnesses.filter(|_| limits.two_witnesses));
    why.extend(doubtful_figures(cpu));
    why.extend(ended_early(evidence));
    why.extend(idle_cpu(evidence, cpu));
    why.extend(incomplete_run(evidence, cpu));
    why
}

/// Which parts of the run were not carried out.
pub fn incomplete_run(evidence: &Evidence, cpu: &CpuEvidence) -> Vec<JudgeReason> {
    let stopped = evidence.stopped.then_some(JudgeReason::StoppedEarly);
    let control = match &evidence.control {
        PositiveControl::NotDone { reason } if reason.concerns(cpu.cpu) => {
            Some(JudgeReason::ControlNotDone { failure: reason.clone() })
        }
        PositiveControl::NotDone { .. }
        | PositiveControl::Seen { .. }
        | PositiveControl::Missed { .. } => None,
    };
    stopped.into_iter().chain(control).collect()
}

/// Gaps and interruptions that were not compared with each other.
pub fn uncompared_gaps(cpu: &CpuEvidence) -> Option<JudgeReason> {
    let lost = cpu.gaps.as_ref().map_or(0, |gaps| gaps.overflow);
    let count = cpu.joined.as_ref()?.unjoined.saturating_add(lost);
    (count > 0).then_some(JudgeReason::GapsNotCompared { count })
}

/// Why a witness did not watch; `None` when it did.
pub fn absence(evidence: &Evidence, kind: WitnessKind) -> Option<AbsenceReason> {
    match evidence.witness(kind) {
        Some(witness) => witness.absent.clone(),
        None => Some(AbsenceReason::NotAsked),
    }
}

/// The longest interruption in nanoseconds, by the trace.
pub fn longest_interruption(cpu: &CpuEvidence) -> Option<u64> {
    cpu.interruptions.iter().filter_map(|row| row.max_ns).max()
}

/// The number of entries into the kernel; the number of interruptions where that is higher. A
/// thread may run while the workload sleeps without an interrupt that woke it.
#[must_use]
pub fn count_entries(cpu: &CpuEvidence) -> Option<u64> {
    let traced = cpu.interruptions.iter().filter(|row| row.witness == WitnessKind::Trace);
    cpu.entries.map(|entries| entries.max(traced.map(|row| row.count).sum()))
}

/// Each reason once, in the original order.
pub fn without_repeats(reasons: Vec<JudgeReason>) -> Vec<JudgeReason> {
    let mut seen = Vec::new();
    for reason in reasons {
        if !seen.contains(&reason) {
            seen.push(reason);
        }
    }
    seen
}
