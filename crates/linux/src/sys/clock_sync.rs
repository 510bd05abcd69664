//! Conversion of `CLOCK_MONOTONIC`, with which threads measure, to ticks, which the kernel's trace
//! counts ([`crate::sys::clock::ticks`]). Both clocks are sampled together now and then, and times
//! between two samples are interpolated linearly. Each result has an error bound.

use crate::sys::clock::{ClockTicks, read_with_ticks};
use rustix::time::ClockId;
use std::collections::VecDeque;

/// The counter and `CLOCK_MONOTONIC`, which NTP speeds up and slows down, at the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockSample {
    /// The counter.
    pub ticks: ClockTicks,
    /// The clock, in nanoseconds.
    pub monotonic_ns: u64,
    /// How far apart the two may have been read.
    pub error_ticks: ClockTicks,
}

impl ClockSample {
    /// Samples both clocks now.
    #[must_use]
    pub fn now() -> ClockSample {
        let (ticks, monotonic_ns, error_ticks) = read_with_ticks(ClockId::Monotonic);
        ClockSample { ticks, monotonic_ns, error_ticks }
    }

    /// Nanoseconds from this sample to a time; negative if the time is earlier.
    fn distance_ns(&self, monotonic_ns: u64) -> f64 {
        monotonic_ns.wrapping_sub(self.monotonic_ns).cast_signed() as f64
    }
}

/// The last [`ClockSample`]s, which convert times of `CLOCK_MONOTONIC` to ticks.
#[derive(Debug, Clone, Default)]
pub struct ClockSync {
    samples: VecDeque<ClockSample>,
}

/// The maximum number of stored samples.
const SAMPLES_MAX: usize = 256;

impl ClockSync {
    /// Adds a sample; samples must be in the order of time.
    pub fn add(&mut self, sample: ClockSample) {
        if self.samples.len() >= SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// Converts a time to ticks, with an error bound. Uses the two samples around the
    /// time, or those nearest to it. `None` with fewer than two samples, or if a clock went
    /// backwards.
    #[must_use]
    pub fn ticks_at(&self, monotonic_ns: u64) -> Option<(ClockTicks, ClockTicks)> {
        let after = self.samples.iter().position(|sample| sample.monotonic_ns >= monotonic_ns);
        let last = self.samples.len().checked_sub(1)?;
        let right = after.unwrap_or(last).max(1);
        let (a, b) = (self.samples.get(right - 1)?, self.samples.get(right)?);
        let rate = rate(a, b)?;
        // Differences of integers, because a float cannot represent every tick of a hundred days.
        let (from_a, from_b) = (a.distance_ns(monotonic_ns), b.distance_ns(monotonic_ns));
        // Outside of the two samples, the error of each of them is extrapolated too.
        let beyond = from_a.abs().min(from_b.abs());
        let outside = if from_a < 0.0 || from_b > 0.0 { beyond } else { 0.0 };
        let length = b.monotonic_ns.saturating_sub(a.monotonic_ns).max(1) as f64;
        let sample_error = (a.error_ticks.0 + b.error_ticks.0) as f64;
        // The rate may have changed in between, by as much as since the sample before.
        let earlier = right.checked_sub(2).and_then(|at| self::rate(self.samples.get(at)?, a));
        let drift = earlier.map_or(0.0, |earlier| (rate - earlier).abs() * beyond);
        let error = sample_error * (1.0 + outside / length) + drift;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        let (since, error) = ((from_a * rate).round() as i64, error.ceil() as u64);
        Some((ClockTicks(a.ticks.0.saturating_add_signed(since)), ClockTicks(error)))
    }
}

/// Ticks per nanosecond between two samples.
fn rate(a: &ClockSample, b: &ClockSample) -> Option<f64> {
    let ticks = b.ticks.0.checked_sub(a.ticks.0).filter(|ticks| *ticks > 0)?;
    let ns = b.monotonic_ns.checked_sub(a.monotonic_ns).filter(|ns| *ns > 0)?;
    Some(ticks as f64 / ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_interpolated_and_its_error_grows_outside_of_the_samples() {
        let sample = |ticks, monotonic_ns| {
            let ticks = ClockTicks(ticks);
            ClockSample { ticks, monotonic_ns, error_ticks: ClockTicks(5) }
        };
        let at = |ticks, error| Some((ClockTicks(ticks), ClockTicks(error)));
        let mut sync = ClockSync::default();
        sync.add(sample(1_000_000, 500_000));
        assert_eq!(sync.ticks_at(500_000), None, "one sample gives no rate");
        sync.add(sample(1_200_000, 600_000));
        assert_eq!(sync.ticks_at(550_000), at(1_100_000, 10));
        assert_eq!(sync.ticks_at(700_000), at(1_400_000, 20), "twice the error one interval after");
        assert_eq!(sync.ticks_at(400_000), at(800_000, 20));
        // The clock was sped up: a time in between may follow the one rate or the other.
        sync.add(sample(1_390_000, 700_000));
        assert_eq!(sync.ticks_at(600_000), at(1_200_000, 10));
        let (ticks, error) = sync.ticks_at(650_000).unwrap();
        assert_eq!((ticks.0, error.0 / 100), (1_295_000, 50));
        (0..2 * SAMPLES_MAX as u64).for_each(|n| sync.add(sample(1_390_000 + n, 700_001 + n)));
        assert_eq!(sync.samples.len(), SAMPLES_MAX);
        sync.add(sample(0, 900_000));
        assert_eq!(sync.ticks_at(899_999), None, "the counter went backwards");
    }
}
