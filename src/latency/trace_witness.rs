//! The kernel's trace during a measurement: what ran on the CPU during each of the worst latencies.
//!
//! The recorder keeps the last seconds only. When a latency is among the worst of its thread, the
//! next poll extracts its window. So the memory use does not grow with the length of a run.

use super::order::MeasureRequest;
use super::sample_source::SampleSource;
use super::sampled_series::SeriesLabel;
use super::{FrequentInterrupt, LatencyNote, TraceUse};
use crate::documents::evidence::{
    AbsenceReason, InterruptionCount, TimeBreakdown, UnknownBreakdown,
};
use crate::observe::counters::{self, CounterSnapshot};
use crate::trace::{self, TraceRecorder};
use cpushield_linux::shared_memory::latency_stats::WorstMoment;
use cpushield_linux::{CpuSet, Host};

/// How much of the trace is kept: a latency of this length cannot be explained.
const LAST_NS: u64 = 5_000_000_000;
/// The most counters reported for a CPU when there is no trace.
const COUNTERS_SHOWN: usize = 3;

/// The trace of a measurement, or the reason why there is none.
pub(super) struct TraceWitness<'h> {
    host: &'h Host,
    cpus: CpuSet,
    recorder: Option<TraceRecorder<'h>>,
    tracing: TraceUse,
    /// The interrupt counters at the start, used when there is no trace.
    counters: Option<CounterSnapshot>,
    /// The explained worst latencies of each series.
    known: Vec<Vec<(WorstMoment, TimeBreakdown)>>,
}

impl<'h> TraceWitness<'h> {
    /// Arms the trace where it was requested. Call it before the threads start: a CPU that is busy
    /// with a real-time thread cannot be armed.
    pub(super) fn arm(host: &'h Host, request: &MeasureRequest<'_>) -> TraceWitness<'h> {
        let wanted = trace::RecordRequest { cpus: request.cpus.clone(), ..Default::default() };
        let mut tracing = TraceUse { asked: request.why, ..TraceUse::default() };
        let armed = request.why.then(|| TraceRecorder::arm(host, &wanted));
        let recorder = armed.and_then(|armed| match armed {
            Ok(mut recorder) => {
                recorder.remember(LAST_NS);
                tracing.blind = recorder.blind().to_vec();
                Some(recorder)
            }
            Err(absent) => {
                tracing.absent = Some(absent);
                None
            }
        });
        let (cpus, counters, known) = (request.cpus.clone(), None, Vec::new());
        TraceWitness { host, cpus, recorder, tracing, counters, known }
    }

    /// Starts recording.
    pub(super) fn start(&mut self, rows: &[SeriesLabel]) {
        self.known = rows.iter().map(|_| Vec::new()).collect();
        let tids: Vec<i32> = rows.iter().map(|row| row.tid).filter(|tid| *tid > 0).collect();
        if let Some(recorder) = &mut self.recorder {
            recorder.set_workload(&tids);
        }
        self.try_with_recorder(TraceRecorder::start);
        if self.tracing.asked {
            self.counters = Some(counters::read(self.host));
        }
    }

    /// Calls the recorder. After a failure there is no trace.
    fn try_with_recorder(
        &mut self,
        call: impl FnOnce(&mut TraceRecorder<'h>) -> cpushield_linux::Result<()>,
    ) {
        if let Some(Err(error)) = self.recorder.as_mut().map(call) {
            self.tracing.absent = Some(AbsenceReason::TraceEnded { answer: error.to_string() });
            self.recorder = None;
        }
    }

    /// Reads the trace and explains new worst latencies. The worst are read first, so that the
    /// trace already contains what led to them.
    pub(super) fn poll(&mut self, source: &SampleSource<'_>) {
        if self.recorder.is_none() {
            return;
        }
        let series = source.rows().iter().zip(source.tallies());
        let worst: Vec<_> = series
            .map(|(row, tally)| (row.placement.cpu, row.tid, tally.figures().worst))
            .collect();
        self.try_with_recorder(TraceRecorder::poll);
        let Some(recorder) = &mut self.recorder else { return };
        for ((cpu, tid, worst), known) in worst.into_iter().zip(&mut self.known) {
            known.retain(|(moment, _)| worst.contains(moment));
            for moment in worst {
                if known.iter().all(|(explained, _)| *explained != moment) {
                    let until_ns = moment.due_ns.saturating_add(moment.late_ns);
                    known.push((moment, recorder.why(cpu, tid, moment.due_ns, until_ns)));
                }
            }
        }
    }

    /// Returns what ran during one of the worst latencies of the `nth` series.
    pub(super) fn why(&self, nth: usize, moment: &WorstMoment) -> Option<TimeBreakdown> {
        let known = self.known.get(nth)?.iter().find(|(explained, _)| explained == moment);
        match (known, &self.tracing) {
            (Some((_, why)), _) => Some(why.clone()),
            (None, TraceUse { asked: true, absent: Some(absence), .. }) => {
                let absence = absence.clone();
                Some(TimeBreakdown::unknown(UnknownBreakdown::NoTrace { absence }))
            }
            (None, TraceUse { asked: true, .. }) => {
                Some(TimeBreakdown::unknown(UnknownBreakdown::NotRead))
            }
            (None, _) => None,
        }
    }

    /// Ends recording. Returns the use of the trace and notes; without a trace, the notes have the
    /// kernel's interrupt counters.
    pub(super) fn end(self) -> (TraceUse, Vec<LatencyNote>) {
        let mut notes = Vec::new();
        if let Some(why) = &self.tracing.absent {
            notes.push(LatencyNote::CausesUnknown { why: why.clone() });
            let after = counters::read(self.host);
            if let Some(before) = &self.counters {
                let cpus = self.cpus.iter();
                notes.extend(cpus.filter_map(|cpu| find_frequent(before, &after, cpu)));
            }
        } else if self.tracing.asked {
            notes.push(LatencyNote::Traced);
        }
        if let Some(Err(error)) = self.recorder.map(TraceRecorder::close) {
            notes.push(LatencyNote::TraceLeft { answer: error.to_string() });
        }
        (self.tracing, notes)
    }
}

/// Finds the most frequent interrupts of a CPU by the kernel's counters; `None` without any.
fn find_frequent(
    before: &CounterSnapshot,
    after: &CounterSnapshot,
    cpu: usize,
) -> Option<LatencyNote> {
    let counts = counters::compare(before, after, cpu, &[]);
    let mut rows: Vec<_> = counts.interruptions().filter(|row| row.count > 0).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.count));
    let interrupts: Vec<FrequentInterrupt> = rows
        .into_iter()
        .take(COUNTERS_SHOWN)
        .map(|InterruptionCount { count, cause, culprit, .. }| FrequentInterrupt {
            count: *count,
            cause: *cause,
            culprit: culprit.clone(),
        })
        .collect();
    (!interrupts.is_empty()).then_some(LatencyNote::FrequentInterrupts { cpu, interrupts })
}
