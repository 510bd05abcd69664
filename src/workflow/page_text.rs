//! Renders the Markdown of a page for a terminal.

use crate::report::table::{Align, fit, wrap};

/// Renders the text of a page: paragraphs, lists, tables and examples.
pub fn render_body(text: &str, width: usize) -> String {
    let mut parts = Vec::new();
    for (n, part) in text.split("```").enumerate() {
        // Odd parts are fenced examples; their first line is the name of the language.
        if n % 2 == 1 {
            let lines = part.lines().skip(1).map(|line| format!("    {line}"));
            parts.push(lines.map(|line| line.trim_end().to_owned() + "\n").collect());
            continue;
        }
        let part = without_links(part);
        let paragraphs =
            part.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty());
        parts.extend(paragraphs.map(|paragraph| match paragraph.starts_with('|') {
            true => render_table(paragraph, width),
            false => render_paragraph(paragraph, width),
        }));
    }
    parts.join("\n")
}

/// Renders a Markdown table.
fn render_table(text: &str, width: usize) -> String {
    let rows: Vec<Vec<String>> = text
        .lines()
        .filter(|line| !line.starts_with("|--"))
        .map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    fit("  ", &vec![Align::Left; columns], &rows, width)
}

/// The text with the words of each link in place of the link. In code there are no links.
fn without_links(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['`', '[']) {
        let (before, from) = rest.split_at(at);
        shown.push_str(before);
        let (piece, after) = match split_link(from) {
            Some(link) => link,
            None if from.starts_with('`') => {
                let end = from.get(1..).and_then(|code| code.find('`'));
                from.split_at(end.map_or(from.len(), |end| end + 2))
            }
            None => from.split_at(1),
        };
        shown.push_str(piece);
        rest = after;
    }
    shown + rest
}

/// The words of the link at the start of a text, and what follows the link.
fn split_link(text: &str) -> Option<(&str, &str)> {
    let (words, target) = text.strip_prefix('[')?.split_once("](")?;
    let (target, after) = target.split_once(')')?;
    let is_link = !words.contains(['[', ']']) && !target.contains(char::is_whitespace);
    is_link.then_some((words, after))
}

/// Renders a paragraph; a line that begins with a star begins a list item.
fn render_paragraph(text: &str, width: usize) -> String {
    let mut items: Vec<String> = Vec::new();
    for line in text.lines().map(str::trim) {
        match items.last_mut().filter(|_| !line.starts_with("* ")) {
            Some(item) => *item = format!("{item} {line}"),
            None => items.push(line.to_owned()),
        }
    }
    let mut text = String::new();
    for item in &items {
        let indent = if item.starts_with("* ") { "  " } else { "" };
        for (n, line) in wrap(item, width.saturating_sub(indent.len())).into_iter().enumerate() {
            text.push_str(&format!("{}{line}\n", if n == 0 { "" } else { indent }));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_keeps_all_its_columns() {
        let table = "| a | b | c |\n|---|---|---|\n| one | two | three |\n| | x | |\n";
        let text = render_body(table, 80);
        assert_eq!(text, "  a    b    c\n  one  two  three\n       x\n");
    }

    #[test]
    fn links_are_shown_as_their_words() {
        let text = "See [the `tick`\npage](guides/tick.md), not `a[1](b)` and [x] (y).";
        assert_eq!(render_body(text, 80), "See the `tick` page, not `a[1](b)` and [x] (y).\n");
    }

    #[test]
    fn a_list_keeps_its_items() {
        let text = render_body("Some words\nof prose.\n\n* one that is\nlonger\n* two\n", 12);
        assert_eq!(text, "Some words\nof prose.\n\n* one that\n  is longer\n* two\n");
    }
}
