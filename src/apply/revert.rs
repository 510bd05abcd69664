//! Putting one change back: what is there now decides. The original: nothing to do. What we left:
//! the original is written. Anything else is somebody's and is left alone.

use super::journal::{ApplyJournal, ChangeFate, OriginalState, StayedTasks, StepDone};
use super::moves::{self, MovedOut};
use super::perform::{is_original, writable};
use super::unbound::{self, shown_by};
use super::{cycle, irqbalance, makes, slice};
use crate::change::{Change, Outcome, Refusal, ValueComparison};
use crate::plan::Step;
use cpushield_linux::{Host, Result, SchedPolicy, TaskId};
use std::collections::BTreeSet;
use std::time::Duration;

/// What became of a change; no fate when it had changed nothing.
#[derive(Debug)]
pub struct RevertedChange {
    /// What became of it.
    pub fate: Option<ChangeFate>,
    /// What else there is to tell.
    pub note: Option<String>,
}

impl From<ChangeFate> for RevertedChange {
    fn from(fate: ChangeFate) -> RevertedChange {
        RevertedChange { fate: Some(fate), note: None }
    }
}

pub(super) const NOTHING: RevertedChange = RevertedChange { fate: None, note: None };

/// How long a cgroup may be busy with tasks that are exiting, in steps of [`BUSY_STEP`].
const BUSY_TRIES: usize = 100;
const BUSY_STEP: Duration = Duration::from_millis(10);

/// Puts one change back.
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
        ) => scheduling(host, *task, *policy, *original, done),
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
        // A step that was not reached and has nothing to put back is not worth a word.
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
        if done.is_none() && self.is_of_another_step(journal, &now) {
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
        let words = self.to_write(&now);
        if let Some(by) = needed_by(host, self.path, &words) {
            let within = format!("{by}/cpuset.cpus");
            if journal.intents.iter().any(|it| makes(&journal.header.plan, it, &within)) {
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
        for value in words {
            host.write(self.path, &value)?;
        }
        Ok(ChangeFate::Restored.into())
    }

    fn is_ours(&self, now: &str) -> bool {
        self.compare.same(now, self.value)
            || self.left.is_some_and(|left| is_original(self.compare, now, left))
    }

    /// Whether another step left the file so; then this one was not reached.
    fn is_of_another_step(&self, journal: &ApplyJournal, now: &str) -> bool {
        let steps = journal.intents.iter().filter_map(|intent| journal.step(intent));
        let values = steps.filter_map(|step| match &step.change {
            Change::Write { path, value, .. } if path == self.path => Some(value),
            _ => None,
        });
        !self.compare.same(now, self.value)
            && values.into_iter().any(|value| self.compare.same(now, value))
    }

    /// Words that others added meanwhile stay; of all other files the original is written.
    fn to_write(&self, now: &str) -> Vec<String> {
        let words = writable(self.compare, self.original, now);
        if self.compare != ValueComparison::Member {
            return words;
        }
        let name = |word: &str| word.trim_start_matches(['+', '-']).to_owned();
        let ours: BTreeSet<String> = self.value.split_whitespace().map(name).collect();
        words.into_iter().filter(|word| ours.contains(&name(word))).collect()
    }
}

/// Whether a file that was put back still says what it did before; it is written once more when it
/// does not. With `only_ours` it is so only where it says again what we had left: an earlier undo
/// put it back, and anything else may be somebody's.
///
/// # Errors
/// Only when a test stopped the host.
pub fn settle(
    host: &Host,
    change: &Change,
    was: &OriginalState,
    done: Option<&StepDone>,
    only_ours: bool,
) -> Result<std::result::Result<(), String>> {
    let (Change::Write { path, compare, value }, OriginalState::Text { text }) = (change, was)
    else {
        return Ok(Ok(()));
    };
    let left = done.and_then(|done| done.left.as_deref());
    let file = RestoredFile { path, value, compare: *compare, original: text, left };
    let look = || -> Result<Option<String>> {
        let now = host.read_line(shown_by(host, path))?;
        if file.to_write(&now).is_empty() { unbound::stale(host, path) } else { Ok(Some(now)) }
    };
    let again = || -> Result<Option<String>> {
        let Some(now) = look()? else { return Ok(None) };
        if only_ours && !file.is_ours(&now) {
            return Ok(None);
        }
        for value in file.to_write(&now) {
            host.write(path, &value)?;
        }
        look()
    };
    match again() {
        Ok(None) => Ok(Ok(())),
        Ok(Some(now)) => Ok(Err(format!("the kernel made it {now:?}, it was {text:?}"))),
        Err(error) if error.is_stop() => Err(error),
        Err(error) if error.is_absent() => Ok(Ok(())),
        Err(error) => Ok(Err(error.reason())),
    }
}

/// The group that would lose its CPUs if cpusets were taken from the groups below a directory.
pub(super) fn needed_by(host: &Host, path: &str, words: &[String]) -> Option<String> {
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

fn scheduling(
    host: &Host,
    task: TaskId,
    ours: SchedPolicy,
    original: SchedPolicy,
    done: Option<&StepDone>,
) -> Result<RevertedChange> {
    super::original::same_task(host, task)?;
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
    let keep: BTreeSet<TaskId> = match was {
        OriginalState::Members { tasks } => tasks.iter().copied().collect(),
        OriginalState::Unreadable { .. } => return Ok(NOTHING),
        _ => BTreeSet::new(),
    };
    let plan = &journal.header.plan;
    let within = format!("{to}/tasks");
    if !host.exists(to) && journal.intents.iter().any(|intent| makes(plan, intent, &within)) {
        // An earlier undo came as far as removing the group, so it is empty.
        return Ok(ChangeFate::Restored.into());
    }
    let moved = moves::move_all(host, to, from, &keep)?;
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

/// Removes a cgroup that we made, with the groups that users made in it; tasks in them go to the
/// group above.
fn remove_group(host: &Host, path: &str) -> Result<RevertedChange> {
    if !host.exists(path) {
        return Ok(ChangeFate::Gone.into());
    }
    let above = path.rsplit_once('/').map_or("/", |(above, _)| above);
    let mut moved = MovedOut::default();
    remove_below(host, path, above, &mut moved, 0)?;
    Ok(RevertedChange { fate: Some(ChangeFate::Restored), note: moved.note(above) })
}

/// How deep groups may be nested in ours.
const DEPTH_MAX: usize = 32;

pub(super) fn remove_below(
    host: &Host,
    path: &str,
    above: &str,
    moved: &mut MovedOut,
    depth: usize,
) -> Result<()> {
    let is_group = |dir: &str| host.exists(&format!("{dir}/cgroup.procs"));
    if depth < DEPTH_MAX && is_group(path) {
        for name in host.list_directories(path)? {
            let below = format!("{path}/{name}");
            if is_group(&below) {
                remove_below(host, &below, above, moved, depth + 1)?;
            }
        }
    }
    for _ in 0..BUSY_TRIES {
        if is_group(path) {
            moved.move_out(host, path, above)?;
        }
        match host.remove_dir(path) {
            Err(error) if error.is_busy() && host.is_live() => std::thread::sleep(BUSY_STEP),
            answer => return answer,
        }
    }
    host.remove_dir(path)
}
