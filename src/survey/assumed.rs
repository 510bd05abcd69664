//! A surveyed machine as it would be with other values of some settings. Pure.

use super::{Cpu, CpusetGroup, Irq, Machine, TunableReading};
use cpushield_linux::{CpuSet, TaskId};

impl Machine {
    /// The machine as the survey would show it if this file had this text.
    pub fn assume_file(&mut self, path: &str, text: &str) {
        if let Some(setting) = self.settings.get_mut(path) {
            *setting = TunableReading::Value(text.to_owned());
        }
        let mask = CpuSet::parse_mask(text.trim()).ok();
        let list = text.trim().parse::<CpuSet>().ok();
        if path == "/proc/irq/default_smp_affinity" {
            self.irq_default = mask.or(self.irq_default.take());
        } else if path.ends_with("/workqueue/cpumask") {
            self.isolation.unbound_work = mask.or(self.isolation.unbound_work.take());
        } else if let Some(irq) = irq_of(self, path) {
            let cpus = if path.ends_with("_list") { list } else { mask };
            irq.affinity = cpus.or(irq.affinity.take());
        } else if let Some((dir, file)) = path.rsplit_once('/') {
            assume_group_file(self, dir, file, text.trim());
        }
    }

    /// The machine as the survey would show it if this slice of systemd had these CPUs.
    pub fn assume_slice(&mut self, unit: &str, cpus: &CpuSet) {
        let is_of_unit = |path: &str| path.rsplit('/').next() == Some(unit);
        let groups = self.cgroup.groups.iter_mut().filter(|group| is_of_unit(&group.path));
        groups.for_each(|group| assume_group_cpus(group, cpus));
    }

    /// The machine as the survey would show it if this CPU were offline.
    pub fn assume_offline(&mut self, cpu: usize) {
        let topology = &mut self.topology;
        topology.online.remove(cpu);
        topology.offline.insert(cpu);
        topology.cpus.retain(|known| known.cpu != cpu);
        for known in &mut topology.cpus {
            known.siblings.remove(cpu);
            known.package_cpus.remove(cpu);
            known.caches.iter_mut().for_each(|cache| cache.shared.remove(cpu));
        }
        topology.nodes.iter_mut().for_each(|node| node.cpus.remove(cpu));
    }

    /// The machine as the survey would show it if this CPU were online again. It shares what this
    /// sibling has: the core, caches, the package and the node.
    pub fn assume_online(&mut self, cpu: usize, sibling: usize) {
        let topology = &mut self.topology;
        topology.online.insert(cpu);
        topology.offline.remove(cpu);
        topology.smt_active = topology.smt_active.map(|_| true);
        let with_cpu = |cpus: &mut CpuSet| {
            if cpus.contains(sibling) {
                cpus.insert(cpu);
            }
        };
        for known in &mut topology.cpus {
            with_cpu(&mut known.siblings);
            with_cpu(&mut known.package_cpus);
            known.caches.iter_mut().for_each(|cache| with_cpu(&mut cache.shared));
        }
        topology.nodes.iter_mut().for_each(|node| with_cpu(&mut node.cpus));
        if let Some(twin) = topology.cpu(sibling).cloned() {
            topology.cpus.push(Cpu { cpu, ..twin });
            topology.cpus.sort_by_key(|known| known.cpu);
        }
        let online = format!("/sys/devices/system/cpu/cpu{cpu}/online");
        self.settings.insert(online, TunableReading::Value("1".to_owned()));
    }

    /// The machine as the survey would show it if this task had this affinity.
    pub fn assume_affinity(&mut self, id: TaskId, cpus: &CpuSet) {
        let tasks = self.tasks.iter_mut().filter(|placed| placed.task.id == id);
        tasks.for_each(|placed| placed.affinity = cpus.clone());
    }
}

fn irq_of<'a>(machine: &'a mut Machine, path: &str) -> Option<&'a mut Irq> {
    let (number, _) = path.strip_prefix("/proc/irq/")?.split_once('/')?;
    let number: u32 = number.parse().ok()?;
    machine.irqs.iter_mut().find(|irq| irq.irq == number)
}

fn assume_group_cpus(group: &mut CpusetGroup, cpus: &CpuSet) {
    group.cpus = cpus.clone();
    if let Some(effective) = &mut group.effective {
        effective.clone_from(cpus);
    }
}

/// A file of a cgroup that the survey found.
fn assume_group_file(machine: &mut Machine, dir: &str, file: &str, text: &str) {
    let file = file.strip_prefix("cpuset.").unwrap_or(file);
    if file == "sched_load_balance" && machine.cgroup.mount.as_deref() == Some(dir) {
        machine.cgroup.balanced = Some(text == "1");
    }
    let Some(group) = machine.cgroup.groups.iter_mut().find(|group| group.path == dir) else {
        return;
    };
    match file {
        "cpus" => assume_group_cpus(group, &text.parse().unwrap_or_default()),
        "cpus.partition" => group.partition = Some(text.to_owned()),
        "cpu_exclusive" => group.exclusive = text == "1",
        "sched_load_balance" => group.balanced = Some(text == "1"),
        _ => {}
    }
}
