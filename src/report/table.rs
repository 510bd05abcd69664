//! Plain tables for terminals: columns as wide as their widest cell, numbers right-aligned. Pure.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// For words.
    Left,
    /// For numbers.
    Right,
}

/// Columns of words stay at least this wide where the table then fits.
const NARROW: usize = 14;
/// Columns of words are never narrower than this.
const NARROWEST: usize = 6;

/// Lays out rows as a table without trailing blanks. Every line starts with `indent`. No line is
/// wider than `width` where that is possible: it narrows the widest columns of words and wraps
/// their cells.
#[must_use]
pub fn fit(indent: &str, columns: &[Align], rows: &[Vec<String>], width: usize) -> String {
    fit_rows(indent, columns, rows, width).concat()
}

/// The lines of each row of a table, as [`fit`] lays them out.
#[must_use]
pub fn fit_rows(
    indent: &str,
    columns: &[Align],
    rows: &[Vec<String>],
    width: usize,
) -> Vec<String> {
    let widths = column_widths(indent, columns, rows, width);
    let rows = rows.iter().map(|row| {
        let cells: Vec<Vec<String>> =
            row.iter().zip(&widths).map(|(cell, width)| wrap(cell, *width)).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(1).max(1);
        (0..height).map(|n| line_of_cells(indent, columns, &widths, &cells, n)).collect()
    });
    rows.collect()
}

/// The widths of the columns: those of their widest cells, narrowed until the table fits.
fn column_widths(
    indent: &str,
    columns: &[Align],
    rows: &[Vec<String>],
    width: usize,
) -> Vec<usize> {
    let mut widths = vec![0; columns.len()];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(columns_of(cell));
        }
    }
    let room = width.saturating_sub(columns_of(indent) + 2 * columns.len().saturating_sub(1));
    for narrowest in [NARROW, NARROWEST] {
        while widths.iter().sum::<usize>() > room {
            let words = widths.iter_mut().zip(columns).filter(|(_, align)| **align == Align::Left);
            match words.map(|(width, _)| width).filter(|width| **width > narrowest).max() {
                Some(width) => *width -= 1,
                None => break,
            }
        }
    }
    widths
}

/// The n-th line of a row of wrapped cells.
fn line_of_cells(
    indent: &str,
    columns: &[Align],
    widths: &[usize],
    cells: &[Vec<String>],
    n: usize,
) -> String {
    let mut line = indent.to_owned();
    for ((cell, align), width) in cells.iter().zip(columns).zip(widths) {
        let cell = cell.get(n).map_or("", String::as_str);
        match align {
            Align::Left => line.push_str(&pad(cell, *width)),
            Align::Right => line.push_str(&pad_left(cell, *width)),
        }
        line.push_str("  ");
    }
    format!("{}\n", line.trim_end())
}

/// The text with blanks after it up to this width.
#[must_use]
pub fn pad(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(columns_of(text))))
}

/// The text with blanks before it up to this width.
#[must_use]
pub fn pad_left(text: &str, width: usize) -> String {
    format!("{}{text}", " ".repeat(width.saturating_sub(columns_of(text))))
}

/// Truncates a text without escape sequences to this width, with `…` at the end.
#[must_use]
pub fn truncate(text: &str, width: usize) -> String {
    if columns_of(text) <= width {
        return text.to_owned();
    }
    let mut truncated = String::new();
    let mut left = width.saturating_sub(1);
    for c in text.chars() {
        let columns = c.width().unwrap_or(0);
        if columns > left {
            break;
        }
        left -= columns;
        truncated.push(c);
    }
    if width > 0 {
        truncated.push('…');
    }
    truncated
}

/// The columns that a text takes on a terminal: two for a wide character, none for a combining
/// mark or for an escape sequence that sets a colour.
#[must_use]
pub fn columns_of(text: &str) -> usize {
    let mut pieces = text.split('\x1b');
    let first = pieces.next().map_or(0, UnicodeWidthStr::width);
    pieces.fold(first, |sum, piece| {
        let shown = piece.split_once('m').map_or("", |(_, rest)| rest);
        sum + shown.width()
    })
}

/// Breaks a text between words into lines no wider than `width`. A list that is wider than a line
/// also breaks after its commas; any other word that is wider gets a separate line.
#[must_use]
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let pieces: Vec<&str> = match columns_of(word) > width {
            true => word.split_inclusive(',').collect(),
            false => vec![word],
        };
        for (nth, piece) in pieces.into_iter().enumerate() {
            let between = if nth == 0 { " " } else { "" };
            match lines.last_mut() {
                Some(line) if columns_of(line) + between.len() + columns_of(piece) <= width => {
                    line.push_str(between);
                    line.push_str(piece);
                }
                _ => lines.push(piece.to_owned()),
            }
        }
    }
    lines
}

/// Breaks a shell command into lines no wider than `width`, with a backslash at the end of each,
/// so that it can be pasted into a shell. It never breaks inside quotes.
#[must_use]
pub fn fold_shell(command: &str, indent: usize, width: usize) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut quoted = false;
    for part in command.split(' ') {
        match words.last_mut().filter(|_| quoted) {
            Some(word) => *word = format!("{word} {part}"),
            None => words.push(part.to_owned()),
        }
        quoted ^= part.matches('\'').count() % 2 == 1;
    }
    let room = width.saturating_sub(indent + 6);
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if columns_of(line) + 1 + columns_of(&word) <= room => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    let (first, further) = (" ".repeat(indent), " ".repeat(indent + 4));
    let text = lines.join(&format!(" \\\n{further}"));
    format!("{first}{text}\n")
}

/// Wraps the lines of a text that are wider than `width`. Continuation lines are indented further.
#[must_use]
pub fn fold(text: &str, width: usize) -> String {
    let mut folded = String::new();
    for line in text.lines() {
        if columns_of(line) <= width {
            folded.push_str(line);
            folded.push('\n');
            continue;
        }
        let indent = line.len() - line.trim_start_matches(' ').len();
        let lines =
            wrap(line.trim_start_matches(' '), width.saturating_sub(indent + 4).max(NARROW));
        for (n, part) in lines.iter().enumerate() {
            let indent = if n == 0 { indent } else { indent + 4 };
            folded.push_str(&format!("{:indent$}{part}\n", ""));
        }
    }
    folded
}

/// A time span in the unit that fits: `812 ns`, `4.1 µs`, `3.92 ms`, `29.88 s`.
#[must_use]
pub fn span(ns: u64) -> String {
    let ns = ns as f64;
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.1} µs", ns / 1e3),
        ns if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

/// A time span; `-` where there is none.
pub(super) fn span_or_dash(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), span)
}

/// The rate per second of a count over a span; `-` for a count of 0.
#[must_use]
pub fn rate(count: u64, span_ns: u64) -> String {
    if count == 0 {
        return "-".to_owned();
    }
    if span_ns == 0 {
        return format!("{count} in 0 s");
    }
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
    fn numbers_are_right_aligned_and_no_line_ends_in_blanks() {
        let rows = [
            vec!["tick".to_owned(), "250".to_owned(), String::new()],
            vec!["irq".to_owned(), "1".to_owned(), "x".to_owned()],
        ];
        let text = fit("  ", &[Align::Left, Align::Right, Align::Left], &rows, 60);
        assert_eq!(text, "  tick  250\n  irq     1  x\n");
    }

    #[test]
    fn a_table_that_is_too_wide_wraps_its_columns_of_words() {
        let rows = [
            vec!["cause".to_owned(), "culprit".to_owned(), "count".to_owned()],
            vec!["tick".to_owned(), "tick_nohz_handler, kept for another".to_owned(), "7".into()],
        ];
        let columns = [Align::Left, Align::Left, Align::Right];
        assert_eq!(fit("  ", &columns, &rows, 60), fit("  ", &columns, &rows, usize::MAX));
        let narrow = "  cause  culprit              count\n  tick   tick_nohz_handler,       7\n         \
                      kept for another\n";
        assert_eq!(fit("  ", &columns, &rows, 35), narrow);
        assert!(
            fit("  ", &columns, &rows, 1).contains("tick_nohz_handler"),
            "no word is truncated"
        );
    }

    #[test]
    fn a_long_line_is_wrapped_and_colours_take_no_columns() {
        let text = "short\n  some words that are too long\n\x1b[1mCPU\x1b[0m 3 holds\n";
        let folded =
            "short\n  some words\n      that are too\n      long\n\x1b[1mCPU\x1b[0m 3 holds\n";
        assert_eq!(fold(text, 18), folded);
        assert_eq!(fold(text, 80), text);
    }

    #[test]
    fn wide_characters_and_combining_marks_keep_columns_aligned() {
        let row = |name: &str| vec![name.to_owned(), "1".to_owned()];
        let rows = [row("\u{65e5}\u{672c}"), row("abcd"), row("e\u{301}"), row("\x1b[1mab\x1b[0m")];
        let text = fit("", &[Align::Left, Align::Left], &rows, 60);
        assert_eq!(text, "\u{65e5}\u{672c}  1\nabcd  1\ne\u{301}     1\n\x1b[1mab\x1b[0m    1\n");
        assert_eq!(wrap("\u{65e5}\u{672c} abc", 7), ["\u{65e5}\u{672c}", "abc"]);
    }

    #[test]
    fn a_long_list_breaks_after_commas_and_a_long_command_stays_valid_shell() {
        assert_eq!(wrap("on 0-26,28-30,32 house", 9), ["on 0-26,", "28-30,32", "house"]);
        let folded = fold_shell("echo 'a b  c' d > /sys/x", 2, 24);
        assert_eq!(folded, "  echo 'a b  c' d \\\n      > /sys/x\n");
        assert_eq!(fold_shell("echo 1 > /sys/x", 2, 80), "  echo 1 > /sys/x\n");
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
