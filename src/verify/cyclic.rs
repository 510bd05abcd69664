//! What the verdict on a cyclic workload rests on: the foreign parts of its interruptions instead
//! of all of them. Pure.

use crate::documents::evidence::{
    CpuEvidence, Evidence, InterruptionCount, JudgeReason, Owner, OwnershipDoubt, TickShare,
    WatchedWorkload, WitnessKind,
};

/// Fewer activations prove nothing.
const ACTIVATIONS_MIN: u64 = 100;

/// What interrupted the CPU and counts against it: all interruptions, or for a cyclic workload the
/// foreign ones that were not harmless.
pub fn counted_rows(evidence: &Evidence, cpu: &CpuEvidence) -> Vec<InterruptionCount> {
    let all = cpu.interruptions.iter().filter(|row| row.count > 0 || row.nested > 0);
    if evidence.workload != WatchedWorkload::Cyclic {
        return all.cloned().collect();
    }
    let rows = cpu.ownership.iter().flat_map(|ownership| &ownership.rows);
    let foreign = rows.filter(|row| row.owner == Owner::Foreign && !row.harmless);
    let mut counted: Vec<InterruptionCount> = Vec::new();
    for row in foreign {
        let same =
            |known: &InterruptionCount| (known.cause, &known.culprit) == (row.cause, &row.culprit);
        let at = counted.iter().position(same).unwrap_or_else(|| {
            let (culprit, by) = (row.culprit.clone(), WitnessKind::Trace);
            let new = InterruptionCount::counted(row.cause, culprit, 0, by);
            counted.push(InterruptionCount { time_ns: Some(0), ..new });
            counted.len() - 1
        });
        let known = &mut counted[at];
        known.count += row.count;
        known.time_ns = known.time_ns.map(|ns| ns + row.time_ns);
        known.max_ns = known.max_ns.max(Some(row.max_ns));
    }
    counted.extend(all.filter(|row| row.witness != WitnessKind::Trace).cloned());
    counted
}

/// Why the split proves nothing; empty for any other workload.
pub fn doubts(evidence: &Evidence, cpu: &CpuEvidence) -> Vec<JudgeReason> {
    if evidence.workload != WatchedWorkload::Cyclic {
        return Vec::new();
    }
    let mut doubts = Vec::new();
    match &cpu.ownership {
        None => doubts.push(OwnershipDoubt::Unseen),
        Some(seen) => {
            let unassigned = seen.sum(Owner::Unassigned).map(|sum| sum.count);
            doubts.extend(unassigned.map(|count| OwnershipDoubt::Unassigned { count }));
            let (activations, least) = (seen.activations, ACTIVATIONS_MIN);
            if activations < least {
                doubts.push(OwnershipDoubt::FewActivations { activations, least });
            }
        }
    }
    doubts.into_iter().map(|doubt| JudgeReason::Cyclic { doubt }).collect()
}

/// Records are missing: neither what is own nor what is foreign is certain.
pub fn missing_records(evidence: &Evidence, cpu: &CpuEvidence) -> Option<JudgeReason> {
    let is_cyclic = evidence.workload == WatchedWorkload::Cyclic;
    let partial = cpu.ownership.as_ref().is_some_and(|seen| seen.partial);
    (is_cyclic && partial).then_some(JudgeReason::Cyclic { doubt: OwnershipDoubt::Partial })
}

/// The ticks that the verdict leaves out; `None` without any, and for any other workload.
pub fn tick_share(cpu: &CpuEvidence) -> Option<TickShare> {
    let tick = cpu.ownership.as_ref()?.sum(Owner::Tick)?;
    Some(TickShare { count: tick.count, max_ns: tick.max_ns })
}
