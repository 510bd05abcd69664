//! The closed set of changes that `cpuset` can want: the groups of the shield and of housekeeping
//! programs, and the CPUs of other groups without those of the shield. Pure.

use super::super::closed_set::{keeps_task_off, written_cpus};
use super::HOUSEKEEPING;
use crate::change::Change;
use crate::documents::plan::Shield;

pub(super) fn could_want(change: &Change, shield: &Shield) -> bool {
    match change {
        Change::MakeDir { path } => is_own(path, shield),
        Change::MoveTasks { from, to } => {
            is_of_cgroups(from) && *to == format!("{from}/{HOUSEKEEPING}")
        }
        Change::GiveToGroup { path, .. } => {
            path.strip_suffix("/tasks").is_some_and(|dir| is_own(dir, shield))
        }
        Change::Slice { cpus, .. } => *cpus == shield.cpus,
        Change::Write { path, value, .. } if is_of_cgroups(path) => {
            let (dir, file) = path.rsplit_once('/').unwrap_or(("", path));
            match (file.strip_prefix("cpuset.").unwrap_or(file), value.as_str()) {
                ("cgroup.subtree_control", "+cpuset") | ("sched_load_balance", "0") => true,
                ("cpu_exclusive" | "sched_load_balance", "1") => is_shield(dir, shield),
                ("cpus.partition", "root" | "isolated") => is_shield(dir, shield),
                ("mems", _) => is_own(dir, shield),
                ("cpus" | "cpus.exclusive", _) => {
                    written_cpus(change).is_some_and(|cpus| match is_shield(dir, shield) {
                        true => cpus.is_subset(&shield.cpus),
                        false => !cpus.intersects(&shield.cpus),
                    })
                }
                _ => false,
            }
        }
        _ => keeps_task_off(change, shield),
    }
}

/// Whether a path is one of cgroups, where systemd, distributions and cset mount them.
fn is_of_cgroups(path: &str) -> bool {
    ["/sys/fs/cgroup", "/dev/cpuset"].iter().any(|mount| {
        path.strip_prefix(mount).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// Whether a directory is the group of the shield.
fn is_shield(dir: &str, shield: &Shield) -> bool {
    let name = dir.rsplit('/').next().unwrap_or_default();
    is_of_cgroups(dir) && shield.cgroup_names().iter().any(|own| own == name)
}

/// Whether a directory is the group of the shield or of housekeeping programs.
fn is_own(dir: &str, shield: &Shield) -> bool {
    is_shield(dir, shield) || is_of_cgroups(dir) && dir.ends_with(&format!("/{HOUSEKEEPING}"))
}
