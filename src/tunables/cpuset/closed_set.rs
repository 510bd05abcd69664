//! The closed set of changes that `cpuset` can want: the groups of the shield and of housekeeping
//! programs, and the CPUs of other groups without those of the shield. Pure.

use super::super::closed_set::{keeps_task_off, written_cpus};
use super::HOUSEKEEPING;
use crate::change::{Change, ValueComparison};
use crate::documents::plan::Shield;

pub(super) fn could_want(change: &Change, shield: &Shield) -> bool {
    match change {
        Change::MakeDir { path } => Place::of(path, shield).is_own(),
        Change::MoveTasks { from, to, keep } => {
            is_mount(from)
                && *to == format!("{from}/{HOUSEKEEPING}")
                && *keep == shield.kept_programs()
        }
        Change::MoveProcess { to, .. } => Place::of(to, shield) == Place::Shield,
        Change::GiveToGroup { path, .. } => {
            path.strip_suffix("/tasks").is_some_and(|dir| Place::of(dir, shield).is_own())
        }
        Change::Slice { cpus, mems, .. } => {
            *cpus == shield.cpus && (mems.is_empty() || *mems == shield.mems)
        }
        Change::Write { path, value, compare } => {
            let (dir, file) = path.rsplit_once('/').unwrap_or(("", path));
            let (place, cpus) = (Place::of(dir, shield), written_cpus(change));
            match (place, file.strip_prefix("cpuset.").unwrap_or(file), compare) {
                (Place::Mount, "cgroup.subtree_control", ValueComparison::Member) => {
                    value == "+cpuset"
                }
                (Place::Mount, "sched_load_balance", ValueComparison::Text) => value == "0",
                (Place::Shield, "sched_load_balance", ValueComparison::Text) => {
                    ["0", "1"].contains(&value.as_str())
                }
                (Place::Shield, "cpu_exclusive", ValueComparison::Text) => value == "1",
                (Place::Shield, "cpus.partition", ValueComparison::Text) => {
                    ["root", "isolated"].contains(&value.as_str())
                }
                (Place::Shield, "cpus" | "cpus.exclusive", ValueComparison::List) => {
                    cpus.is_some_and(|cpus| !cpus.is_empty() && cpus.is_subset(&shield.cpus))
                }
                (Place::Housekeeping, "cpus", ValueComparison::List) => {
                    cpus.is_some_and(|cpus| cpus == shield.housekeeping)
                }
                (Place::Shield, "mems", ValueComparison::List) => {
                    cpus.as_ref() == Some(&shield.mems)
                }
                (Place::Housekeeping, "mems", ValueComparison::List) => cpus.is_some(),
                (Place::Other, "cpus", ValueComparison::List) => {
                    cpus.is_some_and(|cpus| !cpus.intersects(&shield.cpus))
                }
                _ => false,
            }
        }
        _ => keeps_task_off(change, shield),
    }
}

/// Which directory of the cpusets a path is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Mount,
    Shield,
    Housekeeping,
    /// A group of another program.
    Other,
    /// None, or a group of another shield.
    Nothing,
}

impl Place {
    fn of(dir: &str, shield: &Shield) -> Place {
        let (above, name) = dir.rsplit_once('/').unwrap_or_default();
        let is_below = dir.match_indices('/').any(|(at, _)| is_mount(&dir[..at]));
        match name {
            _ if is_mount(dir) => Place::Mount,
            HOUSEKEEPING if is_mount(above) => Place::Housekeeping,
            _ if is_mount(above) && shield.cgroup_names().iter().any(|own| own == name) => {
                Place::Shield
            }
            _ if is_below && !dir.contains("/cpushield") => Place::Other,
            _ => Place::Nothing,
        }
    }

    fn is_own(self) -> bool {
        matches!(self, Place::Shield | Place::Housekeeping)
    }
}

/// Whether cpusets can be mounted here, by systemd, a distribution, or cset.
fn is_mount(dir: &str) -> bool {
    let hierarchy = dir.strip_prefix("/sys/fs/cgroup/").unwrap_or_default();
    ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/dev/cpuset"].contains(&dir)
        || !hierarchy.contains('/') && hierarchy.split(',').any(|word| word == "cpuset")
}
