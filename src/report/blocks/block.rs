//! The content of a report, independent of its format: sections with texts, figures, doubts, tables
//! and charts. Each chart has a table with the same data. Plain data.

use super::charts::Drawing;
use cpushield_linux::CpuSet;
use std::fmt::Display;

/// A report.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Its title.
    pub title: String,
    /// What it is about, in a few words each.
    pub facts: Vec<String>,
    /// The sections, none of them empty.
    pub sections: Vec<Section>,
    /// The program that made it.
    pub made: String,
}

/// A section.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// The anchor of the section.
    pub id: String,
    /// The heading.
    pub title: String,
    /// The content.
    pub blocks: Vec<ReportBlock>,
}

/// A part of a section.
#[derive(Debug, Clone, PartialEq)]
pub enum ReportBlock {
    /// A paragraph.
    Text(String),
    /// Lines that belong together, each with words of several tones.
    Lines(Vec<TextLine>),
    /// A blank line on a terminal; nothing elsewhere.
    Space,
    /// A subheading of the section.
    Heading(String),
    /// The key figures.
    Cards(Vec<Card>),
    /// What is doubtful or unknown: shown as prominently as figures.
    Doubts {
        /// The subject of the doubts.
        title: String,
        /// The doubts.
        items: Vec<String>,
    },
    /// A table.
    Table(Table),
    /// A chart.
    Picture(Box<Picture>),
    /// Shell commands, or lines from the kernel.
    Code {
        /// A description of the lines.
        caption: String,
        /// The lines.
        text: String,
    },
    /// A list of points.
    List(Vec<String>),
    /// Long content that is folded until the reader opens it.
    Fold {
        /// The summary that stays visible.
        title: String,
        /// The folded content.
        blocks: Vec<ReportBlock>,
    },
}

/// The meaning of a word or a figure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TextTone {
    /// Neutral.
    #[default]
    Plain,
    /// As it should be.
    Good,
    /// Not as it should be.
    Bad,
    /// Unknown or doubtful.
    Doubt,
    /// A name or a figure that the reader looks for first.
    Head,
    /// Less important.
    Dim,
}

/// Colours words by their meaning, for a terminal.
pub type TextPainter<'a> = &'a dyn Fn(TextTone, &str) -> String;

/// A line of text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextLine {
    /// The line is about the last line before it with a smaller indentation.
    pub indent: usize,
    /// How the line may be wrapped.
    pub kind: LineKind,
    /// The parts of the line, without blanks between them.
    pub parts: Vec<TextPart>,
}

/// How a line may be wrapped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LineKind {
    /// Between words.
    #[default]
    Prose,
    /// As a shell command, with a backslash at the end of a line.
    Command,
    /// Not at all: a line of a file.
    Verbatim,
}

/// A part of a line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextPart {
    /// The words.
    pub text: String,
    /// Their meaning.
    pub tone: TextTone,
}

/// A key figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Card {
    /// The quantity.
    pub about: String,
    /// The document it belongs to.
    pub label: String,
    /// The figure or the word.
    pub value: String,
    /// Its meaning.
    pub tone: TextTone,
    /// Further details.
    pub details: Vec<String>,
    /// How many doubts there are about it; shown on the card.
    pub doubts: usize,
}

/// A chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    /// The anchor of the chart.
    pub id: String,
    /// The title.
    pub title: String,
    /// A text alternative: one sentence for readers who cannot see the chart.
    pub about: String,
    /// How to read it.
    pub how: String,
    /// The data of the chart.
    pub drawing: Drawing,
    /// The same data as a table.
    pub table: Table,
}

/// A table; the first column names the row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// The caption.
    pub caption: String,
    /// How much of its head a terminal shows.
    pub head: TableHead,
    /// The columns.
    pub columns: Vec<TableColumn>,
    /// The rows, with a cell for each column. A row with fewer cells leaves the others empty; a row
    /// with one cell is the title of the rows below it.
    pub rows: Vec<Vec<TableCell>>,
}

/// How much of the head of a table a terminal shows. Pages show all of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TableHead {
    /// The caption and the names of the columns.
    #[default]
    Whole,
    /// The names of the columns: the line above the table says what it is about.
    Names,
    /// The caption: the cells need no names.
    Caption,
    /// Nothing.
    Hidden,
}

/// A column.
#[derive(Debug, Clone, PartialEq)]
pub struct TableColumn {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: ColumnKind,
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// Words.
    Words,
    /// Numbers, which are right-aligned.
    Numbers,
    /// Sentences about the row. Where the table is too wide for a terminal, they follow below the
    /// row. At most one column, the last one.
    Remarks,
}

/// A cell.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TableCell {
    /// The text.
    pub text: String,
    /// Its meaning.
    pub tone: TextTone,
    /// Whether it is a command, a file or a value.
    pub code: bool,
}

impl TextPart {
    /// Words without a tone.
    #[must_use]
    pub fn new(text: impl Display) -> TextPart {
        TextPart { text: text.to_string(), tone: TextTone::Plain }
    }

    /// Words with a tone.
    #[must_use]
    pub fn toned(tone: TextTone, text: impl Display) -> TextPart {
        TextPart { text: text.to_string(), tone }
    }
}

impl TextLine {
    /// A line without a tone.
    #[must_use]
    pub fn new(text: impl Display) -> TextLine {
        TextLine::of(vec![TextPart::new(text)])
    }

    /// A line of words of several tones.
    #[must_use]
    pub fn of(parts: Vec<TextPart>) -> TextLine {
        TextLine { parts, ..TextLine::default() }
    }

    /// A shell command.
    #[must_use]
    pub fn command(text: impl Display) -> TextLine {
        TextLine { kind: LineKind::Command, ..TextLine::new(text) }
    }

    /// A line of a file.
    #[must_use]
    pub fn verbatim(text: impl Display) -> TextLine {
        TextLine { kind: LineKind::Verbatim, ..TextLine::new(text) }
    }

    /// `doubtful: the clock was read too late`: a word with a tone, and what it is about.
    #[must_use]
    pub fn remark(tone: TextTone, word: &str, text: impl Display) -> TextLine {
        TextLine::of(vec![TextPart::toned(tone, word), TextPart::new(format!(": {text}"))])
    }

    /// The words of the line.
    #[must_use]
    pub fn text(&self) -> String {
        self.parts.iter().map(|part| part.text.as_str()).collect()
    }

    /// The line below another one.
    #[must_use]
    pub fn below(self) -> TextLine {
        TextLine { indent: self.indent + 1, ..self }
    }
}

impl ReportBlock {
    /// A subheading with lines below it; nothing when there are no lines.
    #[must_use]
    pub fn section(
        title: impl Into<String>,
        lines: impl IntoIterator<Item = TextLine>,
    ) -> Vec<ReportBlock> {
        let lines: Vec<TextLine> = lines.into_iter().map(TextLine::below).collect();
        match lines.is_empty() {
            true => Vec::new(),
            false => vec![ReportBlock::Heading(title.into()), ReportBlock::Lines(lines)],
        }
    }

    /// A block of one line.
    #[must_use]
    pub fn line(line: TextLine) -> ReportBlock {
        ReportBlock::Lines(vec![line])
    }

    /// A list of doubts; `None` when there are none.
    #[must_use]
    pub fn doubts(
        title: impl Into<String>,
        items: impl IntoIterator<Item = impl Display>,
    ) -> Option<ReportBlock> {
        let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
        (!items.is_empty()).then(|| ReportBlock::Doubts { title: title.into(), items })
    }
}

impl Table {
    /// A table with its whole head.
    #[must_use]
    pub fn new(
        caption: impl Into<String>,
        columns: impl IntoIterator<Item = impl Into<TableColumn>>,
        rows: Vec<Vec<TableCell>>,
    ) -> Table {
        let columns = columns.into_iter().map(Into::into).collect();
        Table { caption: caption.into(), columns, rows, head: TableHead::Whole }
    }

    /// The numbers of all columns.
    #[must_use]
    pub fn all_columns(&self) -> Vec<usize> {
        (0..self.columns.len()).collect()
    }

    /// The same table, whose last column has remarks.
    #[must_use]
    pub fn with_remarks(mut self) -> Table {
        if let Some(last) = self.columns.last_mut() {
            last.kind = ColumnKind::Remarks;
        }
        self
    }

    /// The table with this much of its head on a terminal.
    #[must_use]
    pub fn with_head(self, head: TableHead) -> Table {
        Table { head, ..self }
    }

    /// The table without the columns in which no row has a text.
    #[must_use]
    pub fn without_empty_columns(self) -> Table {
        let is_filled = |n: usize| {
            self.rows.iter().any(|row| row.get(n).is_some_and(|cell| !cell.text.is_empty()))
        };
        let filled: Vec<bool> = (0..self.columns.len()).map(is_filled).collect();
        let columns = self.columns.into_iter().zip(&filled);
        let columns = columns.filter_map(|(column, filled)| filled.then_some(column)).collect();
        let rows = self.rows.into_iter().map(|row| {
            let cells = row.into_iter().zip(&filled);
            cells.filter_map(|(cell, filled)| filled.then_some(cell)).collect()
        });
        Table { columns, rows: rows.collect(), caption: self.caption, head: self.head }
    }

    /// The table as a block; `None` without rows.
    #[must_use]
    pub fn into_block(self) -> Option<ReportBlock> {
        (!self.rows.is_empty()).then_some(ReportBlock::Table(self))
    }
}

impl From<&str> for TableColumn {
    fn from(name: &str) -> TableColumn {
        TableColumn::words(name)
    }
}

impl TableColumn {
    /// Columns of words with these names, and columns of numbers after them.
    #[must_use]
    pub fn words_and_numbers(words: &[&str], numbers: &[&str]) -> Vec<TableColumn> {
        let words = words.iter().map(|name| TableColumn::words(*name));
        words.chain(numbers.iter().map(|name| TableColumn::numbers(*name))).collect()
    }

    /// A column of words.
    #[must_use]
    pub fn words(name: impl Into<String>) -> TableColumn {
        TableColumn { name: name.into(), kind: ColumnKind::Words }
    }

    /// A column of numbers.
    #[must_use]
    pub fn numbers(name: impl Into<String>) -> TableColumn {
        TableColumn { name: name.into(), kind: ColumnKind::Numbers }
    }

    /// A column of sentences about the row.
    #[must_use]
    pub fn remarks(name: impl Into<String>) -> TableColumn {
        TableColumn { name: name.into(), kind: ColumnKind::Remarks }
    }

    /// Whether it holds numbers.
    #[must_use]
    pub fn is_number(&self) -> bool {
        self.kind == ColumnKind::Numbers
    }
}

impl TableCell {
    /// Words without a tone.
    #[must_use]
    pub fn new(text: impl Display) -> TableCell {
        TableCell { text: text.to_string(), ..TableCell::default() }
    }

    /// A command, a file or a value.
    #[must_use]
    pub fn code(text: impl Display) -> TableCell {
        TableCell { text: text.to_string(), code: true, ..TableCell::default() }
    }

    /// Words with a tone.
    #[must_use]
    pub fn toned(tone: TextTone, text: impl Display) -> TableCell {
        TableCell { text: text.to_string(), tone, code: false }
    }

    /// An unknown value.
    #[must_use]
    pub fn unknown() -> TableCell {
        TableCell::toned(TextTone::Doubt, "unknown")
    }

    /// The words, or `unknown`.
    #[must_use]
    pub fn known(text: Option<impl Display>) -> TableCell {
        text.map_or_else(TableCell::unknown, TableCell::new)
    }

    /// `yes`, `no` or `unknown`.
    #[must_use]
    pub fn yes_or_no(answer: Option<bool>) -> TableCell {
        TableCell::known(answer.map(|yes| if yes { "yes" } else { "no" }))
    }

    /// `CPU 2-3`; `None` where the kernel does not report the set.
    #[must_use]
    pub fn cpus(set: Option<&CpuSet>) -> TableCell {
        match set {
            None => TableCell::new("not reported by this kernel"),
            Some(set) if set.is_empty() => TableCell::new("none"),
            Some(set) => TableCell::new(format!("CPU {set}")),
        }
    }
}

impl Report {
    /// All charts, in order.
    pub fn pictures(&self) -> impl Iterator<Item = &Picture> {
        let blocks = self.sections.iter().flat_map(|section| &section.blocks);
        blocks.filter_map(|block| match block {
            ReportBlock::Picture(picture) => Some(&**picture),
            _ => None,
        })
    }
}
