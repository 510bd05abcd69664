//! Who fills the tallies of a run: threads of ours that measure ([`Crew`]), or a tracer of the
//! kernel, whose records this process counts ([`Trace`]). For the rest of the run they are the
//! same.

use super::crew::{Crew, Seat, Times};
use super::order::{LatencyError, Order};
use super::trace::Trace;
use super::{LatencyDoubt, ThreadDoubt};
use cpushield_linux::Host;
use cpushield_linux::tally::{LIMITS, Tally};
use std::time::Duration;

/// What one tally is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    /// The thread.
    pub(super) seat: Seat,
    /// What of it, where it is measured in parts.
    pub(super) stage: Option<&'static str>,
    /// Shorter latencies are no samples; 0 when all are.
    pub(super) threshold_ns: u64,
    /// The thread's number, once it has one.
    pub(super) tid: i32,
}

/// See the file.
#[derive(Debug)]
pub(super) enum Feed<'h> {
    /// Threads that count by themselves.
    Crew(Crew, Vec<Row>),
    /// A tracer.
    Trace(Box<Trace<'h>>),
}

impl<'h> Feed<'h> {
    /// Makes everything ready; nothing is measured yet.
    ///
    /// # Errors
    /// Says why not.
    pub(super) fn start(
        host: &'h Host,
        order: &Order<'_>,
        seats: &[Seat],
    ) -> Result<Feed<'h>, LatencyError> {
        if let Some(tracer) = order.instrument.tracer() {
            return Trace::start(host, order, tracer, seats).map(|it| Feed::Trace(Box::new(it)));
        }
        let crew = crew(order, seats)?;
        let row = |(seat, tid): (&Seat, &i32)| Row {
            seat: *seat,
            stage: None,
            threshold_ns: 0,
            tid: *tid,
        };
        let rows = seats.iter().zip(&crew.tids).map(row).collect();
        Ok(Feed::Crew(crew, rows))
    }

    /// What the tallies are of.
    pub(super) fn rows(&self) -> &[Row] {
        match self {
            Feed::Crew(_, rows) => rows,
            Feed::Trace(trace) => trace.rows(),
        }
    }

    /// One for each row.
    pub(super) fn tallies(&self) -> &[Tally] {
        match self {
            Feed::Crew(crew, _) => crew.tallies(),
            Feed::Trace(trace) => trace.tallies(),
        }
    }

    /// What is good to know.
    pub(super) fn notes(&self) -> Vec<String> {
        match self {
            Feed::Crew(crew, _) => crew.notes.clone(),
            Feed::Trace(trace) => trace.notes(),
        }
    }

    /// Measuring begins.
    ///
    /// # Errors
    /// Says why not.
    pub(super) fn go(&mut self, times: Times) -> Result<(), LatencyError> {
        match self {
            Feed::Crew(crew, _) => crew.go(times),
            Feed::Trace(trace) => trace.go(times),
        }
    }

    /// Takes what is new into the tallies.
    pub(super) fn look(&self) {
        if let Feed::Trace(trace) = self {
            trace.look();
        }
    }

    /// Measuring ends; what is under way is waited for where that can be.
    pub(super) fn stop(&self, longest_period: Duration) {
        match self {
            Feed::Crew(crew, _) => crew.stop(longest_period),
            Feed::Trace(trace) => trace.stop(longest_period),
        }
    }

    /// Ends everything and leaves nothing behind. Says what makes the rows doubtful, each for
    /// itself, and the figures as a whole.
    pub(super) fn dismiss(self) -> Rest {
        match self {
            Feed::Crew(crew, _) => {
                crew.dismiss();
                Rest::default()
            }
            Feed::Trace(trace) => trace.dismiss(),
        }
    }
}

/// What is known at the end only.
#[derive(Debug, Default)]
pub(super) struct Rest {
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
pub(super) fn crew(order: &Order<'_>, seats: &[Seat]) -> Result<Crew, LatencyError> {
    let files = order.cgroup.iter().map(|dir| format!("{dir}/cgroup.procs")).collect();
    Crew::start(order.instrument.name(), seats, files, limits(order))
}

/// What is counted against.
pub(super) fn limits(order: &Order<'_>) -> [u64; LIMITS] {
    let mut limits_ns = [0; LIMITS];
    limits_ns.iter_mut().zip(&order.over_ns).for_each(|(to, from)| *to = *from);
    limits_ns
}
