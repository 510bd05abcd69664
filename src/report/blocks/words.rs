//! Numbers and times as short text, for the axes of charts.

/// A whole number as a float, for figures that are shown with three digits.
#[must_use]
pub fn float(n: u64) -> f64 {
    n as f64
}

/// A number with at most three digits and a unit of thousands: `0.25`, `12`, `34 k`, `2 M`.
#[must_use]
pub fn plain(n: f64) -> String {
    match n.abs() {
        size if size >= 1e9 => format!("{} G", digits(n / 1e9)),
        size if size >= 1e6 => format!("{} M", digits(n / 1e6)),
        size if size >= 1e4 => format!("{} k", digits(n / 1e3)),
        _ => digits(n),
    }
}

/// A time in nanoseconds without trailing zeros: `10 µs`, `1.5 ms`, `2 h`.
#[must_use]
pub fn time(ns: f64) -> String {
    let units = [(3_600e9, "h"), (60e9, "min"), (1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")];
    // Minutes and hours only from two of them on: 90 s is clearer than 1.5 min.
    let (size, unit) = units
        .into_iter()
        .find(|(size, _)| ns.abs() >= if *size >= 60e9 { 2.0 * size } else { *size })
        .unwrap_or((1.0, "ns"));
    if ns == 0.0 { "0".to_owned() } else { format!("{} {unit}", digits(ns / size)) }
}

fn digits(n: f64) -> String {
    let text = match n.abs() {
        size if size >= 100.0 => format!("{n:.0}"),
        size if size >= 10.0 => format!("{n:.1}"),
        size if size >= 1.0 => format!("{n:.2}"),
        _ => format!("{n:.3}"),
    };
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// A round step that divides a range into about eight parts.
#[must_use]
pub fn round_step(range: f64, is_time: bool) -> f64 {
    let rough = range / 8.0;
    if is_time && rough > 1e9 {
        let steps = [1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0];
        let hours = [3600.0, 7200.0, 10_800.0, 14_400.0, 21_600.0, 43_200.0, 86_400.0];
        let fits = steps.into_iter().chain(hours).map(|s| s * 1e9).find(|step| *step >= rough);
        return fits.unwrap_or(rough);
    }
    let power = 10.0_f64.powf(rough.log10().floor());
    let fits = [1.0, 2.0, 5.0, 10.0].into_iter().map(|n| n * power).find(|step| *step >= rough);
    fits.unwrap_or(rough)
}

/// A count in groups of three digits: `1 234 567`.
#[must_use]
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            // A narrow no-break space.
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// `39× shorter`, `1.2× longer`, `about the same`.
#[must_use]
pub fn ratio(before: u64, after: u64) -> Option<String> {
    if before == 0 || after == 0 {
        return None;
    }
    let (before, after) = (float(before), float(after));
    Some(match after / before {
        ratio if ratio < 0.95 => format!("{}× shorter", times(1.0 / ratio)),
        ratio if ratio > 1.05 => format!("{}× longer", times(ratio)),
        _ => "about the same".to_owned(),
    })
}

fn times(n: f64) -> String {
    if n < 10.0 { format!("{n:.1}") } else { format!("{n:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_no_trailing_zeros() {
        let numbers = [0.25, 12.0, 999.0, 3_400.0, 34_000.0, 2e6].map(plain);
        assert_eq!(numbers, ["0.25", "12", "999", "3400", "34 k", "2 M"]);
        let times = [0.0, 812.0, 1e3, 1.5e6, 30e9, 90e9, 120e9, 7_200e9].map(time);
        assert_eq!(times, ["0", "812 ns", "1 µs", "1.5 ms", "30 s", "90 s", "2 min", "2 h"]);
        assert_eq!(grouped(1_234_567).replace('\u{202f}', " "), "1 234 567");
        assert_eq!(round_step(86_400e9, true), 10_800e9);
        assert_eq!(round_step(10e9, true), 2e9);
        assert_eq!(round_step(80.0, false), 10.0);
    }

    #[test]
    fn a_ratio_is_at_least_one_and_names_its_direction() {
        assert_eq!(ratio(1_200, 31).unwrap(), "39× shorter");
        assert_eq!(ratio(100, 120).unwrap(), "1.2× longer");
        assert_eq!(ratio(100, 102).unwrap(), "about the same");
        assert_eq!(ratio(0, 1), None);
    }
}
