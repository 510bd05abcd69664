//! Which CPUs a command looks at: those it was told, else those of the active shield.

use super::input;
use crate::apply;
use crate::failure::Failure;
use crate::plan::Plan;
use crate::run::{self, Place, RunError};
use cpushield_linux::{CpuSet, Host, Store};

/// What is looked at.
#[derive(Debug)]
pub(super) struct Scene {
    /// The active shield's plan; `None` where there is none, or where this user cannot read it.
    pub(super) active: Option<Plan>,
    /// Where its programs go.
    pub(super) place: Option<Place>,
    /// The CPUs, all of the active shield or none.
    pub(super) cpus: CpuSet,
}

impl Scene {
    /// These CPUs, or those of the active shield. `command`: what the user called, for hints.
    ///
    /// # Errors
    /// It is not known which, or some of them are shielded and others are not.
    pub(super) fn find(
        host: &Host,
        store: &Store,
        cpus: Option<&CpuSet>,
        command: &str,
    ) -> Result<Scene, Failure> {
        let readable = match readable(host, store) {
            // Which CPUs are meant is known, and what is half made or damaged protects none.
            Err(_) if cpus.is_some() => None,
            answer => answer?,
        };
        let unread = readable.is_none();
        let active = readable.flatten();
        let place = active.as_ref().map(|plan| Place::of(host, plan));
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
        let scene = Scene { active, place, cpus };
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
    pub(super) fn ours(&self) -> Option<&Place> {
        self.place.as_ref().filter(|place| place.cpus.intersects(&self.cpus))
    }

    /// The cgroup of the shield's programs there.
    pub(super) fn group(&self) -> Option<String> {
        self.ours().and_then(|place| place.group.clone())
    }
}

/// The active shield's plan. A normal user cannot read the journal (the outer `None`), and can
/// watch all the same.
pub(super) fn readable(host: &Host, store: &Store) -> Result<Option<Option<Plan>>, Failure> {
    match run::active(host, store) {
        Ok(plan) => Ok(Some(plan)),
        Err(RunError::Journal(apply::LoadError::Access(error))) if error.errno() == Some(13) => {
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}
