//! The instruments: what threads wait for, one file each. An instrument that cannot run on a
//! machine says why; it never gives a zero.

mod eventfd;
mod hardware;
mod hpet;
mod kernel;
mod rtc;
mod spin;
mod timer;
mod timerfd;
mod wakeup;

use super::tracer::LatencyTracer;
use cpushield_linux::latency_stats::{LatencyStats, ThreadSettings};
use cpushield_linux::{CpuSet, Host};
use std::fmt;

/// Every instrument, in the order of the help.
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

/// What a thread is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadTask {
    /// Time between two events, in nanoseconds; 0 where there is no such time.
    pub period_ns: u64,
    /// When the first one is due, in nanoseconds of `CLOCK_MONOTONIC`.
    pub begin_ns: u64,
    /// What of it counts, and where the thread belongs.
    pub terms: ThreadSettings,
}

/// A way to measure latency.
pub trait Instrument: Sync {
    /// The word for it on the command line.
    fn name(&self) -> &'static str;

    /// What it measures, in one sentence.
    fn summary(&self) -> &'static str;

    /// How it measures, what is in the figure and what is not, with sources.
    fn page(&self) -> &'static str;

    /// Why it cannot run on this machine.
    ///
    /// # Errors
    /// One sentence.
    fn possible(&self, host: &Host) -> Result<(), String>;

    /// Why it cannot have threads of this period.
    ///
    /// # Errors
    /// One sentence.
    fn suits(&self, _period_ns: u64) -> Result<(), String> {
        Ok(())
    }

    /// Whether its threads never sleep: then they have no period, and no real-time policy, with
    /// which they would starve the kernel's own threads.
    fn is_endless(&self) -> bool {
        false
    }

    /// How many threads it can have at once.
    fn threads_max(&self) -> usize {
        usize::MAX
    }

    /// Whether somebody else makes its events, see [`Instrument::drive`].
    fn is_driven(&self) -> bool {
        false
    }

    /// Makes the events of a thread until the tally is stopped, from a housekeeping CPU.
    fn drive(&self, _period_ns: u64, _begin_ns: u64, _tally: &LatencyStats) {}

    /// The tracer of the kernel that measures; `None` where the threads do it themselves.
    fn tracer(&self) -> Option<&'static dyn LatencyTracer> {
        None
    }

    /// Whether all CPUs have one thread each, of the same period.
    fn has_one_period(&self) -> bool {
        false
    }

    /// What is to be known of a measurement on these CPUs that can be seen only while it goes on.
    fn told(&self, _host: &Host, _cpus: &CpuSet) -> Vec<String> {
        Vec::new()
    }

    /// Measures until the tally is stopped. On its CPU, with its policy; must not allocate once it
    /// waits.
    fn run(&self, task: &ThreadTask, tally: &LatencyStats);
}

impl fmt::Debug for dyn Instrument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The instrument of this name.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static dyn Instrument> {
    INSTRUMENTS.iter().copied().find(|instrument| instrument.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_instrument_has_a_name_of_its_own_and_a_page_with_a_source() {
        let names: BTreeSet<&str> = INSTRUMENTS.iter().map(|one| one.name()).collect();
        assert_eq!(names.len(), INSTRUMENTS.len());
        for instrument in INSTRUMENTS {
            assert!(by_name(instrument.name()).is_some());
            assert!(instrument.page().contains("Source"), "{}", instrument.name());
        }
        assert!(by_name("sundial").is_none());
    }
}
