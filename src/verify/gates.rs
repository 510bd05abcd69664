//! Judges the limits that the user set: [`Evidence`] → [`Gate`]s. Pure.

use super::cyclic;
use super::reasons::{
    absence, count_entries, incomplete, longest_interruption, uncompared_gaps, without_repeats,
};
use crate::causes::Cause;
use crate::documents::evidence::{
    AbsenceReason, CpuEvidence, Evidence, Gate, GateFinding, GateLimit, HiddenTime, JudgeReason,
    LimitsKept, OwnershipEvidence, PositiveControl, WatchedWorkload, WitnessKind,
};
use crate::policy::VerifyLimits;

/// Judges the limits on these CPUs.
pub fn judge_limits(evidence: &Evidence, cpus: &[CpuEvidence], limits: &VerifyLimits) -> Vec<Gate> {
    let entries = limits.max_entries.map(|most| entries_gate(evidence, cpus, most, limits));
    let gap = limits.max_gap_ns.map(|most_ns| gap_gate(evidence, cpus, most_ns, limits));
    let foreign = limits.max_foreign.map(|most| foreign_gate(evidence, cpus, most, limits));
    let steal = limits.max_steal_ppm.map(|most| steal_gate(evidence, cpus, most, limits));
    entries.into_iter().chain(gap).chain(foreign).chain(steal).collect()
}

/// Whether all limits are kept; `None` when there are none.
pub fn limits_kept(gates: &[Gate]) -> Option<LimitsKept> {
    if gates.is_empty() {
        None
    } else if gates.iter().any(|gate| gate.held == Some(false)) {
        Some(LimitsKept::Beyond)
    } else if gates.iter().any(|gate| gate.held.is_none()) {
        Some(LimitsKept::Unknown)
    } else {
        Some(LimitsKept::Within)
    }
}

/// A limit with what was found. It held if nothing exceeded it, if `seen` says that something was
/// measured, and without a reason why more may have gone unseen.
fn gate(
    limit: GateLimit,
    found: GateFinding,
    exceeded: bool,
    seen: bool,
    why: Vec<JudgeReason>,
) -> Gate {
    let held = match exceeded {
        true => Some(false),
        false => (why.is_empty() && seen).then_some(true),
    };
    let why = if held.is_none() { without_repeats(why) } else { Vec::new() };
    Gate { limit, found, held, why }
}

/// The number of entries, or of interruptions.
fn found_count(found: Option<u64>) -> GateFinding {
    found.map_or(GateFinding::NotCounted, |count| GateFinding::Entries { count })
}

/// Interrupts that only the kernel's counters show, where they could break the limit. Context
/// tracking reports their entries too.
fn interrupts_without_event(cpu: &CpuEvidence, most: u64) -> Option<JudgeReason> {
    let counted = cpu.interruptions.iter().filter(|row| row.witness == WitnessKind::Counters);
    let count: u64 = counted.filter(|row| row.cause != Cause::Steal).map(|row| row.count).sum();
    let all = count_entries(cpu)?.saturating_add(count);
    (!cpu.tracked && count > 0 && all > most)
        .then_some(JudgeReason::InterruptsWithoutEvent { count })
}

fn entries_gate(
    evidence: &Evidence,
    cpus: &[CpuEvidence],
    most: u64,
    limits: &VerifyLimits,
) -> Gate {
    let found = cpus.iter().filter_map(count_entries).max();
    let exceeded = found.is_some_and(|n| n > most);
    let mut why = Vec::new();
    let no_trace = absence(evidence, WitnessKind::Trace);
    for cpu in cpus {
        why.extend(incomplete(evidence, cpu, limits));
        match (&no_trace, cpu.entries) {
            (_, None) => why.push(JudgeReason::NoEntryCounter),
            (Some(no_trace), _) if evidence.workload != WatchedWorkload::Sampler => {
                why.push(JudgeReason::WorkloadUnseen { no_trace: no_trace.clone() });
            }
            _ if evidence.workload != WatchedWorkload::Sampler && !cpu.whole => {
                why.push(JudgeReason::SyscallsNotCounted);
            }
            (None, Some(_)) => why.extend(interrupts_without_event(cpu, most)),
            _ => {}
        }
    }
    gate(GateLimit::Entries { most }, found_count(found), exceeded, !cpus.is_empty(), why)
}

fn gap_gate(
    evidence: &Evidence,
    cpus: &[CpuEvidence],
    most_ns: u64,
    limits: &VerifyLimits,
) -> Gate {
    let longest: Vec<Option<u64>> = cpus.iter().map(longest_gap).collect();
    let exceeded = longest.iter().flatten().any(|ns| *ns > most_ns);
    let escapes = cpus.iter().flat_map(|cpu| escape_reasons(evidence, cpu, most_ns, limits));
    let found = longest.iter().flatten().max().copied();
    let found =
        found.map_or(GateFinding::NotMeasured, |longest_ns| GateFinding::Gap { longest_ns });
    let limit = GateLimit::Gap { most_ns };
    let mut gate = gate(limit, found, exceeded, !cpus.is_empty(), escapes.collect());
    if gate.held == Some(true) {
        let by_sampler = cpus.iter().all(|cpu| cpu.gaps.is_some());
        gate.why.push(if by_sampler { JudgeReason::BySampler } else { JudgeReason::ByTrace });
    }
    gate
}

fn foreign_gate(
    evidence: &Evidence,
    cpus: &[CpuEvidence],
    most: u64,
    limits: &VerifyLimits,
) -> Gate {
    let mut why = Vec::new();
    for cpu in cpus {
        why.extend(incomplete(evidence, cpu, limits));
        why.extend(cyclic::doubts(evidence, cpu));
        why.extend(cyclic::missing_records(evidence, cpu));
    }
    let seen = || cpus.iter().filter_map(|cpu| cpu.ownership.as_ref());
    let found = seen().map(OwnershipEvidence::all_foreign).max();
    let exceeded = found.is_some_and(|count| count > most) && !seen().any(|seen| seen.partial);
    gate(GateLimit::Foreign { most }, found_count(found), exceeded, found.is_some(), why)
}

/// A starved sampler sees fewer gaps, but longer ones; a blind one sees none.
fn missed_by_sampler(evidence: &Evidence) -> Option<JudgeReason> {
    let PositiveControl::Missed { missed } = &evidence.control else { return None };
    Some(JudgeReason::ControlMissed { missed: missed.clone() })
}

/// In a guest without a sampler, a steal counter of 0 proves nothing: many hypervisors have none.
fn steal_gate(
    evidence: &Evidence,
    cpus: &[CpuEvidence],
    most_ppm: u64,
    limits: &VerifyLimits,
) -> Gate {
    let found = cpus.iter().filter_map(|cpu| cpu.taken_ppm(evidence.span_ns)).max();
    let unseen = JudgeReason::TimeHidden { by: HiddenTime::HypervisorUnseen };
    let is_unseen = |cpu: &CpuEvidence| {
        let counts = evidence.guest == Some(false) || cpu.steal_ns.is_some_and(|ns| ns > 0);
        cpu.joined.is_none() && !(counts && cpu.steal_ns.is_some())
    };
    let mut why: Vec<_> = cpus.iter().flat_map(|cpu| incomplete(evidence, cpu, limits)).collect();
    why.extend(cpus.iter().any(is_unseen).then_some(unseen));
    why.extend(missed_by_sampler(evidence));
    why.extend(cpus.iter().filter_map(uncompared_gaps));
    let exceeded = found.is_some_and(|ppm| ppm > most_ppm);
    let seen = found.is_some();
    let found = found.map_or(GateFinding::NotMeasured, |ppm| GateFinding::Share { ppm });
    gate(GateLimit::Steal { most_ppm }, found, exceeded, seen, why)
}

/// The longest gap in nanoseconds, by the sampler or by the trace. The sampler also counts the gap
/// that is under way when its span ends, if that is 1 µs or longer. Its span does not begin within
/// a gap.
fn longest_gap(cpu: &CpuEvidence) -> Option<u64> {
    let sampled = cpu.gaps.as_ref().map(|gaps| if gaps.count == 0 { 0 } else { gaps.max_ns });
    sampled.max(longest_interruption(cpu))
}

/// Why a gap of that length could have gone unnoticed; empty when it could not.
fn escape_reasons(
    evidence: &Evidence,
    cpu: &CpuEvidence,
    limit_ns: u64,
    limits: &VerifyLimits,
) -> Vec<JudgeReason> {
    let mut why = incomplete(evidence, cpu, limits);
    match (&cpu.gaps, absence(evidence, WitnessKind::Trace)) {
        (Some(gaps), _) if gaps.threshold_ns > limit_ns => {
            why.push(JudgeReason::ThresholdTooLong { threshold_ns: gaps.threshold_ns });
        }
        (Some(_), _) => why.extend(missed_by_sampler(evidence)),
        (None, Some(no_trace)) => {
            why.push(JudgeReason::NothingWatched { no_trace });
        }
        (None, None) => {
            let began = cpu.interruptions.iter().filter(|row| row.count > 0);
            let untimed = began.filter(|row| row.max_ns.is_none()).map(|row| row.cause);
            why.extend(untimed.map(|cause| JudgeReason::DurationUnknown { cause }));
            if evidence.workload != WatchedWorkload::Sampler && !cpu.whole {
                why.push(JudgeReason::SyscallsNotCounted);
            }
            why.extend(hidden_time(evidence, cpu));
        }
    }
    why
}

/// Time that the trace cannot see and that no counter rules out.
fn hidden_time(evidence: &Evidence, cpu: &CpuEvidence) -> Vec<JudgeReason> {
    if evidence.guest == Some(true) {
        return vec![JudgeReason::TimeHidden { by: HiddenTime::HypervisorUnseen }];
    }
    let firmware = match cpu.smis {
        Some(0) => None,
        Some(count) => Some(HiddenTime::FirmwareTook { count }),
        None => {
            let absence = absence(evidence, WitnessKind::Firmware);
            let no_counter = absence.unwrap_or(AbsenceReason::NoSmiRegister);
            Some(HiddenTime::FirmwareUnseen { no_counter })
        }
    };
    let hypervisor = match cpu.steal_ns {
        Some(0) => None,
        Some(ns) => Some(HiddenTime::HypervisorTook { ns }),
        None => Some(HiddenTime::StealUnreadable),
    };
    let hidden = firmware.into_iter().chain(hypervisor);
    hidden.map(|by| JudgeReason::TimeHidden { by }).collect()
}
