//! The source of samples: threads of ours that measure ([`MeasurementProcess`]), or a kernel tracer
//! whose records this process counts ([`LatencyTrace`]). Both fill the same tallies.

use super::measurement_process::{MeasurementProcess, MeasurementTimes, ThreadPlacement};
use super::order::{LatencyError, MeasureRequest};
use super::trace::LatencyTrace;
use super::{LatencyDoubt, LatencyNote, ThreadDoubt, WakeupStage};
use cpushield_linux::Host;
use cpushield_linux::latency_stats::{LIMITS, LatencyStats};
use std::time::Duration;

/// Identifies the series of one tally.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SeriesLabel {
    /// The thread.
    pub(super) placement: ThreadPlacement,
    /// The stage, where wakeups are measured in stages.
    pub(super) stage: Option<WakeupStage>,
    /// Shorter latencies are no samples; 0 when all are.
    pub(super) threshold_ns: u64,
    /// The thread's number, once it has one.
    pub(super) tid: i32,
}

/// A source of samples.
#[derive(Debug)]
pub(super) enum SampleSource<'h> {
    /// Threads that measure and count by themselves.
    Process(MeasurementProcess, Vec<SeriesLabel>),
    /// A kernel tracer.
    Trace(Box<LatencyTrace<'h>>),
}

impl<'h> SampleSource<'h> {
    /// Prepares the threads or the tracer. Nothing is measured yet.
    ///
    /// # Errors
    /// The threads or the tracer cannot be started.
    pub(super) fn start(
        host: &'h Host,
        request: &MeasureRequest<'_>,
        placements: &[ThreadPlacement],
    ) -> Result<SampleSource<'h>, LatencyError> {
        if let Some(tracer) = request.instrument.tracer() {
            return LatencyTrace::start(host, request, tracer, placements)
                .map(|trace| SampleSource::Trace(Box::new(trace)));
        }
        let process = start_process(request, placements)?;
        let rows = placements.iter().zip(&process.tids).map(|(placement, tid)| SeriesLabel {
            placement: *placement,
            stage: None,
            threshold_ns: 0,
            tid: *tid,
        });
        let rows = rows.collect();
        Ok(SampleSource::Process(process, rows))
    }

    /// The labels of the tallies.
    pub(super) fn rows(&self) -> &[SeriesLabel] {
        match self {
            SampleSource::Process(_, rows) => rows,
            SampleSource::Trace(trace) => trace.rows(),
        }
    }

    /// The tallies, one for each label.
    pub(super) fn tallies(&self) -> &[LatencyStats] {
        match self {
            SampleSource::Process(process, _) => process.tallies(),
            SampleSource::Trace(trace) => trace.tallies(),
        }
    }

    /// Notes for the document.
    pub(super) fn notes(&self) -> Vec<LatencyNote> {
        match self {
            SampleSource::Process(process, _) => process.notes.clone(),
            SampleSource::Trace(trace) => trace.notes(),
        }
    }

    /// Starts measuring.
    ///
    /// # Errors
    /// The threads or the tracer did not start.
    pub(super) fn begin(&mut self, times: MeasurementTimes) -> Result<(), LatencyError> {
        match self {
            SampleSource::Process(process, _) => process.begin(times),
            SampleSource::Trace(trace) => trace.begin(times),
        }
    }

    /// Counts new samples into the tallies.
    pub(super) fn poll(&self) {
        if let SampleSource::Trace(trace) = self {
            trace.poll();
        }
    }

    /// Stops measuring, and waits for outstanding events where that is possible.
    pub(super) fn stop(&self, longest_period: Duration) {
        match self {
            SampleSource::Process(process, _) => process.stop(longest_period),
            SampleSource::Trace(trace) => trace.stop(longest_period),
        }
    }

    /// Stops the threads and restores all settings. Returns the doubts about the series and about
    /// the figures as a whole.
    pub(super) fn finish(self) -> FinalFacts {
        match self {
            SampleSource::Process(process, _) => {
                process.finish();
                FinalFacts::default()
            }
            SampleSource::Trace(trace) => trace.finish(),
        }
    }
}

/// What is known only at the end.
#[derive(Debug, Default)]
pub(super) struct FinalFacts {
    /// The doubts of each series; fewer entries than series where there are none.
    pub(super) thread_doubts: Vec<Vec<ThreadDoubt>>,
    /// The doubts about all figures.
    pub(super) doubts: Vec<LatencyDoubt>,
    /// The number of SMIs of each series' CPU; fewer entries where SMIs were not counted.
    pub(super) smis: Vec<Option<u64>>,
    /// Notes for the document.
    pub(super) notes: Vec<LatencyNote>,
}

/// Starts the measuring process, in its cgroup.
pub(super) fn start_process(
    request: &MeasureRequest<'_>,
    placements: &[ThreadPlacement],
) -> Result<MeasurementProcess, LatencyError> {
    let files = request.cgroup.iter().map(|dir| format!("{dir}/cgroup.procs")).collect();
    MeasurementProcess::start(request.instrument.name(), placements, files, limits(request))
}

/// The limits to count against; 0 for unused ones.
pub(super) fn limits(request: &MeasureRequest<'_>) -> [u64; LIMITS] {
    let mut limits_ns = [0; LIMITS];
    limits_ns.iter_mut().zip(&request.over_ns).for_each(|(to, from)| *to = *from);
    limits_ns
}
