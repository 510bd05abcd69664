//! [`OptionSearch`] and its dry run → blocks: what was found, and the evidence for each option.
//! Pure.

use super::blocks::{
    ReportBlock, Table, TableCell, TableColumn, TableHead, TextLine, TextPart, TextTone,
};
use super::experiment::{environment, long_span};
use super::table::span;
use crate::documents::count_text::{joined, many};
use crate::documents::experiment::{ExperimentRow, ExperimentState};
use crate::documents::option_search::{
    FixedOption, GoalDecision, OptionFate, OptionSearch, OptionState, SearchDryRun, SearchEnd,
    SearchGoal, SearchTrial, SequentialTest,
};
use crate::documents::plan::named;

/// The blocks of a search.
#[must_use]
pub fn blocks(search: &OptionSearch) -> Vec<ReportBlock> {
    let mut lines = vec![headline(search)];
    lines.extend(environment(&search.setup));
    let mut blocks = vec![ReportBlock::Lines(lines)];
    blocks.push(ReportBlock::Space);
    blocks.push(ReportBlock::Lines(result(search)));
    blocks.extend(options(search).into_block());
    blocks.extend(ReportBlock::section("Not varied", fixed(&search.fixed)));
    blocks.extend(trials(search).into_block());
    if let Some(found) = &search.found {
        let caption = "The result as a row of a matrix file".to_owned();
        blocks.push(ReportBlock::Code { caption, text: row_text(found) });
    }
    let notes = search.notes.iter();
    let notes = notes.map(|note| TextLine::remark(TextTone::Plain, "note", note));
    let rule = (!search.trials.is_empty()).then(|| TextLine::new(describe_test(&search.test)));
    let last: Vec<TextLine> = rule.into_iter().chain(notes).collect();
    if !last.is_empty() {
        blocks.push(ReportBlock::Lines(last));
    }
    blocks
}

fn headline(search: &OptionSearch) -> TextLine {
    let measured: usize = search.trials.iter().map(|trial| trial.tally.measurements()).sum();
    let state = match search.state {
        ExperimentState::Finished => many(measured, "measurement"),
        ExperimentState::Unfinished => {
            format!("unfinished, {} so far", many(measured, "measurement"))
        }
        ExperimentState::Stopped => format!("stopped after {}", many(measured, "measurement")),
    };
    let head = TextPart::toned(TextTone::Head, format!("Search {}", search.name));
    let what = describe_row(&search.row);
    let each = span(search.span_ns);
    let rest = match search.trials.is_empty() {
        true => format!(": {what}; goal: {}", search.goal),
        false => format!(
            ": {what} on {}; goal: {} ({state}, {each} each)",
            named(&search.cpus),
            search.goal
        ),
    };
    TextLine::of(vec![head, TextPart::new(rest)])
}

fn describe_row(row: &str) -> String {
    format!("a minimal set of the options in row {row:?}")
}

/// The options that were found, and what that means.
fn result(search: &OptionSearch) -> Vec<TextLine> {
    let kept = search.options.iter();
    let kept =
        kept.filter(|fate| matches!(fate.state, OptionState::Needed | OptionState::NoAnswer));
    let names: Vec<String> = kept.map(|fate| fate.option.to_string()).collect();
    let (tone, word) = match &search.end {
        None => (TextTone::Doubt, "no result yet".to_owned()),
        Some(SearchEnd::LeastSet) => (TextTone::Good, names.join(", ")),
        Some(SearchEnd::SomeUndecided) => (TextTone::Doubt, names.join(", ")),
        Some(SearchEnd::NothingNeeded) => (TextTone::Good, "no option".to_owned()),
        Some(_) => (TextTone::Doubt, "none found".to_owned()),
    };
    let mut lines =
        vec![TextLine::of(vec![TextPart::new("Minimal set: "), TextPart::toned(tone, word)])];
    lines.extend(search.end.iter().map(|end| TextLine::new(end).below()));
    lines
}

fn options(search: &OptionSearch) -> Table {
    let rows = search.options.iter().map(|fate| option_row(search, fate));
    let caption = "Options in the order in which they were left out";
    let table = Table::new(caption, ["option", "result", "evidence"], rows.collect());
    table.with_head(TableHead::Caption).with_remarks()
}

fn option_row(search: &OptionSearch, fate: &OptionFate) -> Vec<TableCell> {
    let (tone, word) = match fate.state {
        OptionState::Needed => (TextTone::Head, "needed"),
        OptionState::LeftOut => (TextTone::Plain, "not needed"),
        OptionState::NoAnswer => (TextTone::Doubt, "no answer"),
        OptionState::Open => (TextTone::Doubt, "not decided"),
    };
    let trial = fate.trial.and_then(|index| Some((index + 1, search.trials.get(index)?)));
    let evidence = trial.map_or_else(String::new, |(number, trial)| {
        let figures = describe_trial(&search.goal, trial);
        format!("without it (configuration {number}): {figures}")
    });
    vec![TableCell::new(&fate.option), TableCell::toned(tone, word), TableCell::new(evidence)]
}

/// `missed in 4 of 4, worst 3.1 ms`.
fn describe_trial(goal: &SearchGoal, trial: &SearchTrial) -> String {
    let tally = &trial.tally;
    let counted = tally.met + tally.missed;
    let mut text = format!("goal missed in {} of {}", tally.missed, many(counted, "measurement"));
    if let Some(worst) = trial.figures.iter().max() {
        let worst = match goal {
            SearchGoal::MaxLatency { .. } => span(*worst),
            SearchGoal::MaxEntries { .. } => match worst {
                1 => "1 entry".to_owned(),
                count => format!("{count} entries"),
            },
        };
        text.push_str(&format!(", maximum {worst}"));
    }
    if tally.doubtful > 0 {
        text.push_str(&format!(", {} doubtful", tally.doubtful));
    }
    if let Some(trouble) = &trial.trouble {
        text.push_str(&format!(" ({trouble})"));
    }
    text
}

fn trials(search: &OptionSearch) -> Table {
    let rows = (1..).zip(&search.trials).map(|(number, trial): (usize, _)| {
        let (tone, decision) = match trial.decision {
            Some(GoalDecision::Met) => (TextTone::Good, "met"),
            Some(GoalDecision::Missed) => (TextTone::Bad, "missed"),
            Some(GoalDecision::NoAnswer) => (TextTone::Doubt, "no answer"),
            None => (TextTone::Doubt, "in progress"),
        };
        vec![
            TableCell::new(number),
            TableCell::new(&trial.name),
            TableCell::toned(tone, decision),
            TableCell::new(describe_trial(&search.goal, trial)),
        ]
    });
    let columns = vec![
        TableColumn::numbers("#"),
        TableColumn::words("configuration"),
        TableColumn::words("goal"),
        TableColumn::remarks("measurements"),
    ];
    let caption = "Configurations in the order in which they were measured";
    Table::new(caption, columns, rows.collect()).with_head(TableHead::Caption)
}

fn fixed(fixed: &[FixedOption]) -> Vec<TextLine> {
    fixed.iter().map(|it| TextLine::new(format!("{}: {}", it.option, it.why))).collect()
}

fn describe_test(test: &SequentialTest) -> String {
    format!(
        "Rule: a configuration meets the goal if at most {:.0} % of its measurements miss it, and \
         misses it if at least {:.0} % do. Each decision is wrong with a probability of at most \
         {:.2} %; after {} measurements without a decision, there is no answer.",
        100.0 * test.miss_rate_met,
        100.0 * test.miss_rate_missed,
        100.0 * test.error_rate,
        test.measurements_max,
    )
}

/// A row in the syntax of a matrix file.
fn row_text(row: &ExperimentRow) -> String {
    let mut lines = vec!["[[row]]".to_owned(), format!("name = {:?}", row.name)];
    if row.shield {
        lines.push("shield = true".to_owned());
    }
    if !row.tunables.is_empty() {
        let tunables = row.tunables.iter().map(|(name, on)| format!("{name} = {on}"));
        lines.push(format!("tunables = {{ {} }}", joined(tunables, ", ")));
    }
    if let Some(kernel) = &row.kernel {
        lines.push(format!("kernel = {kernel:?}"));
    }
    if !row.boot.is_empty() {
        let words = row.boot.iter().map(|word| format!("{word:?}"));
        lines.push(format!("boot = [{}]", joined(words, ", ")));
    }
    lines.join("\n")
}

/// The blocks of the dry run of a search.
#[must_use]
pub fn dry_run_blocks(dry_run: &SearchDryRun) -> Vec<ReportBlock> {
    let SearchDryRun { name, row, goal, cpus, options, .. } = dry_run;
    let what = describe_row(row);
    let mut lines = vec![
        TextLine::new(format!("Search {name}: {what} on {}; goal: {goal}", named(cpus))),
        TextLine::new(format!(
            "measuring time: {} if the measurements agree, otherwise up to {}; up to {}",
            long_span(dry_run.usual_ns),
            long_span(dry_run.worst_ns),
            many(dry_run.reboots_max, "reboot"),
        ))
        .below(),
    ];
    lines.push(TextLine::new("1  every option").below());
    lines.push(TextLine::new("2  no option").below());
    let options = (3..).zip(options);
    lines.extend(
        options.map(|(n, it): (usize, _)| TextLine::new(format!("{n}  without {it}")).below()),
    );
    let mut blocks = vec![ReportBlock::Lines(lines)];
    blocks.extend(ReportBlock::section("Not varied", fixed(&dry_run.fixed)));
    blocks.push(ReportBlock::Lines(vec![
        TextLine::new(describe_test(&dry_run.test)),
        TextLine::new("dry run: nothing was changed"),
    ]));
    blocks
}
