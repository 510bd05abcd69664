//! `cpushield verify` on the machine that runs the tests: its claims, what it leaves behind, and
//! that no thread of it runs on the watched CPU.

use cpushield::documents::evidence::{
    Evidence, PositiveControl, Verdict, VerdictState, WatchedWorkload, WitnessKind,
};
use cpushield::observe::counters::{CounterSnapshot, compare};
use cpushield_linux::text::interrupts;
use cpushield_linux::{Host, sys::sched};
use std::collections::BTreeMap;
use std::io::Read;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::family::family;
use crate::not_run::not_run;
use crate::shared_data::shared_data;

/// Both documents, as `--json` prints them.
#[derive(serde::Deserialize)]
struct Shown {
    evidence: Evidence,
    verdict: Verdict,
}

/// A CPU to watch: the last one that the tests may use, if there is more than one.
fn cpu() -> Option<usize> {
    let allowed = sched::affinity(0).unwrap();
    if allowed.len() < 2 {
        not_run("one CPU is too few to watch one from another");
        return None;
    }
    allowed.last()
}

fn verify(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cpushield"));
    command.arg("verify").args(words);
    command.args(["--state", "/nonexistent/cpushield"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn shown(output: &Output) -> Shown {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| {
        panic!("{error}: {text}\n{}", String::from_utf8_lossy(&output.stderr))
    })
}

fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The spinner: the member of the family that is confined to the CPU.
fn spinner(host: &Host, family: &[i32], cpu: usize) -> Option<i32> {
    let only = cpushield_linux::CpuSet::single(cpu);
    family.iter().copied().find(|pid| host.affinity(*pid).is_ok_and(|cpus| cpus == only))
}

fn signal(child: &Child, number: i32) {
    cpushield_linux::processes::process::kill(i32::try_from(child.id()).unwrap(), number).unwrap();
}

#[test]
fn results_are_reported_with_evidence_and_set_the_exit_code() {
    let _one = crate::alone();
    let Some(cpu) = cpu() else { return };
    let list = cpu.to_string();
    let args = ["--cpus", &list, "--for", "500ms", "--warmup", "200ms", "--json"];
    let output = verify(&args).output().unwrap();
    let Shown { evidence, verdict } = shown(&output);
    assert_eq!(output.status.code(), Some(i32::from(!verdict.holds())));
    assert_eq!((evidence.stopped, evidence.workload), (false, WatchedWorkload::Sampler));
    assert!(evidence.span_ns >= 500_000_000, "{}", evidence.span_ns);
    let [seen] = evidence.cpus.as_slice() else { panic!("{:?}", evidence.cpus) };
    assert_eq!(seen.cpu, cpu);
    let gaps = seen.gaps.as_ref().expect("the sampler ran");
    assert!(gaps.resolution_ns > 0.0 && gaps.sum_ns <= evidence.span_ns, "{gaps:?}");
    let [judged] = verdict.cpus.as_slice() else { panic!("{:?}", verdict.cpus) };
    // A verdict without evidence would be the worst defect of this program.
    match judged.state {
        VerdictState::Holds => assert!(seen.entries == Some(0) && judged.unknown.is_empty()),
        VerdictState::Leaks => assert!(!judged.leaks.is_empty()),
        VerdictState::Unknown => assert!(!judged.unknown.is_empty()),
    }
    assert!(matches!(
        evidence.control,
        PositiveControl::Seen { .. } | PositiveControl::Missed { .. }
    ));
    let kinds: Vec<WitnessKind> = evidence.witnesses.iter().map(|w| w.kind).collect();
    assert_eq!(
        kinds,
        [
            WitnessKind::Trace,
            WitnessKind::Counters,
            WitnessKind::EventCounters,
            WitnessKind::Sampler,
            WitnessKind::Firmware,
        ]
    );
}

#[test]
fn limits_decide_the_exit_code() {
    let _one = crate::alone();
    let Some(cpu) = cpu() else { return };
    let list = cpu.to_string();
    let args = ["--cpus", &list, "--for", "200ms", "--warmup", "1ms", "--json"];
    let mut words = args.to_vec();
    words.extend(["--max-entries", "1000000000", "--max-gap", "1h"]);
    let output = verify(&words).output().unwrap();
    let gates: Vec<_> = shown(&output).verdict.gates.iter().map(|gate| gate.held).collect();
    // Busy machines may hide the control from the witnesses; then the verdict is unknown.
    assert!(gates.len() == 2 && !gates.contains(&Some(false)), "{gates:?}");
    assert_eq!(output.status.success(), gates == [Some(true), Some(true)], "{gates:?}");
    let mut words = args.to_vec();
    words.extend(["--max-gap", "1ns"]);
    let output = verify(&words).output().unwrap();
    let gates: Vec<_> = shown(&output).verdict.gates.iter().map(|gate| gate.held).collect();
    assert_eq!((gates, output.status.code()), (vec![Some(false)], Some(1)));
}

#[test]
fn stop_on_breach_ends_at_the_first_breach_of_a_limit() {
    let Some(cpu) = cpu() else { return };
    let _alone = crate::alone();
    let cpu = cpu.to_string();
    let words = ["--cpus", &cpu, "--for", "60s", "--warmup", "200ms", "--stop-on-breach"];
    let output = verify(&words).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "no limit, no breach");
    let limits = ["--max-entries", "0", "--max-gap", "1us", "--json"];
    let output = verify(&[&words[..], &limits[..]].concat()).output().unwrap();
    let Shown { evidence, verdict } = shown(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(evidence.stopped && evidence.span_ns < 50_000_000_000, "{}", evidence.span_ns);
    assert!(verdict.gates.iter().any(|gate| gate.held == Some(false)), "{:?}", verdict.gates);
}

#[test]
fn an_interrupted_watch_reports_its_results_and_never_ran_on_the_watched_cpu() {
    let _one = crate::alone();
    let Some(cpu) = cpu() else { return };
    let host = Host::live();
    let list = cpu.to_string();
    let args = ["--cpus", &list, "--for", "60s", "--warmup", "1ms", "--json"];
    let mut child = verify(&args).spawn().unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    wait_until("the sampler starts", || spinner(&host, &family(&host, pid), cpu).is_some());
    std::thread::sleep(Duration::from_millis(300));
    for member in family(&host, pid) {
        let affinity = host.affinity(member).unwrap();
        let own = affinity == cpushield_linux::CpuSet::single(cpu);
        assert!(own || !affinity.contains(cpu), "{member} may run on {affinity}");
    }
    signal(&child, 2);
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    let status = child.wait().unwrap();
    let shown: Shown = serde_json::from_str(&text).unwrap();
    assert!(shown.evidence.stopped && shown.evidence.cpus.len() == 1);
    assert_eq!(status.code(), Some(i32::from(!shown.verdict.holds())));
}

#[test]
fn a_killed_verify_leaves_no_sampler_behind() {
    let _one = crate::alone();
    let Some(cpu) = cpu() else { return };
    let host = Host::live();
    let list = cpu.to_string();
    let mut child = verify(&["--cpus", &list, "--for", "60s"]).spawn().unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    wait_until("the sampler starts", || spinner(&host, &family(&host, pid), cpu).is_some());
    let others: Vec<_> = family(&host, pid).into_iter().filter(|member| *member != pid).collect();
    let started: Vec<_> = others.iter().map(|tid| host.start_time(*tid)).collect();
    assert!(others.len() >= 2, "{others:?}");
    signal(&child, 9);
    child.wait().unwrap();
    wait_until("the sampler ends with its maker", || {
        others.iter().zip(&started).all(|(tid, was)| {
            // A zombie process has ended.
            let now = host.task(*tid, *tid).ok().filter(|task| task.state != 'Z');
            now.is_none() || now.map(|task| task.id.started) != *was
        })
    });
}

/// Two readings of a foreign machine, and the result of another program.
#[test]
fn counter_differences_agree_with_another_program() {
    let Some(dir) = shared_data("interrupts/wa-exynos-8cpu") else { return };
    let found = std::fs::read_to_string(dir.join("diff-expected")).unwrap();
    let snapshot = |name: &str| {
        let text = std::fs::read_to_string(dir.join(name)).unwrap();
        let absent = || "not there".to_owned();
        CounterSnapshot {
            interrupts: interrupts::parse(&text).map_err(|e| e.to_string()),
            softirqs: Err(absent()),
            times: Err(absent()),
            times_at_ns: 0,
            sched: Err(absent()),
            tasks: Ok(BTreeMap::new()),
        }
    };
    let (before, after) = (snapshot("interrupts.before"), snapshot("interrupts.after"));
    let mut total = 0;
    for cpu in 0..8 {
        let mut sum = 0;
        let counts = compare(&before, &after, cpu, &[]);
        for line in found.lines().skip(1) {
            // A row that was not there before is marked.
            let words: Vec<&str> = line.trim_start_matches([' ', '>']).split_whitespace().collect();
            let delta = words.get(1 + cpu).and_then(|word| word.parse::<u64>().ok());
            // Rows with one number belong to no CPU.
            let (Some(delta), Some(label)) = (delta, words[0].strip_suffix(':')) else { continue };
            sum += delta;
            let device = format!("IRQ {label} ");
            let row =
                counts.interruptions().find(|row| row.culprit.to_string().starts_with(&device));
            assert!(row.is_none_or(|row| row.count == delta), "CPU {cpu}: {line} {row:?}");
        }
        assert_eq!(counts.entries, Some(sum), "CPU {cpu}");
        assert_eq!(counts.interruptions().map(|row| row.count).sum::<u64>(), sum);
        total += sum;
    }
    assert!(total > 1000, "{total}: the files were not read as meant");
}

#[test]
fn a_watch_that_is_not_possible_is_refused_with_the_reason() {
    let online = Host::live().read_line("/sys/devices/system/cpu/online").unwrap();
    let machine = concat!(env!("CARGO_MANIFEST_DIR"), "/machines/6.18-hybrid/root");
    for (words, code, why) in [
        (vec!["--cpus", "8000"], 2, "this machine has no CPU 8000"),
        (vec!["--cpus", online.as_str()], 2, "cpushield itself needs another CPU"),
        (vec!["--cpus", "0", "--for", "0s"], 2, "longer than 0"),
        (vec!["--cpus", "zero"], 2, "neither a CPU list nor one of"),
        (vec![], 3, "no shield is active"),
        (vec!["--root", machine], 2, "cannot be changed or measured"),
        (vec!["--cpus", "0", "--", "true"], 3, "a program can only be watched in a shield"),
    ] {
        let output = verify(&words).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains(why), "{words:?}: {text}");
        assert_eq!(output.status.code(), Some(code), "{words:?}: {text}");
        assert!(output.stdout.is_empty());
    }
}
