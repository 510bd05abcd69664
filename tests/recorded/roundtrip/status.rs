//! What `status` says about a shield, an incomplete shield, and a shield that another process has
//! changed. It judges by the machine, and `run` agrees with it.

use super::bench::Bench;
use super::many_shields::{NAMES, machines as recorded};
use super::trees::{Task, affinity, machines, machines_with_offline_sibling, step, v2, v2_plan};
use crate::program;
use cpushield::apply::{self, ShieldWork, UnfinishedWork};
use cpushield::live::{CpuRole, LiveFrame};
use cpushield::run::{self, RunError, ShieldPlacement, ShieldState};
use cpushield_linux::{CpuSet, Host};
use serde_json::Value;
use std::fs;
use std::process::Output;

fn state(bench: &Bench) -> ShieldState {
    run::status(&bench.host(), &bench.store(), None).unwrap().state.state
}

/// The program on this machine.
pub(crate) fn cpushield(bench: &Bench, words: &[&str]) -> Output {
    let mut command = program::command();
    command.arg("--root").arg(bench.scratch.0.join("root"));
    command.arg("--state").arg(bench.scratch.0.join("state"));
    command.args(words).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_shield_is_active_only_when_its_journal_is_complete() {
    for (name, tree, plan) in machines() {
        let bench = Bench::of(&tree);
        assert_eq!(state(&bench), ShieldState::NoShield, "{name}");
        bench.apply(&bench.host(), &plan).unwrap();
        assert_eq!(state(&bench), ShieldState::InForce, "{name}");
        let whole = fs::read_to_string(bench.journal()).unwrap();
        let begin = whole.find("{\"begin\"").unwrap();
        let applied = whole.find("{\"applied\"").unwrap();
        let ends = whole.match_indices('\n').map(|(at, _)| at + 1);
        for end in ends.chain([0, 17, begin + 5, applied + 9]) {
            fs::write(bench.journal(), &whole[..end]).unwrap();
            let when = format!("{name}: {end} bytes");
            let shield = run::shield(&bench.host(), &bench.store(), None);
            match state(&bench) {
                ShieldState::InForce => {
                    assert_eq!(end, whole.len(), "{when}");
                    assert!(shield.is_ok(), "{when}");
                }
                ShieldState::Part(unfinished) => {
                    assert!(end > begin && end < whole.len(), "{when}");
                    let apply = UnfinishedWork::Interrupted { work: ShieldWork::Apply };
                    assert_eq!(unfinished, apply, "{when}");
                    assert!(matches!(shield, Err(RunError::Unfinished { .. })), "{when}");
                }
                ShieldState::Unknown { reason } => {
                    assert!(end < applied, "{when}");
                    let path = bench.journal().display().to_string();
                    assert!(reason.starts_with(&path), "{when}: {reason}");
                    assert!(matches!(shield, Err(RunError::Journal(_))), "{when}");
                }
                other => panic!("{when}: {other:?}"),
            }
        }
    }
}

#[test]
fn the_exit_code_says_whether_the_shield_is_active_and_unchanged() {
    let bench = Bench::of(&v2()).into_files();
    let said = |code: i32, sentence: &str| {
        let ended = cpushield(&bench, &["status"]);
        let out = text(&ended.stdout);
        // Long lines are folded.
        let unfolded = out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(unfolded.contains(sentence), "{sentence}: {out}");
        assert_eq!(ended.status.code(), Some(code), "{out}");
        let json = cpushield(&bench, &["status", "--json"]);
        assert_eq!(json.status.code(), Some(code));
        let json: Value = serde_json::from_slice(&json.stdout).unwrap();
        assert!(json["state"]["tag"].is_string(), "{json}");
        assert!(json["state"]["sentence"].is_string(), "{json}");
    };
    said(3, "No shield is active.");
    bench.apply(&bench.host(), &v2_plan()).unwrap();
    said(0, "active, unchanged");
    let whole = fs::read_to_string(bench.journal()).unwrap();
    let irq = "/proc/irq/24/smp_affinity";
    let ours = bench.text(irq).unwrap();
    bench.put(irq, "8\n");
    said(1, "active, but 1 setting has changed since the shield was applied");
    bench.put(irq, &ours);
    said(0, "active, unchanged");
    {
        // A reader does not mistake a shield that is being changed for one that has changed.
        let _lock = bench.store().lock().unwrap();
        // This process holds the lock, and it cannot be the program.
        said(1, &format!("being changed by process {}", std::process::id()));
    }
    let begin = whole.find("{\"begin\"").unwrap();
    let opening = begin + whole[begin..].find('\n').unwrap() + 1;
    fs::write(bench.journal(), &whole[..opening]).unwrap();
    said(1, "not active: an apply was interrupted; `cpushield undo` reverts its changes");
    {
        let _lock = bench.store().lock().unwrap();
        said(1, &format!("being applied by process {}", std::process::id()));
        let add = cpushield(&bench, &["add", "40"]);
        let expected = format!("an apply by process {} is under way", std::process::id());
        assert!(text(&add.stderr).contains(&expected), "{}", text(&add.stderr));
        fs::write(bench.journal(), "").unwrap();
        said(1, &format!("being applied by process {}", std::process::id()));
    }
    said(1, "line 1: expected the header of a cpushield journal");
    fs::write(bench.journal(), &whole).unwrap();
    bench.remove("/sys/fs/cgroup/cpushield");
    said(1, "not active: its cgroup /sys/fs/cgroup/cpushield is gone");
}

/// The journal of a shield as this boot of the machine that runs the tests would have written it.
fn journal_of_this_boot(bench: &Bench) -> String {
    let whole = fs::read_to_string(bench.journal()).unwrap();
    let (first, rest) = whole.split_once('\n').unwrap();
    let mut first: Value = serde_json::from_str(first).unwrap();
    let boot = Host::live().read_line("/proc/sys/kernel/random/boot_id").unwrap();
    first["header"]["boot_id"] = boot.into();
    format!("{first}\n{rest}")
}

/// `verify`, `latency` and `watch` refuse recorded machines.
#[test]
fn readers_of_the_live_machine_report_unfinished_work_and_use_no_part_of_a_shield() {
    let bench = Bench::of(&v2());
    bench.apply(&bench.host(), &v2_plan()).unwrap();
    let whole = journal_of_this_boot(&bench);
    let begin = whole.find("{\"begin\"").unwrap();
    let part = &whole[..begin + whole[begin..].find('\n').unwrap() + 1];
    let by = format!("by process {} is under way", std::process::id());
    let cases = [
        (true, whole.as_str(), format!("a change to the shield {by}")),
        (true, part, format!("an apply {by}")),
        (true, "", format!("an apply {by}")),
        (false, part, "an apply was interrupted".to_owned()),
        (false, "torn", "line 1: expected a line of JSON".to_owned()),
    ];
    for (locked, journal, sentence) in cases {
        fs::write(bench.journal(), journal).unwrap();
        let _lock = locked.then(|| bench.store().lock().unwrap());
        for (words, code) in [
            (vec!["verify"], 3),
            (vec!["latency", "timer"], 3),
            (vec!["watch", "--once", "--json"], 0),
        ] {
            let mut command = program::command();
            let command = command.arg("--state").arg(bench.scratch.0.join("state")).args(&words);
            let ended = command.output().unwrap();
            let (out, err) = (text(&ended.stdout), text(&ended.stderr));
            assert_eq!(ended.status.code(), Some(code), "{words:?}, {sentence}: {err}");
            assert!(err.contains(&sentence), "{words:?}, {sentence}: {err}");
            if code == 0 {
                let frame: LiveFrame = serde_json::from_str(&out).unwrap();
                let is_shielded = |role| matches!(role, CpuRole::Shielded | CpuRole::Idle);
                assert!(!frame.cpus.iter().any(|cpu| is_shielded(cpu.role)), "{sentence}: {out}");
            } else {
                assert_eq!(out, "", "{words:?}, {sentence}");
            }
        }
    }
}

/// Every command that reads or changes the active shield refuses a shield with another name.
#[test]
fn a_shield_with_another_name_is_refused_and_the_active_one_is_named() {
    let bench = Bench::of(&v2()).into_files();
    let none = cpushield(&bench, &["status", "--shield", "mill"]);
    assert_eq!(none.status.code(), Some(3), "{}", text(&none.stderr));
    bench.apply(&bench.host(), &v2_plan()).unwrap();
    let whole = fs::read_to_string(bench.journal()).unwrap();
    let name = v2_plan().shield.name;
    let wrong = format!("no active shield is named \"mill\"; active: {name}");
    let commands: [&[&str]; 6] = [
        &["status"],
        &["undo"],
        &["undo", "--forget"],
        &["report"],
        &["add", "40"],
        &["remove", "40"],
    ];
    for words in commands {
        let ended = cpushield(&bench, &[words, &["--shield", "mill"]].concat());
        let said = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(3), "{words:?}: {said}");
        assert!(said.contains(&wrong), "{words:?}: {said}");
        assert!(said.contains(&format!("--shield {name}")), "{words:?}: {said}");
        assert_eq!(whole, fs::read_to_string(bench.journal()).unwrap(), "{words:?}");
    }
    // An incomplete shield has its name too.
    let begin = whole.find("{\"begin\"").unwrap();
    fs::write(bench.journal(), &whole[..begin + whole[begin..].find('\n').unwrap() + 1]).unwrap();
    let part = cpushield(&bench, &["undo", "--shield", "mill"]);
    assert!(text(&part.stderr).contains(&wrong), "{}", text(&part.stderr));
    fs::write(bench.journal(), &whole).unwrap();
    let right = cpushield(&bench, &["status", "--shield", &name]);
    assert_eq!(right.status.code(), Some(0), "{}", text(&right.stderr));
}

#[test]
fn a_thread_that_follows_its_interrupt_has_not_drifted() {
    let (mut tree, mut plan) = (v2(), v2_plan());
    Task::new(300, "irq/24-eth0", 0x0020_8040, "0-3").put(&mut tree);
    plan.steps.push(step(affinity(300, "irq/24-eth0"), false));
    let bench = Bench::of(&tree);
    bench.apply(&bench.host(), &plan).unwrap();
    assert_eq!(bench.host().affinity(300).unwrap().to_string(), "0-2");
    bench.put("/proc/irq/24/effective_affinity_list", "0\n");
    bench.host().set_affinity(300, &CpuSet::single(0)).unwrap();
    assert_eq!(state(&bench), ShieldState::InForce);
    bench.host().set_affinity(300, &CpuSet::single(1)).unwrap();
    assert_eq!(state(&bench), ShieldState::Drifted { settings: 1, foreign: 0 });
    let undone = apply::undo(&bench.host(), &bench.store(), None).unwrap();
    assert!(undone.is_complete() && undone.drifted_tasks.is_empty(), "{undone:#?}");
    assert_eq!(bench.host().affinity(300).unwrap().to_string(), "0-3");
}

#[test]
fn an_offline_cpu_is_no_active_shield_and_no_program_is_started_there() {
    let bench = Bench::of(&v2()).into_files();
    bench.apply(&bench.host(), &v2_plan()).unwrap();
    bench.put("/sys/devices/system/cpu/online", "0-2\n");
    assert_eq!(state(&bench), ShieldState::Offline { cpus: CpuSet::single(3) });
    let ended = cpushield(&bench, &["status"]);
    let out = text(&ended.stdout);
    assert_eq!(ended.status.code(), Some(1), "{out}");
    assert!(out.starts_with("Shield cpushield on CPU 3: active, but CPU 3 is offline\n"), "{out}");
    assert!(out.contains("CPU 3\n  offline\n"), "{out}");
    assert!(out.ends_with("Next: echo 1 > /sys/devices/system/cpu/cpu3/online\n"), "{out}");
    let place = ShieldPlacement::new(&bench.host(), &v2_plan());
    for requested in [None, Some(3)] {
        let refused = place.choose(&bench.host(), requested).unwrap_err();
        assert_eq!(refused.to_string(), "CPU 3 of shield cpushield is offline");
    }
}

#[test]
fn a_sibling_that_the_shield_has_taken_offline_is_no_drift() {
    for (name, tree, plan) in machines_with_offline_sibling() {
        let bench = Bench::of(&tree);
        bench.apply(&bench.host(), &plan).unwrap();
        bench.put("/sys/devices/system/cpu/online", "0-2\n");
        assert_eq!(state(&bench), ShieldState::InForce, "{name}");
        let status = run::status(&bench.host(), &bench.store(), None).unwrap();
        let offline = status.shields[0].cpus.iter().filter(|on| on.offline).map(|on| on.cpu);
        assert_eq!(offline.collect::<Vec<_>>(), [3], "{name}");
    }
}

#[test]
fn interrupts_that_cannot_be_read_are_unknown_and_not_kept_away() {
    let bench = Bench::of(&v2()).into_files();
    bench.apply(&bench.host(), &v2_plan()).unwrap();
    let interrupts = || {
        let status = run::status(&bench.host(), &bench.store(), None).unwrap();
        let interrupts = status.shields[0].cpus[0].interrupts.clone();
        (interrupts.holds, interrupts.unknown, interrupts.how)
    };
    assert_eq!(interrupts(), (true, false, "none delivered here".to_owned()));
    bench.make_dir("/proc/irq/25/eth1");
    // A kernel before 3.0 has the mask only.
    bench.remove("/proc/irq/25/smp_affinity_list");
    assert_eq!(interrupts(), (true, false, "none delivered here".to_owned()));
    bench.put("/proc/irq/25/smp_affinity", "8\n");
    assert_eq!(interrupts(), (false, false, "1 delivered here".to_owned()));
    bench.remove("/proc/irq/25/smp_affinity");
    let unread = "/proc/irq/25/smp_affinity cannot be read".to_owned();
    assert_eq!(interrupts(), (false, true, unread));
    bench.remove("/proc/irq");
    assert_eq!(interrupts(), (false, true, "/proc/irq cannot be read".to_owned()));
    let out = text(&cpushield(&bench, &["status"]).stdout);
    assert!(out.contains("interrupts  unknown"), "{out}");
}

#[test]
fn a_survey_of_a_shielded_machine_has_a_verdict() {
    let bench = Bench::of(&v2()).into_files();
    let verdict = || {
        let out = text(&cpushield(&bench, &["survey"]).stdout);
        out.lines().next().unwrap_or_default().to_owned()
    };
    bench.apply(&bench.host(), &v2_plan()).unwrap();
    assert_eq!(verdict(), "Verdict: CPU 3 is shielded; `cpushield status` shows the shield");
    fs::write(bench.journal(), "torn").unwrap();
    let unknown = verdict();
    let expected = "Verdict: unknown, because the active shields are unknown: ";
    assert!(unknown.starts_with(expected), "{unknown}");
}

#[test]
fn an_interrupt_on_its_way_to_another_shield_leaves_this_one() {
    let mut seen = 0;
    for machine in recorded(2) {
        let bench = machine.with_shields(&[0, 1]);
        let irq = "/proc/irq/1";
        if bench.text(&format!("{irq}/effective_affinity_list")).is_none() {
            continue;
        }
        seen += 1;
        // The directory of its action, which a recording lacks.
        bench.put(&format!("{irq}/i8042/.gitkeep"), "");
        let [from, to] = [0, 1].map(|n: usize| machine.cpus[n].first().unwrap());
        bench.put(&format!("{irq}/effective_affinity_list"), &format!("{from}\n"));
        bench.put(&format!("{irq}/smp_affinity_list"), &format!("{to}\n"));
        for name in [None, Some(NAMES[0])] {
            let status = run::status(&bench.host(), &bench.store(), name).unwrap();
            let mut irqs = status.shields[0].cpus.iter().flat_map(|on| &on.irqs);
            let moved = irqs.find(|it| it.irq == 1);
            assert!(moved.is_some_and(|irq| irq.leaving), "{}: {moved:?}", machine.name);
        }
    }
    assert!(seen > 0, "no recorded machine has such an interrupt");
}
