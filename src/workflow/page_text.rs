//! Reads the Markdown of a page into its parts, and renders them for a terminal.

use crate::documents::count_text::joined;
use crate::report::table::{Align, fit, wrap};

/// A part of a page.
#[derive(Debug)]
pub enum PagePart {
    /// An example: its lines.
    Example(String),
    /// A table: its rows, and the head is the first.
    Table(Vec<Vec<String>>),
    /// A paragraph or a list.
    Paragraph(String),
}

/// The parts of a page. Each link is replaced by its words.
pub fn page_parts(text: &str) -> Vec<PagePart> {
    let mut parts = Vec::new();
    for (n, part) in text.split("```").enumerate() {
        // Odd parts are fenced examples; their first line is the name of the language.
        if n % 2 == 1 {
            let (_, example) = part.split_once('\n').unwrap_or_default();
            parts.push(PagePart::Example(example.to_owned()));
            continue;
        }
        let part = without_links(part);
        let paragraphs =
            part.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty());
        parts.extend(paragraphs.map(|paragraph| match paragraph.starts_with('|') {
            true => PagePart::Table(table_rows(paragraph)),
            false => PagePart::Paragraph(paragraph.to_owned()),
        }));
    }
    parts
}

/// The rows of a Markdown table.
fn table_rows(text: &str) -> Vec<Vec<String>> {
    let rows = text.lines().filter(|line| !line.starts_with("|--"));
    let cells = |row: &str| row.trim_matches('|').split('|').map(|c| c.trim().to_owned()).collect();
    rows.map(cells).collect()
}

/// Renders the text of a page: paragraphs, lists, tables and examples.
pub fn render_body(text: &str, width: usize) -> String {
    let parts = page_parts(text).into_iter().map(|part| match part {
        PagePart::Example(text) => {
            let lines = text.lines().map(|line| format!("    {line}"));
            lines.map(|line| line.trim_end().to_owned() + "\n").collect()
        }
        PagePart::Table(rows) => {
            let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
            fit("  ", &vec![Align::Left; columns], &rows, width)
        }
        PagePart::Paragraph(text) => render_paragraph(&text, width),
    });
    joined(parts, "\n")
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
