//! [`AppliedPlan`] and [`UndoneShield`] as text: the changes grouped by tunable, what was not
//! changed and why, and the next commands. Pure.

use super::table::{Align, lay_out, many};
use crate::apply::{AppliedPlan, AppliedStep, ChangeFate, UndoneShield, UndoneStep};
use crate::change::{Change, Outcome};
use crate::plan::Plan;
use std::collections::BTreeMap;

/// Lines that one section lists; the others are counted.
const LINES_MAX: usize = 8;

/// The text of `cpushield apply`.
#[must_use]
pub fn applied_text(applied: &AppliedPlan, plan: &Plan) -> String {
    let shield = &applied.shield;
    let mut text =
        format!("Shielded: CPU {}. Housekeeping: CPU {}.\n", shield.cpus, shield.housekeeping);
    let mut rows = Vec::new();
    for (tunable, steps) in group_by_tunable(&applied.steps) {
        let only_saved = steps.iter().all(|step| {
            plan.steps.get(step.done.step).is_some_and(|s| s.change == Change::KeepAffinities)
        });
        let result = if only_saved { "saved".to_owned() } else { count_outcomes(&steps) };
        rows.push(vec![tunable.to_owned(), result]);
    }
    text.push_str(&lay_out("  ", &[Align::Left, Align::Left], &rows));
    let notes = applied.steps.iter().filter_map(|step| {
        let note = step.done.note.as_ref()?;
        Some(format!("{}: {note}", step.subject))
    });
    let general = plan.warnings.iter().chain(&applied.notes).cloned();
    text.push_str(&list_section("Note", general.chain(notes).collect()));
    text.push_str(&refusals(&applied.steps));
    let boot = plan.boot.iter().map(|advice| {
        let causes: Vec<&str> = advice.removes.iter().map(|cause| cause.name()).collect();
        format!("{}: removed only by {} at boot", causes.join(", "), advice.parameter)
    });
    text.push_str(&list_section("What remains", boot.collect()));
    text.push_str(
        "\nNext\n  cpushield run -- PROGRAM   runs a program in the shield\n  \
         cpushield verify           shows what still interrupts it\n  \
         cpushield undo             restores the original settings\n",
    );
    text
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
        [(changed, "changed"), (already, "already right"), (refused, "refused"), (absent, "gone")]
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
fn refusals(steps: &[AppliedStep]) -> String {
    let mut by_reason: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for step in steps {
        if let Outcome::Refused { reason, .. } = &step.done.outcome {
            by_reason.entry((&step.tunable, reason)).or_default().push(&step.subject);
        }
    }
    let lines =
        by_reason.into_iter().map(|((tunable, reason), subjects)| match subjects.as_slice() {
            [only] => format!("{tunable}: {only}: {reason}"),
            all => {
                let first: Vec<&str> = all.iter().take(3).copied().collect();
                let more = if all.len() > 3 { ", …" } else { "" };
                format!("{tunable}: {} times {reason}: {}{more}", all.len(), first.join(", "))
            }
        });
    list_section("Refused", lines.collect())
}

/// A title and the first lines below it; nothing when there are no lines.
fn list_section(title: &str, lines: Vec<String>) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{title}\n");
    let count = lines.len();
    for line in lines.into_iter().take(LINES_MAX) {
        text.push_str(&format!("  {line}\n"));
    }
    if count > LINES_MAX {
        text.push_str(&format!("  and {} more (--json lists all)\n", count - LINES_MAX));
    }
    text
}

/// The text of `cpushield undo`.
#[must_use]
pub fn undone_text(undone: &UndoneShield) -> String {
    if undone.other_boot {
        let shield = undone.shield.as_ref();
        let what =
            shield.map_or_else(|| "a CPU".to_owned(), |shield| format!("CPU {}", shield.cpus));
        let mut text = format!(
            "nothing to undo: the machine has rebooted since {what} was shielded, which removed \
             every change\n"
        );
        let kept = undone.journal.iter().map(|path| format!("the journal is now {path}"));
        text.push_str(&list_section("Note", undone.notes.iter().cloned().chain(kept).collect()));
        return text;
    }
    let Some(shield) = &undone.shield else {
        return match &undone.journal {
            Some(path) => {
                format!("nothing was undone; the journal is now {path} and no longer used\n")
            }
            None => "nothing to undo: no shield is in force\n".to_owned(),
        };
    };
    let restored = undone.steps.iter().filter(|step| step.fate == ChangeFate::Restored).count();
    let mut text =
        format!("CPU {} is no longer shielded: {} undone", shield.cpus, many(restored, "change"));
    if undone.restored_tasks > 0 {
        text.push_str(&format!(
            ", affinities of {} rewritten",
            many(undone.restored_tasks, "task")
        ));
    }
    text.push('\n');
    let notes = undone.steps.iter().filter_map(|step| step.note.clone());
    text.push_str(&list_section("Note", undone.notes.iter().cloned().chain(notes).collect()));
    text.push_str(&list_section(
        "Changed since by another process, left as they are",
        drifted_lines(undone),
    ));
    let gone = undone.steps.iter().filter(|step| step.fate == ChangeFate::Gone);
    text.push_str(&list_section(
        "Gone, so there is nothing to restore",
        gone.map(describe_step).collect(),
    ));
    let failed = undone.failed().map(describe_step).collect();
    text.push_str(&list_section("Could not be restored", failed));
    text
}

/// What another process has changed since.
fn drifted_lines(undone: &UndoneShield) -> Vec<String> {
    let drifted = undone.steps.iter().filter(|s| matches!(s.fate, ChangeFate::Drifted { .. }));
    let mut lines: Vec<String> = drifted.map(describe_step).collect();
    let tasks = undone.drifted_tasks.len();
    if tasks > 0 {
        lines.push(format!("{} with an affinity set since", many(tasks, "task")));
    }
    let requested = undone.asked_tasks.len();
    if requested > 0 {
        let tasks = many(requested, "task");
        lines.push(format!("{tasks} that requested exactly the housekeeping CPUs"));
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
