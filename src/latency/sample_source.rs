//! Who fills the tallies of a run: threads of ours that measure ([`MeasurementProcess`]), or a
//! tracer of the kernel, whose records this process counts ([`LatencyTrace`]). For the rest of the
//! run they are the same.

use super::measurement_process::{MeasurementProcess, MeasurementTimes, ThreadPlacement};
use super::order::{LatencyError, MeasureRequest};
use super::trace::LatencyTrace;
use super::{LatencyDoubt, ThreadDoubt};
use cpushield_linux::Host;
use cpushield_linux::latency_stats::{LIMITS, LatencyStats};
use std::time::Duration;

/// What one tally is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SeriesLabel {
    /// The thread.
    pub(super) seat: ThreadPlacement,
    /// What of it, where it is measured in parts.
    pub(super) stage: Option<&'static str>,
    /// Shorter latencies are no samples; 0 when all are.
    pub(super) threshold_ns: u64,
    /// The thread's number, once it has one.
    pub(super) tid: i32,
}

/// See the file.
#[derive(Debug)]
pub(super) enum SampleSource<'h> {
    /// Threads that count by themselves.
    Crew(MeasurementProcess, Vec<SeriesLabel>),
    /// A tracer.
    Trace(Box<LatencyTrace<'h>>),
}

impl<'h> SampleSource<'h> {
    /// Makes everything ready; nothing is measured yet.
    ///
    /// # Errors
    /// Says why not.
    pub(super) fn start(
        host: &'h Host,
        order: &MeasureRequest<'_>,
        seats: &[ThreadPlacement],
    ) -> Result<SampleSource<'h>, LatencyError> {
        if let Some(tracer) = order.instrument.tracer() {
            return LatencyTrace::start(host, order, tracer, seats)
                .map(|it| SampleSource::Trace(Box::new(it)));
        }
        let crew = crew(order, seats)?;
        let row = |(seat, tid): (&ThreadPlacement, &i32)| SeriesLabel {
            seat: *seat,
            stage: None,
            threshold_ns: 0,
            tid: *tid,
        };
        let rows = seats.iter().zip(&crew.tids).map(row).collect();
        Ok(SampleSource::Crew(crew, rows))
    }

    /// What the tallies are of.
    pub(super) fn rows(&self) -> &[SeriesLabel] {
        match self {
            SampleSource::Crew(_, rows) => rows,
            SampleSource::Trace(trace) => trace.rows(),
        }
    }

    /// One for each row.
    pub(super) fn tallies(&self) -> &[LatencyStats] {
        match self {
            SampleSource::Crew(crew, _) => crew.tallies(),
            SampleSource::Trace(trace) => trace.tallies(),
        }
    }

    /// What is good to know.
    pub(super) fn notes(&self) -> Vec<String> {
        match self {
            SampleSource::Crew(crew, _) => crew.notes.clone(),
            SampleSource::Trace(trace) => trace.notes(),
        }
    }

    /// Measuring begins.
    ///
    /// # Errors
    /// Says why not.
    pub(super) fn go(&mut self, times: MeasurementTimes) -> Result<(), LatencyError> {
        match self {
            SampleSource::Crew(crew, _) => crew.go(times),
            SampleSource::Trace(trace) => trace.go(times),
        }
    }

    /// Takes what is new into the tallies.
    pub(super) fn look(&self) {
        if let SampleSource::Trace(trace) = self {
            trace.look();
        }
    }

    /// Measuring ends; what is under way is waited for where that can be.
    pub(super) fn stop(&self, longest_period: Duration) {
        match self {
            SampleSource::Crew(crew, _) => crew.stop(longest_period),
            SampleSource::Trace(trace) => trace.stop(longest_period),
        }
    }

    /// Ends everything and leaves nothing behind. Says what makes the rows doubtful, each for
    /// itself, and the figures as a whole.
    pub(super) fn dismiss(self) -> FinalFacts {
        match self {
            SampleSource::Crew(crew, _) => {
                crew.dismiss();
                FinalFacts::default()
            }
            SampleSource::Trace(trace) => trace.dismiss(),
        }
    }
}

/// What is known at the end only.
#[derive(Debug, Default)]
pub(super) struct FinalFacts {
    /// What makes the rows doubtful, each for itself; fewer than rows where nothing does.
    pub(super) of_each: Vec<Vec<ThreadDoubt>>,
    /// What makes all figures doubtful.
    pub(super) of_all: Vec<LatencyDoubt>,
    /// SMIs of each row's CPU while it was measured; fewer where nobody counted.
    pub(super) smis: Vec<Option<u64>>,
    /// What is good to know.
    pub(super) notes: Vec<String>,
}

/// The threads of ours, in the cgroup they belong to.
pub(super) fn crew(
    order: &MeasureRequest<'_>,
    seats: &[ThreadPlacement],
) -> Result<MeasurementProcess, LatencyError> {
    let files = order.cgroup.iter().map(|dir| format!("{dir}/cgroup.procs")).collect();
    MeasurementProcess::start(order.instrument.name(), seats, files, limits(order))
}

/// What is counted against.
pub(super) fn limits(order: &MeasureRequest<'_>) -> [u64; LIMITS] {
    let mut limits_ns = [0; LIMITS];
    limits_ns.iter_mut().zip(&order.over_ns).for_each(|(to, from)| *to = *from);
    limits_ns
}
