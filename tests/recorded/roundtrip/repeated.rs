//! A request for a number of CPUs that is applied again keeps the CPUs of the active shield.

use super::bench::Bench;
use super::many_shields::{Recorded, machines};
use cpushield::apply;
use cpushield::plan::Plan;
use cpushield::policy::{Siblings, WrittenShield};
use cpushield::ui::{OutputFormat, StatusLines, Ui};
use cpushield::workflow::WorkContext;
use cpushield::workflow::apply_policy::apply_policy;
use cpushield::workflow::apply_shield::{PlanSource, ProgramsInTheWay, apply_source};
use cpushield::workflow::shield_options::{PolicyOptions, ShieldOptions};
use cpushield_linux::CpuSet;
use std::fs;

/// Applies a request as `cpushield apply` does, and returns the CPUs of the only shield.
fn apply(bench: &Bench, options: &ShieldOptions) -> CpuSet {
    let ui = Ui::new(OutputFormat::Text, StatusLines::Suppressed);
    let work = work(bench, &ui);
    let mut options = options.clone();
    options.written.siblings = options.written.siblings.or(Some(Siblings::Share));
    apply_source(&work, &PlanSource::Options(options), ProgramsInTheWay::Refuse).unwrap();
    only_shield(bench)
}

fn work<'a>(bench: &Bench, ui: &'a Ui) -> WorkContext<'a> {
    let state_dir = bench.scratch.0.join("state");
    WorkContext { ui, host: bench.host(), store: bench.store(), state_dir, shield: None }
}

fn only_shield(bench: &Bench) -> CpuSet {
    let plans: Vec<Plan> = apply::active_plans(&bench.host(), &bench.store()).unwrap();
    assert_eq!(plans.len(), 1);
    plans[0].shield.cpus.clone()
}

fn count(n: usize) -> ShieldOptions {
    let written = WrittenShield { count: Some(n), ..WrittenShield::default() };
    ShieldOptions { written, ..ShieldOptions::default() }
}

fn some_machines() -> Vec<Recorded> {
    let mut found = machines(2);
    found.retain(|it| ["6.1-rt-v1", "6.12-nvme", "6.12-rt-4"].contains(&it.name.as_str()));
    assert_eq!(found.len(), 3);
    found
}

#[test]
fn a_repeated_count_keeps_the_cpus_and_a_larger_one_adds_some() {
    for machine in some_machines() {
        // These are not the CPUs that cpushield would choose.
        let other = machine.cpus[1].clone();
        let bench = machine.bench();
        assert_eq!(apply(&bench, &ShieldOptions::of_list(&other)), other, "{}", machine.name);
        for options in [count(1), count(1), ShieldOptions::default()] {
            assert_eq!(apply(&bench, &options), other, "{}: {options:?}", machine.name);
        }
        let grown = apply(&bench, &count(2));
        assert!(other.is_subset(&grown) && grown.len() == 2, "{}: {grown}", machine.name);
    }
}

#[test]
fn a_policy_with_a_count_keeps_the_shield_where_it_is() {
    for machine in some_machines() {
        let other = machine.cpus[1].clone();
        let bench = machine.bench();
        apply(&bench, &ShieldOptions::of_list(&other));
        let policy = bench.scratch.0.join("policy.toml");
        fs::write(&policy, "[shield.cpushield]\ncount = 1\nsiblings = \"share\"\n").unwrap();
        let policy = Some(policy.display().to_string());
        let named = ShieldOptions { policy: policy.clone(), ..ShieldOptions::default() };
        assert_eq!(apply(&bench, &named), other, "{}", machine.name);
        let ui = Ui::new(OutputFormat::Text, StatusLines::Suppressed);
        let options = PolicyOptions { policy, ..PolicyOptions::default() };
        apply_policy(&work(&bench, &ui), &options, ProgramsInTheWay::Refuse).unwrap();
        assert_eq!(only_shield(&bench), other, "{}: --all", machine.name);
    }
}
