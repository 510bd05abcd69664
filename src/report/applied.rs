//! [`AppliedPlan`] and [`UndoneShield`] for people: what was changed, grouped by tunable, what was
//! not and why, and what to do next. Pure.

use super::table::{Align, lay_out, many};
use crate::apply::{AppliedPlan, AppliedStep, ChangeFate, UndoneShield, UndoneStep};
use crate::change::{Change, Outcome};
use crate::plan::Plan;
use std::collections::BTreeMap;

/// Lines of one kind; more are counted.
const LINES_MAX: usize = 8;

/// The text of `cpushield apply`.
#[must_use]
pub fn applied_text(applied: &AppliedPlan, plan: &Plan) -> String {
    let shield = &applied.shield;
    let mut text =
        format!("Shielded: CPU {}. Housekeeping: CPU {}.\n", shield.cpus, shield.housekeeping);
    let mut rows = Vec::new();
    for (tunable, steps) in grouped(&applied.steps) {
        let kept = |step: &&AppliedStep| {
            plan.steps.get(step.done.step).is_some_and(|s| s.change == Change::KeepAffinities)
        };
        let told = if steps.iter().all(kept) { "saved".to_owned() } else { counts(&steps) };
        rows.push(vec![tunable.to_owned(), told]);
    }
    text.push_str(&lay_out("  ", &[Align::Left, Align::Left], &rows));
    let notes = applied.steps.iter().filter_map(|step| {
        let note = step.done.note.as_ref()?;
        Some(format!("{}: {note}", step.subject))
    });
    let told = plan.warnings.iter().chain(&applied.notes).cloned();
    text.push_str(&listed("Note", told.chain(notes).collect()));
    text.push_str(&refusals(&applied.steps));
    let boot = plan.boot.iter().map(|advice| {
        let causes: Vec<&str> = advice.removes.iter().map(|cause| cause.name()).collect();
        format!("{}: removed only by {} at boot", causes.join(", "), advice.parameter)
    });
    text.push_str(&listed("What remains", boot.collect()));
    text.push_str(
        "\nNext\n  cpushield run -- PROGRAM   runs a program in the shield\n  \
         cpushield verify           shows what still interrupts it\n  \
         cpushield undo             restores the original settings\n",
    );
    text
}

/// The steps by tunable, in the order of the plan.
fn grouped(steps: &[AppliedStep]) -> Vec<(&str, Vec<&AppliedStep>)> {
    let mut groups: Vec<(&str, Vec<&AppliedStep>)> = Vec::new();
    for step in steps {
        match groups.iter_mut().find(|(name, _)| *name == step.tunable) {
            Some((_, known)) => known.push(step),
            None => groups.push((&step.tunable, vec![step])),
        }
    }
    groups
}

fn counts(steps: &[&AppliedStep]) -> String {
    let of = |wanted: fn(&Outcome) -> bool| {
        steps.iter().filter(|step| wanted(&step.done.outcome)).count()
    };
    let changed = of(|outcome| *outcome == Outcome::Changed);
    let mut words = if changed > 0 { vec![format!("{changed} changed")] } else { Vec::new() };
    for (count, word) in [
        (of(|outcome| *outcome == Outcome::AlreadySo), "already right"),
        (of(|outcome| matches!(outcome, Outcome::Refused { .. })), "refused"),
        (of(|outcome| *outcome == Outcome::Absent), "gone"),
    ] {
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

/// What the kernel refused, counted by reason.
fn refusals(steps: &[AppliedStep]) -> String {
    let mut by_reason: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for step in steps {
        if let Outcome::Refused { reason, .. } = &step.done.outcome {
            by_reason.entry((&step.tunable, reason)).or_default().push(&step.subject);
        }
    }
    let line = |((tunable, reason), subjects): ((&str, &str), Vec<&str>)| match subjects.as_slice()
    {
        [only] => format!("{tunable}: {only}: {reason}"),
        all => {
            let first: Vec<&str> = all.iter().take(3).copied().collect();
            let more = if all.len() > 3 { ", …" } else { "" };
            format!("{tunable}: {} times {reason}: {}{more}", all.len(), first.join(", "))
        }
    };
    listed("Refused", by_reason.into_iter().map(line).collect())
}

fn listed(title: &str, lines: Vec<String>) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{title}\n");
    let count = lines.len();
    for line in lines.into_iter().take(LINES_MAX) {
        text.push_str(&format!("  {line}\n"));
    }
    if count > LINES_MAX {
        text.push_str(&format!("  and {} more (--json has all)\n", count - LINES_MAX));
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
        text.push_str(&listed("Note", undone.notes.iter().cloned().chain(kept).collect()));
        return text;
    }
    let Some(shield) = &undone.shield else {
        return match &undone.journal {
            Some(kept) => format!("nothing was undone; the journal is forgotten and now {kept}\n"),
            None => "nothing to undo: no shield is in force\n".to_owned(),
        };
    };
    let of =
        |fate: fn(&ChangeFate) -> bool| undone.steps.iter().filter(move |step| fate(&step.fate));
    let restored = of(|fate| *fate == ChangeFate::Restored).count();
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
    text.push_str(&listed("Note", undone.notes.iter().cloned().chain(notes).collect()));
    let drifted = of(|fate| matches!(fate, ChangeFate::Drifted { .. }));
    let tasks = undone.drifted_tasks.len();
    let tasks = (tasks > 0).then(|| format!("{} with an affinity set since", many(tasks, "task")));
    let asked = undone.asked_tasks.len();
    let asked = (asked > 0)
        .then(|| format!("{} that requested exactly the housekeeping CPUs", many(asked, "task")));
    let drifted = drifted.map(line).chain(tasks).chain(asked).collect();
    text.push_str(&listed("Changed since by another process, left as they are", drifted));
    let gone = of(|fate| *fate == ChangeFate::Gone).map(line).collect();
    text.push_str(&listed("Gone, so there is nothing to restore", gone));
    text.push_str(&listed("Could not be restored", undone.failed().map(line).collect()));
    text
}

fn line(step: &UndoneStep) -> String {
    let subject = &step.subject;
    match &step.fate {
        ChangeFate::Restored | ChangeFate::Gone => subject.clone(),
        ChangeFate::Failed { reason } => format!("{subject}: {reason}"),
        ChangeFate::Drifted { now, ours, original } => {
            format!("{subject}: now {now:?}, cpushield set {ours:?}, the original was {original:?}")
        }
    }
}
