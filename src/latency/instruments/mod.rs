//! The instruments: the events that threads wait for, one file each. An instrument that cannot run
//! on a machine says why; it never reports a zero.

mod eventfd;
mod hardware;
mod hpet;
mod kernel;
mod rtc;
mod spin;
mod timer;
mod timerfd;
mod wakeup;

use super::LatencyNote;
use super::refusal::{InstrumentRefusal, ThreadRefusal};
use super::tracer::LatencyTracer;
use crate::registry::{self, ExplainPage, ExplainedEntry, RegistryEntry};
use cpushield_linux::shared_memory::latency_stats::{LatencyStats, ThreadSettings};
use cpushield_linux::{CpuSet, Host};
use std::fmt;

/// All instruments, in the order of the help.
pub const INSTRUMENTS: &[&dyn Instrument] = &[
    &timer::TimerInstrument,
    &spin::SpinInstrument,
    &timerfd::TimerFd,
    &wakeup::WakeupInstrument,
    &eventfd::EventFd,
    &rtc::RealTimeClock,
    &hpet::DeviceTimer,
    &kernel::KernelInstrument,
    &hardware::HardwareInstrument,
];

/// The task of a measuring thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadTask {
    /// Time between two events, in nanoseconds; 0 for instruments without a period.
    pub period_ns: u64,
    /// When the first one is due, in nanoseconds of `CLOCK_MONOTONIC`.
    pub begin_ns: u64,
    /// The measured time range, the limits and the CPU of the thread.
    pub settings: ThreadSettings,
}

/// A way to measure latency.
pub trait Instrument: Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// What it measures, in one phrase.
    fn summary(&self) -> &'static str;

    /// How it measures, and what the figure includes, with sources.
    fn page(&self) -> &'static str;

    /// Checks that it can run on this machine.
    ///
    /// # Errors
    /// Why it cannot.
    fn possible(&self, _host: &Host) -> Result<(), InstrumentRefusal> {
        Ok(())
    }

    /// Checks that it supports threads of this period.
    ///
    /// # Errors
    /// Why it does not.
    fn check_period(&self, _period_ns: u64) -> Result<(), ThreadRefusal> {
        Ok(())
    }

    /// Whether its threads never sleep. Such threads have no period, and no real-time policy, which
    /// would starve kernel threads.
    fn is_endless(&self) -> bool {
        false
    }

    /// The most threads it can have at once.
    fn threads_max(&self) -> usize {
        usize::MAX
    }

    /// Whether another thread makes its events, see [`Instrument::drive`].
    fn is_driven(&self) -> bool {
        false
    }

    /// Makes the events of a thread from a housekeeping CPU, until the tally is stopped.
    fn drive(&self, _period_ns: u64, _begin_ns: u64, _tally: &LatencyStats) {}

    /// The kernel tracer that measures; `None` where the threads measure by themselves.
    fn tracer(&self) -> Option<&'static dyn LatencyTracer> {
        None
    }

    /// Whether all CPUs have one thread each, of the same period.
    fn has_one_period(&self) -> bool {
        false
    }

    /// Notes that can only be made while the measurement on these CPUs runs.
    fn notes(&self, _host: &Host, _cpus: &CpuSet) -> Vec<LatencyNote> {
        Vec::new()
    }

    /// Measures until the tally is stopped. Runs on the measured CPU with the requested policy, and
    /// must not allocate after the first wait.
    fn run(&self, host: &Host, task: &ThreadTask, tally: &LatencyStats);
}

impl fmt::Debug for dyn Instrument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl RegistryEntry for &'static dyn Instrument {
    fn key(self) -> &'static str {
        self.name()
    }
}

impl ExplainedEntry for &'static dyn Instrument {
    fn explain(self) -> ExplainPage {
        // A cause may have the same name.
        let name = format!("latency-{}", self.name());
        ExplainPage::new("instrument", name, self.summary(), self.page())
    }
}

/// Finds the instrument of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static dyn Instrument> {
    registry::find(INSTRUMENTS, name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_instrument_has_a_unique_name_and_a_page_with_a_source() {
        let names: BTreeSet<&str> =
            INSTRUMENTS.iter().map(|instrument| instrument.name()).collect();
        assert_eq!(names.len(), INSTRUMENTS.len());
        for instrument in INSTRUMENTS {
            assert!(named(instrument.name()).is_some());
            assert!(instrument.page().contains("Source"), "{}", instrument.name());
        }
        assert!(named("sundial").is_none());
    }
}
