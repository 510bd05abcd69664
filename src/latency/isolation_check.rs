//! Checks with three independent witnesses whether CPUs are isolated: the kernel's files, the
//! affinity of PID 1, and busy threads that nothing pins.

use super::ShieldMonitor;
use crate::survey::Machine;
use cpushield_linux::processes::placement_probe::probe_placement;
use cpushield_linux::{CpuSet, Host};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// How long the probe runs: the scheduler balances much more often than once a second.
const PROBE_SPAN: Duration = Duration::from_secs(1);
/// Busy threads of the probe for each online CPU, so that the scheduler needs every CPU.
const THREADS_PER_CPU: usize = 2;

/// What three witnesses show of the isolation of the measured CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IsolationCheck {
    /// The checked CPUs.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub cpus: CpuSet,
    /// `/sys/devices/system/cpu/isolated`, the partitions, and the cpuset of the shield.
    pub kernel: IsolationWitness,
    /// `Cpus_allowed_list` of `/proc/1/status`: CPUs on which PID 1 may not run.
    pub init: IsolationWitness,
    /// More busy threads than CPUs, without affinity: CPUs on which none of them ran.
    pub probe: IsolationWitness,
    /// What the three say together.
    pub answer: IsolationAnswer,
}

/// What one witness shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "witness", rename_all = "kebab-case")]
pub enum IsolationWitness {
    /// It was there.
    Present {
        /// The checked CPUs that it shows as isolated.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        isolated: CpuSet,
    },
    /// It is missing.
    Absent {
        /// Why.
        why: String,
    },
}

/// What the witnesses say together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum IsolationAnswer {
    /// All three show all CPUs as isolated.
    Isolated,
    /// All three show no CPU as isolated.
    NotIsolated,
    /// They disagree.
    Contradicted,
    /// A witness is missing, and the others agree.
    Unknown,
}

impl IsolationCheck {
    /// Makes the check from what its witnesses show.
    #[must_use]
    pub fn new(cpus: CpuSet, [kernel, init, probe]: [IsolationWitness; 3]) -> IsolationCheck {
        let answer = find_answer(&cpus, [&kernel, &init, &probe]);
        IsolationCheck { cpus, kernel, init, probe, answer }
    }

    /// Checks these CPUs now. It keeps every CPU that is not isolated busy for a second.
    pub(super) fn run(
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
}

impl IsolationWitness {
    fn isolated(&self) -> Option<&CpuSet> {
        match self {
            IsolationWitness::Present { isolated } => Some(isolated),
            IsolationWitness::Absent { .. } => None,
        }
    }
}

fn find_answer(cpus: &CpuSet, witnesses: [&IsolationWitness; 3]) -> IsolationAnswer {
    let shown: Vec<&CpuSet> = witnesses.iter().filter_map(|witness| witness.isolated()).collect();
    let all = shown.iter().all(|isolated| *isolated == cpus);
    let none = shown.iter().all(|isolated| isolated.is_empty());
    match (shown.len(), all, none) {
        (3, true, _) => IsolationAnswer::Isolated,
        (3, _, true) => IsolationAnswer::NotIsolated,
        (_, false, false) => IsolationAnswer::Contradicted,
        _ => IsolationAnswer::Unknown,
    }
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

impl fmt::Display for IsolationCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kernel {
            IsolationWitness::Absent { why } => {
                write!(f, "it is unknown which CPUs the kernel lists as isolated: {why}")
            }
            IsolationWitness::Present { isolated } if isolated.is_empty() => {
                write!(f, "the kernel does not list CPU {} as isolated", self.cpus)
            }
            IsolationWitness::Present { isolated } => {
                write!(f, "the kernel lists CPU {isolated} as isolated")
            }
        }?;
        self.describe_use(f, "PID 1", ["may run on", "may not run on"], &self.init)?;
        let ran = ["ran on", "never ran on"];
        self.describe_use(f, "a probe with busy unpinned threads", ran, &self.probe)
    }
}

impl IsolationCheck {
    /// Writes on which of the checked CPUs something was seen.
    fn describe_use(
        &self,
        f: &mut fmt::Formatter<'_>,
        subject: &str,
        [uses, avoids]: [&str; 2],
        witness: &IsolationWitness,
    ) -> fmt::Result {
        match witness {
            IsolationWitness::Absent { why } => write!(f, "; no evidence from {subject}: {why}"),
            IsolationWitness::Present { isolated } => match self.cpus.difference(isolated) {
                used if used.is_empty() => write!(f, "; {subject} {avoids} CPU {}", self.cpus),
                used => write!(f, "; {subject} {uses} CPU {used}"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the witnesses of CPU 2-3 show: a list of isolated CPUs, or `?` when one is missing.
    fn check(shown: [&str; 3]) -> IsolationCheck {
        let witnesses = shown.map(|list| match list {
            "?" => IsolationWitness::Absent { why: "EPERM".to_owned() },
            list => IsolationWitness::Present { isolated: list.parse().unwrap() },
        });
        IsolationCheck::new("2-3".parse().unwrap(), witnesses)
    }

    #[test]
    fn cpus_count_as_isolated_only_when_three_witnesses_agree() {
        use IsolationAnswer::{Contradicted, Isolated, NotIsolated, Unknown};
        for (shown, answer) in [
            (["2-3", "2-3", "2-3"], Isolated),
            (["", "", ""], NotIsolated),
            // isolcpus= was on the command line and not in force.
            (["2-3", "2-3", ""], Contradicted),
            (["2-3", "", ""], Contradicted),
            (["", "2-3", "2-3"], Contradicted),
            (["2-3", "2-3", "2"], Contradicted),
            (["2", "2", "2"], Contradicted),
            (["2-3", "2-3", "?"], Unknown),
            (["", "?", ""], Unknown),
            (["2-3", "?", ""], Contradicted),
            (["?", "?", "?"], Unknown),
        ] {
            assert_eq!(check(shown).answer, answer, "{shown:?}");
        }
    }

    #[test]
    fn a_check_says_what_each_witness_shows() {
        let broken = "the kernel lists CPU 2-3 as isolated; PID 1 may not run on CPU 2-3; a probe \
                      with busy unpinned threads ran on CPU 3";
        assert_eq!(check(["2-3", "2-3", "2"]).to_string(), broken);
        let missing = "it is unknown which CPUs the kernel lists as isolated: EPERM; PID 1 may run \
                       on CPU 2-3; no evidence from a probe with busy unpinned threads: EPERM";
        assert_eq!(check(["?", "", "?"]).to_string(), missing);
    }

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
