//! What was changed: every setting as it was, as it was to be and as it is, by tunable.

use crate::change::{Change, Outcome, Risk};
use crate::plan::{Plan, Step};
use crate::report::page::block::{ReportBlock, Table, TableCell, TableColumn, TextTone};
use crate::report::page::material::{LabelledDocument, PlanWithOutcome, ReportMaterial};
use crate::report::table::many;

/// Values longer than this are cut: masks of large machines.
const VALUE_MAX: usize = 120;

/// The section.
pub(super) fn blocks(material: &ReportMaterial) -> Vec<ReportBlock> {
    let several = material.settings.len() > 1;
    material.settings.iter().flat_map(|settings| of(settings, several)).collect()
}

fn of(settings: &LabelledDocument<PlanWithOutcome>, several: bool) -> Vec<ReportBlock> {
    let it = &settings.it;
    let mut blocks = Vec::new();
    if several {
        blocks.push(ReportBlock::Heading(settings.label.clone()));
    }
    let shield = &it.plan.shield;
    let state = match (it.undone, it.outcomes.is_empty()) {
        (true, _) => "They were made for an experiment, and everything was put back.",
        (false, true) => "This is a plan: it says nothing about whether it was applied.",
        (false, false) => "They are in force; `cpushield undo` restores the original settings.",
    };
    let steps = many(it.plan.steps.len(), "change");
    let cpus = &shield.cpus;
    blocks.push(ReportBlock::Text(format!("{steps} make the shield on CPU {cpus}. {state}")));
    if !it.drift.is_empty() {
        let drift = |drift: &crate::run::Drift| {
            let now = drift.now.as_deref().unwrap_or("nothing");
            format!("{}: {now}, was left as {}", drift.what, drift.left)
        };
        let title = "No longer as the shield left it".to_owned();
        blocks.push(ReportBlock::Doubts { title, items: it.drift.iter().map(drift).collect() });
    }
    blocks.push(ReportBlock::Table(by_tunable(it)));
    let title = "Every change: now and was".to_owned();
    blocks.push(ReportBlock::Fold { title, blocks: vec![ReportBlock::Table(every(it))] });
    if !it.plan.skipped.is_empty() {
        let columns = ["tunable", "why it does nothing here"].map(TableColumn::words).to_vec();
        let row = |it: &crate::plan::SkippedTunable| {
            vec![TableCell::new(&it.tunable), TableCell::new(&it.reason)]
        };
        let rows = it.plan.skipped.iter().map(row).collect();
        let caption = "Tunables that do nothing here".to_owned();
        let title = format!("{} do nothing here", many(it.plan.skipped.len(), "tunable"));
        let table = ReportBlock::Table(Table { caption, columns, rows });
        blocks.push(ReportBlock::Fold { title, blocks: vec![table] });
    }
    blocks
}

/// What came of a step; `None` for a plan.
fn outcome<'a>(settings: &'a PlanWithOutcome, step: &Step) -> Option<&'a Outcome> {
    let same = |(known, _): &&(Step, Outcome)| known.change == step.change;
    settings.outcomes.iter().find(same).map(|(_, outcome)| outcome)
}

fn by_tunable(settings: &PlanWithOutcome) -> Table {
    let Plan { steps, already, .. } = &settings.plan;
    let mut names: Vec<&str> = Vec::new();
    for name in steps.iter().map(|step| step.tunable.as_str()).chain(already.keys().map(|n| &**n)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let row = |name: &str| {
        let of: Vec<&Step> = steps.iter().filter(|step| step.tunable == name).collect();
        let refused =
            |step: &&&Step| matches!(outcome(settings, step), Some(Outcome::Refused { .. }));
        let refused = match of.iter().filter(refused).count() {
            _ if settings.outcomes.is_empty() => TableCell::new("–"),
            0 => TableCell::new("0"),
            n => TableCell::toned(TextTone::Bad, n.to_string()),
        };
        let risk = of.iter().map(|step| step.risk).max().unwrap_or(Risk::None);
        let risk = match risk {
            Risk::Medium => TableCell::toned(TextTone::Doubt, risk.word()),
            _ => TableCell::new(risk.word()),
        };
        let why = of.first().map(|step| step.reason.to_string());
        let why = why.unwrap_or_else(|| "the setting is already right".to_owned());
        let so = already.get(name).copied().unwrap_or(0).to_string();
        let cells = [
            TableCell::new(name),
            TableCell::new(of.len().to_string()),
            TableCell::new(so),
            refused,
            risk,
        ];
        cells.into_iter().chain([TableCell::new(why)]).collect()
    };
    let mut columns = vec![TableColumn::words("tunable")];
    columns.extend(["changes", "already right", "refused"].map(TableColumn::numbers));
    columns.extend(["risk", "why"].map(TableColumn::words));
    let rows = names.into_iter().map(row).collect();
    Table { caption: "Changes by tunable".to_owned(), columns, rows }
}

fn every(settings: &PlanWithOutcome) -> Table {
    let row = |step: &Step| {
        let subject = step.change.subject();
        let drift = settings.drift.iter().find(|drift| drift.what == subject);
        let was =
            step.now.as_deref().map_or_else(TableCell::unknown, |now| TableCell::code(short(now)));
        let set = wanted(&step.change);
        let now = match (drift, outcome(settings, step)) {
            (Some(drift), _) => {
                TableCell::toned(TextTone::Bad, short(drift.now.as_deref().unwrap_or("nothing")))
            }
            (None, None) if settings.undone => TableCell::new("restored"),
            (None, None) => TableCell::new("–"),
            (None, Some(Outcome::Changed)) => {
                TableCell { tone: TextTone::Good, ..TableCell::code(set.clone()) }
            }
            (None, Some(Outcome::AlreadySo)) => TableCell::new("as it was"),
            (None, Some(Outcome::Absent)) => TableCell::new("not there"),
            (None, Some(Outcome::Refused { reason, .. })) => {
                TableCell::toned(TextTone::Bad, format!("refused: {reason}"))
            }
        };
        let (tunable, subject) = (TableCell::new(&step.tunable), TableCell::code(subject));
        vec![subject, was, TableCell::code(set), now, tunable]
    };
    let columns = ["setting", "was", "set to", "now", "tunable"].map(TableColumn::words).to_vec();
    let rows = settings.plan.steps.iter().map(row).collect();
    Table { caption: "Every change, in the order it is made".to_owned(), columns, rows }
}

/// What a change makes of its subject.
fn wanted(change: &Change) -> String {
    match change {
        Change::Write { value, .. } => short(value),
        Change::MakeDir { .. } => "made".to_owned(),
        Change::Affinity { cpus, .. } => format!("CPU {cpus}"),
        Change::Scheduling { policy, .. } => policy.to_string(),
        Change::MoveTasks { .. } => "moved".to_owned(),
        Change::KeepAffinities => "kept".to_owned(),
        Change::BanFromIrqbalance { cpus } => format!("leaves CPU {cpus} alone"),
        Change::Slice { cpus, mems, .. } => format!("CPU {cpus}, memory {mems}"),
        Change::CycleCpu { .. } => "done".to_owned(),
    }
}

fn short(value: &str) -> String {
    if value.chars().count() <= VALUE_MAX {
        return value.to_owned();
    }
    let begin: String = value.chars().take(VALUE_MAX).collect();
    format!("{begin}…")
}
