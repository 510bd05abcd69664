//! How many witnesses watched each class of entries on a CPU. Pure.

use crate::documents::evidence::{
    CpuEvidence, EntryClass, Evidence, JudgeReason, WatchedWorkload, WitnessKind,
};

/// Classes that too few witnesses watched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClassCoverage {
    /// Only one witness watched these.
    pub one_witness: Vec<EntryClass>,
    /// No witness watched these.
    pub unwatched: Vec<EntryClass>,
}

impl ClassCoverage {
    /// Counts the witnesses of each class that applies to this CPU.
    #[must_use]
    pub fn assess(evidence: &Evidence, cpu: &CpuEvidence) -> ClassCoverage {
        let mut coverage = ClassCoverage::default();
        for class in EntryClass::all().filter(|class| can_interrupt(*class, evidence, cpu)) {
            match count_witnesses(class, evidence, cpu) {
                0 => coverage.unwatched.push(class),
                1 => coverage.one_witness.push(class),
                _ => {}
            }
        }
        coverage
    }

    /// The classes with fewer than two witnesses as a reason; `None` when every class has two.
    #[must_use]
    pub fn missing_witnesses(&self) -> Option<JudgeReason> {
        let ClassCoverage { one_witness, unwatched } = self;
        let enough = one_witness.is_empty() && unwatched.is_empty();
        (!enough).then(|| JudgeReason::TooFewWitnesses {
            one_witness: one_witness.clone(),
            unwatched: unwatched.clone(),
        })
    }
}

/// Whether the class can interrupt what ran on the CPU. The busy loop of the sampler makes no
/// system calls and no page faults. Context tracking reports only CPUs of `nohz_full=`.
fn can_interrupt(class: EntryClass, evidence: &Evidence, cpu: &CpuEvidence) -> bool {
    match class {
        EntryClass::UserModeExit => cpu.tracked,
        EntryClass::SystemCall | EntryClass::OtherException => {
            evidence.workload != WatchedWorkload::Sampler
        }
        EntryClass::PageFault | EntryClass::TaskSwitch => {
            evidence.workload != WatchedWorkload::Sampler
                || has_watched(evidence, WitnessKind::Trace)
        }
        _ => true,
    }
}

fn has_watched(evidence: &Evidence, kind: WitnessKind) -> bool {
    evidence.witness(kind).is_some_and(|witness| witness.absent.is_none())
}

/// The number of witnesses of a class.
fn count_witnesses(class: EntryClass, evidence: &Evidence, cpu: &CpuEvidence) -> usize {
    let by_exits = match class {
        EntryClass::SystemCall | EntryClass::OtherException if cpu.tracked => {
            count_event_witnesses(EntryClass::UserModeExit, cpu)
        }
        _ => 0,
    };
    let has_rows = !class.witnesses().rows.is_empty();
    let by_rows = usize::from(has_rows && has_watched(evidence, WitnessKind::Counters));
    count_event_witnesses(class, cpu).max(by_exits) + by_rows
}

/// Whether the trace, the perf events or both watched the events of a class, as a number.
fn count_event_witnesses(class: EntryClass, cpu: &CpuEvidence) -> usize {
    let mut events = cpu.events.iter().filter(|event| event.class == class).peekable();
    let recorded = events.peek().is_some();
    usize::from(recorded) + usize::from(events.any(|event| event.counted.is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::evidence::{AbsenceReason, EventEvidence};
    use crate::documents::plan::EvidenceLimit;
    use crate::verify::judge::examples::clean;
    use cpushield_linux::CpuSet;

    fn event(class: EntryClass, counted: Option<u64>) -> EventEvidence {
        let event = class.witnesses().events[0].to_owned();
        EventEvidence { class, event, recorded_least: 0, recorded_most: 0, counted }
    }

    fn coverage(
        tracked: bool,
        workload: WatchedWorkload,
        events: &[EventEvidence],
    ) -> ClassCoverage {
        let mut evidence = clean();
        evidence.workload = workload;
        evidence.cpus[0].tracked = tracked;
        evidence.cpus[0].events = events.to_vec();
        ClassCoverage::assess(&evidence, &evidence.cpus[0])
    }

    #[test]
    fn a_class_that_perf_cannot_count_has_one_witness() {
        let all = |counted| -> Vec<EventEvidence> {
            let classes = EntryClass::all();
            let classes = classes.filter(|class| !class.witnesses().events.is_empty());
            let classes = classes.filter(|class| *class != EntryClass::SystemCall);
            classes.map(|class| event(class, counted)).collect()
        };
        let nothing = ClassCoverage::default();
        assert_eq!(coverage(true, WatchedWorkload::Given, &all(Some(0))), nothing);
        assert_eq!(coverage(false, WatchedWorkload::Sampler, &all(Some(0))), nothing);
        let open = coverage(false, WatchedWorkload::Given, &all(Some(0)));
        assert_eq!(open.unwatched, [EntryClass::OtherException, EntryClass::SystemCall]);
        assert_eq!(open.one_witness, []);
        let cpus = CpuSet::single(3);
        let unwatched = open.unwatched;
        let known_before = EvidenceLimit::EntriesNotTracked { cpus: cpus.clone(), unwatched };
        assert_eq!(EvidenceLimit::not_tracked(cpus), known_before);
        let uncounted = coverage(true, WatchedWorkload::Given, &all(None));
        let expected = [
            EntryClass::UserModeExit,
            EntryClass::PageFault,
            EntryClass::OtherException,
            EntryClass::SystemCall,
            EntryClass::TaskSwitch,
        ];
        assert_eq!(uncounted.one_witness, expected);
        assert!(
            uncounted
                .missing_witnesses()
                .is_some_and(|why| why.to_string().contains("page faults, other exceptions"))
        );
        assert_eq!(nothing.missing_witnesses(), None);
    }

    #[test]
    fn without_a_trace_the_kernel_counters_are_the_only_witness() {
        let mut evidence = clean();
        evidence.witnesses[0].absent = Some(AbsenceReason::NoTraceInstances);
        evidence.cpus[0].tracked = false;
        evidence.cpus[0].events.clear();
        let found = ClassCoverage::assess(&evidence, &evidence.cpus[0]);
        assert!(found.one_witness.contains(&EntryClass::TimerInterrupt));
        assert_eq!(found.unwatched, []);
        evidence.workload = WatchedWorkload::Given;
        let found = ClassCoverage::assess(&evidence, &evidence.cpus[0]);
        assert!(found.unwatched.contains(&EntryClass::PageFault));
        let ClassCoverage { one_witness, unwatched } = found;
        let reason = AbsenceReason::NoTraceInstances;
        let known_before = EvidenceLimit::NoTrace { reason, one_witness, unwatched };
        assert_eq!(EvidenceLimit::no_trace(AbsenceReason::NoTraceInstances), known_before);
    }
}
