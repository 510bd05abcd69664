//! The proposals for real machines: a person has reviewed each choice.

use crate::recordings;
use cpushield::boot;
use cpushield::change::{Change, EffectTime, ValueComparison};
use cpushield::plan::{ActiveShields, CpuChoice, Plan, Step, check_saved, choose, plan};
use cpushield::policy::{ShareLevel, ShieldRequest, TunableSetting, TunableSettings};
use cpushield::report;
use cpushield::report::blocks::{terminal_blocks, unpainted};
use cpushield::report::plan::{PlanDetail, PlannedMachine};
use cpushield::survey::{Machine, survey};
use cpushield::tunables;
use cpushield_linux::Host;
use std::collections::BTreeSet;
use std::fs;

/// Machine, and the proposals for: no request, two CPUs, a private L3 cache. `3,7/7` is CPUs 3 and
/// 7, of which 7 stays idle.
const PROPOSED: &[(&str, &str, &str, &str)] = &[
    // Three CPUs of eight are in use, the lowest is 4.
    ("android-alcatel-revvl", "6", "5-6", "share an L3 cache"),
    ("android-galaxy-a8-2018", "7", "6-7", "share an L3 cache"),
    ("android-galaxy-c9-pro", "7", "5,7", "share an L3 cache"),
    ("android-galaxy-s9-us", "7", "6-7", "cannot have an L3 cache to itself"),
    ("android-huawei-honor-6", "7", "6-7", "share an L3 cache"),
    // L2 caches of four: too much without a request. (It has no L3: what shares L2 is one group.)
    ("android-oneplus-5", "7", "6-7", "4-7"),
    ("android-nexus-s", "one CPU", "one CPU", "one CPU"),
    (
        "ghw-linux-amd64-intel-xeon-L5640",
        "11,23/23",
        "9,11,21,23/21,23",
        "cannot have an L3 cache to itself",
    ),
    ("ghw-linux-amd64-offlineCPUs", "1", "the maximum is 1", "1"),
    ("hwloc-128arm-2pa2n8cluster4co", "127", "126-127", "cannot have an L3 cache to itself"),
    ("hwloc-16em64t-4s2c2t-offlines", "7,15/15", "4,7,12,15/12,15", "3,7,11,15/11,15"),
    // Pairs that share an L2 cache, not numbered side by side.
    ("hwloc-16em64t-4s2ca2c-cpusetreorder", "7,15", "7,15", "3,7,11,15"),
    // The performance cores are 0 to 11.
    (
        "hwloc-20em64t-hybrid-1p6c2t+2ca4co1t",
        "10-11/11",
        "8-11/9,11",
        "cannot have an L3 cache to itself",
    ),
    ("hwloc-256ia64-64n2s2c", "255", "254-255", "share an L3 cache"),
    ("hwloc-28em64t-2s2n7c-buggycoresiblings", "27", "26-27", "cannot have an L3 cache to itself"),
    // One CPU in each node.
    ("hwloc-2amd64-2n", "no CPU", "no CPU", "cannot have an L3 cache to itself"),
    // Two CPUs share the one L2 cache.
    ("hwloc-2i386-2c-nohugepage", "1", "the maximum is 1", "cannot have an L3 cache to itself"),
    // One core.
    ("hwloc-2ps3-2t", "no CPU", "no CPU", "share an L3 cache"),
    (
        "hwloc-4em64t-2c2t-ignore-reorder",
        "1,3/3",
        "the maximum is 1",
        "cannot have an L3 cache to itself",
    ),
    // Modules of two cores that share an L2 cache are SMT siblings to the kernel.
    ("hwloc-64amd64-4s2n4ca2co", "62-63/63", "60-63/61,63", "cannot have an L3 cache to itself"),
    ("hwloc-8em64t-2s2ca2c", "3,7", "3,7", "3,7"),
    // Some CPUs have no L2 cache.
    ("hwloc-8em64t-2s4c-asymcaches", "3,7", "3,7", "3,7"),
    ("hwloc-nvidia-dgx-gb10", "19", "18-19", "10-19"),
    ("libvirt-ppc64-deconf-cpus", "136", "128,136", "share an L3 cache"),
    ("lscpu-ppc64-POWER7", "12-15/13-15", "8-15/9-11,13-15", "share an L3 cache"),
    ("lscpu-rv64-visionfive2", "3", "2-3", "cannot have an L3 cache to itself"),
    ("lscpu-x86_64-64cpu-linux6.2", "3,7/7", "2-3,6-7/6-7", "cannot have an L3 cache to itself"),
    ("lscpu-x86_64-epyc_7451", "47,95/95", "46-47,94-95/94-95", "45-47,93-95/93-95"),
    ("nri-desktop", "9,19/19", "8-9,18-19/18-19", "cannot have an L3 cache to itself"),
    ("nri-server", "7,63/63", "7,55,63,111/63,111", "cannot have an L3 cache to itself"),
    (
        "nto-bare-metal-master",
        "55,111/111",
        "53,55,109,111/109,111",
        "cannot have an L3 cache to itself",
    ),
    ("nto-sno-sno", "11", "10-11", "cannot have an L3 cache to itself"),
];

fn proposed(machine: &Machine, wish: &ShieldRequest) -> String {
    match choose(machine, wish) {
        Ok(CpuChoice { shield, .. }) if shield.idle_siblings.is_empty() => shield.cpus.to_string(),
        Ok(CpuChoice { shield, .. }) => format!("{}/{}", shield.cpus, shield.idle_siblings),
        Err(refused) => refused.to_string(),
    }
}

#[test]
fn real_machines_get_the_shield_that_an_expert_would_choose() {
    let Some(data) = recordings::data() else { return };
    let mut wrong = Vec::new();
    for (name, alone, two, own_cache) in PROPOSED {
        let machine = recordings::machine(&data, name);
        for (wish, wanted) in [
            (ShieldRequest::default(), alone),
            (ShieldRequest { count: Some(2), ..ShieldRequest::default() }, two),
            (ShieldRequest { share: Some(ShareLevel::L3), ..ShieldRequest::default() }, own_cache),
        ] {
            let found = proposed(&machine, &wish);
            let refused = wanted.contains(|c: char| c.is_alphabetic());
            if !(found == **wanted || refused && found.contains(wanted)) {
                wrong.push(format!("{name} {:?} {:?}: {found}", wish.count, wish.share));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_real_machine_gets_a_plan_or_a_reason() {
    let Some(data) = recordings::data() else { return };
    let mut plans = 0;
    for entry in fs::read_dir(data.join("machines")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name == "index.csv" {
            continue;
        }
        let machine = recordings::machine(&data, &name);
        if let Ok(plan) = plan(&machine, &ShieldRequest::default()) {
            let text = serde_json::to_string_pretty(&plan).unwrap();
            let read = cpushield::plan::Plan::parse(&text, &name).unwrap();
            assert_eq!(read, plan, "{name}");
            plans += 1;
        }
    }
    assert!(plans > 50, "{plans}");
}

/// Files that run commands as root, crash the machine, or open it.
const DANGEROUS: [&str; 8] = [
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/poweroff_cmd",
    "/proc/sys/kernel/randomize_va_space",
    "/proc/sys/vm/panic_on_oom",
    "/sys/kernel/uevent_helper",
    "/sys/fs/cgroup/release_agent",
    "/sys/devices/system/cpu/cpu0/online",
];

/// Values that no tunable wants for a file whose value is no set of CPUs.
const FOREIGN: [&str; 4] = ["|/tmp/x", "0x1", "2147483647", "powersave"];

#[test]
fn a_saved_plan_has_only_what_its_tunables_want() {
    let tunables = || tunables::TUNABLES.iter().map(|tunable| tunable.name);
    let mut all: TunableSettings = tunables().map(|name| (name.to_owned(), true)).collect();
    // These machines have no deep sleep states.
    all.set("cpu-idle", TunableSetting::Value("0us".to_owned()));
    let request = ShieldRequest { tunables: all, ..ShieldRequest::default() };
    let (mut read, mut refused) = (BTreeSet::new(), 0);
    for (name, dir) in recordings::own() {
        let host = Host::recorded(&dir.join("root")).unwrap();
        let machine = survey(&host, &tunables::reads());
        let parsed = |plan: &Plan| Plan::parse(&serde_json::to_string(plan).unwrap(), &name);
        let plan = plan(&machine, &request).unwrap();
        assert_eq!(parsed(&plan).as_ref(), Ok(&plan));
        let alone = ActiveShields::default();
        assert_eq!(check_saved(&machine, &plan, &alone), Ok(()), "{name}");
        let mut must_fail = |n: usize, step: Step| {
            refused += 1;
            // All of a plan is read and compared, which takes longer.
            if refused % 20 == 0 {
                let mut plan = plan.clone();
                plan.steps[n] = step;
                let accepted =
                    parsed(&plan).is_ok() && check_saved(&machine, &plan, &alone).is_ok();
                assert!(!accepted, "{name}: {:#?}", plan.steps[n]);
            }
        };
        for (n, step) in plan.steps.iter().enumerate() {
            read.insert(step.tunable.clone());
            // Threads are moved by two tunables.
            let alike = matches!(step.change, Change::Affinity { .. });
            for other in tunables().filter(|other| *other != step.tunable && !alike) {
                must_fail(n, Step { tunable: other.to_owned(), ..step.clone() });
            }
            must_fail(n, Step { when: EffectTime::Boot, ..step.clone() });
            let Change::Write { path, value, compare, what } = &step.change else { continue };
            let what = *what;
            let all = [
                ValueComparison::Text,
                ValueComparison::List,
                ValueComparison::Mask,
                ValueComparison::Member,
                ValueComparison::Word,
                ValueComparison::Again,
            ];
            for compare in all.into_iter().filter(|other| other != compare) {
                let (path, value) = (path.clone(), value.clone());
                let change = Change::Write { path, value, compare, what };
                must_fail(n, Step { change, ..step.clone() });
            }
            for path in DANGEROUS {
                let (path, value, compare) = (path.to_owned(), value.clone(), *compare);
                let change = Change::Write { path, value, compare, what };
                must_fail(n, Step { change, ..step.clone() });
            }
            let shielded = plan.shield.housekeeping.union(&plan.shield.cpus);
            let values = match compare {
                ValueComparison::List => vec![shielded.to_string()],
                ValueComparison::Mask => vec![shielded.to_mask()],
                _ => FOREIGN.map(str::to_owned).into(),
            };
            for value in values.into_iter().filter(|_| !path.ends_with("mems")) {
                let (path, compare) = (path.clone(), *compare);
                let change = Change::Write { path, value, compare, what };
                must_fail(n, Step { change, ..step.clone() });
            }
        }
    }
    assert!(read.len() > 15 && refused > 1000, "{refused} of {read:?}");
}

#[test]
fn recorded_machines_are_planned_as_expected() {
    for (name, dir) in recordings::own() {
        let host = Host::recorded(&dir.join("root")).unwrap();
        let machine = survey(&host, &tunables::reads());
        let text = match plan(&machine, &ShieldRequest::default()) {
            Ok(plan) => terminal_blocks(
                &report::plan::blocks(&plan, PlanDetail::EveryChange, PlannedMachine::Live),
                120,
                &unpainted,
            ),
            Err(refused) => format!("refused: {refused}\n"),
        };
        assert!(!text.is_empty(), "{name}");
        recordings::expect(&dir.join("plan.txt"), &text);
    }
}

#[test]
fn unrequested_interrupts_are_distinguished_as_in_the_survey() {
    let host = Host::recorded(&recordings::root("6.12-rt-4")).unwrap();
    let machine = survey(&host, &tunables::reads());
    let survey = terminal_blocks(&report::machine::blocks(&machine, &[]), 120, &unpainted);
    assert!(survey.contains("  17 interrupts in use, 12 can be moved\n"), "{survey}");
    let plan = plan(&machine, &ShieldRequest::default()).unwrap();
    let text = report::plan::blocks(&plan, PlanDetail::Summary, PlannedMachine::Live);
    let text = terminal_blocks(&text, 120, &unpainted);
    assert!(
        text.contains(" 22 interrupts, 12 in use, to CPUs 0-2: 1, 2, 3, 4, 5 and 17"),
        "{text}"
    );
}

#[test]
fn surveys_and_plans_of_recorded_machines_fit_the_terminal() {
    for (name, dir) in recordings::own() {
        let host = Host::recorded(&dir.join("root")).unwrap();
        let machine = survey(&host, &tunables::reads());
        let plan = plan(&machine, &ShieldRequest::default()).unwrap();
        let asked = boot::plan::BootRequest {
            shield: ShieldRequest::default(),
            kernels: None,
            ..boot::plan::BootRequest::default()
        };
        let menu = boot::loaders::find(&host).unwrap();
        let boot =
            boot::plan::plan(&host, &machine, boot::WordSource::Request(&asked), menu.as_ref())
                .unwrap();
        // Commands and lines of files stay whole.
        let commands: String = plan.steps.iter().map(|step| step.change.shell() + "\n").collect();
        let files: String = boot.instructions.iter().map(|line| line.to_owned() + "\n").collect();
        let is_whole = |line: &str| {
            let of_file = files.lines().any(|it| it.starts_with("  ") && it.trim() == line.trim());
            of_file || commands.lines().any(|it| it == line.trim())
        };
        for width in [80, 100] {
            for (what, text) in [
                (
                    "survey",
                    terminal_blocks(&report::machine::blocks(&machine, &[]), width, &unpainted),
                ),
                (
                    "plan",
                    terminal_blocks(
                        &report::plan::blocks(&plan, PlanDetail::Summary, PlannedMachine::Live),
                        width,
                        &unpainted,
                    ),
                ),
                (
                    "plan -v",
                    terminal_blocks(
                        &report::plan::blocks(&plan, PlanDetail::EveryChange, PlannedMachine::Live),
                        width,
                        &unpainted,
                    ),
                ),
                ("boot plan", terminal_blocks(&report::boot_plan_blocks(&boot), width, &unpainted)),
            ] {
                // A longer word has a separate line.
                let fits = |line: &str| {
                    line.chars().count() <= width || !line.trim().contains(' ') || is_whole(line)
                };
                let wide = text.lines().find(|line| !fits(line));
                assert_eq!(wide, None, "{name}, {what} at {width}");
            }
        }
    }
}
