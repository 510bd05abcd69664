//! Counts with their nouns, and lists, as texts of documents and reports show them. Pure.

use std::fmt::Display;

/// A count with its noun: `1 task`, `2 tasks`.
#[must_use]
pub fn many<N: Display + PartialEq + From<u8>>(count: N, what: &str) -> String {
    let plural = if count == N::from(1) { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// A list: the items with this text between them.
#[must_use]
pub fn joined(items: impl IntoIterator<Item = impl Display>, between: &str) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(between)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_takes_the_singular() {
        let counts = [0_usize, 1, 2].map(|count| many(count, "task"));
        assert_eq!(counts, ["0 tasks", "1 task", "2 tasks"]);
    }
}
