//! Synthetic machines and their plans: cgroup v2, v2 under systemd, v1 with a foreign cpuset.

use super::bench::{Tree, file};
use cpushield::change::{Change, EffectTime, Risk, ValueComparison, WrittenFile};
use cpushield::plan::{Plan, Shield, Step};
use cpushield::policy::{TunableSettings, Workload};
use cpushield_linux::{CpuSet, TaskId};
use std::collections::BTreeMap;

/// The tasks in a group of their own.
const MINE: [i32; 2] = [200, 203];

/// A task of a synthetic machine: number, name, flags of `stat`, CPUs.
const TASKS: &[(i32, &str, u32, &str)] = &[
    (1, "init", 0, "0-3"),
    (2, "kthreadd", 0x0020_8040, "0-3"),
    (15, "ksoftirqd/3", 0x0420_8040, "3"),
    (40, "kauditd", 0x0020_8040, "0-3"),
    (100, "sshd", 0, "0-3"),
    (200, "motion", 0, "0-2"),
    (201, "spread", 0, "2-3"),
    (202, "third", 0, "3"),
    (MINE[1], "servo", 0, "3"),
];

fn common(tree: &mut Tree) {
    let mut put = |path: &str, text: &str| tree.insert(path.into(), file(text));
    put("proc/sys/kernel/random/boot_id", "6f0c4b1e-0000-4000-8000-000000000001\n");
    put("sys/devices/system/cpu/online", "0-3\n");
    put("proc/sys/kernel/sched_rt_runtime_us", "950000\n");
    put("proc/sys/vm/stat_interval", "1\n");
    put("proc/irq/default_smp_affinity", "f\n");
    for irq in [24, 25, 26] {
        put(&format!("proc/irq/{irq}/smp_affinity"), "f\n");
        put(&format!("proc/irq/{irq}/smp_affinity_list"), "0-3\n");
    }
    put("sys/devices/virtual/workqueue/cpumask", "f\n");
    put("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n");
    put("sys/devices/system/cpu/cpu3/online", "1\n");
    put("sys/devices/system/cpu/isolated", "\n");
    put("run/irqbalance/irqbalance812.sock", "SLEEP 10 BANNED 0\n");
    put("proc/irq/27/smp_affinity", "8\n");
    put("proc/irq/27/smp_affinity_list", "3\n");
    put("sys/fs/resctrl/cpus_list", "0-1\n");
    put("sys/fs/resctrl/rt/cpus_list", "2-3\n");
    put("sys/fs/resctrl/rt/mon_groups/seen/cpus_list", "3\n");
    put("sys/class/net/eth0/queues/tx-0/xps_cpus", "0\n");
    put("errors.tsv", "write\t/proc/irq/26/smp_affinity\tEIO\n");
    for (tid, comm, flags, cpus) in TASKS {
        Task::new(*tid, comm, *flags, cpus).put(tree);
    }
}

/// A task of a synthetic machine.
pub struct Task {
    pub tid: i32,
    pub comm: &'static str,
    pub flags: u32,
    pub cpus: &'static str,
    pub state: char,
    /// Where it ran last.
    pub cpu: usize,
    /// Linux's number of its policy, and its real-time priority.
    pub policy: (u32, u32),
}

impl Task {
    pub fn new(tid: i32, comm: &'static str, flags: u32, cpus: &'static str) -> Task {
        Task { tid, comm, flags, cpus, state: 'S', cpu: 0, policy: (0, 0) }
    }

    /// Its files.
    pub fn put(&self, tree: &mut Tree) {
        let Task { tid, comm, flags, cpus, state, cpu, policy: (policy, priority) } = self;
        let mut put = |path: &str, text: &str| tree.insert(path.into(), file(text));
        let parent = i32::from(*tid > 2);
        let kthread = flags & 0x0020_0000 != 0;
        let parent = if kthread && *tid != 2 { 2 } else { parent };
        let stat = format!(
            "{tid} ({comm}) {state} {parent} 0 0 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 {} 0 0 \
             18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 {cpu} {priority} {policy} \
             0 0 0 0 0 0 0 0 0 0 0\n",
            tid * 10
        );
        put(&format!("proc/{tid}/stat"), &stat);
        put(&format!("proc/{tid}/task/{tid}/stat"), &stat);
        let mask = cpus.parse::<CpuSet>().unwrap().to_mask();
        let status = format!(
            "Name:\t{comm}\nTgid:\t{tid}\nCpus_allowed:\t{mask}\nCpus_allowed_list:\t{cpus}\n"
        );
        put(&format!("proc/{tid}/status"), &status);
    }
}

fn pids(keep: impl Fn(i32) -> bool) -> String {
    TASKS.iter().map(|t| t.0).filter(|t| keep(*t)).map(|tid| format!("{tid}\n")).collect()
}

/// cgroup v2 without systemd.
pub fn v2() -> Tree {
    let mut tree = Tree::new();
    common(&mut tree);
    let mut put = |path: &str, text: &str| tree.insert(path.into(), file(text));
    put("sys/fs/cgroup/cgroup.procs", &pids(|tid| !MINE.contains(&tid)));
    put("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n");
    put("sys/fs/cgroup/cgroup.subtree_control", "memory pids\n");
    put("sys/fs/cgroup/cpuset.cpus.effective", "0-3\n");
    put("sys/fs/cgroup/mine/cgroup.procs", &pids(|tid| MINE.contains(&tid)));
    put("sys/fs/cgroup/mine/cgroup.controllers", "memory pids\n");
    put("sys/fs/cgroup/mine/cgroup.subtree_control", "");
    put("sys/devices/virtual/workqueue/cpumask_requested", "f\n");
    for (tid, ..) in TASKS {
        let group = if MINE.contains(tid) { "/mine" } else { "/" };
        put(&format!("proc/{tid}/cgroup"), &format!("0::{group}\n"));
    }
    tree
}

/// cgroup v2 on a kernel that remembers requested affinities, as kernels since 6.2 do.
pub fn remembering() -> Tree {
    let mut tree = v2();
    tree.insert("asked_cpus".into(), None);
    for (tid, cpus) in [(200, "0-2\n"), (201, "2-3\n"), (202, "3\n"), (203, "3\n")] {
        tree.insert(format!("asked_cpus/{tid}"), file(cpus));
    }
    tree
}

/// cgroup v2 under systemd.
fn systemd() -> Tree {
    let mut tree = v2();
    tree.insert("run/systemd/system/sshd.service".into(), file("[Unit]\n"));
    tree
}

/// The cpuset controller on cgroup v1, with a foreign cpuset.
fn v1() -> Tree {
    let mut tree = Tree::new();
    common(&mut tree);
    let mut put = |path: &str, text: &str| tree.insert(path.into(), file(text));
    for (group, cpus, tasks) in [
        ("", "0-3", pids(|tid| !MINE.contains(&tid))),
        ("/mine", "0-3", pids(|tid| MINE.contains(&tid))),
    ] {
        let dir = format!("{}{group}", &V1[1..]);
        put(&format!("{dir}/tasks"), &tasks);
        put(&format!("{dir}/cgroup.procs"), &tasks);
        put(&format!("{dir}/cpuset.cpus"), &format!("{cpus}\n"));
        put(&format!("{dir}/cpuset.mems"), "0\n");
        put(&format!("{dir}/cpuset.sched_load_balance"), "1\n");
    }
    for (tid, ..) in TASKS {
        let group = if MINE.contains(tid) { "/mine" } else { "/" };
        put(&format!("proc/{tid}/cgroup"), &format!("4:cpuset:{group}\n0::/\n"));
    }
    tree
}

pub fn write(path: &str, value: &str, compare: ValueComparison) -> Change {
    let what = match path.rsplit('/').next() {
        Some("cpuset.cpus" | "cpuset.cpus.exclusive") => WrittenFile::CpusetCpus,
        Some("cpuset.mems") => WrittenFile::CpusetMems,
        Some("cpuset.cpus.partition") => WrittenFile::CpusetPartition,
        Some("cpuset.cpu_exclusive" | "cpuset.sched_load_balance") => WrittenFile::CpusetFlag,
        _ => WrittenFile::Setting,
    };
    Change::Write { path: path.to_owned(), value: value.to_owned(), compare, what }
}

fn task(tid: i32) -> TaskId {
    TaskId { tid, started: u64::try_from(tid * 10).unwrap() }
}

pub fn affinity(tid: i32, comm: &str) -> Change {
    Change::Affinity { task: task(tid), comm: comm.to_owned(), cpus: "0-2".parse().unwrap() }
}

/// Moves the program that the user has on CPU 3 into this group.
fn take_servo(to: String) -> Change {
    Change::MoveProcess { task: task(MINE[1]), comm: "servo".to_owned(), to }
}

pub fn step(change: Change, required: bool) -> Step {
    Step {
        tunable: "test".to_owned(),
        change,
        now: None,
        reason: "because".into(),
        risk: Risk::None,
        when: EffectTime::Runtime,
        removes: Vec::new(),
        required,
    }
}

fn plan(required: Vec<Change>, wished: Vec<Change>) -> Plan {
    let is_program = |change: &Change| matches!(change, Change::MoveProcess { .. });
    let steps = required.into_iter().map(|change| {
        let is_required = !is_program(&change);
        step(change, is_required)
    });
    let steps = steps.chain(wished.into_iter().map(|change| step(change, false)));
    Plan {
        schema: cpushield::plan::SCHEMA,
        boot_id: None,
        kernel: None,
        shield: Shield {
            name: "cpushield".to_owned(),
            cpus: CpuSet::single(3),
            idle_siblings: CpuSet::new(),
            offline_siblings: CpuSet::new(),
            housekeeping: "0-2".parse().unwrap(),
            mems: CpuSet::single(0),
            workload: Workload::Polling,
            balanced: false,
            shares_core: false,
            takes_whole_node: false,
            max_latency_ns: None,
            tickless: CpuSet::new(),
            evict: false,
            closed: CpuSet::new(),
            tunables: TunableSettings::default(),
        },
        why: Vec::new(),
        steps: steps.collect(),
        skipped: Vec::new(),
        immovable: Vec::new(),
        unproven: Vec::new(),
        boot: Vec::new(),
        already: BTreeMap::new(),
        warnings: Vec::new(),
        operators: None,
    }
}

/// The changes of every plan, except for the cpuset.
fn wished() -> Vec<Change> {
    vec![
        affinity(2, "kthreadd"),
        affinity(40, "kauditd"),
        affinity(201, "spread"),
        Change::BanFromIrqbalance { cpus: CpuSet::single(3) },
        write("/proc/irq/default_smp_affinity", "7", ValueComparison::Mask),
        write("/proc/irq/27/smp_affinity_list", "0-2", ValueComparison::List),
        write("/proc/irq/24/smp_affinity", "7", ValueComparison::Mask),
        write("/proc/irq/25/smp_affinity", "7", ValueComparison::Mask),
        write("/proc/irq/26/smp_affinity", "7", ValueComparison::Mask),
        write("/proc/irq/99/smp_affinity", "7", ValueComparison::Mask),
        write("/sys/devices/virtual/workqueue/cpumask", "7", ValueComparison::Mask),
        write("/proc/sys/kernel/sched_rt_runtime_us", "-1", ValueComparison::Text),
        write("/proc/sys/vm/stat_interval", "3600", ValueComparison::Text),
        write("/proc/sys/vm/stat_interval", "120", ValueComparison::Text),
        write("/sys/kernel/mm/transparent_hugepage/enabled", "never", ValueComparison::Word),
    ]
}

const V2: &str = "/sys/fs/cgroup";

pub fn v2_plan() -> Plan {
    let file = |name: &str| format!("{V2}/cpushield/{name}");
    let shield = vec![
        Change::KeepAffinities,
        write(&format!("{V2}/cgroup.subtree_control"), "+cpuset", ValueComparison::Member),
        Change::MakeDir { path: format!("{V2}/cpushield") },
        write(&file("cpuset.cpus"), "3", ValueComparison::List),
        take_servo(format!("{V2}/cpushield")),
        write(&file("cpuset.cpus.exclusive"), "3", ValueComparison::List),
        write(&file("cpuset.cpus.partition"), "isolated", ValueComparison::Text),
    ];
    plan(shield, wished())
}

fn systemd_plan() -> Plan {
    let file = |name: &str| format!("{V2}/cpushield.slice/{name}");
    let slice = Change::Slice {
        unit: "cpushield.slice".to_owned(),
        cpus: CpuSet::single(3),
        mems: CpuSet::new(),
    };
    let shield = vec![
        Change::KeepAffinities,
        Change::CycleCpu { cpu: 3 },
        slice,
        take_servo(format!("{V2}/cpushield.slice")),
        write(&file("cpuset.cpus.exclusive"), "3", ValueComparison::List),
        write(&file("cpuset.cpus.partition"), "isolated", ValueComparison::Text),
    ];
    plan(shield, wished())
}

const V1: &str = "/sys/fs/cgroup/cpuset";

fn v1_plan() -> Plan {
    let (own, rest) = (format!("{V1}/cpushield"), format!("{V1}/cpushield_housekeeping"));
    let mut shield = vec![
        Change::KeepAffinities,
        Change::CycleCpu { cpu: 3 },
        write(&format!("{V1}/mine/cpuset.cpus"), "0-2", ValueComparison::List),
    ];
    for (dir, cpus) in [(&rest, "0-2"), (&own, "3")] {
        shield.push(Change::MakeDir { path: dir.clone() });
        shield.push(write(&format!("{dir}/cpuset.cpus"), cpus, ValueComparison::List));
        shield.push(write(&format!("{dir}/cpuset.mems"), "0", ValueComparison::List));
    }
    shield.push(take_servo(own.clone()));
    shield.push(write(&format!("{own}/cpuset.cpu_exclusive"), "1", ValueComparison::Text));
    shield.push(write(&format!("{own}/cpuset.sched_load_balance"), "0", ValueComparison::Text));
    shield.push(write(&format!("{V1}/cpuset.sched_load_balance"), "0", ValueComparison::Text));
    shield.push(Change::MoveTasks { from: V1.to_owned(), to: rest, keep: CpuSet::new() });
    plan(shield, wished())
}

/// The same plan for CPU 2 too, and CPU 3 goes offline at the end.
fn with_offline_sibling(mut plan: Plan, files: &[(&str, &str)]) -> Plan {
    plan.steps.retain(|step| !matches!(step.change, Change::CycleCpu { .. }));
    for step in &mut plan.steps {
        match &mut step.change {
            Change::Write { path, value, .. } => {
                if let Some((_, new)) = files.iter().find(|(file, _)| path.ends_with(file)) {
                    (*new).clone_into(value);
                } else if value == "7" {
                    "3".clone_into(value);
                } else if value == "0-2" {
                    "0-1".clone_into(value);
                }
            }
            Change::Affinity { cpus, .. } => *cpus = "0-1".parse().unwrap(),
            _ => {}
        }
    }
    plan.steps.push(step(Change::OfflineSibling { cpu: 3, sibling: 2 }, true));
    let one = CpuSet::single(3);
    plan.shield = Shield {
        cpus: "2-3".parse().unwrap(),
        housekeeping: "0-1".parse().unwrap(),
        idle_siblings: one.clone(),
        offline_siblings: one,
        ..plan.shield
    };
    plan
}

/// The same machine with two memory nodes, and the same shield with its own memory.
fn with_two_nodes(mut tree: Tree, mut plan: Plan) -> (Tree, Plan) {
    let root = &V2[1..];
    tree.insert(format!("{root}/cpuset.mems.effective"), file("0-1\n"));
    for (path, text) in &mut tree {
        if path.starts_with(&format!("{}/", &V1[1..])) && path.ends_with("/cpuset.mems") {
            *text = file("0-1\n");
        }
    }
    plan.shield.mems = CpuSet::single(1);
    let mut own = None;
    for (at, step) in plan.steps.iter_mut().enumerate() {
        match &mut step.change {
            Change::Write { path, value, .. } if path.ends_with("cpushield/cpuset.mems") => {
                "1".clone_into(value);
            }
            Change::Write { path, .. } if path.ends_with("/cgroup/cpushield/cpuset.cpus") => {
                own = Some(at + 1);
            }
            Change::Slice { mems, .. } => *mems = CpuSet::single(1),
            _ => {}
        }
    }
    if let Some(at) = own {
        let mems = write(&format!("{V2}/cpushield/cpuset.mems"), "1", ValueComparison::List);
        plan.steps.insert(at, step(mems, false));
    }
    (tree, plan)
}

/// Every machine with its plan.
pub fn machines() -> Vec<(&'static str, Tree, Plan)> {
    let one_node = [
        ("v2", v2(), v2_plan()),
        ("v2 since 6.2", remembering(), v2_plan()),
        ("systemd", systemd(), systemd_plan()),
        ("v1", v1(), v1_plan()),
    ];
    let two_nodes = [
        ("v2, two nodes", v2(), v2_plan()),
        ("systemd, two nodes", systemd(), systemd_plan()),
        ("v1, two nodes", v1(), v1_plan()),
    ];
    let two_nodes = two_nodes.into_iter().map(|(name, tree, plan)| {
        let (tree, plan) = with_two_nodes(tree, plan);
        (name, tree, plan)
    });
    one_node.into_iter().chain(two_nodes).collect()
}

/// Machines on which CPU 3 is offline while the shield is active.
pub fn machines_with_offline_sibling() -> Vec<(&'static str, Tree, Plan)> {
    let v2_files = [("/cpushield/cpuset.cpus", "2-3"), ("cpuset.cpus.exclusive", "2-3")];
    let v1_files = [("/cpushield/cpuset.cpus", "2")];
    vec![
        ("v2, offline", v2(), with_offline_sibling(v2_plan(), &v2_files)),
        ("v2 since 6.2, offline", remembering(), with_offline_sibling(v2_plan(), &v2_files)),
        ("v1, offline", v1(), with_offline_sibling(v1_plan(), &v1_files)),
    ]
}
