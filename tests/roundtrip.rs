//! Nothing is lost: apply and undo on copies of machines leave them as they were to the byte, with
//! every single write refused, and killed at every single write of apply and of undo.

use cpushield::apply::{self, ApplyError, Fate, UndoError};
use cpushield::change::{Change, Compare, Risk, When};
use cpushield::plan::{Plan, Shield, Step};
use cpushield::policy::Workload;
use cpushield_linux::{CpuSet, Fault, Host, Policy, Store, TaskId};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A directory of one test, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        // In memory, where it can be had as files: thousands of syncs to a disk take minutes.
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let dir = base.join(format!("roundtrip-{}-{n}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A machine as files, and a state directory.
struct Bench {
    scratch: Scratch,
}

/// Files with their bytes, and directories with none.
type Tree = BTreeMap<PathBuf, Option<Vec<u8>>>;

impl Bench {
    fn of(tree: &Tree) -> Bench {
        let scratch = Scratch::new();
        for (path, text) in tree {
            let place = scratch.0.join("root").join(path);
            match text {
                Some(text) => {
                    fs::create_dir_all(place.parent().unwrap()).unwrap();
                    fs::write(place, text).unwrap();
                }
                None => fs::create_dir_all(place).unwrap(),
            }
        }
        Bench { scratch }
    }

    fn host(&self) -> Host {
        Host::recorded(&self.scratch.0.join("root")).unwrap()
    }

    fn store(&self) -> Store {
        Store::new(&self.scratch.0.join("state"))
    }

    fn journal(&self) -> PathBuf {
        self.scratch.0.join("state").join(apply::JOURNAL)
    }

    fn apply(&self, host: &Host, plan: &Plan) -> Result<apply::Applied, ApplyError> {
        apply::apply(host, &self.store(), plan, &mut |_| {})
    }

    fn tree(&self) -> Tree {
        let root = self.scratch.0.join("root");
        let mut tree = Tree::new();
        read_below(&root, &root, &mut tree);
        tree
    }
}

fn read_below(root: &Path, dir: &Path, tree: &mut Tree) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().to_owned();
        if path.is_dir() {
            tree.insert(name, None);
            read_below(root, &path, tree);
        } else {
            tree.insert(name, Some(fs::read(&path).unwrap()));
        }
    }
}

#[track_caller]
fn same(before: &Tree, after: &Tree, when: &str) {
    let paths = before.keys().chain(after.keys());
    let text = |tree: &Tree, path: &PathBuf| match tree.get(path) {
        Some(Some(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        Some(None) => "(directory)".to_owned(),
        None => "(absent)".to_owned(),
    };
    let differing: BTreeMap<String, (String, String)> = paths
        .filter(|path| before.get(*path) != after.get(*path))
        .map(|path| (path.display().to_string(), (text(before, path), text(after, path))))
        .collect();
    assert!(differing.is_empty(), "{when}: {differing:#?}");
}

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
];

fn common(tree: &mut Tree) {
    let mut put = |path: &str, text: &str| tree.insert(path.into(), Some(text.as_bytes().to_vec()));
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
    put("errors.tsv", "write\t/proc/irq/26/smp_affinity\tEIO\n");
    for (tid, comm, flags, cpus) in TASKS {
        let parent = i32::from(*tid > 2);
        let kthread = flags & 0x0020_0000 != 0;
        let parent = if kthread && *tid != 2 { 2 } else { parent };
        let stat = format!(
            "{tid} ({comm}) S {parent} 0 0 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 {} 0 0 \
             18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
            tid * 10
        );
        put(&format!("proc/{tid}/stat"), &stat);
        put(&format!("proc/{tid}/task/{tid}/stat"), &stat);
        let mask = cpus.parse::<CpuSet>().unwrap().to_mask();
        let status = format!("Name:\t{comm}\nCpus_allowed:\t{mask}\nCpus_allowed_list:\t{cpus}\n");
        put(&format!("proc/{tid}/status"), &status);
    }
}

fn pids(keep: impl Fn(i32) -> bool) -> String {
    TASKS.iter().map(|t| t.0).filter(|t| keep(*t)).map(|tid| format!("{tid}\n")).collect()
}

/// cgroup v2 without systemd.
fn v2() -> Tree {
    let mut tree = Tree::new();
    common(&mut tree);
    let mut put = |path: &str, text: &str| tree.insert(path.into(), Some(text.as_bytes().to_vec()));
    put("sys/fs/cgroup/cgroup.procs", &pids(|tid| tid != 200));
    put("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n");
    put("sys/fs/cgroup/cgroup.subtree_control", "memory pids\n");
    put("sys/fs/cgroup/cpuset.cpus.effective", "0-3\n");
    put("sys/fs/cgroup/mine/cgroup.procs", "200\n");
    put("sys/fs/cgroup/mine/cgroup.controllers", "memory pids\n");
    put("sys/fs/cgroup/mine/cgroup.subtree_control", "\n");
    put("sys/devices/virtual/workqueue/cpumask_requested", "f\n");
    for (tid, ..) in TASKS {
        let group = if *tid == 200 { "/mine" } else { "/" };
        put(&format!("proc/{tid}/cgroup"), &format!("0::{group}\n"));
    }
    tree
}

/// cgroup v2 under systemd.
fn systemd() -> Tree {
    let mut tree = v2();
    tree.insert("run/systemd/system.control".into(), None);
    tree
}

/// The cpuset controller on cgroup v1, with a cpuset of somebody else.
fn v1() -> Tree {
    let mut tree = Tree::new();
    common(&mut tree);
    let mut put = |path: &str, text: &str| tree.insert(path.into(), Some(text.as_bytes().to_vec()));
    for (group, cpus, tasks) in
        [("", "0-3", pids(|tid| tid != 200)), ("/mine", "0-3", "200\n".to_owned())]
    {
        let dir = format!("{}{group}", V1.trim_start_matches('/'));
        put(&format!("{dir}/tasks"), &tasks);
        put(&format!("{dir}/cgroup.procs"), &tasks);
        put(&format!("{dir}/cpuset.cpus"), &format!("{cpus}\n"));
        put(&format!("{dir}/cpuset.mems"), "0\n");
        put(&format!("{dir}/cpuset.sched_load_balance"), "1\n");
    }
    for (tid, ..) in TASKS {
        let group = if *tid == 200 { "/mine" } else { "/" };
        put(&format!("proc/{tid}/cgroup"), &format!("4:cpuset:{group}\n0::/\n"));
    }
    tree
}

fn write(path: &str, value: &str, compare: Compare) -> Change {
    Change::Write { path: path.to_owned(), value: value.to_owned(), compare }
}

fn task(tid: i32) -> TaskId {
    TaskId { tid, started: u64::try_from(tid * 10).unwrap() }
}

fn affinity(tid: i32, comm: &str) -> Change {
    Change::Affinity { task: task(tid), comm: comm.to_owned(), cpus: "0-2".parse().unwrap() }
}

fn step(change: Change, required: bool) -> Step {
    Step {
        tunable: "test".to_owned(),
        change,
        now: None,
        reason: "because".to_owned(),
        risk: Risk::None,
        when: When::Runtime,
        removes: Vec::new(),
        required,
    }
}

fn plan(required: Vec<Change>, wished: Vec<Change>) -> Plan {
    let steps = required.into_iter().map(|change| step(change, true));
    let steps = steps.chain(wished.into_iter().map(|change| step(change, false)));
    Plan {
        schema: cpushield::plan::SCHEMA,
        boot_id: None,
        kernel: None,
        shield: Shield {
            name: "cpushield".to_owned(),
            cpus: CpuSet::one(3),
            idle_siblings: CpuSet::new(),
            housekeeping: "0-2".parse().unwrap(),
            mems: CpuSet::one(0),
            workload: Workload::Polling,
        },
        why: Vec::new(),
        steps: steps.collect(),
        skipped: Vec::new(),
        immovable: Vec::new(),
        boot: Vec::new(),
        already: BTreeMap::new(),
        warnings: Vec::new(),
    }
}

/// What every plan wants beside the cpuset.
fn wished() -> Vec<Change> {
    vec![
        affinity(2, "kthreadd"),
        affinity(40, "kauditd"),
        affinity(201, "spread"),
        Change::Scheduling {
            task: task(15),
            comm: "ksoftirqd/3".to_owned(),
            policy: Policy::Fifo { priority: 2 },
        },
        Change::BanFromIrqbalance { cpus: CpuSet::one(3) },
        write("/proc/irq/default_smp_affinity", "7", Compare::Mask),
        write("/proc/irq/27/smp_affinity_list", "0-2", Compare::List),
        write("/proc/irq/24/smp_affinity", "7", Compare::Mask),
        write("/proc/irq/25/smp_affinity", "7", Compare::Mask),
        write("/proc/irq/26/smp_affinity", "7", Compare::Mask),
        write("/proc/irq/99/smp_affinity", "7", Compare::Mask),
        write("/sys/devices/virtual/workqueue/cpumask", "7", Compare::Mask),
        write("/proc/sys/kernel/sched_rt_runtime_us", "-1", Compare::Text),
        write("/proc/sys/vm/stat_interval", "3600", Compare::Text),
        write("/proc/sys/vm/stat_interval", "120", Compare::Text),
        write("/sys/kernel/mm/transparent_hugepage/enabled", "never", Compare::Word),
    ]
}

const V2: &str = "/sys/fs/cgroup";

fn v2_plan() -> Plan {
    let file = |name: &str| format!("{V2}/cpushield/{name}");
    let shield = vec![
        Change::KeepAffinities,
        write(&format!("{V2}/cgroup.subtree_control"), "+cpuset", Compare::Member),
        Change::MakeDir { path: format!("{V2}/cpushield") },
        write(&file("cpuset.cpus"), "3", Compare::List),
        write(&file("cpuset.cpus.exclusive"), "3", Compare::List),
        write(&file("cpuset.cpus.partition"), "isolated", Compare::Text),
    ];
    plan(shield, wished())
}

fn systemd_plan() -> Plan {
    let file = |name: &str| format!("{V2}/cpushield.slice/{name}");
    let slice = Change::Slice {
        unit: "cpushield.slice".to_owned(),
        cpus: CpuSet::one(3),
        mems: CpuSet::one(0),
    };
    let shield = vec![
        Change::KeepAffinities,
        Change::CycleCpu { cpu: 3 },
        slice,
        write(&file("cpuset.cpus.exclusive"), "3", Compare::List),
        write(&file("cpuset.cpus.partition"), "isolated", Compare::Text),
    ];
    plan(shield, wished())
}

const V1: &str = "/sys/fs/cgroup/cpuset";

fn v1_plan() -> Plan {
    let (own, rest) = (format!("{V1}/cpushield"), format!("{V1}/cpushield_housekeeping"));
    let mut shield = vec![
        Change::KeepAffinities,
        Change::CycleCpu { cpu: 3 },
        write(&format!("{V1}/mine/cpuset.cpus"), "0-2", Compare::List),
    ];
    for (dir, cpus) in [(&rest, "0-2"), (&own, "3")] {
        shield.push(Change::MakeDir { path: dir.clone() });
        shield.push(write(&format!("{dir}/cpuset.cpus"), cpus, Compare::List));
        shield.push(write(&format!("{dir}/cpuset.mems"), "0", Compare::List));
    }
    shield.push(write(&format!("{own}/cpuset.cpu_exclusive"), "1", Compare::Text));
    shield.push(write(&format!("{own}/cpuset.sched_load_balance"), "0", Compare::Text));
    shield.push(write(&format!("{V1}/cpuset.sched_load_balance"), "0", Compare::Text));
    shield.push(Change::MoveTasks { from: V1.to_owned(), to: rest });
    plan(shield, wished())
}

/// Every machine with its plan.
fn machines() -> Vec<(&'static str, Tree, Plan)> {
    vec![("v2", v2(), v2_plan()), ("systemd", systemd(), systemd_plan()), ("v1", v1(), v1_plan())]
}

/// How many writes an undisturbed apply and an undisturbed undo need.
fn writes(tree: &Tree, plan: &Plan) -> (usize, usize) {
    let bench = Bench::of(tree);
    let host = bench.host();
    bench.apply(&host, plan).unwrap();
    let undoing = bench.host();
    apply::undo(&undoing, &bench.store()).unwrap();
    (host.writes(), undoing.writes())
}

#[test]
fn apply_then_undo_leaves_every_byte_as_it_was() {
    for (name, tree, plan) in machines() {
        let bench = Bench::of(&tree);
        let before = bench.tree();
        let applied = bench.apply(&bench.host(), &plan).unwrap();
        assert_ne!(before, bench.tree(), "{name}: nothing was changed");
        assert_eq!(applied.steps.len(), plan.steps.len(), "{name}");
        let second = bench.host();
        let refused = bench.apply(&second, &plan).unwrap_err();
        assert!(matches!(refused, ApplyError::Active { .. }), "{name}: {refused}");
        assert_eq!(second.writes(), 0, "{name}");
        let undone = apply::undo(&bench.host(), &bench.store()).unwrap();
        assert!(undone.is_complete(), "{name}: {undone:#?}");
        same(&before, &bench.tree(), name);
        let nothing = apply::undo(&bench.host(), &bench.store()).unwrap();
        assert_eq!(nothing, apply::Undone::nothing(), "{name}");
    }
}

#[test]
fn whichever_write_is_refused_undo_leaves_every_byte_as_it_was() {
    for (name, tree, plan) in machines() {
        let (count, _) = writes(&tree, &plan);
        for at in 0..count {
            let when = format!("{name}: write {at} refused");
            let bench = Bench::of(&tree);
            let before = bench.tree();
            let host = bench.host().failing(Fault::Refuse { at, errno: 22 });
            match bench.apply(&host, &plan) {
                Ok(_) => {
                    let undone = apply::undo(&bench.host(), &bench.store()).unwrap();
                    assert!(undone.is_complete(), "{when}: {undone:#?}");
                }
                Err(ApplyError::Failed { undone, .. }) => {
                    let undone = undone.unwrap();
                    assert!(undone.is_complete(), "{when}: {undone:#?}");
                }
                Err(error) => panic!("{when}: {error}"),
            }
            same(&before, &bench.tree(), &when);
            assert!(!bench.journal().exists(), "{when}");
        }
    }
}

#[test]
fn killed_before_any_write_of_apply_undo_leaves_every_byte_as_it_was() {
    for (name, tree, plan) in machines() {
        let (count, _) = writes(&tree, &plan);
        for at in 0..count {
            let when = format!("{name}: killed at write {at}");
            let bench = Bench::of(&tree);
            let before = bench.tree();
            let host = bench.host().failing(Fault::Stop { at });
            let killed = bench.apply(&host, &plan).unwrap_err();
            assert!(matches!(killed, ApplyError::Killed), "{when}: {killed}");
            let undone = apply::undo(&bench.host(), &bench.store()).unwrap();
            assert!(undone.is_complete(), "{when}: {undone:#?}");
            let drifted = undone.steps.iter().any(|s| matches!(s.fate, Fate::Drifted { .. }));
            assert!(!drifted, "{when}: {undone:#?}");
            same(&before, &bench.tree(), &when);
        }
    }
}

#[test]
fn killed_before_any_write_of_undo_the_next_undo_completes_it() {
    for (name, tree, plan) in machines() {
        let (_, count) = writes(&tree, &plan);
        for at in 0..count {
            let when = format!("{name}: undo killed at write {at}");
            let bench = Bench::of(&tree);
            let before = bench.tree();
            bench.apply(&bench.host(), &plan).unwrap();
            let host = bench.host().failing(Fault::Stop { at });
            let killed = apply::undo(&host, &bench.store()).unwrap_err();
            assert!(matches!(killed, UndoError::Killed), "{when}: {killed}");
            let undone = apply::undo(&bench.host(), &bench.store()).unwrap();
            assert!(undone.is_complete(), "{when}: {undone:#?}");
            same(&before, &bench.tree(), &when);
        }
    }
}

#[test]
fn a_journal_cut_anywhere_is_refused_before_its_begin_and_undone_after_it() {
    let (tree, plan) = (v2(), v2_plan());
    let bench = Bench::of(&tree);
    let before = bench.tree();
    bench.apply(&bench.host(), &plan).unwrap();
    let (full, shielded) = (fs::read(bench.journal()).unwrap(), bench.tree());
    let text = String::from_utf8(full.clone()).unwrap();
    let begin = text.find("{\"begin\"").unwrap();
    let opening = begin + text[begin..].find('\n').unwrap() + 1;
    for len in (0..opening).chain((opening..full.len()).step_by(17)) {
        fs::write(bench.journal(), &full[..len]).unwrap();
        let host = bench.host();
        let answer = apply::undo(&host, &bench.store());
        if len < opening {
            let error = answer.unwrap_err();
            assert!(matches!(error, UndoError::Journal { .. }), "{len} bytes: {error}");
            assert_eq!(host.writes(), 0, "{len} bytes");
            continue;
        }
        let undone = answer.unwrap();
        assert!(undone.is_complete(), "{len} bytes: {undone:#?}");
        same(&before, &bench.tree(), &format!("{len} bytes"));
        let again = Bench::of(&shielded);
        fs::remove_dir_all(bench.scratch.0.join("root")).unwrap();
        fs::rename(again.scratch.0.join("root"), bench.scratch.0.join("root")).unwrap();
    }
}
