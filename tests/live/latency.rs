//! `cpushield latency` on the machine that runs the tests: it detects a late thread and its time,
//! keeps its results when it is stopped, and leaves nothing behind.

use cpushield::latency::{LatencyDoubt, LatencyMeasurement, LatencyNote};
use cpushield_linux::{CpuSet, Host, SchedPolicy, sys::sched};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A CPU to measure.
fn cpu() -> usize {
    sched::affinity(0).unwrap().last().unwrap()
}

/// Whether this user may have real-time threads.
fn may_be_real_time() -> bool {
    std::thread::spawn(|| sched::set_policy(0, SchedPolicy::Fifo { priority: 1 }).is_ok())
        .join()
        .unwrap()
}

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cpushield"));
    command.args(["latency", "timer", "--state", "/nonexistent/cpushield", "--cpus"]);
    command.arg(cpu().to_string()).args(words);
    // Real-time threads on the only CPU would be refused.
    let may = may_be_real_time() && sched::affinity(0).unwrap().len() > 1;
    if !may && !words.contains(&"--other") {
        command.arg("--other");
    }
    command
}

fn run(words: &[&str]) -> Output {
    command(words).output().unwrap()
}

/// The worst latency in the headline of the text.
fn worst_of(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    let worst = text.strip_prefix("Worst ").and_then(|text| text.split_once(" on CPU "));
    worst.unwrap_or_else(|| panic!("{text}")).0.to_owned()
}

fn document(output: &Output) -> LatencyMeasurement {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn two_seconds_of_two_threads_are_measured_completely() {
    let _turn = crate::alone();
    let dir = std::env::temp_dir().join(format!("cpushield-latency-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("histogram");
    let threads = ["--thread", "1ms", "--thread", "5ms", "--over", "1us,30s", "--json"];
    let files = ["--for", "2s", "--max", "1min", "--histogram", file.to_str().unwrap()];
    let output = run(&[&threads[..], &files].concat());
    let latency = document(&output);
    assert_eq!(latency.series.len(), 2);
    let setting = &latency.setting;
    assert!(setting.memory_kib > Some(0) && setting.steal_ns.is_some(), "{setting:?}");
    for series in &latency.series {
        // Every period is a sample or was missed, except for one at each end.
        let periods = latency.span_ns / series.period_ns;
        let ends = 100 + series.max_ns.unwrap() / series.period_ns;
        assert!((series.samples + series.missed).abs_diff(periods) <= ends, "{series:?}");
        assert!(series.samples > 0 && series.elsewhere.unwrap_or(0) == 0, "{series:?}");
        let (least, mean, most) = (series.min_ns, series.mean_ns, series.max_ns);
        assert!(least <= mean && mean <= most && most == Some(series.worst[0].late_ns));
        assert!(series.percentiles.windows(2).all(|pair| pair[0].ns <= pair[1].ns));
        assert!(series.worst.iter().all(|worst| worst.at_ns <= latency.span_ns + series.period_ns));
        assert!(series.over[0].count > 0 && series.over[1].count == 0, "{:?}", series.over);
        assert_eq!(series.timeline.worst_ns.iter().max(), most.as_ref(), "{series:?}");
    }
    assert!(latency.span_ns >= latency.asked_ns && !latency.stopped);
    let mut of_threads = latency.series.iter().flat_map(|series| &series.doubts);
    let doubtful = !latency.doubts.is_empty() || of_threads.next().is_some();
    assert_eq!(latency.gates[0].held, (!doubtful).then_some(true), "{latency:?}");
    assert_eq!(output.status.code(), Some(i32::from(doubtful)));
    let text = std::fs::read_to_string(&file).unwrap();
    let samples: u64 = latency.series.iter().map(|series| series.samples).sum();
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    let counted = rows.flat_map(|row| row.split_whitespace().skip(1));
    assert_eq!(counted.map(|n| n.parse::<u64>().unwrap()).sum::<u64>(), samples);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn every_instrument_measures_or_says_why_it_cannot() {
    let _turn = crate::alone();
    // The instruments with kernel tracers store the settings to restore there.
    let state = std::env::temp_dir().join(format!("cpushield-state-{}", std::process::id()));
    for instrument in cpushield::latency::INSTRUMENTS {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cpushield"));
        command.args(["latency", instrument.name, "--other", "--for", "1s", "--json"]);
        if instrument.is_endless && sched::affinity(0).unwrap().len() < 2 {
            continue;
        }
        if !instrument.is_endless {
            command.args(["--thread", "20ms"]);
        }
        command.arg("--state").arg(&state).arg("--cpus");
        let output = command.arg(cpu().to_string()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(0) => {
                let latency = document(&output);
                assert_eq!(latency.instrument, instrument.name);
                assert!(latency.series[0].samples > 0, "{latency:?}");
            }
            Some(3) => assert!(said.contains("cannot run here: "), "{said}"),
            other => panic!("{}: {other:?} {said}", instrument.name),
        }
    }
    let _ = std::fs::remove_dir_all(state);
}

#[test]
fn each_worst_latency_has_a_cause_or_the_reason_why_not() {
    let _turn = crate::alone();
    let latency = document(&run(&["--for", "500ms", "--why", "--json"]));
    assert!(latency.tracing.asked && !latency.series[0].worst.is_empty(), "{latency:?}");
    for worst in &latency.series[0].worst {
        let why = worst.why.as_ref().unwrap();
        if why.unknown.is_none() {
            assert!(latency.tracing.absent.is_none(), "{latency:?}");
            // The breakdown has no overlap and no hole.
            let named: u64 = why.shares.iter().map(|share| share.took_ns).sum();
            let whole = named + why.unseen_ns + why.rest_ns;
            let off = 2 * why.error_ns + 100 + worst.late_ns / 1000;
            assert!(whole.abs_diff(worst.late_ns) <= off, "{worst:?}");
        }
    }
    if latency.tracing.absent.is_some() {
        let is_unknown = |note: &LatencyNote| matches!(note, LatencyNote::CausesUnknown { .. });
        assert!(latency.notes.iter().any(is_unknown), "{:?}", latency.notes);
    }
    let plain = document(&run(&["--for", "100ms", "--json"]));
    assert!(!plain.tracing.asked && plain.series[0].worst.iter().all(|worst| worst.why.is_none()));
}

#[test]
fn a_broken_limit_sets_the_exit_code() {
    let _turn = crate::alone();
    let output = run(&["--for", "300ms", "--max", "1ns"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("--max 1ns does not hold: found "), "{said}");
    let worst = worst_of(&output);
    assert!(said.contains(&format!("{worst} (")), "{said} without {worst}");
}

#[test]
fn limits_of_a_policy_and_of_linuxcnc_set_the_exit_code() {
    let _turn = crate::alone();
    let dir = std::env::temp_dir().join(format!("cpushield-limits-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("policy.toml");
    let run_with = |limits: &str, words: &[&str]| {
        std::fs::write(&file, format!("[shield.rt.limits]\n{limits}\n")).unwrap();
        let common = ["--for", "200ms", "--json", "--policy", file.to_str().unwrap()];
        run(&[&common[..], words].concat())
    };
    let broken = run_with("max_latency = \"1ns\"", &[]);
    assert_eq!(broken.status.code(), Some(1));
    assert_eq!(document(&broken).gates[0].limit.to_string(), "--max 1ns");
    // A flag comes before the policy, which completes it.
    let both = run_with("max_latency = \"1ns\"\nlinuxcnc = \"hardware\"", &["--max", "1h"]);
    let gates = document(&both).gates;
    assert_eq!(gates[0].held, Some(true), "{gates:?}");
    assert_eq!(gates[1].limit.to_string(), "--linuxcnc hardware (500000 ns)");
    let wrong = run_with("max_latncy = \"1ns\"", &[]);
    assert_eq!(wrong.status.code(), Some(2));
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn results_before_a_stop_are_kept() {
    let _turn = crate::alone();
    let mut command =
        command(&["--for", "1h", "--json", "--thread", "2ms", "--thread", "1h", "--max", "1h"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_crew(child.id());
    std::thread::sleep(Duration::from_millis(1500));
    let pid = i32::try_from(child.id()).unwrap();
    cpushield_linux::processes::process::kill(pid, 2).unwrap();
    let asked = Instant::now();
    let output = child.wait_with_output().unwrap();
    assert!(asked.elapsed() < Duration::from_secs(20));
    let latency = document(&output);
    assert!(latency.stopped && latency.series[0].samples > 0, "{latency:?}");
    // A limit does not hold for an incomplete measurement.
    assert_eq!((latency.gates[0].held, output.status.code()), (None, Some(1)));
    let why = &latency.gates[0].why;
    assert!(why.iter().any(|why| matches!(why, LatencyDoubt::Stopped { .. })), "{why:?}");
}

/// The process whose threads measure, a child of this one; waits until it has them.
fn wait_for_crew(maker: u32) -> String {
    let host = Host::live();
    for _ in 0..600 {
        std::thread::sleep(Duration::from_millis(100));
        let tasks = host.tasks().unwrap();
        let child = |task: &&cpushield_linux::Task| u32::try_from(task.parent) == Ok(maker);
        if let Some(task) = tasks.iter().filter(child).find(|t| t.comm.starts_with("latency/")) {
            return task.pid.to_string();
        }
    }
    panic!("no thread measures");
}

/// The resident memory of a process that runs. `said` is the file with its messages.
fn resident_kib(pid: &str, said: &Path) -> u64 {
    let used = Host::live().memory_use(pid.parse().unwrap());
    let said = || std::fs::read_to_string(said).unwrap_or_default();
    used.unwrap_or_else(|e| panic!("process {pid} ended: {e}: {}", said())).resident_kib
}

#[test]
fn memory_does_not_grow_and_threads_end_with_the_measurement() {
    let _turn = crate::alone();
    // A real-time thread would give up where the machine is too busy for its period.
    let mut command = command(&["--for", "1h", "--thread", "50us", "--other", "--json"]);
    let said = Path::new(env!("CARGO_TARGET_TMPDIR")).join("latency-memory");
    let file = std::fs::File::create(&said).unwrap();
    let mut child = command.stdout(Stdio::null()).stderr(file).spawn().unwrap();
    let crew = wait_for_crew(child.id());
    std::thread::sleep(Duration::from_millis(1500));
    let maker = child.id().to_string();
    let resident_kib = |pid| resident_kib(pid, &said);
    let before = (resident_kib(&maker), resident_kib(&crew));
    std::thread::sleep(Duration::from_millis(2500));
    let after = (resident_kib(&maker), resident_kib(&crew));
    // Tens of thousands of samples: one stored number per sample would show.
    assert!(after.0 <= before.0 + 64 && after.1 <= before.1 + 64, "{before:?} {after:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    let gone = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        Host::live().start_time(crew.parse().unwrap()).is_none()
    });
    assert!(gone, "killed at once, it leaves no thread behind");
}

#[test]
fn invalid_requests_are_refused_immediately() {
    for (words, code, wanted) in [
        (&["--root", "/"][..], 2, "cannot be changed or measured"),
        (&["--cgroup", "/nonexistent"], 3, "cannot start"),
        (&["--histogram", "/nonexistent/file"], 3, "cannot write /nonexistent/file"),
    ] {
        let output = run(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(wanted), "{said}");
    }
    let taken = run(&["--thread", "9us"]);
    let said = String::from_utf8_lossy(&taken.stderr);
    assert!(said.contains("the shortest period is 10us"), "{said}");
    assert_eq!(taken.status.code(), Some(2), "{said}");
    let online: CpuSet = sched::affinity(0).unwrap();
    let beyond = (online.last().unwrap() + 3000).to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_cpushield"))
        .args(["latency", "timer", "--state", "/nonexistent/cpushield", "--cpus", &beyond])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(&format!("this machine has no CPU {beyond}")), "{said}");
    assert_eq!(output.status.code(), Some(2));
}
