//! How many witnesses watched each class of entries on a CPU. Pure.

use crate::verify::{CpuEvidence, EntryClass, Evidence, JudgeReason, WatchedWorkload, WitnessKind};

/// Classes that too few witnesses watched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClassCoverage {
    /// One witness alone.
    pub one_witness: Vec<EntryClass>,
    /// None at all.
    pub unwatched: Vec<EntryClass>,
}

impl ClassCoverage {
    /// Of one CPU.
    #[must_use]
    pub fn of(evidence: &Evidence, cpu: &CpuEvidence) -> ClassCoverage {
        let mut coverage = ClassCoverage::default();
        for class in EntryClass::all().filter(|class| applies(*class, evidence, cpu)) {
            match witnesses(class, evidence, cpu) {
                0 => coverage.unwatched.push(class),
                1 => coverage.one_witness.push(class),
                _ => {}
            }
        }
        coverage
    }

    /// Why this is less than two witnesses for every class; `None` when it is not.
    #[must_use]
    pub fn lack(&self) -> Option<JudgeReason> {
        let ClassCoverage { one_witness, unwatched } = self;
        let enough = one_witness.is_empty() && unwatched.is_empty();
        (!enough).then(|| JudgeReason::TooFewWitnesses {
            one_witness: one_witness.clone(),
            unwatched: unwatched.clone(),
        })
    }
}

/// The names, in a sentence.
#[must_use]
pub fn list(classes: &[EntryClass]) -> String {
    classes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Whether the class can interrupt what ran there: the busy loop of the sampler makes no system
/// call and no page fault, and context tracking reports CPUs of `nohz_full=` alone.
fn applies(class: EntryClass, evidence: &Evidence, cpu: &CpuEvidence) -> bool {
    match class {
        EntryClass::UserModeExit => cpu.tracked,
        EntryClass::SystemCall | EntryClass::OtherException => {
            evidence.workload == WatchedWorkload::Given
        }
        EntryClass::PageFault | EntryClass::TaskSwitch => {
            evidence.workload == WatchedWorkload::Given || is_there(evidence, WitnessKind::Trace)
        }
        _ => true,
    }
}

fn is_there(evidence: &Evidence, kind: WitnessKind) -> bool {
    evidence.witness(kind).is_some_and(|witness| witness.absent.is_none())
}

fn witnesses(class: EntryClass, evidence: &Evidence, cpu: &CpuEvidence) -> usize {
    let by_events = |class| {
        let mut events = cpu.events.iter().filter(|event| event.class == class).peekable();
        let recorded = events.peek().is_some();
        usize::from(recorded) + usize::from(events.any(|event| event.counted.is_some()))
    };
    let by_exits = match class {
        EntryClass::SystemCall | EntryClass::OtherException if cpu.tracked => {
            by_events(EntryClass::UserModeExit)
        }
        _ => 0,
    };
    let has_rows = !class.witnesses().rows.is_empty();
    let by_rows = usize::from(has_rows && is_there(evidence, WitnessKind::Counters));
    by_events(class).max(by_exits) + by_rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::judge::examples::clean;
    use crate::verify::{AbsenceReason, EventEvidence};

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
        ClassCoverage::of(&evidence, &evidence.cpus[0])
    }

    #[test]
    fn what_perf_cannot_count_has_one_witness_and_is_named() {
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
        let alone = coverage(true, WatchedWorkload::Given, &all(None));
        let expected = [
            EntryClass::UserModeExit,
            EntryClass::PageFault,
            EntryClass::OtherException,
            EntryClass::SystemCall,
            EntryClass::TaskSwitch,
        ];
        assert_eq!(alone.one_witness, expected);
        assert!(
            alone
                .lack()
                .is_some_and(|why| why.to_string().contains("page faults, other exceptions"))
        );
        assert_eq!(nothing.lack(), None);
    }

    #[test]
    fn without_a_trace_the_counters_of_the_kernel_are_alone() {
        let mut evidence = clean();
        evidence.witnesses[0].absent = Some(AbsenceReason::NoTracefs);
        evidence.cpus[0].tracked = false;
        evidence.cpus[0].events.clear();
        let found = ClassCoverage::of(&evidence, &evidence.cpus[0]);
        assert!(found.one_witness.contains(&EntryClass::TimerInterrupt));
        assert_eq!(found.unwatched, []);
        evidence.workload = WatchedWorkload::Given;
        let found = ClassCoverage::of(&evidence, &evidence.cpus[0]);
        assert!(found.unwatched.contains(&EntryClass::PageFault));
    }
}
