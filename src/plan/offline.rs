//! Whether the idle siblings of a shield can be taken offline. Pure.

use super::refused::PlanRefusal;
use super::sibling_refusal::SiblingRefusal;
use crate::change::Change;
use crate::documents::machine::Machine;
use crate::documents::plan::{ActiveShields, Shield};
use crate::policy::{DisturbanceConsent, ShieldRequest};
use crate::tunables::{OFFLINE_SIBLINGS, lacks_switch};
use cpushield_linux::CpuSet;

/// Checks that the siblings which are to be offline can go offline now.
///
/// # Errors
/// The request contradicts itself, a CPU cannot go offline, or that would stop the CPUs of another
/// shield without consent.
pub(super) fn check_offline(
    machine: &Machine,
    shield: &Shield,
    request: &ShieldRequest,
    live: &ActiveShields,
) -> Result<(), PlanRefusal> {
    let cpus = &shield.offline_siblings;
    if cpus.is_empty() {
        return Ok(());
    } else if request.tunables.choice(OFFLINE_SIBLINGS) == Some(false) {
        return Err(PlanRefusal::Siblings(SiblingRefusal::SwitchedOff { cpus: cpus.clone() }));
    }
    let without_switch: CpuSet = cpus.iter().filter(|cpu| lacks_switch(machine, *cpu)).collect();
    if !without_switch.is_empty() {
        return Err(PlanRefusal::Siblings(SiblingRefusal::StayOnline { cpus: without_switch }));
    }
    let new: CpuSet = cpus.iter().filter(|cpu| !is_offline_already(*cpu, live)).collect();
    let consents = request.disturbance == DisturbanceConsent::Given;
    if new.is_empty() || live.shields.is_empty() || consents {
        return Ok(());
    }
    let shields = live.shields.iter().map(|shield| shield.name.clone()).collect();
    Err(PlanRefusal::Siblings(SiblingRefusal::StopsShields { cpus: new, shields }))
}

/// Whether the version of the shield that is being replaced has taken this CPU offline.
fn is_offline_already(cpu: usize, live: &ActiveShields) -> bool {
    live.replaced.iter().any(|step| match &step.change {
        Change::OfflineSibling { cpu: offline, .. } => *offline == cpu,
        _ => false,
    })
}
