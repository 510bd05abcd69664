//! Reverts one change, depending on the current value. The original: nothing to do. The value that
//! apply left: the original is written. Any other value belongs to another process and stays.

use super::journal::{ApplyJournal, ChangeFate, OriginalState, StayedTasks, StepDone};
use super::moves::{self, MovedOut};
use super::perform::{is_original, values_to_restore};
use super::unbound::{self, shown_by};
use super::{cycle, irqbalance, makes_directory_of, slice};
use crate::change::{Change, Outcome, Refusal, ValueComparison};
use crate::plan::Step;
use cpushield_linux::{Host, Result, SchedPolicy, TaskId};
use std::collections::BTreeSet;
use std::time::Duration;

/// The result of reverting a change.
#[derive(Debug)]
pub struct RevertedChange {
    /// The fate of the change; `None` when it had changed nothing.
    pub fate: Option<ChangeFate>,
    /// A note.
    pub note: Option<String>,
}

impl From<ChangeFate> for RevertedChange {
    fn from(fate: ChangeFate) -> RevertedChange {
        RevertedChange { fate: Some(fate), note: None }
    }
}

pub(super) const NOTHING: RevertedChange = RevertedChange { fate: None, note: None };

/// How often to retry while exiting tasks already_there a cgroup busy, with pauses of
/// [`BUSY_STEP`].
const BUSY_TRIES: usize = 100;
const BUSY_STEP: Duration = Duration::from_millis(10);

/// Reverts one change.
///
/// # Errors
/// Only when a test stopped the host.
pub fn restore(
    host: &Host,
    journal: &ApplyJournal,
    step: &Step,
    was: &OriginalState,
    done: Option<&StepDone>,
) -> Result<RevertedChange> {
    if let Some(StepDone { outcome: Outcome::Refused { .. } | Outcome::Absent, .. }) = done {
        return Ok(NOTHING);
    }
    let answer = match (&step.change, was) {
        (Change::Write { path, value, compare }, OriginalState::Text { text }) => {
            let left = done.and_then(|done| done.left.as_deref());
            let file = RestoredFile { path, value, compare: *compare, original: text, left };
            file.restore(host, journal, done)
        }
        (Change::MakeDir { path }, OriginalState::Missing) => remove_group(host, path),
        (
            Change::Scheduling { task, policy, .. },
            OriginalState::Scheduling { policy: original },
        ) => restore_scheduling(host, *task, *policy, *original, done),
        (Change::BanFromIrqbalance { cpus }, OriginalState::Cpus { cpus: was }) => {
            irqbalance::restore(host, cpus, was, done)
        }
        (Change::Slice { unit, .. }, OriginalState::Files { files }) => {
            slice::restore(host, unit, files, done)
        }
        (Change::CycleCpu { cpu }, OriginalState::Files { files }) => {
            cycle::restore(host, journal, *cpu, files, done)
        }
        (Change::MoveTasks { from, to }, was) => {
            move_back(host, journal, (from.as_str(), to.as_str()), was, done)
        }
        _ => Ok(NOTHING),
    };
    match answer {
        Err(error) if error.is_stop() => Err(error),
        Err(error) if error.is_absent() => Ok(ChangeFate::Gone.into()),
        Err(error) => Ok(ChangeFate::Failed { reason: error.reason() }.into()),
        // A step that was not reached and has nothing to restore is not reported.
        Ok(RevertedChange { fate: Some(ChangeFate::Gone), .. }) if done.is_none() => Ok(NOTHING),
        back => back,
    }
}

/// A file that was written.
struct RestoredFile<'a> {
    path: &'a str,
    value: &'a str,
    compare: ValueComparison,
    original: &'a str,
    left: Option<&'a str>,
}

impl RestoredFile<'_> {
    fn restore(
        &self,
        host: &Host,
        journal: &ApplyJournal,
        done: Option<&StepDone>,
    ) -> Result<RevertedChange> {
        let changed = done.is_some_and(|done| done.outcome == Outcome::Changed);
        let now = host.read_line(shown_by(host, self.path))?;
        if is_original(self.compare, &now, self.original) {
            return Ok(if changed { ChangeFate::Restored.into() } else { NOTHING });
        }
        if done.is_none() && self.was_set_by_other_step(journal, &now) {
            return Ok(NOTHING);
        }
        if !self.is_ours(&now) {
            let drifted = ChangeFate::Drifted {
                now,
                ours: self.left.unwrap_or(self.value).to_owned(),
                original: self.original.to_owned(),
            };
            return Ok(drifted.into());
        }
        let values = self.values_to_write(&now);
        if let Some(by) = group_using_cpusets(host, self.path, &values) {
            let within = format!("{by}/cpuset.cpus");
            if journal
                .intents
                .iter()
                .any(|intent| makes_directory_of(&journal.header.plan, intent, &within))
            {
                let reason = format!("{by} could not be removed, and needs cpusets");
                return Ok(ChangeFate::Failed { reason }.into());
            }
            let drifted = ChangeFate::Drifted {
                now,
                ours: self.value.to_owned(),
                original: self.original.to_owned(),
            };
            let note = format!("{by} now has its own CPUs, so cpusets stay enabled");
            return Ok(RevertedChange { fate: Some(drifted), note: Some(note) });
        }
        for value in values {
            host.write(self.path, &value)?;
        }
        Ok(ChangeFate::Restored.into())
    }

    /// Writes the original again where the value differs. Returns the value that remains wrong.
    fn write_again(&self, host: &Host, by: RestoringUndo) -> Result<Option<String>> {
        let Some(now) = self.wrong_value(host)? else { return Ok(None) };
        if by == RestoringUndo::Earlier && !self.is_ours(&now) {
            return Ok(None);
        }
        for value in self.values_to_write(&now) {
            host.write(self.path, &value)?;
        }
        self.wrong_value(host)
    }

    /// The current value, if it is not the original.
    fn wrong_value(&self, host: &Host) -> Result<Option<String>> {
        let now = host.read_line(shown_by(host, self.path))?;
        if self.values_to_write(&now).is_empty() {
            unbound::stale(host, self.path)
        } else {
            Ok(Some(now))
        }
    }

    fn is_ours(&self, now: &str) -> bool {
        self.compare.same(now, self.value)
            || self.left.is_some_and(|left| is_original(self.compare, now, left))
    }

    /// Whether another step set the current value; then this step was not reached.
    fn was_set_by_other_step(&self, journal: &ApplyJournal, now: &str) -> bool {
        let steps = journal.intents.iter().filter_map(|intent| journal.step(intent));
        let values = steps.filter_map(|step| match &step.change {
            Change::Write { path, value, .. } if path == self.path => Some(value),
            _ => None,
        });
        !self.compare.same(now, self.value)
            && values.into_iter().any(|value| self.compare.same(now, value))
    }

    /// Returns the values to write. Words that other processes added stay; all other files get the
    /// original.
    fn values_to_write(&self, now: &str) -> Vec<String> {
        let words = values_to_restore(self.compare, self.original, now);
        if self.compare != ValueComparison::Member {
            return words;
        }
        let ours: BTreeSet<&str> = self.value.split_whitespace().map(without_sign).collect();
        words.into_iter().filter(|word| ours.contains(without_sign(word))).collect()
    }
}

/// A word of a list without the sign that adds or removes it.
fn without_sign(word: &str) -> &str {
    word.trim_start_matches(['+', '-'])
}

/// The undo that restored a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoringUndo {
    /// This one.
    This,
    /// An earlier one. Another process may have changed the file since, so it is written again
    /// only where it has the value that apply left.
    Earlier,
}

/// What the second look at a restored file found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileCheck {
    /// The file has its original value, or another process has changed it since.
    Settled,
    /// The file has another value.
    Wrong {
        /// Why.
        reason: String,
    },
}

/// Checks that a restored file still has its original value, and writes it again when it does not.
///
/// # Errors
/// Only when a test stopped the host.
pub fn check_again(
    host: &Host,
    change: &Change,
    was: &OriginalState,
    done: Option<&StepDone>,
    by: RestoringUndo,
) -> Result<FileCheck> {
    let (Change::Write { path, compare, value }, OriginalState::Text { text }) = (change, was)
    else {
        return Ok(FileCheck::Settled);
    };
    let left = done.and_then(|done| done.left.as_deref());
    let file = RestoredFile { path, value, compare: *compare, original: text, left };
    match file.write_again(host, by) {
        Ok(None) => Ok(FileCheck::Settled),
        Ok(Some(now)) => {
            Ok(FileCheck::Wrong { reason: format!("the kernel set {now:?} instead of {text:?}") })
        }
        Err(error) if error.is_stop() => Err(error),
        Err(error) if error.is_absent() => Ok(FileCheck::Settled),
        Err(error) => Ok(FileCheck::Wrong { reason: error.reason() }),
    }
}

/// Finds a group that would lose its CPUs if cpusets were disabled for the groups below a
/// directory.
pub(super) fn group_using_cpusets(host: &Host, path: &str, words: &[String]) -> Option<String> {
    let dir = path.strip_suffix("/cgroup.subtree_control")?;
    if !words.iter().any(|word| word == "-cpuset") {
        return None;
    }
    let groups = host.list(dir).ok()?.into_iter().map(|name| format!("{dir}/{name}"));
    let mut users = groups.filter(|group| {
        let cpus = host.read_line(&format!("{group}/cpuset.cpus"));
        let below = host.read_line(&format!("{group}/cgroup.subtree_control"));
        cpus.is_ok_and(|text| !text.is_empty())
            || below.is_ok_and(|text| text.split_whitespace().any(|word| word == "cpuset"))
    });
    users.next()
}

fn restore_scheduling(
    host: &Host,
    task: TaskId,
    ours: SchedPolicy,
    original: SchedPolicy,
    done: Option<&StepDone>,
) -> Result<RevertedChange> {
    super::original::check_same_task(host, task)?;
    let now = host.scheduling(task.tid)?;
    if now == original {
        return Ok(if done.is_some() { ChangeFate::Restored.into() } else { NOTHING });
    }
    if now != ours {
        let (now, ours) = (now.to_string(), ours.to_string());
        return Ok(ChangeFate::Drifted { now, ours, original: original.to_string() }.into());
    }
    host.set_scheduling(task.tid, original)?;
    Ok(ChangeFate::Restored.into())
}

fn move_back(
    host: &Host,
    journal: &ApplyJournal,
    (from, to): (&str, &str),
    was: &OriginalState,
    done: Option<&StepDone>,
) -> Result<RevertedChange> {
    let already_there: BTreeSet<TaskId> = match was {
        OriginalState::Members { tasks } => tasks.iter().copied().collect(),
        OriginalState::Unreadable { .. } => return Ok(NOTHING),
        _ => BTreeSet::new(),
    };
    let plan = &journal.header.plan;
    let within = format!("{to}/tasks");
    if !host.exists(to)
        && journal.intents.iter().any(|intent| makes_directory_of(plan, intent, &within))
    {
        // An earlier undo has removed the group, so it was empty.
        return Ok(ChangeFate::Restored.into());
    }
    let moved = moves::move_all(host, to, from, &already_there)?;
    let stayed: usize = moved.stayed.iter().map(|stayed| stayed.tasks).sum();
    if done.is_none() && moved.moved == 0 {
        return Ok(NOTHING);
    }
    if let Some(refusal) = moves::failure(&moved) {
        let reason = format!("tasks stay in {to}: {}", refusal.reason);
        return Ok(ChangeFate::Failed { reason }.into());
    }
    let note = match moved.stayed.first() {
        Some(StayedTasks { refusal: Refusal { reason, .. }, .. }) => {
            format!("tasks moved back: {}; {stayed} stayed: {reason}", moved.moved)
        }
        None => format!("tasks moved back: {}", moved.moved),
    };
    Ok(RevertedChange { fate: Some(ChangeFate::Restored), note: Some(note) })
}

/// Removes a cgroup that we made, with the groups that users made in it. Tasks in them move to the
/// parent group.
fn remove_group(host: &Host, path: &str) -> Result<RevertedChange> {
    if !host.exists(path) {
        return Ok(ChangeFate::Gone.into());
    }
    let above = path.rsplit_once('/').map_or("/", |(above, _)| above);
    let mut moved = MovedOut::default();
    remove_below(host, path, above, &mut moved, 0)?;
    Ok(RevertedChange { fate: Some(ChangeFate::Restored), note: moved.note(above) })
}

/// The maximum depth of groups in ours.
const DEPTH_MAX: usize = 32;

fn is_group(host: &Host, dir: &str) -> bool {
    host.exists(&format!("{dir}/cgroup.procs"))
}

pub(super) fn remove_below(
    host: &Host,
    path: &str,
    above: &str,
    moved: &mut MovedOut,
    depth: usize,
) -> Result<()> {
    if depth < DEPTH_MAX && is_group(host, path) {
        for name in host.list_directories(path)? {
            let below = format!("{path}/{name}");
            if is_group(host, &below) {
                remove_below(host, &below, above, moved, depth + 1)?;
            }
        }
    }
    for _ in 0..BUSY_TRIES {
        if is_group(host, path) {
            moved.move_out(host, path, above)?;
        }
        match host.remove_dir(path) {
            Err(error) if error.is_busy() && host.is_live() => std::thread::sleep(BUSY_STEP),
            answer => return answer,
        }
    }
    host.remove_dir(path)
}
