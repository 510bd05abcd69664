//! Power management: the drivers of frequencies and idle states, and whether turbo is allowed.

use super::reader::{CpuSetSpelling::List, SurveyReader};
use super::{IdleState, PowerManagement, Topology};
use cpushield_linux::CpuSet;
use std::collections::BTreeMap;

const CPU: &str = "/sys/devices/system/cpu";

pub(super) fn read_power(r: &SurveyReader, topology: &Topology) -> PowerManagement {
    let (cpufreq_driver, governors) = read_cpufreq(r, topology);
    let first = topology.online.first().unwrap_or(0);
    let dir = format!("{CPU}/cpu{first}/cpuidle");
    let states = r.numbered(&dir, "state").into_iter();
    // intel_pstate has its own switch, with the opposite meaning.
    let no_turbo = r.flag(&format!("{CPU}/intel_pstate/no_turbo"));
    PowerManagement {
        cpufreq_driver,
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

/// The driver and the governors with their CPUs. The current frequency is not read, because that
/// sends an interrupt to each CPU.
fn read_cpufreq(
    r: &SurveyReader,
    topology: &Topology,
) -> (Option<String>, BTreeMap<String, CpuSet>) {
    let mut driver = None;
    let mut governors: BTreeMap<String, CpuSet> = BTreeMap::new();
    for cpu in topology.online.iter() {
        let dir = format!("{CPU}/cpu{cpu}/cpufreq");
        // A tunable needs this file too.
        let Some(governor) = r.line_and_cache(&format!("{dir}/scaling_governor")) else { continue };
        driver = driver.or_else(|| r.line(&format!("{dir}/scaling_driver")));
        governors.entry(governor).or_default().insert(cpu);
    }
    if governors.is_empty() { read_policies(r) } else { (driver, governors) }
}

/// The driver and the governors from the policies, for CPUs without a link to theirs.
fn read_policies(r: &SurveyReader) -> (Option<String>, BTreeMap<String, CpuSet>) {
    let mut driver = None;
    let mut governors: BTreeMap<String, CpuSet> = BTreeMap::new();
    for number in r.numbered(&format!("{CPU}/cpufreq"), "policy") {
        let policy = format!("{CPU}/cpufreq/policy{number}");
        driver = driver.or_else(|| r.line(&format!("{policy}/scaling_driver")));
        let path = format!("{policy}/scaling_governor");
        let Some(governor) = r.line(&path) else { continue };
        if governor.trim().is_empty() {
            r.note(&path, "it is empty: the governor is unknown");
            continue;
        }
        // The file separates CPUs by spaces: `0 1 2`.
        let cpus = r.line(&format!("{policy}/affected_cpus")).map(|text| text.replace(' ', ","));
        let cpus = cpus.and_then(|list| CpuSet::parse_list(&list, None).ok());
        let cpus = cpus.or_else(|| r.set(&[(&format!("{policy}/related_cpus"), List)]));
        let entry = governors.entry(governor).or_default();
        *entry = entry.union(&cpus.unwrap_or_default());
    }
    (driver, governors)
}
