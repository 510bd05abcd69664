//! The instruments: the events that threads wait for, one file each. An instrument that cannot run
//! on a machine says why; it never reports a zero.

mod hardware;
mod hpet;
mod kernel;
mod rtc;
mod spin;
mod timer;
mod wakeup;

use super::LatencyNote;
use super::refusal::{InstrumentRefusal, ThreadRefusal};
use super::tracer::LatencyTracer;
use crate::registry::{self, ExplainPage, ExplainedEntry, RegistryEntry};
use cpushield_linux::shared_memory::latency_stats::{LatencyStats, ThreadSettings};
use cpushield_linux::{CpuSet, Host};
use std::fmt;

/// All instruments, in the order of the help.
pub const INSTRUMENTS: &[&Instrument] = &[
    &timer::TIMER,
    &spin::SPIN,
    &wakeup::TIMERFD,
    &wakeup::WAKEUP,
    &wakeup::EVENTFD,
    &rtc::RTC,
    &hpet::HPET,
    &kernel::KERNEL,
    &hardware::HARDWARE,
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
pub struct Instrument {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it measures, in one phrase.
    pub summary: &'static str,
    /// How it measures, and what the figure includes, with sources.
    pub page: &'static str,
    /// Why it cannot run on this machine.
    pub possible: fn(&Host) -> Result<(), InstrumentRefusal>,
    /// Why it does not support threads of this period.
    pub check_period: fn(u64) -> Result<(), ThreadRefusal>,
    /// Whether its threads never sleep. Such threads have no period, and no real-time policy, which
    /// would starve kernel threads.
    pub is_endless: bool,
    /// The most threads it can have at once.
    pub threads_max: usize,
    /// Makes the events of a thread from a housekeeping CPU, until the tally is stopped: takes the
    /// period and the first moment. `None` where no other thread makes them.
    pub drive: Option<fn(u64, u64, &LatencyStats)>,
    /// The kernel tracer that measures; `None` where the threads measure by themselves.
    pub tracer: Option<&'static dyn LatencyTracer>,
    /// Whether all CPUs have one thread each, of the same period.
    pub has_one_period: bool,
    /// Notes that can only be made while the measurement on these CPUs runs.
    pub notes: fn(&Host, &CpuSet) -> Vec<LatencyNote>,
    /// Measures until the tally is stopped. Runs on the measured CPU with the requested policy, and
    /// must not allocate after the first wait.
    pub run: fn(&Host, &ThreadTask, &LatencyStats),
}

impl Instrument {
    /// What most instruments are like.
    const PLAIN: Instrument = Instrument {
        name: "",
        summary: "",
        page: "",
        possible: |_| Ok(()),
        check_period: |_| Ok(()),
        is_endless: false,
        threads_max: usize::MAX,
        drive: None,
        tracer: None,
        has_one_period: false,
        notes: |_, _| Vec::new(),
        run: |_, _, _| (),
    };
}

impl fmt::Debug for Instrument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl RegistryEntry for &'static Instrument {
    fn key(self) -> &'static str {
        self.name
    }
}

impl ExplainedEntry for &'static Instrument {
    fn explain(self) -> ExplainPage {
        // A cause may have the same name.
        let name = format!("latency-{}", self.name);
        ExplainPage::new("instrument", name, self.summary, self.page)
    }
}

/// Finds the instrument of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Instrument> {
    registry::find(INSTRUMENTS, name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_instrument_has_a_unique_name_and_a_page_with_a_source() {
        let names: BTreeSet<&str> = INSTRUMENTS.iter().map(|instrument| instrument.name).collect();
        assert_eq!(names.len(), INSTRUMENTS.len());
        for instrument in INSTRUMENTS {
            assert!(named(instrument.name).is_some());
            assert!(instrument.page.contains("Source"), "{}", instrument.name);
        }
        assert!(named("sundial").is_none());
    }
}
