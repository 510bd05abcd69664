//! What was changed: the original, the requested and the current value of every setting.

use crate::change::{Change, Outcome, Risk};
use crate::documents::count_text::many;
use crate::documents::plan::{Plan, Step};
use crate::report::blocks::{ReportBlock, Table, TableCell, TableColumn, TextTone};
use crate::report::page::material::{LabelledDocument, PlanWithOutcome, ReportMaterial};
use crate::report::plan::skipped;

/// Longer values are truncated: masks of large machines.
const VALUE_MAX: usize = 120;

/// The section.
pub(super) fn blocks(material: &ReportMaterial) -> Vec<ReportBlock> {
    let several = material.settings.len() > 1;
    material.settings.iter().flat_map(|settings| settings_blocks(settings, several)).collect()
}

fn settings_blocks(
    settings: &LabelledDocument<PlanWithOutcome>,
    several: bool,
) -> Vec<ReportBlock> {
    let PlanWithOutcome { plan, outcomes, drift, undone } = &settings.document;
    let mut blocks = Vec::new();
    if several {
        blocks.push(ReportBlock::Heading(settings.label.clone()));
    }
    let state = match (undone, outcomes.is_empty()) {
        (true, _) => "They were temporary, and everything was restored.".to_owned(),
        (false, true) => "This is a plan: it does not show whether it was applied.".to_owned(),
        (false, false) => {
            let undo = plan.shield.command("cpushield undo");
            format!("They are in force; `{undo}` restores the original settings.")
        }
    };
    let steps = many(plan.steps.len(), "change");
    let cpus = &plan.shield.cpus;
    let text = format!("The shield on CPU {cpus} consists of {steps}. {state}");
    blocks.push(ReportBlock::Text(text));
    let drifted = drift.iter().map(|drift| {
        let now = drift.now.as_deref().unwrap_or("nothing");
        format!("{}: now {now}, but the shield set {}", drift.what, drift.left)
    });
    blocks.extend(ReportBlock::doubts("Changed since the shield was applied", drifted));
    blocks.push(ReportBlock::Table(by_tunable(&settings.document)));
    let title = "Every change: original and current value".to_owned();
    let table = ReportBlock::Table(every_change(&settings.document));
    blocks.push(ReportBlock::Fold { title, blocks: vec![table] });
    if !plan.skipped.is_empty() {
        let title = match plan.skipped.len() {
            1 => "1 tunable is not used".to_owned(),
            n => format!("{n} tunables are not used"),
        };
        blocks.push(ReportBlock::Fold { title, blocks: skipped(plan) });
    }
    blocks
}

/// The outcome of a step; `None` for a plan that was not applied.
fn outcome<'a>(settings: &'a PlanWithOutcome, step: &Step) -> Option<&'a Outcome> {
    let mut outcomes = settings.outcomes.iter();
    outcomes.find(|(known, _)| known.change == step.change).map(|(_, outcome)| outcome)
}

fn by_tunable(settings: &PlanWithOutcome) -> Table {
    let Plan { steps, already, .. } = &settings.plan;
    let mut names: Vec<&str> = Vec::new();
    for name in steps.iter().map(|step| step.tunable.as_str()).chain(already.keys().map(|n| &**n)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let rows = names.into_iter().map(|name| {
        let steps: Vec<&Step> = steps.iter().filter(|step| step.tunable == name).collect();
        let outcomes = steps.iter().filter_map(|step| outcome(settings, step));
        let refused = outcomes.filter(|outcome| matches!(outcome, Outcome::Refused { .. }));
        let refused = match refused.count() {
            _ if settings.outcomes.is_empty() => TableCell::new("–"),
            0 => TableCell::new("0"),
            n => TableCell::toned(TextTone::Bad, n),
        };
        let risk = steps.iter().map(|step| step.risk).max().unwrap_or(Risk::None);
        let risk = match risk {
            Risk::Medium => TableCell::toned(TextTone::Doubt, risk.word()),
            _ => TableCell::new(risk.word()),
        };
        let why = steps.first().map(|step| step.reason.to_string());
        vec![
            TableCell::new(name),
            TableCell::new(steps.len()),
            TableCell::new(already.get(name).unwrap_or(&0)),
            refused,
            risk,
            TableCell::new(why.unwrap_or_else(|| "already set".to_owned())),
        ]
    });
    let mut columns = vec![TableColumn::words("tunable")];
    columns.extend(["changes", "already set", "refused"].map(TableColumn::numbers));
    columns.extend(["risk", "why"].map(TableColumn::words));
    Table::new("Changes by tunable", columns, rows.collect())
}

fn every_change(settings: &PlanWithOutcome) -> Table {
    let columns = ["setting", "original", "set to", "now", "tunable"];
    let rows = settings.plan.steps.iter().map(|step| change_row(settings, step)).collect();
    Table::new("Every change, in the order of the plan", columns, rows)
}

fn change_row(settings: &PlanWithOutcome, step: &Step) -> Vec<TableCell> {
    let subject = step.change.subject();
    let drift = settings.drift.iter().find(|drift| drift.what == subject);
    let was =
        step.now.as_deref().map_or_else(TableCell::unknown, |now| TableCell::code(truncate(now)));
    let set = requested_value(&step.change);
    let now = match (drift, outcome(settings, step)) {
        (Some(drift), _) => {
            TableCell::toned(TextTone::Bad, truncate(drift.now.as_deref().unwrap_or("nothing")))
        }
        (None, None) if settings.undone => TableCell::new("restored"),
        (None, None) => TableCell::new("–"),
        (None, Some(Outcome::Changed)) => {
            TableCell { tone: TextTone::Good, ..TableCell::code(set.clone()) }
        }
        (None, Some(Outcome::AlreadySo)) => TableCell::new("unchanged"),
        (None, Some(Outcome::Absent)) => TableCell::new("does not exist"),
        (None, Some(Outcome::Refused { reason, .. })) => {
            TableCell::toned(TextTone::Bad, format!("refused: {reason}"))
        }
    };
    let (tunable, subject) = (TableCell::new(&step.tunable), TableCell::code(subject));
    vec![subject, was, TableCell::code(set), now, tunable]
}

/// The value that a change sets.
fn requested_value(change: &Change) -> String {
    let value = change.requested_value();
    match change {
        Change::Write { .. } => truncate(&value),
        _ => value,
    }
}

fn truncate(value: &str) -> String {
    if value.chars().count() <= VALUE_MAX {
        return value.to_owned();
    }
    let start: String = value.chars().take(VALUE_MAX).collect();
    format!("{start}…")
}
