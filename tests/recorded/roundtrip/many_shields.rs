//! Several active shields: after any of them is undone, in any order and killed anywhere, the
//! machine is as if only the others had ever been applied.

use super::bench::{Bench, Tree, disturbed_writes, same};
use crate::recordings;
use cpushield::apply::{self, ApplyError, UndoError};
use cpushield::plan::{ActiveShields, Plan, plan_with_others};
use cpushield::policy::{ShieldRequest, Siblings};
use cpushield::refusal::UserError;
use cpushield::run::{self, ShieldPlacement};
use cpushield::survey::survey;
use cpushield::tunables;
use cpushield::workflow::machine_without::remove_shield;
use cpushield_linux::{CpuSet, Host};
use cpushield_simulator::{InjectedFault, Simulated};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, LazyLock};

pub(crate) const NAMES: [&str; 3] = ["a", "b", "c"];

/// A recorded machine and the CPUs of shields that fit on it together.
#[derive(Clone)]
pub(crate) struct Recorded {
    pub(crate) name: String,
    root: PathBuf,
    pub(crate) cpus: Vec<CpuSet>,
    /// This machine with shields: made once, and copied for each disturbed write.
    prepared: Rc<RefCell<BTreeMap<String, Rc<Prepared>>>>,
}

/// A machine with shields, and its files.
pub(crate) struct Prepared {
    pub(crate) bench: Bench,
    pub(crate) tree: Tree,
}

impl Recorded {
    /// The machine of this key, which is made when it is first asked for.
    pub(crate) fn prepare(&self, key: &str, make: impl FnOnce() -> Bench) -> Rc<Prepared> {
        if let Some(found) = self.prepared.borrow().get(key) {
            return Rc::clone(found);
        }
        let bench = make();
        let made = Rc::new(Prepared { tree: bench.tree(), bench });
        self.prepared.borrow_mut().insert(key.to_owned(), Rc::clone(&made));
        made
    }

    pub(crate) fn bench(&self) -> Bench {
        bench_of(&self.root)
    }

    /// A machine with these shields, applied in this order.
    pub(crate) fn with_shields(&self, shields: &[usize]) -> Bench {
        self.prepare_shields(shields).bench.copy()
    }

    /// The files of that machine.
    pub(crate) fn tree_with_shields(&self, shields: &[usize]) -> Tree {
        self.prepare_shields(shields).tree.clone()
    }

    fn prepare_shields(&self, shields: &[usize]) -> Rc<Prepared> {
        self.prepare(&format!("{shields:?}"), || {
            let bench = self.bench();
            for n in shields {
                let plan = self.plan(&bench, *n);
                let applied = bench.apply(&bench.host(), &plan);
                applied.unwrap_or_else(|error| panic!("{}: {}: {error}", self.name, NAMES[*n]));
            }
            bench
        })
    }

    fn plan(&self, bench: &Bench, n: usize) -> Plan {
        plan_shield(bench, NAMES[n], Some(&self.cpus[n])).unwrap()
    }
}

/// A copy of a recorded machine, booted without `isolcpus=`: not every kernel makes partitions of
/// its CPUs.
pub(crate) fn bench_of(root: &Path) -> Bench {
    let bench = Bench::of_recording(root);
    let cmdline = fs::read_to_string(root.join("proc/cmdline")).unwrap_or_default();
    if !cmdline.contains("isolcpus=") {
        return bench;
    }
    for file in ["/sys/devices/system/cpu/isolated", "/sys/fs/cgroup/cpuset.cpus.isolated"] {
        if bench.text(file).is_some() {
            bench.put(file, "\n");
        }
    }
    let online: CpuSet = fs::read_to_string(root.join("sys/devices/system/cpu/online"))
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let host = bench.host();
    for task in host.tasks().unwrap().into_iter().filter(|task| !task.kthread) {
        // isolcpus= has kept it off the isolated CPUs.
        if host.affinity(task.id.tid).is_ok_and(|cpus| cpus.len() > online.len() / 2) {
            host.set_affinity(task.id.tid, &online).unwrap();
        }
    }
    bench
}

/// The plan of a shield that joins those that are active, or replaces the one of its name.
pub(crate) fn plan_shield(bench: &Bench, name: &str, cpus: Option<&CpuSet>) -> Option<Plan> {
    plan_with(bench, name, |request| ShieldRequest {
        cpus: cpus.cloned(),
        count: cpus.is_none().then_some(1),
        ..request
    })
}

/// The same for a request that is completed.
pub(crate) fn plan_with(
    bench: &Bench,
    name: &str,
    complete: impl FnOnce(ShieldRequest) -> ShieldRequest,
) -> Option<Plan> {
    plan_version(bench, name, false, complete)
}

/// The same. The plan knows the version that it replaces, unless it was saved before that one was
/// applied.
pub(crate) fn plan_version(
    bench: &Bench,
    name: &str,
    knows_old: bool,
    complete: impl FnOnce(ShieldRequest) -> ShieldRequest,
) -> Option<Plan> {
    let host = bench.host();
    let mut machine = survey(&host, &tunables::reads());
    let mut live = apply::active_plans(&host, &bench.store()).unwrap();
    let outcomes = apply::outcomes(&host, &bench.store()).unwrap();
    for plan in &live {
        tunables::complete_survey(&mut machine, plan, &outcomes);
    }
    let old = live.iter().find(|plan| plan.shield.name == name).cloned();
    if let Some(old) = &old {
        remove_shield(&mut machine, &host, &bench.store(), old).unwrap();
    }
    live.retain(|plan| plan.shield.name != name);
    let live = ActiveShields::new(&live).replacing(old.as_ref().filter(|_| knows_old));
    machine.isolation.isolcpus_domain = CpuSet::new();
    let request = complete(ShieldRequest {
        name: name.to_owned(),
        siblings: Some(Siblings::Share),
        ..ShieldRequest::default()
    });
    plan_with_others(&machine, &request, &live).ok()
}

/// CPUs of both nodes of a machine with four CPUs in each.
const TWO_NODES: [usize; 3] = [7, 3, 6];

/// The CPUs of the shields that fit on a recorded machine together.
fn cpus_of_shields(root: &Path) -> Vec<CpuSet> {
    let bench = bench_of(root);
    let mut cpus = Vec::new();
    for name in NAMES {
        let Some(plan) = plan_shield(&bench, name, None) else { break };
        bench.apply(&bench.host(), &plan).unwrap();
        cpus.push(plan.shield.cpus);
    }
    if root.join("sys/devices/system/node/node1").is_dir() {
        cpus = TWO_NODES.map(CpuSet::single).to_vec();
    }
    cpus
}

/// The recorded machines that can have at least this many shields.
pub(crate) fn machines(least: usize) -> Vec<Recorded> {
    // Once for all tests: it takes three plans and applies on each machine.
    static ALL: LazyLock<Vec<(String, PathBuf, Vec<CpuSet>)>> = LazyLock::new(|| {
        let roots = recordings::own().into_iter().map(|(name, dir)| (name, dir.join("root")));
        roots.map(|(name, root)| (name, root.clone(), cpus_of_shields(&root))).collect()
    });
    let able = ALL.iter().filter(|(.., cpus)| cpus.len() >= least).cloned();
    let recorded = |(name, root, cpus)| Recorded { name, root, cpus, prepared: Rc::default() };
    let found: Vec<Recorded> = able.map(recorded).collect();
    assert!(found.len() >= 4, "only {} machines for {least} shields", found.len());
    found
}

fn undo(bench: &Bench, host: &Host, n: usize) -> Result<apply::UndoneShield, UndoError> {
    apply::undo(host, &bench.store(), Some(NAMES[n]))
}

/// Compares two machines without the threads of interrupts: the kernel moves each with its
/// interrupt, which a recording does not.
#[track_caller]
pub(crate) fn same_apart_from_irq_threads(mut before: Tree, mut after: Tree, when: &str) {
    for tree in [&mut before, &mut after] {
        tree.retain(|_, text| !text.as_ref().is_some_and(|text| text.starts_with(b"Name:\tirq/")));
    }
    same(&before, &after, when);
}

/// Compares a machine with one on which only these shields were ever applied.
#[track_caller]
fn same_as_only(machine: &Recorded, bench: &Bench, shields: &[usize], when: &str) {
    same_apart_from_irq_threads(machine.tree_with_shields(shields), bench.tree(), when);
}

#[test]
fn three_shields_are_undone_in_every_order() {
    for machine in &machines(3) {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let bench = machine.with_shields(&[0, 1, 2]);
            let mut left = vec![0, 1, 2];
            for n in order {
                let when = format!("{}: {order:?}, undo of {}", machine.name, NAMES[n]);
                let undone = undo(&bench, &bench.host(), n).unwrap();
                assert!(undone.is_complete(), "{when}: {undone:#?}");
                left.retain(|other| *other != n);
                same_as_only(machine, &bench, &left, &when);
                for n in &left {
                    let status = run::status(&bench.host(), &bench.store(), Some(NAMES[*n]));
                    assert_eq!(status.unwrap().shields[0].drift, [], "{when}: {}", NAMES[*n]);
                }
            }
            assert!(!bench.journal().exists());
        }
    }
}

#[test]
fn a_shield_that_joins_is_undone_completely_after_a_kill_or_a_refusal() {
    for machine in &machines(2) {
        let bench = machine.with_shields(&[0]);
        let host = bench.host();
        let plan = machine.plan(&bench, 1);
        bench.apply(&host, &plan).unwrap();
        for at in disturbed_writes(host.writes()) {
            for fault in [InjectedFault::Stop { at }, InjectedFault::Refuse { at, errno: 22 }] {
                let when = format!("{}: {fault:?}", machine.name);
                let bench = machine.with_shields(&[0]);
                let before = bench.tree();
                match bench.apply(&bench.host().failing(fault), &plan) {
                    Ok(_) => {}
                    Err(ApplyError::Failed { undone, .. }) => {
                        assert!(undone.unwrap().is_complete(), "{when}");
                        same_apart_from_irq_threads(before, bench.tree(), &when);
                        continue;
                    }
                    Err(error) if error.is_stop() => {
                        let other = undo(&bench, &bench.host(), 0);
                        let expected = other.is_err_and(|error| {
                            matches!(error, UndoError::OtherUnfinished { other } if other == "b")
                        });
                        assert!(
                            expected
                                || apply::active_plans(&bench.host(), &bench.store())
                                    .unwrap()
                                    .len()
                                    == 1,
                            "{when}"
                        );
                    }
                    Err(error) => panic!("{when}: {error}"),
                }
                let undone = undo(&bench, &bench.host(), 1).unwrap();
                assert!(undone.is_complete(), "{when}: {undone:#?}");
                same_apart_from_irq_threads(before, bench.tree(), &when);
            }
        }
    }
}

/// On v1 before 6.2 the cpusets of a shield give every program all their CPUs, those of `isolcpus=`
/// too. The undo of another shield may give a program back its own CPUs.
#[test]
fn undo_of_a_join_leaves_isolcpus_machines_with_the_masks_of_the_other_shield_or_of_the_boot() {
    let names = ["hand-2.6.32-rtai", "hand-3.18", "hand-4.17"];
    let orders = [[3, 2], [2, 3], [1, 2]];
    for (name, [first, second]) in names.iter().flat_map(|name| orders.map(|order| (name, order))) {
        let root = recordings::root(name);
        let booted = Bench::of_recording(&root).tree();
        let with_first = || {
            let bench = Bench::of_recording(&root);
            let plan = plan_shield(&bench, NAMES[0], Some(&CpuSet::single(first))).unwrap();
            bench.apply(&bench.host(), &plan).unwrap();
            bench
        };
        let bench = with_first();
        let plan = plan_shield(&bench, NAMES[1], Some(&CpuSet::single(second))).unwrap();
        let host = bench.host();
        bench.apply(&host, &plan).unwrap();
        let faults = disturbed_writes(host.writes())
            .flat_map(|at| [InjectedFault::Stop { at }, InjectedFault::Refuse { at, errno: 22 }]);
        for fault in faults.map(Some).chain([None]) {
            let when = format!("{name}, {first} and {second}: {fault:?}");
            let bench = with_first();
            let before = bench.tree();
            let host = match fault {
                Some(fault) => bench.host().failing(fault),
                None => bench.host(),
            };
            let undone = match bench.apply(&host, &plan) {
                Err(ApplyError::Failed { undone, .. }) => undone.unwrap(),
                _ => undo(&bench, &bench.host(), 1).unwrap(),
            };
            assert!(undone.is_complete(), "{when}: {undone:#?}");
            let mut after = bench.tree();
            for (path, file) in &mut after {
                let boot = booted.get(path).and_then(mask_in);
                if mask_in(file)
                    .zip(boot)
                    .is_some_and(|(now, boot)| now == boot.difference(&CpuSet::single(first)))
                {
                    file.clone_from(&before[path]);
                }
            }
            same_apart_from_irq_threads(before, after, &when);
        }
    }
}

/// The affinity in the status file of a task.
fn mask_in(file: &Option<Arc<[u8]>>) -> Option<CpuSet> {
    let text = String::from_utf8_lossy(file.as_ref()?);
    text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t"))?.parse().ok()
}

#[test]
fn the_undo_of_one_of_two_shields_is_completed_after_a_kill() {
    for machine in &machines(2) {
        for n in [0, 1] {
            let bench = machine.with_shields(&[0, 1]);
            let host = bench.host();
            undo(&bench, &host, n).unwrap();
            for at in disturbed_writes(host.writes()) {
                let when = format!("{}: undo of {} killed at {at}", machine.name, NAMES[n]);
                let bench = machine.with_shields(&[0, 1]);
                let killed = undo(&bench, &bench.host().failing(InjectedFault::Stop { at }), n);
                assert!(matches!(&killed, Err(error) if error.is_stop()), "{when}: {killed:?}");
                let undone = undo(&bench, &bench.host(), n).unwrap();
                assert!(undone.is_complete(), "{when}: {undone:#?}");
                same_as_only(machine, &bench, &[1 - n], &when);
                let undone = undo(&bench, &bench.host(), 1 - n).unwrap();
                assert!(undone.is_complete(), "{when}: {undone:#?}");
                same(&machine.tree_with_shields(&[]), &bench.tree(), &when);
            }
        }
    }
}

#[test]
fn the_undo_of_one_of_two_shields_is_completed_after_a_refusal() {
    let mut again = 0;
    for machine in &machines(2) {
        for n in [0, 1] {
            let bench = machine.with_shields(&[0, 1]);
            let host = bench.host();
            undo(&bench, &host, n).unwrap();
            for at in disturbed_writes(host.writes()) {
                let when = format!("{}: undo of {}: {at} refused", machine.name, NAMES[n]);
                let bench = machine.with_shields(&[0, 1]);
                let fault = InjectedFault::Refuse { at, errno: 5 };
                let first = undo(&bench, &bench.host().failing(fault), n).unwrap();
                if !first.is_complete() {
                    again += 1;
                    let other = undo(&bench, &bench.host(), 1 - n);
                    let names_it = matches!(&other,
                        Err(UndoError::OtherUnfinished { other }) if other == NAMES[n]);
                    assert!(names_it, "{when}: {other:?}");
                    let undone = undo(&bench, &bench.host(), n).unwrap();
                    assert!(undone.is_complete(), "{when}: {undone:#?}");
                }
                same_as_only(machine, &bench, &[1 - n], &when);
                let undone = undo(&bench, &bench.host(), 1 - n).unwrap();
                assert!(undone.is_complete(), "{when}: {undone:#?}");
                same(&machine.tree_with_shields(&[]), &bench.tree(), &when);
            }
        }
    }
    assert!(again > 8, "only {again} undos had to be called again");
}

#[test]
fn a_shield_that_overlaps_or_is_not_named_is_refused_before_any_write() {
    let machines = machines(2);
    let machine = machines.first().unwrap();
    let bench = machine.with_shields(&[0]);
    let old = {
        let fresh = machine.bench();
        machine.plan(&fresh, 1)
    };
    let host = bench.host();
    let stale = bench.apply(&host, &old).unwrap_err();
    assert!(matches!(stale, ApplyError::Stale { .. }), "{stale}");
    assert_eq!(plan_shield(&bench, "b", Some(&machine.cpus[0])), None);
    bench.apply(&bench.host(), &machine.plan(&bench, 1)).unwrap();
    let unnamed = apply::undo(&host, &bench.store(), None).unwrap_err();
    assert!(matches!(unnamed, UndoError::Several { .. }), "{unnamed}");
    let unknown = apply::undo(&host, &bench.store(), Some("x")).unwrap_err();
    assert!(matches!(unknown, UndoError::NoSuchShield { .. }), "{unknown}");
    assert_eq!(host.writes(), 0);
}

#[test]
fn a_program_whose_memory_moves_names_the_other_shields_that_this_interrupts() {
    let mut moved = 0;
    for machine in machines(3) {
        for shields in [&[0][..], &[0, 1, 2]] {
            let bench = machine.with_shields(shields);
            let (host, store) = (bench.host(), bench.store());
            let plan = run::shield(&host, &store, Some(NAMES[0])).unwrap();
            let place = ShieldPlacement::new(&host, &plan);
            let group = place.group.clone().unwrap();
            let note = run::memory_note(&host, &store, &place);
            let moves = apply::moves_memory(&host, &group);
            assert_eq!(note.is_some(), moves && shields.len() > 1, "{}: {note:?}", machine.name);
            if let Some(note) = note {
                let named = |n: usize| format!("shield {} (CPU {})", NAMES[n], machine.cpus[n]);
                let end = format!("interrupts {}, {}", named(1), named(2));
                assert!(note.to_string().ends_with(&end), "{note}");
                moved += 1;
            }
        }
    }
    assert!(moved > 0);
}
