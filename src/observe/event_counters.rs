//! Opens and reads the second witness: for each watched CPU, one group of perf events that count
//! the tracepoints that the trace records. A read interrupts the CPU once. Between two reads the
//! counters cost the CPU nothing while it stays in user mode.

use crate::documents::evidence::{
    AbsenceReason, CountedTime, EntryClass, EventEvidence, WitnessDoubt, check_coverage,
};
use crate::trace::{EntryEvent, ReadSpan, RecordedEvent, TraceRecorder};
use cpushield_linux::processes::closer::OpenFile;
use cpushield_linux::sys::clock::{ClockTicks, TickScale};
use cpushield_linux::sys::perf::{EventGroup, GroupReading, PerfEvent};
use cpushield_linux::{CpuSet, Host};

/// How often the buffers are read at most until they have what the counters saw.
const POLLS_MAX: usize = 20;

/// The groups of all watched CPUs.
#[derive(Debug)]
pub struct EventCounters {
    events: Vec<EntryEvent>,
    groups: Vec<(usize, EventGroup)>,
}

/// One read of the group of one CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountersRead {
    /// The CPU.
    pub cpu: usize,
    /// When it was read, on the clock of the trace.
    pub span: ReadSpan,
    /// The counts, or the kernel's error.
    pub counts: Result<GroupReading, String>,
}

impl EventCounters {
    /// Starts counting these events on these CPUs. For each event that is not traced yet, the
    /// kernel patches its code, which interrupts every CPU.
    ///
    /// # Errors
    /// The reason why the second witness is absent.
    pub fn open(
        host: &Host,
        cpus: &CpuSet,
        events: Vec<EntryEvent>,
    ) -> Result<EventCounters, AbsenceReason> {
        let tracepoints: Vec<PerfEvent> =
            events.iter().map(|event| PerfEvent::tracepoint(event.id)).collect();
        let mut groups = Vec::new();
        for cpu in cpus.iter() {
            let group = EventGroup::open(host, cpu, &tracepoints).map_err(|e| {
                AbsenceReason::failed(format_args!("perf_event_open(2) on CPU {cpu}: {e}"))
            })?;
            groups.push((cpu, group));
        }
        Ok(EventCounters { events, groups })
    }

    /// Reads every group; `now` reads the clock of the trace.
    #[must_use]
    pub fn read(&self, now: &dyn Fn() -> ClockTicks) -> Vec<CountersRead> {
        let mut reads = Vec::new();
        for (cpu, group) in &self.groups {
            let begun = now();
            let counts = group.read().map_err(|e| e.to_string());
            reads.push(CountersRead { cpu: *cpu, span: ReadSpan { begun, ended: now() }, counts });
        }
        reads
    }

    /// The number of function-call IPIs on a CPU between two reads; `None` when they could not be
    /// counted.
    #[must_use]
    pub fn function_calls(
        &self,
        before: &[CountersRead],
        after: &[CountersRead],
        cpu: usize,
    ) -> Option<u64> {
        let (before, after) = (counts_of(before, cpu)?, counts_of(after, cpu)?);
        let events = self.events.iter().zip(before.counts.iter().zip(&after.counts));
        let calls = events.filter(|(event, _)| event.class == EntryClass::FunctionCallIpi);
        Some(calls.map(|(_, (a, b))| b.saturating_sub(*a)).sum())
    }
}

fn counts_of(reads: &[CountersRead], cpu: usize) -> Option<&GroupReading> {
    reads.iter().find(|read| read.cpu == cpu)?.counts.as_ref().ok()
}

/// The second witness during a watch, from arming to the comparison.
#[derive(Debug)]
pub struct SecondWitness {
    counters: Result<EventCounters, AbsenceReason>,
    /// The read before the span.
    first: Vec<CountersRead>,
    /// The comparison with the trace on each CPU.
    compared: Vec<ComparedCpu>,
}

/// Both witnesses of one CPU, compared.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedCpu {
    /// The CPU.
    pub cpu: usize,
    /// Each event that reports an entry.
    pub events: Vec<EventEvidence>,
    /// Why the two cannot be relied on.
    pub doubts: Vec<WitnessDoubt>,
}

impl SecondWitness {
    /// Starts counting what the trace records. Interrupts every CPU, and so belongs before the
    /// span.
    pub fn arm(
        host: &Host,
        cpus: &CpuSet,
        trace: &Result<TraceRecorder<'_>, AbsenceReason>,
    ) -> SecondWitness {
        let counters = match trace {
            Ok(recorder) => EventCounters::open(host, cpus, recorder.entry_events().to_vec()),
            Err(_) => Err(AbsenceReason::NoTrace),
        };
        SecondWitness { counters, first: Vec::new(), compared: Vec::new() }
    }

    /// Why the witness is absent; `None` when it counts.
    #[must_use]
    pub fn absent(&self) -> Option<&AbsenceReason> {
        self.counters.as_ref().err()
    }

    /// Reads the counters around a provoked interruption, without a comparison with the trace.
    #[must_use]
    pub fn read(&self) -> Vec<CountersRead> {
        self.counters
            .as_ref()
            .map(|counters| counters.read(&ClockTicks::default))
            .unwrap_or_default()
    }

    /// The number of function-call IPIs on a CPU between two reads; `None` when they could not be
    /// counted.
    #[must_use]
    pub fn function_calls(
        &self,
        before: &[CountersRead],
        after: &[CountersRead],
        cpu: usize,
    ) -> Option<u64> {
        self.counters.as_ref().ok()?.function_calls(before, after, cpu)
    }

    /// Reads the counters before the span. Interrupts each CPU once.
    pub fn open(&mut self, recorder: &mut TraceRecorder<'_>) {
        let Ok(counters) = &self.counters else { return };
        self.first = counters.read(&|| recorder.now());
        for read in &self.first {
            recorder.open_window(read.cpu, read.span);
        }
    }

    /// Reads the counters after the span and compares. Interrupts each CPU once.
    ///
    /// # Errors
    /// The trace cannot be read to its end.
    pub fn close(&mut self, recorder: &mut TraceRecorder<'_>) -> cpushield_linux::Result<()> {
        let Ok(counters) = &self.counters else { return Ok(()) };
        let last = counters.read(&|| recorder.now());
        for read in &last {
            recorder.close_window(read.cpu, read.span);
        }
        // What the counters saw is in the buffers; a fast writer must not keep this busy forever.
        for _ in 0..POLLS_MAX {
            recorder.poll()?;
            if !recorder.is_behind() {
                break;
            }
        }
        let scale = recorder.scale();
        for (first, last) in self.first.iter().zip(&last) {
            let (events, doubts) = compare(&recorder.recorded(last.cpu), first, last, &scale);
            self.compared.push(ComparedCpu { cpu: last.cpu, events, doubts });
        }
        Ok(())
    }

    /// The comparison on each CPU, and the files of the counters, which the caller closes.
    #[must_use]
    pub fn into_compared(self) -> (Vec<ComparedCpu>, Vec<OpenFile>) {
        let groups = self.counters.into_iter().flat_map(|counters| counters.groups);
        (self.compared, groups.flat_map(|(_, group)| group.into_files()).collect())
    }
}

/// Compares the two witnesses of one CPU: the records of the trace, in the order of the counters,
/// and the reads at both ends of the span. Pure.
#[must_use]
pub fn compare(
    recorded: &[RecordedEvent],
    first: &CountersRead,
    last: &CountersRead,
    scale: &TickScale,
) -> (Vec<EventEvidence>, Vec<WitnessDoubt>) {
    let mut doubts = Vec::new();
    let counted = match (&first.counts, &last.counts) {
        (Ok(first), Ok(last)) => Some((first, last)),
        (Err(why), _) | (_, Err(why)) => {
            doubts.push(WitnessDoubt::Unreadable { why: why.clone() });
            None
        }
    };
    if let Some((a, b)) = counted {
        if a.counts.len() != recorded.len() || b.counts.len() != recorded.len() {
            doubts.push(WitnessDoubt::GroupTakenApart);
        }
        let span_ns = scale.duration_ns(last.span.begun.saturating_sub(first.span.ended));
        let counted = CountedTime {
            enabled_ns: b.enabled_ns.saturating_sub(a.enabled_ns),
            running_ns: b.running_ns.saturating_sub(a.running_ns),
        };
        doubts.extend(check_coverage(counted, span_ns));
        let counters = recorded.iter().zip(a.counts.iter().zip(&b.counts));
        doubts.extend(counters.filter(|(_, (first, last))| last < first).map(
            |(event, (first, last))| {
                let event = event.event.to_string();
                WitnessDoubt::WentBack { event, first: *first, last: *last }
            },
        ));
    }

    let mut events: Vec<EventEvidence> = recorded
        .iter()
        .enumerate()
        .map(|(place, event)| EventEvidence {
            class: event.event.class,
            event: event.event.to_string(),
            recorded_least: event.least,
            recorded_most: event.most,
            counted: counted.and_then(|(first, last)| count_between(first, last, place)),
        })
        .collect();
    // The sum of all entries from user mode comes first: a disagreement there says the most.
    events.sort_by_key(|event| event.class);
    doubts.extend(events.iter().filter_map(EventEvidence::disagreement));
    (events, doubts)
}

/// What one counter of the group counted between two reads.
fn count_between(first: &GroupReading, last: &GroupReading, place: usize) -> Option<u64> {
    last.counts.get(place)?.checked_sub(*first.counts.get(place)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCALE: TickScale = TickScale { ns_per_tick: 1.0, error_ppm: 0.0 };

    fn recorded(least: u64, most: u64) -> RecordedEvent {
        let event = EntryEvent::new(EntryClass::PageFault, "exceptions", "page_fault_user", 7);
        RecordedEvent { event, least, most }
    }

    fn read(at: u64, time_ns: u64, counts: &[u64]) -> CountersRead {
        let counts =
            GroupReading { enabled_ns: time_ns, running_ns: time_ns, counts: counts.to_vec() };
        CountersRead {
            cpu: 3,
            span: ReadSpan { begun: ClockTicks(at), ended: ClockTicks(at + 10) },
            counts: Ok(counts),
        }
    }

    #[test]
    fn counts_that_fit_the_trace_leave_no_doubt() {
        let (first, last) = (read(1_000, 50, &[5]), read(3_000, 2_060, &[9]));
        let (events, doubts) = compare(&[recorded(4, 4)], &first, &last, &SCALE);
        assert_eq!((events[0].counted, doubts.as_slice()), (Some(4), [].as_slice()));
        let (_, doubts) = compare(&[recorded(0, 3)], &first, &last, &SCALE);
        assert!(matches!(doubts[..], [WitnessDoubt::Disagreement { counted: 4, .. }]));
    }

    #[test]
    fn the_sum_of_all_entries_from_user_mode_is_compared_first() {
        let exit = EntryEvent::new(EntryClass::UserModeExit, "context_tracking", "user_exit", 9);
        let exit = RecordedEvent { event: exit, least: 0, most: 0 };
        let (first, last) = (read(1_000, 50, &[5, 2]), read(3_000, 2_060, &[9, 6]));
        let (events, doubts) = compare(&[recorded(0, 0), exit], &first, &last, &SCALE);
        let classes: Vec<EntryClass> = events.iter().map(|event| event.class).collect();
        assert_eq!(classes, [EntryClass::UserModeExit, EntryClass::PageFault]);
        let WitnessDoubt::Disagreement { event, .. } = &doubts[0] else { panic!("{doubts:?}") };
        assert_eq!(event.class, EntryClass::UserModeExit);
    }

    #[test]
    fn counters_that_stopped_were_split_or_cannot_be_read_are_doubted() {
        let first = read(1_000, 50, &[5]);
        let (_, doubts) = compare(&[recorded(0, 0)], &first, &read(3_000, 60, &[5]), &SCALE);
        assert!(matches!(doubts[..], [WitnessDoubt::NotCovering { .. }]), "{doubts:?}");
        let (events, doubts) = compare(&[recorded(0, 0)], &first, &read(3_000, 2_060, &[]), &SCALE);
        assert_eq!((events[0].counted, doubts), (None, vec![WitnessDoubt::GroupTakenApart]));
        let (events, doubts) =
            compare(&[recorded(0, 0)], &first, &read(3_000, 2_060, &[2]), &SCALE);
        let event = "exceptions:page_fault_user".to_owned();
        let reset = WitnessDoubt::WentBack { event, first: 5, last: 2 };
        assert_eq!((events[0].counted, doubts), (None, vec![reset]), "another process reset it");
        let failed = CountersRead { counts: Err("EIO".to_owned()), ..first.clone() };
        let (events, doubts) = compare(&[recorded(2, 2)], &first, &failed, &SCALE);
        assert_eq!(events[0].counted, None);
        assert!(matches!(&doubts[..], [WitnessDoubt::Unreadable { why }] if why == "EIO"));
    }
}
