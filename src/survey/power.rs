//! Power management: the drivers of frequencies and idle states, and whether turbo is allowed.

use super::reader::SurveyReader;
use super::{IdleState, PowerManagement, Topology};
use cpushield_linux::CpuSet;
use std::collections::BTreeMap;

const CPU: &str = "/sys/devices/system/cpu";

pub(super) fn read_power(r: &SurveyReader, topology: &Topology) -> PowerManagement {
    let (cpufreq_driver, policies, governors) = read_cpufreq(r, topology);
    let first = topology.online.first().unwrap_or(0);
    let dir = format!("{CPU}/cpu{first}/cpuidle");
    let states = r.numbered(&dir, "state").into_iter();
    // intel_pstate has its own switch, with the opposite meaning.
    let no_turbo = r.flag(&format!("{CPU}/intel_pstate/no_turbo"));
    PowerManagement {
        cpufreq_driver,
        policies,
        governors,
        cpuidle_driver: r.line(&format!("{CPU}/cpuidle/current_driver")).filter(|d| d != "none"),
        idle_states: states
            .filter_map(|index| read_idle_state(r, &format!("{dir}/state{index}")))
            .collect(),
        turbo: no_turbo.map(|no| !no).or_else(|| r.flag(&format!("{CPU}/cpufreq/boost"))),
    }
}

fn read_idle_state(r: &SurveyReader, dir: &str) -> Option<IdleState> {
    Some(IdleState {
        name: r.line(&format!("{dir}/name"))?,
        latency_us: r.number(&format!("{dir}/latency"))?,
        disabled: r.flag(&format!("{dir}/disable")).unwrap_or(false),
    })
}

/// The driver, the frequency policies, and the governors with their online CPUs. The current
/// frequency is not read, because that sends an interrupt to each CPU.
fn read_cpufreq(
    r: &SurveyReader,
    topology: &Topology,
) -> (Option<String>, BTreeMap<usize, CpuSet>, BTreeMap<String, CpuSet>) {
    let mut driver = None;
    let policies = read_policies(r, topology);
    let mut governors: BTreeMap<String, CpuSet> = BTreeMap::new();
    let mut without_policy = topology.online.clone();
    for (number, cpus) in &policies {
        let policy = format!("{CPU}/cpufreq/policy{number}");
        without_policy = without_policy.difference(cpus);
        driver = driver.or_else(|| r.line(&format!("{policy}/scaling_driver")));
        let path = format!("{policy}/scaling_governor");
        // A tunable needs this file too.
        let Some(governor) = read_governor(r, &path) else { continue };
        for cpu in cpus.iter() {
            // It is the same file.
            r.cache_line(&format!("{CPU}/cpu{cpu}/cpufreq/scaling_governor"), &governor);
        }
        let entry = governors.entry(governor).or_default();
        *entry = entry.union(&cpus.intersection(&topology.online));
    }
    // An old kernel shows no policies.
    for cpu in without_policy.iter() {
        let dir = format!("{CPU}/cpu{cpu}/cpufreq");
        let Some(governor) = read_governor(r, &format!("{dir}/scaling_governor")) else { continue };
        driver = driver.or_else(|| r.line(&format!("{dir}/scaling_driver")));
        governors.entry(governor).or_default().insert(cpu);
    }
    (driver, policies, governors)
}

fn read_governor(r: &SurveyReader, path: &str) -> Option<String> {
    let governor = r.line_and_cache(path)?;
    if governor.trim().is_empty() {
        r.note(path, "the file is empty, so the governor is unknown");
        return None;
    }
    Some(governor)
}

/// The frequency policies by number, with their CPUs. The number of a policy is that of one of its
/// CPUs (cpufreq_policy_alloc() in drivers/cpufreq/cpufreq.c, 6.12), and no CPU has two policies.
/// Where there are as many policies as CPUs, the files with their CPUs need not be read.
fn read_policies(r: &SurveyReader, topology: &Topology) -> BTreeMap<usize, CpuSet> {
    let numbers = r.numbered(&format!("{CPU}/cpufreq"), "policy");
    let one_each = numbers.len() == topology.present.len();
    let cpus_of = |number: usize| {
        if one_each { CpuSet::single(number) } else { read_policy_cpus(r, number) }
    };
    numbers.into_iter().map(|number| (number, cpus_of(number))).collect()
}

/// All CPUs of a policy; the online ones where a recording has no others.
fn read_policy_cpus(r: &SurveyReader, number: usize) -> CpuSet {
    let policy = format!("{CPU}/cpufreq/policy{number}");
    let text = ["related_cpus", "affected_cpus"].iter().find_map(|file| {
        // The kernel separates CPUs by spaces: `0 1 2`.
        Some(r.line(&format!("{policy}/{file}"))?.trim().replace(' ', ","))
    });
    text.and_then(|list| CpuSet::parse_list(&list, None).ok()).unwrap_or_default()
}
