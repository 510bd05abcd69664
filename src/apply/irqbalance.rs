//! irqbalance and the shield: it is told to leave the CPUs alone, and told back. It shows what it
//! was told only after its next scan, so its answer decides nothing but drift.

use super::journal::{ChangeFate, OriginalState, StepDone};
use super::perform::PerformedChange;
use super::revert::{NOTHING, RevertedChange};
use crate::change::Outcome;
use cpushield_linux::{CpuSet, Error, Host, Result};

pub(super) fn original(host: &Host) -> Result<OriginalState> {
    match host.irqbalance()? {
        Some(it) => Ok(OriginalState::Cpus { cpus: it.banned }),
        None => Ok(OriginalState::Missing),
    }
}

pub(super) fn make(host: &Host, cpus: &CpuSet) -> Result<PerformedChange> {
    let it = host.irqbalance()?.ok_or_else(|| Error::absent("irqbalance"))?;
    if cpus.is_subset(&it.banned) {
        return Ok(PerformedChange::plain(Outcome::AlreadySo));
    }
    let all = it.banned.union(cpus);
    host.ban_from_irqbalance(&it, Some(&all))?;
    Ok(PerformedChange::changed(left(&it.socket, &all)))
}

fn left(socket: &str, cpus: &CpuSet) -> String {
    format!("{socket} {cpus}")
}

pub(super) fn restore(
    host: &Host,
    cpus: &CpuSet,
    was: &CpuSet,
    done: Option<&StepDone>,
) -> Result<RevertedChange> {
    let it = host.irqbalance()?.ok_or_else(|| Error::absent("irqbalance"))?;
    let ours = was.union(cpus);
    if let Some(told) = done.and_then(|done| done.left.as_deref())
        && told != left(&it.socket, &ours)
    {
        let note = Some("it was started again since, and has forgotten".to_owned());
        return Ok(RevertedChange { fate: Some(ChangeFate::Gone), note });
    }
    if it.banned != ours && it.banned != *was {
        let (now, original) = (it.banned.to_string(), was.to_string());
        return Ok(ChangeFate::Drifted { now, ours: ours.to_string(), original }.into());
    }
    if done.is_none() && it.banned == *was {
        // Either it was not told, or it has not looked yet: telling it back does no harm.
        host.ban_from_irqbalance(&it, told_back(host, was))?;
        return Ok(NOTHING);
    }
    host.ban_from_irqbalance(&it, told_back(host, was))?;
    Ok(ChangeFate::Restored.into())
}

/// What irqbalance must be told so that it leaves alone what it left alone before.
fn told_back<'a>(host: &Host, was: &'a CpuSet) -> Option<&'a CpuSet> {
    (*was != host.irqbalance_default()).then_some(was)
}
