//! What other tools have set up becomes a policy with the same CPUs. The setups are files as the
//! tools make them on recorded machines. The profiles and drop-ins that cpushield makes are read by
//! tuned's own code and by systemd.

mod obstacles;
mod odd_setups;

use crate::not_run::not_run;
use crate::recordings;
use cpushield::exchange::{
    DropInRefusal, ImportedPolicy, make_policy, service_drop_in, tuned_profile,
};
use cpushield::plan::plan;
use cpushield::policy::{PolicyFile, ShieldRequest, Siblings, TunableSetting};
use cpushield::survey::other_tools::{OtherTool, SetupError, ToolSetup, read_setup};
use cpushield::survey::{Machine, survey};
use cpushield::tunables::{self, spell_setting};
use cpushield_linux::Host;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A recorded machine with more files, removed at the end.
struct OtherMachine(PathBuf);

impl OtherMachine {
    fn new(test: &str, machine: &str, files: &[(&str, &str)]) -> OtherMachine {
        let dir = format!("cpushield-tools-{test}-{}", std::process::id());
        let dir = std::env::temp_dir().join(dir);
        let _ = fs::remove_dir_all(&dir);
        let recorded = recordings::root(machine);
        let copied = Command::new("cp").arg("-r").arg(&recorded).arg(&dir).status().unwrap();
        assert!(copied.success());
        let machine = OtherMachine(dir);
        for (path, text) in files {
            machine.put(path, text);
        }
        machine
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.0.join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn survey(&self) -> (Host, Machine) {
        let host = Host::recorded(&self.0).unwrap();
        let machine = survey(&host, &tunables::reads());
        (host, machine)
    }

    fn setup(&self, tool: OtherTool) -> Result<ToolSetup, SetupError> {
        let (host, machine) = self.survey();
        read_setup(&host, &machine, tool)
    }

    /// The policy of a setup. Also checks that the policy is read back, that it shields the same
    /// CPUs, and that a plan can be made of each shield after the tool has removed its cpusets.
    fn import(&self, tool: OtherTool) -> ImportedPolicy {
        let (_, mut machine) = self.survey();
        let setup = self.setup(tool).unwrap();
        let imported = make_policy(&machine, &setup).unwrap();
        let mut policy = PolicyFile::parse(&imported.policy, "made").unwrap();
        let known = |name: &str, setting: &TunableSetting| match tunables::named(name).is_some()
            || cpushield::boot::parameters::named(name).is_some()
        {
            true => spell_setting(name, setting).map_err(|refusal| refusal.to_string()),
            false => Err(format!("unknown: {name}")),
        };
        policy.read_tunables(&known).unwrap();
        assert_eq!(policy.shield.len(), imported.shields.len());
        machine.cgroup.groups.clear();
        for (shield, found) in imported.shields.iter().zip(&setup.shields) {
            assert_eq!(shield.cpus, found.cpus);
            let (name, wish) = policy.shield(Some(&shield.name)).unwrap();
            let mut request =
                wish.request(name, &cpushield::cpu_selection::CpuNames::unknown()).unwrap();
            assert_eq!(request.cpus.as_ref(), Some(&found.cpus));
            request.tunables.retain(|name, _| tunables::named(name).is_some());
            assert_eq!(plan(&machine, &request).unwrap().shield.cpus, found.cpus);
        }
        imported
    }
}

impl Drop for OtherMachine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The files of a v1 cpuset.
fn cpuset(name: &str, cpus: &str, exclusive: &str, balanced: &str) -> Vec<(String, String)> {
    let files = [
        ("cpus", cpus),
        ("mems", "0"),
        ("cpu_exclusive", exclusive),
        ("sched_load_balance", balanced),
        ("effective_cpus", cpus),
    ];
    let dir = format!("sys/fs/cgroup/cpuset/{name}");
    let files = files.map(|(file, text)| (format!("{dir}/cpuset.{file}"), format!("{text}\n")));
    files.into_iter().chain([(format!("{dir}/tasks"), String::new())]).collect()
}

fn with_cpusets(test: &str, sets: &[(&str, &str, &str, &str)]) -> OtherMachine {
    let machine = OtherMachine::new(test, "6.1-rt-v1", &[]);
    for (name, cpus, exclusive, balanced) in sets {
        for (path, text) in cpuset(name, cpus, exclusive, balanced) {
            machine.put(&path, &text);
        }
    }
    machine
}

fn names_and_cpus(imported: &ImportedPolicy) -> Vec<(String, String)> {
    imported.shields.iter().map(|it| (it.name.clone(), it.cpus.to_string())).collect()
}

fn shields(found: &[(&str, &str)]) -> Vec<(String, String)> {
    found.iter().map(|(name, cpus)| ((*name).to_owned(), (*cpus).to_owned())).collect()
}

/// `make_shield()` in cpuset/commands/shield.py (1.6): both sets are exclusive, and balanced.
#[test]
fn the_sets_of_cset_shield_become_one_shield() {
    let sets = [("user", "2-3", "1", "1"), ("system", "0-1", "1", "1")];
    let imported = with_cpusets("cset", &sets).import(OtherTool::Cset);
    assert_eq!(names_and_cpus(&imported), shields(&[("user", "2-3")]));
    assert!(imported.policy.contains("/sys/fs/cgroup/cpuset/user/cpuset.cpus\n"));
    // `cset shield --userset=cage --sysset=free`
    let sets = [("cage", "2", "1", "1"), ("free", "0-1,3", "1", "1")];
    let machine = with_cpusets("renamed", &sets);
    let imported = machine.import(OtherTool::Cset);
    assert_eq!(names_and_cpus(&imported), shields(&[("cage", "2")]));
    // `cset set --cpu_exclusive`, with a set inside and a name that no shield can have.
    let sets = [
        ("RT-1", "2", "1", "1"),
        ("RT-1/inner", "2", "1", "1"),
        ("b", "3", "1", "0"),
        ("shared", "0-1", "0", "1"),
    ];
    let imported = with_cpusets("sets", &sets).import(OtherTool::Cset);
    assert_eq!(names_and_cpus(&imported), shields(&[("cset", "2"), ("b", "3")]));
}

/// `create()` in partrt/partrt (1.2).
#[test]
fn the_partitions_of_partrt_become_a_shield_with_its_settings() {
    let machine = with_cpusets("partrt", &[("rt", "2-3", "1", "0"), ("nrt", "0-1", "0", "1")]);
    machine.put("proc/sys/kernel/sched_rt_runtime_us", "-1\n");
    machine.put("proc/sys/vm/stat_interval", "1000\n");
    machine.put("proc/sys/kernel/watchdog", "1\n");
    machine.put("sys/bus/workqueue/devices/writeback/cpumask", "3\n");
    let imported = machine.import(OtherTool::Partrt);
    assert_eq!(names_and_cpus(&imported), shields(&[("rt", "2-3")]));
    let policy = PolicyFile::parse(&imported.policy, "made").unwrap();
    let tunables: Vec<&String> = policy.shield["rt"].tunables.keys().collect();
    // `partrt create -w` leaves the watchdog on.
    assert_eq!(tunables, ["rt-throttling", "vm-stat-interval", "workqueues"]);
    assert_eq!(names_and_cpus(&machine.import(OtherTool::Cset)), shields(&[("rt", "2-3")]));
}

#[test]
fn a_machine_without_the_tool_is_one_error_that_names_the_places() {
    let machine = OtherMachine::new("none", "6.12-rt-systemd", &[]);
    for (tool, place) in [
        (OtherTool::Tuned, "/etc/tuned/active_profile"),
        (OtherTool::Cset, "/sys/fs/cgroup"),
        (OtherTool::Partrt, "/sys/fs/cgroup"),
    ] {
        let error = machine.setup(tool).unwrap_err();
        let SetupError::NothingFound { tool: named, looked_in, .. } = &error else {
            panic!("{error:?}")
        };
        assert_eq!((*named, looked_in.as_slice()), (tool, &[place.to_owned()][..]));
    }
}

#[test]
fn the_command_line_of_every_recorded_machine_is_imported_or_names_no_cpus() {
    let mut imported = 0;
    for (name, _) in recordings::own() {
        let machine = OtherMachine::new(&format!("line-{name}"), &name, &[]);
        let isolates = match machine.setup(OtherTool::Cmdline) {
            Ok(_) => machine.import(OtherTool::Cmdline).shields.len(),
            Err(SetupError::NothingFound { .. }) => 0,
            Err(error) => panic!("{name}: {error:?}"),
        };
        let line = machine.survey().1.kernel.cmdline.unwrap_or_default();
        assert_eq!(isolates == 1, line.contains("nohz_full=") || line.contains("isolcpus="));
        imported += isolates;
    }
    assert!(imported >= 2, "{imported}");
}

#[test]
fn what_tuned_has_in_force_becomes_a_policy() {
    const VARIABLES: &str = "etc/tuned/lathe-variables.conf";
    const WORDS: &str = "etc/tuned/bootcmdline";
    let words = "# comment\nTUNED_BOOT_CMDLINE=\"skew_tick=1 nohz_full=3 rcu_nocbs=3\"\n";
    let computed = "\nisolated_cores=${f:calc_isolated_cores:1}\n";
    for (files, found) in [
        (&[(VARIABLES, "# isolated_cores=1\nisolated_cores = 2,3 # why\n")][..], Ok("2-3")),
        (&[(VARIABLES, "isolated_cores=2-3"), (WORDS, words)], Ok("2-3")),
        (&[(VARIABLES, computed), (WORDS, words)], Ok("3")),
        (&[(WORDS, "TUNED_BOOT_CMDLINE=\"isolcpus=managed_irq,domain,5\"\n")], Ok("5")),
        (&[(VARIABLES, computed)], Err("/etc/tuned/lathe-variables.conf:2")),
        (
            &[(VARIABLES, "isolated_cores=\n")],
            Err("the active profile lathe names no isolated CPUs"),
        ),
        (&[], Err("the active profile lathe names no isolated CPUs")),
    ] {
        let machine = OtherMachine::new("tuned", "6.12-rt-smt", files);
        machine.put("etc/tuned/active_profile", "lathe\n");
        let setup = machine.setup(OtherTool::Tuned);
        let cpus = match &setup {
            Ok(setup) => Ok(setup.shields[0].cpus.to_string()),
            Err(SetupError::UnknownCpus { place, .. }) => Err(place.to_string()),
            Err(SetupError::NothingFound { why, .. }) => Err(why.clone()),
            Err(error) => panic!("{error:?}"),
        };
        assert_eq!(cpus.as_deref().map_err(String::as_str), found, "{files:?}");
    }
    let machine = OtherMachine::new("tuned", "6.12-rt-smt", &[(WORDS, words)]);
    machine.put("etc/tuned/active_profile", "lathe\n");
    machine.put("proc/sys/vm/stat_interval", "10\n");
    let policy = machine.import(OtherTool::Tuned).policy;
    for line in [
        "# nohz_full=3: /etc/tuned/bootcmdline:2\n",
        "nohz-full = true\n",
        "# stat_interval = 10: /proc/sys/vm/stat_interval\nvm-stat-interval = true\n",
    ] {
        assert!(policy.contains(line), "{line}: {policy}");
    }
}

/// The folder of tuned's package (`scripts/need`), or the installed one.
fn tuned_package() -> Option<(PathBuf, PathBuf)> {
    let unpacked = project().join("target/tuned");
    for root in [unpacked.as_path(), Path::new("/")] {
        let modules = root.join("usr/lib/python3/dist-packages");
        if modules.join("tuned/profiles/loader.py").is_file() {
            return Some((root.to_owned(), modules));
        }
    }
    not_run("tuned is not here to read its profiles (scripts/need rust tests)");
    None
}

/// What tuned's own code reads from a profile.
fn read_by_tuned(modules: &Path, root: &Path, profile: &str) -> Value {
    let script = project().join("tests/support/read_tuned.py");
    let output =
        Command::new("python3").arg(script).arg(modules).arg(root).arg(profile).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A request for one shield.
fn request(name: &str, cpus: &str) -> ShieldRequest {
    let siblings = Some(Siblings::Share);
    let cpus = Some(cpus.parse().unwrap());
    ShieldRequest { name: name.to_owned(), cpus, siblings, ..ShieldRequest::default() }
}

#[test]
fn tuned_applies_verifies_and_removes_an_exported_profile() {
    let package = tuned_package();
    let words = ["nohz_full=2-3".to_owned(), "rcu_nocbs=2-3".to_owned()];
    for name in ["6.12-rt-systemd", "6.12-rt-numa", "6.1-rt-v1"] {
        let machine = OtherMachine::new(&format!("export-{name}"), name, &[]);
        let (_, surveyed) = machine.survey();
        let plan = plan(&surveyed, &request("lathe", "2-3")).unwrap();
        machine.put("etc/tuned/lathe/tuned.conf", &tuned_profile(&plan, &words));
        let Some((_, modules)) = &package else { continue };
        let script = project().join("tests/support/apply_tuned.py");
        let mut tuned = Command::new("python3");
        let output = tuned.arg(script).arg(modules).arg(&machine.0).arg("lathe").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        for section in ["sysctl", "sysfs"] {
            let verified = &result["verified"][section];
            assert_eq!(verified, &serde_json::json!([false, true, false]), "{name} {section}");
        }
        // Every line of the profile was written.
        let read = read_by_tuned(modules, &machine.0, "lathe");
        for section in ["sysctl", "sysfs"] {
            let lines: Vec<&String> =
                read["units"][section]["options"].as_object().unwrap().keys().collect();
            let written = result["written"][section].as_array().unwrap();
            assert_eq!(written.len(), lines.len(), "{name} {section}");
        }
        let cmdline = &read["units"]["bootloader"]["options"]["cmdline_lathe"];
        assert_eq!(cmdline, "+nohz_full=2-3 rcu_nocbs=2-3");
        assert_eq!(read["units"]["scheduler"]["options"]["isolated_cores"], "2-3");
    }
}

/// What systemd says about a service with this drop-in.
fn verify_drop_in(dir: &Path, drop_in: &str) -> String {
    let service = dir.join("cpushield-test.service");
    fs::create_dir_all(dir.join("cpushield-test.service.d")).unwrap();
    fs::write(&service, "[Service]\nExecStart=/bin/true\n").unwrap();
    fs::write(dir.join("cpushield-test.service.d/cpushield.conf"), drop_in).unwrap();
    let mut analyze = Command::new("systemd-analyze");
    let output = analyze.args(["verify", "--man=no"]).arg(&service).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    // Other units of this machine may be wrong.
    let own = text.lines().filter(|line| line.contains("cpushield"));
    own.collect::<Vec<&str>>().join("\n")
}

#[test]
fn systemd_accepts_an_exported_drop_in() {
    let dir = std::env::temp_dir().join(format!("cpushield-drop-in-{}", std::process::id()));
    let has_systemd = Command::new("systemd-analyze").arg("--version").output().is_ok();
    if !has_systemd {
        not_run("systemd-analyze is not installed");
    }
    let machine = OtherMachine::new("drop-in", "6.12-rt-systemd", &[]);
    let (_, mut surveyed) = machine.survey();
    for nodes in 1..=2 {
        surveyed.topology.nodes.resize_with(nodes, Default::default);
        for name in ["cpushield", "lathe"] {
            let plan = plan(&surveyed, &request(name, "2-3")).unwrap();
            let text = service_drop_in(&surveyed, &plan).unwrap();
            let group = plan.shield.group();
            let slice = format!("Slice={group}.slice\nCPUAffinity=\nCPUAffinity=2-3\n");
            assert!(text.contains(&slice), "{text}");
            assert_eq!(text.contains("NUMAMask=0\n"), nodes == 2);
            assert!(!has_systemd || verify_drop_in(&dir, &text).is_empty(), "{text}");
        }
    }
    if has_systemd {
        let wrong = verify_drop_in(&dir, "[Service]\nSlice=lathe\nCPUAffinity=x\n");
        assert!(wrong.contains("CPU affinity") && wrong.contains("slice unit"), "{wrong}");
        fs::remove_dir_all(&dir).unwrap();
    }
    surveyed.cgroup.mode = cpushield::survey::CgroupMode::Hybrid;
    let plan = plan(&surveyed, &request("lathe", "3")).unwrap();
    assert_eq!(service_drop_in(&surveyed, &plan), Err(DropInRefusal::NoCgroupV2));
    surveyed.cgroup.systemd = false;
    assert_eq!(service_drop_in(&surveyed, &plan), Err(DropInRefusal::NoSystemd));
}
