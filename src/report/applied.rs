//! [`AppliedPlan`] and [`UndoneShield`] → blocks: the changes grouped by tunable, what was not
//! changed and why, and the next commands. Pure.

use super::blocks::{ReportBlock, Table, TableCell, TableHead, TextLine};
use super::plan::{boot_advice, left_alone, warnings};
use super::verdict::more_line;
use crate::change::{Change, Outcome};
use crate::documents::applied::{
    AppliedPlan, AppliedPolicy, AppliedShield, AppliedStep, ChangeFate, ShieldNote, UndoneShield,
    UndoneStep,
};
use crate::documents::count_text::{joined, many};
use crate::documents::plan::{Plan, Shield};
use std::collections::BTreeMap;

/// Lines that one section lists; the others are counted.
const LINES_MAX: usize = 8;

/// The blocks of `cpushield apply`.
#[must_use]
pub fn applied_blocks(applied: &AppliedPlan, plan: &Plan) -> Vec<ReportBlock> {
    let mut blocks = result_blocks(applied, plan);
    // Where there are several shields, a command must name one.
    let is_one_of_several =
        applied.notes.iter().any(|note| matches!(note, ShieldNote::OtherShields { .. }));
    let shield = match is_one_of_several {
        true => format!(" --shield {}", applied.shield.name),
        false => String::new(),
    };
    blocks.push(next_commands([
        (&format!("cpushield run{shield} -- PROGRAM"), "runs a program in the shield"),
        (&format!("cpushield verify{shield}"), "shows what still interrupts the shielded CPUs"),
        (&format!("cpushield undo{shield}"), "restores the original settings"),
    ]));
    blocks
}

/// The result without the next commands.
fn result_blocks(applied: &AppliedPlan, plan: &Plan) -> Vec<ReportBlock> {
    let rows = group_by_tunable(&applied.steps).into_iter().map(|(tunable, steps)| {
        let only_saved = steps.iter().all(|step| {
            plan.steps.get(step.done.step).is_some_and(|s| s.change == Change::KeepAffinities)
        });
        let result = if only_saved { "saved".to_owned() } else { count_outcomes(&steps) };
        [tunable, &result].map(TableCell::new).to_vec()
    });
    let results =
        Table::new("Changes", ["tunable", "result"], rows.collect()).with_head(TableHead::Hidden);
    let mut blocks = vec![ReportBlock::line(shield_line(&applied.shield))];
    blocks.extend(results.into_block());
    blocks.extend(warnings(plan));
    let notes = applied.steps.iter().filter_map(|step| {
        let note = step.done.note.as_ref()?;
        Some(format!("{}: {note}", step.subject))
    });
    let own = applied.notes.iter().map(ToString::to_string);
    blocks.extend(short_section("Note", own.chain(notes).collect()));
    blocks.extend(refusals(&applied.steps));
    blocks.extend(boot_advice(plan));
    blocks
}

/// The blocks of `cpushield apply --all`.
#[must_use]
pub fn applied_policy_blocks(policy: &AppliedPolicy) -> Vec<ReportBlock> {
    let mut blocks = Vec::new();
    for AppliedShield { what, applied, plan, .. } in &policy.shields {
        let what = what.describe();
        blocks.push(ReportBlock::Heading(format!("Shield {} {what}", applied.shield.name)));
        blocks.extend(result_blocks(applied, plan));
    }
    blocks.extend(left_alone(&policy.others));
    blocks.push(next_commands([
        ("cpushield run --shield NAME -- PROGRAM", "runs a program in a shield"),
        ("cpushield status", "shows all shields"),
        ("cpushield undo --all", "restores the original settings"),
    ]));
    blocks
}

/// The blocks of `cpushield apply --dry-run`: the equivalent commands, for `sh`.
#[must_use]
pub fn script_blocks(plan: &Plan) -> Vec<ReportBlock> {
    let about = format!("# shields CPU {}; dry run: nothing was changed", plan.shield.cpus);
    let commands = plan.steps.iter().filter(|step| step.is_runtime());
    let commands = commands.map(|step| step.change.shell());
    let lines = [about].into_iter().chain(commands).map(TextLine::verbatim);
    vec![ReportBlock::Lines(lines.collect())]
}

fn next_commands(next: [(&str, &str); 3]) -> ReportBlock {
    let rows = next.map(|(command, what)| vec![TableCell::code(command), TableCell::new(what)]);
    ReportBlock::Table(
        Table::new("Next", ["command", "what it does"], rows.to_vec())
            .with_head(TableHead::Caption),
    )
}

/// The shielded CPUs and the others.
pub fn shield_line(shield: &Shield) -> TextLine {
    let Shield { name, cpus, housekeeping, .. } = shield;
    let name = match shield.has_default_name() {
        true => String::new(),
        false => format!(" (shield {name})"),
    };
    let closed = shield.closed_text();
    TextLine::new(format!("Shielded: CPU {cpus}{name}. Housekeeping: CPU {housekeeping}.{closed}"))
}

/// Groups the steps by tunable, in the order of the plan.
fn group_by_tunable(steps: &[AppliedStep]) -> Vec<(&str, Vec<&AppliedStep>)> {
    let mut groups: Vec<(&str, Vec<&AppliedStep>)> = Vec::new();
    for step in steps {
        match groups.iter_mut().find(|(name, _)| *name == step.tunable) {
            Some((_, known)) => known.push(step),
            None => groups.push((&step.tunable, vec![step])),
        }
    }
    groups
}

/// `3 changed, 1 refused`, and the tasks that were moved.
fn count_outcomes(steps: &[&AppliedStep]) -> String {
    let (mut changed, mut already, mut refused, mut absent) = (0, 0, 0, 0);
    for step in steps {
        match step.done.outcome {
            Outcome::Changed => changed += 1,
            Outcome::AlreadySo => already += 1,
            Outcome::Refused { .. } => refused += 1,
            Outcome::Absent => absent += 1,
        }
    }
    let mut words = Vec::new();
    for (count, word) in
        [(changed, "changed"), (already, "already set"), (refused, "refused"), (absent, "gone")]
    {
        if count > 0 {
            words.push(format!("{count} {word}"));
        }
    }
    for moved in steps.iter().filter_map(|step| step.done.moved.as_ref()) {
        let stayed: usize = moved.stayed.iter().map(|stayed| stayed.tasks).sum();
        words.push(format!("{} moved", many(moved.moved, "task")));
        if stayed > 0 {
            words.push(format!("{stayed} bound to their CPU"));
        }
    }
    words.join(", ")
}

/// The changes that the kernel refused, counted by reason.
fn refusals(steps: &[AppliedStep]) -> Vec<ReportBlock> {
    let mut by_reason: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for step in steps {
        if let Outcome::Refused { reason, .. } = &step.done.outcome {
            by_reason.entry((&step.tunable, reason)).or_default().push(&step.subject);
        }
    }
    let lines =
        by_reason.into_iter().map(|((tunable, reason), subjects)| match subjects.as_slice() {
            [only] => format!("{tunable}: {reason}: {only}"),
            all => {
                let first = all.iter().take(3);
                let more = if all.len() > 3 { ", …" } else { "" };
                format!("{tunable}: {reason} ({} times): {}{more}", all.len(), joined(first, ", "))
            }
        });
    short_section("Refused", lines.collect())
}

/// A subheading and the first lines below it; nothing when there are no lines.
fn short_section(title: &str, lines: Vec<String>) -> Vec<ReportBlock> {
    let more = more_line(lines.len(), LINES_MAX, "more");
    let lines = lines.into_iter().take(LINES_MAX).map(TextLine::new);
    ReportBlock::section(title, lines.chain(more))
}

/// The blocks of a shield that was taken down.
pub(super) fn undone_blocks(undone: &UndoneShield) -> Vec<ReportBlock> {
    let line = |text: String| ReportBlock::line(TextLine::new(text));
    if undone.other_boot {
        let shield = undone.shield.as_ref();
        let what =
            shield.map_or_else(|| "a CPU".to_owned(), |shield| format!("CPU {}", shield.cpus));
        let kept = undone.journal.iter().map(|path| format!("the journal was moved to {path}"));
        let mut blocks = vec![line(format!(
            "nothing to undo: the machine has rebooted since {what} was shielded, and the reboot \
             removed every change"
        ))];
        let own = undone.notes.iter().map(ToString::to_string);
        blocks.extend(short_section("Note", own.chain(kept).collect()));
        return blocks;
    }
    let Some(shield) = &undone.shield else {
        return vec![line(match &undone.journal {
            Some(path) => {
                format!("nothing was undone; the journal was moved to {path} and is no longer used")
            }
            None => "nothing to undo: no shield is active".to_owned(),
        })];
    };
    let restored = undone.steps.iter().filter(|step| step.fate == ChangeFate::Restored).count();
    let tasks = match undone.restored_tasks {
        0 => String::new(),
        n => format!(", affinities of {} restored", many(n, "task")),
    };
    let (restored, cpus) = (many(restored, "change"), &shield.cpus);
    let mut blocks = vec![line(match undone.failed().count() {
        0 => format!("CPU {cpus} is no longer shielded: {restored} undone{tasks}"),
        failed => {
            let failed = many(failed, "change");
            format!("CPU {cpus}: {restored} undone{tasks}, but {failed} could not be undone")
        }
    })];
    let notes = undone.steps.iter().filter_map(|step| Some(step.note.as_ref()?.to_string()));
    let gone = undone.steps.iter().filter(|step| step.fate == ChangeFate::Gone);
    for (title, lines) in [
        ("Note", undone.notes.iter().map(ToString::to_string).chain(notes).collect()),
        ("Programs that left the shield and still run", left_programs(undone)),
        ("Changed by another process since, so left as they are", drifted_lines(undone)),
        ("Gone, so there is nothing to restore", gone.map(describe_step).collect()),
        ("Could not be restored", undone.failed().map(describe_step).collect()),
    ] {
        blocks.extend(short_section(title, lines));
    }
    blocks
}

fn left_programs(undone: &UndoneShield) -> Vec<String> {
    let programs = undone.left.iter();
    programs.map(|it| format!("{} ({}): CPU {}", it.comm, it.pid, it.cpus)).collect()
}

/// What another process has changed since.
fn drifted_lines(undone: &UndoneShield) -> Vec<String> {
    let drifted = undone.steps.iter().filter(|s| matches!(s.fate, ChangeFate::Drifted { .. }));
    let mut lines: Vec<String> = drifted.map(describe_step).collect();
    let tasks = undone.drifted_tasks.len();
    if tasks > 0 {
        lines.push(format!("{} whose affinity has changed since", many(tasks, "task")));
    }
    let requested = undone.requested_tasks.len();
    if requested > 0 {
        let tasks = many(requested, "task");
        lines.push(format!(
            "{tasks} that requested exactly the housekeeping CPUs as their affinity"
        ));
    }
    lines
}

fn describe_step(step: &UndoneStep) -> String {
    let subject = &step.subject;
    match &step.fate {
        ChangeFate::Restored | ChangeFate::Gone => subject.clone(),
        ChangeFate::Failed { reason } => format!("{subject}: {reason}"),
        ChangeFate::Drifted { now, ours, original } => {
            format!("{subject}: now {now:?}, cpushield set {ours:?}, the original was {original:?}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::blocks::{terminal_blocks, unpainted};
    use super::*;
    use crate::documents::plan::NamedShield;
    use crate::plan::fake::{plain, set};
    use crate::plan::plan;
    use crate::policy::ShieldRequest;

    fn screen(name: &str, notes: Vec<ShieldNote>) -> String {
        let request = ShieldRequest { name: name.to_owned(), ..ShieldRequest::default() };
        let plan = plan(&plain(4), &request).unwrap();
        let applied = AppliedPlan { notes, ..AppliedPlan::new(plan.shield.clone(), String::new()) };
        terminal_blocks(&applied_blocks(&applied, &plan), 100, &unpainted)
    }

    #[test]
    fn the_result_names_the_shield_where_a_command_must_name_it() {
        let alone = screen("cpushield", Vec::new());
        assert!(alone.starts_with("Shielded: CPU 3. Housekeeping: CPU 0-2.\n"), "{alone}");
        assert!(alone.contains("  cpushield undo  ") && !alone.contains("--shield"), "{alone}");
        let shields = vec![NamedShield { name: "audio".to_owned(), cpus: set("2") }];
        let second = screen("rt", vec![ShieldNote::OtherShields { shields }]);
        assert!(second.starts_with("Shielded: CPU 3 (shield rt). "), "{second}");
        assert!(second.contains("also active: shield audio (CPU 2)\n"), "{second}");
        for command in ["run --shield rt -- PROGRAM", "verify --shield rt", "undo --shield rt"] {
            assert!(second.contains(&format!("  cpushield {command}  ")), "{second}");
        }
    }

    #[test]
    fn an_undo_that_failed_in_part_does_not_say_that_the_shield_is_gone() {
        let plan = plan(&plain(4), &ShieldRequest::default()).unwrap();
        let fate = ChangeFate::Failed { reason: "EBUSY".to_owned() };
        let (tunable, subject) = ("cpuset".to_owned(), "/sys/fs/cgroup/a".to_owned());
        let steps = vec![UndoneStep { step: 0, tunable, subject, fate, note: None }];
        let undone = UndoneShield { shield: Some(plan.shield), steps, ..UndoneShield::nothing() };
        let text = terminal_blocks(&undone_blocks(&undone), 100, &unpainted);
        let first = "CPU 3: 0 changes undone, but 1 change could not be undone\n";
        assert!(text.starts_with(first), "{text}");
    }
}
