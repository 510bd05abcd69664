//! Which CPUs a command looks at: those it was told, else those of the active shield.

use super::input;
use crate::apply;
use crate::failure::Failure;
use crate::plan::Plan;
use crate::run::{self, RunError, ShieldPlacement};
use cpushield_linux::{CpuSet, Host, Store};

/// What is looked at.
#[derive(Debug)]
pub(super) struct WatchTarget {
    /// The active shield's plan; `None` where there is none, or where this user cannot read it.
    pub(super) active: Option<Plan>,
    /// Where its programs go.
    pub(super) place: Option<ShieldPlacement>,
    /// The CPUs, all of the active shield or none.
    pub(super) cpus: CpuSet,
}

impl WatchTarget {
    /// These CPUs, or those of the active shield. `command`: what the user called, for hints.
    ///
    /// # Errors
    /// It is not known which, or some of them are shielded and others are not.
    pub(super) fn find(
        host: &Host,
        store: &Store,
        cpus: Option<&CpuSet>,
        command: &str,
    ) -> Result<WatchTarget, Failure> {
        let active = match active_shield(host, store) {
            // Which CPUs are meant is known, and what is half made or damaged protects none.
            Err(_) if cpus.is_some() => ActiveShield::Denied,
            answer => answer?,
        };
        let unread = matches!(active, ActiveShield::Denied);
        let active = active.plan();
        let place = active.as_ref().map(|plan| ShieldPlacement::new(host, plan));
        let cpus = match (cpus, &place) {
            (Some(cpus), _) => {
                input::check_cpus(host, cpus)?;
                cpus.clone()
            }
            (None, Some(place)) => place.cpus.clone(),
            (None, None) if unread => {
                return Err(Failure::machine("which CPUs are shielded is not known without root")
                    .hint(format!("sudo cpushield {command}"))
                    .hint(format!("or name the CPUs: cpushield {command} --cpus 3")));
            }
            (None, None) => {
                return Err(Failure::machine(
                    "no shield is in force, so it is not known which CPUs are meant",
                )
                .hint(format!("name the CPUs: cpushield {command} --cpus 3"))
                .hint("or make a shield: cpushield apply"));
            }
        };
        let scene = WatchTarget { active, place, cpus };
        match scene.ours() {
            Some(place) if !scene.cpus.is_subset(&place.cpus) => {
                let outside = scene.cpus.minus(&place.cpus);
                Err(Failure::usage(format!("CPU {outside} is not part of the active shield"))
                    .hint("use separate runs for CPUs inside and outside the shield"))
            }
            _ => Ok(scene),
        }
    }

    /// The active shield's place, where the CPUs are of it.
    pub(super) fn ours(&self) -> Option<&ShieldPlacement> {
        self.place.as_ref().filter(|place| place.cpus.intersects(&self.cpus))
    }

    /// The cgroup of the shield's programs there.
    pub(super) fn group(&self) -> Option<String> {
        self.ours().and_then(|place| place.group.clone())
    }
}

/// Which shield is active, as far as this user can read that.
pub(super) enum ActiveShield {
    /// This one.
    Plan(Box<Plan>),
    /// None.
    Absent,
    /// The journal is not for normal users.
    Denied,
}

impl ActiveShield {
    /// Its plan, where that can be read.
    pub(super) fn plan(self) -> Option<Plan> {
        match self {
            ActiveShield::Plan(plan) => Some(*plan),
            ActiveShield::Absent | ActiveShield::Denied => None,
        }
    }
}

/// The active shield. A normal user cannot read the journal, and can watch all the same.
pub(super) fn active_shield(host: &Host, store: &Store) -> Result<ActiveShield, Failure> {
    match run::active(host, store) {
        Ok(Some(plan)) => Ok(ActiveShield::Plan(Box::new(plan))),
        Ok(None) => Ok(ActiveShield::Absent),
        Err(RunError::Journal(apply::JournalLoadError::Access(error)))
            if error.errno() == Some(13) =>
        {
            Ok(ActiveShield::Denied)
        }
        Err(error) => Err(error.into()),
    }
}
