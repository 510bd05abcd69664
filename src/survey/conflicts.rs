//! Programs and settings that work against isolation, each with advice.

use super::reader::SurveyReader;
use super::{CgroupMode, Kernel, Machine, SurveyFinding, exclusive_cpusets};
use cpushield_linux::text::cmdline;
use cpushield_linux::text::first_releases::RT_GROUP_SCHED;
use cpushield_linux::text::kernel_version::may_be_vendor_build;

/// libvirt pins each vCPU inside its own cgroups, which have no CPU of a partition
/// (`qemuProcessSetupPid()`, src/qemu/qemu_process.c, libvirt commit f366cfed6296).
const LIBVIRT_ADVICE: &str = "libvirt cannot pin a guest to shielded CPUs (EINVAL): pin it to \
                              housekeeping CPUs, or shield with `--workload vm --off cpuset`";

/// Programs by command name: what they do, and the advice.
const PROGRAMS: &[(&str, &str, &str)] = &[
    (
        "irqbalance",
        "moves interrupts between CPUs, including shielded ones",
        "the shield bans irqbalance from its CPUs and lifts the ban afterwards",
    ),
    (
        "tuned",
        "sets affinities, sysctls and governors from its profile, and repeats that periodically",
        "use its profile cpu-partitioning or the shield, not both: `tuned-adm off`",
    ),
    (
        "power-profiles-",
        "changes governor and turbo when the power source or a desktop setting changes",
        "fix the profile: `powerprofilesctl set performance`",
    ),
    (
        "auto-cpufreq",
        "changes governor and turbo with the load",
        "stop it while latency matters: `systemctl stop auto-cpufreq`",
    ),
    (
        "thermald",
        "throttles CPUs when they get warm",
        "improve the cooling; check for throttling if long gaps remain",
    ),
    (
        "numad",
        "moves processes and their memory between nodes",
        "stop it while the shield is active: `systemctl stop numad`",
    ),
    (
        "cgrulesengd",
        "moves tasks between cgroups according to its rules, including tasks in the shield",
        "exclude the workload in /etc/cgrules.conf or stop cgred",
    ),
    (
        "kubelet",
        "manages the cpusets of its pods; its static CPU manager gives whole CPUs to containers",
        "shield CPUs that it is configured not to use: `reservedSystemCPUs`, `--reserved-cpus`",
    ),
    (
        "dockerd",
        "puts containers into its own cpusets",
        "the containers lose the shielded CPUs while the shield is active; `--cpuset-cpus` may \
         fail for these CPUs",
    ),
    (
        "containerd",
        "puts containers into its own cpusets",
        "the containers lose the shielded CPUs while the shield is active",
    ),
    ("libvirtd", "pins the CPUs of its guests", LIBVIRT_ADVICE),
    ("virtqemud", "pins the CPUs of its guests", LIBVIRT_ADVICE),
    (
        "stalld",
        "boosts starving threads, including those on shielded CPUs",
        "keep it: it prevents hangs; its checks on a shielded CPU can show up as interruptions",
    ),
    (
        "rteval",
        "loads and measures every CPU, including shielded ones",
        "keep it off the shield: `--loads-cpulist` and `--measurement-cpulist`",
    ),
];

/// Programs that isolate CPUs or group tasks, found by their files when they are not running: the
/// name, the files, what they do, and the advice.
const INSTALLED: &[(&str, &[&str], &str, &str)] = &[
    (
        "cset",
        &["/usr/bin/cset", "/usr/local/bin/cset"],
        "makes cpusets (`cset shield`); its exclusive sets and a shield cannot have the same CPUs",
        "use either cset or cpushield; `cpushield plan --from cset` makes a policy from its sets",
    ),
    (
        "partrt",
        &["/usr/bin/partrt", "/usr/local/bin/partrt", "/opt/bin/partrt"],
        "makes the cpusets `rt` and `nrt`, and moves all tasks and interrupts to `nrt`",
        "use either partrt or cpushield; `cpushield plan --from partrt` makes a policy from its sets",
    ),
    (
        "cgconfig",
        &["/usr/sbin/cgconfigparser", "/sbin/cgconfigparser"],
        "makes the cgroups of /etc/cgconfig.conf at boot (cgconfig.service)",
        "give its cpusets no CPUs of a shield: `grep -n cpuset /etc/cgconfig.conf`",
    ),
    (
        "cgrulesengd",
        &["/usr/sbin/cgrulesengd", "/sbin/cgrulesengd"],
        "moves tasks between cgroups according to its rules when it is started (cgred.service)",
        "exclude the workload in /etc/cgrules.conf before you start it",
    ),
    (
        "tuned",
        &["/usr/sbin/tuned", "/sbin/tuned"],
        "sets affinities, sysctls and governors from its profile when it is started",
        "use either tuned or cpushield; `cpushield plan --from tuned` makes a policy from its profile",
    ),
];

pub(super) fn find_conflicts(r: &SurveyReader, machine: &Machine) -> Vec<SurveyFinding> {
    let mut found = find_programs(machine);
    let running: Vec<String> = found.iter().map(|finding| finding.name.clone()).collect();
    found.extend(find_installed(r).filter(|finding| !running.contains(&finding.name)));
    found.extend(check_hierarchies(machine));
    found.extend(find_exclusive_cpusets(machine));
    if groups_realtime_tasks(&machine.kernel) {
        found.push(SurveyFinding::new(
            "rt-group-sched",
            "the kernel has RT_GROUP_SCHED",
            &format!(
                "the kernel refuses SCHED_FIFO in cgroups of the cpu controller that have no \
                 real-time runtime; boot with rt_group_sched=0 (Linux {RT_GROUP_SCHED} and \
                 later) or keep the workload in the controller's root group"
            ),
        ));
    }
    if r.host.exists("/var/lib/kubelet/cpu_manager_state") {
        found.push(SurveyFinding::new(
            "kubelet-cpu-manager",
            "kubelet has saved a CPU manager state",
            "its static policy rewrites the cpusets of pods when CPUs change; reserve the shielded \
             CPUs in its configuration",
        ));
    }
    found
}

fn find_programs(machine: &Machine) -> Vec<SurveyFinding> {
    let mut found = Vec::new();
    for (name, does, advice) in PROGRAMS {
        let mut tasks = machine.tasks.iter().map(|placed| &placed.task);
        let process =
            tasks.find(|task| task.comm == *name && !task.kthread && task.pid == task.id.tid);
        if let Some(process) = process {
            let pid = process.pid;
            found.push(SurveyFinding::new(name, format!("{name} (pid {pid}) {does}"), advice));
        }
    }
    found
}

/// The programs of [`INSTALLED`] that are on this machine.
fn find_installed(r: &SurveyReader) -> impl Iterator<Item = SurveyFinding> {
    INSTALLED.iter().filter_map(|(name, files, does, advice)| {
        let file = files.iter().find(|file| r.host.exists(file))?;
        Some(SurveyFinding::new(name, format!("{name} is installed ({file}); it {does}"), advice))
    })
}

/// Whether real-time tasks need a runtime of their cgroup. The last `rt_group_sched=` decides;
/// without one, the kernel's configuration (`setup_rt_group_sched()`, kernel/sched/core.c, 6.16).
fn groups_realtime_tasks(kernel: &Kernel) -> bool {
    let is_set = |option| kernel.config.get(option).is_some_and(|value| value == "y");
    let old = kernel.version.is_some_and(|version| version < RT_GROUP_SCHED)
        && !kernel.release.as_deref().is_some_and(may_be_vendor_build);
    let params = kernel.cmdline.as_deref().filter(|_| !old).map(cmdline::parse).unwrap_or_default();
    let words = cmdline::values(&params, "rt_group_sched");
    let word = words.filter(|value| ["0", "1"].contains(value)).last();
    let enabled = word.map(|value| value == "1");
    is_set("CONFIG_RT_GROUP_SCHED")
        && enabled.unwrap_or(!is_set("CONFIG_RT_GROUP_SCHED_DEFAULT_DISABLED"))
}

fn check_hierarchies(machine: &Machine) -> Option<SurveyFinding> {
    // Without any task, /proc was not recorded, and the hierarchies are unknown.
    let is_missing = machine.cgroup.mode == CgroupMode::None && !machine.tasks.is_empty();
    is_missing.then(|| {
        SurveyFinding::new(
            "no-cpuset",
            "there is no cgroup hierarchy with cpusets",
            "only task affinity keeps other tasks off shielded CPUs, and any task can change its \
             own affinity back",
        )
    })
}

/// Cpusets with exclusive CPUs that cpushield did not make (its own have its name).
fn find_exclusive_cpusets(machine: &Machine) -> Vec<SurveyFinding> {
    let mut found = Vec::new();
    for group in exclusive_cpusets(machine) {
        let how = match &group.partition {
            Some(kind) if group.partition_state().is_valid_partition() => {
                format!("partition {kind}")
            }
            _ => "exclusive".to_owned(),
        };
        found.push(SurveyFinding::new(
            "foreign-cpuset",
            format!("{} has CPU {} ({how})", group.path, group.cpus),
            "these CPUs cannot be shielded while that cpuset exists; choose others or remove it",
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpushield_linux::text::kernel_version::KernelVersion;

    #[test]
    fn the_last_rt_group_sched_decides_then_the_configuration() {
        let disabled = "CONFIG_RT_GROUP_SCHED_DEFAULT_DISABLED";
        for (version, options, line, groups) in [
            ((6, 16), &["CONFIG_RT_GROUP_SCHED"][..], "ro", true),
            ((6, 16), &["CONFIG_RT_GROUP_SCHED"], "rt_group_sched=0", false),
            ((6, 16), &["CONFIG_RT_GROUP_SCHED"], "rt_group_sched=0 rt_group_sched=1", true),
            ((6, 16), &["CONFIG_RT_GROUP_SCHED", disabled], "ro", false),
            ((6, 16), &["CONFIG_RT_GROUP_SCHED", disabled], "rt_group_sched=1", true),
            // Older kernels do not know the word.
            ((6, 12), &["CONFIG_RT_GROUP_SCHED"], "rt_group_sched=0", true),
            ((6, 16), &[], "rt_group_sched=1", false),
        ] {
            let kernel = Kernel {
                version: Some(KernelVersion::new(version.0, version.1)),
                cmdline: Some(line.to_owned()),
                config: options.iter().map(|it| ((*it).to_owned(), "y".to_owned())).collect(),
                ..Kernel::default()
            };
            assert_eq!(groups_realtime_tasks(&kernel), groups, "{version:?} {options:?} {line}");
        }
    }
}
