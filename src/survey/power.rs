//! Power management: who chooses frequencies and idle states, and whether turbo is allowed.

use super::reader::{CpuSetSpelling::List, SurveyReader};
use super::{IdleState, PowerManagement, Topology};
use cpushield_linux::CpuSet;
use std::collections::BTreeMap;

const CPU: &str = "/sys/devices/system/cpu";

pub(super) fn power(r: &SurveyReader, topology: &Topology) -> PowerManagement {
    let (cpufreq_driver, governors) = frequency(r, topology);
    let first = topology.online.first().unwrap_or(0);
    let dir = format!("{CPU}/cpu{first}/cpuidle");
    let state = |index: usize| {
        let file = |name: &str| format!("{dir}/state{index}/{name}");
        Some(IdleState {
            name: r.line(&file("name"))?,
            latency_us: r.number(&file("latency"))?,
            disabled: r.flag(&file("disable")).unwrap_or(false),
        })
    };
    // intel_pstate has its own switch, with the opposite sense.
    let no_turbo = r.flag(&format!("{CPU}/intel_pstate/no_turbo")).map(|no| !no);
    let boost = || r.flag(&format!("{CPU}/cpufreq/boost"));
    PowerManagement {
        cpufreq_driver,
        governors,
        cpuidle_driver: r.line(&format!("{CPU}/cpuidle/current_driver")).filter(|d| d != "none"),
        idle_states: r.numbered(&dir, "state").into_iter().filter_map(state).collect(),
        turbo: no_turbo.or_else(boost),
    }
}

/// The driver and the governors with their CPUs. The current frequency is not read: that sends an
/// interrupt to each CPU.
fn frequency(r: &SurveyReader, topology: &Topology) -> (Option<String>, BTreeMap<String, CpuSet>) {
    let mut driver = None;
    let mut governors: BTreeMap<String, CpuSet> = BTreeMap::new();
    for cpu in topology.online.iter() {
        let own = format!("{CPU}/cpu{cpu}/cpufreq");
        // A tunable asks for this very file.
        let Some(governor) = r.kept_line(&format!("{own}/scaling_governor")) else { continue };
        driver = driver.or_else(|| r.line(&format!("{own}/scaling_driver")));
        governors.entry(governor).or_default().insert(cpu);
    }
    if governors.is_empty() { policies(r) } else { (driver, governors) }
}

/// The same where the CPUs have no link to their policy.
fn policies(r: &SurveyReader) -> (Option<String>, BTreeMap<String, CpuSet>) {
    let mut driver = None;
    let mut governors: BTreeMap<String, CpuSet> = BTreeMap::new();
    for number in r.numbered(&format!("{CPU}/cpufreq"), "policy") {
        let policy = format!("{CPU}/cpufreq/policy{number}");
        driver = driver.or_else(|| r.line(&format!("{policy}/scaling_driver")));
        let path = format!("{policy}/scaling_governor");
        let Some(governor) = r.line(&path) else { continue };
        if governor.trim().is_empty() {
            r.note(&path, "it is empty: the governor is not known");
            continue;
        }
        // Written with blanks: `0 1 2`.
        let cpus = r.line(&format!("{policy}/affected_cpus")).map(|text| text.replace(' ', ","));
        let cpus = cpus.and_then(|list| CpuSet::parse_list(&list, None).ok());
        let cpus = cpus.or_else(|| r.set(&[(&format!("{policy}/related_cpus"), List)]));
        let entry = governors.entry(governor).or_default();
        *entry = entry.union(&cpus.unwrap_or_default());
    }
    (driver, governors)
}
