//! A report → Markdown: every table and every doubt; a chart becomes its table.

use super::clean::clean;
use super::{Card, Report, ReportBlock, Table, TableCell, TextLine, TextTone};
use crate::documents::count_text::joined;

/// The text.
#[must_use]
pub fn markdown(report: &Report) -> String {
    let mut text = format!("# {}\n\n", plain(&report.title));
    if !report.facts.is_empty() {
        let facts = report.facts.iter().map(|fact| plain(fact));
        text.push_str(&format!("{}\n\n", joined(facts, " · ")));
    }
    for section in &report.sections {
        text.push_str(&format!("## {}\n\n", plain(&section.title)));
        section.blocks.iter().for_each(|block| text.push_str(&self::block(block)));
    }
    text.push_str(&format!("Made by {}.\n", plain(&report.made)));
    text
}

fn list(items: &[String]) -> String {
    items.iter().map(|item| format!("- {}\n", plain(item))).collect()
}

fn line(line: &TextLine) -> String {
    let parts: String = line.parts.iter().map(|part| toned(part.tone, &part.text)).collect();
    format!("{}- {parts}\n", "  ".repeat(line.indent))
}

/// The words, bold where they need attention.
fn toned(tone: TextTone, text: &str) -> String {
    let text = plain(text);
    match tone {
        TextTone::Plain | TextTone::Good | TextTone::Dim => text,
        TextTone::Bad | TextTone::Doubt | TextTone::Head => format!("**{text}**"),
    }
}

fn card(card: &Card) -> String {
    let details = card.details.iter().map(|detail| plain(detail));
    let doubts = match card.doubts {
        0 => String::new(),
        n => format!(" **({n} doubtful, see below)**"),
    };
    let (about, label, value) = (plain(&card.about), plain(&card.label), plain(&card.value));
    format!("- {about}, {label}: **{value}**{doubts}; {}\n", joined(details, "; "))
}

fn block(block: &ReportBlock) -> String {
    match block {
        ReportBlock::Text(text) => format!("{}\n\n", plain(text)),
        ReportBlock::Lines(lines) => lines.iter().map(line).collect::<String>() + "\n",
        ReportBlock::Space => String::new(),
        ReportBlock::Heading(text) => format!("### {}\n\n", plain(text)),
        ReportBlock::Cards(cards) => cards.iter().map(card).collect::<String>() + "\n",
        ReportBlock::Doubts { title, items } => {
            format!("**{}**\n\n{}\n", plain(title), list(items))
        }
        ReportBlock::Table(table) => self::table(table),
        ReportBlock::Picture(picture) => {
            format!(
                "### {}\n\n{}\n\n{}",
                plain(&picture.title),
                plain(&picture.how),
                table(&picture.table)
            )
        }
        ReportBlock::Code { caption, text } => {
            // A fence longer than any in the text.
            let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
            let fence = "`".repeat(longest.max(2) + 1);
            format!("{}:\n\n{fence}\n{}\n{fence}\n\n", plain(caption), clean(text).trim_end())
        }
        ReportBlock::List(items) => list(items) + "\n",
        ReportBlock::Fold { title, blocks } => {
            format!(
                "### {}\n\n{}",
                plain(title),
                blocks.iter().map(self::block).collect::<String>()
            )
        }
    }
}

fn table(table: &Table) -> String {
    let head = table.columns.iter().map(|column| plain(&column.name));
    let rule = table.columns.iter().map(|column| if column.is_number() { "--:" } else { "---" });
    let mut text = format!("{}:\n\n", plain(&table.caption));
    text.push_str(&format!("| {} |\n| {} |\n", joined(head, " | "), joined(rule, " | ")));
    for row in &table.rows {
        let empty = TableCell::default();
        let cells = row.iter().chain(std::iter::repeat(&empty)).take(table.columns.len());
        let cells = cells.map(|cell| toned(cell.tone, &cell.text));
        text.push_str(&format!("| {} |\n", joined(cells, " | ")));
    }
    text + "\n"
}

/// Escapes a text so that it contains no markup: no tag, no link, no end of a cell or a line.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for c in clean(text).chars() {
        match c {
            '<' => plain.push_str("&lt;"),
            '>' => plain.push_str("&gt;"),
            '&' => plain.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' => {
                plain.push('\\');
                plain.push(c);
            }
            '\n' | '\r' | '\t' => plain.push(' '),
            c => plain.push(c),
        }
    }
    plain
}
