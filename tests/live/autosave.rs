//! `cpushield latency -o FILE`: what is on the disk during a measurement, after a kill, and when
//! the disk is full.

use cpushield::latency::{LatencyMeasurement, LatencyNote};
use cpushield_linux::{Host, processes::process, sys::sched};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// A directory of one test, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let dir = std::env::temp_dir().join(format!("cpushield-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn cpu() -> usize {
    sched::affinity(0).unwrap().last().unwrap()
}

fn command(words: &[&str]) -> Command {
    let mut command = latency(&["timer"]);
    command.args(words);
    command
}

fn latency(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cpushield"));
    command.arg("latency").args(words);
    command.args(["--other", "--state", "/nonexistent/cpushield", "--cpus"]);
    command.arg(cpu().to_string()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(words: &[&str]) -> Output {
    command(words).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The document in a file, which must be complete at any time.
fn saved(file: &Path) -> Option<LatencyMeasurement> {
    let text = fs::read_to_string(file).ok()?;
    Some(serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}")))
}

/// Waits until the file has had this many documents with events.
fn wait_for(file: &Path, documents: usize) -> LatencyMeasurement {
    let (mut last, mut seen) = (None, 0);
    for _ in 0..6000 {
        std::thread::sleep(Duration::from_millis(10));
        let found = saved(file).filter(|latency| latency.series[0].samples > 0);
        if found.is_some() && found != last {
            (last, seen) = (found, seen + 1);
        }
        if seen == documents {
            return last.unwrap();
        }
    }
    panic!("no document");
}

/// The data of a process in KiB, without the pages of its program: a debug build has many, and the
/// measuring process locks them all.
fn data_kib(host: &Host, pid: i32) -> u64 {
    let status = host.read(&format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// The affinity of the thread that writes, and the data of both processes in KiB.
fn looked_at(child: &Child) -> (cpushield_linux::CpuSet, u64) {
    let host = Host::live();
    let pid = i32::try_from(child.id()).unwrap();
    let tasks = host.tasks().unwrap();
    // A name of the kernel has 15 letters at most.
    let name = &cpushield::autosave::THREAD[..cpushield::autosave::THREAD.len().min(15)];
    let writer = tasks.iter().find(|task| task.pid == pid && task.comm == name).unwrap();
    let crew = tasks.iter().find(|task| task.parent == pid && task.comm.starts_with("latency/"));
    let memory = data_kib(&host, pid) + data_kib(&host, crew.unwrap().pid);
    (host.online_affinity(writer.id.tid).unwrap(), memory)
}

#[test]
fn a_killed_measurement_is_on_disk_and_is_not_overwritten() {
    let _turn = crate::alone();
    let scratch = Scratch::new("keep");
    let file = scratch.0.join("day.json");
    let name = file.to_str().unwrap();
    let options = ["--thread", "100us", "--over", "1us,5ms"];
    let mut day = command(&[&options[..], &["--for", "24h", "-o", name]].concat());
    let mut child = day.spawn().unwrap();
    wait_for(&file, 3);
    let (affinity, kib) = looked_at(&child);
    assert!(!affinity.contains(cpu()) || sched::affinity(0).unwrap().len() == 1, "{affinity}");
    assert!(kib < 64 << 10, "{kib} KiB");
    process::kill(i32::try_from(child.id()).unwrap(), 9).unwrap();
    child.wait().unwrap();
    let before = saved(&file).unwrap();
    assert!(before.unfinished && !before.stopped, "{before:?}");
    assert!(before.span_ns > 2_000_000_000, "three looks, a second apart: {}", before.span_ns);
    assert!(fs::metadata(&file).unwrap().len() < 1 << 20);
    let text = fs::read_to_string(&file).unwrap();

    let again = run(&["--for", "1s", "-o", name]);
    assert_eq!(again.status.code(), Some(2), "{}", said(&again));
    assert!(said(&again).contains("holds an unfinished measurement"), "{}", said(&again));
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    let left: Vec<_> = fs::read_dir(&scratch.0).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn a_full_disk_is_reported_once_and_no_data_is_lost() {
    let _turn = crate::alone();
    let output = run(&["--for", "3s", "-o", "/dev/full"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let reported = said(&output);
    assert_eq!(reported.matches("every second").count(), 1, "{reported}");
    assert!(reported.contains("No space left on device"), "{reported}");
    // The document follows the text.
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap();
    let latency: LatencyMeasurement = serde_json::from_str(last).unwrap();
    assert!(latency.series[0].samples > 0 && !latency.unfinished, "{latency:?}");
    let is_unsaved = |note: &LatencyNote| matches!(note, LatencyNote::NotSaved { .. });
    assert!(latency.notes.iter().any(is_unsaved), "{latency:?}");
}
