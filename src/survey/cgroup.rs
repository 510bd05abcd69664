//! The cpusets of the cgroup tree. On v2 only groups whose parent enables the cpuset controller
//! have cpuset files, so the walk follows `cgroup.subtree_control` and stays short.

use super::reader::{CpuSetSpelling::List, SurveyReader};
use super::{Cgroup, CgroupMode, CpusetGroup};
use cpushield_linux::CpuSet;
use cpushield_linux::text::mounts::{self, Mount};
use cpushield_linux::text::partition::PartitionState;

/// The maximum number of groups that are read; a note reports when there are more.
const GROUPS_MAX: usize = 4096;

/// The mounts that this process sees; empty with a note when they cannot be read.
pub(super) fn read_mounts(r: &SurveyReader) -> Vec<Mount> {
    let path = "/proc/self/mountinfo";
    let text = r.host.read(path);
    let parsed = text.and_then(|text| mounts::parse(&text).map_err(|error| error.at(path)));
    r.required(parsed).unwrap_or_default()
}

/// The tree, and `cpuset.cpus.isolated` of the v2 root.
pub(super) fn read_cgroup(r: &SurveyReader, mounts: &[Mount]) -> (Cgroup, Option<CpuSet>) {
    // The file system `cpuset` is older than cgroups; it is v1 without a prefix.
    let v1 = mounts.iter().find(|mount| {
        let is_cpuset = mount.super_options.iter().any(|option| option == "cpuset");
        (mount.kind == "cgroup" && is_cpuset) || mount.kind == "cpuset"
    });
    let v2 = mounts.iter().find(|mount| mount.kind == "cgroup2");
    let mut found = Cgroup { systemd: r.host.has_systemd(), ..Cgroup::default() };
    let mut isolated = None;
    if let Some(mount) = v1 {
        found.mode = if v2.is_some() { CgroupMode::Hybrid } else { CgroupMode::V1 };
        found.mount = Some(mount.point.clone());
        let prefixed = r.host.exists(&format!("{}/cpuset.cpus", mount.point));
        found.prefix = if prefixed { "cpuset." } else { "" }.to_owned();
        read_v1_groups(r, &mount.point, &mut found);
    } else if let Some(mount) = v2 {
        let controllers = r.line(&format!("{}/cgroup.controllers", mount.point));
        if has_cpuset(controllers.as_deref()) {
            found.mode = CgroupMode::V2;
            found.prefix = "cpuset.".to_owned();
            found.mount = Some(mount.point.clone());
            isolated = r.list(&format!("{}/cpuset.cpus.isolated", mount.point));
            read_v2_groups(r, &mount.point, &mut found);
        } else {
            r.note(&mount.point, "cgroup v2 is mounted there, but without the cpuset controller");
        }
    } else {
        r.note("cgroups", "no hierarchy with the cpuset controller is mounted");
    }
    found.groups.sort_by(|a, b| a.path.cmp(&b.path));
    (found, isolated)
}

fn has_cpuset(controllers: Option<&str>) -> bool {
    controllers.is_some_and(|text| text.split_whitespace().any(|word| word == "cpuset"))
}

/// The cpuset files of a cgroup of version 1. Their names have a prefix on most machines.
struct V1Files<'a> {
    r: &'a SurveyReader<'a>,
    dir: &'a str,
    prefix: &'a str,
}

impl V1Files<'_> {
    fn set(&self, name: &str) -> Option<CpuSet> {
        self.r.set(&[(&format!("{}/{}{name}", self.dir, self.prefix), List)])
    }

    fn flag(&self, name: &str) -> Option<bool> {
        self.r.flag(&format!("{}/{}{name}", self.dir, self.prefix))
    }
}

fn read_v1_groups(r: &SurveyReader, mount: &str, found: &mut Cgroup) {
    let prefix = found.prefix.clone();
    let root = V1Files { r, dir: mount, prefix: &prefix };
    let mems = root.set("effective_mems").or_else(|| root.set("mems"));
    found.mems = mems.unwrap_or_default();
    found.balanced = root.flag("sched_load_balance");
    found.root_tasks = count_members(r, mount, "tasks");
    let mut dirs = children(r, mount, &prefix);
    while let Some(dir) = dirs.pop() {
        if found.groups.len() >= GROUPS_MAX {
            r.note(mount, format!("only the first {GROUPS_MAX} cgroups were read"));
            break;
        }
        dirs.extend(children(r, &dir, &prefix));
        let files = V1Files { r, dir: &dir, prefix: &prefix };
        found.groups.push(CpusetGroup {
            cpus: files.set("cpus").unwrap_or_default(),
            effective: files.set("effective_cpus"),
            partition: None,
            exclusive: files.flag("cpu_exclusive").unwrap_or(false),
            balanced: files.flag("sched_load_balance"),
            tasks: count_members(r, &dir, "tasks"),
            path: dir,
        });
    }
}

fn read_v2_groups(r: &SurveyReader, mount: &str, found: &mut Cgroup) {
    found.mems = r.list(&format!("{mount}/cpuset.mems.effective")).unwrap_or_default();
    let control = r.line(&format!("{mount}/cgroup.subtree_control"));
    found.delegated = has_cpuset(control.as_deref());
    found.root_tasks = count_members(r, mount, "cgroup.procs");
    let mut dirs = if found.delegated { children(r, mount, "cpuset.") } else { Vec::new() };
    let mut visited = 0;
    while let Some(dir) = dirs.pop() {
        visited += 1;
        if visited > GROUPS_MAX {
            r.note(mount, format!("only the first {GROUPS_MAX} cgroups were read"));
            break;
        }
        let control = r.line(&format!("{dir}/cgroup.subtree_control"));
        if has_cpuset(control.as_deref()) {
            dirs.extend(children(r, &dir, "cpuset."));
        }
        let group = CpusetGroup {
            cpus: r.list(&format!("{dir}/cpuset.cpus")).unwrap_or_default(),
            effective: r.list(&format!("{dir}/cpuset.cpus.effective")),
            partition: r.line(&format!("{dir}/cpuset.cpus.partition")),
            exclusive: r
                .list(&format!("{dir}/cpuset.cpus.exclusive"))
                .is_some_and(|cpus| !cpus.is_empty()),
            balanced: None,
            tasks: count_members(r, &dir, "cgroup.procs"),
            path: dir,
        };
        // A group without its own CPUs uses those of its parent.
        if !group.cpus.is_empty() || group.partition_state() != PartitionState::Member {
            found.groups.push(group);
        }
    }
}

/// Directories of child groups with cpuset files.
fn children(r: &SurveyReader, dir: &str, prefix: &str) -> Vec<String> {
    let interface_files = ["cgroup.", "cpuset.", "cpu.", "memory.", "io.", "pids."];
    let mut names = r.names(dir);
    names.retain(|name| !interface_files.iter().any(|start| name.starts_with(start)));
    let paths = names.into_iter().map(|name| format!("{dir}/{name}"));
    paths.filter(|path| r.host.exists(&format!("{path}/{prefix}cpus"))).collect()
}

/// The number of members of a group. A threaded v2 group does not list processes (EOPNOTSUPP) and
/// has none.
fn count_members(r: &SurveyReader, dir: &str, list: &str) -> Option<usize> {
    let text = r.host.read(&format!("{dir}/{list}"));
    text.ok().map(|text| text.lines().count())
}
