//! Times in the sentences of the evidence. Pure.

/// Formats a limit as a user would write it: in the largest unit that divides it.
pub fn limit(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
    let fit = units.into_iter().find(|(scale, _)| ns.is_multiple_of(*scale));
    fit.map_or_else(String::new, |(scale, unit)| format!("{}{unit}", ns / scale))
}

/// Formats a measured time with at least two digits, rounded up.
pub fn measured(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
    let fit = units.into_iter().find(|(scale, _)| ns / scale >= 10);
    let (scale, unit) = fit.unwrap_or((1, "ns"));
    format!("{}{unit}", ns.div_ceil(scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_formatted_exactly_and_measured_times_are_rounded_up() {
        for (ns, text) in [(5_000, "5us"), (5_001, "5001ns"), (3_000_000_000, "3s"), (0, "0s")] {
            assert_eq!(limit(ns), text);
        }
        for (ns, text) in [(410_299, "411us"), (9_999, "9999ns"), (41_000_000, "41ms")] {
            assert_eq!(measured(ns), text);
        }
    }
}
