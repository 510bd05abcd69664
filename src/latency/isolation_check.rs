//! Checks with three independent witnesses whether CPUs are isolated: the kernel's files, the
//! affinity of PID 1, and busy threads that nothing pins.

use super::{IsolationCheck, IsolationWitness, ShieldMonitor};
use crate::documents::machine::Machine;
use cpushield_linux::processes::placement_probe::probe_placement;
use cpushield_linux::{CpuSet, Host};
use std::time::Duration;

/// How long the probe runs: the scheduler balances much more often than once a second.
const PROBE_SPAN: Duration = Duration::from_secs(1);
/// Busy threads of the probe for each online CPU, so that the scheduler needs every CPU.
const THREADS_PER_CPU: usize = 2;

/// Checks these CPUs now. It keeps every CPU that is not isolated busy for a second.
pub(super) fn check_isolation(
    host: &Host,
    machine: &Machine,
    guard: Option<&ShieldMonitor>,
    cpus: &CpuSet,
) -> IsolationCheck {
    let kernel = ask_kernel(host, machine, guard, cpus);
    let init = ask_init(host, cpus);
    let online = &machine.topology.online;
    let probe = match probe_placement(online, online.len() * THREADS_PER_CPU, PROBE_SPAN) {
        Ok(ran) => IsolationWitness::Present { isolated: cpus.difference(&ran) },
        Err(error) => IsolationWitness::Absent { why: error.to_string() },
    };
    IsolationCheck::new(cpus.clone(), [kernel, init, probe])
}

/// The CPUs that the kernel lists as isolated, or that the shield's cpuset has for itself.
fn ask_kernel(
    host: &Host,
    machine: &Machine,
    guard: Option<&ShieldMonitor>,
    cpus: &CpuSet,
) -> IsolationWitness {
    let isolation = &machine.isolation;
    let own = guard.and_then(|guard| guard.exclusive_cpus(host));
    let lists = [isolation.isolated.as_ref(), isolation.partitions.as_ref(), own.as_ref()];
    if lists.iter().all(Option::is_none) {
        let why = "neither /sys/devices/system/cpu/isolated nor a partition can be read";
        return IsolationWitness::Absent { why: why.to_owned() };
    }
    let listed: CpuSet = lists.into_iter().flatten().collect();
    IsolationWitness::Present { isolated: cpus.intersection(&listed) }
}

/// The CPUs on which PID 1 may not run.
fn ask_init(host: &Host, cpus: &CpuSet) -> IsolationWitness {
    match host.affinity(1) {
        Ok(allowed) => IsolationWitness::Present { isolated: cpus.difference(&allowed) },
        Err(error) => IsolationWitness::Absent { why: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_files_and_pid_1_are_read() {
        let dir = std::env::temp_dir().join(format!("cpushield-isolation-{}", std::process::id()));
        let group = dir.join("sys/fs/cgroup/rt");
        std::fs::create_dir_all(&group).unwrap();
        std::fs::create_dir_all(dir.join("proc/1")).unwrap();
        let write = |path: &str, text: &str| std::fs::write(dir.join(path), text).unwrap();
        write("proc/1/status", "Name:\tinit\nCpus_allowed_list:\t0-2\n");
        let host = Host::recorded(&dir).unwrap();
        let cpus: CpuSet = "2-3".parse().unwrap();
        let shows = |list: &str| IsolationWitness::Present { isolated: list.parse().unwrap() };
        assert_eq!(ask_init(&host, &cpus), shows("3"));
        let mut machine = Machine::default();
        let unknown = ask_kernel(&host, &machine, None, &cpus);
        assert!(matches!(unknown, IsolationWitness::Absent { .. }), "{unknown:?}");
        machine.isolation.isolated = Some("3-5".parse().unwrap());
        assert_eq!(ask_kernel(&host, &machine, None, &cpus), shows("3"));
        let name = Some("/sys/fs/cgroup/rt".to_owned());
        let guard = ShieldMonitor::new(&host, "rt".to_owned(), name, cpus.clone());
        write("sys/fs/cgroup/rt/cpuset.cpus.effective", "2-3\n");
        for (state, isolated) in [
            ("isolated\n", "2-3"),
            ("root\n", "2-3"),
            ("member\n", "3"),
            ("isolated invalid (Cpu list empty)\n", "3"),
        ] {
            write("sys/fs/cgroup/rt/cpuset.cpus.partition", state);
            assert_eq!(
                ask_kernel(&host, &machine, Some(&guard), &cpus),
                shows(isolated),
                "{state}"
            );
        }
        std::fs::remove_dir_all(dir).unwrap();
    }
}
