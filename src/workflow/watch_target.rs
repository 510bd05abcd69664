//! The CPUs that a command watches: those named by `--cpus`, or those of the active shield.

use super::WorkContext;
use super::active_shields::{cpus_of, known_shields};
use crate::documents::plan::Plan;
use crate::failure::Failure;
use crate::plan::PlanRefusal;
use crate::run::{RunError, ShieldPlacement};
use cpushield_linux::{CpuSet, Host};

/// The CPUs of the active shields, as every user may know them; `None` if they are unknown.
fn public_cpus(work: &WorkContext<'_>) -> Option<CpuSet> {
    let cpus = cpus_of(&known_shields(&work.host, &work.store).ok()?);
    (!cpus.is_empty()).then_some(cpus)
}

/// A CPU of this machine for an example in a hint: the one that a plan would prefer.
fn example_cpu(host: &Host) -> CpuSet {
    host.online_cpus().ok().and_then(|cpus| cpus.last()).map(CpuSet::single).unwrap_or_default()
}

/// The CPUs to watch, and their shield.
#[derive(Debug)]
pub struct WatchTarget {
    /// The plan of the active shield; `None` if there is none, or if this user cannot read it.
    pub active: Option<Plan>,
    /// The placement of that shield's programs.
    pub place: Option<ShieldPlacement>,
    /// The CPUs. Either all of them are in the active shield, or none is.
    pub cpus: CpuSet,
}

impl WatchTarget {
    /// Watches these CPUs, or those of the active shield. `command` is used in hints.
    ///
    /// # Errors
    /// The CPUs are unknown, or only some of them are shielded.
    pub fn find(
        work: &WorkContext<'_>,
        cpus: Option<&CpuSet>,
        command: &str,
    ) -> Result<WatchTarget, Failure> {
        let host = &work.host;
        let active = match active_shield(work, cpus) {
            // The CPUs are named, and an incomplete or damaged shield protects none of them.
            Err(_) if cpus.is_some() => ActiveShield::Denied,
            shield => shield?,
        };
        let unread = matches!(active, ActiveShield::Denied);
        let active = active.plan();
        let place = active.as_ref().map(|plan| ShieldPlacement::new(host, plan));
        let cpus = match (cpus, &place) {
            (Some(cpus), _) => {
                check_cpus(host, cpus)?;
                cpus.clone()
            }
            (None, Some(place)) => place.cpus.clone(),
            (None, None) if unread => {
                let cpus = public_cpus(work).unwrap_or_else(|| example_cpu(host));
                return Err(Failure::machine("only root can read the setup of the shield")
                    .hint(format!("sudo cpushield {command}"))
                    .hint(format!("or name the CPUs: cpushield {command} --cpus {cpus}")));
            }
            (None, None) => {
                return Err(Failure::machine("no shield is active, so --cpus must name the CPUs")
                    .hint(format!(
                        "name the CPUs: cpushield {command} --cpus {}",
                        example_cpu(host)
                    ))
                    .hint("or apply a shield: cpushield apply"));
            }
        };
        let target = WatchTarget { active, place, cpus };
        match target.own_shield() {
            Some(place) if !target.cpus.is_subset(&place.cpus) => {
                let outside = target.cpus.difference(&place.cpus);
                Err(Failure::usage(format!("CPU {outside} is not part of the active shield"))
                    .hint("use separate runs for CPUs inside and outside the shield"))
            }
            _ => Ok(target),
        }
    }

    /// The placement of the active shield, if the watched CPUs are in it.
    pub fn own_shield(&self) -> Option<&ShieldPlacement> {
        self.place.as_ref().filter(|place| place.cpus.intersects(&self.cpus))
    }

    /// The given cgroup, or that of the shield's programs.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn group(&self, host: &Host, given: Option<&String>) -> Result<Option<String>, RunError> {
        match (given, self.own_shield()) {
            (Some(group), _) => Ok(Some(group.clone())),
            (None, Some(place)) => place.entry_group(host),
            (None, None) => Ok(None),
        }
    }
}

/// The active shield, if this user can read it.
enum ActiveShield {
    /// The plan of the active shield.
    Plan(Box<Plan>),
    /// No shield is active.
    Absent,
    /// This user cannot read the journal.
    Denied,
}

impl ActiveShield {
    /// The plan, if there is one that this user can read.
    pub fn plan(self) -> Option<Plan> {
        match self {
            ActiveShield::Plan(plan) => Some(*plan),
            ActiveShield::Absent | ActiveShield::Denied => None,
        }
    }
}

/// Finds the active shield that the command is about: the named one, the one with the given CPUs,
/// or the only one. A normal user cannot read the journal, but can watch CPUs by number.
fn active_shield(work: &WorkContext<'_>, cpus: Option<&CpuSet>) -> Result<ActiveShield, Failure> {
    let active = match (&work.shield, cpus) {
        (None, Some(cpus)) => work.active_on(cpus).map(|plans| plans.into_iter().next()),
        _ => work.active(),
    };
    match active {
        Ok(Some(plan)) => Ok(ActiveShield::Plan(Box::new(plan))),
        Ok(None) => Ok(ActiveShield::Absent),
        Err(error) if error.is_denied() => Ok(ActiveShield::Denied),
        Err(error) => Err(error.into()),
    }
}

/// Checks that the machine has these CPUs and that they are online.
///
/// # Errors
/// Names the CPUs that are absent or offline.
pub fn check_cpus(host: &Host, cpus: &CpuSet) -> Result<(), Failure> {
    let online = host.online_cpus()?;
    let present = host.read_line("/sys/devices/system/cpu/present");
    let present: CpuSet = present.ok().and_then(|text| text.parse().ok()).unwrap_or_default();
    let present = present.union(&online);
    if !cpus.is_subset(&present) {
        return Err(PlanRefusal::NoSuchCpu { cpus: cpus.difference(&present), present }.into());
    }
    if !cpus.is_subset(&online) {
        let control = host.read_line("/sys/devices/system/cpu/smt/control");
        let smt_off = control.is_ok_and(|text| text.trim() == "off");
        return Err(PlanRefusal::Offline { cpus: cpus.difference(&online), smt_off }.into());
    }
    Ok(())
}
