//! What the kernel boundary writes on a recorded machine: files of the distribution, and instances
//! of tracefs. They are whole or gone, whichever write is refused.

use cpushield_linux::trace::tracefs::{
    InstanceSettings, TraceInstance, Tracefs, needs_debugfs, remove_stale_instances,
};
use cpushield_linux::{CpuSet, FileAttributes, Host, Result};
use cpushield_simulator::{InjectedFault, Simulated};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Files of a recorded tracefs.
const FILES: &[(&str, &str)] = &[
    ("trace_clock", "[local] global mono x86-tsc\n"),
    ("buffer_size_kb", "1408\n"),
    ("instances/other/tracing_on", "1\n"),
];

/// The machine, which answers writes.
fn open(dir: &Path) -> Host {
    Host::recorded(dir).unwrap().simulated()
}

/// The path of this program's only instance.
fn instance_dir(host: &Host, tracing: &str) -> String {
    let instances = host.list(&format!("{tracing}/instances")).unwrap();
    let own = instances.iter().find(|name| name.starts_with("cpushield-")).unwrap();
    format!("{tracing}/instances/{own}")
}

const EVENTS: &[(&str, &str)] = &[("sched", "sched_switch")];

fn machine(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("tracefs-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    for (file, text) in FILES {
        let file = dir.join("sys/kernel/tracing").join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    dir
}

/// Every file below a directory.
fn snapshot(dir: &Path) -> BTreeMap<PathBuf, String> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(snapshot(&path));
        } else {
            files.insert(path.clone(), fs::read_to_string(path).unwrap());
        }
    }
    files
}

fn prepare<'h>(host: &'h Host, no_work: bool) -> Result<TraceInstance<'h>> {
    let cpus = CpuSet::single(3);
    let settings = InstanceSettings {
        cpus: &cpus,
        clock: "x86-tsc",
        events: EVENTS,
        buffer_kib: None,
        shrink: &CpuSet::new(),
        no_work,
    };
    TraceInstance::prepare(host, Tracefs::find(host)?, &settings)
}

#[test]
fn an_instance_is_configured_and_removed_whichever_write_fails() {
    let dir = machine("made");
    let before = snapshot(&dir);
    let host = open(&dir);
    let mut instance = prepare(&host, true).unwrap();
    instance.start().unwrap();
    let dir_of_it = instance_dir(&host, "/sys/kernel/tracing");
    let read = |file: &str| host.read_line(&format!("{dir_of_it}/{file}")).unwrap();
    assert_eq!((read("tracing_on"), read("tracing_cpumask")), ("1".into(), "8".into()));
    assert!(read("trace_clock").contains("[x86-tsc]"));
    assert_eq!(read("events/sched/sched_switch/enable"), "1");
    instance.close().unwrap();
    let writes = host.writes();
    assert_eq!(snapshot(&dir), before);

    for at in 0..writes {
        let fault = InjectedFault::Refuse { at, errno: 5 };
        let host = open(&dir).failing(fault);
        let prepared = prepare(&host, true).is_ok();
        assert!(prepared || host.writes() > at);
        // This instance was not started: one write less, and the last one removes it.
        if at + 2 < writes {
            assert_eq!(snapshot(&dir), before, "write {at}");
        }
    }
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn an_instance_that_would_need_work_on_a_busy_cpu_is_refused_and_removed() {
    let dir = machine("busy");
    fs::write(dir.join("sys/kernel/tracing/buffer_size_kb"), "7 (expanded: 1408)\n").unwrap();
    let before = snapshot(&dir);
    let host = open(&dir);
    assert_eq!(prepare(&host, true).unwrap_err().errno(), Some(16));
    assert_eq!(snapshot(&dir), before);
    assert!(prepare(&host, false).is_ok());
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn only_instances_of_dead_processes_are_removed() {
    let dir = machine("leftovers");
    let instances = dir.join("sys/kernel/tracing/instances");
    for name in ["cpushield-41", "cpushield-41-2", "cpushield-42-0", "cpushield-x"] {
        fs::create_dir(instances.join(name)).unwrap();
    }
    fs::create_dir_all(dir.join("proc/42")).unwrap();
    let host = open(&dir);
    assert_eq!(remove_stale_instances(&host), 2);
    let left = host.list("/sys/kernel/tracing/instances").unwrap();
    assert_eq!(left, ["cpushield-42-0", "cpushield-x", "other"]);
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn before_4_1_the_trace_is_in_debugfs() {
    let dir = machine("debugfs");
    let debugfs = dir.join("sys/kernel/debug");
    fs::create_dir_all(&debugfs).unwrap();
    fs::rename(dir.join("sys/kernel/tracing"), debugfs.join("tracing")).unwrap();
    fs::create_dir_all(dir.join("proc/self")).unwrap();
    fs::create_dir_all(dir.join("proc/sys/kernel")).unwrap();
    fs::write(dir.join("proc/sys/kernel/osrelease"), "3.18.140\n").unwrap();
    fs::write(dir.join("proc/filesystems"), "nodev\tdebugfs\n").unwrap();
    let before = snapshot(&dir);
    let host = open(&dir);
    let instance = prepare(&host, true).unwrap();
    instance_dir(&host, "/sys/kernel/debug/tracing");
    instance.close().unwrap();
    assert_eq!(snapshot(&dir), before);
    // Mounted elsewhere, and not mounted.
    fs::rename(&debugfs, dir.join("debug")).unwrap();
    let mount = "17 15 0:6 / /debug rw - debugfs debugfs rw\n";
    fs::write(dir.join("proc/self/mountinfo"), mount).unwrap();
    let tracefs = Tracefs::find(&host).unwrap();
    assert_eq!((tracefs.root(), tracefs.has_instances(&host)), ("/debug/tracing", true));
    assert!(!needs_debugfs(&host));
    fs::write(dir.join("proc/self/mountinfo"), "").unwrap();
    assert_eq!(Tracefs::find(&host).unwrap_err().errno(), Some(19));
    assert!(needs_debugfs(&host));
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_file_is_replaced_with_its_permissions_or_not_at_all() {
    let dir = std::env::temp_dir().join(format!("cpushield-files-{}", std::process::id()));
    fs::create_dir_all(dir.join("etc")).unwrap();
    fs::write(dir.join("etc/a"), "old").unwrap();
    fs::write(dir.join("etc/.a.cpushield-new"), "left by a killed writer").unwrap();
    let host = open(&dir);
    let access = FileAttributes { mode: 0o755, owner: None };
    host.replace_file("/etc/a", b"new", access).unwrap();
    assert_eq!(fs::read(dir.join("etc/a")).unwrap(), b"new");
    assert_eq!(host.access("/etc/a").unwrap().mode, 0o755);
    let full = open(&dir).failing(InjectedFault::Refuse { at: 0, errno: 28 });
    assert!(full.replace_file("/etc/a", b"newer", access).is_err());
    assert_eq!(fs::read(dir.join("etc/a")).unwrap(), b"new");
    assert_eq!(host.list("/etc").unwrap(), ["a"]);
    host.erase_file("/etc/a").unwrap();
    host.erase_file("/etc/a").unwrap();
    assert!(host.list("/etc").unwrap().is_empty());
    fs::remove_dir_all(dir).unwrap();
}
