//! Times in the sentences of documents. Pure.

/// Formats a time exactly, as the command line accepts it: in the largest unit that divides it.
pub fn exact_duration(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
    let fit = units.into_iter().find(|(scale, _)| ns.is_multiple_of(*scale));
    fit.map_or_else(String::new, |(scale, unit)| format!("{}{unit}", ns / scale))
}

/// The same with a space before the unit, for sentences: `10 ms`.
pub fn exact_span(ns: u64) -> String {
    let text = exact_duration(ns);
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    format!("{digits} {}", text.get(digits.len()..).unwrap_or_default())
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
    fn requested_times_are_exact_and_measured_times_are_rounded_up() {
        for (ns, text) in [(5_000, "5us"), (5_001, "5001ns"), (3_000_000_000, "3s"), (0, "0s")] {
            assert_eq!(exact_duration(ns), text);
        }
        assert_eq!([10_000_000, 5_001].map(exact_span), ["10 ms", "5001 ns"]);
        for (ns, text) in [(410_299, "411us"), (9_999, "9999ns"), (41_000_000, "41ms")] {
            assert_eq!(measured(ns), text);
        }
    }
}
