//! Plan → blocks: the choice of CPUs, a line for each tunable, what remains and why. Pure.

use super::blocks::{ReportBlock, Table, TableCell, TableHead, TextLine, TextTone};
use crate::change::{Change, Risk};
use crate::documents::count_text::{joined, many};
use crate::documents::inapplicable::InapplicableReason;
use crate::documents::plan::{
    BootAdviceReason, Immovable, Plan, Shield, SkipReason, SkippedTunable, Step, StepReason, named,
};
use crate::documents::policy_plans::PolicyPlans;
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

/// The machine that a plan is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlannedMachine {
    /// This one.
    Live,
    /// A recorded one.
    Recorded,
}

/// The blocks of `cpushield plan`. `detail` shows each step with its shell command.
#[must_use]
pub fn blocks(plan: &Plan, detail: PlanDetail, on: PlannedMachine) -> Vec<ReportBlock> {
    let mut blocks = plan_blocks(plan, detail);
    blocks.extend(next_command("`cpushield apply` with the same options creates this shield", on));
    blocks
}

/// The blocks of `cpushield plan --all`.
#[must_use]
pub fn policy_blocks(
    plans: &PolicyPlans,
    detail: PlanDetail,
    on: PlannedMachine,
) -> Vec<ReportBlock> {
    let mut blocks = Vec::new();
    for plan in &plans.plans {
        blocks.push(ReportBlock::Heading(format!("Shield {}", plan.shield.name)));
        blocks.extend(plan_blocks(plan, detail));
    }
    blocks.extend(left_alone(&plans.others));
    blocks.extend(next_command("`cpushield apply --all` creates these shields", on));
    blocks
}

/// The active shields that a policy does not have.
pub fn left_alone(others: &[Shield]) -> Vec<ReportBlock> {
    let lines = others
        .iter()
        .map(|it| TextLine::new(format!("shield {} on {} is active", it.name, named(&it.cpus))));
    ReportBlock::section("Not in the policy, so left alone", lines)
}

fn next_command(what: &str, on: PlannedMachine) -> [ReportBlock; 2] {
    let place = match on {
        PlannedMachine::Live => "",
        PlannedMachine::Recorded => " on that machine",
    };
    let next = format!("{what}{place}; with `--dry-run` it prints the commands");
    let next = TextLine::remark(TextTone::Plain, "Next", next);
    [ReportBlock::Space, ReportBlock::line(next)]
}

fn plan_blocks(plan: &Plan, detail: PlanDetail) -> Vec<ReportBlock> {
    let shield = &plan.shield;
    let (cpus, rest) = (named(&shield.cpus), named(&shield.housekeeping));
    let closed = shield.closed_text();
    let shield = TextLine::new(format!("Shield: {cpus}. Housekeeping: {rest}.{closed}"));
    let why = plan.why.iter().map(|why| TextLine::new(why).below());
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
    let (parameter, known, cpus) = plan.boot.iter().find_map(|advice| match &advice.reason {
        BootAdviceReason::TickStops { known, cpus } => Some((&advice.parameter, *known, cpus)),
        _ => None,
    })?;
    let how = match known {
        true => format!("To remove it, boot with {parameter}."),
        false => format!("It is unknown whether a boot with {parameter} would remove it."),
    };
    let line = format!("The tick still interrupts {}. {how}", named(cpus));
    (!cpus.is_empty()).then(|| TextLine::new(line))
}

/// The interruptions that remain until a boot with these parameters.
pub fn boot_advice(plan: &Plan) -> Option<ReportBlock> {
    let rows = plan.boot.iter().map(|advice| {
        let removes = joined(advice.removes.iter().map(|cause| cause.name()), ", ");
        let reason = TableCell::new(&advice.reason);
        vec![TableCell::code(&advice.parameter), TableCell::new(removes), reason]
    });
    let title = "Removed only by a boot parameter (cpushield boot plan)";
    let table = Table::new(title, ["parameter", "removes", "why"], rows.collect());
    table.with_remarks().into_block()
}

/// Whether a tunable has a row among the boot parameters.
fn is_advised(plan: &Plan, skipped: &SkippedTunable) -> bool {
    let why = InapplicableReason::OnlyAtBoot;
    skipped.reason == SkipReason::Inapplicable { why }
        && plan.boot.iter().any(|advice| advice.tunable == skipped.tunable)
}

/// The tunables that do not apply to this machine, and in one line those that are off by default.
pub fn skipped(plan: &Plan) -> Vec<ReportBlock> {
    let skipped = plan.skipped.iter().filter(|skipped| !is_advised(plan, skipped));
    let (off, used): (Vec<&SkippedTunable>, Vec<_>) =
        skipped.partition(|skipped| skipped.reason.is_off_by_default());
    let (spared, not_applicable): (Vec<&SkippedTunable>, Vec<_>) = used
        .into_iter()
        .partition(|skipped| matches!(skipped.reason, SkipReason::SparesShields { .. }));
    let tables = [("Left out for other shields", spared), ("Not applicable here", not_applicable)];
    let tables = tables.into_iter().filter_map(|(title, skipped)| {
        let rows =
            skipped.iter().map(|s| vec![TableCell::new(&s.tunable), TableCell::new(&s.reason)]);
        let table = Table::new(title, ["tunable", "why it is not used"], rows.collect());
        table.with_head(TableHead::Caption).into_block()
    });
    let names: Vec<&str> = off.iter().map(|s| s.tunable.as_str()).collect();
    let names = (!names.is_empty()).then(|| TextLine::new(names.join(", ")));
    let off = ReportBlock::section("Off by default (--on NAME)", names);
    tables.chain(off).collect()
}

/// What `verify` cannot prove about the shield.
fn unproven(plan: &Plan) -> Vec<ReportBlock> {
    let limits = plan.unproven.iter().map(TextLine::new);
    ReportBlock::section("What verify cannot prove here", limits)
}

/// What the user must know before applying the plan.
pub fn warnings(plan: &Plan) -> Option<ReportBlock> {
    ReportBlock::doubts("Warnings about the plan", &plan.warnings)
}

fn changes(plan: &Plan, detail: PlanDetail) -> Vec<ReportBlock> {
    let already: usize = plan.already.values().sum();
    let tunables = match plan.already.first_key_value() {
        Some((tunable, _)) if plan.already.len() == 1 => tunable.clone(),
        _ => many(plan.already.len(), "tunable"),
    };
    let already = match already {
        0 => String::new(),
        1 => format!("; 1 value of {tunables} is already right"),
        n => format!("; {n} values of {tunables} are already right"),
    };
    let (same, steps): (Vec<&Step>, Vec<&Step>) =
        plan.steps.iter().partition(|step| writes_same_value(step));
    let title = format!("{}{already}", many(steps.len(), "change"));
    // In full, the steps stay in the order in which they are made.
    if detail == PlanDetail::EveryChange {
        let again = match same.len() {
            0 => String::new(),
            1 => "; 1 value is written again".to_owned(),
            n => format!("; {n} values are written again"),
        };
        return every_step(format!("{title}{again}"), &plan.steps);
    }
    let mut blocks = steps_table(title, &steps);
    if !same.is_empty() {
        blocks.extend(steps_table("Written again with the same value".to_owned(), &same));
    }
    blocks
}

/// Whether a step leaves its value as it is: another shield needs it too, or only the write
/// matters.
fn writes_same_value(step: &Step) -> bool {
    matches!(&step.change, Change::Write { value, .. } if step.now.as_ref() == Some(value))
}

/// Each step with its reason and its command.
fn every_step(title: String, steps: &[Step]) -> Vec<ReportBlock> {
    if steps.is_empty() {
        return vec![ReportBlock::Heading(title)];
    }
    let lines = steps.iter().flat_map(|step| {
        // A new object has no current value, nor has a change that sets none.
        let now = step.now.as_ref().map(|now| match now.trim() {
            "" => " (now: empty)".to_owned(),
            now => format!(" (now: {now})"),
        });
        let now = now.unwrap_or_default();
        let change = TextLine::new(format!("{}: {}{now}", step.tunable, step.reason));
        [change, TextLine::command(step.change.shell()).below().below()]
    });
    ReportBlock::section(title, lines)
}

/// A table of steps, summarized for each tunable.
fn steps_table(title: String, steps: &[&Step]) -> Vec<ReportBlock> {
    if steps.is_empty() {
        return vec![ReportBlock::Heading(title)];
    }
    let mut rows = Vec::new();
    for steps in steps.chunk_by(|a, b| a.tunable == b.tunable) {
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
    vec![ReportBlock::Table(
        Table::new(title, ["tunable", "changes"], rows).with_head(TableHead::Caption),
    )]
}

/// Lines for the steps of one tunable: one line with a count for each kind of step.
fn summarize_steps(steps: &[&Step]) -> Vec<String> {
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
        kind.replace("{n}", &names.len().to_string())
            .replace("{name}", &list_names(&names, NAMES_MAX))
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
            (format!("{{n}} thread(s) to {}: {{name}}", named(cpus)), comm.clone())
        }
        Change::Write { path, value, compare, .. } => match (&step.reason, path.rsplit_once('/')) {
            (StepReason::Irq { irq, .. }, _) => {
                // Kernels before 3.0 have only the mask.
                let cpus = compare.parse_set(value).map(|cpus| named(&cpus));
                let cpus = cpus.as_ref().unwrap_or(value);
                (format!("{{n}} interrupt(s){{used}} to {cpus}: {{name}}"), irq.to_string())
            }
            (why @ StepReason::DeepSleep { cpu, .. }, _) => {
                (format!("CPU {{name}}: {why}"), cpu.to_string())
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

/// The value of a setting now and later.
fn describe_values(now: Option<&str>, value: &str) -> String {
    match now {
        None | Some("") => value.to_owned(),
        Some(now) if now == value => value.to_owned(),
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

/// The first names, at most `most`, and the number of the others. The document has all of them.
pub(super) fn list_names(names: &[String], most: usize) -> String {
    let shown = joined(names.iter().take(most), ", ");
    match names.len().saturating_sub(most) {
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
        [reason, TextLine::new(list_names(&names, NAMES_MAX)).below().below()]
    });
    let title = format!("Tasks and interrupts that cannot be moved: {}", all.len());
    ReportBlock::section(title, lines)
}

#[cfg(test)]
mod tests {
    use super::super::blocks::{terminal_blocks, unpainted};
    use super::*;
    use crate::documents::machine::Machine;
    use crate::plan::fake::{plain, set};
    use crate::plan::plan;
    use crate::policy::ShieldRequest;

    fn planned(machine: &Machine, cpus: &str) -> Plan {
        let cpus = Some(set(cpus));
        plan(machine, &ShieldRequest { cpus, ..ShieldRequest::default() }).unwrap()
    }

    fn shown(plan: &Plan) -> String {
        let blocks = blocks(plan, PlanDetail::Summary, PlannedMachine::Live);
        terminal_blocks(&blocks, 200, &unpainted)
    }

    #[test]
    fn a_boot_parameter_is_named_for_the_cpus_that_lack_it_and_only_once() {
        let mut machine = plain(6);
        machine.isolation.nohz_full = Some(set("1-2"));
        let text = shown(&planned(&machine, "2-4"));
        let tick = "The tick still interrupts CPUs 3-4. To remove it, boot with nohz_full=1-4.";
        assert!(text.contains(tick), "{text}");
        assert!(text.contains("Removed only by a boot parameter"), "{text}");
        for row in ["nohz-full", "rcu-nocbs", "only a boot parameter can"] {
            assert!(!text.contains(row), "{text}");
        }
        let text = shown(&planned(&machine, "1-2"));
        assert!(!text.contains("The tick still"), "{text}");
    }

    #[test]
    fn a_value_that_is_only_written_again_is_not_counted_as_a_change() {
        let mut plan = planned(&plain(4), "3");
        let write = Change::Write {
            path: "/proc/sys/vm/stat_interval".to_owned(),
            value: "3600".to_owned(),
            compare: crate::change::ValueComparison::Text,
            what: crate::change::WrittenFile::Setting,
        };
        let mut step = Step {
            tunable: "vm-stat-interval".to_owned(),
            change: write,
            now: None,
            reason: "a reason".into(),
            risk: Risk::None,
            when: crate::change::EffectTime::Runtime,
            removes: Vec::new(),
            required: false,
        };
        let old = plan.steps.len();
        for (now, counted, apart) in [("1", old + 1, false), ("3600", old, true)] {
            step.now = Some(now.to_owned());
            plan.steps.truncate(old);
            plan.steps.push(step.clone());
            let text = shown(&plan);
            assert!(text.contains(&many(counted, "change")), "{text}");
            assert_eq!(text.contains("Written again with the same value"), apart, "{text}");
        }
    }
}
