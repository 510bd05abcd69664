//! The view of a [`LiveFrame`]: lines as wide as the terminal. A narrow terminal shows the most
//! important columns. Every tone comes with a sign of the same meaning.

use super::model::{CpuLine, CpuRole, LiveFrame};
use crate::causes::Cause;
use crate::documents::evidence::WitnessKind;
use crate::report::blocks::{TextLine, TextPart, TextTone};
use crate::report::table::{columns_of, pad, truncate};

/// The options of the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ViewOptions {
    /// Whether housekeeping CPUs are hidden.
    pub shielded_only: bool,
    /// Lines of CPUs that are scrolled off the top.
    pub scroll: usize,
}

/// The columns of rates: head, causes, and the terminal width from which it is shown.
const RATES: &[(&str, &[Cause], usize)] = &[
    ("timer/s", &[Cause::Tick, Cause::Hrtimer, Cause::Timer], 66),
    ("irq/s", &[Cause::Irq], 76),
    ("ipi/s", &[Cause::IpiReschedule, Cause::IpiCall, Cause::IpiIrqWork], 90),
    ("softirq/s", &[Cause::Softirq], 120),
];

/// The width of a rate column, with the blank before it.
const RATE_WIDTH: usize = 10;
/// The terminal widths from which tasks, busy time and the trend are shown.
const TASKS_FROM: usize = 108;
const BUSY_FROM: usize = 98;
const TREND_FROM: usize = 144;
/// Intervals of the trend.
const TREND: usize = 16;

/// The lines of a whole screen: each is as wide as the screen.
#[must_use]
pub fn screen_lines(
    frame: &LiveFrame,
    options: ViewOptions,
    (width, height): (usize, usize),
) -> Vec<TextLine> {
    let mut lines = head_lines(frame, width);
    let room = height.saturating_sub(lines.len() + 1);
    let body = body_lines(frame, options, width);
    // The last line stays visible.
    let most = body.len().saturating_sub(room);
    let scroll = options.scroll.min(most);
    lines.extend(body.into_iter().skip(scroll).take(room));
    lines.resize(height.saturating_sub(1), TextLine::default());
    lines.push(foot_line(frame, options, most - scroll, width));
    lines.truncate(height);
    for line in &mut lines {
        line.parts.push(TextPart::new(pad("", width.saturating_sub(columns_of(&line.text())))));
    }
    lines
}

/// The view as plain lines of text, with all CPUs.
#[must_use]
pub fn plain_lines(frame: &LiveFrame, width: usize) -> Vec<String> {
    let mut lines = head_lines(frame, width);
    lines.extend(body_lines(frame, ViewOptions::default(), width));
    lines.into_iter().map(|line| line.text().trim_end().to_owned()).collect()
}

/// A summary line, and the heads of the columns.
fn head_lines(frame: &LiveFrame, width: usize) -> Vec<TextLine> {
    let shielded = frame.cpus.iter().filter(|line| line.role == CpuRole::Shielded);
    let quiet = shielded.clone().filter(|line| line.entries_per_s == Some(0.0)).count();
    let mut words = format!("{} CPUs, ", frame.cpus.len());
    match shielded.count() {
        0 if frame.cpus.iter().any(|line| line.role == CpuRole::Unknown) => {
            words.push_str("unknown which are shielded");
        }
        0 => words.push_str("none shielded"),
        all => words.push_str(&format!("{all} shielded, {quiet} of them quiet")),
    }
    if let Some(from) = &frame.from {
        words.push_str(&format!(" · watching from CPU {from}"));
    }
    let seconds = frame.interval_ms as f64 / 1e3;
    words.push_str(&format!(" · every {seconds:.1} s"));
    let mut columns = format!("  {:<5}{:<13}{:>9}", "CPU", "role", "entries/s");
    for (name, _, _) in RATES.iter().filter(|(_, _, from)| width >= *from) {
        columns.push_str(&format!("{name:>RATE_WIDTH$}"));
    }
    if width >= TASKS_FROM {
        columns.push_str(&format!("{:>RATE_WIDTH$}", "tasks/s"));
    }
    if width >= BUSY_FROM {
        columns.push_str(&format!("{:>7}", "busy"));
    }
    if width >= TREND_FROM {
        columns.push_str(&format!("  {:<TREND$}", "trend"));
    }
    columns.push_str("  last culprit");
    [words, columns].map(|text| toned(TextTone::Head, &text, width)).into()
}

fn body_lines(frame: &LiveFrame, options: ViewOptions, width: usize) -> Vec<TextLine> {
    let mut lines = Vec::new();
    let mut place = None;
    for cpu in &frame.cpus {
        if options.shielded_only && cpu.role == CpuRole::Housekeeping {
            continue;
        }
        if place.replace((cpu.node, cpu.package)) != Some((cpu.node, cpu.package)) {
            lines.push(toned(TextTone::Head, &title(frame, cpu), width));
        }
        lines.push(cpu_line(frame, cpu, width));
    }
    if lines.is_empty() {
        lines.push(toned(TextTone::Plain, "no CPU is shielded or isolated", width));
    }
    lines
}

/// `node 0 · package 0 · CPU 0-7`.
fn title(frame: &LiveFrame, first: &CpuLine) -> String {
    let mut words = Vec::new();
    words.extend(first.node.map(|node| format!("node {node}")));
    words.extend(first.package.map(|package| format!("package {package}")));
    let same_place =
        frame.cpus.iter().filter(|c| (c.node, c.package) == (first.node, first.package));
    let cpus: cpushield_linux::CpuSet = same_place.map(|line| line.cpu).collect();
    words.push(format!("CPU {cpus}"));
    words.join(" · ")
}

fn cpu_line(frame: &LiveFrame, cpu: &CpuLine, width: usize) -> TextLine {
    let entries = cpu.entries_per_s;
    let (sign, word, tone) = match (cpu.role, entries) {
        (CpuRole::Shielded, Some(0.0)) => ('●', "shielded", TextTone::Good),
        (CpuRole::Shielded, Some(_)) => ('!', "shielded", TextTone::Bad),
        (CpuRole::Shielded, None) => ('?', "shielded", TextTone::Doubt),
        (CpuRole::Idle, _) => ('○', "idle", TextTone::Plain),
        (CpuRole::Isolated, _) => ('○', "isolated", TextTone::Plain),
        (CpuRole::Unknown, _) => ('?', "unknown", TextTone::Plain),
        (CpuRole::Housekeeping, _) => (' ', "housekeeping", TextTone::Dim),
    };
    let head =
        format!("{sign}{}{:<5}{word:<13}{:>9}", branch(frame, cpu), cpu.cpu, format_rate(entries));
    let mut rest = String::new();
    for (_, causes, _) in RATES.iter().filter(|(_, _, from)| width >= *from) {
        let known = entries.filter(|_| !causes.iter().any(|cause| cpu.unseen.contains(cause)));
        let rates = causes.iter().filter_map(|cause| cpu.causes_per_s.get(cause));
        let sum = known.map(|_| rates.sum::<f64>());
        rest.push_str(&format!("{:>RATE_WIDTH$}", format_rate(sum)));
    }
    if width >= TASKS_FROM {
        rest.push_str(&format!("{:>RATE_WIDTH$}", format_rate(cpu.switches_per_s)));
    }
    if width >= BUSY_FROM {
        let busy = cpu.busy_percent.map_or("?".to_owned(), |percent| format!("{percent:.0}%"));
        rest.push_str(&format!("{busy:>7}"));
    }
    if width >= TREND_FROM {
        rest.push_str(&format!("  {:<TREND$}", trend(&cpu.history)));
    }
    let left = width.saturating_sub(columns_of(&head) + columns_of(&rest));
    let last = truncate(&format!("  {}", last_culprit(cpu)), left);
    let plain = if cpu.role == CpuRole::Housekeeping { tone } else { TextTone::Plain };
    let last_tone = if cpu.doubts.is_empty() { plain } else { TextTone::Doubt };
    TextLine::of(vec![
        TextPart::toned(tone, truncate(&head, width)),
        TextPart::toned(plain, rest),
        TextPart::toned(last_tone, last),
    ])
}

/// The bracket that joins the threads of one core.
fn branch(frame: &LiveFrame, cpu: &CpuLine) -> char {
    let mut siblings = frame.cpus.iter().filter(|other| cpu.siblings.contains(other.cpu));
    let first = siblings.next();
    let last = siblings.next_back().or(first);
    match (first, last) {
        (Some(first), Some(last)) if first.cpu == last.cpu => ' ',
        (Some(first), _) if first.cpu == cpu.cpu => '┌',
        (_, Some(last)) if last.cpu == cpu.cpu => '└',
        _ => '│',
    }
}

/// The last culprit, how long ago it was seen, and the first doubt.
fn last_culprit(cpu: &CpuLine) -> String {
    let mut words = match &cpu.last {
        None => "-".to_owned(),
        Some(last) => {
            // The culprit `IRQ 24 nvme0q1` already contains its kind.
            let kind = if last.cause == Cause::Irq { "" } else { last.cause.name() };
            let mut words = format!("{kind} {}", last.culprit).trim().to_owned();
            if last.ms_ago > 0 {
                words.push_str(&format!(", {} ago", format_age(last.ms_ago)));
            }
            words
        }
    };
    if let Some(doubt) = cpu.doubts.first() {
        words.push_str(&format!(" ({doubt})"));
    }
    words
}

fn format_age(ms: u64) -> String {
    match ms / 1000 {
        0 => format!("{ms} ms"),
        seconds if seconds < 120 => format!("{seconds} s"),
        seconds if seconds < 7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

/// A rate; `?` when it is unknown, so that it is not mistaken for 0.
fn format_rate(rate: Option<f64>) -> String {
    match rate {
        None => "?".to_owned(),
        Some(0.0) => "0".to_owned(),
        Some(rate) if rate < 10.0 => format!("{rate:.1}"),
        Some(rate) if rate < 1e6 => format!("{rate:.0}"),
        Some(rate) => format!("{:.1}M", rate / 1e6),
    }
}

/// Bars relative to the highest one. A rate of 0 is a blank, a low rate the lowest bar.
fn trend(history: &[f64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = &history[history.len().saturating_sub(TREND)..];
    let most = shown.iter().copied().fold(0.0, f64::max);
    let bars = shown.iter().map(|rate| {
        if *rate <= 0.0 || most <= 0.0 {
            return ' ';
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 7")]
        let step = (rate / most * 7.0).round() as usize;
        BARS.get(step).copied().unwrap_or('█')
    });
    bars.collect()
}

/// The keys, and the witnesses of the figures.
fn foot_line(frame: &LiveFrame, options: ViewOptions, below: usize, width: usize) -> TextLine {
    let mut words = String::from(" q quit · s ");
    words.push_str(if options.shielded_only { "all CPUs" } else { "shielded only" });
    if below > 0 || options.scroll > 0 {
        words.push_str(&format!(" · ↑↓ scroll ({below} more)"));
    }
    let traced = frame.cpus.iter().any(|line| line.witness == WitnessKind::Trace);
    words.push_str(if traced {
        " · shielded: trace, others: counters"
    } else {
        " · counters rarely show the culprit: use --trace"
    });
    toned(TextTone::Dim, &words, width)
}

fn toned(tone: TextTone, text: &str, width: usize) -> TextLine {
    TextLine::of(vec![TextPart::toned(tone, truncate(text, width))])
}

#[cfg(test)]
mod tests {
    use super::super::model::tests::frames;
    use super::*;
    use crate::documents::evidence::CpuDoubt;
    fn screen(width: usize, height: usize, options: ViewOptions) -> Vec<String> {
        let lines = screen_lines(&frames(4).pop().unwrap(), options, (width, height));
        assert_eq!(lines.len(), height);
        assert!(lines.iter().all(|line| columns_of(&line.text()) == width), "{lines:?}");
        lines.iter().map(|line| line.text().trim_end().to_owned()).collect()
    }

    #[test]
    fn eighty_columns_show_topology_roles_rates_and_culprits() {
        let expected = "\
8 CPUs, 1 shielded, 1 of them quiet · watching from CPU 0-4 · every 1.0 s
  CPU  role         entries/s   timer/s     irq/s  last culprit
node 0 · package 0 · CPU 0-3
 ┌0    housekeeping       290       250        40  IRQ 24 nvme0q1
 └1    housekeeping       250       250         0  tick local timer
 ┌2    housekeeping       250       250         0  tick local timer
 └3    housekeeping       250       250         0  tick local timer
node 1 · package 1 · CPU 4-7
 ┌4    housekeeping       250       250         0  tick local timer
○└5    isolated           250       250         0  tick local timer
●┌6    shielded             0         0         0  ipi-reschedule, 2 s ago
○└7    idle               250       250         0  tick local timer

 q quit · s shielded only · counters rarely show the culprit: use --trace";
        assert_eq!(screen(80, 14, ViewOptions::default()).join("\n"), expected);
    }

    #[test]
    fn a_wide_terminal_has_every_column_and_a_narrow_one_the_first() {
        let wide = screen(160, 14, ViewOptions::default());
        assert_eq!(
            wide[3],
            " ┌0    housekeeping       290       250        40         0         ?        10    75%  \
             ████              IRQ 24 nvme0q1"
        );
        let narrow = screen(40, 14, ViewOptions::default());
        assert_eq!(narrow[1], "  CPU  role         entries/s  last cul…");
        assert_eq!(narrow[3], " ┌0    housekeeping       290  IRQ 24 n…");
        // No size causes a panic.
        for (width, height) in [(1, 1), (7, 2), (24, 3), (300, 2), (80, 4)] {
            screen(width, height, ViewOptions { scroll: 99, ..ViewOptions::default() });
        }
    }

    #[test]
    fn without_the_journal_every_role_is_unknown() {
        let mut frame = frames(1).pop().unwrap();
        for cpu in &mut frame.cpus {
            cpu.role = CpuRole::Unknown;
        }
        let lines = plain_lines(&frame, 80);
        assert!(lines[0].contains("unknown which are shielded"), "{lines:?}");
        assert!(lines[3].starts_with("?┌0    unknown"), "{lines:?}");
        let text = lines.join("\n");
        assert!(!text.contains("housekeeping") && !text.contains("none shielded"), "{text}");
    }

    #[test]
    fn scrolling_ends_at_the_last_cpu_and_only_shielded_ones_can_be_shown() {
        let low = screen(80, 6, ViewOptions { scroll: 99, ..ViewOptions::default() });
        assert!(low[4].starts_with("○└7") && low[5].contains("(0 more)"), "{low:#?}");
        let top = screen(80, 6, ViewOptions::default());
        assert!(top[5].contains("↑↓ scroll (7 more)"), "{top:#?}");
        let few = screen(80, 9, ViewOptions { shielded_only: true, ..ViewOptions::default() });
        let signs: Vec<String> = few[3..6].iter().map(|l| l.chars().take(3).collect()).collect();
        assert_eq!(signs, ["○└5", "●┌6", "○└7"]);
    }

    #[test]
    fn every_tone_comes_with_a_sign() {
        let mut frame = frames(4).pop().unwrap();
        for (rate, tone, sign) in [
            (Some(0.0), TextTone::Good, '●'),
            (Some(5.0), TextTone::Bad, '!'),
            (None, TextTone::Doubt, '?'),
        ] {
            frame.cpus[6].entries_per_s = rate;
            let lines = screen_lines(&frame, ViewOptions::default(), (80, 14));
            let toned: Vec<&TextLine> =
                lines.iter().filter(|line| line.parts[0].tone == tone).collect();
            assert!(toned.len() == 1 && toned[0].text().starts_with(sign), "{toned:?}");
        }
    }

    #[test]
    fn an_unknown_rate_is_not_shown_as_zero() {
        let mut frame = frames(1).pop().unwrap();
        frame.cpus[6].entries_per_s = None;
        let answer = "cannot read /proc/interrupts".to_owned();
        frame.cpus[6].doubts = vec![CpuDoubt::CountersUnreadable { answer }];
        let lines = plain_lines(&frame, 110);
        let line = lines.iter().find(|line| line.contains("┌6")).unwrap();
        assert!(line.starts_with("?┌6    shielded             ?         ?"), "{line}");
        assert!(line.ends_with("- (cannot read /proc/interrupts)"), "{line}");
    }
}
