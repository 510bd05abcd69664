//! A long-running subcommand that is stopped in any way ends soon and leaves nothing behind: no
//! process and no recording trace. The guests' scenarios test the subcommands that change the
//! machine; this file tests those that any machine can run.

use cpushield::experiment::RowCpus;
use cpushield::experiment::journal::{ExperimentJournal, ExperimentPhase, ExperimentStore};
use cpushield_linux::{CpuSet, Host, processes::process, sys::sched};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::not_run::not_run;

const PROGRAM: &str = env!("CARGO_BIN_EXE_cpushield");
const SIGHUP: i32 = 1;
const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;
const SIGSTOP: i32 = 19;

/// Far more than any of them takes on a busy machine, and far less than their own duration.
const SOON: Duration = Duration::from_secs(60);

/// Commands that run longer than any test; `CPU` stands for a CPU's number.
const LONG: &[&str] = &[
    "verify --cpus CPU --for 1h --warmup 1ms",
    "verify --cpus CPU --for 1s --warmup 1h --json",
    "verify --cpus CPU --for 1h --warmup 1ms --stop-on-breach --max-gap 1h",
    "latency timer --cpus CPU --other --for 1h",
    "latency timer --cpus CPU --other --for 1h --warmup 1h",
    "latency timer --cpus CPU --other --thread 1h --for 2h",
    "latency timer --cpus CPU --other --for 1h --load messages",
    "latency timer --cpus CPU --other --for 1h --why",
    "latency spin --cpus CPU --other --for 1h",
    "watch --json --interval 60s",
    "watch --interval 60s",
];

/// How many commands run at the same time. They end at any time later: most of a test is waiting.
const AT_ONCE: usize = 4;

/// A CPU to measure, if there is more than one.
fn cpu() -> Option<usize> {
    let allowed = sched::affinity(0).unwrap();
    if allowed.len() < 2 {
        not_run("one CPU is too few to measure one of them");
        return None;
    }
    allowed.last()
}

fn line(words: &str, cpu: usize) -> String {
    format!("{} --state /nonexistent/cpushield", words.replace("CPU", &cpu.to_string()))
}

/// Starts a program with the default actions of signals. This test may run below nohup(1), or as a
/// background job of a shell without job control, where SIGINT is ignored.
const FRESH: [&str; 2] = ["env", "--default-signal=HUP,INT"];

fn start(words: &str, cpu: usize, result: Stdio) -> Child {
    let mut command = Command::new(FRESH[0]);
    command.arg(FRESH[1]).arg(PROGRAM).args(line(words, cpu).split_whitespace());
    command.stdin(Stdio::null());
    command.stdout(result).stderr(Stdio::piped()).spawn().unwrap()
}

/// A process and its descendants, each with its start time.
type Family = Vec<(i32, Option<u64>)>;

fn started_family(pid: i32) -> Family {
    let host = Host::live();
    crate::family::family(&host, pid).into_iter().map(|pid| (pid, host.start_time(pid))).collect()
}

fn runs((pid, started): &(i32, Option<u64>)) -> bool {
    let now = Host::live().task(*pid, *pid).ok().filter(|task| !task.has_ended());
    now.is_some_and(|task| Some(task.id.started) == *started)
}

/// All processes of a family end soon, and none of their traces is left. The test always ends them.
#[track_caller]
fn all_end(family: &[(i32, Option<u64>)], what: &str) {
    let began = Instant::now();
    while family.iter().any(runs) && began.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(20));
    }
    let left: Vec<i32> = family.iter().filter(|it| runs(it)).map(|(pid, _)| *pid).collect();
    for pid in &left {
        let _ = process::kill(*pid, 9);
    }
    assert!(left.is_empty(), "{what}: {left:?} of {family:?} go on");
    for dir in ["/sys/kernel/tracing/instances", "/sys/kernel/debug/tracing/instances"] {
        for name in Host::live().list(dir).unwrap_or_default() {
            let own = |(pid, _): &(i32, Option<u64>)| name.ends_with(&format!("-{pid}"));
            assert!(!name.starts_with("cpushield") || !family.iter().any(own), "{what}: {name}");
        }
    }
}

#[test]
fn a_signal_ends_each_subcommand_soon_and_leaves_no_process() {
    let _turn = crate::alone();
    let Some(cpu) = cpu() else { return };
    let mut ends = Vec::new();
    for (signal, after_ms) in [(SIGTERM, 1500), (SIGHUP, 300), (SIGINT, 30)] {
        for some in LONG.chunks(AT_ONCE) {
            // On a busy machine a report is longer than a pipe is, and no one would read that.
            let start = |words: &&str| Running(start(words, cpu, Stdio::null()));
            let running: Vec<Running> = some.iter().map(start).collect();
            std::thread::sleep(Duration::from_millis(after_ms));
            ends.extend(some.iter().zip(running).map(|(words, mut it)| {
                let family = send_signal(&mut it, signal);
                (format!("{words}: signal {signal} after {after_ms} ms"), it, family)
            }));
        }
    }
    for (what, Running(child), family) in &mut ends {
        match family {
            Some(family) => ended_by_signal(child, family, what),
            None => not_run(&format!("{what}: {}", said(child))),
        }
    }
}

/// A program that a failed test does not leave behind.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What an ended program said on standard error.
fn said(child: &mut Child) -> String {
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    said
}

/// Sends a signal. Returns the processes that are to end; `None` if the program has ended before.
fn send_signal(Running(child): &mut Running, signal: i32) -> Option<Family> {
    let pid = i32::try_from(child.id()).unwrap();
    let family = started_family(pid);
    if child.try_wait().unwrap().is_some() {
        return None;
    }
    process::kill(pid, signal).unwrap();
    Some(family)
}

fn ended_by_signal(child: &mut Child, family: &Family, what: &str) {
    all_end(family, what);
    let status = child.wait().unwrap();
    let said = said(child);
    assert!(!said.contains("panicked"), "{what}: {status}: {said}");
}

#[test]
fn a_worker_that_does_not_answer_delays_the_end_by_seconds_only() {
    let turn = crate::alone();
    let Some(cpu) = cpu() else { return };
    let mut child = start("verify --cpus CPU --for 1h --warmup 1ms", cpu, Stdio::null());
    let pid = i32::try_from(child.id()).unwrap();
    let began = Instant::now();
    while started_family(pid).len() < 2 && began.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(20));
    }
    let family = started_family(pid);
    let worker = family.iter().map(|(it, _)| *it).find(|it| *it != pid).unwrap();
    process::kill(worker, SIGSTOP).unwrap();
    process::kill(pid, SIGTERM).unwrap();
    let stopped = Instant::now();
    // From here on it sleeps.
    drop(turn);
    all_end(&family, "with a stopped worker");
    let took = stopped.elapsed();
    // Without a limit of its own, the wait for the worker takes the minute of the protocol.
    assert!(took < Duration::from_secs(45), "{took:?}");
    let _ = child.wait().unwrap();
}

#[test]
fn each_subcommand_ends_when_its_output_has_no_reader() {
    let _turn = crate::alone();
    let Some(cpu) = cpu() else { return };
    let ends = [
        "verify --cpus CPU --for 300ms --warmup 1ms",
        "verify --cpus CPU --for 300ms --warmup 1ms --json",
        "latency timer --cpus CPU --other --for 300ms",
        "watch --json --interval 100ms",
        "watch --interval 100ms",
        "report --title x",
    ]
    .map(|words| {
        let mut child = start(words, cpu, Stdio::piped());
        let family = started_family(i32::try_from(child.id()).unwrap());
        drop((child.stdout.take(), child.stderr.take()));
        (words, Running(child), family)
    });
    for (words, mut child, family) in ends {
        all_end(&family, words);
        // 101 is a panic; a signal gives no code.
        assert!(child.0.wait().unwrap().code().is_some_and(|code| code < 4), "{words}");
    }
}

#[test]
fn each_subcommand_ends_when_its_terminal_closes() {
    let _turn = crate::alone();
    let Some(cpu) = cpu() else { return };
    if Command::new("script").arg("--version").output().is_err() {
        not_run("no script(1) to make a terminal");
        return;
    }
    // With SIGHUP ignored, as by nohup(1), they should continue; they end all the same.
    let ignoring = [
        "verify --cpus CPU --for 2s --warmup 1ms",
        "latency timer --cpus CPU --other --for 2s",
        "watch --interval 100ms",
    ];
    let fresh = format!("exec {} ", FRESH.join(" "));
    let cases = LONG.iter().map(|words| (fresh.as_str(), *words));
    let cases = cases.chain(ignoring.map(|words| ("trap \"\" HUP; exec ", words)));
    let shells: Vec<String> =
        cases.map(|(before, words)| format!("{before}{PROGRAM} {}", line(words, cpu))).collect();
    let start = |shell: &String| {
        let mut script = Command::new("script");
        script.args(["-qec", shell, "/dev/null"]);
        script.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let mut ends = Vec::new();
    for some in shells.chunks(AT_ONCE) {
        let running: Vec<Running> = some.iter().map(|shell| Running(start(shell))).collect();
        std::thread::sleep(Duration::from_millis(1200));
        // The master side closes with its only owner, which is dropped here.
        let family = |it: Running| started_family(i32::try_from(it.0.id()).unwrap());
        ends.extend(some.iter().zip(running.into_iter().map(family)));
    }
    for (shell, family) in ends {
        all_end(&family, shell);
    }
}

/// Fills the socket of a pair, so that the next write to it blocks.
fn full_socket() -> (UnixStream, UnixStream) {
    let (reader, writer) = UnixStream::pair().unwrap();
    writer.set_nonblocking(true).unwrap();
    while (&writer).write(&[b' '; 4096]).is_ok() {}
    writer.set_nonblocking(false).unwrap();
    (reader, writer)
}

#[test]
fn a_signal_does_not_interrupt_the_stop_of_an_experiment() {
    let _turn = crate::alone();
    let state = std::env::temp_dir().join(format!("cpushield-stop-{}", std::process::id()));
    let store = ExperimentStore::new(&state);
    let matrix = "[[row]]\nname = 'a'\n[[column]]\nname = 'b'\ninstrument = 'timer'\n".to_owned();
    let row_cpus = vec![RowCpus { shielded: CpuSet::single(0), measured: CpuSet::single(0) }];
    store.save(&ExperimentJournal::new("m.toml".to_owned(), matrix, row_cpus, 1)).unwrap();
    // The program reports on this socket that it has stopped, and blocks there.
    let (mut reader, writer) = full_socket();
    let mut child = Command::new(env!("CARGO_BIN_EXE_cpushield"))
        .args(["experiment", "--stop", "--state"])
        .arg(&state)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(OwnedFd::from(writer))
        .spawn()
        .unwrap();
    while store.load().unwrap().unwrap().phase == ExperimentPhase::Running {
        assert!(child.try_wait().unwrap().is_none(), "it ended without stopping the experiment");
        std::thread::sleep(Duration::from_millis(5));
    }
    for signal in [SIGINT, SIGTERM] {
        process::kill(i32::try_from(child.id()).unwrap(), signal).unwrap();
    }
    let mut report = Vec::new();
    reader.read_to_end(&mut report).unwrap();
    let report = String::from_utf8(report).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{}", report.trim_start());
    std::fs::remove_dir_all(&state).unwrap();
}
