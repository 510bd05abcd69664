//! Reads the originals: the state before each step of a plan, before the first write. It writes
//! nothing.

use super::affinities::{self, TaskMasks};
use super::journal::{OriginalState, StepOriginal};
use super::moves;
use super::{cycle, irqbalance, slice};
use crate::change::Change;
use crate::plan::Plan;
use cpushield_linux::{Error, Host, Result, Task, TaskId};

/// Reads the originals of all runtime steps, in order. `tasks` is a fresh list.
///
/// # Errors
/// `/proc` cannot be read at all.
pub fn read_originals(host: &Host, plan: &Plan, tasks: &[Task]) -> Result<Vec<StepOriginal>> {
    let mut intents: Vec<StepOriginal> = Vec::new();
    let mut kept: Option<TaskMasks> = None;
    for (step, wanted) in plan.steps.iter().enumerate().filter(|(_, s)| s.is_runtime()) {
        let original = match (&wanted.change, &kept) {
            // It was read together with all others a moment ago.
            (Change::Affinity { task, .. }, Some(kept)) if kept.0.contains_key(task) => {
                let cpus = kept.0.get(task).cloned().unwrap_or_default();
                OriginalState::Cpus { cpus }
            }
            (Change::KeepAffinities, _) => {
                OriginalState::Affinities { masks: affinities::read_movable(host, tasks)? }
            }
            (change, _) => read_original(host, change)?,
        };
        if let OriginalState::Affinities { masks } = &original {
            kept = Some(masks.clone());
        }
        intents.push(StepOriginal { step, original });
    }
    Ok(intents)
}

/// Reads the state before one change.
///
/// # Errors
/// `/proc` cannot be read at all.
pub fn read_original(host: &Host, change: &Change) -> Result<OriginalState> {
    Ok(match change {
        Change::Write { path, .. } => {
            let shown_by = super::unbound::shown_by(host, path);
            original_or_reason(host.read_line(shown_by).map(|text| OriginalState::Text { text }))
        }
        Change::MakeDir { path } if host.exists(path) => OriginalState::Present,
        Change::MakeDir { .. } => OriginalState::Missing,
        Change::Affinity { task, .. } => {
            original_or_reason(check_same_task(host, *task).and_then(|()| {
                let cpus = host.affinity(task.tid)?;
                Ok(OriginalState::Cpus { cpus })
            }))
        }
        Change::Scheduling { task, .. } => {
            original_or_reason(check_same_task(host, *task).and_then(|()| {
                let policy = host.scheduling(task.tid)?;
                Ok(OriginalState::Scheduling { policy })
            }))
        }
        Change::MoveTasks { to, .. } => original_or_reason(
            moves::members(host, to).map(|tasks| OriginalState::Members { tasks }),
        ),
        Change::KeepAffinities => {
            OriginalState::Affinities { masks: affinities::read_movable(host, &host.tasks()?)? }
        }
        Change::BanFromIrqbalance { .. } => original_or_reason(irqbalance::original(host)),
        Change::Slice { unit, .. } => original_or_reason(slice::original(host, unit)),
        Change::CycleCpu { cpu } => original_or_reason(cycle::original(host, *cpu)),
    })
}

/// Fails with the kernel's error when the number belongs to another task now.
pub fn check_same_task(host: &Host, task: TaskId) -> Result<()> {
    if host.is_same_task(task) { Ok(()) } else { Err(Error::no_task(task.tid)) }
}

fn original_or_reason(reading: Result<OriginalState>) -> OriginalState {
    match reading {
        Ok(original) => original,
        Err(error) if error.is_absent() => OriginalState::Missing,
        Err(error) => OriginalState::Unreadable { reason: error.reason() },
    }
}
