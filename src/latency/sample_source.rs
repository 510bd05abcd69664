//! The source of samples: threads of cpushield that measure ([`MeasurementProcess`]), or a kernel
//! tracer whose records this process counts ([`LatencyTrace`]). Both fill the same tallies.

use super::LatencyNote;
use super::measurement_process::{MeasurementProcess, MeasurementTimes, ThreadPlacement};
use super::order::{LatencyError, MeasureRequest};
use super::sampled_series::{FinalFacts, SeriesLabel};
use super::trace::LatencyTrace;
use cpushield_linux::Host;
use cpushield_linux::shared_memory::latency_stats::LatencyStats;
use std::time::Duration;

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
        if let Some(tracer) = request.instrument.tracer {
            return LatencyTrace::start(host, request, tracer, placements)
                .map(|trace| SampleSource::Trace(Box::new(trace)));
        }
        let process = MeasurementProcess::start(host, request, placements)?;
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
