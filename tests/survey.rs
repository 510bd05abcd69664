//! Small machines made up of a few files, each for one thing that the survey must see.

use cpushield::survey::{CgroupMode, CoreKind, Machine, Movable, Reading, survey, survey_beside};
use cpushield_linux::Host;
use std::fs;
use std::path::Path;

/// A machine of these files and four CPUs.
fn machine(name: &str, files: &[(&str, &str)], wanted: &[&str]) -> Machine {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("small").join(name);
    let _ = fs::remove_dir_all(&dir);
    let cpus =
        [("/sys/devices/system/cpu/possible", "0-3"), ("/sys/devices/system/cpu/online", "0-3")];
    for (path, text) in cpus.iter().chain(files) {
        let file = dir.join(&path[1..]);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, format!("{text}\n")).unwrap();
    }
    survey(&Host::recorded(&dir).unwrap(), wanted)
}

fn names(found: &[cpushield::survey::Finding]) -> Vec<&str> {
    found.iter().map(|finding| finding.name.as_str()).collect()
}

#[test]
fn boot_parameters_mean_what_the_kernel_takes_them_for() {
    let cmdline = "quiet isolcpus=managed_irq,domain,2-N rcu-nocbs=1,x irqaffinity=0 -- isolcpus=1";
    let found = machine("boot", &[("/proc/cmdline", cmdline)], &[]);
    let isolation = &found.isolation;
    assert_eq!(isolation.isolcpus.as_deref(), Some("managed_irq,domain,2-N"));
    assert_eq!(isolation.isolcpus_domain.to_string(), "2-3");
    assert_eq!(isolation.managed_irq.to_string(), "2-3");
    // A wrong list offloads every CPU.
    assert_eq!(isolation.rcu_nocbs.to_string(), "0-3");
    assert_eq!(isolation.irqaffinity.as_ref().unwrap().to_string(), "0");
    assert!(names(&found.conflicts).contains(&"isolcpus-domain"));

    let nohz = [("/sys/devices/system/cpu/nohz_full", "       (null)"), ("/proc/cmdline", "")];
    let found = machine("null", &nohz, &[]);
    assert_eq!(found.isolation.nohz_full, Some("".parse().unwrap()));
    assert_eq!(machine("none", &[], &[]).isolation.nohz_full, None);
}

#[test]
fn every_source_tells_a_real_time_kernel() {
    let banner = |flags: &str| format!("Linux version 6.1.0 (a@b) (gcc #9) #1 SMP {flags}");
    let told = |name: &str, files: &[(&str, &str)]| {
        let kernel = machine(name, files, &[]).kernel;
        (kernel.realtime, kernel.realtime_source.unwrap_or_default())
    };
    let version = "/proc/version";
    let rt = "PREEMPT_RT in /proc/version";
    assert_eq!(told("rt-a", &[("/sys/kernel/realtime", "1")]).0, Some(true));
    assert_eq!(told("rt-b", &[(version, &banner("PREEMPT_RT Debian"))]), (Some(true), rt.into()));
    assert_eq!(told("rt-c", &[(version, &banner("PREEMPT RT"))]), (Some(true), rt.into()));
    assert_eq!(told("rt-d", &[(version, &banner("PREEMPT_DYNAMIC"))]).0, Some(false));
    let config = [
        (version, "Linux version 6.1.0 (me@PREEMPT_RT) #1 SMP"),
        ("/boot/config-6.1.0", "CONFIG_PREEMPT_RT=y\nCONFIG_HZ=1000"),
    ];
    assert_eq!(told("rt-e", &config), (Some(true), "CONFIG_PREEMPT_RT=y".into()));
    assert_eq!(machine("rt-e", &config, &[]).kernel.hz, Some(1000));
    assert_eq!(told("rt-f", &config[..1]).0, Some(false));
    assert_eq!(told("rt-g", &[]), (None, String::new()));
}

#[test]
fn cpusets_of_others_are_found_on_v2() {
    let cgroup = "/sys/fs/cgroup";
    let file = |name: &str| format!("{cgroup}/{name}");
    let files: Vec<(String, &str)> = vec![
        ("/proc/self/mountinfo".into(), "30 1 0:2 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw"),
        ("/run/systemd/system/x".into(), ""),
        (file("cgroup.controllers"), "cpuset cpu io"),
        (file("cgroup.subtree_control"), "cpu cpuset"),
        (file("cpuset.cpus.isolated"), "2-3"),
        (file("cpuset.mems.effective"), "0"),
        (file("lathe/cpuset.cpus"), "2-3"),
        (file("lathe/cpuset.cpus.partition"), "isolated"),
        (file("lathe/cgroup.procs"), "7\n8"),
        (file("system.slice/cpuset.cpus"), ""),
        (file("system.slice/cpuset.cpus.partition"), "member"),
        (file("system.slice/cgroup.subtree_control"), "cpuset"),
        (file("system.slice/a.service/cpuset.cpus"), "0"),
        (file("user.slice/cgroup.procs"), ""),
    ];
    let files: Vec<(&str, &str)> =
        files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let found = machine("v2", &files, &[]);
    let cgroup = &found.cgroup;
    assert_eq!((cgroup.mode, cgroup.systemd, cgroup.delegated), (CgroupMode::V2, true, true));
    let groups: Vec<(&str, String)> =
        cgroup.groups.iter().map(|group| (group.path.as_str(), group.cpus.to_string())).collect();
    assert_eq!(
        groups,
        [
            ("/sys/fs/cgroup/lathe", "2-3".to_owned()),
            ("/sys/fs/cgroup/system.slice/a.service", "0".to_owned()),
        ]
    );
    assert_eq!(cgroup.groups[0].tasks, Some(2));
    assert_eq!(found.isolation.partitions, Some("2-3".parse().unwrap()));
    assert_eq!(names(&found.conflicts), ["foreign-cpuset"]);
}

#[test]
fn cpusets_of_v1_are_read_with_and_without_prefix() {
    for (name, prefix, mount) in [
        ("v1", "cpuset.", "30 1 0:2 / /dev/cpuset rw - cgroup cgroup rw,cpuset"),
        ("v1-old", "", "30 1 0:2 / /dev/cpuset rw - cgroup none rw,cpuset,noprefix"),
    ] {
        let file = |name: &str| format!("/dev/cpuset/{name}").replace('@', prefix);
        let files: Vec<(String, &str)> = vec![
            ("/proc/self/mountinfo".into(), mount),
            (file("@cpus"), "0-3"),
            (file("@mems"), "0-1"),
            (file("@sched_load_balance"), "0"),
            (file("tasks"), "1"),
            (file("rt/@cpus"), "3"),
            (file("rt/@cpu_exclusive"), "1"),
        ];
        let files: Vec<(&str, &str)> = files.iter().map(|(path, t)| (path.as_str(), *t)).collect();
        let found = machine(name, &files, &[]).cgroup;
        assert_eq!((found.mode, found.prefix.as_str()), (CgroupMode::V1, prefix));
        assert_eq!((found.mems.to_string().as_str(), found.balanced), ("0-1", Some(false)));
        assert_eq!(found.groups.len(), 1, "{name}");
        assert_eq!(
            (found.groups[0].cpus.to_string().as_str(), found.groups[0].exclusive),
            ("3", true)
        );
    }
}

#[test]
fn interrupts_answer_as_the_machine_did() {
    let files = [
        (
            "/proc/interrupts",
            "  CPU0 CPU1 CPU2 CPU3\n 9: 1 0 0 0 IO-APIC 9-fasteoi acpi\n10: 0 0 0 5 PCI-MSI 1-edge nvme0q4\nLOC: 1 1 1 1 Local",
        ),
        ("/proc/irq/9/smp_affinity", "f"),
        ("/proc/irq/10/smp_affinity", "8"),
        ("/proc/irq/10/effective_affinity_list", "3"),
        ("/proc/irq/11/smp_affinity", "f"),
        ("/proc/irq/default_smp_affinity", "7"),
    ];
    let untried = machine("irq-untried", &files, &[]);
    assert!(untried.irqs.iter().all(|irq| matches!(irq.movable, Movable::Unknown(_))));
    let errors = ("/errors.tsv", "write\t/proc/irq/10/smp_affinity\tEIO");
    let found = machine("irq", &[&files[..], &[errors]].concat(), &[]);
    assert_eq!(found.irq_default, Some("0-2".parse().unwrap()));
    let movable: Vec<(u32, Movable)> =
        found.irqs.iter().map(|irq| (irq.irq, irq.movable.clone())).collect();
    assert_eq!(
        movable,
        [
            (9, Movable::Yes),
            (10, Movable::No("EIO: Input/output error".to_owned())),
            (11, Movable::Unknown("no driver has requested it".to_owned())),
        ]
    );
    assert_eq!(found.irqs[1].counts, [(3, 5)].into());
    assert_eq!(found.irqs[1].effective, Some("3".parse().unwrap()));
}

#[test]
fn settings_are_values_absent_or_unreadable() {
    let files = [
        ("/proc/sys/vm/stat_interval", "1"),
        ("/proc/sys/kernel/secret", "x"),
        ("/sys/class/net/eth0/queues/rx-0/rps_cpus", "0"),
        ("/sys/class/net/eth0/queues/tx-0/xps_cpus", "0"),
        ("/sys/class/net/eth1/queues/rx-1/rps_cpus", "3"),
        ("/errors.tsv", "read\t/proc/sys/kernel/secret\tEPERM"),
    ];
    let wanted = [
        "/proc/sys/vm/stat_interval",
        "/proc/sys/kernel/secret",
        "/proc/sys/kernel/no_such_file",
        "/sys/class/net/*/queues/rx-*/rps_cpus",
        "/sys/class/*/no_such_file",
    ];
    let found = machine("settings", &files, &wanted).settings;
    let value = |text: &str| Reading::Value(text.to_owned());
    let unreadable = Reading::Unreadable("EPERM: Operation not permitted".to_owned());
    let wanted = [
        ("/proc/sys/kernel/no_such_file", Reading::Absent),
        ("/proc/sys/kernel/secret", unreadable),
        ("/proc/sys/vm/stat_interval", value("1")),
        ("/sys/class/net/eth0/queues/rx-0/rps_cpus", value("0")),
        ("/sys/class/net/eth1/queues/rx-1/rps_cpus", value("3")),
    ];
    assert_eq!(found, wanted.map(|(path, reading)| (path.to_owned(), reading)).into());
}

#[test]
fn programs_that_work_against_isolation_are_named() {
    let stat = |pid: u32, name: &str, flags: u32| {
        let zeros = "0 ".repeat(40);
        format!("{pid} ({name}) S 1 1 1 0 -1 {flags} {zeros}0")
    };
    let (balance, kthread, worker) =
        (stat(500, "irqbalance", 0), stat(9, "tuned", 0x0020_0000), stat(501, "numad", 0));
    let status = "Name:\tx\nCpus_allowed_list:\t0-3";
    let found = machine(
        "programs",
        &[
            ("/proc/500/task/500/stat", &balance),
            ("/proc/500/task/500/status", status),
            // A thread that calls itself so is not the program.
            ("/proc/500/task/501/stat", &worker),
            ("/proc/500/task/501/status", status),
            ("/proc/9/task/9/stat", &kthread),
            ("/proc/9/task/9/status", status),
        ],
        &[],
    );
    assert_eq!(found.tasks.len(), 3);
    assert_eq!(names(&found.conflicts), ["irqbalance", "no-cpuset"]);
}

#[test]
fn core_kinds_come_from_the_best_source() {
    let kinds = |found: &Machine| -> Vec<Option<CoreKind>> {
        found.topology.cpus.iter().map(|cpu| cpu.kind).collect()
    };
    let (strong, small) = (Some(CoreKind::Performance), Some(CoreKind::Efficiency));
    let pmus = [("/sys/devices/cpu_core/cpus", "0-1"), ("/sys/devices/cpu_atom/cpus", "2-3")];
    assert_eq!(kinds(&machine("pmu", &pmus, &[])), [strong, strong, small, small]);
    let capacity = |cpu: usize| format!("/sys/devices/system/cpu/cpu{cpu}/cpu_capacity");
    let files: Vec<(String, &str)> =
        [(0, "250"), (1, "870"), (2, "870"), (3, "1024")].map(|(c, n)| (capacity(c), n)).into();
    let files: Vec<(&str, &str)> =
        files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    assert_eq!(kinds(&machine("capacity", &files, &[])), [small, strong, strong, strong]);
    assert_eq!(kinds(&machine("equal", &files[1..], &[])), [None; 4]);
}

#[test]
fn an_empty_machine_is_all_notes() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("small/empty");
    fs::create_dir_all(&dir).unwrap();
    let found = survey(&Host::recorded(&dir).unwrap(), &[]);
    let told: Vec<&str> = found.notes.iter().map(|note| note.what.as_str()).collect();
    for what in ["/proc/version", "/proc/cmdline", "/proc/interrupts", "/proc", "PREEMPT_RT"] {
        assert!(told.contains(&what), "{what} is not told: {told:?}");
    }
    assert!(found.topology.online.is_empty() && found.tasks.is_empty());
}

#[test]
fn beside_a_shield_no_interrupt_is_tried_and_a_note_says_so() {
    let files = [
        ("/proc/interrupts", "  CPU0 CPU1 CPU2 CPU3\n 24: 0 0 0 0 PCI-MSI 1-edge eth0"),
        ("/proc/irq/24/smp_affinity", "f"),
        ("/proc/cpuinfo", "model name : one"),
        ("/proc/sys/kernel/osrelease", "5.10.0-1-amd64"),
        ("/proc/sys/kernel/arch", "x86_64"),
        ("/errors.tsv", ""),
    ];
    let before = machine("quiet", &files, &[]);
    assert_eq!(before.irqs[0].movable, Movable::Yes);
    assert_eq!(before.topology.model.as_deref(), Some("one"));
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("small/quiet");
    let host = Host::recorded(&dir).unwrap();
    let beside = survey_beside(&host, &[], &"3".parse().unwrap());
    assert!(matches!(beside.irqs[0].movable, Movable::Unknown(_)), "{:?}", beside.irqs);
    assert_eq!(beside.topology.model, None);
    let notes: Vec<&str> = beside.notes.iter().map(|note| note.what.as_str()).collect();
    assert!(notes.contains(&"/proc/irq") && notes.contains(&"/proc/cpuinfo"), "{notes:?}");
    // The CPUs of nohz_full= are not asked.
    let nohz_full = dir.join("sys/devices/system/cpu/nohz_full");
    fs::write(nohz_full, "3\n").unwrap();
    let beside = survey_beside(&host, &[], &"3".parse().unwrap());
    assert_eq!(beside.topology.model.as_deref(), Some("one"));
}
