//! Experiment → text: the table of the LinuxCNC wiki (a row for each configuration, a column for
//! each measurement, the worst of all repetitions), then what it means. Pure.

use super::TextStyle;
use super::table::{Align, fit, fold, lay_out, many, span};
use crate::experiment::{
    BestRow, DryRun, EffectMeaning, Experiment, ExperimentRow, ExperimentState, OptionEffect,
    RankedFigure,
};
use crate::plan::named;
use std::fmt::Write;

type CellPainter<'a> = &'a dyn Fn(TextStyle, &str) -> String;

/// The text, no wider than `width` where that is possible; `paint` gives words their colour.
#[must_use]
pub fn text(experiment: &Experiment, width: usize, paint: CellPainter<'_>) -> String {
    let mut text = format!("{}\n", headline(experiment, paint));
    text.push_str(&fold(&scene(experiment), width));
    text.push('\n');
    text.push_str(&table(experiment, width));
    text.push_str(&fold(&legend(experiment), width));
    let more = [
        price(experiment, paint),
        best(experiment, paint),
        effects(experiment, width, paint),
        spoilt(experiment, paint),
    ];
    for part in more {
        text.push_str(&fold(&part, width));
    }
    for note in &experiment.notes {
        text.push_str(&fold(&format!("note: {note}\n"), width));
    }
    text
}

/// What an experiment would do.
#[must_use]
pub fn outlook(outlook: &DryRun, width: usize) -> String {
    let mut text = format!(
        "Experiment {}: {} of {}, {} of measuring, {}\n",
        outlook.name,
        many(outlook.measurements, "measurement"),
        named(&outlook.cpus),
        long(outlook.span_ns),
        many(outlook.reboots, "reboot"),
    );
    for (n, name) in (1..).zip(&outlook.rows) {
        let _ = writeln!(text, "  {n}  {name}");
    }
    text.push_str("Rows in this order, each with all columns\n");
    for stay in &outlook.stays {
        let boot =
            if stay.boot.is_empty() { "as booted now".to_owned() } else { stay.boot.join(" ") };
        let rows: Vec<String> = stay.rows.iter().map(usize::to_string).collect();
        let _ = writeln!(text, "  {boot}: {}", rows.join(" "));
    }
    if !outlook.left_out.is_empty() {
        // A name may have commas in it.
        let rows: Vec<String> = outlook.left_out.iter().map(|name| format!("{name:?}")).collect();
        let _ = writeln!(text, "  not run without --reboot: {}", rows.join(", "));
    }
    text.push_str("dry run: nothing was changed\n");
    fold(&text, width)
}

/// A time of minutes or hours.
fn long(ns: u64) -> String {
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

/// What it was measured on, a line for each thing that is known.
fn scene(experiment: &Experiment) -> String {
    let scene = &experiment.scene;
    let mut kernel = scene.kernel.clone();
    if let (Some(kernel), Some(true)) = (&mut kernel, scene.realtime) {
        kernel.push_str(" (PREEMPT_RT)");
    }
    let settings = Some(scene.settings.join("; ")).filter(|it| !it.is_empty());
    let known = [
        ("machine", &scene.machine),
        ("board", &scene.board),
        ("firmware", &scene.firmware),
        ("processor", &scene.processor),
        ("settings", &settings),
        ("hypervisor", &scene.hypervisor),
        ("distribution", &scene.distribution),
        ("kernel", &kernel),
        ("parameters of every row", &scene.cmdline),
    ];
    let mut text = String::new();
    for (name, value) in known {
        if let Some(value) = value {
            let _ = writeln!(text, "  {name}: {value}");
        }
    }
    text
}

/// The head of a column: its name, and the period where that tells it from another.
fn head(experiment: &Experiment, (column, period_ns): (usize, u64)) -> String {
    let Some(it) = experiment.columns.get(column) else { return String::new() };
    let mut head = it.name.clone();
    if it.periods_ns.len() > 1 {
        let _ = write!(head, " {}", period(period_ns));
    }
    head
}

/// `25 µs`, without digits that say nothing.
fn period(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs")];
    let whole = units.iter().find(|(scale, _)| ns >= *scale && ns.is_multiple_of(*scale));
    whole.map_or_else(|| format!("{ns} ns"), |(scale, unit)| format!("{} {unit}", ns / scale))
}

/// Rows and columns, as many columns side by side as fit.
fn table(experiment: &Experiment, width: usize) -> String {
    let tracks = experiment.tracks();
    let name = |row: &ExperimentRow| row.name.clone();
    let cells: Vec<Vec<String>> = tracks
        .iter()
        .map(|track| {
            let cell = |row: usize| shown(experiment, row, *track);
            let heads = [head(experiment, *track)];
            heads.into_iter().chain((0..experiment.rows.len()).map(cell)).collect()
        })
        .collect();
    let names: Vec<String> =
        ["configuration".to_owned()].into_iter().chain(experiment.rows.iter().map(name)).collect();
    let wide = |cells: &[String]| cells.iter().map(|it| it.chars().count()).max().unwrap_or(0) + 2;
    let mut text = String::new();
    let mut rest = cells.as_slice();
    while !rest.is_empty() {
        let room = width.saturating_sub(2 + wide(&names).min(width / 2));
        let mut used = 0;
        let fits = rest.iter().take_while(|cells| {
            used += wide(cells);
            used <= room + 2
        });
        let (now, later) = rest.split_at(fits.count().max(1));
        rest = later;
        let line = |n: usize| -> Vec<String> {
            [&names]
                .into_iter()
                .chain(now)
                .map(|it| it.get(n).cloned().unwrap_or_default())
                .collect()
        };
        let lines: Vec<Vec<String>> = (0..names.len()).map(line).collect();
        let columns: Vec<Align> =
            [Align::Left].into_iter().chain(now.iter().map(|_| Align::Right)).collect();
        text.push_str(&fit("  ", &columns, &lines, width));
        text.push('\n');
    }
    text
}

/// The worst of all repetitions; `*` where one of them is doubtful.
fn shown(experiment: &Experiment, row: usize, track: (usize, u64)) -> String {
    let Some(worst) = experiment.figures(row, track).into_iter().max() else {
        return "-".to_owned();
    };
    let runs = experiment.cell(row, track.0).map(|cell| cell.runs.as_slice()).unwrap_or_default();
    let doubtful = runs.iter().any(|run| !run.doubts.is_empty() || run.held == Some(false));
    format!("{}{}", span(worst), if doubtful { "*" } else { "" })
}

fn legend(experiment: &Experiment) -> String {
    let mut kinds = Vec::new();
    for track in experiment.tracks() {
        let kind = match experiment.figure(track) {
            RankedFigure::MaxJitter => "max jitter (as LinuxCNC's latency test has it)",
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

/// What a row is called in a sentence.
fn row(experiment: &Experiment, row: usize) -> String {
    experiment.rows.get(row).map_or_else(String::new, |row| format!("\"{}\"", row.name))
}

fn best(experiment: &Experiment, paint: CellPainter<'_>) -> String {
    let mut text = String::new();
    for one in &experiment.best {
        let track = (one.column, one.period_ns);
        let _ = writeln!(text, "  {}: {}", head(experiment, track), judged(experiment, one, paint));
    }
    if text.is_empty() { text } else { format!("\n{}\n{text}", paint(TextStyle::Head, "The best")) }
}

fn judged(experiment: &Experiment, best: &BestRow, paint: CellPainter<'_>) -> String {
    let why = &best.why;
    match best.winner {
        Some(winner) => format!("{} ({why})", paint(TextStyle::Good, &row(experiment, winner))),
        None => {
            let among: Vec<String> = best.among.iter().map(|it| row(experiment, *it)).collect();
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
    let line = |effect: &OptionEffect| {
        let track = (effect.column, effect.period_ns);
        let times = effect.ratio.map_or_else(|| "-".to_owned(), |it| format!("× {it:.2}"));
        let word = match effect.verdict {
            EffectMeaning::Better => "better",
            EffectMeaning::Worse => "worse",
            EffectMeaning::Chance => "no difference shown",
            EffectMeaning::Unknown => "not known",
        };
        let why = if effect.why.is_empty() { String::new() } else { format!(" ({})", effect.why) };
        vec![
            effect.option.clone(),
            format!("{} → {}", row(experiment, effect.without), row(experiment, effect.with)),
            head(experiment, track),
            times,
            format!("{word}{why}"),
        ]
    };
    let rows: Vec<Vec<String>> = experiment.effects.iter().map(line).collect();
    let columns = [Align::Left, Align::Left, Align::Left, Align::Right, Align::Left];
    let head = paint(TextStyle::Head, "What each option does alone");
    format!("\n{head}\n{}", fit("  ", &columns, &rows, width))
}

/// What loads got done in each row: the price of a shield stands beside its gain.
fn price(experiment: &Experiment, paint: CellPainter<'_>) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (n, column) in experiment.columns.iter().enumerate() {
        let mut base: Vec<(String, f64)> = Vec::new();
        for (index, row) in experiment.rows.iter().enumerate() {
            for (load, unit, mean) in experiment.achieved(index, n) {
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

/// What is missing and what is doubtful, each reason once for its row.
fn spoilt(experiment: &Experiment, paint: CellPainter<'_>) -> String {
    let mut lines: Vec<Vec<String>> = Vec::new();
    for (index, row) in experiment.rows.iter().enumerate() {
        let cells = || experiment.cells.iter().filter(|cell| cell.row == index);
        let missing = cells().flat_map(|cell| &cell.missing).map(|it| it.why.clone());
        let mut reasons: Vec<(TextStyle, String)> = Vec::new();
        let why = row.missing.iter().cloned().chain(missing).map(|why| (TextStyle::Bad, why));
        let doubts = cells().flat_map(|cell| &cell.runs).flat_map(|run| &run.doubts);
        for reason in why.chain(doubts.map(|why| (TextStyle::Doubt, why.clone()))) {
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
        for (word, why) in reasons {
            let what = if word == TextStyle::Bad { "not measured" } else { "doubtful" };
            lines.push(vec![format!("{}:", row.name), paint(word, what), why]);
        }
    }
    if lines.is_empty() {
        return String::new();
    }
    let columns = [Align::Left, Align::Left, Align::Left];
    format!("\n{}", lay_out("  ", &columns, &lines))
}
