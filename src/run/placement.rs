//! [`ShieldPlacement`]: where programs of a shield go: its cgroup and its CPUs.

use super::RunError;
use crate::change::Change;
use crate::plan::{Plan, Shield};
use cpushield_linux::{CpuSet, Host};
use std::collections::BTreeMap;

/// Where programs of a shield go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShieldPlacement {
    /// The shield's name.
    pub name: String,
    /// Directory of its cgroup; `None` when the shield has none and affinity alone keeps its CPUs.
    pub group: Option<String>,
    /// The cgroup is of version 2.
    pub v2: bool,
    /// CPUs that programs may have: the shielded ones but for siblings that stay idle.
    pub cpus: CpuSet,
    /// Shielded siblings that stay idle.
    pub idle: CpuSet,
    /// Every other online CPU.
    pub housekeeping: CpuSet,
}

impl ShieldPlacement {
    /// The place that a plan in force has made.
    #[must_use]
    pub fn of(host: &Host, plan: &Plan) -> ShieldPlacement {
        let shield = &plan.shield;
        let group = group(host, plan);
        let v2 = group.as_ref().is_some_and(|dir| host.exists(&format!("{dir}/cgroup.threads")));
        ShieldPlacement {
            name: shield.name.clone(),
            group,
            v2,
            cpus: shield.cpus.minus(&shield.idle_siblings),
            idle: shield.idle_siblings.clone(),
            housekeeping: shield.housekeeping.clone(),
        }
    }

    /// What the directory of a shield's cgroup can be called.
    pub(super) fn names(shield: &Shield) -> [String; 2] {
        [shield.group(), format!("{}.slice", shield.group())]
    }

    /// The value of `CGNAME`: the group as seen from its hierarchy's root.
    #[must_use]
    pub fn group_name(&self) -> Option<String> {
        let (_, name) = self.group.as_ref()?.rsplit_once('/')?;
        Some(format!("/{name}"))
    }

    /// The threads in its group; none when it has no group.
    ///
    /// # Errors
    /// The list cannot be read or holds something else than numbers.
    pub fn members(&self, host: &Host) -> Result<Vec<i32>, RunError> {
        let Some(group) = &self.group else { return Ok(Vec::new()) };
        let list = if self.v2 { "cgroup.threads" } else { "tasks" };
        let path = format!("{group}/{list}");
        let text = host.read(&path)?;
        let tid = |(i, line): (usize, &str)| {
            line.trim().parse().map_err(|_| {
                cpushield_linux::Error::malformed(&path, i + 1, "a thread's number", line).into()
            })
        };
        text.lines().enumerate().map(tid).collect()
    }

    /// The CPU for a program: the one asked for, or the one with the fewest threads that are
    /// already confined to it, the lowest of those.
    ///
    /// # Errors
    /// The CPU asked for is not one that programs may have.
    pub fn choose(&self, host: &Host, asked: Option<usize>) -> Result<usize, RunError> {
        let refuse = |cpu: usize, why: &str| {
            let (why, offered) = (why.to_owned(), self.cpus.clone());
            Err(RunError::NotOffered { cpu, why, offered })
        };
        if let Some(cpu) = asked {
            return match () {
                () if self.cpus.contains(cpu) => Ok(cpu),
                () if self.idle.contains(cpu) => refuse(
                    cpu,
                    "is kept idle, because it shares its core with a shielded CPU that works",
                ),
                () => refuse(cpu, "is not shielded"),
            };
        }
        let mut load: BTreeMap<usize, usize> = self.cpus.iter().map(|cpu| (cpu, 0)).collect();
        for tid in self.members(host)? {
            // A thread that has ended meanwhile confines nothing.
            let Ok(affinity) = host.affinity(tid) else { continue };
            if let (1, Some(threads)) =
                (affinity.len(), affinity.first().and_then(|cpu| load.get_mut(&cpu)))
            {
                *threads += 1;
            }
        }
        let least = load.into_iter().min_by_key(|(cpu, threads)| (*threads, *cpu));
        least.map(|(cpu, _)| cpu).ok_or_else(|| RunError::Record("the shield has no CPU".into()))
    }
}

/// The cgroup of the shield: the directory below a cgroup mount that the plan's steps write to and
/// that is called as the shield's group or slice.
fn group(host: &Host, plan: &Plan) -> Option<String> {
    let names = ShieldPlacement::names(&plan.shield);
    plan.steps.iter().find_map(|step| {
        let path = match &step.change {
            Change::MakeDir { path } | Change::Write { path, .. } => path,
            _ => return None,
        };
        let dir = names.iter().find_map(|name| up_to(path, name))?;
        host.exists(&format!("{dir}/cgroup.procs")).then_some(dir)
    })
}

/// `path` up to and with its component `name`.
fn up_to(path: &str, name: &str) -> Option<String> {
    let mut dir = String::new();
    for component in path.split('/').filter(|c| !c.is_empty()) {
        dir.push('/');
        dir.push_str(component);
        if component == name {
            return Some(dir);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_is_the_component_of_that_name() {
        let slice = "/sys/fs/cgroup/cpushield.slice/cpuset.cpus.partition";
        assert_eq!(up_to(slice, "cpushield.slice").unwrap(), "/sys/fs/cgroup/cpushield.slice");
        assert_eq!(up_to(slice, "cpushield"), None);
        assert_eq!(up_to("/sys/fs/cgroup/cpushield_housekeeping/tasks", "cpushield"), None);
    }
}
