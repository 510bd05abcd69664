//! Compares two surveys of one machine in everything that shielding may touch: the proof that a
//! machine is as it was. Counts, states and tasks that came or went are not differences. Pure.

use super::machine::{Machine, PlacedThread, TunableReading};
use cpushield_linux::CpuSet;
use cpushield_linux::text::size::will_grow;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Something that is not as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineDifference {
    /// The file, interrupt, task or cgroup.
    pub what: String,
    /// What it was; `absent` when it was not there.
    pub before: String,
    /// What it is; `absent` when it is not there.
    pub after: String,
}

impl fmt::Display for MachineDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: was {}, is {}", self.what, self.before, self.after)
    }
}

/// Facts by name, so that two surveys can be laid side by side.
type MachineFacts = BTreeMap<String, String>;

/// The name of a task among the facts. Its command is not part of it: kworkers change theirs with
/// every work item.
fn task_fact(tid: i32) -> String {
    format!("task {tid}")
}

/// What differs between two surveys of one machine, in the order of names.
#[must_use]
pub fn differences(before: &Machine, after: &Machine) -> Vec<MachineDifference> {
    let alive = tasks_of_both(before, after);
    let (old, new) = (facts(before, &alive), facts(after, &alive));
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let value = |facts: &MachineFacts, name: &String| {
        facts.get(name).cloned().unwrap_or_else(|| "absent".to_owned())
    };
    let comms: BTreeMap<String, &str> = before
        .tasks
        .iter()
        .map(|placed| (task_fact(placed.task.id.tid), placed.task.comm.as_str()))
        .collect();
    let label = |name: &String| match comms.get(name) {
        Some(comm) => format!("{name} ({comm})"),
        None => name.clone(),
    };
    names
        .into_iter()
        .filter(|name| old.get(*name) != new.get(*name))
        .filter(|name| !is_enlarged(name, old.get(*name)))
        .map(|name| MachineDifference {
            what: label(name),
            before: value(&old, name),
            after: value(&new, name),
        })
        .collect()
}

/// Whether this is the kernel's main trace buffer before its first use since the boot, by whomever:
/// `7 (expanded: 1408)` says that it will be enlarged then, for good (tracing_update_buffers(),
/// kernel/trace/trace.c, 4.17 to 6.18).
fn is_enlarged(name: &str, before: Option<&String>) -> bool {
    name.ends_with("/buffer_size_kb") && before.is_some_and(|text| will_grow(text))
}

/// Threads that both surveys saw, by number and start time.
fn tasks_of_both(before: &Machine, after: &Machine) -> BTreeSet<(i32, u64)> {
    let ids = |machine: &Machine| -> BTreeSet<(i32, u64)> {
        machine.tasks.iter().map(|placed| (placed.task.id.tid, placed.task.id.started)).collect()
    };
    ids(before).intersection(&ids(after)).copied().collect()
}

fn facts(machine: &Machine, alive: &BTreeSet<(i32, u64)>) -> MachineFacts {
    let mut facts = MachineFacts::new();
    for (path, reading) in &machine.settings {
        let text = match reading {
            TunableReading::Value(text) => text.clone(),
            TunableReading::Absent => continue,
            TunableReading::Unreadable(why) => format!("unreadable ({why})"),
        };
        facts.insert(path.clone(), text);
    }
    facts.insert("online CPUs".to_owned(), machine.topology.online.to_string());
    insert_set(&mut facts, "/proc/irq/default_smp_affinity", machine.irq_default.as_ref());
    for irq in &machine.irqs {
        insert_set(&mut facts, &format!("IRQ {}", irq.irq), irq.affinity.as_ref());
    }
    let known =
        |placed: &&PlacedThread| alive.contains(&(placed.task.id.tid, placed.task.id.started));
    for placed in machine.tasks.iter().filter(known) {
        facts.insert(task_fact(placed.task.id.tid), place(placed));
    }
    for group in &machine.cgroup.groups {
        let partition = group.partition.as_deref().unwrap_or("-");
        let place =
            format!("CPU {}, partition {partition}, exclusive {}", group.cpus, group.exclusive);
        facts.insert(group.path.clone(), place);
    }
    insert_set(&mut facts, "cpuset.cpus.isolated", machine.isolation.partitions.as_ref());
    facts
}

/// What a shield may change of a task. Where a bound kernel thread may run is the kernel's own
/// affair (PF_NO_SETAFFINITY: nobody can set it): the rescuer of a workqueue keeps the CPUs of the
/// pool that it helped last (worker_attach_to_pool(), kernel/workqueue.c, 5.11 to 6.12).
fn place(PlacedThread { task, affinity }: &PlacedThread) -> String {
    let scheduling =
        format!("policy {} priority {} nice {}", task.policy, task.rt_priority, task.nice);
    if task.kthread && task.bound { scheduling } else { format!("CPU {affinity}, {scheduling}") }
}

fn insert_set(facts: &mut MachineFacts, name: &str, cpus: Option<&CpuSet>) {
    if let Some(cpus) = cpus {
        facts.insert(name.to_owned(), format!("CPU {cpus}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::fake::thread;
    use crate::survey::{CpusetGroup, Irq, IrqMovability};

    fn machine() -> Machine {
        let mut machine = Machine { irq_default: Some(CpuSet::one(0)), ..Machine::default() };
        machine.irqs.push(Irq {
            irq: 24,
            actions: "nvme0q3".to_owned(),
            chip: "PCI-MSIX".to_owned(),
            affinity: Some(CpuSet::one(3)),
            effective: Some(CpuSet::one(3)),
            movable: IrqMovability::Yes,
            counts: BTreeMap::from([(0, 1), (3, 2)]),
        });
        machine.settings.insert("/proc/sys/vm/stat_interval".to_owned(), value("1"));
        machine
    }

    fn value(text: &str) -> TunableReading {
        TunableReading::Value(text.to_owned())
    }

    #[test]
    fn a_trace_buffer_is_enlarged_for_good_and_made_smaller_by_somebody() {
        let size = |text: &str| {
            let mut machine = machine();
            let path = "/sys/kernel/tracing/buffer_size_kb".to_owned();
            machine.settings.insert(path, value(text));
            machine
        };
        assert_eq!(differences(&size("7 (expanded: 1408)"), &size("1410")), []);
        assert_eq!(differences(&size("1410"), &size("8")).len(), 1);
    }

    #[test]
    fn where_a_bound_kernel_thread_may_run_is_the_kernels_affair() {
        let with = |kthread, bound, cpus: &str, nice| {
            let mut machine = machine();
            let mut placed = thread(154, "ext4-rsv-conver", kthread, bound, cpus);
            placed.task.nice = nice;
            machine.tasks.push(placed);
            machine
        };
        let found = |kthread, bound, cpus: &str, nice| {
            differences(&with(kthread, bound, "0-3", 0), &with(kthread, bound, cpus, nice)).len()
        };
        assert_eq!(found(true, true, "0-2", 0), 0, "moved by the kernel");
        assert_eq!(found(true, true, "0-3", -20), 1, "its priority can be set");
        assert_eq!(found(true, false, "0-2", 0), 1, "a thread that can be moved");
        assert_eq!(found(false, true, "0-2", 0), 1, "a user task");
    }

    #[test]
    fn counts_and_effective_masks_are_not_differences() {
        let mut after = machine();
        after.irqs[0].counts = BTreeMap::from([(0, 100)]);
        after.irqs[0].effective = Some(CpuSet::one(1));
        assert_eq!(differences(&machine(), &after), []);
    }

    #[test]
    fn every_kind_of_fact_is_compared() {
        let mut after = machine();
        after.irqs[0].affinity = Some(CpuSet::one(1));
        after.settings.insert("/proc/sys/vm/stat_interval".to_owned(), value("3600"));
        after.irq_default = Some(CpuSet::one(1));
        after.cgroup.groups.push(CpusetGroup { path: "/c/x".to_owned(), ..CpusetGroup::default() });
        let found: Vec<String> =
            differences(&machine(), &after).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "/c/x: was absent, is CPU , partition -, exclusive false",
                "/proc/irq/default_smp_affinity: was CPU 0, is CPU 1",
                "/proc/sys/vm/stat_interval: was 1, is 3600",
                "IRQ 24: was CPU 3, is CPU 1",
            ]
        );
    }
}
