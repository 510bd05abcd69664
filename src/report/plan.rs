//! Plan → blocks: the choice of CPUs, a line for each tunable, what remains and why. Pure.

use super::blocks::{ReportBlock, Table, TableCell, TableColumn, TableHead, TextLine, TextTone};
use crate::causes::Cause;
use crate::change::{Change, Risk};
use crate::documents::count_text::many;
use crate::documents::policy_plans::PolicyPlans;
use crate::plan::{Immovable, Plan, Shield, SkipReason, SkippedTunable, Step, StepReason, named};
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

/// The blocks of `cpushield plan`. `detail` shows each step with its shell command.
#[must_use]
pub fn blocks(plan: &Plan, detail: PlanDetail) -> Vec<ReportBlock> {
    let mut blocks = plan_blocks(plan, detail);
    blocks.extend(next_command("`cpushield apply` with the same options creates this shield"));
    blocks
}

/// The blocks of `cpushield plan --all`.
#[must_use]
pub fn policy_blocks(plans: &PolicyPlans, detail: PlanDetail) -> Vec<ReportBlock> {
    let mut blocks = Vec::new();
    for plan in &plans.plans {
        blocks.push(ReportBlock::Heading(format!("Shield {}", plan.shield.name)));
        blocks.extend(plan_blocks(plan, detail));
    }
    blocks.extend(left_alone(&plans.others));
    blocks.extend(next_command("`cpushield apply --all` creates these shields"));
    blocks
}

/// The active shields that a policy does not have.
pub fn left_alone(others: &[Shield]) -> Vec<ReportBlock> {
    let lines = others
        .iter()
        .map(|it| TextLine::new(format!("shield {} on {} is active", it.name, named(&it.cpus))));
    ReportBlock::section("Not in the policy, so left alone", lines.collect())
}

fn next_command(what: &str) -> [ReportBlock; 2] {
    let next = format!("{what}; with `--dry-run` it prints the commands");
    let next = TextLine::remark(TextTone::Plain, "Next", next);
    [ReportBlock::Space, ReportBlock::Lines(vec![next])]
}

fn plan_blocks(plan: &Plan, detail: PlanDetail) -> Vec<ReportBlock> {
    let shield = &plan.shield;
    let (cpus, rest) = (named(&shield.cpus), named(&shield.housekeeping));
    let shield = TextLine::new(format!("Shield: {cpus}. Housekeeping: {rest}."));
    let why = plan.why.iter().map(|why| TextLine::new(why.to_string()).below());
    let operators = plan.operators.iter();
    let operators = operators.map(|it| TextLine::new(format!("Operators: {it}.")));
    let lines = [shield].into_iter().chain(why).chain(operators).chain(remaining_tick(plan));
    let mut blocks = vec![ReportBlock::Lines(lines.collect())];
    blocks.extend(changes(plan, detail));
    blocks.extend(immovable(&plan.immovable));
    blocks.extend(boot_advice(plan));
    blocks.extend(skipped(plan));
    blocks.extend(unproven(plan));
    blocks.extend(warnings(plan));
    blocks
}

/// That the tick remains, the most frequent interruption, where a boot parameter would remove it.
fn remaining_tick(plan: &Plan) -> Option<TextLine> {
    let advice = plan.boot.iter().find(|advice| advice.removes.contains(&Cause::Tick))?;
    let (cpus, parameter) = (named(&plan.shield.cpus), &advice.parameter);
    let line = format!("The tick still interrupts {cpus}. To remove it, boot with {parameter}.");
    Some(TextLine::new(line))
}

/// The interruptions that remain until a boot with these parameters.
pub fn boot_advice(plan: &Plan) -> Option<ReportBlock> {
    let rows = plan.boot.iter().map(|advice| {
        let removes: Vec<&str> = advice.removes.iter().map(|cause| cause.name()).collect();
        let reason = TableCell::new(advice.reason.to_string());
        vec![TableCell::code(&advice.parameter), TableCell::new(removes.join(", ")), reason]
    });
    let mut columns = ["parameter", "removes"].map(TableColumn::words).to_vec();
    columns.push(TableColumn::remarks("why"));
    Table::new("Removed only by a boot parameter", columns, rows.collect()).into_block()
}

/// The tunables that do not apply to this machine, and in one line those that are off by default.
pub fn skipped(plan: &Plan) -> Vec<ReportBlock> {
    let (off, used): (Vec<&SkippedTunable>, Vec<_>) =
        plan.skipped.iter().partition(|skipped| skipped.reason.is_off_by_default());
    let (spared, not_applicable): (Vec<&SkippedTunable>, Vec<_>) = used
        .into_iter()
        .partition(|skipped| matches!(skipped.reason, SkipReason::SparesShields { .. }));
    let tables = [("Left out for other shields", spared), ("Not applicable here", not_applicable)];
    let tables = tables.into_iter().filter_map(|(title, skipped)| {
        let rows = skipped
            .iter()
            .map(|s| vec![TableCell::new(&s.tunable), TableCell::new(s.reason.to_string())]);
        let columns = ["tunable", "why it is not used"].map(TableColumn::words).to_vec();
        let table = Table::new(title, columns, rows.collect());
        table.with_head(TableHead::Caption).into_block()
    });
    let names: Vec<&str> = off.iter().map(|s| s.tunable.as_str()).collect();
    let names = (!names.is_empty()).then(|| TextLine::new(names.join(", ")));
    let off = ReportBlock::section("Off by default (--on NAME)", names.into_iter().collect());
    tables.chain(off).collect()
}

/// What `verify` cannot prove about the shield.
fn unproven(plan: &Plan) -> Vec<ReportBlock> {
    let limits = plan.unproven.iter().map(|limit| TextLine::new(limit.to_string()));
    ReportBlock::section("What verify cannot prove here", limits.collect())
}

/// What the user must know before applying the plan.
pub fn warnings(plan: &Plan) -> Option<ReportBlock> {
    let title = "Warnings about the plan".to_owned();
    let items: Vec<String> = plan.warnings.iter().map(ToString::to_string).collect();
    (!items.is_empty()).then_some(ReportBlock::Doubts { title, items })
}

fn changes(plan: &Plan, detail: PlanDetail) -> Vec<ReportBlock> {
    let already: usize = plan.already.values().sum();
    let tunables = match plan.already.first_key_value() {
        Some((tunable, _)) if plan.already.len() == 1 => tunable.clone(),
        _ => many(plan.already.len(), "tunable"),
    };
    let already = match already {
        0 => String::new(),
        1 => format!("; 1 setting of {tunables} is already set"),
        n => format!("; {n} settings of {tunables} are already set"),
    };
    let title = format!("{}{already}", many(plan.steps.len(), "change"));
    if plan.steps.is_empty() {
        return vec![ReportBlock::Heading(title)];
    }
    if detail == PlanDetail::EveryChange {
        let lines = plan.steps.iter().flat_map(|step| {
            // A new object has no current value, nor has a change that sets none.
            let now = step.now.as_ref().map(|now| match now.trim() {
                "" => " (now: empty)".to_owned(),
                now => format!(" (now: {now})"),
            });
            let now = now.unwrap_or_default();
            let change = TextLine::new(format!("{}: {}{now}", step.tunable, step.reason));
            [change, TextLine::command(step.change.shell()).below().below()]
        });
        return ReportBlock::section(title, lines.collect());
    }
    let mut rows = Vec::new();
    for steps in plan.steps.chunk_by(|a, b| a.tunable == b.tunable) {
        let Some(first) = steps.first() else { continue };
        let risk = match first.risk {
            Risk::None | Risk::Low => "",
            Risk::Medium => "  (a risk: see `cpushield explain`)",
        };
        for (i, line) in summarize_steps(steps).into_iter().enumerate() {
            let (name, risk) = if i == 0 { (first.tunable.as_str(), risk) } else { ("", "") };
            rows.push([name, &format!("{line}{risk}")].map(TableCell::new).to_vec());
        }
    }
    let columns = ["tunable", "changes"].map(TableColumn::words).to_vec();
    vec![ReportBlock::Table(Table::new(title, columns, rows).with_head(TableHead::Caption))]
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
    match &step.change {
        Change::Affinity { comm, cpus, .. } => {
            (format!("{{n}} thread(s) to CPU {cpus}: {{name}}"), comm.clone())
        }
        Change::Write { path, value, compare } => match (&step.reason, path.rsplit_once('/')) {
            (StepReason::Irq { irq, .. }, _) => {
                // Kernels before 3.0 have only the mask.
                let cpus = compare.parse_set(value).map(|cpus| cpus.to_string());
                let cpus = cpus.as_ref().unwrap_or(value);
                (format!("{{n}} interrupt(s){{used}} to CPU {cpus}: {{name}}"), irq.to_string())
            }
            (_, Some((dir, file))) if is_one_of_many(dir) => {
                let values = describe_values(step.now.as_deref(), value);
                (format!("{file} of {{name}}: {values}"), last_name(dir).to_owned())
            }
            _ => {
                (format!("{path}: {}", describe_values(step.now.as_deref(), value)), String::new())
            }
        },
        other => (other.subject(), String::new()),
    }
}

/// The value of a setting now and later. A setting that an active shield has changed already stays
/// as it is, and this shield keeps it too.
fn describe_values(now: Option<&str>, value: &str) -> String {
    match now {
        None | Some("") => value.to_owned(),
        Some(now) if now == value => format!("{value} (unchanged)"),
        Some(now) => format!("{now} → {value}"),
    }
}

/// Whether a directory is one of many with the same files. Their files are named by directory.
fn is_one_of_many(dir: &str) -> bool {
    ["/queues/", "/machinecheck/", "/workqueue/", "/fair_server/", "/ext_server/", "/cpuidle/"]
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

/// The tasks and interrupts that stay, by reason.
pub fn immovable(all: &[Immovable]) -> Vec<ReportBlock> {
    let mut by_reason: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for Immovable { what, reason, .. } in all {
        by_reason.entry(reason.to_string()).or_default().push(what.to_string());
    }
    let lines = by_reason.into_iter().flat_map(|(reason, names)| {
        let reason = TextLine::new(format!("{}: {reason}", names.len()));
        [reason, TextLine::new(list_names(&names)).below().below()]
    });
    let title = format!("Tasks and interrupts that cannot be moved: {}", all.len());
    ReportBlock::section(title, lines.collect())
}
