//! What other tools have set up: a profile of tuned with its variables (after a zero byte), cpusets
//! of cset and partrt, and a kernel command line. Never a panic; the policy that is made reads back
//! with the same CPUs.
#![no_main]

use cpushield::cpu_selection::CpuNames;
use cpushield::exchange::make_policy;
use cpushield::policy::PolicyFile;
use cpushield::survey::other_tools::{OtherTool, read_setup};
use cpushield::survey::{CpusetGroup, Machine};
use cpushield_linux::{CpuSet, Host};
use libfuzzer_sys::fuzz_target;
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

const MOUNT: &str = "/sys/fs/cgroup/cpuset";
const INCLUDE: &str = "[variables]\ninclude=/etc/tuned/variables.conf\n";

/// The recorded machine with the files of tuned.
static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
    let root = std::env::temp_dir().join(format!("cpushield-import-{}", std::process::id()));
    fs::create_dir_all(root.join("etc/tuned/own")).unwrap();
    fs::write(root.join("etc/tuned/active_profile"), "own\n").unwrap();
    root
});

/// A machine with eight CPUs. Each line is a cpuset too: name, CPUs, and a word if it is exclusive.
fn machine(text: &str) -> Machine {
    let mut machine = Machine::default();
    machine.topology.possible = (0..8).collect();
    machine.topology.present = (0..8).collect();
    machine.topology.online = (0..8).collect();
    machine.kernel.cmdline = Some(text.to_owned());
    machine.cgroup.mount = Some(MOUNT.to_owned());
    let groups = text.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (name, cpus) = (words.next()?, words.next()?.parse().ok()?);
        let path = format!("{MOUNT}/{name}");
        Some(CpusetGroup { path, cpus, exclusive: words.next().is_some(), ..CpusetGroup::default() })
    });
    machine.cgroup.groups = groups.collect();
    machine
}

fuzz_target!(|text: &str| {
    let (profile, variables) = text.split_once('\0').unwrap_or((text, ""));
    let profile = format!("{INCLUDE}{profile}");
    fs::write(ROOT.join("etc/tuned/own/tuned.conf"), profile).unwrap();
    fs::write(ROOT.join("etc/tuned/variables.conf"), variables).unwrap();
    let host = Host::recorded(&ROOT).unwrap();
    let machine = machine(text);
    for tool in [OtherTool::Cmdline, OtherTool::Tuned, OtherTool::Cset, OtherTool::Partrt] {
        let Ok(setup) = read_setup(&host, &machine, tool) else { continue };
        let Ok(imported) = make_policy(&machine, &setup) else { continue };
        let policy = PolicyFile::parse(&imported.policy, "policy.toml").unwrap();
        assert_eq!(policy.shield.len(), imported.shields.len());
        for shield in &imported.shields {
            let (name, read) = policy.shield(Some(&shield.name), "policy.toml").unwrap();
            let request = read.request(name, &CpuNames::unknown()).unwrap();
            assert_eq!(request.cpus.as_ref(), Some(&shield.cpus));
        }
        let shielded: CpuSet = imported.shields.iter().map(|shield| &shield.cpus).collect();
        assert!(!machine.topology.online.is_subset(&shielded), "no housekeeping CPU is left");
    }
});
