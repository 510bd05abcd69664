//! Taking CPUs of a recorded machine offline and online, and the affinities of its tasks.

use crate::SimulatedMachine;
use crate::{ONLINE, RESCTRL};
use cpushield_linux::CpuSet;
use cpushield_linux::errno;
use cpushield_linux::error::{Error, Operation, Result};

/// A directory that only recordings have: on a machine that has it, the kernel remembers which CPUs
/// tasks requested (`user_cpus_ptr`, 6.2 and later), one file per task.
const REQUESTED: &str = "/asked_cpus";

impl SimulatedMachine<'_> {
    fn requested_path(&self, tid: i32) -> Option<String> {
        self.is_dir(REQUESTED).then(|| format!("{REQUESTED}/{tid}"))
    }

    /// Applies the CPUs of a cpuset to a task. If the kernel remembers the CPUs that the task
    /// requested and some of them remain, the task gets those (`__set_cpus_allowed_ptr()`,
    /// kernel/sched/core.c, 6.12).
    pub(crate) fn apply_cpuset_affinity(&self, tid: i32, cpus: &CpuSet) -> Result<()> {
        let requested = self.requested_path(tid).and_then(|path| self.list_in(&path));
        match requested.map(|requested| requested.intersection(cpus)) {
            Some(both) if !both.is_empty() => self.force_affinity(tid, &both),
            _ => self.force_affinity(tid, cpus),
        }
    }

    /// Writes a task's affinity into its `status`.
    pub(crate) fn force_affinity(&self, tid: i32, cpus: &CpuSet) -> Result<()> {
        let path = self.status_path(tid);
        let Some(text) = self.text(&path) else { return Err(Error::no_task(tid)) };
        let mut out = String::new();
        for line in text.lines() {
            match line.split_once(':') {
                Some(("Cpus_allowed_list", _)) => {
                    out.push_str(&format!("Cpus_allowed_list:\t{cpus}\n"));
                }
                Some(("Cpus_allowed", mask)) => {
                    let mask = crate::as_wide(mask.trim(), cpus);
                    out.push_str(&format!("Cpus_allowed:\t{mask}\n"));
                }
                _ => out.push_str(&format!("{line}\n")),
            }
        }
        self.set_text(&path, &out)
    }

    /// `sched_setaffinity(2)` on a recorded machine.
    pub(crate) fn set_affinity(&self, tid: i32, cpus: &CpuSet) -> Result<()> {
        let path = format!("/proc/{tid}");
        let bound = self.task(tid, tid)?.bound;
        let online = self.list_in(ONLINE);
        if bound || online.is_some_and(|online| !online.intersects(cpus)) {
            return Err(Error::os(Operation::SetAffinity, &path, errno::EINVAL));
        }
        // The kernel remembers the whole request, and applies the part that the cpuset allows
        // (`__sched_setaffinity()`, kernel/sched/core.c, 6.2).
        let effective = self
            .cpuset_cpus_of(tid)
            .map_or_else(|| cpus.clone(), |allowed| cpus.intersection(&allowed));
        if effective.is_empty() {
            return Err(Error::os(Operation::SetAffinity, &path, errno::EINVAL));
        }
        if let Some(path) = self.requested_path(tid) {
            self.set_text(&path, &format!("{cpus}\n"))?;
        }
        self.force_affinity(tid, &effective)
    }

    /// A CPU goes offline or comes online. An offline CPU leaves every v1 cpuset for good, and a
    /// task that may run nowhere else may then run everywhere (kernel/cgroup/cpuset-v1.c
    /// `cpuset1_hotplug_update_tasks()`, kernel/irq/cpuhotplug.c, 6.12).
    pub(crate) fn simulate_online(&self, dir: &str, path: &str, value: &str) -> Result<()> {
        let number = dir.rsplit_once("/cpu").and_then(|(_, n)| n.parse::<usize>().ok());
        let (Some(cpu), Some(mut online)) = (number, self.list_in(ONLINE)) else {
            return self.set_text(path, &format!("{value}\n"));
        };
        if self.text(path).is_some_and(|now| now.trim() == value) {
            return Ok(());
        }
        match value {
            "0" => online.remove(cpu),
            "1" => online.insert(cpu),
            _ => return Err(Error::os(Operation::Write, path, errno::EINVAL)),
        }
        if online.is_empty() {
            return Err(Error::os(Operation::Write, path, errno::EBUSY));
        }
        self.set_text(path, &format!("{value}\n"))?;
        self.set_text(ONLINE, &format!("{online}\n"))?;
        match value {
            "0" => {
                self.remove_from_topology(cpu)?;
                self.remove_offline_cpus(&online)?;
            }
            _ => {
                self.return_to_topology(cpu)?;
                self.add_online_cpu(cpu)?;
            }
        }
        self.spread_rcu_workers(&online)
    }

    /// The workers of expedited grace periods get all online CPUs outside `nohz_full=`
    /// (`rcutree_affinity_setting()`, kernel/rcu/tree.c, 6.12).
    fn spread_rcu_workers(&self, online: &CpuSet) -> Result<()> {
        let tickless = self.list_in("/sys/devices/system/cpu/nohz_full").unwrap_or_default();
        let cpus = online.difference(&tickless);
        for name in self.names("/proc") {
            let Some(task) = name.parse().ok().and_then(|tid| self.task(tid, tid).ok()) else {
                continue;
            };
            if task.kthread && !task.bound && task.comm.starts_with("rcu_exp_par_gp") {
                self.force_affinity(task.id.tid, &cpus)?;
            }
        }
        Ok(())
    }

    /// A CPU that comes online joins the default group of resctrl, and network drivers spread their
    /// queues again (`virtnet_cpu_online()`, drivers/net/virtio_net.c, 6.12).
    fn add_online_cpu(&self, cpu: usize) -> Result<()> {
        let list = format!("{RESCTRL}/cpus_list");
        if let Some(cpus) = self.list_in(&list) {
            self.set_text(&list, &format!("{}\n", cpus.union(&CpuSet::single(cpu))))?;
        }
        for device in self.names("/sys/class/net") {
            let dir = format!("/sys/class/net/{device}/queues");
            for queue in self.names(&dir) {
                self.set_mask(&format!("{dir}/{queue}/xps_cpus"), &CpuSet::single(cpu))?;
            }
        }
        Ok(())
    }

    /// Writing the CPUs of a resctrl group removes them from the default group, which gets back the
    /// CPUs that are no longer listed (`cpus_ctrl_write()`, fs/resctrl/rdtgroup.c, 6.16).
    pub(crate) fn simulate_resctrl(&self, dir: &str, path: &str, value: &str) -> Result<()> {
        let cpus: CpuSet =
            value.parse().map_err(|_| Error::os(Operation::Write, path, errno::EINVAL))?;
        let before = self.list_in(path).unwrap_or_default();
        self.set_text(path, &format!("{cpus}\n"))?;
        let list = format!("{RESCTRL}/cpus_list");
        match self.list_in(&list) {
            Some(all) if dir.rsplit_once('/').is_some_and(|(above, _)| above == RESCTRL) => {
                let all = all.union(&before).difference(&cpus);
                self.set_text(&list, &format!("{all}\n"))
            }
            _ => Ok(()),
        }
    }

    fn remove_from_resctrl(&self, dir: &str, online: &CpuSet) -> Result<()> {
        let list = format!("{dir}/cpus_list");
        if let Some(cpus) = self.list_in(&list) {
            self.set_text(&list, &format!("{}\n", cpus.intersection(online)))?;
        }
        for name in self.names(dir) {
            let below = format!("{dir}/{name}");
            if self.is_dir(&below) {
                self.remove_from_resctrl(&below, online)?;
            }
        }
        Ok(())
    }

    fn remove_offline_cpus(&self, online: &CpuSet) -> Result<()> {
        for name in self.names("/proc") {
            let Ok(tid) = name.parse::<i32>() else { continue };
            let can_run = self.affinity(tid).is_ok_and(|cpus| cpus.intersects(online));
            if !can_run && self.task(tid, tid).is_ok_and(|task| !task.bound) {
                // `do_set_cpus_allowed()` forgets the request (kernel/sched/core.c, 6.12).
                if let Some(path) = self.requested_path(tid) {
                    let _ = self.files.remove_file(&path);
                }
                self.force_affinity(tid, online)?;
            }
        }
        for irq in self.names("/proc/irq") {
            let list = format!("/proc/irq/{irq}/smp_affinity_list");
            if self.list_in(&list).is_some_and(|cpus| !cpus.intersects(online)) {
                self.write(&list, &online.to_string())?;
            }
        }
        self.remove_from_resctrl(RESCTRL, online)?;
        self.remove_from_cpusets("/sys/fs/cgroup/cpuset", online)
    }

    fn remove_from_cpusets(&self, group: &str, online: &CpuSet) -> Result<()> {
        for name in self.names(group) {
            let below = format!("{group}/{name}");
            for file in ["cpuset.cpus", "cpus"].map(|file| format!("{below}/{file}")) {
                let Some(cpus) = self.list_in(&file) else { continue };
                if cpus.intersects(online) && !cpus.is_subset(online) {
                    self.write(&file, &cpus.intersection(online).to_string())?;
                }
            }
            if self.is_dir(&below) {
                self.remove_from_cpusets(&below, online)?;
            }
        }
        Ok(())
    }
}
