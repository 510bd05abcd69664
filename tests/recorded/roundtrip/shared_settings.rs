//! Settings that several shields change: what another process does to one between two applies is
//! kept, and each shield owns what it needs.

use super::bench::{Bench, Tree, disturbed_writes, same};
use super::many_shields::{
    NAMES, Recorded, machines, plan_shield, plan_with, same_apart_from_irq_threads,
};
use crate::recordings;
use cpushield::apply::{self, AppliedPlan, ShieldNote, UndoneShield, UnrestoredChanges};
use cpushield::change::{Change, Outcome};
use cpushield::plan::{ChoiceReason, Plan, PlanWarning, SettingsFate, Step, VersionSettings};
use cpushield::policy::{
    DisturbanceConsent, ShieldRequest, Siblings, TunableSetting, WrittenShield,
};
use cpushield::refusal::UserError;
use cpushield::run;
use cpushield::ui::{OutputFormat, StatusLines, Ui};
use cpushield::workflow::WorkContext;
use cpushield::workflow::apply_shield::{
    PlanSource, ProgramsInTheWay, apply_source, preview_source,
};
use cpushield::workflow::shield_options::ShieldOptions;
use cpushield::workflow::take_down::{take_all_down, take_down};
use cpushield_linux::{CpuSet, Host, TaskId};
use cpushield_simulator::{InjectedFault, Simulated};

/// One value, and a set of CPUs.
const INTERVAL: &str = "/proc/sys/vm/stat_interval";
const WATCHDOG: &str = "/proc/sys/kernel/watchdog_cpumask";

fn plan(machine: &Recorded, bench: &Bench, n: usize) -> Plan {
    plan_shield(bench, NAMES[n], Some(&machine.cpus[n])).unwrap()
}

fn written<'a>(plan: &'a Plan, file: &str) -> Option<&'a Step> {
    plan.steps
        .iter()
        .find(|step| matches!(&step.change, Change::Write { path, .. } if path == file))
}

/// A thread that a plan moves, other than that of an interrupt.
fn moved_thread(plan: &Plan) -> TaskId {
    let mut moved = plan.steps.iter().filter_map(|step| match &step.change {
        Change::Affinity { task, comm, .. } if !comm.starts_with("irq/") => Some(*task),
        _ => None,
    });
    moved.next().unwrap()
}

/// What another process does: a value, a set, and the affinity of a thread, which includes a CPU of
/// the second shield.
struct Meddling {
    thread: TaskId,
    cpus: CpuSet,
}

impl Meddling {
    fn new(machine: &Recorded, bench: &Bench) -> Meddling {
        let thread = moved_thread(&plan(machine, bench, 0));
        Meddling { thread, cpus: CpuSet::single(0).union(&machine.cpus[1]) }
    }

    fn meddle(&self, bench: &Bench) {
        let user = bench.host();
        for (path, value) in [(INTERVAL, "9"), (WATCHDOG, "0")] {
            if user.exists(path) {
                user.write(path, value).unwrap();
            }
        }
        user.set_affinity(self.thread.tid, &self.cpus).unwrap();
    }

    /// The machine on which this happened, and no shield was ever applied.
    fn alone(&self, machine: &Recorded) -> Tree {
        let bench = machine.bench();
        self.meddle(&bench);
        bench.tree()
    }
}

fn undo(bench: &Bench, n: usize, when: &str) {
    let undone = apply::undo(&bench.host(), &bench.store(), Some(NAMES[n])).unwrap();
    assert!(undone.is_complete(), "{when}: undo of {}: {undone:#?}", NAMES[n]);
}

/// The subjects of the notes about values and about affinities of other processes.
fn reported(applied: &AppliedPlan) -> (Vec<&str>, Vec<TaskId>) {
    let (mut values, mut threads) = (Vec::new(), Vec::new());
    for note in &applied.notes {
        match note {
            ShieldNote::ForeignValue { subject, .. } => values.push(subject.as_str()),
            ShieldNote::ForeignAffinities { tasks } => threads.extend(tasks),
            _ => {}
        }
    }
    values.sort_unstable();
    (values, threads)
}

#[test]
fn what_another_process_changed_before_a_shield_joined_is_reported_and_comes_back() {
    for machine in &machines(2) {
        for order in [[0, 1], [1, 0]] {
            let when = format!("{}: {order:?}", machine.name);
            let bench = machine.with_shields(&[0]);
            let meddling = Meddling::new(machine, &machine.bench());
            meddling.meddle(&bench);
            let joining = plan(machine, &bench, 1);
            let applied = bench.apply(&bench.host(), &joining).unwrap();
            let expected: Vec<&str> = [WATCHDOG, INTERVAL]
                .into_iter()
                .filter(|file| written(&joining, file).is_some())
                .collect();
            assert!(expected.contains(&INTERVAL), "{when}");
            assert_eq!(reported(&applied), (expected, vec![meddling.thread]), "{when}");
            order.into_iter().for_each(|n| undo(&bench, n, &when));
            same_apart_from_irq_threads(meddling.alone(machine), bench.tree(), &when);
        }
    }
}

#[test]
fn it_comes_back_after_a_kill_and_from_a_changed_shield_too() {
    let machines = machines(2);
    for machine in machines.iter().take(2) {
        let meddling = Meddling::new(machine, &machine.bench());
        let prepare = || {
            let bench = machine.with_shields(&[0]);
            meddling.meddle(&bench);
            bench
        };
        let bench = prepare();
        let (host, joining) = (bench.host(), plan(machine, &bench, 1));
        bench.apply(&host, &joining).unwrap();
        for at in disturbed_writes(host.writes()) {
            let when = format!("{}: killed at {at}", machine.name);
            let bench = prepare();
            let killed = bench.apply(&bench.host().failing(InjectedFault::Stop { at }), &joining);
            assert!(matches!(&killed, Err(error) if error.is_stop()), "{when}: {killed:?}");
            undo(&bench, 1, &when);
            undo(&bench, 0, &when);
            same_apart_from_irq_threads(meddling.alone(machine), bench.tree(), &when);
        }
        let bench = prepare();
        let both = machine.cpus[0].union(&machine.cpus[1]);
        let grown = plan_shield(&bench, NAMES[0], Some(&both)).unwrap();
        apply::replace(&bench.host(), &bench.store(), &grown, &mut |_| {}).unwrap();
        undo(&bench, 0, &machine.name);
        same_apart_from_irq_threads(meddling.alone(machine), bench.tree(), &machine.name);
    }
}

/// Makes the kernel refuse a write.
fn refuse(bench: &Bench, path: &str) {
    let known = bench.text("/errors.tsv").unwrap_or_default();
    bench.put("/errors.tsv", &format!("{known}write\t{path}\tEINVAL\n"));
}

#[test]
fn a_value_that_a_shield_was_refused_to_change_is_no_original() {
    let machine = &machines(2)[0];
    let bench = machine.bench();
    let known = bench.text("/errors.tsv").unwrap_or_default();
    refuse(&bench, INTERVAL);
    let applied = bench.apply(&bench.host(), &plan(machine, &bench, 0)).unwrap();
    let refused = applied.steps.iter().find(|step| step.subject == INTERVAL).unwrap();
    assert!(matches!(refused.done.outcome, Outcome::Refused { .. }), "{refused:?}");
    bench.put("/errors.tsv", &known);
    bench.host().write(INTERVAL, "9").unwrap();
    bench.apply(&bench.host(), &plan(machine, &bench, 1)).unwrap();
    let value = |host: &Host| host.read_line(INTERVAL).unwrap();
    assert_eq!(value(&bench.host()), "3600");
    undo(&bench, 1, "refused");
    assert_eq!(value(&bench.host()), "9");
    undo(&bench, 0, "refused");
    assert_eq!(value(&bench.host()), "9");
}

#[test]
fn a_foreign_value_is_seen_although_another_shield_was_refused_to_change_the_setting() {
    let machines = machines(2);
    let with_watchdog = |machine: &&Recorded| {
        let bench = machine.bench();
        (0..2).all(|n| written(&plan(machine, &bench, n), WATCHDOG).is_some())
    };
    let machine = machines.iter().find(with_watchdog).unwrap();
    let bench = machine.with_shields(&[0]);
    refuse(&bench, WATCHDOG);
    bench.apply(&bench.host(), &plan(machine, &bench, 1)).unwrap();
    bench.put("/errors.tsv", "");
    bench.host().write(WATCHDOG, "0").unwrap();
    let status = run::status(&bench.host(), &bench.store(), Some(NAMES[0])).unwrap();
    let drift = status.shields[0].drift.iter().map(|drift| drift.what.as_str());
    assert_eq!(drift.collect::<Vec<_>>(), [WATCHDOG]);
    undo(&bench, 1, "refused");
    assert_eq!(bench.host().read_line(WATCHDOG).unwrap(), "0");
    undo(&bench, 0, "refused");
    assert_eq!(bench.host().read_line(WATCHDOG).unwrap(), "0");
}

#[test]
fn a_shield_that_is_amended_owns_the_setting_although_another_one_has_it() {
    let machine = &machines(2)[0];
    let bench = machine.with_shields(&[0]);
    let mut other = plan(machine, &bench, 1);
    let step = written(&other, INTERVAL).unwrap().clone();
    other.steps.retain(|it| *it != step);
    bench.apply(&bench.host(), &other).unwrap();
    let value = || bench.host().read_line(INTERVAL).unwrap();
    for _ in 0..2 {
        apply::amend(&bench.host(), &bench.store(), NAMES[1], std::slice::from_ref(&step)).unwrap();
    }
    let plans = apply::active_plans(&bench.host(), &bench.store()).unwrap();
    // A repeated amendment adds nothing.
    let own = plans[1].steps.iter().filter(|it| it.change == step.change);
    assert_eq!(own.count(), 1);
    undo(&bench, 0, "amended");
    assert_eq!(value(), "3600");
    undo(&bench, 1, "amended");
    same_apart_from_irq_threads(machine.bench().tree(), bench.tree(), "amended");
}

const POLLING: &str = "mce-check-interval";

/// Two active shields, of which only the first one has stopped the polling for machine checks.
fn polling_stopped_by_one() -> (Recorded, Bench) {
    let has_it = |plan: &Plan| plan.steps.iter().any(|step| step.tunable == POLLING);
    let mut machines = machines(2).into_iter();
    let machine = machines.find(|it| has_it(&plan(it, &it.bench(), 0))).unwrap();
    let bench = machine.with_shields(&[0]);
    let mut other = plan(&machine, &bench, 1);
    other.steps.retain(|step| step.tunable != POLLING);
    bench.apply(&bench.host(), &other).unwrap();
    (machine, bench)
}

fn work<'a>(ui: &'a Ui, bench: &Bench, shield: &str) -> WorkContext<'a> {
    let state_dir = bench.scratch.0.join("state");
    let (host, store) = (bench.host(), bench.store());
    WorkContext { ui, host, store, state_dir, shield: Some(shield.to_owned()) }
}

#[test]
fn undo_says_which_shields_the_restored_settings_have_interrupted() {
    let (machine, bench) = polling_stopped_by_one();
    let ui = Ui::new(OutputFormat::Text, StatusLines::Suppressed);
    let interrupted = |undone: &UndoneShield| -> Vec<String> {
        let notes = undone.notes.iter().filter(|it| matches!(it, ShieldNote::Interrupted { .. }));
        notes.map(ToString::to_string).collect()
    };
    let undone = take_down(&work(&ui, &bench, "a"), UnrestoredChanges::Keep).unwrap();
    let expected = format!(
        "restoring {POLLING} interrupted shield b (CPU {}): it interrupts every CPU once",
        machine.cpus[1]
    );
    assert_eq!(interrupted(&undone), [expected]);
    let undone = take_down(&work(&ui, &bench, "b"), UnrestoredChanges::Keep).unwrap();
    assert_eq!(interrupted(&undone), Vec::<String>::new());
    // Shields that are undone together are not spared.
    let (_, bench) = polling_stopped_by_one();
    let undone = take_all_down(&work(&ui, &bench, "a"), UnrestoredChanges::Keep).unwrap();
    assert_eq!(undone.iter().flat_map(interrupted).count(), 0);
}

#[test]
fn a_change_names_what_goes_and_comes_and_needs_consent_to_interrupt_others() {
    let (machine, bench) = polling_stopped_by_one();
    let ui = Ui::new(OutputFormat::Text, StatusLines::Suppressed);
    let request = |disturbance| {
        let cpus = Some(machine.cpus[0].to_string());
        let siblings = Some(Siblings::Share);
        PlanSource::Options(ShieldOptions {
            written: WrittenShield { cpus, siblings, ..WrittenShield::default() },
            shield: Some("a".to_owned()),
            on: vec!["writeback-interval".to_owned()],
            off: vec![POLLING.to_owned()],
            disturbance,
            ..ShieldOptions::default()
        })
    };
    let context = work(&ui, &bench, "a");
    let source = request(DisturbanceConsent::NotGiven);
    let preview = preview_source(&context, &source).unwrap_err();
    let refused = apply_source(&context, &source, ProgramsInTheWay::Refuse).unwrap_err();
    for failure in [preview, refused] {
        assert_eq!(failure.kind.code(), 3);
        assert!(failure.message.contains("this interrupts shield b"), "{failure}");
        assert!(failure.hints[0].ends_with("--disturb"), "{failure}");
    }
    assert_eq!(context.host.writes(), 0);
    let source = request(DisturbanceConsent::Given);
    let shown = preview_source(&context, &source).unwrap();
    let (applied, plan) = apply_source(&context, &source, ProgramsInTheWay::Refuse).unwrap();
    let warned = |it: &PlanWarning| matches!(it, PlanWarning::RestoringInterrupts { .. });
    assert_eq!(plan.warnings.iter().filter(|it| warned(it)).count(), 1);
    let expected: [(SettingsFate, &str, &str); 2] = [
        (SettingsFate::Added, "writeback-interval", "/proc/sys/vm/dirty_writeback_centisecs"),
        (
            SettingsFate::Dropped,
            POLLING,
            "/sys/devices/system/machinecheck/machinecheck0/check_interval",
        ),
    ];
    let expected = expected.map(|(fate, tunable, setting)| VersionSettings {
        fate,
        tunable: tunable.to_owned(),
        settings: vec![setting.to_owned()],
    });
    // In a recording, the threads of interrupts do not follow them.
    let follows = |settings: &VersionSettings| settings.tunable == "kthreads";
    let in_plan = shown.why.into_iter().filter_map(|why| match why {
        ChoiceReason::Settings(settings) => Some(settings).filter(|it| !follows(it)),
        _ => None,
    });
    assert_eq!(in_plan.collect::<Vec<_>>(), expected);
    let noted = applied.notes.into_iter().filter_map(|note| match note {
        ShieldNote::Settings(settings) => Some(settings).filter(|it| !follows(it)),
        _ => None,
    });
    assert_eq!(noted.collect::<Vec<_>>(), expected);
}

#[test]
fn the_value_of_a_tunable_changes_with_an_active_shield() {
    let bench = Bench::of_recording(&recordings::root("6.12-rt-4"));
    let file = |cpu| format!("/sys/devices/system/cpu/cpu{cpu}/power/pm_qos_resume_latency_us");
    bench.put("/sys/devices/system/cpu/cpuidle/current_driver", "intel_idle\n");
    for cpu in 0..4 {
        bench.put(&file(cpu), "0\n");
    }
    let before = bench.tree();
    let plan = |value: &str| {
        let limit = TunableSetting::Value(value.to_owned());
        let plan = plan_with(&bench, NAMES[0], |request| ShieldRequest {
            cpus: Some(CpuSet::single(3)),
            tunables: [("cpu-idle".to_owned(), limit)].into(),
            ..request
        });
        let text = serde_json::to_string(&plan.unwrap()).unwrap();
        Plan::parse(&text, "saved").unwrap()
    };
    bench.apply(&bench.host(), &plan("20us")).unwrap();
    for (value, written) in [("50us", "50"), ("5us", "5"), ("0us", "n/a"), ("20us", "20")] {
        let changed = plan(value);
        assert!(changed.shield.request_command("x").contains(&format!("--on cpu-idle={value}")));
        apply::replace(&bench.host(), &bench.store(), &changed, &mut |_| {}).unwrap();
        let now = |cpu| bench.host().read_line(&file(cpu)).unwrap();
        assert_eq!((now(3).as_str(), now(2).as_str()), (written, "0"));
    }
    undo(&bench, 0, "changed");
    same(&before, &bench.tree(), "changed values");
}

#[test]
fn the_governor_of_cpus_with_one_policy_stays_while_one_of_them_is_shielded() {
    let root = recordings::root("6.12-rt-4");
    let machine = || {
        let bench = Bench::of_recording(&root);
        let cpus = "/sys/devices/system/cpu";
        for (file, text) in [("related_cpus", "2 3\n"), ("scaling_governor", "powersave\n")] {
            bench.put(&format!("{cpus}/cpufreq/policy2/{file}"), text);
        }
        for cpu in ["cpu2", "cpu3"] {
            bench.link(&format!("{cpus}/{cpu}/cpufreq"), "../cpufreq/policy2");
        }
        bench
    };
    let plan = |bench: &Bench, name: &str, cpu: usize| {
        let plan = plan_with(bench, name, |request| ShieldRequest {
            cpus: Some(CpuSet::single(cpu)),
            tunables: [("cpu-governor".to_owned(), true)].into(),
            ..request
        });
        plan.unwrap()
    };
    let governor = |bench: &Bench, cpu: usize| {
        let file = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
        bench.host().read_line(&file).unwrap()
    };
    for (first, second) in [(0, 1), (1, 0)] {
        let bench = machine();
        for (n, cpu) in [(0, 2), (1, 3)] {
            bench.apply(&bench.host(), &plan(&bench, NAMES[n], cpu)).unwrap();
        }
        undo(&bench, first, "shared");
        assert_eq!(governor(&bench, 2), "performance");
        undo(&bench, second, "shared");
        assert_eq!(governor(&bench, 3), "powersave");
    }
    let bench = machine();
    bench.apply(&bench.host(), &plan(&bench, "a", 2)).unwrap();
    apply::replace(&bench.host(), &bench.store(), &plan(&bench, "a", 3), &mut |_| {}).unwrap();
    assert_eq!(governor(&bench, 3), "performance");
    undo(&bench, 0, "changed");
    assert_eq!(governor(&bench, 3), "powersave");
}
