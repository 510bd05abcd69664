//! Control groups of a recorded machine: interface files, members, cpusets and their effect on
//! affinities (kernel/cgroup/cpuset.c of 6.1, `update_tasks_cpumask()`: every task of a cpuset gets
//! the cpuset's CPUs, whatever it requested).

use crate::SimulatedMachine;
use crate::{ONLINE, UNBOUND};
use cpushield_linux::CpuSet;
use cpushield_linux::errno;
use cpushield_linux::error::{Error, Operation, Result};
use cpushield_linux::text::first_releases::{
    EXCLUSIVE_CPUS, ISOLATED_PARTITION, PARTITION_REFUSES_ISOLCPUS,
};
use cpushield_linux::text::kernel_version::KernelVersion;
use cpushield_linux::text::partition::PartitionState;

/// Interface files of every v2 group.
const V2_FILES: &[(&str, &str)] = &[
    ("cgroup.procs", ""),
    ("cgroup.threads", ""),
    ("cgroup.controllers", ""),
    ("cgroup.subtree_control", ""),
    ("cgroup.type", "domain\n"),
];

/// Interface files of a v2 group for which the parent enables the cpuset controller.
const V2_CPUSET: &[(&str, &str)] = &[
    ("cpuset.cpus", "\n"),
    ("cpuset.cpus.effective", "\n"),
    ("cpuset.cpus.exclusive", "\n"),
    ("cpuset.cpus.partition", "member\n"),
    ("cpuset.mems", "\n"),
];

/// Files that list the members of a group.
const MEMBERS: [&str; 3] = ["cgroup.procs", "cgroup.threads", "tasks"];

/// Interface files of a v1 cpuset (kernel/cgroup/cpuset-v1.c, 6.12).
const V1_FILES: &[(&str, &str)] = &[("tasks", ""), ("cgroup.procs", "")];
const V1_CPUSET: &[(&str, &str)] = &[
    ("cpus", "\n"),
    ("mems", "\n"),
    ("cpu_exclusive", "0\n"),
    ("mem_exclusive", "0\n"),
    ("sched_load_balance", "1\n"),
];

/// The CPUs that were requested for unbound workqueues (6.8).
const REQUESTED: &str = "/sys/devices/virtual/workqueue/cpumask_requested";
/// The CPUs that `isolcpus=` keeps out of load balancing.
const ISOLATED_AT_BOOT: &str = "/sys/devices/system/cpu/isolated";

/// Controllers in the kernel's form: a line, or nothing at all.
fn controllers_line(words: &[String]) -> String {
    if words.is_empty() { String::new() } else { words.join(" ") + "\n" }
}

impl SimulatedMachine<'_> {
    fn groups_in(&self, dir: &str) -> Vec<String> {
        let groups = self.names(dir).into_iter().map(|name| format!("{dir}/{name}"));
        let mut groups: Vec<String> =
            groups.filter(|group| self.is_file(&format!("{group}/cgroup.procs"))).collect();
        groups.sort();
        groups
    }

    /// The mount point of the hierarchy that contains `dir`: the topmost directory with a list of
    /// members.
    fn hierarchy_of(&self, dir: &str) -> String {
        let mut top = dir.to_owned();
        while let Some((parent, _)) = top.rsplit_once('/') {
            if !["cgroup.procs", "tasks"].iter().any(|l| self.is_file(&format!("{parent}/{l}"))) {
                break;
            }
            top = parent.to_owned();
        }
        top
    }

    fn is_v2(&self, top: &str) -> bool {
        self.is_file(&format!("{top}/cgroup.controllers"))
    }

    /// The prefix of cpuset files: `cpuset.`, or nothing (v1 mounted with `noprefix`).
    fn prefix(&self, group: &str) -> &'static str {
        let plain = self.is_file(&format!("{group}/cpus"));
        if plain && !self.is_file(&format!("{group}/cpuset.cpus")) { "" } else { "cpuset." }
    }

    fn words_of(&self, path: &str) -> Vec<String> {
        let text = self.text(path).unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect()
    }

    pub(crate) fn is_busy_group(&self, group: &str) -> bool {
        let lists = ["cgroup.procs", "tasks"];
        let mut lists = lists.iter().filter_map(|list| self.text(&format!("{group}/{list}")));
        lists.any(|text| !text.trim().is_empty()) || !self.groups_in(group).is_empty()
    }

    pub(crate) fn simulate_new_group(&self, parent: &str, path: &str) -> Result<()> {
        if self.is_v2(parent) {
            self.create_files(path, V2_FILES)?;
            let enabled = self.words_of(&format!("{parent}/cgroup.subtree_control"));
            self.set_text(&format!("{path}/cgroup.controllers"), &controllers_line(&enabled))?;
            if enabled.iter().any(|word| word == "cpuset") {
                self.create_files(path, &self.v2_cpuset())?;
            }
        } else if self.is_file(&format!("{parent}/tasks")) {
            self.create_files(path, V1_FILES)?;
            let prefix = self.prefix(parent);
            for (name, text) in V1_CPUSET {
                self.set_text(&format!("{path}/{prefix}{name}"), text)?;
            }
        }
        Ok(())
    }

    /// The interface files of a v2 cpuset that this kernel has.
    fn v2_cpuset(&self) -> Vec<(&'static str, &'static str)> {
        let is_new = self.version().is_none_or(|version| version >= EXCLUSIVE_CPUS);
        let files = V2_CPUSET.iter().copied();
        files.filter(|(name, _)| is_new || *name != "cpuset.cpus.exclusive").collect()
    }

    fn create_files(&self, dir: &str, files: &[(&str, &str)]) -> Result<()> {
        files.iter().try_for_each(|(name, text)| self.set_text(&format!("{dir}/{name}"), text))
    }

    /// Enables a controller for the groups below, or disables it.
    pub(crate) fn simulate_subtree(&self, dir: &str, value: &str) -> Result<()> {
        let path = format!("{dir}/cgroup.subtree_control");
        let mut words = self.words_of(&path);
        for word in value.split_whitespace() {
            let (sign, controller) = word.split_at(1);
            let known = self.words_of(&format!("{dir}/cgroup.controllers"));
            if !known.iter().any(|known| known == controller) {
                return Err(Error::os(Operation::Write, &path, errno::ENOENT));
            }
            words.retain(|known| known != controller);
            if sign == "+" {
                words.push(controller.to_owned());
            }
            for group in self.groups_in(dir) {
                self.set_controller(&path, &group, controller, sign == "+")?;
            }
        }
        // The kernel lists controllers in the order in which they are built in.
        let order = self.words_of(&format!("{dir}/cgroup.controllers"));
        words.sort_by_key(|word| order.iter().position(|known| known == word));
        self.set_text(&path, &controllers_line(&words))?;
        self.refresh(dir)
    }

    fn set_controller(&self, path: &str, group: &str, controller: &str, on: bool) -> Result<()> {
        let below = self.words_of(&format!("{group}/cgroup.subtree_control"));
        if !on && below.iter().any(|word| word == controller) {
            return Err(Error::os(Operation::Write, path, errno::EBUSY));
        }
        let list = format!("{group}/cgroup.controllers");
        let mut controllers = self.words_of(&list);
        controllers.retain(|word| word != controller);
        if on {
            controllers.insert(0, controller.to_owned());
        }
        self.set_text(&list, &controllers_line(&controllers))?;
        if controller != "cpuset" {
            return Ok(());
        }
        for (name, text) in self.v2_cpuset() {
            let file = format!("{group}/{name}");
            if !on {
                self.files.remove_file(&file).map_err(Error::on(Operation::Write, path))?;
            } else if !self.is_file(&file) {
                self.set_text(&file, text)?;
            }
        }
        Ok(())
    }

    /// Moves a process with all of its threads, or a single thread.
    pub(crate) fn simulate_move(&self, dir: &str, name: &str, pid: &str) -> Result<()> {
        self.simulate_thread_move(dir, name, pid)?;
        if name != "cgroup.procs" {
            return Ok(());
        }
        let threads = self.list(&format!("/proc/{pid}/task")).unwrap_or_default().into_iter();
        // A test may list a thread that has ended.
        let mut others =
            threads.filter(|tid| tid != pid && self.is_file(&format!("/proc/{tid}/stat")));
        others.try_for_each(|tid| self.simulate_thread_move(dir, name, &tid))
    }

    /// Whether a task is the first thread of its process.
    fn is_leader(&self, tid: &str) -> bool {
        let status = self.text(&format!("/proc/{tid}/status")).unwrap_or_default();
        let pid = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
        pid.is_none_or(|pid| pid.trim() == tid)
    }

    /// Moves a thread between groups of one hierarchy: it leaves every other list, joins this one,
    /// and its `/proc/<pid>/cgroup` changes. A v1 cpuset also sets its CPUs.
    fn simulate_thread_move(&self, dir: &str, name: &str, pid: &str) -> Result<()> {
        let path = format!("{dir}/{name}");
        let refused = |errno| Err(Error::os(Operation::Write, &path, errno));
        let Ok(tid) = pid.parse::<i32>() else { return refused(errno::EINVAL) };
        match self.task(tid, tid) {
            Ok(task) if task.bound => return refused(errno::EINVAL),
            Ok(_) => {}
            Err(_) => return refused(errno::ESRCH),
        }
        let top = self.hierarchy_of(dir);
        let prefix = self.prefix(dir);
        let v1_cpuset = !self.is_v2(&top) && self.is_file(&format!("{dir}/{prefix}cpus"));
        if v1_cpuset && dir != top {
            for file in ["cpus", "mems"] {
                let text = self.text(&format!("{dir}/{prefix}{file}"));
                if text.is_some_and(|text| text.trim().is_empty()) {
                    return refused(errno::ENOSPC);
                }
            }
        }
        let before = self.cpuset_cpus_of(tid);
        self.remove_member(&top, pid)?;
        let is_leader = self.is_leader(pid);
        for list in MEMBERS.iter().filter(|list| is_leader || **list != "cgroup.procs") {
            let list = format!("{dir}/{list}");
            let Some(text) = self.text(&list) else { continue };
            let mut members: Vec<i32> = text.lines().filter_map(|l| l.parse().ok()).collect();
            members.push(tid);
            members.sort_unstable();
            self.set_text(&list, &members.iter().map(|m| format!("{m}\n")).collect::<String>())?;
        }
        self.set_membership(&top, dir, pid)?;
        if v1_cpuset {
            // A recording may only show that the root group has CPUs, and not which.
            let cpus = self
                .list_in(&format!("{dir}/{prefix}cpus"))
                .filter(|cpus| !cpus.is_empty())
                .or_else(|| self.list_in(ONLINE))
                .unwrap_or_default();
            self.apply_cpuset_affinity(tid, &cpus)?;
        } else if self.is_v2(&top) && self.partition_cpus(&top, dir) != before {
            let cpus = self.partition_cpus(&top, dir).unwrap_or_default();
            self.apply_cpuset_affinity(tid, &cpus)?;
        }
        Ok(())
    }

    /// The CPUs that the cpuset of a task allows; `None` if no cpuset restricts it.
    pub(crate) fn cpuset_cpus_of(&self, tid: i32) -> Option<CpuSet> {
        let text = self.text(&format!("/proc/{tid}/cgroup"))?;
        let mut groups = text.lines().filter_map(controllers_and_group);
        let v1 =
            groups.clone().find(|(controllers, _)| controllers.split(',').any(|c| c == "cpuset"));
        if let Some((_, group)) = v1 {
            let dir = format!("/sys/fs/cgroup/cpuset{group}");
            let cpus = self.list_in(&format!("{dir}/{}cpus", self.prefix(&dir)));
            return cpus.filter(|cpus| !cpus.is_empty());
        }
        let (_, group) = groups.find(|(controllers, _)| controllers.is_empty())?;
        let top = "/sys/fs/cgroup";
        self.is_v2(top).then(|| self.partition_cpus(top, &format!("{top}{group}"))).flatten()
    }

    /// The CPUs of a task in a v2 group: those of its partition, or those of the groups above that
    /// its own list has.
    fn partition_cpus(&self, top: &str, group: &str) -> Option<CpuSet> {
        if group == top {
            let root = self.list_in(&format!("{top}/cpuset.cpus.effective"));
            return root.filter(|cpus| !cpus.is_empty());
        }
        let above = self.partition_cpus(top, group.rsplit_once('/')?.0);
        let own = self.list_in(&format!("{group}/cpuset.cpus")).filter(|cpus| !cpus.is_empty());
        let Some(own) = own else { return above };
        let kind = self.text(&format!("{group}/cpuset.cpus.partition")).unwrap_or_default();
        if PartitionState::from_text(&kind).is_valid_partition() {
            return Some(own);
        }
        let Some(above) = above else { return Some(own) };
        Some(own.intersection(&above)).filter(|cpus| !cpus.is_empty()).or(Some(above))
    }

    fn remove_member(&self, group: &str, pid: &str) -> Result<()> {
        for list in MEMBERS {
            let list = format!("{group}/{list}");
            let Some(text) = self.text(&list) else { continue };
            if text.lines().any(|line| line == pid) {
                let rest = text.lines().filter(|line| *line != pid);
                self.set_text(&list, &rest.map(|line| format!("{line}\n")).collect::<String>())?;
            }
        }
        self.groups_in(group).iter().try_for_each(|below| self.remove_member(below, pid))
    }

    fn set_membership(&self, top: &str, dir: &str, pid: &str) -> Result<()> {
        let file = format!("/proc/{pid}/cgroup");
        let Some(text) = self.text(&file) else { return Ok(()) };
        let group = dir.strip_prefix(top).filter(|g| !g.is_empty()).unwrap_or("/");
        let v2 = self.is_v2(top);
        let mut out = String::new();
        for line in text.lines() {
            let is_same = if v2 { line.starts_with("0::") } else { line.contains(":cpuset:") };
            match line.rsplit_once(':') {
                Some((head, _)) if is_same => out.push_str(&format!("{head}:{group}\n")),
                _ => out.push_str(&format!("{line}\n")),
            }
        }
        self.set_text(&file, &out)
    }

    /// Sets the CPUs of a cpuset; on v1 its tasks get them at once.
    pub(crate) fn simulate_group_cpus(&self, dir: &str, path: &str, value: &str) -> Result<()> {
        let Ok(cpus) = value.parse::<CpuSet>() else {
            return Err(Error::os(Operation::Write, path, errno::EINVAL));
        };
        let now = self.list_in(path);
        self.set_text(path, &format!("{value}\n"))?;
        let top = self.hierarchy_of(dir);
        if self.is_v2(&top) {
            self.refresh(dir.rsplit_once('/').map_or("", |(parent, _)| parent))?;
            let kind = self.text(&format!("{dir}/cpuset.cpus.partition")).unwrap_or_default();
            let is_partition = PartitionState::from_text(&kind).is_valid_partition();
            if is_partition && now.as_ref() != Some(&cpus) {
                self.force_members(dir, &cpus)?;
            }
            return Ok(());
        }
        if now.as_ref() != Some(&cpus) && !cpus.is_empty() {
            self.force_members(dir, &cpus)?;
        }
        Ok(())
    }

    /// Sets the memory nodes of a cpuset. Nodes that the machine does not have are EINVAL
    /// (`update_nodemask()`, kernel/cgroup/cpuset.c, 6.12). On v1, nodes that the parent does not
    /// have are EACCES (`validate_change()`). Pages are not simulated.
    pub(crate) fn simulate_group_mems(&self, dir: &str, path: &str, value: &str) -> Result<()> {
        let refused = |errno| Err(Error::os(Operation::Write, path, errno));
        let Ok(nodes) = value.parse::<CpuSet>() else { return refused(errno::EINVAL) };
        let top = self.hierarchy_of(dir);
        let parent = dir.rsplit_once('/').map_or("", |(parent, _)| parent);
        let (usable, errno) = match self.is_v2(&top) {
            true => (format!("{top}/cpuset.mems.effective"), errno::EINVAL),
            false => (format!("{parent}/{}mems", self.prefix(parent)), errno::EACCES),
        };
        match self.list_in(&usable).filter(|usable| !usable.is_empty()) {
            Some(usable) if !nodes.is_subset(&usable) => refused(errno),
            _ => self.set_text(path, &format!("{value}\n")),
        }
    }

    pub(crate) fn force_members(&self, group: &str, cpus: &CpuSet) -> Result<()> {
        let list = ["tasks", "cgroup.procs"].map(|list| format!("{group}/{list}"));
        let Some(text) = list.iter().find_map(|list| self.text(list)) else { return Ok(()) };
        for tid in text.lines().filter_map(|line| line.parse::<i32>().ok()) {
            if self.task(tid, tid).is_ok_and(|task| !task.bound) {
                self.apply_cpuset_affinity(tid, cpus)?;
            }
        }
        Ok(())
    }

    /// Makes a v2 group a partition, or a member again.
    pub(crate) fn simulate_partition(&self, dir: &str, value: &str) -> Result<()> {
        let path = format!("{dir}/cpuset.cpus.partition");
        let known = ["member", "root", "isolated"].contains(&value);
        let since = self.version().is_none_or(|version| version >= ISOLATED_PARTITION);
        if !known || (value == "isolated" && !since) {
            return Err(Error::os(Operation::Write, &path, errno::EINVAL));
        }
        let cpus = self.list_in(&format!("{dir}/cpuset.cpus")).unwrap_or_default();
        let reason = match value {
            "member" => "",
            _ if cpus.is_empty() => " invalid (Cpu list in cpuset.cpus not exclusive)",
            _ if self.conflicts_with_boot(&cpus) => {
                " invalid (partition config conflicts with housekeeping setup)"
            }
            _ => "",
        };
        self.set_text(&path, &format!("{value}{reason}\n"))?;
        self.refresh(dir.rsplit_once('/').map_or("", |(parent, _)| parent))
    }

    /// Whether a partition may not have these CPUs of `isolcpus=`.
    fn conflicts_with_boot(&self, cpus: &CpuSet) -> bool {
        let isolated = self.list_in(ISOLATED_AT_BOOT).unwrap_or_default();
        self.version().is_some_and(|version| PARTITION_REFUSES_ISOLCPUS.contains(&version))
            && isolated.intersects(cpus)
    }

    fn version(&self) -> Option<KernelVersion> {
        KernelVersion::from_release(&self.text("/proc/sys/kernel/osrelease")?)
    }

    /// The CPUs of the partitions directly below `dir`.
    fn partitioned_below(&self, dir: &str, kinds: &[&str]) -> CpuSet {
        let mut taken = CpuSet::new();
        for group in self.groups_in(dir) {
            let kind = self.text(&format!("{group}/cpuset.cpus.partition"));
            if kind.is_some_and(|kind| kinds.contains(&kind.trim())) {
                let cpus = self.list_in(&format!("{group}/cpuset.cpus")).unwrap_or_default();
                taken = taken.union(&cpus);
            }
        }
        taken
    }

    /// The mask of unbound workqueues is applied unchanged, including isolated CPUs
    /// (`workqueue_set_unbound_cpumask()`, kernel/workqueue.c, 6.8).
    pub(crate) fn simulate_unbound(&self, value: &str) -> Result<()> {
        let cpus = CpuSet::parse_mask(value)
            .map_err(|_| Error::os(Operation::Write, UNBOUND, errno::EINVAL))?;
        self.set_mask(REQUESTED, &cpus)?;
        self.set_mask(UNBOUND, &cpus)
    }

    /// Updates a v2 tree after a change of its partitions: effective CPUs, affinities, workqueues.
    pub(crate) fn refresh(&self, dir: &str) -> Result<()> {
        let effective = format!("{dir}/cpuset.cpus.effective");
        let Some(online) = self.list_in(ONLINE) else { return Ok(()) };
        let (Some(now), true) = (self.list_in(&effective), self.is_v2(dir)) else { return Ok(()) };
        let taken = self.partitioned_below(dir, &["root", "isolated"]);
        let rest = online.difference(&taken);
        let is_changed = rest != now;
        self.refresh_isolated(dir, is_changed)?;
        if !is_changed {
            return Ok(());
        }
        self.set_text(&effective, &format!("{rest}\n"))?;
        self.force_members(dir, &rest)?;
        for group in self.groups_in(dir) {
            let kind = self.text(&format!("{group}/cpuset.cpus.partition")).unwrap_or_default();
            if kind.is_empty() || kind.trim() == "member" {
                self.force_members(&group, &rest)?;
            }
        }
        Ok(())
    }

    /// When the isolated CPUs change, unbound workqueues get the requested CPUs without them
    /// (`update_unbound_workqueue_cpumask()`, kernel/cgroup/cpuset.c, 6.12). In a tree without the
    /// list of these CPUs, they change with any partition.
    fn refresh_isolated(&self, dir: &str, is_changed: bool) -> Result<()> {
        let isolated = self.partitioned_below(dir, &["isolated"]);
        let list = format!("{dir}/cpuset.cpus.isolated");
        let is_changed = match self.list_in(&list) {
            Some(now) => {
                let all = isolated.union(&self.list_in(ISOLATED_AT_BOOT).unwrap_or_default());
                self.set_text(&list, &format!("{all}\n"))?;
                all != now
            }
            None => is_changed,
        };
        match self.text(REQUESTED).map(|text| CpuSet::parse_mask(&text)) {
            Some(Ok(requested)) if is_changed => {
                self.set_mask(UNBOUND, &requested.difference(&isolated))
            }
            _ => Ok(()),
        }
    }
}

/// Controllers and group in a line of `/proc/<pid>/cgroup`.
fn controllers_and_group(line: &str) -> Option<(String, String)> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (controllers, group) = (fields.next()?.to_owned(), fields.next()?.to_owned());
    Some((controllers, group.trim_end_matches('/').to_owned()))
}
