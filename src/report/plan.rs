//! A [`Plan`] as text: the choice of CPUs, a line for each tunable, what remains and why. Pure.

use super::table::{Align, fit, fold, fold_shell};
use crate::change::{Change, Risk};
use crate::plan::{Immovable, Plan, SkipKind, SkippedTunable, Step, StepReason, named};
use std::collections::BTreeMap;

/// Names that one line lists; the others are counted.
const NAMES_MAX: usize = 5;

/// How much of a plan is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanDetail {
    /// The number of changes.
    Summary,
    /// Each change with its shell command.
    EveryChange,
}

/// The text of `cpushield plan`, no wider than `width` where that is possible. `detail` shows
/// each step with its shell command.
#[must_use]
pub fn plan_text(plan: &Plan, detail: PlanDetail, width: usize) -> String {
    let shield = &plan.shield;
    let (cpus, rest) = (named(&shield.cpus), named(&shield.housekeeping));
    let mut text = format!("Shield: {cpus}. Housekeeping: {rest}.\n");
    for why in &plan.why {
        text.push_str(&format!("  {why}\n"));
    }
    let mut text = fold(&text, width) + &changes(plan, detail, width);
    text.push_str(&fold(&remaining(plan), width));
    text.push_str(&skipped(plan, width));
    if !plan.warnings.is_empty() {
        let lines: String = plan.warnings.iter().map(|warning| format!("  {warning}\n")).collect();
        text.push_str(&fold(&format!("\nNote\n{lines}"), width));
    }
    let next = "`cpushield apply` with the same options creates this shield; with `--dry-run` it \
                prints the commands";
    text + &fold(&format!("\nNext: {next}\n"), width)
}

/// The interruptions that remain in spite of the plan.
fn remaining(plan: &Plan) -> String {
    let mut text = immovable(&plan.immovable);
    if !plan.boot.is_empty() {
        text.push_str("\nRemoved only by a boot parameter\n");
        for advice in &plan.boot {
            let causes: Vec<&str> = advice.removes.iter().map(|cause| cause.name()).collect();
            text.push_str(&format!("  {}  ({})\n", advice.parameter, causes.join(", ")));
            text.push_str(&format!("      {}\n", advice.reason));
        }
    }
    text
}

/// The tunables that do not apply to this machine, and in one line those that are off by default.
fn skipped(plan: &Plan, width: usize) -> String {
    let (off, not_applicable): (Vec<&SkippedTunable>, Vec<_>) =
        plan.skipped.iter().partition(|skipped| skipped.kind == SkipKind::OnlyWhenAsked);
    let mut text = String::new();
    if !not_applicable.is_empty() {
        text.push_str("\nNot applicable here\n");
        let rows: Vec<Vec<String>> =
            not_applicable.iter().map(|s| vec![s.tunable.clone(), s.reason.clone()]).collect();
        text.push_str(&fit("  ", &[Align::Left, Align::Left], &rows, width));
    }
    if !off.is_empty() {
        let names: Vec<&str> = off.iter().map(|s| s.tunable.as_str()).collect();
        let names = format!("\nOff by default (--on NAME)\n  {}\n", names.join(", "));
        text.push_str(&fold(&names, width));
    }
    text
}

fn changes(plan: &Plan, detail: PlanDetail, width: usize) -> String {
    let already: usize = plan.already.values().sum();
    let already = match already {
        0 => String::new(),
        1 => "; 1 setting is already right".to_owned(),
        n => format!("; {n} settings are already right"),
    };
    let word = if plan.steps.len() == 1 { "change" } else { "changes" };
    let mut text = format!("\n{} {word}{already}\n", plan.steps.len());
    if detail == PlanDetail::EveryChange {
        for step in &plan.steps {
            // A new object has no current value, nor has a change that sets none.
            let now = step.now.as_ref().map(|now| format!(" (now: {now})")).unwrap_or_default();
            let line = format!("  {}: {}{now}\n", step.tunable, step.reason);
            text.push_str(&fold(&line, width));
            text.push_str(&fold_shell(&step.change.shell(), 6, width));
        }
        return text;
    }
    let mut rows = Vec::new();
    for steps in plan.steps.chunk_by(|a, b| a.tunable == b.tunable) {
        let Some(first) = steps.first() else { continue };
        let risk = match first.risk {
            Risk::None | Risk::Low => "",
            Risk::Medium => "  (a risk: see explain)",
        };
        for (i, line) in summarize_steps(steps).into_iter().enumerate() {
            let (name, risk) = if i == 0 { (first.tunable.as_str(), risk) } else { ("", "") };
            rows.push(vec![name.to_owned(), format!("{line}{risk}")]);
        }
    }
    text + &fit("  ", &[Align::Left, Align::Left], &rows, width)
}

/// Lines for the steps of one tunable: one line with a count for each kind of step.
fn summarize_steps(steps: &[Step]) -> Vec<String> {
    let mut kinds: Vec<(String, Vec<String>, usize)> = Vec::new();
    for step in steps {
        let (kind, name) = kind_and_name(step);
        let used = usize::from(is_in_use(step));
        match kinds.iter_mut().find(|(known, ..)| *known == kind) {
            Some((_, names, sum)) => {
                names.push(name);
                *sum += used;
            }
            None => kinds.push((kind, vec![name], used)),
        }
    }
    let lines = kinds.into_iter().map(|(kind, names, used)| {
        let unused = if used < names.len() { format!(", {used} in use,") } else { String::new() };
        let plural = if names.len() == 1 { "" } else { "s" };
        let kind = kind.replace("{used}", &unused).replace("(s)", plural);
        kind.replace("{n}", &names.len().to_string()).replace("{name}", &list_names(&names))
    });
    lines.collect()
}

/// Whether the interrupt of a step is in use, that is, whether a device has requested it. True for
/// a step that changes no interrupt.
fn is_in_use(step: &Step) -> bool {
    !matches!(&step.reason, StepReason::Irq { actions, .. } if actions.is_empty())
}

fn kind_and_name(step: &Step) -> (String, String) {
    let now = step.now.as_deref().filter(|now| !now.is_empty());
    let now = now.map(|now| format!("{now} → ")).unwrap_or_default();
    match &step.change {
        Change::Affinity { comm, cpus, .. } => {
            (format!("{{n}} thread(s) to CPU {cpus}: {{name}}"), comm.clone())
        }
        Change::Write { path, value, .. } => match (&step.reason, path.rsplit_once('/')) {
            (StepReason::Irq { irq, .. }, _) => {
                (format!("{{n}} interrupt(s){{used}} to CPU {value}: {{name}}"), irq.to_string())
            }
            (_, Some((dir, file))) if is_one_of_many(dir) => {
                (format!("{file} of {{name}}: {now}{value}"), last_name(dir).to_owned())
            }
            _ => (format!("{path}: {now}{value}"), String::new()),
        },
        other => (other.subject(), String::new()),
    }
}

/// Whether a directory is one of many with the same files. Their files are named by directory.
fn is_one_of_many(dir: &str) -> bool {
    ["/queues/", "/machinecheck/", "/workqueue/", "/fair_server/", "/cpuidle/"]
        .iter()
        .any(|part| dir.contains(part))
}

fn last_name(dir: &str) -> &str {
    dir.rsplit('/').next().unwrap_or(dir)
}

/// The first names, and the number of the others.
fn list_names(names: &[String]) -> String {
    let shown = names.iter().take(NAMES_MAX).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn immovable(all: &[Immovable]) -> String {
    let mut by_reason: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for Immovable { what, reason, .. } in all {
        by_reason.entry(reason.to_string()).or_default().push(what.to_string());
    }
    let mut text = String::new();
    if !all.is_empty() {
        text.push_str(&format!("\n{} cannot be moved\n", all.len()));
    }
    for (reason, names) in by_reason {
        text.push_str(&format!("  {}: {reason}\n      {}\n", names.len(), list_names(&names)));
    }
    text
}
