//! Experiment → text: the table in the form of the LinuxCNC wiki, then what it means. The table has
//! a row for each configuration and a column for each measurement, and shows the worst of all
//! repetitions. Pure.

use super::TextStyle;
use super::table::{Align, columns_of, fit, fold, lay_out, many, span};
use crate::experiment::{
    BestRow, DryRun, EffectMeaning, Experiment, ExperimentRow, ExperimentRun, ExperimentState,
    OptionEffect, RankedFigure,
};
use crate::plan::named;
use std::fmt::Write;

type CellPainter<'a> = &'a dyn Fn(TextStyle, &str) -> String;

/// The text, no wider than `width` where that is possible; `paint` colours words.
#[must_use]
pub fn text(experiment: &Experiment, width: usize, paint: CellPainter<'_>) -> String {
    let mut text = format!("{}\n", headline(experiment, paint));
    text.push_str(&fold(&environment(experiment), width));
    text.push('\n');
    text.push_str(&table(experiment, width));
    text.push_str(&fold(&legend(experiment), width));
    let more = [
        price(experiment, paint),
        best(experiment, paint),
        effects(experiment, width, paint),
        problems(experiment, paint),
    ];
    for part in more {
        text.push_str(&fold(&part, width));
    }
    for note in &experiment.notes {
        text.push_str(&fold(&format!("note: {note}\n"), width));
    }
    text
}

/// The text of `cpushield experiment run --dry-run`.
#[must_use]
pub fn dry_run_text(dry_run: &DryRun, width: usize) -> String {
    let mut text = format!(
        "Experiment {}: {} of {}, {} of measuring, {}\n",
        dry_run.name,
        many(dry_run.measurements, "measurement"),
        named(&dry_run.cpus),
        long_span(dry_run.span_ns),
        many(dry_run.reboots, "reboot"),
    );
    for (n, name) in (1..).zip(&dry_run.rows) {
        let _ = writeln!(text, "  {n}  {name}");
    }
    text.push_str("Order of the rows, each with all columns\n");
    for boot in &dry_run.boot_periods {
        let parameters =
            if boot.boot.is_empty() { "as booted now".to_owned() } else { boot.boot.join(" ") };
        let rows: Vec<String> = boot.rows.iter().map(usize::to_string).collect();
        let _ = writeln!(text, "  {parameters}: {}", rows.join(" "));
    }
    if !dry_run.skipped.is_empty() {
        // A name may contain commas.
        let rows: Vec<String> = dry_run.skipped.iter().map(|name| format!("{name:?}")).collect();
        let _ = writeln!(text, "  not run without --reboot: {}", rows.join(", "));
    }
    text.push_str("dry run: nothing was changed\n");
    fold(&text, width)
}

/// A time span in minutes or hours.
fn long_span(ns: u64) -> String {
    let minutes = ns / 60_000_000_000;
    match minutes {
        0 | 1 => span(ns),
        2..=119 => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

fn headline(experiment: &Experiment, paint: CellPainter<'_>) -> String {
    let measured: usize = experiment.cells.iter().map(|cell| cell.runs.len()).sum();
    let all = experiment.rows.len() * experiment.columns.len() * experiment.repeats;
    let state = match experiment.state {
        ExperimentState::Finished => format!("{measured} of {all} measurements"),
        ExperimentState::Unfinished => {
            format!("unfinished, {measured} of {all} measurements so far")
        }
        ExperimentState::Stopped => format!("stopped, {measured} of {all} measurements"),
    };
    format!(
        "{} on CPU {} ({state}, {} each)",
        paint(TextStyle::Head, &format!("Experiment {}", experiment.name)),
        experiment.cpus,
        span(experiment.span_ns)
    )
}

/// The machine, its firmware and its kernel: a line for each fact that is known.
fn environment(experiment: &Experiment) -> String {
    let setup = &experiment.setup;
    let mut kernel = setup.kernel.clone();
    if let (Some(kernel), Some(true)) = (&mut kernel, setup.realtime) {
        kernel.push_str(" (PREEMPT_RT)");
    }
    let settings = Some(setup.settings.join("; ")).filter(|settings| !settings.is_empty());
    let known = [
        ("machine", &setup.machine),
        ("board", &setup.board),
        ("firmware", &setup.firmware),
        ("processor", &setup.processor),
        ("settings", &settings),
        ("hypervisor", &setup.hypervisor),
        ("distribution", &setup.distribution),
        ("kernel", &kernel),
        ("parameters of every row", &setup.cmdline),
    ];
    let mut text = String::new();
    for (name, value) in known {
        if let Some(value) = value {
            let _ = writeln!(text, "  {name}: {value}");
        }
    }
    text
}

/// The head of a column: its name, and the period where the measurement has several.
fn head(experiment: &Experiment, (column, period_ns): (usize, u64)) -> String {
    let Some(column) = experiment.columns.get(column) else { return String::new() };
    let mut head = column.name.clone();
    if column.periods_ns.len() > 1 {
        let _ = write!(head, " {}", period(period_ns));
    }
    head
}

/// A period without trailing zeros: `25 µs`.
fn period(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs")];
    let whole = units.iter().find(|(scale, _)| ns >= *scale && ns.is_multiple_of(*scale));
    whole.map_or_else(|| format!("{ns} ns"), |(scale, unit)| format!("{} {unit}", ns / scale))
}

/// The table of the figures, split into several tables where its columns do not fit side by side.
fn table(experiment: &Experiment, width: usize) -> String {
    let mut names = vec!["configuration".to_owned()];
    names.extend(experiment.rows.iter().map(|row| row.name.clone()));
    let mut columns: Vec<Vec<String>> = Vec::new();
    for track in experiment.tracks() {
        let mut column = vec![head(experiment, track)];
        column.extend((0..experiment.rows.len()).map(|row| worst_cell(experiment, row, track)));
        columns.push(column);
    }
    let mut text = String::new();
    let mut rest = columns.as_slice();
    while !rest.is_empty() {
        let room = width.saturating_sub(2 + column_width(&names).min(width / 2));
        let mut used = 0;
        let fitting = rest.iter().take_while(|column| {
            used += column_width(column);
            used <= room + 2
        });
        let (now, later) = rest.split_at(fitting.count().max(1));
        rest = later;
        let lines: Vec<Vec<String>> = (0..names.len())
            .map(|n| {
                let columns = [&names].into_iter().chain(now);
                columns.map(|column| column.get(n).cloned().unwrap_or_default()).collect()
            })
            .collect();
        let align: Vec<Align> =
            [Align::Left].into_iter().chain(now.iter().map(|_| Align::Right)).collect();
        text.push_str(&fit("  ", &align, &lines, width));
        text.push('\n');
    }
    text
}

/// The width of a column with the two blanks after it.
fn column_width(cells: &[String]) -> usize {
    cells.iter().map(|cell| columns_of(cell)).max().unwrap_or(0) + 2
}

/// The worst of all repetitions, with `*` when one of them is doubtful.
fn worst_cell(experiment: &Experiment, row: usize, track: (usize, u64)) -> String {
    let Some(worst) = experiment.figures(row, track).into_iter().max() else {
        return "-".to_owned();
    };
    let doubtful = experiment.runs(row, track.0).iter().any(ExperimentRun::is_doubtful);
    format!("{}{}", span(worst), if doubtful { "*" } else { "" })
}

fn legend(experiment: &Experiment) -> String {
    let mut kinds = Vec::new();
    for track in experiment.tracks() {
        let kind = match experiment.figure(track) {
            RankedFigure::MaxJitter => "max jitter (as LinuxCNC's latency test defines it)",
            RankedFigure::Worst => "longest latency",
        };
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let mut text = format!(
        "  {}, the worst of {} in alternating order; * doubtful, - not measured\n",
        kinds.join(", or "),
        many(experiment.repeats, "repetition")
    );
    for column in &experiment.columns {
        let periods: Vec<String> =
            column.periods_ns.iter().filter(|ns| **ns > 0).map(|ns| period(*ns)).collect();
        let threads =
            if periods.is_empty() { String::new() } else { format!(" {}", periods.join(" and ")) };
        let policy = if column.other { ", ordinary threads" } else { ", real-time threads" };
        let load = if column.load.is_empty() {
            "no load".to_owned()
        } else {
            format!("load: {}", column.load.join(", "))
        };
        let _ = writeln!(text, "  {}: {}{threads}{policy}, {load}", column.name, column.instrument);
    }
    text
}

/// The quoted name of a row.
fn quoted_name(experiment: &Experiment, row: usize) -> String {
    experiment.rows.get(row).map_or_else(String::new, |row| format!("\"{}\"", row.name))
}

fn best(experiment: &Experiment, paint: CellPainter<'_>) -> String {
    let mut text = String::new();
    for best in &experiment.best {
        let head = head(experiment, (best.column, best.period_ns));
        let _ = writeln!(text, "  {head}: {}", describe_best(experiment, best, paint));
    }
    if text.is_empty() { text } else { format!("\n{}\n{text}", paint(TextStyle::Head, "The best")) }
}

fn describe_best(experiment: &Experiment, best: &BestRow, paint: CellPainter<'_>) -> String {
    let why = &best.why;
    match best.winner {
        Some(winner) => {
            format!("{} ({why})", paint(TextStyle::Good, &quoted_name(experiment, winner)))
        }
        None => {
            let among: Vec<String> =
                best.among.iter().map(|row| quoted_name(experiment, *row)).collect();
            let none = paint(TextStyle::Doubt, "no winner");
            match among.as_slice() {
                [] | [_] => format!("{none}: {why}"),
                among => format!("{none} among {}: {why}", among.join(", ")),
            }
        }
    }
}

fn effects(experiment: &Experiment, width: usize, paint: CellPainter<'_>) -> String {
    if experiment.effects.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> =
        experiment.effects.iter().map(|effect| effect_row(experiment, effect)).collect();
    let columns = [Align::Left, Align::Left, Align::Left, Align::Right, Align::Left];
    let head = paint(TextStyle::Head, "The effect of each option alone");
    format!("\n{head}\n{}", fit("  ", &columns, &rows, width))
}

fn effect_row(experiment: &Experiment, effect: &OptionEffect) -> Vec<String> {
    let word = match effect.verdict {
        EffectMeaning::Better => "better",
        EffectMeaning::Worse => "worse",
        EffectMeaning::Chance => "no difference shown",
        EffectMeaning::Unknown => "unknown",
    };
    let (without, with) =
        (quoted_name(experiment, effect.without), quoted_name(experiment, effect.with));
    vec![
        effect.option.clone(),
        format!("{without} → {with}"),
        head(experiment, (effect.column, effect.period_ns)),
        effect.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("× {ratio:.2}")),
        format!("{word} ({})", effect.why),
    ]
}

/// The throughput of the loads in each row: the price of a shield next to its gain.
fn price(experiment: &Experiment, paint: CellPainter<'_>) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (n, column) in experiment.columns.iter().enumerate() {
        let mut base: Vec<(String, f64)> = Vec::new();
        for (index, row) in experiment.rows.iter().enumerate() {
            for (load, unit, mean) in experiment.mean_throughputs(index, n) {
                let first = base.iter().find(|(name, _)| *name == load).map(|(_, mean)| *mean);
                let times = first.filter(|first| *first > 0.0).map(|first| mean / first);
                rows.push(vec![
                    row.name.clone(),
                    column.name.clone(),
                    load.clone(),
                    format!("{mean:.0} {unit}/s"),
                    times.map_or_else(String::new, |times| format!("× {times:.2}")),
                ]);
                if first.is_none() {
                    base.push((load, mean));
                }
            }
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let columns = [Align::Left, Align::Left, Align::Left, Align::Right, Align::Right];
    let head = paint(TextStyle::Head, "Mean throughput of the load during the measurements");
    format!("\n{head}\n{}", lay_out("  ", &columns, &rows))
}

/// What is missing and what is doubtful; each row shows each reason once.
fn problems(experiment: &Experiment, paint: CellPainter<'_>) -> String {
    let mut lines: Vec<Vec<String>> = Vec::new();
    for (index, row) in experiment.rows.iter().enumerate() {
        for (style, why) in row_problems(experiment, index, row) {
            let what = if style == TextStyle::Bad { "not measured" } else { "doubtful" };
            lines.push(vec![format!("{}:", row.name), paint(style, what), why]);
        }
    }
    if lines.is_empty() {
        return String::new();
    }
    let columns = [Align::Left, Align::Left, Align::Left];
    format!("\n{}", lay_out("  ", &columns, &lines))
}

/// What is missing in a row and what is doubtful, each reason once.
fn row_problems(
    experiment: &Experiment,
    index: usize,
    row: &ExperimentRow,
) -> Vec<(TextStyle, String)> {
    let cells = experiment.cells.iter().filter(|cell| cell.row == index);
    let missed = cells.clone().flat_map(|cell| &cell.missing).map(|missed| &missed.why);
    let missing = row.missing.iter().chain(missed).map(|why| (TextStyle::Bad, why.to_string()));
    let doubts = cells.flat_map(|cell| &cell.runs).flat_map(|run| &run.doubts);
    let doubts = doubts.map(|doubt| (TextStyle::Doubt, doubt.to_string()));
    let mut problems: Vec<(TextStyle, String)> = Vec::new();
    for problem in missing.chain(doubts) {
        if !problems.contains(&problem) {
            problems.push(problem);
        }
    }
    problems
}
