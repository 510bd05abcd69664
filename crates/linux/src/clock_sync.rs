//! Times of `CLOCK_MONOTONIC`, which threads measure with, in ticks, which the kernel's trace
//! counts ([`crate::clock::ticks`]): the two are read together now and then, and between two such
//! readings lies a straight line. How far it may be off is said.

use crate::clock::beside;
use std::collections::VecDeque;

/// The counter and `CLOCK_MONOTONIC`, which NTP makes quicker and slower, at the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockSample {
    /// The counter.
    pub ticks: u64,
    /// The clock, in nanoseconds.
    pub monotonic_ns: u64,
    /// How many ticks apart the two may have been read.
    pub error_ticks: u64,
}

impl ClockSample {
    /// Now.
    #[must_use]
    pub fn now() -> ClockSample {
        let (ticks, monotonic_ns, error_ticks) = beside(libc::CLOCK_MONOTONIC);
        ClockSample { ticks, monotonic_ns, error_ticks }
    }
}

/// The last [`ClockSample`]s, made while time goes by: times of `CLOCK_MONOTONIC` in ticks.
#[derive(Debug, Clone, Default)]
pub struct ClockSync {
    ties: VecDeque<ClockSample>,
}

/// How many ties are kept.
const TIES_MAX: usize = 256;

impl ClockSync {
    /// One more; they come in the order of time.
    pub fn add(&mut self, tie: ClockSample) {
        if self.ties.len() >= TIES_MAX {
            self.ties.pop_front();
        }
        self.ties.push_back(tie);
    }

    /// When that was in ticks, and how many ticks that may be wrong: by the two ties around it, or
    /// those nearest to it. `None` with fewer than two, and when a clock went backwards.
    #[must_use]
    pub fn at(&self, monotonic_ns: u64) -> Option<(u64, u64)> {
        let after = self.ties.iter().position(|tie| tie.monotonic_ns >= monotonic_ns);
        let last = self.ties.len().checked_sub(1)?;
        let right = after.unwrap_or(last).max(1);
        let (a, b) = (self.ties.get(right - 1)?, self.ties.get(right)?);
        let rate = rate(a, b)?;
        // Differences of whole numbers: a float does not hold every tick of a hundred days.
        let from =
            |tie: &ClockSample| monotonic_ns.wrapping_sub(tie.monotonic_ns).cast_signed() as f64;
        let (from_a, from_b) = (from(a), from(b));
        // Outside of both, what is wrong with each of them is wrong with the line through them.
        let beyond = from_a.abs().min(from_b.abs());
        let outside = if from_a < 0.0 || from_b > 0.0 { beyond } else { 0.0 };
        let length = b.monotonic_ns.saturating_sub(a.monotonic_ns).max(1) as f64;
        let read = (a.error_ticks + b.error_ticks) as f64;
        // The rate may have changed on the way, by as much as it did since the ties before.
        let before = right.checked_sub(2).and_then(|at| self::rate(self.ties.get(at)?, a));
        let turned = before.map_or(0.0, |before| (rate - before).abs() * beyond);
        let error = read * (1.0 + outside / length) + turned;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        let (since, error) = ((from_a * rate).round() as i64, error.ceil() as u64);
        Some((a.ticks.saturating_add_signed(since), error))
    }
}

/// Ticks in a nanosecond between two ties.
fn rate(a: &ClockSample, b: &ClockSample) -> Option<f64> {
    let ticks = b.ticks.checked_sub(a.ticks).filter(|ticks| *ticks > 0)?;
    let ns = b.monotonic_ns.checked_sub(a.monotonic_ns).filter(|ns| *ns > 0)?;
    Some(ticks as f64 / ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_found_between_its_ties_and_its_error_grows_outside_of_them() {
        let tie = |ticks, monotonic_ns| ClockSample { ticks, monotonic_ns, error_ticks: 5 };
        let mut ties = ClockSync::default();
        ties.add(tie(1_000_000, 500_000));
        assert_eq!(ties.at(500_000), None, "one says nothing of the rate");
        ties.add(tie(1_200_000, 600_000));
        assert_eq!(ties.at(550_000), Some((1_100_000, 10)));
        assert_eq!(ties.at(700_000), Some((1_400_000, 20)), "as far again");
        assert_eq!(ties.at(400_000), Some((800_000, 20)));
        // The clock was made quicker: what lies between may follow the one rate or the other.
        ties.add(tie(1_390_000, 700_000));
        assert_eq!(ties.at(600_000), Some((1_200_000, 10)));
        let (ticks, error) = ties.at(650_000).unwrap();
        assert_eq!((ticks, error / 100), (1_295_000, 50));
        (0..2 * TIES_MAX as u64).for_each(|n| ties.add(tie(1_390_000 + n, 700_001 + n)));
        assert_eq!(ties.ties.len(), TIES_MAX);
        ties.add(tie(0, 900_000));
        assert_eq!(ties.at(899_999), None, "the counter went backwards");
    }
}
