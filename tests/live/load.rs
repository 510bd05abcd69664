//! `cpushield latency --load` on the machine that runs the tests: every kind of load does what it
//! counts, according to the kernel, stays on its CPUs, and leaves nothing behind.

use cpushield::latency::{LatencyMeasurement, LatencyNote, LoadDone};
use cpushield::load::KINDS;
use cpushield_linux::{CpuSet, Host, Task, sys::sched};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use crate::not_run::not_run;

/// Takes the turn of a test, chooses the CPU to measure and makes a directory for its files. `None`
/// on a machine with one CPU.
fn set_up(name: &str) -> Option<(MutexGuard<'static, ()>, usize, PathBuf)> {
    let cpus = sched::affinity(0).unwrap();
    if cpus.len() < 2 {
        not_run("a load together with a measurement needs two CPUs");
        return None;
    }
    let turn = crate::alone();
    // Next to the program, which is on a disk.
    let program_dir = Path::new(env!("CARGO_BIN_EXE_cpushield")).parent().unwrap();
    let dir = program_dir.join(format!("load-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    Some((turn, cpus.last().unwrap(), dir))
}

fn command(cpu: usize, dir: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cpushield"));
    command.args(["latency", "timer", "--other", "--json", "--warmup", "100ms"]);
    command.args(["--state", "/nonexistent/cpushield"]);
    command.args(["--cpus", &cpu.to_string()]).args(words).env("TMPDIR", dir);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn read_document(child: Child) -> LatencyMeasurement {
    let output = child.wait_with_output().unwrap();
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// Reads what the kernel has counted since boot.
fn read_kernel_counts() -> BTreeMap<&'static str, u64> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let number = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.trim_start().strip_prefix(name));
        let line = line.unwrap_or_default();
        line.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0)
    };
    let (stat, vmstat) = (read("/proc/stat"), read("/proc/vmstat"));
    let calls = read("/proc/interrupts");
    let calls = calls.lines().find_map(|line| line.trim_start().strip_prefix("CAL:"));
    let calls = calls.unwrap_or_default().split_whitespace();
    BTreeMap::from([
        ("processes", number(&stat, "processes ")),
        ("switches", number(&stat, "ctxt ")),
        ("disk bytes", number(&vmstat, "pgpgin ") * 1024),
        ("lo bytes", number(&read("/proc/net/dev"), "lo:")),
        ("calls", calls.map_while(|word| word.parse::<u64>().ok()).sum()),
    ])
}

/// Finds the threads of the loads of a process.
fn find_load_threads(of: u32) -> Vec<Task> {
    let host = Host::live();
    let tasks = host.tasks().unwrap();
    let mut pids = vec![i32::try_from(of).unwrap()];
    for _ in 0..3 {
        let more = tasks.iter().filter(|task| pids.contains(&task.parent));
        let more: Vec<i32> = more.map(|task| task.pid).collect();
        pids.extend(more);
        pids.sort_unstable();
        pids.dedup();
    }
    let tasks = tasks.into_iter();
    tasks.filter(|task| pids.contains(&task.pid) && is_of_load(task)).collect()
}

/// Whether the name is that of a thread that cpushield starts, or of a program.
fn is_of_load(task: &Task) -> bool {
    ["load/", "stress-ng", "hackbench"].iter().any(|name| task.comm.starts_with(name))
}

/// Waits until each of these kinds has a thread. Returns all threads.
fn wait_for(child: &Child, kinds: &[&str]) -> Vec<Task> {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let found = find_load_threads(child.id());
        let is_there = |kind: &&str| {
            let own = format!("load/{kind}").chars().take(15).collect::<String>();
            found.iter().any(|task| task.comm == own || task.comm.starts_with(*kind))
        };
        if kinds.iter().all(is_there) {
            return found;
        }
        assert!(Instant::now() < until, "{kinds:?} of {found:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until all of these tasks have ended.
fn assert_gone(tasks: &[Task]) {
    let host = Host::live();
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let left = tasks.iter().filter(|task| host.is_same_task(task.id));
        let left: Vec<&Task> = left.collect();
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < until, "left behind: {left:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn remove_empty(dir: &Path) {
    let left: Vec<_> = std::fs::read_dir(dir).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    std::fs::remove_dir(dir).unwrap();
}

fn find_load<'a>(latency: &'a LatencyMeasurement, name: &str) -> &'a LoadDone {
    let found = latency.loads.iter().find(|load| load.name == name);
    found.unwrap_or_else(|| panic!("no {name}: {:?} {:?}", latency.loads, latency.notes))
}

#[test]
fn the_kernel_confirms_the_count_of_each_load() {
    let Some((_turn, cpu, dir)) = set_up("counts") else { return };
    let before = read_kernel_counts();
    let words = ["--for", "2s", "--load", "all", "--load-cpus", "all", "--max", "1h"];
    let latency = read_document(command(cpu, &dir, &words).spawn().unwrap());
    let after = read_kernel_counts();
    let own = KINDS.iter().filter(|kind| !kind.is_program);
    assert_eq!(latency.loads.len(), own.count(), "{:?}", latency.notes);
    for load in &latency.loads {
        assert!(load.count > Some(0) && load.doubts.is_empty(), "{load:?}");
        let span = Duration::from_nanos(load.span_ns).as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "a rate is not exact")]
        let rate = load.count.unwrap() as f64 / span;
        assert!((load.per_s.unwrap() / rate - 1.0).abs() < 1e-6, "{load:?}");
        // Only the measured time counts.
        let share = span / Duration::from_nanos(latency.span_ns).as_secs_f64();
        assert!((0.5..2.0).contains(&share), "{load:?} {}", latency.span_ns);
        assert!(load.cpus.contains(cpu) && !load.cpus.is_empty());
    }
    for (load, counter, least) in [
        ("fork", "processes", 1.0),
        ("disk", "disk bytes", 0.9),
        ("network", "lo bytes", 1.0),
        ("timers", "switches", 0.9),
        // A receiver finds up to ten messages and those that came during the read.
        ("messages", "switches", 0.02),
    ] {
        let kernels = after[counter] - before[counter];
        let own = find_load(&latency, load).count.unwrap();
        #[expect(clippy::cast_precision_loss, reason = "a share is not exact")]
        let share = kernels as f64 / own as f64;
        assert!(share >= least, "{load}: {own}, and the kernel counted {kernels} {counter}");
    }
    let shared = LatencyNote::LoadOnMeasuredCpus { cpus: CpuSet::single(cpu) };
    assert!(latency.notes.contains(&shared), "{:?}", latency.notes);
    remove_empty(&dir);
}

/// So many function call interrupts a second hide those of a load.
const HIDING_INTERRUPTS: u64 = 1000;

/// The count is the kernel's for all sources; CPUs without the load show which are the load's.
/// Other programs may cause some in one second and none in the next, so there are several attempts.
/// If they never pause, there is no result.
#[test]
fn interrupts_start_and_stop_with_the_load() {
    let Some((_turn, cpu, dir)) = set_up("interrupts") else { return };
    if cfg!(not(target_arch = "x86_64")) {
        return not_run("this test knows the row of /proc/interrupts for x86 only");
    }
    let mut found = Vec::new();
    let loaded = ["--for", "1s", "--load", "interrupts", "--load-cpus", "all"];
    let is_seen = (0..8).any(|_| {
        let with = read_document(command(cpu, &dir, &loaded).spawn().unwrap());
        let before = read_kernel_counts()["calls"];
        let quiet = read_document(command(cpu, &dir, &["--for", "1s"]).spawn().unwrap());
        let without = read_kernel_counts()["calls"] - before;
        assert!(quiet.loads.is_empty());
        found.push((find_load(&with, "interrupts").count.unwrap(), without));
        found.last().is_some_and(|(with, without)| *with > 3 * without)
    });
    remove_empty(&dir);
    let others = found.iter().map(|(_, without)| *without).min().unwrap_or(0);
    if !is_seen && others > HIDING_INTERRUPTS {
        return not_run(&format!("other programs interrupt these CPUs {others} times a second"));
    }
    assert!(is_seen, "with and without: {found:?}");
}

#[test]
fn loads_stay_on_their_cpus_and_end_with_the_measurement() {
    let Some((_turn, cpu, dir)) = set_up("stays") else { return };
    let child = command(cpu, &dir, &["--for", "1h", "--load", "all"]).spawn().unwrap();
    let kinds = ["messages", "memory", "disk", "network", "fork", "timers"];
    let found = wait_for(&child, &kinds);
    std::thread::sleep(Duration::from_millis(1500));
    let host = Host::live();
    for task in find_load_threads(child.id()) {
        let Ok(cpus) = host.online_affinity(task.id.tid) else { continue };
        assert!(!cpus.contains(cpu) && task.cpu != cpu, "{task:?} may run on {cpus}");
    }
    // A killed load is reported.
    let disk = found.iter().find(|task| task.comm == "load/disk").unwrap();
    cpushield_linux::processes::process::kill(disk.pid, 9).unwrap();
    cpushield_linux::processes::process::kill(i32::try_from(child.id()).unwrap(), 2).unwrap();
    let latency = read_document(child);
    assert!(latency.stopped);
    let doubts = &find_load(&latency, "disk").doubts;
    assert!(doubts.iter().any(|doubt| doubt.to_string().contains("process")), "{doubts:?}");
    assert!(find_load(&latency, "fork").doubts.is_empty(), "{latency:?}");
    let all: CpuSet = sched::affinity(0).unwrap();
    assert_eq!(find_load(&latency, "fork").cpus, all.difference(&CpuSet::single(cpu)));
    assert_gone(&found);
    remove_empty(&dir);
}

#[test]
fn a_killed_measurement_leaves_no_load_behind() {
    let Some((_turn, cpu, dir)) = set_up("killed") else { return };
    for ms in [0, 5, 20, 60, 150, 300, 500, 800, 1200, 2000] {
        let mut child = command(cpu, &dir, &["--for", "1h", "--load", "all"]).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(ms));
        let found = find_load_threads(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_gone(&found);
    }
    // Processes of cpushield that were not loads yet are found by their command line.
    let until = Instant::now() + Duration::from_secs(20);
    let is_ours = |pid: &String| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let dirs = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).into_owned();
        let dir = dir.display().to_string();
        words.contains("__work") && String::from_utf8_lossy(&dirs).contains(&dir)
    };
    while Host::live().list("/proc").unwrap().iter().any(is_ours) {
        assert!(Instant::now() < until, "a load is left");
        std::thread::sleep(Duration::from_millis(20));
    }
    remove_empty(&dir);
}

#[test]
fn installed_load_programs_run_and_end_with_the_load() {
    let Some((_turn, cpu, dir)) = set_up("programs") else { return };
    let host = Host::live();
    let is_installed = |name: &&str| host.program(name).is_some();
    let words = ["stress-ng:--cpu 1 --sock 1", "hackbench"];
    if !["stress-ng", "hackbench"].iter().all(is_installed) {
        let child = command(cpu, &dir, &["--for", "1s", "--load", "stress-ng,hackbench"]).output();
        let said = String::from_utf8_lossy(&child.unwrap().stderr).into_owned();
        assert!(said.contains("is not installed; install the package"), "{said}");
        remove_empty(&dir);
        return not_run("stress-ng and hackbench (packages stress-ng, rt-tests) are not installed");
    }
    let loads = ["--load", words[0], "--load", words[1]];
    let run = [&["--for", "2s"][..], &loads].concat();
    let latency = read_document(command(cpu, &dir, &run).spawn().unwrap());
    for name in ["stress-ng", "hackbench"] {
        let load = find_load(&latency, name);
        assert_eq!(load.count > Some(0), name == "hackbench", "{load:?}");
        assert!(load.doubts.is_empty() && load.program.is_some(), "{load:?}");
    }
    let run = [&["--for", "1h"][..], &loads].concat();
    let mut child = command(cpu, &dir, &run).spawn().unwrap();
    let mut found = wait_for(&child, &["stress-ng", "hackbench"]);
    std::thread::sleep(Duration::from_millis(300));
    found.extend(find_load_threads(child.id()));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_gone(&found);
    let output = command(cpu, &dir, &["--for", "1s", "--load", "stress-ng:--nonsense"]).output();
    let latency: LatencyMeasurement = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    let load = find_load(&latency, "stress-ng");
    assert!(load.count.is_none() && load.per_s.is_none() && !load.doubts.is_empty(), "{load:?}");
    remove_empty(&dir);
}

#[test]
fn a_command_of_the_user_runs_during_the_measurement_and_ends_with_all_it_started() {
    let Some((_turn, cpu, dir)) = set_up("command") else { return };
    let run = |script: &str| {
        let words = ["--for", "1s", "--load-command", script];
        let latency = read_document(command(cpu, &dir, &words).spawn().unwrap());
        assert_eq!(latency.loads.len(), 1, "{:?}", latency.loads);
        find_load(&latency, "command").clone()
    };
    let repeated = run("sleep 0.1");
    assert!(repeated.count > Some(1) && repeated.doubts.is_empty(), "{repeated:?}");
    // It has a child in the background, which would outlive the shell.
    let pids = dir.join("pids");
    let endless = format!("sleep 1000 & echo $$ $! > {}; sleep 1000; true", pids.display());
    let load = run(&endless);
    assert!(load.count == Some(0) && load.doubts.is_empty(), "{load:?}");
    let started = std::fs::read_to_string(&pids).unwrap();
    let started: Vec<i32> = started.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    let host = Host::live();
    for pid in started {
        let is_gone = host.task(pid, pid).map_or(true, |task| task.has_ended());
        assert!(is_gone, "process {pid} still runs");
    }
    std::fs::remove_file(pids).unwrap();
    let failed = run("echo no such disk >&2; exit 7");
    assert!(failed.count.is_none() && failed.doubts.len() == 1, "{failed:?}");
    let doubt = failed.doubts[0].to_string();
    assert_eq!(doubt, "the program failed: exit status: 7: no such disk");
    remove_empty(&dir);
}

#[test]
fn invalid_loads_are_refused_immediately() {
    let Some((_turn, cpu, dir)) = set_up("refused") else { return };
    let measured = cpu.to_string();
    let other = sched::affinity(0).unwrap().first().unwrap().to_string();
    for (words, code, wanted) in [
        (&["--load", "sundial"][..], 2, "no load \"sundial\""),
        (&["--load", "none,disk"], 2, "none cannot be combined with other loads"),
        (&["--load", "disk:-x"], 2, "only a load that runs a program takes arguments"),
        (&["--load-command", " "], 2, "the load command needs a command"),
        (&["--load", "command:a", "--load-command", "b"], 2, "only one command can be a load"),
        (&["--load", "disk", "--load-cpus", "4000"], 2, "CPU 4000 is not online"),
        (&["--load", "interrupts", "--load-cpus", &other], 3, "it needs two CPUs"),
        (&["--load", "fork", "--load-cpus", &measured], 0, ""),
    ] {
        let words = [words, &["--for", "200ms"]].concat();
        let output = command(cpu, &dir, &words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?} {said}");
        assert!(said.contains(wanted), "{words:?} {said}");
    }
    let memory = Path::new("/dev/shm");
    if cpushield_linux::files::scratch_file::is_in_memory(memory).unwrap_or(false) {
        let output = command(cpu, memory, &["--load", "disk"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("/dev/shm is in memory"), "{said}");
        assert_eq!(output.status.code(), Some(3));
    }
    let nowhere = Path::new("/nonexistent");
    let output = command(cpu, nowhere, &["--load", "disk"]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot use /nonexistent"));
    remove_empty(&dir);
}
