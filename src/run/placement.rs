//! [`ShieldPlacement`]: the cgroup and the CPUs for programs of a shield.

use super::RunError;
use crate::apply;
use crate::change::Change;
use crate::documents::plan::{NamedShield, Plan, Shield};
use crate::documents::process_note::ProcessNote;
use cpushield_linux::{CpuSet, Host, Store};
use std::collections::{BTreeMap, BTreeSet};

/// The cgroup and the CPUs for programs of a shield.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShieldPlacement {
    /// The shield's name.
    pub name: String,
    /// Directory of its cgroup; `None` for a shield that consists of affinities only.
    pub group: Option<String>,
    /// The cgroup is of version 2.
    pub v2: bool,
    /// CPUs for programs: the shielded ones without siblings that stay idle.
    pub cpus: CpuSet,
    /// Shielded siblings that stay idle.
    pub idle: CpuSet,
    /// Every other online CPU.
    pub housekeeping: CpuSet,
    /// The processes that were on the CPUs before the shield, and go back as they came.
    pub residents: BTreeSet<i32>,
}

/// The group of programs in a slice that has services.
const PROGRAMS: &str = "programs";

/// The maximum depth of groups in the shield's group.
const DEPTH_MAX: usize = 32;

/// Checks that a program can enter a group of the shield, or leave it. On a machine with several
/// memory nodes its pages move too, which may wait for a thread on a busy CPU.
///
/// # Errors
/// The write would never return.
pub fn check_move(host: &Host, group: &str) -> Result<(), RunError> {
    match apply::refuse_move(host, group)? {
        None => Ok(()),
        Some(why) => Err(RunError::NoMove { group: group.to_owned(), why }),
    }
}

/// The note about other active shields that the kernel interrupts when a program enters the group
/// of this one and its pages move; `None` if they stay, or if no other shield is active.
#[must_use]
pub fn memory_note(host: &Host, store: &Store, place: &ShieldPlacement) -> Option<ProcessNote> {
    let group = place.group.as_ref()?;
    let plans = apply::active_plans(host, store).unwrap_or_default();
    let others = plans.iter().map(|plan| NamedShield::from(&plan.shield));
    let others: Vec<NamedShield> = others.filter(|other| other.name != place.name).collect();
    let is_note = !others.is_empty() && apply::moves_memory(host, group);
    is_note.then_some(ProcessNote::MemoryMoves { others })
}

/// The CPU of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChosenCpu {
    /// The CPU.
    pub cpu: usize,
    /// The threads that are confined to it already; 0 if the CPU was requested. No other CPU of the
    /// shield has fewer.
    pub threads: usize,
}

impl ShieldPlacement {
    /// Finds the placement of an applied plan.
    #[must_use]
    pub fn new(host: &Host, plan: &Plan) -> ShieldPlacement {
        let place = ShieldPlacement::of_group(host, &plan.shield, plan.cgroup_dir());
        let residents = plan.steps.iter().filter_map(|step| match &step.change {
            Change::MoveProcess { task, .. } => Some(task.tid),
            _ => None,
        });
        ShieldPlacement { residents: residents.collect(), ..place }
    }

    /// The placement of a shield whose cgroup is this directory, if it exists.
    #[must_use]
    pub fn of_group(host: &Host, shield: &Shield, group: Option<String>) -> ShieldPlacement {
        let group = group.filter(|dir| host.exists(&format!("{dir}/cgroup.procs")));
        let v2 = group.as_ref().is_some_and(|dir| host.exists(&format!("{dir}/cgroup.threads")));
        ShieldPlacement {
            name: shield.name.clone(),
            group,
            v2,
            cpus: shield.cpus.difference(&shield.idle_siblings),
            idle: shield.idle_siblings.clone(),
            housekeeping: shield.housekeeping.clone(),
            residents: BTreeSet::new(),
        }
    }

    /// The value of `CGNAME`: the group as seen from its hierarchy's root.
    #[must_use]
    pub fn group_name(&self) -> Option<String> {
        let (_, name) = self.group.as_ref()?.rsplit_once('/')?;
        Some(format!("/{name}"))
    }

    /// Returns the threads in its group and in the groups below it, such as services; none without
    /// a group.
    ///
    /// # Errors
    /// The list cannot be read or parsed.
    pub fn members(&self, host: &Host) -> Result<Vec<i32>, RunError> {
        let mut tids = Vec::new();
        if let Some(group) = &self.group {
            self.add_members(host, group, 0, &mut tids)?;
        }
        Ok(tids)
    }

    fn add_members(
        &self,
        host: &Host,
        group: &str,
        depth: usize,
        tids: &mut Vec<i32>,
    ) -> Result<(), RunError> {
        let list = if self.v2 { "cgroup.threads" } else { "tasks" };
        let path = format!("{group}/{list}");
        let text = match host.read(&path) {
            // A group below may be removed at any time.
            Err(error) if error.is_absent() && depth > 0 => return Ok(()),
            text => text?,
        };
        for (i, line) in text.lines().enumerate() {
            tids.push(line.trim().parse().map_err(|_| {
                cpushield_linux::Error::malformed(&path, i + 1, "a thread ID", line)
            })?);
        }
        if self.v2 && depth < DEPTH_MAX {
            for name in host.list_directories(group).unwrap_or_default() {
                self.add_members(host, &format!("{group}/{name}"), depth + 1, tids)?;
            }
        }
        Ok(())
    }

    /// The group that a program enters; `None` without a group. On cgroup v2 a group whose
    /// controllers the groups below it use has no processes of its own
    /// (Documentation/admin-guide/cgroup-v2.rst, "No Internal Process Constraint"). systemd makes
    /// such a group of a slice with services; then programs have a group next to the services.
    ///
    /// # Errors
    /// That group cannot be made.
    pub fn entry_group(&self, host: &Host) -> Result<Option<String>, RunError> {
        let Some(group) = &self.group else { return Ok(None) };
        let used = host.read_line(&format!("{group}/cgroup.subtree_control")).unwrap_or_default();
        if !self.v2 || used.is_empty() {
            return Ok(Some(group.clone()));
        }
        let below = format!("{group}/{PROGRAMS}");
        if !host.exists(&below) {
            host.make_dir(&below)?;
        }
        Ok(Some(below))
    }

    /// The group of a unit of systemd below its group; `None` for the groups of programs.
    pub(super) fn unit_of<'a>(&self, dir: &'a str) -> Option<&'a str> {
        let below = dir.strip_prefix(self.group.as_ref()?.as_str())?.strip_prefix('/')?;
        (below != PROGRAMS).then_some(below)
    }

    /// Whether a thread is in the shield: in its group, or without a group, confined to its CPUs.
    ///
    /// # Errors
    /// The members of the group cannot be read.
    pub(super) fn has(&self, host: &Host, tid: i32) -> Result<bool, RunError> {
        match &self.group {
            Some(_) => Ok(self.members(host)?.contains(&tid)),
            None => {
                let own = self.cpus.union(&self.idle);
                Ok(host.affinity(tid).is_ok_and(|cpus| !cpus.is_empty() && cpus.is_subset(&own)))
            }
        }
    }

    /// Whether a directory is that of its group, or of a group below it.
    pub(super) fn contains_group(&self, dir: &str) -> bool {
        let below = |group: &String| dir.strip_prefix(group.as_str());
        let rest = self.group.as_ref().and_then(below);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Checks that a program can run on one of these CPUs. The kernel refuses it for a cpuset
    /// without an online CPU (ENOSPC), and does not say why.
    ///
    /// # Errors
    /// All of them are offline.
    pub fn check_online(&self, host: &Host, cpus: &CpuSet) -> Result<(), RunError> {
        match host.online_cpus() {
            Ok(online) if !cpus.is_empty() && !cpus.intersects(&online) => {
                Err(RunError::Offline { cpus: cpus.clone(), shield: self.name.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Chooses the CPU for a program: the requested one, or the lowest online one with the fewest
    /// threads that are confined to it.
    ///
    /// # Errors
    /// Programs may not use the requested CPU, or it is offline.
    pub fn choose(&self, host: &Host, requested: Option<usize>) -> Result<ChosenCpu, RunError> {
        if let Some(cpu) = requested {
            let why = match () {
                () if self.cpus.contains(cpu) => {
                    self.check_online(host, &CpuSet::single(cpu))?;
                    return Ok(ChosenCpu { cpu, threads: 0 });
                }
                () if self.idle.contains(cpu) => {
                    "is kept idle, because it shares its core with a shielded CPU in use"
                }
                () => "is not shielded",
            };
            let offered = self.cpus.clone();
            return Err(RunError::NotOffered { cpu, why: why.to_owned(), offered });
        }
        self.check_online(host, &self.cpus)?;
        let online = host.online_cpus().ok();
        let is_online = |cpu: &usize| online.as_ref().is_none_or(|online| online.contains(*cpu));
        let usable = self.cpus.iter().filter(is_online);
        let mut load: BTreeMap<usize, usize> = usable.map(|cpu| (cpu, 0)).collect();
        for tid in self.members(host)? {
            // Skips a thread that has ended since.
            let Ok(affinity) = host.affinity(tid) else { continue };
            if let (1, Some(threads)) =
                (affinity.len(), affinity.first().and_then(|cpu| load.get_mut(&cpu)))
            {
                *threads += 1;
            }
        }
        let least = load.into_iter().min_by_key(|(cpu, threads)| (*threads, *cpu));
        let chosen = least.map(|(cpu, threads)| ChosenCpu { cpu, threads });
        // All of them went offline after the check.
        chosen
            .ok_or_else(|| RunError::Offline { cpus: self.cpus.clone(), shield: self.name.clone() })
    }
}
