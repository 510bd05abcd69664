//! Bans the shielded CPUs from irqbalance, and restores the previous ban.
//!
//! irqbalance shows a ban only after its next scan. An apply within that time after an undo would
//! take the shield's own ban for the original, so reading the original waits for that scan. It
//! waits only if the answer differs from irqbalance's configuration, as after such an undo. No file
//! has to remember the undo, whose journal may be in the archive or belong to another process.
//!
//! The answer can be older than a change of another shield too. Where it has a CPU that it should
//! not have, apply and undo wait for the scan before they use it.

use super::super::kind::{
    ChangeKind, NOTHING, OlderVersion, PerformedChange, RemainingShields, RevertedChange,
    ShieldChanges,
};
use super::super::original::OriginalState;
use crate::change::Change;
use crate::documents::applied::{ChangeFate, DriftedValue, StepDone, StepNote};
use cpushield_linux::processes::irqbalance::IrqbalanceProcess;
use cpushield_linux::{CpuSet, Error, Host, Result};

/// CPUs that irqbalance must not use.
pub struct IrqbalanceBan<'a> {
    pub cpus: &'a CpuSet,
}

impl ChangeKind for IrqbalanceBan<'_> {
    fn read_original(&self, host: &Host) -> Result<OriginalState> {
        Ok(OriginalState::from_reading(host.settled_irqbalance().map(|balancer| match balancer {
            Some(balancer) => OriginalState::Cpus { cpus: balancer.banned },
            None => OriginalState::Missing,
        })))
    }

    fn perform(&self, host: &Host, was: &OriginalState) -> Result<PerformedChange> {
        let balancer = self.find_with_ban(host, was, &CpuSet::new())?;
        // The answer alone may be older than a request that lifts the ban.
        let is_original = matches!(was, OriginalState::Cpus { cpus } if self.cpus.is_subset(cpus));
        if is_original && self.cpus.is_subset(&balancer.banned) {
            return Ok(PerformedChange::already_so());
        }
        let all = balancer.banned.union(self.cpus);
        host.ban_from_irqbalance(&balancer, Some(&all))?;
        Ok(PerformedChange::changed(describe_ban(&balancer.socket, &all)))
    }

    fn release(
        &self,
        host: &Host,
        was: &OriginalState,
        freed: &CpuSet,
    ) -> Option<Result<PerformedChange>> {
        let OriginalState::Cpus { cpus } = was else { return None };
        Some(self.ban_without(host, was, &freed.difference(cpus)))
    }

    fn for_remaining(&self, _: &OriginalState, remaining: &RemainingShields<'_>) -> Option<Change> {
        Some(Change::BanFromIrqbalance { cpus: remaining.cpus.clone() })
    }

    fn state_for_others(&self) -> Option<OriginalState> {
        Some(OriginalState::Cpus { cpus: self.cpus.clone() })
    }

    fn with_older_version(&self, older: &OlderVersion<'_>) -> Option<Change> {
        Some(Change::BanFromIrqbalance { cpus: self.cpus.union(older.cpus) })
    }

    fn revert(
        &self,
        host: &Host,
        _: &ShieldChanges<'_>,
        was: &OriginalState,
        done: Option<&StepDone>,
    ) -> Result<RevertedChange> {
        let OriginalState::Cpus { cpus: was } = was else { return Ok(NOTHING) };
        let mut balancer = host.irqbalance()?.ok_or_else(absent)?;
        let ours = was.union(self.cpus);
        if let Some(recorded) = done.and_then(|done| done.left.as_deref())
            && recorded != describe_ban(&balancer.socket, &ours)
        {
            let note = Some(StepNote::BanLost);
            return Ok(RevertedChange { fate: Some(ChangeFate::Gone), note });
        }
        if balancer.banned != ours && balancer.banned != *was {
            balancer = host.settled_irqbalance()?.ok_or_else(absent)?;
        }
        if balancer.banned != ours && balancer.banned != *was {
            let (now, original) = (balancer.banned.to_string(), was.to_string());
            return Ok(ChangeFate::Drifted { now, ours: ours.to_string(), original }.into());
        }
        if done.is_none() && balancer.banned == *was {
            // It has no ban, or has not scanned yet: restoring the previous ban does no harm.
            host.ban_from_irqbalance(&balancer, previous_ban(host, was))?;
            return Ok(NOTHING);
        }
        host.ban_from_irqbalance(&balancer, previous_ban(host, was))?;
        Ok(ChangeFate::Restored.into())
    }

    /// Another irqbalance does not have this ban, and a missing one moves no interrupt. The ban
    /// itself is not compared: the answer may be older than the request.
    fn find_drift(&self, host: &Host, left: Option<&str>) -> Option<DriftedValue> {
        let left = left?;
        let balancer = host.irqbalance().ok()??;
        let is_same = left.split_once(' ').is_some_and(|(socket, _)| socket == balancer.socket);
        let now = Some(describe_ban(&balancer.socket, &balancer.banned));
        (!is_same).then(|| DriftedValue { left: left.to_owned(), now })
    }
}

impl IrqbalanceBan<'_> {
    /// irqbalance with its ban. Waits for its scan if the ban has a CPU other than those of the
    /// original, of this change and of `freed`: a request may have lifted that ban.
    fn find_with_ban(
        &self,
        host: &Host,
        was: &OriginalState,
        freed: &CpuSet,
    ) -> Result<IrqbalanceProcess> {
        let balancer = host.irqbalance()?.ok_or_else(absent)?;
        let expected = self.cpus.union(freed);
        let expected = match was {
            OriginalState::Cpus { cpus } => expected.union(cpus),
            _ => expected,
        };
        if balancer.banned.is_subset(&expected) {
            return Ok(balancer);
        }
        host.settled_irqbalance()?.ok_or_else(absent)
    }

    /// Bans the CPUs, and lifts the ban of others.
    fn ban_without(
        &self,
        host: &Host,
        was: &OriginalState,
        freed: &CpuSet,
    ) -> Result<PerformedChange> {
        let balancer = self.find_with_ban(host, was, freed)?;
        let all = balancer.banned.difference(freed).union(self.cpus);
        host.ban_from_irqbalance(&balancer, Some(&all))?;
        Ok(PerformedChange::changed(describe_ban(&balancer.socket, &all)))
    }
}

fn absent() -> Error {
    Error::absent("irqbalance")
}

fn describe_ban(socket: &str, cpus: &CpuSet) -> String {
    format!("{socket} {cpus}")
}

/// The ban to set so that irqbalance skips the same CPUs as before.
fn previous_ban<'a>(host: &Host, was: &'a CpuSet) -> Option<&'a CpuSet> {
    (*was != host.irqbalance_default()).then_some(was)
}
