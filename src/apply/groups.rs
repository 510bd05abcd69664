//! Cgroups that undo removes, and groups of other programs that need what undo would disable.

use super::moves::MovedOut;
use cpushield_linux::text::partition::PartitionState;
use cpushield_linux::{Host, Result};
use std::time::Duration;

/// How often to retry while exiting tasks keep a cgroup busy, with pauses of [`BUSY_STEP`].
const BUSY_TRIES: usize = 100;
const BUSY_STEP: Duration = Duration::from_millis(10);

/// The file that makes a group a partition.
const PARTITION: &str = "cpuset.cpus.partition";

/// The maximum depth of groups in ours.
const DEPTH_MAX: usize = 32;

fn is_group(host: &Host, dir: &str) -> bool {
    host.exists(&format!("{dir}/cgroup.procs"))
}

/// Removes a group, with the groups below it. Tasks in them move to the group `above`.
pub(super) fn remove_below(
    host: &Host,
    path: &str,
    above: &str,
    moved: &mut MovedOut,
    depth: usize,
) -> Result<()> {
    if depth < DEPTH_MAX && is_group(host, path) {
        // First, because the threads in threaded groups below leave with their processes.
        moved.move_out(host, path, above)?;
        for name in host.list_directories(path)? {
            let below = format!("{path}/{name}");
            if is_group(host, &below) {
                remove_below(host, &below, above, moved, depth + 1)?;
            }
        }
    }
    for _ in 0..BUSY_TRIES {
        if is_group(host, path) {
            moved.move_out(host, path, above)?;
            end_partition(host, path)?;
        }
        match host.remove_dir(path) {
            Err(error) if error.is_busy() && host.is_live() => std::thread::sleep(BUSY_STEP),
            answer => return answer,
        }
    }
    host.remove_dir(path)
}

/// Whether a group is a partition that the kernel accepts.
pub(super) fn is_valid_partition(host: &Host, group: &str) -> bool {
    let shown = host.read_line(&format!("{group}/{PARTITION}"));
    shown.is_ok_and(|shown| PartitionState::from_text(&shown).is_valid_partition())
}

/// Ends the partition of a group. The kernel ends that of a removed group too, but later, by a work
/// item (`cpuset_css_offline()`, kernel/cgroup/cpuset.c, 6.1). Until then a mask that is written
/// lacks these CPUs.
///
/// # Errors
/// Only when a test stopped the host. Where the kernel refuses it, the removal ends the partition.
pub(super) fn end_partition(host: &Host, path: &str) -> Result<()> {
    if !is_valid_partition(host, path) {
        return Ok(());
    }
    match host.write(&format!("{path}/{PARTITION}"), "member") {
        Err(error) if error.is_stop() => Err(error),
        _ => Ok(()),
    }
}

/// The settings of a cpuset that a group has when no program has set them: nothing in the lists,
/// and no partition.
const DEFAULTS: &[(&str, &str)] = &[
    ("cpuset.cpus", ""),
    ("cpuset.mems", ""),
    ("cpuset.cpus.exclusive", ""),
    (PARTITION, "member"),
];

/// Whether a group has the settings of a cpuset that no program has set, or no cpuset.
pub(super) fn is_default_cpuset(host: &Host, group: &str) -> bool {
    let is_set = |(file, default): &(&str, &str)| {
        host.read_line(&format!("{group}/{file}")).is_ok_and(|text| text != *default)
    };
    !DEFAULTS.iter().any(is_set)
}

/// Finds a group that would lose settings if cpusets were disabled for the groups below a
/// directory.
pub(super) fn group_using_cpusets(host: &Host, path: &str, words: &[String]) -> Option<String> {
    let dir = path.strip_suffix("/cgroup.subtree_control")?;
    if !words.iter().any(|word| word == "-cpuset") {
        return None;
    }
    let groups = host.list(dir).ok()?.into_iter().map(|name| format!("{dir}/{name}"));
    let mut users = groups.filter(|group| {
        let below = host.read_line(&format!("{group}/cgroup.subtree_control"));
        !is_default_cpuset(host, group)
            || below.is_ok_and(|text| text.split_whitespace().any(|word| word == "cpuset"))
    });
    users.next()
}
