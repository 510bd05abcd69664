//! The threads that measure on each CPU.

use super::Instrument;
use cpushield_linux::SchedPolicy;
use cpushield_sentence::Sentence;

/// The default period of a thread, in nanoseconds.
pub const PERIOD_NS: u64 = 1_000_000;
/// The default priority of the thread with the shortest period.
pub const PRIORITY: u32 = 80;

/// A periodic thread to start on every measured CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadSpec {
    /// Time between two events, in nanoseconds; 0 for a thread that never sleeps.
    pub period_ns: u64,
    /// Its scheduling policy.
    pub policy: SchedPolicy,
}

/// Why threads with the requested periods cannot measure on one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Sentence)]
pub enum PeriodError {
    /// a thread of {0} never sleeps, so it has no period.
    NeverSleeps(&'static str),
    /// two threads with the same period on one CPU would hide each other's latency.
    SamePeriod,
}

/// The periods of the threads on one CPU in nanoseconds, the shortest first: the requested ones,
/// otherwise [`PERIOD_NS`]. An instrument that never sleeps has one thread of period 0.
///
/// # Errors
/// The instrument has no periods, or two are the same.
pub fn choose_periods(
    instrument: &Instrument,
    requested_ns: &[u64],
) -> Result<Vec<u64>, PeriodError> {
    if instrument.is_endless {
        return match requested_ns {
            [] => Ok(vec![0]),
            _ => Err(PeriodError::NeverSleeps(instrument.name)),
        };
    }
    let mut periods_ns = requested_ns.to_vec();
    if periods_ns.is_empty() {
        periods_ns.push(PERIOD_NS);
    }
    periods_ns.sort_unstable();
    match periods_ns.windows(2).any(|pair| pair.first() == pair.get(1)) {
        true => Err(PeriodError::SamePeriod),
        false => Ok(periods_ns),
    }
}

/// Ordinary threads with these periods, the shortest first.
pub fn ordinary_threads(periods_ns: &[u64]) -> Vec<ThreadSpec> {
    let policy = SchedPolicy::Other { nice: 0 };
    periods_ns.iter().map(|&period_ns| ThreadSpec { period_ns, policy }).collect()
}

/// Real-time threads with these periods, the shortest first. As in LinuxCNC, a shorter period gets
/// a higher priority; the first one gets `highest`.
pub fn real_time_threads(periods_ns: &[u64], highest: u32) -> Vec<ThreadSpec> {
    let ranked = (0..).zip(periods_ns);
    ranked
        .map(|(rank, &period_ns): (u32, &u64)| {
            let priority = highest.saturating_sub(rank).max(1);
            ThreadSpec { period_ns, policy: SchedPolicy::Fifo { priority } }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::instruments;

    #[test]
    fn the_shorter_the_period_the_higher_the_priority() {
        let timer = instruments::named("timer").unwrap();
        let periods = choose_periods(timer, &[1_000_000, 25_000]).unwrap();
        let fifo =
            |period_ns, priority| ThreadSpec { period_ns, policy: SchedPolicy::Fifo { priority } };
        assert_eq!(real_time_threads(&periods, 90), [fifo(25_000, 90), fifo(1_000_000, 89)]);
    }

    #[test]
    fn the_same_period_twice_is_refused() {
        let timer = instruments::named("timer").unwrap();
        assert_eq!(choose_periods(timer, &[25_000, 25_000]), Err(PeriodError::SamePeriod));
        assert_eq!(choose_periods(timer, &[]), Ok(vec![PERIOD_NS]));
    }

    #[test]
    fn an_instrument_that_never_sleeps_has_no_periods() {
        let spin = instruments::named("spin").unwrap();
        assert_eq!(choose_periods(spin, &[25_000]), Err(PeriodError::NeverSleeps("spin")));
        let thread = ThreadSpec { period_ns: 0, policy: SchedPolicy::Other { nice: 0 } };
        assert_eq!(ordinary_threads(&choose_periods(spin, &[]).unwrap()), [thread]);
    }
}
