//! A fair server that the kernel refuses to disable, because it lost count of its bandwidth
//! (6.12).

use super::bench::{Bench, Tree, file, same};
use super::trees;
use cpushield::apply::{self, ChangeFate};
use cpushield::change::{Change, Outcome, ValueComparison};
use cpushield::plan::Plan;
use cpushield::refusal::UserError;
use cpushield_simulator::{InjectedFault, Simulated};

const SERVER: &str = "/sys/kernel/debug/sched/fair_server/cpu3/runtime";
const PARTITION: &str = "/sys/fs/cgroup/cpushield/cpuset.cpus.partition";

fn machine() -> (Tree, Plan) {
    let mut tree = trees::v2();
    tree.insert(SERVER[1..].into(), file("50000000\n"));
    let mut plan = trees::v2_plan();
    let mut step = plan.steps[0].clone();
    (step.change, step.required) = (trees::write(SERVER, "0", ValueComparison::Text), false);
    "fair-server".clone_into(&mut step.tunable);
    let keep = plan.steps.iter().position(|step| step.change == Change::KeepAffinities).unwrap();
    plan.steps.insert(keep + 1, step);
    (tree, plan)
}

fn outcomes(applied: &apply::AppliedPlan) -> Vec<&Outcome> {
    let of = applied.steps.iter().filter(|step| step.subject == SERVER);
    of.map(|step| &step.done.outcome).collect()
}

#[test]
fn a_busy_fair_server_is_reported_and_a_kill_at_any_write_loses_nothing() {
    let (mut tree, plan) = machine();
    let errors = format!("write\t{SERVER}\tEBUSY\n");
    tree.insert("errors.tsv".into(), file(errors));
    let bench = Bench::of(&tree);
    let (before, host) = (bench.tree(), bench.host());
    let applied = bench.apply(&host, &plan).unwrap();
    match outcomes(&applied)[..] {
        [Outcome::Refused { reason, .. }] => {
            assert!(reason.contains("when it rebuilt scheduling domains"), "{reason}");
        }
        ref others => panic!("{others:?}"),
    }
    assert_eq!(host.read_line(PARTITION).unwrap(), "isolated");
    apply::undo(&bench.host(), &bench.store(), None).unwrap();
    same(&before, &bench.tree(), "refused");
    for at in 0..host.writes() {
        let killed =
            bench.apply(&bench.host().failing(InjectedFault::Stop { at }), &plan).unwrap_err();
        assert!(killed.is_stop(), "{at}: {killed}");
        let undone = apply::undo(&bench.host(), &bench.store(), None).unwrap();
        let drifted =
            undone.steps.iter().any(|step| matches!(step.fate, ChangeFate::Drifted { .. }));
        assert!(undone.is_complete() && !drifted, "{at}: {undone:#?}");
        same(&before, &bench.tree(), "killed");
    }
}
