//! What the kernel boundary writes on a recorded machine: files of the distribution, and instances
//! of tracefs. They are whole or gone, whichever write is refused.

use crate::roundtrip::bench::{Bench, Tree, file, same};
use cpushield_linux::trace::tracefs::{
    InstanceSettings, TraceInstance, Tracefs, needs_debugfs, remove_stale_instances,
};
use cpushield_linux::{CpuSet, FileAttributes, Host, Result};
use cpushield_simulator::{InjectedFault, Simulated};

const TRACING: &str = "/sys/kernel/tracing";

const EVENTS: &[(&str, &str)] = &[("sched", "sched_switch")];

/// A machine with tracefs at this path.
fn machine(tracing: &str) -> Bench {
    let files = [
        ("trace_clock", "[local] global mono x86-tsc\n"),
        ("buffer_size_kb", "1408\n"),
        ("instances/other/tracing_on", "1\n"),
    ];
    let in_tracefs = |(name, text)| (format!("{}/{name}", &tracing[1..]), file(text));
    Bench::of(&Tree::from(files.map(in_tracefs)))
}

/// The path of this program's only instance.
fn instance_dir(host: &Host, tracing: &str) -> String {
    let instances = host.list(&format!("{tracing}/instances")).unwrap();
    let own = instances.iter().find(|name| name.starts_with("cpushield-")).unwrap();
    format!("{tracing}/instances/{own}")
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
    let bench = machine(TRACING);
    let before = bench.tree();
    let host = bench.host();
    let mut instance = prepare(&host, true).unwrap();
    instance.start().unwrap();
    let dir = instance_dir(&host, TRACING);
    let read = |file: &str| host.read_line(&format!("{dir}/{file}")).unwrap();
    assert_eq!((read("tracing_on"), read("tracing_cpumask")), ("1".into(), "8".into()));
    assert!(read("trace_clock").contains("[x86-tsc]"));
    assert_eq!(read("events/sched/sched_switch/enable"), "1");
    instance.close().unwrap();
    let writes = host.writes();
    same(&before, &bench.tree(), "closed");

    for at in 0..writes {
        let host = bench.host().failing(InjectedFault::Refuse { at, errno: 5 });
        let prepared = prepare(&host, true).is_ok();
        assert!(prepared || host.writes() > at);
        // This instance was not started: one write less, and the last one removes it.
        if at + 2 < writes {
            same(&before, &bench.tree(), &format!("write {at}"));
        }
    }
}

#[test]
fn an_instance_that_would_need_work_on_a_busy_cpu_is_refused_and_removed() {
    let bench = machine(TRACING);
    bench.put(&format!("{TRACING}/buffer_size_kb"), "7 (expanded: 1408)\n");
    let before = bench.tree();
    let host = bench.host();
    assert_eq!(prepare(&host, true).unwrap_err().errno(), Some(16));
    same(&before, &bench.tree(), "refused");
    assert!(prepare(&host, false).is_ok());
}

#[test]
fn only_instances_of_dead_processes_are_removed() {
    let bench = machine(TRACING);
    let instances = format!("{TRACING}/instances");
    for name in ["cpushield-41", "cpushield-41-2", "cpushield-42-0", "cpushield-x"] {
        bench.make_dir(&format!("{instances}/{name}"));
    }
    bench.make_dir("/proc/42");
    let host = bench.host();
    assert_eq!(remove_stale_instances(&host), 2);
    assert_eq!(host.list(&instances).unwrap(), ["cpushield-42-0", "cpushield-x", "other"]);
}

#[test]
fn before_4_1_the_trace_is_in_debugfs() {
    let machine = |tracing: &str| {
        let bench = machine(tracing);
        bench.put("/proc/sys/kernel/osrelease", "3.18.140\n");
        bench.put("/proc/filesystems", "nodev\tdebugfs\n");
        bench
    };
    let debugfs = "/sys/kernel/debug/tracing";
    let bench = machine(debugfs);
    let before = bench.tree();
    let host = bench.host();
    let instance = prepare(&host, true).unwrap();
    instance_dir(&host, debugfs);
    instance.close().unwrap();
    same(&before, &bench.tree(), "closed");
    // Mounted elsewhere, and not mounted.
    let bench = machine("/debug/tracing");
    bench.put("/proc/self/mountinfo", "17 15 0:6 / /debug rw - debugfs debugfs rw\n");
    let host = bench.host();
    let tracefs = Tracefs::find(&host).unwrap();
    assert_eq!((tracefs.root(), tracefs.has_instances(&host)), ("/debug/tracing", true));
    assert!(!needs_debugfs(&host));
    bench.put("/proc/self/mountinfo", "");
    assert_eq!(Tracefs::find(&host).unwrap_err().errno(), Some(19));
    assert!(needs_debugfs(&host));
}

#[test]
fn a_file_is_replaced_with_its_permissions_or_not_at_all() {
    let left = "left by a killed writer";
    let files = [("etc/a", "old"), ("etc/.a.cpushield-new", left)];
    let bench = Bench::of(&files.map(|(path, text)| (path.to_owned(), file(text))).into());
    // The disk decides whether a file is replaced as a whole.
    let bench = bench.into_files();
    let host = bench.host();
    let access = FileAttributes { mode: 0o755, owner: None };
    host.replace_file("/etc/a", b"new", access).unwrap();
    assert_eq!(bench.text("/etc/a").unwrap(), "new");
    assert_eq!(host.access("/etc/a").unwrap().mode, 0o755);
    let full = bench.host().failing(InjectedFault::Refuse { at: 0, errno: 28 });
    assert!(full.replace_file("/etc/a", b"newer", access).is_err());
    assert_eq!(bench.text("/etc/a").unwrap(), "new");
    assert_eq!(host.list("/etc").unwrap(), ["a"]);
    host.erase_file("/etc/a").unwrap();
    host.erase_file("/etc/a").unwrap();
    assert!(host.list("/etc").unwrap().is_empty());
}
