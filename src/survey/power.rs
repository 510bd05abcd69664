//! Power management: the drivers of frequencies and idle states, and whether turbo is allowed.

use super::reader::SurveyReader;
use super::{IdleState, IdleStates, PowerManagement, Topology, TunableReading};
use cpushield_linux::CpuSet;
use std::collections::BTreeMap;

const CPU: &str = "/sys/devices/system/cpu";
/// On machines with more CPUs, the idle states of every CPU would take thousands of files.
const IDLE_CPUS_MAX: usize = 64;

pub(super) fn read_power(r: &SurveyReader, topology: &Topology) -> PowerManagement {
    let (cpufreq_driver, policies, governors) = read_cpufreq(r, topology);
    // intel_pstate has its own switch, with the opposite meaning.
    let no_turbo = r.flag(&format!("{CPU}/intel_pstate/no_turbo"));
    PowerManagement {
        cpufreq_driver,
        policies,
        governors,
        cpuidle_driver: r.line(&format!("{CPU}/cpuidle/current_driver")).filter(|d| d != "none"),
        idle_states: read_idle_states(r, topology),
        turbo: no_turbo.map(|no| !no).or_else(|| r.flag(&format!("{CPU}/cpufreq/boost"))),
    }
}

/// The states of each CPU, or on a large machine of one CPU of each core type.
fn read_idle_states(r: &SurveyReader, topology: &Topology) -> Vec<IdleStates> {
    let large = topology.cpus.len() > IDLE_CPUS_MAX;
    let mut kinds = Vec::new();
    let mut found: Vec<IdleStates> = Vec::new();
    for cpu in &topology.cpus {
        if large && kinds.contains(&cpu.kind) {
            continue;
        }
        kinds.push(cpu.kind);
        let dir = format!("{CPU}/cpu{}/cpuidle", cpu.cpu);
        let numbers = r.numbered(&dir, "state").into_iter();
        // A state has its number by its place.
        let states =
            numbers.map_while(|number| read_idle_state(r, &format!("{dir}/state{number}")));
        let states: Vec<IdleState> = states.collect();
        if states.is_empty() {
            // Without a driver, no CPU has states.
            if found.is_empty() {
                break;
            }
            continue;
        }
        match found.iter_mut().find(|known| are_alike(&known.states, &states)) {
            Some(known) => {
                known.cpus.insert(cpu.cpu);
                for (sum, state) in known.states.iter_mut().zip(&states) {
                    sum.usage = sum.usage.zip(state.usage).map(|(a, b)| a.saturating_add(b));
                }
            }
            None => found.push(IdleStates { cpus: CpuSet::single(cpu.cpu), states }),
        }
    }
    found
}

/// Whether these are the same states, however often they were entered.
fn are_alike(a: &[IdleState], b: &[IdleState]) -> bool {
    let settings = |state: &IdleState| (state.name.clone(), state.latency_us, state.disabled);
    a.iter().map(settings).eq(b.iter().map(settings))
}

fn read_idle_state(r: &SurveyReader, dir: &str) -> Option<IdleState> {
    Some(IdleState {
        name: r.line(&format!("{dir}/name"))?,
        latency_us: r.number(&format!("{dir}/latency"))?,
        disabled: r.flag(&format!("{dir}/disable")).unwrap_or(false),
        usage: r.number(&format!("{dir}/usage")),
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
    // A kernel before 4.3 shows no policies.
    if policies.is_empty() && !has_frequency_files(r, &without_policy) {
        return (driver, policies, governors);
    }
    for cpu in without_policy.iter() {
        let dir = format!("{CPU}/cpu{cpu}/cpufreq");
        let Some(governor) = read_governor(r, &format!("{dir}/scaling_governor")) else { continue };
        driver = driver.or_else(|| r.line(&format!("{dir}/scaling_driver")));
        governors.entry(governor).or_default().insert(cpu);
    }
    (driver, policies, governors)
}

/// Whether CPUs without a policy have a governor. Where the first one has none, there is no driver
/// for frequencies, as in most guests. Then no file of the others is read, neither here nor for a
/// tunable.
fn has_frequency_files(r: &SurveyReader, cpus: &CpuSet) -> bool {
    let files = cpus.iter().map(|cpu| format!("{CPU}/cpu{cpu}/cpufreq/scaling_governor"));
    let files: Vec<String> = files.collect();
    let Some(first) = files.first() else { return false };
    r.line_and_cache(first);
    if r.cached(first) != Some(TunableReading::Absent) {
        return true;
    }
    files.iter().for_each(|file| r.cache_absence(file));
    false
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

#[cfg(test)]
mod tests {
    use crate::survey::survey;
    use cpushield_linux::Host;
    use std::fs;

    /// The idle states of a machine with these CPUs, by their CPUs: names, and the sum of uses.
    fn idle_states(name: &str, cpus: usize, deep: impl Fn(usize) -> &'static str) -> Vec<String> {
        let pid = std::process::id();
        let root = std::env::temp_dir().join(format!("cpushield-idle-{name}-{pid}"));
        let dir = root.join("sys/devices/system/cpu");
        for cpu in 0..cpus {
            for (state, name) in ["POLL", deep(cpu)].into_iter().enumerate() {
                let state = dir.join(format!("cpu{cpu}/cpuidle/state{state}"));
                fs::create_dir_all(&state).unwrap();
                let files = [("name", name), ("latency", "7"), ("disable", "0"), ("usage", "3")];
                for (file, text) in files {
                    fs::write(state.join(file), format!("{text}\n")).unwrap();
                }
            }
        }
        for file in ["online", "present"] {
            fs::write(dir.join(file), format!("0-{}\n", cpus - 1)).unwrap();
        }
        let machine = survey(&Host::recorded(&root).unwrap(), &[]);
        fs::remove_dir_all(root).unwrap();
        let groups = machine.power.idle_states.into_iter().map(|group| {
            let states = group.states.iter();
            let states = states.map(|state| format!("{} {}", state.name, state.usage.unwrap()));
            format!("{}: {}", group.cpus, states.collect::<Vec<_>>().join(", "))
        });
        groups.collect()
    }

    #[test]
    fn cpus_with_the_same_idle_states_share_an_entry() {
        let odd = |cpu: usize| if cpu % 2 == 1 { "C6" } else { "C10" };
        assert_eq!(idle_states("mixed", 5, odd), ["0,2,4: POLL 9, C10 9", "1,3: POLL 6, C6 6"]);
    }

    #[test]
    fn of_a_large_machine_one_cpu_of_each_core_type_is_read() {
        assert_eq!(idle_states("large", 65, |_| "C6"), ["0: POLL 3, C6 3"]);
    }
}
