//! Programs and settings that work against isolation, each with what to do about it.

use super::command_line::isolation_setup;
use super::reader::SurveyReader;
use super::{CgroupMode, Machine, SurveyFinding};
use cpushield_linux::text::kernel_version::{KernelVersion, RT_GROUP_SCHED_SINCE};

/// Programs by command name: what they do, what to do about them.
const PROGRAMS: &[(&str, &str, &str)] = &[
    (
        "irqbalance",
        "moves interrupts about, also onto shielded CPUs",
        "the shield tells it to leave its CPUs alone and takes that back afterwards",
    ),
    (
        "tuned",
        "sets affinities, sysctls and governors from its profile, again after a while",
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
        "better cooling is the remedy; look for throttling if long gaps remain",
    ),
    (
        "numad",
        "moves processes and their memory between nodes",
        "stop it while the shield is up: `systemctl stop numad`",
    ),
    (
        "cgrulesengd",
        "moves tasks between cgroups by its rules, also out of the shield",
        "exclude the workload in /etc/cgrules.conf or stop cgred",
    ),
    (
        "kubelet",
        "owns cpusets of its pods; its static CPU manager gives whole CPUs to containers",
        "shield CPUs that it is configured to leave: `reservedSystemCPUs`, `--reserved-cpus`",
    ),
    (
        "dockerd",
        "puts containers into cpusets of its own",
        "they lose the shielded CPUs while the shield is up; `--cpuset-cpus` on them can fail",
    ),
    (
        "containerd",
        "puts containers into cpusets of its own",
        "they lose the shielded CPUs while the shield is up",
    ),
    (
        "libvirtd",
        "pins the CPUs of its guests",
        "pin guests to housekeeping CPUs, or shield CPUs for them with `--workload vm`",
    ),
    (
        "stalld",
        "boosts starving threads, also on shielded CPUs",
        "keep it: it prevents hangs; its checks on a shielded CPU can be seen as interruptions",
    ),
];

pub(super) fn conflicts(r: &SurveyReader, machine: &Machine) -> Vec<SurveyFinding> {
    let mut found = programs(machine);
    found.extend(boot_parameters(machine));
    found.extend(cpusets(machine));
    if machine.kernel.config.get("CONFIG_RT_GROUP_SCHED").is_some_and(|value| value == "y") {
        found.push(finding(
            "rt-group-sched",
            "the kernel has RT_GROUP_SCHED",
            &format!(
                "SCHED_FIFO is refused in cgroups of the cpu controller without a runtime of their \
                 own; boot with rt_group_sched=0 (Linux {RT_GROUP_SCHED_SINCE} and later) or keep \
                 the workload in its root group"
            ),
        ));
    }
    if r.host.exists("/var/lib/kubelet/cpu_manager_state") {
        found.push(finding(
            "kubelet-cpu-manager",
            "kubelet has kept a CPU manager state",
            "its static policy writes the cpusets of pods again when CPUs change; reserve the \
             shielded CPUs in its configuration",
        ));
    }
    found
}

fn finding(name: &str, seen: impl Into<String>, advice: &str) -> SurveyFinding {
    SurveyFinding { name: name.to_owned(), seen: seen.into(), advice: advice.to_owned() }
}

fn programs(machine: &Machine) -> Vec<SurveyFinding> {
    let runs = |name: &str| {
        let mut tasks = machine.tasks.iter().map(|placed| &placed.task);
        tasks.find(|task| task.comm == name && !task.kthread && task.pid == task.id.tid)
    };
    let seen = |(name, does, advice): &(&str, &str, &str)| {
        let pid = runs(name)?.pid;
        Some(finding(name, format!("{name} (pid {pid}) {does}"), advice))
    };
    PROGRAMS.iter().filter_map(seen).collect()
}

fn boot_parameters(machine: &Machine) -> Vec<SurveyFinding> {
    let isolation = &machine.isolation;
    let mut found = command_line_faults(machine);
    if !isolation.isolcpus_domain.is_empty() {
        let cpus = &isolation.isolcpus_domain;
        found.push(finding(
            "isolcpus-domain",
            format!("the kernel was booted with isolcpus= (domain) for CPU {cpus}"),
            "kernels from 6.7 to 6.17.2 make no cgroup v2 partition of these CPUs, and any task may \
             then pin itself there; boot with nohz_full= and rcu_nocbs= instead and let the shield \
             come and go at runtime",
        ));
    }
    if machine.kernel.cmdline.as_deref().is_some_and(|line| line.contains("cgroup_disable=cpuset"))
    {
        found.push(finding(
            "cpuset-disabled",
            "the kernel was booted with cgroup_disable=cpuset",
            "without cpusets tasks can be kept out by their affinity only; remove the parameter",
        ));
    }
    if machine.cgroup.mode == CgroupMode::None {
        found.push(finding(
            "no-cpuset",
            "there is no cgroup hierarchy with cpusets",
            "tasks can be kept out by their affinity only, which any of them can change back",
        ));
    }
    found
}

/// Isolation parameters that the kernel did not take as they are written.
fn command_line_faults(machine: &Machine) -> Vec<SurveyFinding> {
    let line = machine.kernel.cmdline.as_deref().unwrap_or_default();
    let version = machine.kernel.version.map(|(major, minor)| KernelVersion::new(major, minor));
    let setup = isolation_setup(line, &machine.topology.possible, version);
    setup.faults.iter().map(|it| finding(it.name(), it.to_string(), it.advice())).collect()
}

/// cpusets of others (ours are called after this program) that claim CPUs for themselves.
fn cpusets(machine: &Machine) -> Vec<SurveyFinding> {
    let claims = |group: &&super::CpusetGroup| {
        let name = group.path.rsplit('/').next().unwrap_or("");
        if name.starts_with("cpushield") {
            return false;
        }
        let partition = group.partition.as_deref().is_some_and(|p| !p.starts_with("member"));
        partition || group.exclusive
    };
    let seen = |group: &super::CpusetGroup| {
        let how = match group.partition.as_deref() {
            Some(partition) if !partition.starts_with("member") => format!("partition {partition}"),
            _ => "exclusive".to_owned(),
        };
        finding(
            "foreign-cpuset",
            format!("{} has CPU {} ({how})", group.path, group.cpus),
            "these CPUs cannot be shielded while that cpuset is there; choose others or remove it",
        )
    };
    machine.cgroup.groups.iter().filter(claims).map(seen).collect()
}
