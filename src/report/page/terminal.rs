//! A report → lines for a terminal, with plots of block characters, or of ASCII where those cannot
//! be shown.

use super::block::{
    Amount, BarChart, CpuMap, Curve, CurveChart, Drawing, MapRole, Picture, Report, ReportBlock,
    Table, TableCell, TextTone,
};
use super::words;
use crate::report::table::{Align, fit, fold, fold_shell};

/// Gives a few words the colour of what they mean.
pub type BlockPainter<'a> = &'a dyn Fn(TextTone, &str) -> String;

/// How it is shown.
struct TerminalStyle<'a> {
    width: usize,
    /// Block characters can be shown.
    blocks: bool,
    paint: BlockPainter<'a>,
}

/// The lines, for so many columns.
#[must_use]
pub fn terminal(report: &Report, width: usize, blocks: bool, paint: BlockPainter<'_>) -> String {
    let look = TerminalStyle { width: width.max(40), blocks, paint };
    let mut text = format!("{}\n", report.title);
    if !report.facts.is_empty() {
        text.push_str(&format!("{}\n", report.facts.join(", ")));
    }
    for section in &report.sections {
        text.push_str(&format!("\n{}\n{}\n", section.title, "=".repeat(section.title.len())));
        section.blocks.iter().for_each(|block| text.push_str(&look.block(block)));
    }
    // A name in a document must not steer the terminal; colours come after.
    if blocks { text } else { ascii(&text) }
}

/// The same words in ASCII.
fn ascii(text: &str) -> String {
    let text = text.replace('µ', "u").replace('–', "-").replace('…', "...").replace('·', ",");
    let text = text.replace('\u{202f}', "").replace(['\u{201c}', '\u{201d}'], "\"");
    text.chars().map(|c| if c.is_ascii() { c } else { '?' }).collect()
}

impl TerminalStyle<'_> {
    fn block(&self, block: &ReportBlock) -> String {
        let list = |items: &[String]| -> String {
            fold(
                &items.iter().map(|it| format!("  - {}\n", safe(it))).collect::<String>(),
                self.width,
            )
        };
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
                    let details = card.details.iter().map(|it| format!("      {}\n", safe(it)));
                    text.push_str(&details.collect::<String>());
                }
                fold(&text, self.width)
            }
            ReportBlock::Doubts { title, items } => {
                let title = (self.paint)(TextTone::Doubt, &format!("? {}", safe(title)));
                fold(&format!("\n{title}\n"), self.width) + &list(items)
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
            ReportBlock::List(items) => list(items),
            // What is folded on a page is left out here: --json and the page have it.
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
        rows.extend(table.rows.iter().map(|row| row.iter().map(words_of).collect::<Vec<_>>()));
        let caption = fold(&format!("\n{}\n", safe(&table.caption)), self.width);
        caption + &fit("  ", &columns, &rows, self.width)
    }

    fn picture(&self, picture: &Picture) -> String {
        let drawn = match &picture.drawing {
            Drawing::Map(map) => fold(&self::map(map), self.width),
            Drawing::Bars(bars) => self.bars(bars),
            Drawing::Curves(curves) if curves.x.log => self.histogram(curves),
            Drawing::Curves(curves) => self.moments(curves),
        };
        fold(&format!("\n{}\n", safe(&picture.title)), self.width) + &drawn
    }

    /// A bar for a part of the whole.
    fn bar(&self, part: f64, width: usize) -> String {
        let eighths = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
        let n = (part.clamp(0.0, 1.0) * words::float(width as u64) * 8.0).round() as usize;
        // What is there at all is seen.
        let n = n.max(usize::from(part > 0.0));
        match self.blocks {
            true => "█".repeat(n / 8) + eighths.get(n % 8).copied().unwrap_or(""),
            false => "#".repeat(n.div_ceil(8)),
        }
    }

    fn bars(&self, bars: &BarChart) -> String {
        let known = bars.rows.iter().flat_map(|row| &row.amounts).filter_map(|it| match it {
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
                text.push_str(&format!("    {:<20} {shown}\n", cut(name, 20)));
            }
        }
        text
    }

    /// A row for each half of a power of ten, a bar for each document.
    fn histogram(&self, curves: &CurveChart) -> String {
        let mut text = "  bars on a logarithmic scale\n".to_owned();
        let most = curves.y.to.log10();
        for curve in &curves.series {
            text.push_str(&format!("  {}\n", safe(&curve.label)));
            for (from, to, count) in rows(curve) {
                // A single event has a bar too.
                let part = (count.log10() + 0.3) / (most + 0.3);
                let bar = self.bar(part, self.width.saturating_sub(40));
                let span = format!("{} to {}", words::time(from), words::time(to));
                text.push_str(&format!("    {span:>18} {bar} {}\n", words::plain(count)));
            }
        }
        text
    }

    /// A character for each part of the run, higher for later.
    fn moments(&self, curves: &CurveChart) -> String {
        let signs: Vec<char> = match self.blocks {
            true => "▁▂▃▄▅▆▇█".chars().collect(),
            false => "_.:-=+*#".chars().collect(),
        };
        let columns = self.width.saturating_sub(6).min(96);
        let (low, high) = (curves.y.from.ln(), curves.y.to.ln());
        let mut text = String::new();
        for curve in &curves.series {
            let sign = |n: usize| {
                let at =
                    |n: usize| curves.x.to * words::float(n as u64) / words::float(columns as u64);
                let inside = curve.steps.iter().filter(|s| s.0 < at(n + 1) && s.1 > at(n));
                let Some(worst) = inside.map(|step| step.2).reduce(f64::max) else { return ' ' };
                let part = ((worst.ln() - low) / (high - low)).clamp(0.0, 0.999);
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "small"
                )]
                let nth = (part * words::float(signs.len() as u64)) as usize;
                signs.get(nth).copied().unwrap_or(' ')
            };
            let line: String = (0..columns).map(sign).collect();
            text.push_str(&format!("  {}\n    {line}\n", safe(&curve.label)));
            let worst = curve.marks.first().map(|(_, _, said)| format!("    worst {said}\n"));
            text.push_str(&worst.unwrap_or_default());
        }
        let (low, high) = (words::time(curves.y.from), words::time(curves.y.to));
        format!(
            "{text}    0 to {}, {low} to {high} (logarithmic); blank: no sample\n",
            words::time(curves.x.to)
        )
    }
}

/// The steps of a curve in rows of half a power of ten.
fn rows(curve: &Curve) -> Vec<(f64, f64, f64)> {
    let edges: Vec<f64> = (0..13).flat_map(|n| [1.0, 3.0].map(|m| m * 10.0_f64.powi(n))).collect();
    let count = |from: f64, to: f64| -> f64 {
        let middle = |step: &&(f64, f64, f64)| (step.0 * step.1).sqrt();
        let inside = curve.steps.iter().filter(|s| middle(s) >= from && middle(s) < to);
        inside.map(|step| step.2).sum()
    };
    let pairs = edges.iter().zip(edges.iter().skip(1));
    pairs.map(|(from, to)| (*from, *to, count(*from, *to))).filter(|row| row.2 > 0.0).collect()
}

/// Packages, what they share, and CPUs; a shielded one is in brackets.
fn map(map: &CpuMap) -> String {
    let mut text = String::new();
    for package in &map.packages {
        for group in &package.groups {
            let names = [package.name.as_str(), group.name.as_str()];
            let names: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
            let cores = group.clusters.iter().flat_map(|cluster| &cluster.cores);
            let core = |core: &super::block::Core| {
                let cpu = |(cpu, role): &(usize, MapRole)| match role {
                    MapRole::Shielded => format!("[{cpu}]"),
                    MapRole::Idle => format!("({cpu})"),
                    MapRole::Isolated => format!("<{cpu}>"),
                    _ => cpu.to_string(),
                };
                core.cpus.iter().map(cpu).collect::<Vec<_>>().join("+")
            };
            let cores: Vec<String> = cores.map(core).collect();
            let name = if names.is_empty() { "CPUs".to_owned() } else { names.join(", ") };
            text.push_str(&format!("  {name}: {}\n", cores.join(" ")));
        }
    }
    if !map.offline.is_empty() {
        text.push_str(&format!("  offline: {}\n", map.offline));
    }
    text + "  [shielded]  (kept idle)  <isolated at boot>  a+b: threads of one core\n"
}

fn words_of(cell: &TableCell) -> String {
    safe(&cell.text)
}

/// A name that is too long for its column.
fn cut(name: &str, most: usize) -> String {
    safe(name).chars().take(most).collect()
}

/// A text that cannot steer the terminal, in one line.
fn safe(text: &str) -> String {
    super::html::clean(text).replace(['\n', '\r', '\t'], " ")
}
