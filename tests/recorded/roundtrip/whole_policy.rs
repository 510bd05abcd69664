//! All shields of a policy are applied by one command, or none of what it did stays: with each of
//! some writes refused, and after a kill before each of them.

use super::bench::{Bench, Tree, few_disturbed_writes, same};
use super::many_shields::{Recorded, machines, same_apart_from_irq_threads};
use cpushield::apply::{self, AppliedPolicy, ShieldEffect, UnrestoredChanges};
use cpushield::change::Change;
use cpushield::failure::{Failure, FailureKind};
use cpushield::plan::Plan;
use cpushield::report::page;
use cpushield::ui::{OutputFormat, StatusLines, Ui};
use cpushield::workflow::WorkContext;
use cpushield::workflow::apply_policy::apply_policy;
use cpushield::workflow::apply_shield::ProgramsInTheWay;
use cpushield::workflow::policy_shields::plan_policy_shields;
use cpushield::workflow::report_material::collect_material;
use cpushield::workflow::shield_options::PolicyOptions;
use cpushield::workflow::take_down::take_all_down;
use cpushield_linux::{CpuSet, Host};
use cpushield_simulator::{InjectedFault, Simulated};
use std::fs;

/// A shield of a policy: its name, and its CPUs or how many are chosen.
type Wish<'a> = (&'a str, Result<&'a CpuSet, usize>);

/// A machine with a policy file.
struct PolicyBench {
    bench: Bench,
    ui: Ui,
}

impl PolicyBench {
    fn new(machine: &Recorded) -> PolicyBench {
        let ui = Ui::new(OutputFormat::Text, StatusLines::Suppressed);
        let bench = PolicyBench { bench: machine.bench(), ui };
        // The kernel has one function for the mask and the list of an interrupt
        // (`write_irq_affinity()`, kernel/irq/proc.c, 6.12). A recording shows its answer for the
        // mask only. The kernel itself restores the masks of managed interrupts after a CPU was
        // offline.
        let unmanaged = |line: &&str| line.ends_with("EIO") || line.contains("/irq/0/");
        for line in bench.errors().lines().filter(unmanaged) {
            bench.add_error(&line.replace("/smp_affinity\t", "/smp_affinity_list\t"));
        }
        bench
    }

    fn errors(&self) -> String {
        self.bench.text("/errors.tsv").unwrap_or_default()
    }

    /// Makes the kernel answer a write with an error.
    fn add_error(&self, line: &str) {
        self.bench.answer(&format!("{line}\n"));
    }

    fn tree(&self) -> Tree {
        without_errors(self.bench.tree())
    }

    /// Replaces the policy.
    fn write_policy(&self, wishes: &[Wish<'_>]) {
        let mut text = String::new();
        for (name, cpus) in wishes {
            let cpus = match cpus {
                Ok(cpus) => format!("cpus = \"{cpus}\""),
                Err(count) => format!("count = {count}"),
            };
            text.push_str(&format!("[shield.{name}]\n{cpus}\nsiblings = \"share\"\n"));
        }
        fs::write(self.bench.scratch.0.join("policy.toml"), text).unwrap();
    }

    fn work(&self, host: Host) -> WorkContext<'_> {
        let state_dir = self.bench.scratch.0.join("state");
        WorkContext { ui: &self.ui, host, store: self.bench.store(), state_dir, shield: None }
    }

    fn policy(&self) -> PolicyOptions {
        let policy = self.bench.scratch.0.join("policy.toml").display().to_string();
        PolicyOptions { policy: Some(policy), ..PolicyOptions::default() }
    }

    fn apply(&self, host: Host) -> (Result<AppliedPolicy, Failure>, usize) {
        let work = self.work(host);
        let result = apply_policy(&work, &self.policy(), ProgramsInTheWay::Refuse);
        let writes = work.host.writes();
        (result, writes)
    }

    fn plan(&self) -> Result<Vec<Plan>, Failure> {
        let planned = plan_policy_shields(&self.work(self.bench.host()), &self.policy())?;
        Ok(planned.document().plans)
    }

    fn undo_all(&self, when: &str) {
        let undone = take_all_down(&self.work(self.bench.host()), UnrestoredChanges::Keep).unwrap();
        assert!(undone.iter().all(apply::UndoneShield::is_complete), "{when}: {undone:#?}");
    }

    /// The active shields with their CPUs.
    fn active(&self) -> Vec<(String, CpuSet)> {
        let plans = apply::active_plans(&self.bench.host(), &self.bench.store()).unwrap();
        plans.into_iter().map(|plan| (plan.shield.name, plan.shield.cpus)).collect()
    }
}

/// A machine without the list of what failed when it was recorded.
fn without_errors(mut tree: Tree) -> Tree {
    tree.remove("errors.tsv");
    tree
}

/// A state of a machine before the command, and the policy that the command applies.
struct Case<'a> {
    before: Vec<Wish<'a>>,
    policy: Vec<Wish<'a>>,
}

impl Case<'_> {
    fn prepare(&self, machine: &Recorded) -> PolicyBench {
        let bench = PolicyBench::new(machine);
        if !self.before.is_empty() {
            bench.write_policy(&self.before);
            bench.apply(bench.bench.host()).0.unwrap();
        }
        bench.write_policy(&self.policy);
        bench
    }
}

/// Shields that are all new; and one that is changed, one that is kept and one that is new.
fn cases(machine: &Recorded) -> Vec<Case<'_>> {
    let [a, b] = [&machine.cpus[0], &machine.cpus[1]];
    let mut cases = vec![Case { before: Vec::new(), policy: vec![("a", Err(1)), ("b", Ok(a))] }];
    if let Some(c) = machine.cpus.get(2) {
        cases.push(Case {
            before: vec![("a", Ok(a)), ("x", Ok(c))],
            policy: vec![("a", Ok(b)), ("new", Ok(a)), ("x", Ok(c))],
        });
    }
    cases
}

/// Machines with cgroup v1, with v2 and with systemd. Many writes are disturbed on each.
fn some_machines() -> Vec<Recorded> {
    let mut found = machines(3);
    found.retain(|it| ["6.1-rt-v1", "6.12-nvme", "6.12-rt-systemd"].contains(&it.name.as_str()));
    assert_eq!(found.len(), 3);
    found
}

fn changes(plan: &Plan) -> Vec<&Change> {
    // The kernel moves the threads of interrupts with their interrupts, a recording does not.
    let follows = |change: &&Change| matches!(change, Change::Affinity { comm, .. } if comm.starts_with("irq/"));
    plan.steps.iter().map(|step| &step.change).filter(|change| !follows(change)).collect()
}

#[test]
fn the_shields_of_a_policy_are_as_if_they_had_been_applied_one_by_one() {
    let mut idle = 0;
    for machine in &machines(2) {
        let [a, b] = [&machine.cpus[0], &machine.cpus[1]];
        let bench = PolicyBench::new(machine);
        bench.write_policy(&[("a", Ok(a)), ("b", Ok(b))]);
        let planned = bench.plan().unwrap();
        let applied = bench.apply(bench.bench.host()).0.unwrap();
        let made: Vec<&Plan> = applied.shields.iter().map(|shield| &shield.plan).collect();
        for (planned, made) in planned.iter().zip(&made) {
            let (planned, made) = (changes(planned), changes(made));
            let odd: Vec<_> = planned.iter().filter(|it| !made.contains(it)).collect();
            let lost: Vec<_> = made.iter().filter(|it| !planned.contains(it)).collect();
            assert!(odd.is_empty() && lost.is_empty(), "{}: {odd:?}, {lost:?}", machine.name);
        }
        let expected = machine.with_shields(&[0, 1]);
        same_apart_from_irq_threads(without_errors(expected.tree()), bench.tree(), &machine.name);
        let (again, writes) = bench.apply(bench.bench.host());
        same_apart_from_irq_threads(without_errors(expected.tree()), bench.tree(), &machine.name);
        idle += usize::from(writes == 0);
        let again = again.unwrap();
        let effects: Vec<ShieldEffect> = again.shields.iter().map(|shield| shield.what).collect();
        assert_eq!(effects, vec![ShieldEffect::Kept; 2], "{}", machine.name);
        bench.undo_all(&machine.name);
        same(&without_errors(machine.tree_with_shields(&[])), &bench.tree(), &machine.name);
    }
    // A recording does not show that the trace buffer has grown, so that step is repeated there.
    assert!(idle > 0, "every machine was written to although nothing had changed");
}

/// Makes the kernel refuse the last required write of a plan below the shield's group.
fn refuse_last_group_write(bench: &PolicyBench, plan: &Plan) -> bool {
    let group = plan.cgroup_dir().unwrap_or_default();
    let mut steps = plan.steps.iter().rev().filter(|step| step.required);
    let path = steps.find_map(|step| match &step.change {
        Change::Write { path, .. } if path.starts_with(&format!("{group}/")) => Some(path),
        _ => None,
    });
    let Some(path) = path else { return false };
    bench.add_error(&format!("write\t{path}\tEINVAL"));
    true
}

#[test]
fn the_shields_before_one_that_the_kernel_refuses_are_taken_back() {
    let mut lines = Vec::new();
    for machine in &machines(2) {
        for (n, case) in cases(machine).iter().enumerate() {
            let when = format!("{}: case {n}", machine.name);
            let bench = case.prepare(machine);
            let planned = bench.plan().unwrap();
            let active = bench.active();
            let is_new = |plan: &&Plan| active.iter().all(|(name, _)| *name != plan.shield.name);
            let last = planned.iter().rfind(is_new).unwrap();
            if !refuse_last_group_write(&bench, last) {
                continue;
            }
            let before = bench.tree();
            let failure = bench.apply(bench.bench.host()).0.unwrap_err();
            assert_eq!(failure.kind, FailureKind::Undone, "{when}: {failure}");
            let name = &last.shield.name;
            assert!(failure.message.starts_with(&format!("shield {name}: ")), "{when}: {failure}");
            lines.extend(failure.message.lines().skip(3).map(str::to_owned));
            same_apart_from_irq_threads(before, bench.tree(), &when);
            bench.undo_all(&when);
        }
    }
    let undone = lines.iter().filter(|line| *line == "  undone: shield b").count();
    let restored = lines.iter().filter(|line| line.starts_with("  restored: shield a on CPU "));
    assert!(undone > 2 && restored.count() > 2, "{lines:?}");
}

#[test]
fn nothing_is_half_made_whichever_write_is_refused() {
    for machine in &some_machines() {
        for (n, case) in cases(machine).iter().enumerate() {
            let bench = case.prepare(machine);
            let (applied, count) = bench.apply(bench.bench.host());
            applied.unwrap();
            for at in few_disturbed_writes(count) {
                let when = format!("{}: case {n}: write {at} of {count} refused", machine.name);
                let bench = case.prepare(machine);
                let (before, active) = (bench.tree(), bench.active());
                let fault = InjectedFault::Refuse { at, errno: 22 };
                match bench.apply(bench.bench.host().failing(fault)).0 {
                    Ok(_) => {}
                    Err(failure) if failure.kind == FailureKind::Undone => {
                        same_apart_from_irq_threads(before, bench.tree(), &when);
                        let by_name = |mut shields: Vec<(String, CpuSet)>| {
                            shields.sort_by(|a, b| a.0.cmp(&b.0));
                            shields
                        };
                        assert_eq!(by_name(bench.active()), by_name(active), "{when}");
                    }
                    Err(failure) => {
                        // Something of an old version remains: the message says what is active.
                        assert_eq!(failure.kind, FailureKind::NotUndone, "{when}: {failure}");
                        assert!(failure.message.contains("\n  active: "), "{when}: {failure}");
                    }
                }
                bench.undo_all(&when);
                same(&without_errors(machine.tree_with_shields(&[])), &bench.tree(), &when);
            }
        }
    }
}

#[test]
fn after_a_kill_each_shield_is_complete_or_is_ended_by_the_next_command() {
    for machine in &some_machines() {
        for (n, case) in cases(machine).iter().enumerate() {
            let whole = case.prepare(machine);
            let (applied, count) = whole.apply(whole.bench.host());
            applied.unwrap();
            let expected: Tree = whole.tree();
            for at in few_disturbed_writes(count) {
                let when = format!("{}: case {n}: killed at {at} of {count}", machine.name);
                let killed = || {
                    let bench = case.prepare(machine);
                    let fault = InjectedFault::Stop { at };
                    let failure = bench.apply(bench.bench.host().failing(fault)).0.unwrap_err();
                    assert!(failure.message.contains("cause: stopped"), "{when}: {failure}");
                    bench
                };
                let bench = killed();
                bench.undo_all(&when);
                same(&without_errors(machine.tree_with_shields(&[])), &bench.tree(), &when);
                let bench = killed();
                let (again, _) = bench.apply(bench.bench.host());
                if let Err(failure) = again {
                    // A shield that was being made is undone first, as the hint says.
                    let name = failure.hints.concat();
                    assert!(name.contains("cpushield undo"), "{when}: {failure}");
                    let store = bench.bench.store();
                    let next = apply::next_to_undo(&bench.bench.host(), &store).unwrap();
                    apply::undo(&bench.bench.host(), &store, next.as_deref()).unwrap();
                    bench.apply(bench.bench.host()).0.unwrap();
                }
                same_apart_from_irq_threads(expected.clone(), bench.tree(), &when);
                bench.undo_all(&when);
                same(&without_errors(machine.tree_with_shields(&[])), &bench.tree(), &when);
            }
        }
    }
}

#[test]
fn two_values_of_one_setting_are_refused_before_any_write() {
    // On cgroup v1, the file of the housekeeping programs belongs to the group of the operators.
    let machine = some_machines().remove(0);
    let bench = PolicyBench::new(&machine);
    bench.bench.put("/etc/group", "one:x:44:\ntwo:x:45:\n");
    let [a, b] = [&machine.cpus[0], &machine.cpus[1]];
    let shield = |name: &str, cpus: &CpuSet, group: &str| {
        format!("[shield.{name}]\ncpus = \"{cpus}\"\noperators.group = \"{group}\"\n")
    };
    let text = shield("a", a, "one") + &shield("b", b, "two");
    fs::write(bench.bench.scratch.0.join("policy.toml"), text).unwrap();
    let (refused, writes) = bench.apply(bench.bench.host());
    assert_eq!(
        refused.unwrap_err().message,
        "shields a and b of the policy need different values for access to \
         /sys/fs/cgroup/cpuset/cpushield_housekeeping/tasks: \"group 44\" and \"group 45\""
    );
    assert_eq!(writes, 0);
}

#[test]
fn a_conflict_is_refused_before_any_write() {
    let machines = machines(2);
    let machine = machines.first().unwrap();
    let [a, b] = [&machine.cpus[0], &machine.cpus[1]];
    let bench = PolicyBench::new(machine);
    bench.write_policy(&[("a", Ok(a)), ("b", Ok(a))]);
    let (refused, writes) = bench.apply(bench.bench.host());
    let message = refused.unwrap_err().message;
    assert_eq!(message, format!("shields a and b of the policy both request CPU {a}"));
    assert_eq!(writes, 0);
    // Active shields that are not in the policy stay.
    bench.write_policy(&[("x", Ok(b))]);
    bench.apply(bench.bench.host()).0.unwrap();
    bench.write_policy(&[("a", Ok(a)), ("b", Ok(b))]);
    let (refused, writes) = bench.apply(bench.bench.host());
    let message = refused.unwrap_err().message;
    assert_eq!(message, format!("shield b: CPU {b} is already in shield x"));
    assert_eq!(writes, 0);
    bench.write_policy(&[("a", Ok(a))]);
    let applied = bench.apply(bench.bench.host()).0.unwrap();
    let others: Vec<&str> = applied.others.iter().map(|shield| shield.name.as_str()).collect();
    assert_eq!(others, ["x"]);
    assert_eq!(bench.active().len(), 2);
}

#[test]
fn a_report_of_a_machine_with_several_shields_is_about_each_of_them() {
    let machine = &machines(2)[0];
    let [a, b] = [&machine.cpus[0], &machine.cpus[1]];
    let case = Case { before: Vec::new(), policy: vec![("b", Ok(b)), ("a", Ok(a))] };
    let bench = case.prepare(machine);
    bench.apply(bench.bench.host()).0.unwrap();
    let mut work = bench.work(bench.bench.host());
    let (material, documents) = collect_material(&work, &[]).unwrap();
    assert_eq!((material.doubts.len(), documents.len()), (0, 3));
    assert_eq!(material.shields(), [Some("a"), Some("b")]);
    // Each has the outcomes of its own changes.
    assert!(material.settings.iter().all(|shield| !shield.document.outcomes.is_empty()));
    let titles = |material| -> Vec<String> {
        let sections = page::report(material).sections.into_iter();
        sections.map(|section| section.title).filter(|title| title.contains("Shield ")).collect()
    };
    assert_eq!(titles(&material), ["Shield a", "Shield b"]);
    work.shield = Some("b".to_owned());
    let (material, _) = collect_material(&work, &[]).unwrap();
    assert_eq!(material.shields(), [Some("b")]);
    assert_eq!(titles(&material), Vec::<String>::new());
    bench.undo_all("a report");
}
