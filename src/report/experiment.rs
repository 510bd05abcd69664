//! Experiment → blocks: the table in the form of the LinuxCNC wiki, then what it means. The table
//! has a row for each configuration and a column for each measurement, and shows the worst of all
//! repetitions in nanoseconds. Pure.

use super::blocks::words;
use super::blocks::{
    ReportBlock, Table, TableCell, TableColumn, TableHead, TextLine, TextPart, TextTone,
};
use super::table::span;
use crate::documents::count_text::{joined, many};
use crate::documents::experiment::{
    BestRow, DryRun, EffectMeaning, Experiment, ExperimentSetup, ExperimentState, OptionEffect,
    RankedFigure,
};
use crate::documents::latency::{MeasuredPower, memory_size};
use crate::documents::plan::named;

/// The blocks of an experiment.
#[must_use]
pub fn blocks(experiment: &Experiment) -> Vec<ReportBlock> {
    let mut lines = vec![headline(experiment)];
    lines.extend(environment(&experiment.setup));
    let mut blocks = vec![
        ReportBlock::Lines(lines),
        ReportBlock::Space,
        ReportBlock::Table(matrix(experiment)),
        ReportBlock::Lines(legend(experiment)),
    ];
    blocks.extend(averages(experiment).into_block());
    blocks.extend(ReportBlock::doubts("Doubtful or not measured", doubts(experiment)));
    blocks.extend(price(experiment).into_block());
    if !experiment.best.is_empty() {
        let best = experiment.best.iter().map(|best| describe_best(experiment, best));
        blocks.push(ReportBlock::Heading("Best configurations".to_owned()));
        blocks.push(ReportBlock::Lines(best.collect()));
    }
    blocks.extend(effects(experiment).into_block());
    if !experiment.notes.is_empty() {
        let notes = experiment.notes.iter();
        let notes = notes.map(|note| TextLine::remark(TextTone::Plain, "note", note));
        blocks.push(ReportBlock::Lines(notes.collect()));
    }
    blocks
}

/// The blocks of `cpushield experiment run --dry-run`.
#[must_use]
pub fn dry_run_blocks(dry_run: &DryRun) -> Vec<ReportBlock> {
    let mut lines = vec![TextLine::new(format!(
        "Experiment {}: {} of {}, measuring time {}, {}",
        dry_run.name,
        many(dry_run.measurements, "measurement"),
        named(&dry_run.cpus),
        long_span(dry_run.span_ns),
        many(dry_run.reboots, "reboot"),
    ))];
    let rows = (1..).zip(&dry_run.rows);
    let several = dry_run.rows.iter().any(|row| row.cpus != dry_run.cpus);
    lines.extend(rows.map(|(n, row): (usize, _)| {
        let cpus = if several { format!(" ({})", named(&row.cpus)) } else { String::new() };
        TextLine::new(format!("{n}  {}{cpus}", row.name)).below()
    }));
    lines.push(TextLine::new("Order of the rows; each row is measured with all columns"));
    for boot in &dry_run.boot_periods {
        let parameters = if boot.boot.is_original() {
            "with the current boot parameters".to_owned()
        } else {
            boot.boot.to_string()
        };
        let rows = boot.rows.iter();
        lines.push(TextLine::new(format!("{parameters}: {}", joined(rows, " "))).below());
    }
    if !dry_run.skipped.is_empty() {
        // A name may contain commas.
        let rows = dry_run.skipped.iter().map(|name| format!("{name:?}"));
        let skipped = format!("not run without --reboot: {}", joined(rows, ", "));
        lines.push(TextLine::new(skipped).below());
    }
    lines.extend(describe_candidates(dry_run));
    lines.push(TextLine::new("dry run: nothing was changed"));
    vec![ReportBlock::Lines(lines)]
}

/// The sets of CPUs to try; nothing when there is no choice.
fn describe_candidates(dry_run: &DryRun) -> Vec<TextLine> {
    let candidates = &dry_run.candidates;
    if candidates.len() < 2 {
        return Vec::new();
    }
    let head = "CPUs worth trying; a row without `cpus` gets the first set:";
    let mut lines = vec![TextLine::new(head)];
    lines.extend(candidates.iter().map(|candidate| {
        TextLine::new(format!("cpus = \"{}\"  {}", candidate.cpus, candidate.explain())).below()
    }));
    lines
}

/// A time span in minutes or hours.
pub(super) fn long_span(ns: u64) -> String {
    let minutes = ns / 60_000_000_000;
    match minutes {
        0 | 1 => span(ns),
        2..=59 => format!("{minutes} min"),
        _ if minutes.is_multiple_of(60) => format!("{} h", minutes / 60),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

fn headline(experiment: &Experiment) -> TextLine {
    let measured: usize = experiment.cells.iter().map(|cell| cell.runs.len()).sum();
    let all = experiment.rows.len() * experiment.columns.len() * experiment.repeats;
    let state = match experiment.state {
        ExperimentState::Finished => format!("{measured} of {all} measurements"),
        ExperimentState::Unfinished => {
            format!("unfinished, {measured} of {all} measurements so far")
        }
        ExperimentState::Stopped => format!("stopped, {measured} of {all} measurements"),
    };
    let each = span(experiment.span_ns);
    let rest = format!(" on CPU {} ({state}, {each} each)", experiment.cpus);
    let name = TextPart::toned(TextTone::Head, format!("Experiment {}", experiment.name));
    TextLine::of(vec![name, TextPart::new(rest)])
}

/// The machine, its firmware and its kernel: a line for each fact that is known.
pub(super) fn environment(setup: &ExperimentSetup) -> Vec<TextLine> {
    let mut kernel = setup.kernel.clone();
    if let (Some(kernel), Some(true)) = (&mut kernel, setup.realtime) {
        kernel.push_str(" (PREEMPT_RT)");
    }
    let memory = setup.memory_kib.map(memory_size);
    let power = Some(setup.power.to_string()).filter(|_| setup.power != MeasuredPower::default());
    let settings = Some(setup.settings.join("; ")).filter(|settings| !settings.is_empty());
    let known = [
        ("machine", &setup.machine),
        ("board", &setup.board),
        ("firmware", &setup.firmware),
        ("processor", &setup.processor),
        ("memory", &memory),
        ("power management", &power),
        ("settings", &settings),
        ("hypervisor", &setup.hypervisor),
        ("distribution", &setup.distribution),
        ("kernel", &kernel),
        ("parameters of every row", &setup.cmdline),
    ];
    let known = known.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    known.map(|(name, value)| TextLine::new(format!("{name}: {value}")).below()).collect()
}

/// The name of a column, with the period where the measurement has several.
fn column_name(experiment: &Experiment, (column, period_ns): (usize, u64)) -> String {
    let Some(column) = experiment.columns.get(column) else { return String::new() };
    match column.periods_ns.len() {
        0 | 1 => column.name.clone(),
        _ => format!("{} {}", column.name, words::time(words::float(period_ns))),
    }
}

/// The worst of all repetitions, and below it the best of them where they differ.
fn matrix(experiment: &Experiment) -> Table {
    let tracks = experiment.tracks();
    let mut columns = vec![TableColumn::words("configuration")];
    let several = experiment.rows.iter().any(|row| row.cpus != experiment.cpus);
    columns.extend(several.then(|| TableColumn::words("CPUs")));
    columns
        .extend(tracks.iter().map(|track| TableColumn::numbers(column_name(experiment, *track))));
    let mut rows = Vec::new();
    for (n, row) in experiment.rows.iter().enumerate() {
        let mut cells = vec![TableCell::new(&row.name)];
        cells.extend(several.then(|| TableCell::new(&row.cpus)));
        cells.extend(tracks.iter().map(|track| worst_cell(experiment, n, *track)));
        rows.push(cells);
        let least: Vec<String> =
            tracks.iter().map(|track| least_of_several(experiment, n, *track)).collect();
        if least.iter().any(|text| !text.is_empty()) {
            let least = least.into_iter().map(TableCell::new);
            let first = if several { 2 } else { 1 };
            let empty = std::iter::repeat_n(TableCell::default(), first);
            rows.push(empty.chain(least).collect());
        }
    }
    let caption = format!("{}: the worst of all repetitions, in ns", experiment.name);
    Table { caption, head: TableHead::Names, columns, rows }
}

/// The average latency of each configuration.
fn averages(experiment: &Experiment) -> Table {
    let tracks = experiment.tracks();
    let mut columns = vec![TableColumn::words("configuration")];
    columns
        .extend(tracks.iter().map(|track| TableColumn::numbers(column_name(experiment, *track))));
    let mut rows = Vec::new();
    for (n, row) in experiment.rows.iter().enumerate() {
        let means: Vec<Option<u64>> =
            tracks.iter().map(|track| experiment.mean_ns(n, *track)).collect();
        if means.iter().any(Option::is_some) {
            let mut cells = vec![TableCell::new(&row.name)];
            let means = means.into_iter();
            cells.extend(means.map(|mean| TableCell::known(mean.map(words::grouped))));
            rows.push(cells);
        }
    }
    let caption = "Average latency in ns of the observed events, over all repetitions";
    Table::new(caption, columns, rows).with_head(TableHead::Caption)
}

/// The worst of all repetitions, with `*` when one of them is doubtful.
fn worst_cell(experiment: &Experiment, row: usize, track: (usize, u64)) -> TableCell {
    let Some(worst) = experiment.figures(row, track).into_iter().max() else {
        return TableCell::toned(TextTone::Doubt, "-");
    };
    let wins = (experiment.best.iter())
        .any(|best| (best.column, best.period_ns) == track && best.winner == Some(row));
    let tone = if wins { TextTone::Good } else { TextTone::Plain };
    let marked = experiment.rows.get(row).is_some_and(|row| row.isolation.is_marked());
    let doubtful = marked || experiment.is_doubtful(row, track.0);
    // Without events, the figure is the threshold that none reached.
    let tracks = experiment.runs(row, track.0).iter().filter_map(|run| run.track(track.1));
    let below = if tracks.map(|track| track.samples).sum::<u64>() == 0 { "<" } else { "" };
    let mark = if doubtful { "*" } else { "" };
    TableCell::toned(tone, format!("{below}{}{mark}", words::grouped(worst)))
}

/// `from 5,214`: the best of all repetitions; empty where they do not differ.
fn least_of_several(experiment: &Experiment, row: usize, track: (usize, u64)) -> String {
    let figures = experiment.figures(row, track);
    match (figures.iter().min(), figures.iter().max()) {
        (Some(least), Some(most)) if least < most => format!("from {}", words::grouped(*least)),
        _ => String::new(),
    }
}

fn legend(experiment: &Experiment) -> Vec<TextLine> {
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
    let repetitions = many(experiment.repeats, "repetition");
    let mut lines = vec![format!(
        "{}, in ns: the worst of {repetitions} in alternating order, and the best below it; \
         * doubtful, - not measured",
        kinds.join(", or "),
    )];
    for column in &experiment.columns {
        let periods = column.periods_ns.iter().filter(|ns| **ns > 0);
        let periods: Vec<String> = periods.map(|ns| words::time(words::float(*ns))).collect();
        let threads =
            if periods.is_empty() { String::new() } else { format!(" {}", periods.join(" and ")) };
        let policy = if column.other { ", ordinary threads" } else { ", real-time threads" };
        let load = if column.load.is_empty() {
            "no load".to_owned()
        } else {
            format!("load: {}", column.load.join(", "))
        };
        lines.push(format!("{}: {}{threads}{policy}, {load}", column.name, column.instrument));
    }
    lines.into_iter().map(|line| TextLine::new(line).below()).collect()
}

/// The quoted name of a row.
fn quoted_name(experiment: &Experiment, row: usize) -> String {
    experiment.rows.get(row).map_or_else(String::new, |row| format!("\"{}\"", row.name))
}

/// `LinuxCNC 25 µs: "shield" (shorter in 4 of 4 repetitions)`, or why there is no winner.
fn describe_best(experiment: &Experiment, best: &BestRow) -> TextLine {
    let why = &best.why;
    let column = column_name(experiment, (best.column, best.period_ns));
    let (tone, word, rest) = match best.winner {
        Some(winner) => (TextTone::Good, quoted_name(experiment, winner), format!(" ({why})")),
        None => {
            let among: Vec<String> =
                best.among.iter().map(|row| quoted_name(experiment, *row)).collect();
            let rest = match among.as_slice() {
                [] | [_] => format!(": {why}"),
                among => format!(" among {}: {why}", among.join(", ")),
            };
            (TextTone::Doubt, "no winner".to_owned(), rest)
        }
    };
    let column = TextPart::new(format!("{column}: "));
    let parts = vec![column, TextPart::toned(tone, word), TextPart::new(rest)];
    TextLine::of(parts).below()
}

fn effects(experiment: &Experiment) -> Table {
    let rows = experiment.effects.iter().map(|effect| effect_row(experiment, effect));
    let words = ["option", "without it → with it", "measurement"];
    let mut columns = TableColumn::words_and_numbers(&words, &["ratio"]);
    columns.push(TableColumn::words("latency"));
    Table::new("The effect of each option alone", columns, rows.collect())
        .with_head(TableHead::Caption)
}

fn effect_row(experiment: &Experiment, effect: &OptionEffect) -> Vec<TableCell> {
    let (tone, word) = match effect.verdict {
        EffectMeaning::Better => (TextTone::Good, "better"),
        EffectMeaning::Worse => (TextTone::Bad, "worse"),
        EffectMeaning::Chance => (TextTone::Plain, "no difference shown"),
        EffectMeaning::Unknown => (TextTone::Doubt, "unknown"),
    };
    let (without, with) =
        (quoted_name(experiment, effect.without), quoted_name(experiment, effect.with));
    vec![
        TableCell::new(&effect.option),
        TableCell::new(format!("{without} → {with}")),
        TableCell::new(column_name(experiment, (effect.column, effect.period_ns))),
        TableCell::new(
            effect.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("× {ratio:.2}")),
        ),
        TableCell::toned(tone, format!("{word} ({})", effect.why)),
    ]
}

/// The throughput of the loads in each row: the price of a shield next to its gain.
fn price(experiment: &Experiment) -> Table {
    let mut rows: Vec<Vec<TableCell>> = Vec::new();
    for (n, column) in experiment.columns.iter().enumerate() {
        let mut base: Vec<(String, f64)> = Vec::new();
        for (index, row) in experiment.rows.iter().enumerate() {
            for (load, unit, mean) in experiment.mean_throughputs(index, n) {
                let first = base.iter().find(|(name, _)| *name == load).map(|(_, mean)| *mean);
                let times = first.filter(|first| *first > 0.0).map(|first| mean / first);
                let times = times.map_or_else(String::new, |times| format!("× {times:.2}"));
                let mean_text = format!("{mean:.0} {unit}/s");
                rows.push(
                    [&row.name, &column.name, &load, &mean_text, &times]
                        .map(TableCell::new)
                        .to_vec(),
                );
                if first.is_none() {
                    base.push((load, mean));
                }
            }
        }
    }
    let words = ["configuration", "measurement", "load"];
    let columns = TableColumn::words_and_numbers(&words, &["throughput", "ratio"]);
    Table::new("Mean throughput of the load during the measurements", columns, rows)
        .with_head(TableHead::Caption)
}

/// What is missing and what is doubtful; each row shows each reason once.
fn doubts(experiment: &Experiment) -> Vec<String> {
    let mut doubts = Vec::new();
    match experiment.state {
        ExperimentState::Finished => {}
        ExperimentState::Unfinished => doubts.push("the experiment has not ended".to_owned()),
        ExperimentState::Stopped => doubts.push("the experiment was stopped early".to_owned()),
    }
    for (index, row) in experiment.rows.iter().enumerate() {
        let cells = experiment.cells.iter().filter(|cell| cell.row == index);
        let missed = cells.clone().flat_map(|cell| &cell.missing).map(|missed| &missed.why);
        let missing = row.missing.iter().chain(missed).map(|why| format!("not measured: {why}"));
        let doubtful = cells.flat_map(|cell| &cell.runs).flat_map(|run| &run.doubts);
        let doubtful = doubtful.map(|doubt| format!("doubtful: {doubt}"));
        let isolation = row.isolation.is_marked().then(|| row.isolation.to_string());
        for doubt in isolation
            .into_iter()
            .chain(missing)
            .chain(doubtful)
            .map(|doubt| format!("{}: {doubt}", row.name))
        {
            if !doubts.contains(&doubt) {
                doubts.push(doubt);
            }
        }
    }
    doubts
}
