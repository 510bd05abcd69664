//! The kernel's trace beside a measurement: what ran on the CPU while each of the worst waited.
//!
//! The recorder keeps the last seconds only; whenever a latency is among the worst of its thread,
//! its window is cut out at the next look. So the memory of a day is that of a second.

use super::TraceUse;
use super::order::MeasureRequest;
use super::sample_source::{SampleSource, SeriesLabel};
use crate::verify::counters::{self, CounterSnapshot};
use crate::verify::trace::{self, TraceRecorder};
use crate::verify::{AbsenceReason, TimeBreakdown};
use cpushield_linux::latency_stats::WorstMoment;
use cpushield_linux::{CpuSet, Host};

/// What happened longer ago is forgotten: a latency of this length cannot be explained.
const LAST_NS: u64 = 5_000_000_000;
/// Counters that are told where there is no trace.
const HINTS: usize = 3;

/// The trace, or why there is none.
pub(super) struct TraceWitness<'h> {
    host: &'h Host,
    cpus: CpuSet,
    recorder: Option<TraceRecorder<'h>>,
    told: TraceUse,
    /// For want of a trace.
    counters: Option<CounterSnapshot>,
    /// What is known of each of the worst, by row.
    known: Vec<Vec<(WorstMoment, TimeBreakdown)>>,
}

impl<'h> TraceWitness<'h> {
    /// Arms the trace, where it was asked for: before the threads start, as a CPU that is busy with
    /// a real-time thread cannot be armed.
    pub(super) fn arm(host: &'h Host, order: &MeasureRequest<'_>) -> TraceWitness<'h> {
        let wanted =
            trace::RecordRequest { cpus: order.cpus.clone(), syscalls: false, stacks: false };
        let mut told = TraceUse { asked: order.why, ..TraceUse::default() };
        let armed = order.why.then(|| TraceRecorder::arm(host, &wanted));
        let recorder = armed.and_then(|armed| match armed {
            Ok(mut recorder) => {
                recorder.remember(LAST_NS);
                told.blind = recorder.blind().to_vec();
                Some(recorder)
            }
            Err(absent) => {
                told.absent = Some(absent);
                None
            }
        });
        let (cpus, counters, known) = (order.cpus.clone(), None, Vec::new());
        TraceWitness { host, cpus, recorder, told, counters, known }
    }

    /// Recording begins.
    pub(super) fn start(&mut self, rows: &[SeriesLabel]) {
        self.known = rows.iter().map(|_| Vec::new()).collect();
        let tids: Vec<i32> = rows.iter().map(|row| row.tid).filter(|tid| *tid > 0).collect();
        if let Some(recorder) = &mut self.recorder {
            recorder.set_workload(&tids);
        }
        self.ask(TraceRecorder::start);
        if self.told.asked {
            self.counters = Some(counters::take(self.host, &self.cpus));
        }
    }

    /// Asks something of the trace; when that fails, there is no trace any more.
    fn ask(&mut self, ask: impl FnOnce(&mut TraceRecorder<'h>) -> cpushield_linux::Result<()>) {
        if let Some(Err(error)) = self.recorder.as_mut().map(ask) {
            self.told.absent = Some(AbsenceReason::TraceEnded { answer: error.to_string() });
            self.recorder = None;
        }
    }

    /// Reads the trace, and cuts out what is new among the worst. The worst are read first, so that
    /// what led to them is in the trace already.
    pub(super) fn look(&mut self, feed: &SampleSource<'_>) {
        if self.recorder.is_none() {
            return;
        }
        let all = feed.rows().iter().zip(feed.tallies());
        let worst: Vec<_> =
            all.map(|(row, tally)| (row.seat.cpu, row.tid, tally.figures().worst)).collect();
        self.ask(TraceRecorder::poll);
        let Some(recorder) = &mut self.recorder else { return };
        for ((cpu, tid, worst), known) in worst.into_iter().zip(&mut self.known) {
            known.retain(|(moment, _)| worst.contains(moment));
            for moment in worst {
                if known.iter().all(|(of, _)| *of != moment) {
                    let until_ns = moment.due_ns.saturating_add(moment.late_ns);
                    known.push((moment, recorder.why(cpu, tid, moment.due_ns, until_ns)));
                }
            }
        }
    }

    /// What is known of one of the worst; `nth` is its row.
    pub(super) fn why(&self, nth: usize, moment: &WorstMoment) -> Option<TimeBreakdown> {
        let known = self.known.get(nth)?.iter().find(|(of, _)| of == moment);
        match (known, &self.told) {
            (Some((_, why)), _) => Some(why.clone()),
            (None, TraceUse { asked: true, absent: Some(why), .. }) => {
                Some(TimeBreakdown::unknown(format!("there was no trace: {why}")))
            }
            (None, TraceUse { asked: true, .. }) => {
                Some(TimeBreakdown::unknown("it was not looked at"))
            }
            (None, _) => None,
        }
    }

    /// Ends recording: what is to be told of the trace, and notes; without a trace, what the
    /// kernel's counters saw.
    pub(super) fn end(self) -> (TraceUse, Vec<String>) {
        let mut notes = Vec::new();
        if let Some(why) = &self.told.absent {
            notes.push(format!("no cause is known, as there was no trace: {why}"));
            let after = counters::take(self.host, &self.cpus);
            let before = self.counters.as_ref();
            notes.extend(before.into_iter().flat_map(|before| hints(before, &after, &self.cpus)));
        } else if self.told.asked {
            notes.push(
                "traced (--why): the time in which the kernel writes its trace on the measured \
                 CPUs is part of the figures"
                    .to_owned(),
            );
        }
        if let Some(Err(error)) = self.recorder.map(TraceRecorder::close) {
            notes.push(format!("the trace could not be put back: {error}"));
        }
        (self.told, notes)
    }
}

/// What the counters say that came most often, a line for each CPU.
fn hints(before: &CounterSnapshot, after: &CounterSnapshot, cpus: &CpuSet) -> Vec<String> {
    let line = |cpu| {
        let mut rows = counters::compare(before, after, cpu, &[]).interruptions;
        rows.sort_by_key(|row| std::cmp::Reverse(row.count));
        let words = rows.iter().filter(|row| row.count > 0).take(HINTS).map(|row| {
            format!("{} times {}", row.count, format!("{} {}", row.cause, row.culprit).trim_end())
        });
        let words: Vec<String> = words.collect();
        (!words.is_empty())
            .then(|| format!("CPU {cpu} meanwhile, as counted: {}", words.join(", ")))
    };
    cpus.iter().filter_map(line).collect()
}
