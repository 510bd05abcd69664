//! Moves of programs between groups with different memory nodes. Since 5.15 cgroup v2 moves their
//! pages too (commit ee9707e8593d), and the write returns after that (`cpuset_post_attach()`,
//! kernel/cgroup/cpuset.c, 6.12). Moving pages empties the page batches of every CPU, which needs a
//! kernel thread there (`lru_cache_disable()`, mm/swap.c, 6.12). So the write waits for a thread on
//! each online CPU. Whether a CPU has such pages cannot be seen, so any CPU may be waited for.

use super::blocking_writes::CPU;
use super::moves::members;
use crate::change::ValueComparison;
use cpushield_linux::{CpuSet, Host};

/// The memory nodes of a group: those that it was given.
const MEMS: &str = "cpuset.mems";

/// The maximum depth of groups in the shield's group.
const DEPTH_MAX: usize = 8;

/// The CPUs on each of which the kernel needs a thread when a program enters a group or leaves it;
/// `None` if its pages stay, because the root has the same memory nodes.
pub(super) fn cpus_of_move(host: &Host, group: &str) -> Option<CpuSet> {
    let mut dir = group;
    while let Some((parent, _)) = dir.rsplit_once('/') {
        let mems = host.read_line(&format!("{dir}/{MEMS}")).unwrap_or_default();
        // Only the root has no list of its own. On v1 no group has this file, and no page moves.
        let root = host.read_line(&format!("{parent}/cpuset.mems.effective"));
        let is_root = !host.exists(&format!("{parent}/{MEMS}"));
        if let (false, true, Ok(all)) = (mems.is_empty(), is_root, root) {
            let differs = !ValueComparison::List.same(&mems, &all);
            return differs.then(|| host.read_value(&format!("{CPU}/online"))).flatten();
        }
        dir = parent;
    }
    None
}

/// The same when a group is removed: its programs leave it. `None` if it has none.
pub(super) fn cpus_of_removal(host: &Host, group: &str) -> Option<CpuSet> {
    cpus_of_move(host, group).filter(|_| has_programs(host, group, 0))
}

/// The same when the memory nodes in this file change. `None` for another file.
pub(super) fn cpus_of_change(host: &Host, path: &str) -> Option<CpuSet> {
    let dir = path.strip_suffix("/cpuset.mems")?;
    let is_v2 = host.exists(&format!("{dir}/cgroup.controllers"));
    let waits = is_v2 && has_programs(host, dir, 0);
    waits.then(|| host.read_value(&format!("{CPU}/online"))).flatten()
}

/// The same when this file disables cpusets again: programs of the groups below then have the
/// memory nodes of the root. `None` for another file.
pub(super) fn cpus_of_disabling(host: &Host, path: &str) -> Option<CpuSet> {
    let dir = path.strip_suffix("/cgroup.subtree_control")?;
    let below = host.list_directories(dir).unwrap_or_default();
    below.iter().find_map(|name| cpus_of_removal(host, &format!("{dir}/{name}")))
}

fn has_programs(host: &Host, group: &str, depth: usize) -> bool {
    let below = host.list_directories(group).unwrap_or_default();
    members(host, group).is_ok_and(|tasks| !tasks.is_empty())
        || (depth < DEPTH_MAX
            && below.iter().any(|name| has_programs(host, &format!("{group}/{name}"), depth + 1)))
}
