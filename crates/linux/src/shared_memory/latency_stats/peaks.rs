//! The longest latency of each moment, in memory that the measuring thread writes and a reader
//! takes from. The times of the events define the moments, so a late reader loses nothing.

use std::sync::atomic::{AtomicU64, Ordering};

/// The length of a moment, in nanoseconds.
pub const MOMENT_NS: u64 = 100_000_000;
/// How many moments are stored for a late reader: 12.8 s.
const PEAKS: usize = 128;
/// Bits of a peak for its latency, at most 18 minutes; the other bits number its moment, from 1.
const LATE_BITS: u32 = 40;
/// The longest latency that fits into these bits.
const LATE_MAX: u64 = (1 << LATE_BITS) - 1;

/// The longest latency of one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatencyPeak {
    /// The start of the moment, in nanoseconds since recording began.
    pub at_ns: u64,
    /// The latency, in nanoseconds; at least 1, so that 0 can stand for no event.
    pub late_ns: u64,
}

/// The peak of each moment. A later moment overwrites the earlier one in its slot.
#[derive(Debug)]
#[repr(C)]
pub(super) struct LatencyPeaks([AtomicU64; PEAKS]);

impl LatencyPeaks {
    /// Records an event that was due this long after recording began; returns the number of its
    /// moment. `moment` is that of the previous event, so the loop divides only once a moment.
    #[inline(always)]
    pub(super) fn record(&self, moment: u64, since_ns: u64, late_ns: u64) -> u64 {
        let is_same = since_ns.wrapping_sub(moment * MOMENT_NS) < MOMENT_NS;
        let moment = if is_same { moment } else { since_ns / MOMENT_NS };
        let packed = ((moment + 1) << LATE_BITS) | late_ns.clamp(1, LATE_MAX);
        let slot = usize::try_from(moment % PEAKS as u64).unwrap_or(0);
        if let Some(peak) = self.0.get(slot)
            && packed > peak.load(Ordering::Relaxed)
        {
            peak.fetch_max(packed, Ordering::Relaxed);
        }
        moment
    }

    /// Removes and returns the peaks recorded since the last call, in no order.
    pub(super) fn take(&self) -> impl Iterator<Item = LatencyPeak> {
        let taken = self.0.iter().map(|peak| peak.swap(0, Ordering::Relaxed));
        taken.filter(|packed| *packed > 0).map(|packed| LatencyPeak {
            at_ns: (packed >> LATE_BITS).saturating_sub(1).saturating_mul(MOMENT_NS),
            late_ns: packed & LATE_MAX,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_reader_finds_each_peak_at_the_time_of_its_event() {
        let peaks = LatencyPeaks(std::array::from_fn(|_| AtomicU64::new(0)));
        let mut moment = 0;
        for (at_ms, late_ns) in [(10, 5), (20, 9), (30, 7), (350, 0), (360, 0), (1_000, 3)] {
            moment = peaks.record(moment, at_ms * 1_000_000, late_ns);
        }
        let peak = |at_ms: u64, late_ns| LatencyPeak { at_ns: at_ms * 1_000_000, late_ns };
        let taken: Vec<LatencyPeak> = peaks.take().collect();
        assert_eq!(
            taken,
            [peak(0, 9), peak(300, 1), peak(1_000, 3)],
            "moments without events are left out"
        );
        assert_eq!(peaks.take().count(), 0, "the peaks were already taken");
    }
}
