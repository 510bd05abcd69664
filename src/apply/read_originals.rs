//! Reads the originals: the state before each step of a plan, before the first write. It writes
//! nothing.

use super::affinities;
use super::journal::StepOriginal;
use super::kinds::kind_of;
use super::original::OriginalState;
use super::task_masks::TaskMasks;
use crate::change::Change;
use crate::documents::plan::Plan;
use cpushield_linux::{Host, Result, Task};

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
            (change, _) => kind_of(change).read_original(host)?,
        };
        if let OriginalState::Affinities { masks } = &original {
            kept = Some(masks.clone());
        }
        intents.push(StepOriginal { step, original });
    }
    Ok(intents)
}
