//! A report → lines for a terminal, with plots of block characters, or of ASCII characters where
//! the terminal cannot show those.

use super::block::{
    Amount, BarChart, CpuMap, Curve, CurveChart, Drawing, MapRole, Picture, Report, ReportBlock,
    Table, TextTone,
};
use super::words;
use crate::report::table::{Align, fit, fold, fold_shell};

/// Colours words by their meaning.
pub type BlockPainter<'a> = &'a dyn Fn(TextTone, &str) -> String;

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
    paint: BlockPainter<'a>,
}

/// The lines, for a terminal of `width` columns.
#[must_use]
pub fn terminal(
    report: &Report,
    width: usize,
    characters: CharacterSet,
    paint: BlockPainter<'_>,
) -> String {
    let style = TerminalStyle { width: width.max(40), characters, paint };
    let mut text = format!("{}\n", report.title);
    if !report.facts.is_empty() {
        text.push_str(&format!("{}\n", report.facts.join(", ")));
    }
    for section in &report.sections {
        text.push_str(&format!("\n{}\n{}\n", section.title, "=".repeat(section.title.len())));
        section.blocks.iter().for_each(|block| text.push_str(&style.block(block)));
    }
    match characters {
        CharacterSet::Unicode => text,
        CharacterSet::Ascii => ascii(&text),
    }
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
            ReportBlock::Heading(text) => fold(&format!("\n{}\n", safe(text)), self.width),
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
            // Content that the page folds is left out here: --json and the page have it.
            ReportBlock::Fold { title, .. } => {
                fold(&format!("\n{} (on the page: -o report.html)\n", safe(title)), self.width)
            }
        }
    }

    fn table(&self, table: &Table) -> String {
        let columns: Vec<Align> = table
            .columns
            .iter()
            .map(|column| if column.number { Align::Right } else { Align::Left })
            .collect();
        let mut rows = vec![table.columns.iter().map(|column| column.name.clone()).collect()];
        for row in &table.rows {
            rows.push(row.iter().map(|cell| safe(&cell.text)).collect());
        }
        let caption = fold(&format!("\n{}\n", safe(&table.caption)), self.width);
        caption + &fit("  ", &columns, &rows, self.width)
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
        let known =
            bars.rows.iter().flat_map(|row| &row.amounts).filter_map(|amount| match amount {
                Amount::Known(n) if *n > 0.0 => Some(*n),
                _ => None,
            });
        let (least, most) = known.fold((f64::MAX, 0.0_f64), |(a, b), n| (a.min(n), b.max(n)));
        let from = least / 10.0;
        let mut text = "  bars on a logarithmic scale\n".to_owned();
        for row in &bars.rows {
            text.push_str(&format!("  {}\n", safe(&row.label)));
            for (name, amount) in bars.series.iter().zip(&row.amounts) {
                let shown = match amount {
                    Amount::Known(n) if *n > 0.0 => {
                        let part = (n / from).log10() / (most / from).log10();
                        let bar = self.bar(part, self.width.saturating_sub(44));
                        format!("{bar} {}{}", words::plain(*n), bars.unit)
                    }
                    Amount::Known(_) => (self.paint)(TextTone::Good, "none"),
                    Amount::Unknown => (self.paint)(TextTone::Doubt, "unknown"),
                };
                text.push_str(&format!("    {:<20} {shown}\n", truncate(name, 20)));
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
                text.push_str(&format!("    {span:>18} {bar} {}\n", words::plain(count)));
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
            let cores: Vec<String> = cores
                .map(|core| core.cpus.iter().map(cpu_with_role).collect::<Vec<_>>().join("+"))
                .collect();
            let name = if names.is_empty() { "CPUs".to_owned() } else { names.join(", ") };
            text.push_str(&format!("  {name}: {}\n", cores.join(" ")));
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

fn truncate(name: &str, most: usize) -> String {
    safe(name).chars().take(most).collect()
}

/// The text on one line, without control characters that the terminal would obey.
fn safe(text: &str) -> String {
    super::html::clean(text).replace(['\n', '\r', '\t'], " ")
}
