//! Taking a CPU offline and online again. The kernel changes other things by the way: who could run
//! nowhere else may run everywhere, v1 cpusets lose the CPU for good (kernel/cgroup/cpuset-v1.c,
//! 6.12). Those are read before and put back after; affinities of tasks are kept by their own step.

use super::journal::{Done, Fate, Original};
use super::make::Made;
use super::restore::{Back, NOTHING};
use crate::change::{Compare, Outcome};
use cpushield_linux::{CpuSet, Host, Result};
use std::collections::BTreeMap;
use std::time::Duration;

/// How often a CPU is asked to come back, and how long between.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(100);

/// What is left when the CPU is online and everything else as it was.
const BACK: &str = "1";

/// Where v1 cpusets are, with and without the prefix of their files.
const CPUSETS: &[&str] = &["/sys/fs/cgroup/cpuset", "/dev/cpuset"];
/// How deep they are looked through.
const DEPTH_MAX: usize = 16;

fn online(cpu: usize) -> String {
    format!("/sys/devices/system/cpu/cpu{cpu}/online")
}

/// What the kernel changes besides.
fn besides(host: &Host, cpu: usize) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let one = CpuSet::one(cpu);
    for irq in host.list("/proc/irq").unwrap_or_default() {
        let path = format!("/proc/irq/{irq}/smp_affinity_list");
        let Ok(text) = host.read_line(&path) else { continue };
        if text.parse::<CpuSet>().is_ok_and(|cpus| cpus == one) {
            files.insert(path, text);
        }
    }
    for dir in CPUSETS {
        cpusets(host, dir, cpu, 0, &mut files);
    }
    for name in ["scaling_governor", "scaling_min_freq", "scaling_max_freq"] {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/{name}");
        if let Ok(text) = host.read_line(&path) {
            files.insert(path, text);
        }
    }
    files
}

fn cpusets(host: &Host, dir: &str, cpu: usize, depth: usize, files: &mut BTreeMap<String, String>) {
    for name in host.list(dir).unwrap_or_default() {
        let below = format!("{dir}/{name}");
        if depth >= DEPTH_MAX || !host.exists(&format!("{below}/tasks")) {
            continue;
        }
        for path in ["cpuset.cpus", "cpus"].map(|file| format!("{below}/{file}")) {
            let Ok(text) = host.read_line(&path) else { continue };
            if text.parse::<CpuSet>().is_ok_and(|cpus| cpus.contains(cpu)) {
                files.insert(path, text);
            }
        }
        cpusets(host, &below, cpu, depth + 1, files);
    }
}

pub(super) fn original(host: &Host, cpu: usize) -> Result<Original> {
    host.read_line(&online(cpu))?;
    Ok(Original::Files { files: besides(host, cpu) })
}

pub(super) fn make(host: &Host, cpu: usize) -> Result<Made> {
    let path = online(cpu);
    let now = host.read_line(&path)?;
    if now != "1" {
        return Ok(Made::refused(format!("it is offline: {path} reads {now:?}")));
    }
    let files = besides(host, cpu);
    host.write(&path, "0")?;
    if let Some(reason) = bring_back(host, &path)? {
        let note = Some(format!("CPU {cpu} does not come back: {reason}"));
        let broken = note.clone();
        return Ok(Made { note, broken, ..Made::changed("0".to_owned()) });
    }
    match put_back(host, &files)? {
        None => Ok(Made::changed(BACK.to_owned())),
        // Undo tries again.
        note => Ok(Made { note, ..Made::changed("1, not all is back".to_owned()) }),
    }
}

/// Asks a CPU to come online; the reason when it does not.
fn bring_back(host: &Host, path: &str) -> Result<Option<String>> {
    let mut reason = None;
    for n in 0..TRIES {
        match host.write(path, "1") {
            Err(error) if error.is_stop() => return Err(error),
            Err(error) => reason = Some(error.reason()),
            Ok(()) => reason = Some("it stays offline".to_owned()),
        }
        if host.read_line(path)? == "1" {
            return Ok(None);
        }
        if host.is_live() && n + 1 < TRIES {
            std::thread::sleep(PAUSE);
        }
    }
    Ok(reason)
}

/// Writes what differs; says what could not be put back.
fn put_back(host: &Host, files: &BTreeMap<String, String>) -> Result<Option<String>> {
    // A v1 cpuset lies within the one above it, so those above come first.
    let mut files: Vec<(&String, &String)> = files.iter().collect();
    files.sort_by_key(|(path, _)| path.matches('/').count());
    let mut failure = None;
    for (path, text) in files {
        let Ok(now) = host.read_line(path) else { continue };
        if now == *text || Compare::List.same(&now, text) {
            continue;
        }
        match host.write(path, text) {
            Err(error) if error.is_stop() => return Err(error),
            Err(error) => {
                let reason = error.reason();
                failure = Some(format!("{path} is {now:?}, it was {text:?}: {reason}"));
            }
            Ok(()) => {}
        }
    }
    Ok(failure)
}

pub(super) fn restore(
    host: &Host,
    cpu: usize,
    files: &BTreeMap<String, String>,
    done: Option<&Done>,
) -> Result<Back> {
    if is_finished(done) {
        return Ok(NOTHING);
    }
    if let Some(reason) = bring_online(host, cpu)? {
        return Ok(Fate::Failed { reason }.into());
    }
    Ok(match put_back(host, files)? {
        Some(reason) => Fate::Failed { reason }.into(),
        None => Fate::Restored.into(),
    })
}

/// Whether the CPU came back; if it is offline by now, that is somebody else's doing.
pub(super) fn is_finished(done: Option<&Done>) -> bool {
    done.is_some_and(|done| done.outcome != Outcome::Changed || done.left.as_deref() == Some(BACK))
}

/// Brings a CPU online that was left offline; the reason when it stays so.
pub(super) fn bring_online(host: &Host, cpu: usize) -> Result<Option<String>> {
    let path = online(cpu);
    match host.read_line(&path) {
        Ok(text) if text == "0" => {}
        // Nothing to bring back: the file tells, or it is not there.
        Ok(_) | Err(_) => return Ok(None),
    }
    let reason = bring_back(host, &path)?;
    Ok(reason.map(|reason| format!("CPU {cpu} does not come back: {reason}")))
}
