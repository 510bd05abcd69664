//! Plain tables for terminals: columns as wide as their widest cell, numbers to the right. Pure.

/// Where the text of a column stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Lays out rows; trailing blanks are left out. Every line starts with `indent`.
#[must_use]
pub fn lay_out(indent: &str, columns: &[Align], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns.len()).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = indent.to_owned();
        for ((cell, align), width) in row.iter().zip(columns).zip(&widths) {
            match align {
                Align::Left => line.push_str(&format!("{cell:<width$}  ")),
                Align::Right => line.push_str(&format!("{cell:>width$}  ")),
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A time span with the unit that fits: `812 ns`, `4.1 µs`, `3.92 ms`, `29.88 s`.
#[must_use]
pub fn span(ns: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let ns = ns as f64;
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.1} µs", ns / 1e3),
        ns if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

/// So many per second over a span; `-` for none.
#[must_use]
pub fn rate(count: u64, span_ns: u64) -> String {
    if count == 0 {
        return "-".to_owned();
    }
    if span_ns == 0 {
        return format!("{count} in no time");
    }
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let rate = count as f64 * 1e9 / span_ns as f64;
    match rate {
        rate if rate < 10.0 => format!("{rate:.2}"),
        rate if rate < 100.0 => format!("{rate:.1}"),
        rate => format!("{rate:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_to_the_right_and_no_line_ends_in_blanks() {
        let rows = [
            vec!["tick".to_owned(), "250".to_owned(), String::new()],
            vec!["irq".to_owned(), "1".to_owned(), "x".to_owned()],
        ];
        let text = lay_out("  ", &[Align::Left, Align::Right, Align::Left], &rows);
        assert_eq!(text, "  tick  250\n  irq     1  x\n");
    }

    #[test]
    fn units_fit_the_size() {
        assert_eq!(span(812), "812 ns");
        assert_eq!(span(4_100), "4.1 µs");
        assert_eq!(span(29_877_670_000), "29.88 s");
        assert_eq!(rate(0, 1), "-");
        assert_eq!(rate(1, 4_000_000_000), "0.25");
        assert_eq!(rate(1250, 5_000_000_000), "250");
    }
}
