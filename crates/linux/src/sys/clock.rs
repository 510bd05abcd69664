//! The time stamp counter and its rate. It relates the kernel's trace (`trace_clock` x86-tsc), a
//! sampler in user space and nanoseconds to each other.
//!
//! On processors other than x86-64, a tick is a nanosecond of `CLOCK_MONOTONIC`, which the trace
//! clock `mono` counts.

use rustix::io::retry_on_intr;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};
use serde::{Deserialize, Serialize};
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The `trace_clock` with the same ticks as [`ticks`].
pub const TRACE_CLOCK: &str = if cfg!(target_arch = "x86_64") { "x86-tsc" } else { "mono" };

/// How often a reading is tried; the least disturbed one is used.
const TRIES: usize = 32;

/// A value of the time stamp counter or of the trace's clock, or a difference of two values. Only
/// [`TickScale`] converts it to nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClockTicks(pub u64);

impl ClockTicks {
    /// The ticks from an earlier value to this one; 0 if the counter went backwards.
    #[inline]
    #[must_use]
    pub fn saturating_sub(self, earlier: ClockTicks) -> ClockTicks {
        ClockTicks(self.0.saturating_sub(earlier.0))
    }

    /// The value that comes this many ticks later.
    #[inline]
    #[must_use]
    pub fn saturating_add(self, ticks: ClockTicks) -> ClockTicks {
        ClockTicks(self.0.saturating_add(ticks.0))
    }
}

/// Reads the counter.
#[inline]
#[must_use]
pub fn ticks() -> ClockTicks {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 processor has both instructions; neither accesses memory. The fence
        // prevents the counter from being read ahead of earlier instructions, as in the kernel's
        // rdtsc_ordered() (arch/x86/include/asm/tsc.h).
        unsafe {
            core::arch::x86_64::_mm_lfence();
            ClockTicks(core::arch::x86_64::_rdtsc())
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        ClockTicks(monotonic_ns())
    }
}

/// `CLOCK_MONOTONIC` in nanoseconds, which the trace clock `mono` counts.
#[must_use]
pub fn monotonic_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// Sleeps until a time of `CLOCK_MONOTONIC`, in nanoseconds; returns at once if it has passed.
///
/// # Errors
/// The kernel's error.
#[inline]
pub fn sleep_until(ns: u64) -> io::Result<()> {
    let time = timespec(ns)?;
    Ok(retry_on_intr(|| clock_nanosleep_absolute(ClockId::Monotonic, &time))?)
}

/// Nanoseconds as seconds and nanoseconds.
#[inline]
pub(crate) fn timespec(ns: u64) -> io::Result<Timespec> {
    let tv_sec = (ns / 1_000_000_000).try_into().map_err(io::Error::other)?;
    let tv_nsec = (ns % 1_000_000_000).try_into().map_err(io::Error::other)?;
    Ok(Timespec { tv_sec, tv_nsec })
}

/// Reads a clock in nanoseconds. These clocks cannot fail (clock_gettime(2)). They are read by the
/// vDSO, which the first call in a process looks up.
#[inline]
pub(crate) fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// A time in whole nanoseconds; the largest number for a time that has more.
#[must_use]
pub fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The seconds of the wall clock since 1970; `None` where it is set to before that.
#[must_use]
pub fn epoch_seconds() -> Option<u64> {
    SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|time| time.as_secs())
}

/// How far the wall clock is ahead of `CLOCK_MONOTONIC`, in nanoseconds. It jumps when the clock is
/// set.
#[must_use]
pub fn realtime_offset_ns() -> i64 {
    let (wall, since_boot) = (nanoseconds(ClockId::Realtime), monotonic_ns());
    i64::try_from(wall).unwrap_or(i64::MAX).saturating_sub_unsigned(since_boot)
}

/// Reads the counter and a clock in nanoseconds at the same moment. Returns both, and how many
/// ticks apart they may have been read. Of several tries, the least disturbed one is used.
pub(crate) fn read_with_ticks(clock: ClockId) -> (ClockTicks, u64, ClockTicks) {
    let first = try_read_with_ticks(clock);
    (1..TRIES)
        .map(|_| try_read_with_ticks(clock))
        .fold(first, |best, next| if next.2 < best.2 { next } else { best })
}

fn try_read_with_ticks(clock: ClockId) -> (ClockTicks, u64, ClockTicks) {
    let before = ticks();
    let ns = nanoseconds(clock);
    let apart = ticks().saturating_sub(before);
    (ClockTicks(before.0 + apart.0 / 2), ns, ClockTicks(apart.0 / 2 + 1))
}

/// The counter and `CLOCK_MONOTONIC_RAW` (which is never adjusted) at the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    /// The counter.
    pub ticks: ClockTicks,
    /// The clock, in nanoseconds.
    pub raw_ns: u64,
    /// How far apart the two may have been read.
    pub error_ticks: ClockTicks,
}

impl ClockReading {
    /// Reads both clocks now.
    #[must_use]
    pub fn now() -> ClockReading {
        let (ticks, raw_ns, error_ticks) = read_with_ticks(ClockId::MonotonicRaw);
        ClockReading { ticks, raw_ns, error_ticks }
    }
}

/// The duration of a tick.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TickScale {
    /// Nanoseconds per tick.
    pub ns_per_tick: f64,
    /// How far `ns_per_tick` may be off, in parts per million.
    pub error_ppm: f64,
}

impl TickScale {
    /// The scale from two readings; it is more exact if they are further apart. `None` if no time
    /// has passed between them, or if one of the clocks went backwards.
    #[must_use]
    pub fn between(first: ClockReading, last: ClockReading) -> Option<TickScale> {
        let ticks = last.ticks.0.checked_sub(first.ticks.0).filter(|ticks| *ticks > 0)?;
        let ns = last.raw_ns.checked_sub(first.raw_ns).filter(|ns| *ns > 0)?;
        // One more nanosecond for the resolution of the clock.
        let error_ticks = first.error_ticks.0 + last.error_ticks.0;
        let error_ppm = 1e6 * (error_ticks as f64 / ticks as f64 + 1.0 / ns as f64);
        Some(TickScale { ns_per_tick: ns as f64 / ticks as f64, error_ppm })
    }

    /// Converts ticks of the counter to nanoseconds.
    #[must_use]
    pub fn duration_ns(&self, ticks: ClockTicks) -> u64 {
        self.ns(ticks.0)
    }

    /// Converts ticks of the trace's or the sampler's clock to nanoseconds.
    #[must_use]
    pub fn ns(&self, ticks: u64) -> u64 {
        // A float converted to an integer saturates, and this one is never negative.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        let ns = (ticks as f64 * self.ns_per_tick).round() as u64;
        ns
    }

    /// Converts nanoseconds to ticks of the counter.
    #[must_use]
    pub fn ticks(&self, ns: u64) -> ClockTicks {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        let ticks = (ns as f64 / self.ns_per_tick).round() as u64;
        ClockTicks(ticks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_states_its_error_and_refuses_clocks_that_go_backwards() {
        let at = |ticks, raw_ns| {
            let ticks = ClockTicks(ticks);
            ClockReading { ticks, raw_ns, error_ticks: ClockTicks(10) }
        };
        let scale = TickScale::between(at(1_000, 0), at(2_001_000, 1_000_000)).unwrap();
        assert_eq!(scale.ns_per_tick, 0.5);
        assert!((scale.error_ppm - 11.0).abs() < 1e-9, "{scale:?}");
        let ticks = ClockTicks(3_000);
        assert_eq!((scale.duration_ns(ticks), scale.ticks(1_500)), (1_500, ticks));
        assert_eq!(TickScale::between(at(5, 5), at(5, 9)), None);
        assert_eq!(TickScale::between(at(9, 5), at(5, 9)), None);
        assert_eq!(TickScale::between(at(5, 9), at(9, 5)), None);
    }

    #[test]
    fn two_readings_of_this_machine_make_a_scale() {
        let first = ClockReading::now();
        while ClockReading::now().raw_ns < first.raw_ns + 2_000_000 {}
        let scale = TickScale::between(first, ClockReading::now()).unwrap();
        assert!(scale.ns_per_tick > 0.05 && scale.ns_per_tick < 1000.0, "{scale:?}");
    }
}
