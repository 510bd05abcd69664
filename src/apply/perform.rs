//! Makes one change: skips what is already as wanted, writes, reads back. When the kernel made
//! something else of the value, the value right before the write is restored; originals and the
//! journal are the executor's task.

use super::journal::{OriginalState, StepDone};
use super::original;
use super::{cycle, fair_server, irqbalance, moves, slice, unbound};
use crate::change::{Change, Outcome, Refusal, RefusalKind, ValueComparison, chosen_word};
use cpushield_linux::{CpuSet, Error, Host, Result, SchedPolicy, TaskId};
use std::collections::BTreeSet;

/// The result of one change, without its step.
#[derive(Debug)]
pub struct PerformedChange {
    /// Its outcome.
    pub outcome: Outcome,
    /// The value that was read back.
    pub left: Option<String>,
    /// A note.
    pub note: Option<String>,
    /// Tasks moved.
    pub moved: Option<super::journal::MovedTasks>,
    /// Why the machine is worse than before, so that everything must be undone.
    pub broken: Option<String>,
}

impl PerformedChange {
    pub(super) fn with_outcome(outcome: Outcome) -> PerformedChange {
        PerformedChange { outcome, left: None, note: None, moved: None, broken: None }
    }

    pub(super) fn changed(left: String) -> PerformedChange {
        PerformedChange { left: Some(left), ..PerformedChange::with_outcome(Outcome::Changed) }
    }

    /// A refusal that no code distinguishes.
    pub(super) fn refused(reason: impl Into<String>) -> PerformedChange {
        PerformedChange::refused_by(Refusal { kind: RefusalKind::Other, reason: reason.into() })
    }

    pub(super) fn refused_by(refusal: Refusal) -> PerformedChange {
        let Refusal { kind, reason } = refusal;
        PerformedChange::with_outcome(Outcome::Refused { kind, reason })
    }

    /// The journal's record.
    #[must_use]
    pub fn of_step(self, step: usize) -> StepDone {
        StepDone {
            step,
            outcome: self.outcome,
            left: self.left,
            note: self.note,
            moved: self.moved,
        }
    }
}

/// Turns a kernel error about one change into an outcome; only a stopped host is an error.
fn outcome_of_error(answer: Result<PerformedChange>) -> Result<PerformedChange> {
    match answer {
        Err(error) if error.is_stop() => Err(error),
        Err(error) if error.is_absent() => Ok(PerformedChange::with_outcome(Outcome::Absent)),
        Err(error) => Ok(PerformedChange::refused_by(Refusal::from(&error))),
        made => made,
    }
}

/// Makes a change.
///
/// # Errors
/// Only when a test stopped the host.
pub fn make(host: &Host, change: &Change, was: &OriginalState) -> Result<PerformedChange> {
    if let OriginalState::Unreadable { reason } = was {
        return Ok(PerformedChange::refused(format!(
            "its original cannot be read, so undo could not restore it: {reason}"
        )));
    }
    let made = outcome_of_error(match change {
        Change::Write { path, value, compare } => write(host, path, value, *compare),
        Change::MakeDir { path } => make_dir(host, path),
        Change::Affinity { task, cpus, .. } => affinity(host, *task, cpus),
        Change::Scheduling { task, policy, .. } => scheduling(host, *task, *policy),
        Change::MoveTasks { from, to } => move_tasks(host, from, to),
        Change::KeepAffinities => Ok(PerformedChange::with_outcome(Outcome::AlreadySo)),
        Change::BanFromIrqbalance { cpus } => irqbalance::make(host, cpus),
        Change::Slice { unit, cpus, mems } => slice::make(host, unit, cpus, mems, was),
        Change::CycleCpu { cpu } => cycle::make(host, *cpu),
    })?;
    match &made.outcome {
        Outcome::Refused { kind, reason } => {
            match fair_server::explain_refusal(change, *kind, reason) {
                Some(reason) => Ok(PerformedChange::refused_by(Refusal { kind: *kind, reason })),
                None => Ok(made),
            }
        }
        _ => Ok(made),
    }
}

/// Whether the kernel took a part of a set: it leaves out CPUs that are offline or outside of a
/// parent's set.
fn is_narrowed(compare: ValueComparison, left: &str, value: &str) -> bool {
    let sets = match compare {
        ValueComparison::List => (left.parse::<CpuSet>(), value.parse::<CpuSet>()),
        ValueComparison::Mask => (CpuSet::parse_mask(left), CpuSet::parse_mask(value)),
        ValueComparison::Text
        | ValueComparison::Word
        | ValueComparison::Member
        | ValueComparison::Again => return false,
    };
    matches!(sets, (Ok(left), Ok(value)) if !left.is_empty() && left.is_subset(&value))
}

fn write(
    host: &Host,
    path: &str,
    value: &str,
    compare: ValueComparison,
) -> Result<PerformedChange> {
    let before = host.read_line(path)?;
    if compare.already(&before, value) {
        return Ok(PerformedChange {
            left: Some(before),
            ..PerformedChange::with_outcome(Outcome::AlreadySo)
        });
    }
    if let Some(reason) = unbound::isolated_conflict(host, path, &before)? {
        return Ok(PerformedChange::refused(reason));
    }
    match host.write(path, value) {
        // Before 6.1 the kernel knows `root` and `member` only (`sched_partition_write()`,
        // kernel/cgroup/cpuset.c, 5.10 and 5.15) and answers EINVAL to `isolated`.
        Err(error) if is_partition(path) && error.is_invalid() => {
            return fall_back_to_root(host, path, value, &before, &Refusal::from(&error));
        }
        answer => answer?,
    }
    let left = host.read_line(path)?;
    if compare.same(&left, value) || is_narrowed(compare, &left, value) {
        return Ok(PerformedChange::changed(left));
    }
    if is_partition(path) {
        let kind = RefusalKind::from_partition(&left);
        return fall_back_to_root(host, path, value, &before, &Refusal { kind, reason: left });
    }
    let verb = if compare.same(&left, &before) { "kept" } else { "made it" };
    let reason = format!("the kernel {verb} {left:?}");
    refuse_and_restore(host, path, compare, &before, Refusal { kind: RefusalKind::Other, reason })
}

/// Restores the value right before the write. Where that fails the file stays ours, so that undo
/// tries again.
fn refuse_and_restore(
    host: &Host,
    path: &str,
    compare: ValueComparison,
    before: &str,
    refusal: Refusal,
) -> Result<PerformedChange> {
    match restore_value(host, path, compare, before) {
        Ok(()) => Ok(PerformedChange::refused_by(refusal)),
        Err(error) if error.is_stop() => Err(error),
        Err(error) => {
            let left = host.read_line(path)?;
            let Refusal { reason, .. } = refusal;
            let note = format!("{reason}, and {:?} cannot be restored: {}", before, error.reason());
            Ok(PerformedChange { note: Some(note), ..PerformedChange::changed(left) })
        }
    }
}

fn is_partition(path: &str) -> bool {
    path.ends_with("/cpuset.cpus.partition")
}

/// Tries `root` where the kernel refuses `isolated` or makes it invalid. `root` keeps other tasks
/// out, too, but the scheduler still balances between its CPUs.
fn fall_back_to_root(
    host: &Host,
    path: &str,
    value: &str,
    before: &str,
    refusal: &Refusal,
) -> Result<PerformedChange> {
    let left = &refusal.reason;
    if value == "isolated" {
        host.write(path, "root")?;
        let fallback = host.read_line(path)?;
        if fallback == "root" {
            let note = format!("the kernel reports {left:?}, so the partition is of type `root`");
            return Ok(PerformedChange { note: Some(note), ..PerformedChange::changed(fallback) });
        }
    }
    let reason = format!("the kernel reports {left:?}");
    refuse_and_restore(
        host,
        path,
        ValueComparison::Text,
        before,
        Refusal { kind: refusal.kind, reason },
    )
}

fn restore_value(host: &Host, path: &str, compare: ValueComparison, before: &str) -> Result<()> {
    let now = host.read_line(path)?;
    for value in values_to_restore(compare, before, &now) {
        host.write(path, &value)?;
    }
    Ok(())
}

/// Returns what must be written so that a file that shows `now` shows `original` again; nothing
/// when it does.
#[must_use]
pub fn values_to_restore(compare: ValueComparison, original: &str, now: &str) -> Vec<String> {
    match compare {
        ValueComparison::Member => {
            let original: BTreeSet<&str> = original.split_whitespace().collect();
            let now: BTreeSet<&str> = now.split_whitespace().collect();
            let on = original.difference(&now).map(|word| format!("+{word}"));
            on.chain(now.difference(&original).map(|word| format!("-{word}"))).collect()
        }
        _ if is_original(compare, now, original) => Vec::new(),
        ValueComparison::Word => vec![chosen_word(original).to_owned()],
        ValueComparison::Text
        | ValueComparison::List
        | ValueComparison::Mask
        | ValueComparison::Again => {
            vec![original.trim().to_owned()]
        }
    }
}

/// Whether a file that shows `now` has the same value as when it showed `original`.
#[must_use]
pub fn is_original(compare: ValueComparison, now: &str, original: &str) -> bool {
    match compare {
        ValueComparison::Word => compare.same(now, chosen_word(original)),
        ValueComparison::Member => values_to_restore(compare, original, now).is_empty(),
        _ => compare.same(now, original) || now.trim() == original.trim(),
    }
}

fn make_dir(host: &Host, path: &str) -> Result<PerformedChange> {
    if host.exists(path) {
        return Ok(PerformedChange::with_outcome(Outcome::AlreadySo));
    }
    host.make_dir(path)?;
    Ok(PerformedChange::with_outcome(Outcome::Changed))
}

fn affinity(host: &Host, task: TaskId, cpus: &CpuSet) -> Result<PerformedChange> {
    original::check_same_task(host, task)?;
    if host.online_affinity(task.tid)? == *cpus {
        return Ok(PerformedChange::with_outcome(Outcome::AlreadySo));
    }
    host.set_affinity(task.tid, cpus)?;
    let left = host.online_affinity(task.tid)?;
    if left.is_subset(cpus) {
        Ok(PerformedChange::changed(left.to_string()))
    } else {
        Ok(PerformedChange::refused(format!("the kernel set {left} instead")))
    }
}

fn scheduling(host: &Host, task: TaskId, policy: SchedPolicy) -> Result<PerformedChange> {
    original::check_same_task(host, task)?;
    if host.scheduling(task.tid)? == policy {
        return Ok(PerformedChange::with_outcome(Outcome::AlreadySo));
    }
    host.set_scheduling(task.tid, policy)?;
    Ok(PerformedChange::changed(host.scheduling(task.tid)?.to_string()))
}

fn move_tasks(host: &Host, from: &str, to: &str) -> Result<PerformedChange> {
    if !host.exists(to) {
        return Err(Error::absent(to));
    }
    let moved = moves::move_all(host, from, to, &BTreeSet::new())?;
    let outcome = match moves::failure(&moved) {
        Some(Refusal { kind, reason }) if moved.moved == 0 => {
            Outcome::Refused { kind: *kind, reason: reason.clone() }
        }
        _ if moved.moved == 0 => Outcome::AlreadySo,
        _ => Outcome::Changed,
    };
    Ok(PerformedChange { moved: Some(moved), ..PerformedChange::with_outcome(outcome) })
}
