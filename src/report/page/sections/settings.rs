//! What was changed: every setting as it was, as it was to be and as it is, by tunable.

use crate::change::{Change, Outcome, Risk};
use crate::plan::{Plan, Step};
use crate::report::page::block::{Block, Cell, Column, Table, Tone};
use crate::report::page::material::{Labelled, Material, Settings};
use crate::report::table::many;

/// Values longer than this are cut: masks of large machines.
const VALUE_MAX: usize = 120;

/// The section.
pub(super) fn blocks(material: &Material) -> Vec<Block> {
    let several = material.settings.len() > 1;
    material.settings.iter().flat_map(|settings| of(settings, several)).collect()
}

fn of(settings: &Labelled<Settings>, several: bool) -> Vec<Block> {
    let it = &settings.it;
    let mut blocks = Vec::new();
    if several {
        blocks.push(Block::Heading(settings.label.clone()));
    }
    let shield = &it.plan.shield;
    let state = match (it.undone, it.outcomes.is_empty()) {
        (true, _) => "They were made for an experiment, and everything was put back.",
        (false, true) => "This is a plan: it says nothing about whether it was applied.",
        (false, false) => "They are in force; `cpushield undo` restores the original settings.",
    };
    let steps = many(it.plan.steps.len(), "change");
    let cpus = &shield.cpus;
    blocks.push(Block::Text(format!("{steps} make the shield on CPU {cpus}. {state}")));
    if !it.drift.is_empty() {
        let drift = |drift: &crate::run::Drift| {
            let now = drift.now.as_deref().unwrap_or("nothing");
            format!("{}: {now}, was left as {}", drift.what, drift.left)
        };
        let title = "No longer as the shield left it".to_owned();
        blocks.push(Block::Doubts { title, items: it.drift.iter().map(drift).collect() });
    }
    blocks.push(Block::Table(by_tunable(it)));
    let title = "Every change: now and was".to_owned();
    blocks.push(Block::Fold { title, blocks: vec![Block::Table(every(it))] });
    if !it.plan.skipped.is_empty() {
        let columns = ["tunable", "why it does nothing here"].map(Column::words).to_vec();
        let row = |it: &crate::plan::Skipped| vec![Cell::new(&it.tunable), Cell::new(&it.reason)];
        let rows = it.plan.skipped.iter().map(row).collect();
        let caption = "Tunables that do nothing here".to_owned();
        let title = format!("{} do nothing here", many(it.plan.skipped.len(), "tunable"));
        let table = Block::Table(Table { caption, columns, rows });
        blocks.push(Block::Fold { title, blocks: vec![table] });
    }
    blocks
}

/// What came of a step; `None` for a plan.
fn outcome<'a>(settings: &'a Settings, step: &Step) -> Option<&'a Outcome> {
    let same = |(known, _): &&(Step, Outcome)| known.change == step.change;
    settings.outcomes.iter().find(same).map(|(_, outcome)| outcome)
}

fn by_tunable(settings: &Settings) -> Table {
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
            _ if settings.outcomes.is_empty() => Cell::new("–"),
            0 => Cell::new("0"),
            n => Cell::toned(Tone::Bad, n.to_string()),
        };
        let risk = of.iter().map(|step| step.risk).max().unwrap_or(Risk::None);
        let risk = match risk {
            Risk::Medium => Cell::toned(Tone::Doubt, risk.word()),
            _ => Cell::new(risk.word()),
        };
        let why = of.first().map(|step| step.reason.to_string());
        let why = why.unwrap_or_else(|| "the setting is already right".to_owned());
        let so = already.get(name).copied().unwrap_or(0).to_string();
        let cells =
            [Cell::new(name), Cell::new(of.len().to_string()), Cell::new(so), refused, risk];
        cells.into_iter().chain([Cell::new(why)]).collect()
    };
    let mut columns = vec![Column::words("tunable")];
    columns.extend(["changes", "already right", "refused"].map(Column::numbers));
    columns.extend(["risk", "why"].map(Column::words));
    let rows = names.into_iter().map(row).collect();
    Table { caption: "Changes by tunable".to_owned(), columns, rows }
}

fn every(settings: &Settings) -> Table {
    let row = |step: &Step| {
        let subject = step.change.subject();
        let drift = settings.drift.iter().find(|drift| drift.what == subject);
        let was = step.now.as_deref().map_or_else(Cell::unknown, |now| Cell::code(short(now)));
        let set = wanted(&step.change);
        let now = match (drift, outcome(settings, step)) {
            (Some(drift), _) => {
                Cell::toned(Tone::Bad, short(drift.now.as_deref().unwrap_or("nothing")))
            }
            (None, None) if settings.undone => Cell::new("restored"),
            (None, None) => Cell::new("–"),
            (None, Some(Outcome::Changed)) => Cell { tone: Tone::Good, ..Cell::code(set.clone()) },
            (None, Some(Outcome::AlreadySo)) => Cell::new("as it was"),
            (None, Some(Outcome::Absent)) => Cell::new("not there"),
            (None, Some(Outcome::Refused { reason, .. })) => {
                Cell::toned(Tone::Bad, format!("refused: {reason}"))
            }
        };
        let (tunable, subject) = (Cell::new(&step.tunable), Cell::code(subject));
        vec![subject, was, Cell::code(set), now, tunable]
    };
    let columns = ["setting", "was", "set to", "now", "tunable"].map(Column::words).to_vec();
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
