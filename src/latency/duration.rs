//! Times as numbers of nanoseconds, and as texts that the command line accepts. Pure.

use std::time::Duration;

/// A time in nanoseconds; the largest number for a time that has more.
pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Formats a time exactly, as the command line accepts it.
pub(super) fn exact_duration(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let largest = units.iter().find(|(scale, _)| ns >= *scale && ns.is_multiple_of(*scale));
    let (scale, unit) = largest.copied().unwrap_or((1, "ns"));
    format!("{}{unit}", ns / scale)
}
