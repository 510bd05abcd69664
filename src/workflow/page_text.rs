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
    fit("  ", &[Align::Left, Align::Left], &rows, width)
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
    fn a_list_keeps_its_items() {
        let text = render_body("Some words\nof prose.\n\n* one that is\nlonger\n* two\n", 12);
        assert_eq!(text, "Some words\nof prose.\n\n* one that\n  is longer\n* two\n");
    }
}
