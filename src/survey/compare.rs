//! Compares two surveys of one machine in everything that shielding may change, to prove that the
//! machine is as it was. Counts, states, and tasks that started or ended are no differences. Pure.

use super::{Machine, PlacedThread, TunableReading};
use crate::documents::machine_difference::MachineDifference;
use cpushield_linux::CpuSet;
use cpushield_linux::text::size::will_grow;
use std::collections::{BTreeMap, BTreeSet};

/// Facts by name.
type MachineFacts = BTreeMap<String, String>;

/// The name of a task's fact. It does not include the command, because kworkers change theirs with
/// every work item.
fn task_fact(tid: i32) -> String {
    format!("task {tid}")
}

/// The differences between two surveys of one machine, sorted by name.
#[must_use]
pub fn differences(before: &Machine, after: &Machine) -> Vec<MachineDifference> {
    let common = common_tasks(before, after);
    let (old, new) = (collect_facts(before, &common), collect_facts(after, &common));
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let comms: BTreeMap<String, &str> = before
        .tasks
        .iter()
        .map(|placed| (task_fact(placed.task.id.tid), placed.task.comm.as_str()))
        .collect();
    let mut differences = Vec::new();
    for name in names {
        let (before, after) = (old.get(name), new.get(name));
        if before == after || will_be_enlarged(name, before) {
            continue;
        }
        differences.push(MachineDifference {
            what: match comms.get(name) {
                Some(comm) => format!("{name} ({comm})"),
                None => name.clone(),
            },
            before: before.cloned().unwrap_or_else(|| "absent".to_owned()),
            after: after.cloned().unwrap_or_else(|| "absent".to_owned()),
        });
    }
    differences
}

/// Whether this is the kernel's main trace buffer before its first use since the boot. `7
/// (expanded: 1408)` means that the first use, by any program, enlarges it permanently
/// (tracing_update_buffers(), kernel/trace/trace.c, 4.17 to 6.18).
fn will_be_enlarged(name: &str, before: Option<&String>) -> bool {
    name.ends_with("/buffer_size_kb") && before.is_some_and(|text| will_grow(text))
}

/// Threads in both surveys, by thread id and start time.
fn common_tasks(before: &Machine, after: &Machine) -> BTreeSet<(i32, u64)> {
    task_ids(before).intersection(&task_ids(after)).copied().collect()
}

fn task_ids(machine: &Machine) -> BTreeSet<(i32, u64)> {
    machine.tasks.iter().map(|placed| (placed.task.id.tid, placed.task.id.started)).collect()
}

fn collect_facts(machine: &Machine, tasks: &BTreeSet<(i32, u64)>) -> MachineFacts {
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
    for placed in &machine.tasks {
        if tasks.contains(&(placed.task.id.tid, placed.task.id.started)) {
            facts.insert(task_fact(placed.task.id.tid), describe_task(placed));
        }
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

/// What a shield may change about a task. Only the kernel sets the affinity of a bound kernel
/// thread (PF_NO_SETAFFINITY): the rescuer of a workqueue keeps the CPUs of the pool that it helped
/// last (worker_attach_to_pool(), kernel/workqueue.c, 5.11 to 6.12).
fn describe_task(PlacedThread { task, affinity, .. }: &PlacedThread) -> String {
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
        let mut machine = Machine { irq_default: Some(CpuSet::single(0)), ..Machine::default() };
        machine.irqs.push(Irq {
            irq: 24,
            actions: "nvme0q3".to_owned(),
            chip: "PCI-MSIX".to_owned(),
            affinity: Some(CpuSet::single(3)),
            effective: Some(CpuSet::single(3)),
            hint: None,
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
    fn only_a_smaller_trace_buffer_is_a_difference() {
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
    fn the_affinity_of_a_bound_kernel_thread_is_not_compared() {
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
        after.irqs[0].effective = Some(CpuSet::single(1));
        assert_eq!(differences(&machine(), &after), []);
    }

    #[test]
    fn every_kind_of_fact_is_compared() {
        let mut after = machine();
        after.irqs[0].affinity = Some(CpuSet::single(1));
        after.settings.insert("/proc/sys/vm/stat_interval".to_owned(), value("3600"));
        after.irq_default = Some(CpuSet::single(1));
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
