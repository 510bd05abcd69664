//! A report → a self-contained web page: no network, readable without its script, light and dark.
//! maud escapes every text; [`clean`] replaces the characters that no text may contain.

use super::clean::clean;
use super::svg;
use super::{
    Card, Drawing, LineKind, Picture, Report, ReportBlock, Section, Table, TableCell, TableColumn,
    TextLine, TextTone,
};
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The page.
#[must_use]
pub fn page(report: &Report) -> String {
    let style = [STYLE, svg::STYLE].concat();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content=(report.made);
                link rel="icon" href="data:,";
                title { (report.title) }
                style { (PreEscaped(&style)) }
            }
            body {
                a class="skip" href="#main" { "Skip to the report" }
                (head(report))
                main id="main" { @for section in &report.sections { (self::section(section)) } }
                footer { p { "Made by " (report.made) ". This file contains the whole page." } }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    clean(&page.into_string())
}

/// The content security policy: the page fetches nothing and obeys no other script or style, no
/// matter what a document contains. It has the hashes of both.
const POLICY: &str = "default-src 'none'; \
     style-src 'sha256-dC86nunzFaoHkNylv5gtahEc8VkN1RSob8EcZInnj+w='; \
     script-src 'sha256-KClxTODycbAbx1aiJ8kpEnaLvjrXReLXaCIZ3ienvfw='; \
     img-src data:; base-uri 'none'; form-action 'none'";

fn head(report: &Report) -> Markup {
    html! {
        header {
            p class="brand" aria-hidden="true" { "cpushield" }
            h1 { (report.title) }
            @if !report.facts.is_empty() {
                ul class="facts" { @for fact in &report.facts { li { (fact) } } }
            }
            nav aria-label="Contents" {
                ol { @for section in &report.sections {
                    li { a href={ "#" (section.id) } { (section.title) } }
                } }
            }
        }
    }
}

fn section(section: &Section) -> Markup {
    let heading = format!("{}-heading", section.id);
    html! {
        section id=(section.id) aria-labelledby=(heading) {
            h2 id=(heading) { (section.title) }
            @for block in &section.blocks { (self::block(block)) }
        }
    }
}

fn block(block: &ReportBlock) -> Markup {
    match block {
        ReportBlock::Text(text) => html! { p { (spans(text)) } },
        ReportBlock::Lines(lines) => lines_of_text(lines),
        ReportBlock::Space => html! {},
        ReportBlock::Heading(text) => html! { h3 { (text) } },
        ReportBlock::Cards(cards) => {
            html! { ul class="cards" { @for item in cards { (card(item)) } } }
        }
        ReportBlock::Doubts { title, items } => doubts(title, items),
        ReportBlock::Table(table) => self::table(table),
        ReportBlock::Picture(picture) => self::picture(picture),
        ReportBlock::Code { caption, text } => html! {
            figure class="code" {
                figcaption { (caption) }
                pre tabindex="0" { code { (text) } }
            }
        },
        ReportBlock::List(items) => html! { ul { @for item in items { li { (spans(item)) } } } },
        ReportBlock::Fold { title, blocks } => html! {
            details { summary { (title) } @for inner in blocks { (self::block(inner)) } }
        },
    }
}

/// The deepest indentation of a line.
const INDENT_MAX: usize = 4;

fn lines_of_text(lines: &[TextLine]) -> Markup {
    html! {
        ul class="lines" { @for line in lines {
            li class=[(line.indent > 0).then(|| format!("in{}", line.indent.min(INDENT_MAX)))] {
                @for part in &line.parts { (toned(part.tone, words(line.kind, &part.text))) }
            }
        } }
    }
}

/// Prose with its code between backticks, or a line of code.
fn words(kind: LineKind, text: &str) -> Markup {
    match kind {
        LineKind::Prose => spans(text),
        LineKind::Command | LineKind::Verbatim => html! { code { (text) } },
    }
}

/// The words with their class and, where they have one, their sign.
fn toned(tone: TextTone, text: Markup) -> Markup {
    match tone {
        TextTone::Plain | TextTone::Dim => text,
        TextTone::Head => html! { strong { (text) } },
        other => html! { span class=(self::tone(other)) { (sign(other)) (text) } },
    }
}

fn card(card: &Card) -> Markup {
    html! {
        li class=(format!("card {}", tone(card.tone))) {
            p class="about" { (card.about) }
            p class="label" { (card.label) }
            p class="value" { (sign(card.tone)) (card.value) }
            @for detail in &card.details { p class="detail" { (detail) } }
            @match card.doubts {
                0 => {}
                1 => p class="doubtful" { "? 1 doubt, below" },
                n => p class="doubtful" { "? " (n) " doubts, below" },
            }
        }
    }
}

fn doubts(title: &str, items: &[String]) -> Markup {
    html! {
        div class="doubts" role="note" {
            h3 { span aria-hidden="true" { "? " } (title) }
            ul { @for item in items { li { (spans(item)) } } }
        }
    }
}

/// A text with the parts between backticks as code, when the backticks are balanced.
fn spans(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return html! { (text) };
    }
    html! { @for (n, part) in parts.iter().enumerate() {
        @if n.is_multiple_of(2) { (part) } @else { code { (part) } }
    } }
}

/// The class of a tone.
fn tone(tone: TextTone) -> &'static str {
    match tone {
        TextTone::Plain => "plain",
        TextTone::Good => "good",
        TextTone::Bad => "bad",
        TextTone::Doubt => "doubt",
        TextTone::Head => "head",
        TextTone::Dim => "dim",
    }
}

/// A sign next to the colour, for readers who cannot see the colour.
fn sign(tone: TextTone) -> Markup {
    let sign = match tone {
        TextTone::Plain | TextTone::Head | TextTone::Dim => return html! {},
        TextTone::Good => "✓",
        TextTone::Bad => "✗",
        TextTone::Doubt => "?",
    };
    html! { span class="sign" aria-hidden="true" { (sign) } " " }
}

fn table(table: &Table) -> Markup {
    html! {
        div class="wide" tabindex="0" role="region" aria-label=(table.caption) {
            table {
                caption { (table.caption) }
                thead { tr { @for column in &table.columns {
                    th scope="col" class=[alignment(column)] { (column.name) }
                } } }
                tbody { @for row in &table.rows {
                    tr { (cells(row, &table.columns)) }
                } }
            }
        }
    }
}

/// The cells of a row; a single one is the title of the rows below it.
fn cells(row: &[TableCell], columns: &[TableColumn]) -> Markup {
    if let ([title], [_, _, ..]) = (row, columns) {
        return html! {
            th scope="rowgroup" class="group" colspan=(columns.len()) { (cell(title)) }
        };
    }
    let empty = TableCell::default();
    let cells = row.iter().chain(std::iter::repeat(&empty)).zip(columns);
    html! { @for (n, (text, column)) in cells.enumerate() {
        @if n == 0 && !text.text.is_empty() {
            th scope="row" class=[alignment(column)] { (cell(text)) }
        } @else {
            td class=[alignment(column)] { (cell(text)) }
        }
    } }
}

fn alignment(column: &TableColumn) -> Option<&'static str> {
    column.is_number().then_some("number")
}

fn cell(cell: &TableCell) -> Markup {
    let text = if cell.code {
        html! { code { (cell.text) } }
    } else {
        spans(&cell.text)
    };
    toned(cell.tone, text)
}

fn picture(picture: &Picture) -> Markup {
    let series = picture.drawing.series();
    html! {
        figure id=(picture.id) class="picture" {
            figcaption { strong { (picture.title) } " " span class="how" { (spans(&picture.how)) } }
            @if !series.is_empty() {
                ul class="legend" { @for (n, name) in series.iter().enumerate() {
                    li { span class=(format!("swatch {}", svg::series(n))) {} (name) }
                } }
            }
            div class="drawing" tabindex="0" role="group" aria-label=(picture.title) {
                (svg::inline(picture))
            }
            @if matches!(picture.drawing, Drawing::Curves(_)) {
                // The script shows the tools: without it they would do nothing.
                div class="tools" hidden {
                    button type="button" data-zoom="in" { "Zoom in" }
                    button type="button" data-zoom="out" { "Zoom out" }
                    button type="button" data-zoom="left" aria-label="Move left" { "◀" }
                    button type="button" data-zoom="right" aria-label="Move right" { "▶" }
                    button type="button" data-zoom="whole" { "Show all" }
                    output { "Drag across the picture to zoom in." }
                }
            }
            details { summary { "The same data as a table" } (table(&picture.table)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use sha2::{Digest, Sha256};

    #[test]
    fn the_policy_has_the_hashes_of_the_style_and_of_the_script() {
        for (name, text) in [("style", [STYLE, svg::STYLE].concat()), ("script", SCRIPT.to_owned())]
        {
            let hash = STANDARD.encode(Sha256::digest(text));
            let source = format!("{name}-src 'sha256-{hash}';");
            assert!(POLICY.contains(&source), "{source}");
        }
    }
}
