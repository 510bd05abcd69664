//! Times as texts that the command line accepts. Pure.

/// Formats a time exactly, as the command line accepts it.
pub(super) fn exact_duration(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let largest = units.iter().find(|(scale, _)| ns >= *scale && ns.is_multiple_of(*scale));
    let (scale, unit) = largest.copied().unwrap_or((1, "ns"));
    format!("{}{unit}", ns / scale)
}
