//! What is certain although an instrument is doubted: a leak that both witnesses counted, and that
//! a sampler of a guest which misses the positive control is starved, not blind. Pure.

use crate::causes::Cause;
use crate::documents::evidence::{
    BlindWitness, CpuEvidence, EntryClass, EventEvidence, Evidence, InterruptionCount, JudgeReason,
    MissedControl, PositiveControl, WitnessKind,
};

/// Whether both witnesses counted the interruption alike. No doubt about the recording explains
/// away what the perf event counted too; lost records, or a program that did not run, do.
pub fn is_certain(cpu: &CpuEvidence, row: &InterruptionCount, doubts: &[JudgeReason]) -> bool {
    let is_survived = |doubt: &JudgeReason| {
        matches!(
            doubt,
            JudgeReason::Interfered { .. }
                | JudgeReason::MoreInterference { .. }
                | JudgeReason::WitnessesDoubtful { .. }
                | JudgeReason::ControlMissed { .. }
        )
    };
    let class = class_of(row.cause);
    let mut events = cpu.events.iter().filter(|event| Some(event.class) == class);
    let agree = events.clone().all(EventEvidence::is_confirmed);
    let recorded = events.any(|event| event.recorded_least > 0);
    let is_traced = row.witness == WitnessKind::Trace && row.count > 0;
    is_traced && cpu.lost == Some(0) && agree && recorded && doubts.iter().all(is_survived)
}

/// The class of the interrupt that an interruption of this cause begins with; `None` where that is
/// no interrupt.
fn class_of(cause: Cause) -> Option<EntryClass> {
    match cause {
        Cause::Tick | Cause::Hrtimer => Some(EntryClass::TimerInterrupt),
        Cause::IpiCall => Some(EntryClass::FunctionCallIpi),
        Cause::IpiReschedule => Some(EntryClass::RescheduleIpi),
        Cause::IpiIrqWork => Some(EntryClass::IrqWork),
        Cause::Irq => Some(EntryClass::DeviceInterrupt),
        _ => None,
    }
}

/// The positive control that witnesses missed. In a guest, several interrupts may
/// arrive in one gap of the sampler, when the hypervisor has taken the CPU: so it does not decide
/// where the trace saw them all.
pub fn missed_control(evidence: &Evidence) -> Option<JudgeReason> {
    let PositiveControl::Missed { missed } = &evidence.control else { return None };
    let is_traced = evidence.witness(WitnessKind::Trace).is_some_and(|it| it.absent.is_none());
    let mut missed = missed.clone();
    for MissedControl { witnesses, .. } in &mut missed {
        let is_blind = |it: &BlindWitness| it.witness != WitnessKind::Sampler;
        let blind: Vec<usize> =
            witnesses.iter().filter(|it| is_blind(it)).map(|it| it.cpu).collect();
        let is_starved = is_traced && evidence.guest == Some(true);
        witnesses.retain(|it| !is_starved || blind.contains(&it.cpu));
    }
    missed.retain(|it| !it.witnesses.is_empty());
    (!missed.is_empty()).then_some(JudgeReason::ControlMissed { missed })
}
