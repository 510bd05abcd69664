//! A report → lines for a terminal, with plots of block characters, or of ASCII characters where
//! the terminal cannot show those.

use super::clean::clean;
use super::words;
use super::{
    BarChart, ColumnKind, CpuMap, Curve, CurveChart, Drawing, LineKind, MapRole, Picture, Report,
    ReportBlock, Table, TableCell, TableColumn, TableHead, TextLine, TextPainter, TextTone,
};
use crate::documents::count_text::{joined, many};
use crate::report::table::{
    Align, columns_of, fit_rows, fold, fold_shell, pad, pad_left, truncate,
};

/// The characters that the terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CharacterSet {
    /// All of Unicode, with block characters.
    Unicode,
    /// ASCII only.
    Ascii,
}

/// The width, the characters and the colours of the output.
struct TerminalStyle<'a> {
    width: usize,
    characters: CharacterSet,
    paint: TextPainter<'a>,
}

/// The lines, for a terminal of `width` columns.
#[must_use]
pub fn terminal(
    report: &Report,
    width: usize,
    characters: CharacterSet,
    paint: TextPainter<'_>,
) -> String {
    let style = TerminalStyle { width: width.max(40), characters, paint };
    let mut text = format!("{}\n", report.title);
    if !report.facts.is_empty() {
        text.push_str(&format!("{}\n", report.facts.join(", ")));
    }
    for section in &report.sections {
        let rule = "=".repeat(columns_of(&section.title));
        text.push_str(&format!("\n{}\n{rule}\n", (style.paint)(TextTone::Head, &section.title)));
        section.blocks.iter().for_each(|block| text.push_str(&style.block(block)));
    }
    match characters {
        CharacterSet::Unicode => text,
        CharacterSet::Ascii => ascii(&text),
    }
}

/// The lines of one document that a subcommand shows, for a terminal of `width` columns.
#[must_use]
pub fn terminal_blocks(blocks: &[ReportBlock], width: usize, paint: TextPainter<'_>) -> String {
    let style = TerminalStyle { width, characters: CharacterSet::Unicode, paint };
    let text: String = blocks.iter().map(|block| style.block(block)).collect();
    text.trim_start_matches('\n').to_owned()
}

/// No colours: a [`TextPainter`] for files and tests.
#[must_use]
pub fn unpainted(_: TextTone, words: &str) -> String {
    words.to_owned()
}

/// Replaces the characters outside ASCII.
fn ascii(text: &str) -> String {
    let text = text.replace('µ', "u").replace('–', "-").replace('…', "...").replace('·', ",");
    let text = text.replace('\u{202f}', "").replace(['\u{201c}', '\u{201d}'], "\"");
    text.chars().map(|c| if c.is_ascii() { c } else { '?' }).collect()
}

impl TerminalStyle<'_> {
    fn list(&self, items: &[String]) -> String {
        let lines: String = items.iter().map(|item| format!("  - {}\n", safe(item))).collect();
        fold(&lines, self.width)
    }

    fn block(&self, block: &ReportBlock) -> String {
        match block {
            ReportBlock::Text(text) => fold(&format!("{}\n", safe(text)), self.width),
            ReportBlock::Lines(lines) => lines.iter().map(|line| self.line(line)).collect(),
            ReportBlock::Space => "\n".to_owned(),
            ReportBlock::Heading(text) => {
                let text = self.painted(TextTone::Head, &safe(text));
                fold(&format!("\n{text}\n"), self.width)
            }
            ReportBlock::Cards(cards) => {
                let mut text = String::new();
                for card in cards {
                    let value = (self.paint)(card.tone, &safe(&card.value));
                    let (about, label) = (safe(&card.about), safe(&card.label));
                    text.push_str(&format!("  {about}, {label}: {value}"));
                    if card.doubts > 0 {
                        let words = format!(" ({} doubtful, see below)", card.doubts);
                        text.push_str(&(self.paint)(TextTone::Doubt, &words));
                    }
                    text.push('\n');
                    for detail in &card.details {
                        text.push_str(&format!("      {}\n", safe(detail)));
                    }
                }
                fold(&text, self.width)
            }
            ReportBlock::Doubts { title, items } => {
                let title = (self.paint)(TextTone::Doubt, &format!("? {}", safe(title)));
                fold(&format!("\n{title}\n"), self.width) + &self.list(items)
            }
            ReportBlock::Table(table) => self.table(table),
            ReportBlock::Picture(picture) => self.picture(picture),
            ReportBlock::Code { caption, text } => {
                let lines = text.lines().map(|line| match line.starts_with("cpushield ") {
                    true => fold_shell(&safe(line), 2, self.width),
                    false => fold(&format!("  {}\n", safe(line)), self.width),
                });
                let lines: String = lines.collect();
                fold(&format!("\n{}:\n", safe(caption)), self.width) + &lines
            }
            ReportBlock::List(items) => self.list(items),
            ReportBlock::Fold { title, blocks } => {
                let rows = many(blocks.iter().map(count_rows).sum::<usize>(), "row");
                let shown = format!("{rows}; -o report.html or --format json shows them");
                let line = format!("\n{} ({shown})\n", safe(title));
                fold(&line, self.width)
            }
        }
    }

    fn line(&self, line: &TextLine) -> String {
        let parts = line.parts.iter().map(|part| self.painted(part.tone, &safe(&part.text)));
        let (text, indent) = (parts.collect::<String>(), "  ".repeat(line.indent));
        match line.kind {
            LineKind::Prose => fold(&format!("{indent}{text}\n"), self.width),
            LineKind::Command => fold_shell(&text, indent.len(), self.width),
            LineKind::Verbatim => format!("{indent}{}\n", clean(&line.text())),
        }
    }

    /// The words with the colour of their tone. Each word has its own, so that a line may break
    /// between them.
    fn painted(&self, tone: TextTone, text: &str) -> String {
        if tone == TextTone::Plain {
            return text.to_owned();
        }
        let words = text.split(' ').map(|word| match word.is_empty() {
            true => String::new(),
            false => (self.paint)(tone, word),
        });
        joined(words, " ")
    }

    fn table(&self, table: &Table) -> String {
        let (caption, named) = match table.head {
            TableHead::Whole => (true, true),
            TableHead::Names => (false, true),
            TableHead::Caption => (true, false),
            TableHead::Hidden => (false, false),
        };
        let names: Vec<TableCell> =
            table.columns.iter().map(|column| TableCell::new(&column.name)).collect();
        let rows: Vec<&[TableCell]> = [names.as_slice()]
            .into_iter()
            .filter(|_| named)
            .chain(table.rows.iter().map(Vec::as_slice))
            .collect();
        let parts: Vec<String> = match self.remarks_below(table, &rows) {
            Some(lines) => vec![lines],
            None => column_parts(&table.columns, &rows, &table.all_columns(), self.width)
                .iter()
                .map(|shown| self.rows(&table.columns, &rows, shown).concat())
                .collect(),
        };
        let caption = match caption {
            true => self.block(&ReportBlock::Heading(table.caption.clone())),
            false => String::new(),
        };
        caption + &parts.join("\n")
    }

    /// The rows with their remarks below them; `None` where the table is narrow enough or has no
    /// remarks.
    fn remarks_below(&self, table: &Table, rows: &[&[TableCell]]) -> Option<String> {
        let remarks = table.columns.iter().position(|it| it.kind == ColumnKind::Remarks)?;
        let all = table.all_columns();
        let wide = TerminalStyle { width: usize::MAX, ..*self }.rows(&table.columns, rows, &all);
        if wide.iter().all(|row| columns_of(row.trim_end()) <= self.width) {
            return None;
        }
        let shown: Vec<usize> = all.into_iter().filter(|n| *n != remarks).collect();
        let name = table.columns.get(remarks).map_or("", |column| column.name.as_str());
        let head_rows = rows.len().saturating_sub(table.rows.len());
        let mut parts = column_parts(&table.columns, rows, &shown, self.width)
            .into_iter()
            .map(|shown| self.rows(&table.columns, rows, &shown));
        let laid_out = parts.next().unwrap_or_default().into_iter().zip(rows);
        let lines = laid_out.enumerate().map(|(n, (mut lines, row))| {
            let remark = row.get(remarks).filter(|cell| n >= head_rows && !cell.text.is_empty());
            if let Some(cell) = remark {
                lines.push_str(&fold(&format!("      {name}: {}\n", self.cell(cell)), self.width));
            }
            lines
        });
        let first: String = lines.collect();
        Some(joined([first].into_iter().chain(parts.map(|lines| lines.concat())), "\n"))
    }

    /// The cells of some columns. The title of a group of rows has the whole line.
    fn rows(&self, columns: &[TableColumn], rows: &[&[TableCell]], shown: &[usize]) -> Vec<String> {
        let aligned: Vec<Align> = shown
            .iter()
            .filter_map(|n| columns.get(*n))
            .map(|column| if column.is_number() { Align::Right } else { Align::Left })
            .collect();
        let cells = rows.iter().map(|row| match is_title(row, columns) {
            true => Vec::new(),
            false => {
                let cells = shown.iter().map(|n| row.get(*n).map(|cell| self.cell(cell)));
                cells.map(Option::unwrap_or_default).collect()
            }
        });
        let cells: Vec<Vec<String>> = cells.collect();
        let laid_out = fit_rows("  ", &aligned, &cells, self.width);
        let lines = rows.iter().zip(laid_out).map(|(row, lines)| match row {
            [title] if is_title(row, columns) => {
                fold(&format!("{}\n", self.cell(title)), self.width)
            }
            _ => lines,
        });
        lines.collect()
    }

    fn cell(&self, cell: &TableCell) -> String {
        self.painted(cell.tone, &safe(&cell.text))
    }

    fn picture(&self, picture: &Picture) -> String {
        let drawn = match &picture.drawing {
            Drawing::Map(map) => fold(&self::map(map), self.width),
            Drawing::Bars(bars) => self.bars(bars),
            Drawing::Curves(curves) if curves.x.log => self.histogram(curves),
            Drawing::Curves(curves) => self.timeline(curves),
        };
        fold(&format!("\n{}\n", safe(&picture.title)), self.width) + &drawn
    }

    /// A bar for a fraction of the width.
    fn bar(&self, part: f64, width: usize) -> String {
        let eighths = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
        let n = (part.clamp(0.0, 1.0) * words::float(width as u64) * 8.0).round() as usize;
        // Any amount above 0 is visible.
        let n = n.max(usize::from(part > 0.0));
        match self.characters {
            CharacterSet::Unicode => "█".repeat(n / 8) + eighths.get(n % 8).copied().unwrap_or(""),
            CharacterSet::Ascii => "#".repeat(n.div_ceil(8)),
        }
    }

    fn bars(&self, bars: &BarChart) -> String {
        let (least, most) = bars.range();
        let from = least / 10.0;
        let mut text = "  bars on a logarithmic scale\n".to_owned();
        for row in &bars.rows {
            text.push_str(&format!("  {}\n", safe(&row.label)));
            for (name, amount) in bars.series.iter().zip(&row.amounts) {
                let shown = match amount {
                    Some(n) if *n > 0.0 => {
                        let part = (n / from).log10() / (most / from).log10();
                        let bar = self.bar(part, self.width.saturating_sub(44));
                        format!("{bar} {}{}", words::plain(*n), bars.unit)
                    }
                    Some(_) => (self.paint)(TextTone::Good, "none"),
                    None => (self.paint)(TextTone::Doubt, "unknown"),
                };
                let name = pad(&truncate(&safe(name), 20), 20);
                text.push_str(&format!("    {name} {shown}\n"));
            }
        }
        text
    }

    /// A bar for each half of a power of ten, separately for each document.
    fn histogram(&self, curves: &CurveChart) -> String {
        let mut text = "  bars on a logarithmic scale\n".to_owned();
        let most = curves.y.to.log10();
        for curve in &curves.series {
            text.push_str(&format!("  {}\n", safe(&curve.label)));
            for (from, to, count) in sum_by_half_decade(curve) {
                // A single event also has a bar.
                let part = (count.log10() + 0.3) / (most + 0.3);
                let bar = self.bar(part, self.width.saturating_sub(40));
                let span = format!("{} to {}", words::time(from), words::time(to));
                let span = pad_left(&span, 18);
                text.push_str(&format!("    {span} {bar} {}\n", words::plain(count)));
            }
        }
        text
    }

    /// A character for each part of the run; a higher one means a longer latency.
    fn timeline(&self, curves: &CurveChart) -> String {
        let levels: Vec<char> = match self.characters {
            CharacterSet::Unicode => "▁▂▃▄▅▆▇█".chars().collect(),
            CharacterSet::Ascii => "_.:-=+*#".chars().collect(),
        };
        let columns = self.width.saturating_sub(6).min(96);
        let (low, high) = (curves.y.from.ln(), curves.y.to.ln());
        let mut text = String::new();
        for curve in &curves.series {
            let count = words::float(columns as u64);
            let signs = (0..columns as u64).map(|n| {
                let [from, to] = [n, n + 1].map(|n| curves.x.to * words::float(n) / count);
                let inside = curve.steps.iter().filter(|step| step.0 < to && step.1 > from);
                let Some(worst) = inside.map(|step| step.2).reduce(f64::max) else { return ' ' };
                let part = ((worst.ln() - low) / (high - low)).clamp(0.0, 0.999);
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "small"
                )]
                let nth = (part * words::float(levels.len() as u64)) as usize;
                levels.get(nth).copied().unwrap_or(' ')
            });
            let line: String = signs.collect();
            text.push_str(&format!("  {}\n    {line}\n", safe(&curve.label)));
            let worst = curve.marks.first().map(|(_, _, label)| format!("    worst {label}\n"));
            text.push_str(&worst.unwrap_or_default());
        }
        let (low, high) = (words::time(curves.y.from), words::time(curves.y.to));
        format!(
            "{text}    0 to {}, {low} to {high} (logarithmic); blank: no sample\n",
            words::time(curves.x.to)
        )
    }
}

/// Whether a row is the title of the rows below it.
fn is_title(row: &[TableCell], columns: &[TableColumn]) -> bool {
    row.len() == 1 && columns.len() > 1
}

/// Which of the shown columns fit side by side: columns of numbers after columns of words are split
/// into several tables, each with the words, because numbers cannot be wrapped.
fn column_parts(
    columns: &[TableColumn],
    rows: &[&[TableCell]],
    shown: &[usize],
    width: usize,
) -> Vec<Vec<usize>> {
    let is_number = |n: &&usize| columns.get(**n).is_some_and(TableColumn::is_number);
    let words = shown.iter().take_while(|n| !is_number(n)).count();
    let (leading, numbers) = shown.split_at(words);
    if !numbers.iter().all(|n| is_number(&n)) {
        return vec![shown.to_vec()];
    }
    let cells: Vec<_> = rows.iter().filter(|row| !is_title(row, columns)).collect();
    let widest = |n: &usize, measure: &dyn Fn(&str) -> usize| {
        2 + cells
            .iter()
            .filter_map(|row| row.get(*n))
            .map(|it| measure(&it.text))
            .max()
            .unwrap_or(0)
    };
    let width_of = |n: &usize| widest(n, &columns_of);
    let longest_word =
        |n: &usize| widest(n, &|text| text.split(' ').map(columns_of).max().unwrap_or_default());
    // Columns of words take at most half of the width if their words do: the cells can be wrapped.
    let wrapped = leading.iter().map(longest_word).sum::<usize>();
    let taken = leading.iter().map(width_of).sum::<usize>().min((width / 2).max(wrapped));
    let mut parts: Vec<Vec<usize>> = Vec::new();
    let mut left = 0;
    for (n, needed) in numbers.iter().map(|n| (n, width_of(n))) {
        match parts.last_mut().filter(|_| needed <= left) {
            Some(part) => part.push(*n),
            None => {
                parts.push(leading.iter().chain([n]).copied().collect());
                left = width.saturating_sub(taken);
            }
        }
        left = left.saturating_sub(needed);
    }
    if parts.is_empty() { vec![shown.to_vec()] } else { parts }
}

/// The rows, lines and points in a block.
fn count_rows(block: &ReportBlock) -> usize {
    match block {
        ReportBlock::Table(table) => table.rows.len(),
        ReportBlock::Picture(picture) => picture.table.rows.len(),
        ReportBlock::Lines(lines) => lines.len(),
        ReportBlock::Cards(cards) => cards.len(),
        ReportBlock::Doubts { items, .. } | ReportBlock::List(items) => items.len(),
        ReportBlock::Code { text, .. } => text.lines().count(),
        ReportBlock::Text(_) => 1,
        ReportBlock::Heading(_) | ReportBlock::Space => 0,
        ReportBlock::Fold { blocks, .. } => blocks.iter().map(count_rows).sum(),
    }
}

/// The counts of a curve for each half of a power of ten: from, to, count.
fn sum_by_half_decade(curve: &Curve) -> Vec<(f64, f64, f64)> {
    let edges: Vec<f64> = (0..13).flat_map(|n| [1.0, 3.0].map(|m| m * 10.0_f64.powi(n))).collect();
    let pairs = edges.iter().copied().zip(edges.iter().copied().skip(1));
    let rows = pairs.map(|(from, to)| {
        let inside =
            curve.steps.iter().filter(|step| (from..to).contains(&(step.0 * step.1).sqrt()));
        (from, to, inside.map(|step| step.2).sum())
    });
    rows.filter(|row: &(f64, f64, f64)| row.2 > 0.0).collect()
}

/// Packages, what their CPUs share, and the CPUs; a shielded one is in brackets.
fn map(map: &CpuMap) -> String {
    let mut text = String::new();
    for package in &map.packages {
        for group in &package.groups {
            let names = [package.name.as_str(), group.name.as_str()];
            let names: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
            let cores = group.clusters.iter().flat_map(|cluster| &cluster.cores);
            let cores = cores.map(|core| joined(core.cpus.iter().map(cpu_with_role), "+"));
            let name = if names.is_empty() { "CPUs".to_owned() } else { names.join(", ") };
            text.push_str(&format!("  {name}: {}\n", joined(cores, " ")));
        }
    }
    if !map.offline.is_empty() {
        text.push_str(&format!("  offline: {}\n", map.offline));
    }
    text + "  [shielded]  (kept idle)  <isolated at boot>  a+b: threads of one core\n"
}

fn cpu_with_role((cpu, role): &(usize, MapRole)) -> String {
    match role {
        MapRole::Shielded => format!("[{cpu}]"),
        MapRole::Idle => format!("({cpu})"),
        MapRole::Isolated => format!("<{cpu}>"),
        _ => cpu.to_string(),
    }
}

/// The text on one line, without control characters that the terminal would obey.
fn safe(text: &str) -> String {
    clean(text).replace(['\n', '\r', '\t'], " ")
}

#[cfg(test)]
mod tests {
    use super::super::TextPart;
    use super::*;

    fn signed(tone: TextTone, words: &str) -> String {
        format!("{tone:?}({words})")
    }

    fn table(head: TableHead) -> Table {
        let columns = vec![
            TableColumn::words("figure"),
            TableColumn::numbers("before"),
            TableColumn::numbers("after"),
        ];
        let rows = vec![
            vec![TableCell::new("threads of 1 ms on some CPUs")],
            ["worst", "6.09 ms", "609.1 µs"].map(TableCell::new).to_vec(),
            vec![TableCell::new("median"), TableCell::toned(TextTone::Doubt, "-")],
        ];
        Table { caption: "After against before".to_owned(), head, columns, rows }
    }

    #[test]
    fn the_title_of_a_group_takes_no_column_and_missing_cells_are_empty() {
        let blocks = [ReportBlock::Table(table(TableHead::Names))];
        let expected = "  figure   before     after\nthreads of 1 ms on some CPUs\n  worst   6.09 ms  \
                        609.1 µs\n  median        -\n";
        assert_eq!(terminal_blocks(&blocks, 80, &unpainted), expected);
        let hidden = [ReportBlock::Table(table(TableHead::Hidden))];
        assert!(terminal_blocks(&hidden, 80, &unpainted).starts_with("threads of 1 ms"));
    }

    #[test]
    fn numbers_that_do_not_fit_become_a_second_table_with_the_same_words() {
        let blocks = [ReportBlock::Table(table(TableHead::Names))];
        let text = terminal_blocks(&blocks, 24, &unpainted);
        assert!(text.contains("  worst   6.09 ms\n"), "{text}");
        assert!(text.contains("  worst   609.1 µs\n"), "{text}");
        assert!(text.lines().all(|line| columns_of(line) <= 24), "{text}");
    }

    #[test]
    fn remarks_stand_below_the_first_of_several_tables() {
        let names = ["cause", "longest culprit"].map(TableColumn::words);
        let numbers = ["count", "longest time"].map(TableColumn::numbers);
        let remarks = TableColumn { kind: ColumnKind::Remarks, ..TableColumn::words("remedy") };
        let columns = names.into_iter().chain(numbers).chain([remarks]);
        let cells = ["tick", "tick_nohz_handler", "373", "890.6 µs", "at boot: nohz_full=3"];
        let rows = vec![cells.map(TableCell::new).to_vec()];
        let blocks = [ReportBlock::Table(Table::new("", columns, rows))];
        let text = terminal_blocks(&blocks, 44, &unpainted);
        assert!(text.lines().all(|line| columns_of(line) <= 44), "{text}");
        let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words}: {text}"));
        assert!(at("373") < at("remedy: at boot") && at("remedy: at boot") < at("890.6"), "{text}");
    }

    #[test]
    fn each_word_of_a_tone_has_its_own_colour() {
        let parts = vec![TextPart::toned(TextTone::Bad, "not held"), TextPart::new(": 2 of 3")];
        let blocks = [ReportBlock::line(TextLine::of(parts).below())];
        let expected = "  Bad(not) Bad(held): 2 of 3\n";
        assert_eq!(terminal_blocks(&blocks, 80, &signed), expected);
    }

    #[test]
    fn a_fold_shows_how_many_rows_it_has_and_where_they_are() {
        let blocks = vec![ReportBlock::Table(table(TableHead::Whole))];
        let fold = ReportBlock::Fold { title: "Every change".to_owned(), blocks };
        let expected = "Every change (3 rows; -o report.html or --format json shows them)\n";
        assert_eq!(terminal_blocks(&[fold], 80, &unpainted), expected);
    }
}
