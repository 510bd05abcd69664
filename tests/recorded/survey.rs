//! Small machines of a few files, each for one fact that the survey must find.

use cpushield::boot::lint::lint;
use cpushield::documents::inapplicable::InapplicableReason;
use cpushield::plan::{BootPreparation, ChoiceReason, SkipReason};
use cpushield::policy::ShieldRequest;
use cpushield::report::blocks::{terminal_blocks, unpainted};
use cpushield::report::machine::{blocks, blocks_with_readiness};
use cpushield::survey::{
    CgroupMode, CoreKind, IrqMovability, KindSource, Machine, TunableReading, survey,
    survey_with_shield,
};
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

fn names(found: &[cpushield::survey::SurveyFinding]) -> Vec<&str> {
    found.iter().map(|finding| finding.name.as_str()).collect()
}

#[test]
fn boot_parameters_are_interpreted_as_the_kernel_does() {
    let cmdline = "quiet isolcpus=managed_irq,domain,2-N rcu-nocbs=1,x irqaffinity=0 -- isolcpus=1";
    let found = machine("boot", &[("/proc/cmdline", cmdline)], &[]);
    let isolation = &found.isolation;
    assert_eq!(isolation.isolcpus.as_deref(), Some("managed_irq,domain,2-N"));
    assert_eq!(isolation.isolcpus_domain.to_string(), "2-3");
    assert_eq!(isolation.managed_irq.to_string(), "2-3");
    // A wrong list offloads every CPU.
    assert_eq!(isolation.rcu_nocbs.to_string(), "0-3");
    assert_eq!(isolation.irqaffinity.as_ref().unwrap().to_string(), "0");

    let nohz = [("/sys/devices/system/cpu/nohz_full", "       (null)"), ("/proc/cmdline", "")];
    let found = machine("null", &nohz, &[]);
    assert_eq!(found.isolation.nohz_full, Some("".parse().unwrap()));
    assert_eq!(machine("none", &[], &[]).isolation.nohz_full, None);
}

#[test]
fn isolation_parameters_that_the_kernel_rejects_are_findings() {
    let line = "isolcpus=1 isolcpus=2-3 nohz_full=1-9 irqaffinity=0-1";
    let release = ("/proc/sys/kernel/osrelease", "6.12.9");
    let found = machine("faults", &[("/proc/cmdline", line), release], &[]);
    assert_eq!(found.isolation.isolcpus_domain.to_string(), "1");
    let texts: Vec<String> = lint(&found, &[]).iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "the kernel ignores isolcpus=2-3: isolcpus=1 comes first and names other CPUs",
            "nohz_full=1-9 names CPU 4-9, but the last CPU is 3: the kernel ignores the whole list",
            "irqaffinity=0-1 sends interrupts to CPU 1, which isolcpus=1 isolates; the kernel does not \
         compare the two",
        ]
    );
    let text = terminal_blocks(&blocks_with_readiness(&found, &lint(&found, &[])), 300, &unpainted);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("Verdict: "), "{text}");
    assert_eq!(lines[1..3], ["", "Kernel command line"], "{text}");
    let without = terminal_blocks(&blocks_with_readiness(&found, &[]), 300, &unpainted);
    assert!(!without.contains("Kernel command line"), "{without}");
}

/// Only a copy of `/sys/devices/system/cpu`, with isolated CPUs and without a governor.
#[test]
fn facts_missing_from_a_partial_recording_are_unknown() {
    let cpu = "/sys/devices/system/cpu";
    let (isolated, policy) = (format!("{cpu}/isolated"), format!("{cpu}/cpufreq/policy0"));
    let governor = format!("{policy}/scaling_governor");
    let files = [(isolated.as_str(), "2"), (governor.as_str(), "")];
    let found = machine("partial", &files, &cpushield::tunables::reads());
    assert_eq!(found.can_stop_tick(), None);
    assert!(found.power.governors.is_empty());
    assert!(found.notes.iter().any(|note| note.what == governor));
    let text = terminal_blocks(&blocks(&found, &[]), 100, &unpainted);
    assert!(
        text.contains("CPU 2: reported as isolated by the kernel; the reason is unknown"),
        "{text}"
    );
    let plan = cpushield::plan::plan(&found, &ShieldRequest::default()).unwrap();
    // Isolated CPUs count as prepared, with a doubt.
    assert_eq!(plan.shield.cpus.to_string(), "2");
    let is_shown_by_kernel = |why: &ChoiceReason| {
        matches!(why, ChoiceReason::PreparedAtBoot { by: BootPreparation::Unknown, .. })
    };
    assert!(plan.why.iter().any(is_shown_by_kernel), "{:?}", plan.why);
    assert!(plan.boot.iter().any(|it| it.parameter == "nohz_full=2"), "{:?}", plan.boot);
    for (name, why) in [
        ("nohz-full", InapplicableReason::TickStopUnknown),
        ("watchdog", InapplicableReason::WatchdogUnknown),
        ("irq-affinity", InapplicableReason::IrqMasksUnknown),
    ] {
        let skipped = plan.skipped.iter().find(|it| it.tunable == name);
        let expected = SkipReason::Inapplicable { why };
        assert_eq!(skipped.map(|it| &it.reason), Some(&expected), "{name}");
    }
    // With the command line, the same absence is a fact.
    let whole = machine("whole", &[(&isolated, "2"), ("/proc/cmdline", "isolcpus=2")], &[]);
    assert_eq!(whole.can_stop_tick(), Some(false));
}

#[test]
fn every_source_identifies_a_real_time_kernel() {
    let banner = |flags: &str| format!("Linux version 6.1.0 (a@b) (gcc #9) #1 SMP {flags}");
    let shown = |name: &str, files: &[(&str, &str)]| {
        let kernel = machine(name, files, &[]).kernel;
        (kernel.realtime, kernel.realtime_source.unwrap_or_default())
    };
    let version = "/proc/version";
    let rt = "PREEMPT_RT in /proc/version";
    assert_eq!(shown("rt-a", &[("/sys/kernel/realtime", "1")]).0, Some(true));
    assert_eq!(shown("rt-b", &[(version, &banner("PREEMPT_RT Debian"))]), (Some(true), rt.into()));
    assert_eq!(shown("rt-c", &[(version, &banner("PREEMPT RT"))]), (Some(true), rt.into()));
    assert_eq!(shown("rt-d", &[(version, &banner("PREEMPT_DYNAMIC"))]).0, Some(false));
    let config = [
        (version, "Linux version 6.1.0 (me@PREEMPT_RT) #1 SMP"),
        ("/boot/config-6.1.0", "CONFIG_PREEMPT_RT=y\nCONFIG_HZ=1000"),
    ];
    assert_eq!(shown("rt-e", &config), (Some(true), "CONFIG_PREEMPT_RT=y".into()));
    assert_eq!(machine("rt-e", &config, &[]).kernel.hz, Some(1000));
    assert_eq!(shown("rt-f", &config[..1]).0, Some(false));
    assert_eq!(shown("rt-g", &[]), (None, String::new()));
}

#[test]
fn foreign_cpusets_are_found_on_v2() {
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
fn a_physical_machine_of_a_cloud_is_no_guest() {
    let survey_of = |name: &str, product: &str, vendor: &str, flags: &str| {
        let cpuinfo = format!("processor\t: 0\nflags\t\t: fpu tsc{flags}");
        let files = [
            ("/sys/class/dmi/id/product_name", product),
            ("/sys/class/dmi/id/sys_vendor", vendor),
            ("/proc/cpuinfo", cpuinfo.as_str()),
        ];
        let virt = machine(name, &files, &[]).virt;
        (virt.guest, virt.hypervisor)
    };
    let kvm = (Some(true), Some("KVM".to_owned()));
    assert_eq!(survey_of("metal", "c5.metal", "Amazon EC2", ""), (Some(false), None));
    assert_eq!(survey_of("nitro", "c5.large", "Amazon EC2", " hypervisor"), kvm);
    // A guest whose host hides the flag.
    let hidden = survey_of("hidden", "Standard PC (Q35 + ICH9, 2009)", "QEMU", "");
    assert_eq!(hidden, (Some(true), Some("QEMU".to_owned())));
}

#[test]
fn installed_tools_that_isolate_cpus_are_named_once() {
    let files = ["/usr/bin/cset", "/usr/local/bin/partrt", "/usr/sbin/cgconfigparser"];
    let more = ["/usr/sbin/cgrulesengd", "/usr/sbin/tuned"];
    let files: Vec<(&str, &str)> = files.iter().chain(&more).map(|path| (*path, "")).collect();
    let found = machine("installed", &files, &[]);
    assert_eq!(names(&found.conflicts), ["cset", "partrt", "cgconfig", "cgrulesengd", "tuned"]);
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
fn simulated_interrupts_answer_as_the_real_machine_did() {
    let files = [
        (
            "/proc/interrupts",
            "  CPU0 CPU1 CPU2 CPU3\n 9: 1 0 0 0 IO-APIC 9-fasteoi acpi\n10: 0 0 0 5 PCI-MSI 1-edge nvme0q4\nLOC: 1 1 1 1 Local",
        ),
        ("/proc/irq/9/smp_affinity", "f"),
        ("/proc/irq/9/effective_affinity_list", "0"),
        ("/proc/irq/10/smp_affinity", "8"),
        ("/proc/irq/10/effective_affinity_list", "3"),
        ("/proc/irq/11/smp_affinity", "f"),
        ("/proc/irq/default_smp_affinity", "7"),
    ];
    let untried = machine("irq-untried", &files, &[]);
    assert!(untried.irqs.iter().all(|irq| matches!(irq.movable, IrqMovability::Unknown(_))));
    let errors = ("/errors.tsv", "write\t/proc/irq/10/smp_affinity\tEIO");
    let found = machine("irq", &[&files[..], &[errors]].concat(), &[]);
    assert_eq!(found.irq_default, Some("0-2".parse().unwrap()));
    let movable: Vec<(u32, IrqMovability)> =
        found.irqs.iter().map(|irq| (irq.irq, irq.movable.clone())).collect();
    assert_eq!(
        movable,
        [
            (9, IrqMovability::Yes),
            (10, IrqMovability::No("EIO: Input/output error".to_owned())),
            (11, IrqMovability::Unknown("no driver has requested it".to_owned())),
        ]
    );
    assert_eq!(found.irqs[1].counts, [(3, 5)].into());
    assert_eq!(found.irqs[1].effective, Some("3".parse().unwrap()));
}

#[test]
fn settings_have_a_value_or_are_absent_or_unreadable() {
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
    let value = |text: &str| TunableReading::Value(text.to_owned());
    let unreadable = TunableReading::Unreadable("EPERM: Operation not permitted".to_owned());
    let wanted = [
        ("/proc/sys/kernel/no_such_file", TunableReading::Absent),
        ("/proc/sys/kernel/secret", unreadable),
        ("/proc/sys/vm/stat_interval", value("1")),
        ("/sys/class/net/eth0/queues/rx-0/rps_cpus", value("0")),
        ("/sys/class/net/eth1/queues/rx-1/rps_cpus", value("3")),
    ];
    assert_eq!(found, wanted.map(|(path, reading)| (path.to_owned(), reading)).into());
}

#[test]
fn programs_that_conflict_with_isolation_are_named() {
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
fn core_types_come_from_the_best_source() {
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
fn part_numbers_and_modules_distinguish_cores_that_frequencies_do_not() {
    let kinds = |found: &Machine| -> Vec<Option<CoreKind>> {
        found.topology.cpus.iter().map(|cpu| cpu.kind).collect()
    };
    let file = |cpu: usize, name: &str| format!("/sys/devices/system/cpu/cpu{cpu}/{name}");
    let frequencies = |khz: [&'static str; 4]| -> Vec<(String, String)> {
        let each = khz.into_iter().enumerate();
        each.map(|(cpu, khz)| (file(cpu, "cpufreq/cpuinfo_max_freq"), khz.to_owned())).collect()
    };
    let survey = |name: &str, files: &[(String, String)]| {
        let files: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        machine(name, &files, &[])
    };
    let (strong, small) = (Some(CoreKind::Performance), Some(CoreKind::Efficiency));

    // Two Cortex-A55, an A76 of the same clock and one of a higher.
    let block = |cpu: usize, part: &str| {
        format!("processor\t: {cpu}\nCPU implementer\t: 0x41\nCPU part\t: {part}\n\n")
    };
    let parts = ["0xd05", "0xd05", "0xd0b", "0xd0b"];
    let cpuinfo = parts.iter().enumerate().map(|(cpu, part)| block(cpu, part)).collect();
    let mut files = frequencies(["1800000", "1800000", "1800000", "2800000"]);
    files.push(("/proc/cpuinfo".to_owned(), cpuinfo));
    let found = survey("a76-a55", &files);
    assert_eq!(kinds(&found), [small, small, strong, strong]);
    assert_eq!(found.topology.kind_source, Some(KindSource::PartNumber));
    assert!(
        terminal_blocks(&blocks(&found, &[]), 200, &unpainted)
            .contains("core types from part number")
    );

    // Two strong cores, and a module of two small ones that is 15 % slower; no PMUs are shown.
    let mut files = frequencies(["5400000", "5500000", "4600000", "4600000"]);
    for (cpu, shared) in [(0, "0"), (1, "1"), (2, "2-3"), (3, "2-3")] {
        for (name, text) in [("level", "2"), ("type", "Unified"), ("shared_cpu_list", shared)] {
            files.push((file(cpu, &format!("cache/index2/{name}")), text.to_owned()));
        }
    }
    let found = survey("modules", &files);
    assert_eq!(kinds(&found), [strong, strong, small, small]);
    assert_eq!(found.topology.kind_source, Some(KindSource::Clusters));
}

#[test]
fn the_board_of_an_old_arm_kernel_is_not_mistaken_for_the_processor() {
    let cpuinfo =
        "Processor\t: ARMv7 Processor rev 2 (v7l)\nCPU part\t: 0xc08\n\nHardware\t: herring";
    let found = machine("board", &[("/proc/cpuinfo", cpuinfo)], &[]);
    assert_eq!(found.topology.model.as_deref(), Some("ARMv7 Processor rev 2 (v7l)"));
}

#[test]
fn an_empty_machine_yields_only_notes() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("small/empty");
    fs::create_dir_all(&dir).unwrap();
    let found = survey(&Host::recorded(&dir).unwrap(), &[]);
    let shown: Vec<&str> = found.notes.iter().map(|note| note.what.as_str()).collect();
    for what in ["/proc/version", "/proc/cmdline", "/proc/interrupts", "/proc", "PREEMPT_RT"] {
        assert!(shown.contains(&what), "{what} is missing: {shown:?}");
    }
    assert!(found.topology.online.is_empty() && found.tasks.is_empty());
}

#[test]
fn with_an_active_shield_no_interrupt_is_probed_and_a_note_says_so() {
    let files = [
        ("/proc/interrupts", "  CPU0 CPU1 CPU2 CPU3\n 24: 0 0 0 0 PCI-MSI 1-edge eth0"),
        ("/proc/irq/24/smp_affinity", "f"),
        ("/proc/cpuinfo", "model name : one"),
        ("/proc/sys/kernel/osrelease", "5.10.0-1-amd64"),
        ("/proc/sys/kernel/arch", "x86_64"),
        ("/errors.tsv", ""),
    ];
    let before = machine("quiet", &files, &[]);
    assert_eq!(before.irqs[0].movable, IrqMovability::Yes);
    assert_eq!(before.topology.model.as_deref(), Some("one"));
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("small/quiet");
    let host = Host::recorded(&dir).unwrap();
    let with_shield = survey_with_shield(&host, &[], &"3".parse().unwrap());
    assert!(
        matches!(with_shield.irqs[0].movable, IrqMovability::Unknown(_)),
        "{:?}",
        with_shield.irqs
    );
    assert_eq!(with_shield.topology.model, None);
    let notes: Vec<&str> = with_shield.notes.iter().map(|note| note.what.as_str()).collect();
    assert!(notes.contains(&"/proc/irq") && notes.contains(&"/proc/cpuinfo"), "{notes:?}");
    // The CPUs of nohz_full= are not queried.
    let nohz_full = dir.join("sys/devices/system/cpu/nohz_full");
    fs::write(nohz_full, "3\n").unwrap();
    let with_shield = survey_with_shield(&host, &[], &"3".parse().unwrap());
    assert_eq!(with_shield.topology.model.as_deref(), Some("one"));
}

#[test]
fn a_disk_with_several_paths_has_the_hardware_of_all() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("small/multipath");
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(dir.join("sys/block")).unwrap();
    let link = |disk: &str, device: &str| {
        let to = format!("../devices/{device}/{disk}");
        std::os::unix::fs::symlink(to, dir.join("sys/block").join(disk)).unwrap();
    };
    link("nvme0n1", "virtual/nvme-subsystem/nvme-subsys0");
    for (controller, local, irq) in [(0, "0-1", "30"), (1, "2-3", "40")] {
        let bus = format!("pci0000:00/0000:00:0{controller}.0");
        link(&format!("nvme0c{controller}n1"), &format!("{bus}/nvme/nvme{controller}"));
        let device = dir.join("sys/devices").join(bus);
        fs::create_dir_all(device.join("msi_irqs")).unwrap();
        fs::write(device.join("local_cpulist"), format!("{local}\n")).unwrap();
        fs::write(device.join("numa_node"), format!("{controller}\n")).unwrap();
        fs::write(device.join("msi_irqs").join(irq), "msix\n").unwrap();
    }
    let found = survey(&Host::recorded(&dir).unwrap(), &[]);
    let [disk] = found.devices.as_slice() else { panic!("{:?}", found.devices) };
    assert_eq!((disk.name.as_str(), disk.node), ("nvme0n1", None));
    assert_eq!((disk.local.to_string().as_str(), disk.irqs.as_slice()), ("0-3", &[30, 40][..]));
}
