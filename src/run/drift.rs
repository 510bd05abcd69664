//! [`Drift`]: differences between what a shield left and the current state of the journal's files
//! and tasks.

use crate::apply::journal::ApplyJournal;
use crate::change::{Change, Outcome, ValueComparison};
use cpushield_linux::{CpuSet, Host};
use serde::{Deserialize, Serialize};

/// A setting that changed since apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drift {
    /// The file or the task.
    pub what: String,
    /// The value that apply left.
    pub left: String,
    /// The current value; `None` when it is gone.
    pub now: Option<String>,
    /// The tunable that wanted it.
    pub tunable: String,
}

/// Finds the files, directories and tasks of the journal that changed since apply.
pub(super) fn find_drift(host: &Host, journal: &ApplyJournal) -> Vec<Drift> {
    let mut drift = Vec::new();
    for intent in &journal.intents {
        let (Some(step), Some(done)) = (journal.step(intent), journal.outcomes.get(&intent.step))
        else {
            continue;
        };
        // Of several steps about the same thing, the last one counts.
        let last = journal.last_about(&step.change).is_none_or(|last| last == intent);
        if !last || !matches!(done.outcome, Outcome::Changed | Outcome::AlreadySo) {
            continue;
        }
        if let Some((what, left, now)) = compare(host, &step.change, done.left.as_deref()) {
            drift.push(Drift { what, left, now, tunable: step.tunable.clone() });
        }
    }
    drift
}

/// Returns the subject of a change, the value left and the current one, if these differ. A value
/// that was not recorded or cannot be read is no drift.
fn compare(
    host: &Host,
    change: &Change,
    left: Option<&str>,
) -> Option<(String, String, Option<String>)> {
    match change {
        Change::Write { path, compare, .. } => {
            let left = left?;
            let now = match host.read_line(path) {
                Ok(text) => Some(text),
                Err(error) if error.is_absent() => None,
                Err(_) => return None,
            };
            let same = now.as_deref().is_some_and(|now| is_same(*compare, now, left));
            (!same).then(|| (path.clone(), left.to_owned(), now))
        }
        Change::MakeDir { path } => {
            (!host.exists(path)).then(|| (path.clone(), "a directory".to_owned(), None))
        }
        Change::Affinity { task, comm, cpus } if host.is_same_task(*task) => {
            let now = host.affinity(task.tid).ok()?;
            let what = format!("affinity of {comm} ({})", task.tid);
            let same = now == *cpus || is_of_interrupt(host, comm, &now);
            (!same).then(|| (what, cpus.to_string(), Some(now.to_string())))
        }
        Change::Scheduling { task, comm, policy } if host.is_same_task(*task) => {
            let now = host.scheduling(task.tid).ok()?;
            let what = format!("policy of {comm} ({})", task.tid);
            (now != *policy).then(|| (what, policy.to_string(), Some(now.to_string())))
        }
        _ => None,
    }
}

/// Whether an interrupt's thread has the CPUs of its interrupt. The kernel sets those when the
/// thread wakes after the interrupt was moved (`irq_thread_check_affinity()` in
/// kernel/irq/manage.c, 6.12: the effective affinity), so they are no drift.
fn is_of_interrupt(host: &Host, comm: &str, now: &CpuSet) -> bool {
    let digits = comm.strip_prefix("irq/").and_then(|rest| rest.split('-').next());
    let Some(irq) = digits.and_then(|digits| digits.parse::<u32>().ok()) else { return false };
    ["effective_affinity_list", "smp_affinity_list"].iter().any(|name| {
        let text = host.read_line(&format!("/proc/irq/{irq}/{name}"));
        text.ok().and_then(|text| text.parse::<CpuSet>().ok()).as_ref() == Some(now)
    })
}

/// Whether two texts have the same value.
fn is_same(compare: ValueComparison, now: &str, left: &str) -> bool {
    now.trim() == left.trim() || compare.same(now, left)
}
