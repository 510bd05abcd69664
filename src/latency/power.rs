//! The power management, the memory and the stolen time of a machine, for the document: figures of
//! machines that differ in them cannot be compared.

use crate::survey::Machine;
use cpushield_linux::text::stat;
use cpushield_linux::{CpuSet, Host};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

const CPU: &str = "/sys/devices/system/cpu";

/// The power management of the measured CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MeasuredPower {
    /// The driver of their frequencies; `None` without one.
    pub driver: Option<String>,
    /// Their governors, each once; empty without a driver.
    pub governors: Vec<String>,
    /// Whether turbo (boost) is allowed; `None` when it cannot be read.
    pub turbo: Option<bool>,
    /// The driver of their idle states; `None` without one.
    pub idle_driver: Option<String>,
    /// The idle states that one of them may enter, each once; `None` when they cannot be read.
    pub idle_states: Option<Vec<String>>,
}

impl MeasuredPower {
    /// Reads it for these CPUs.
    #[must_use]
    pub fn read(host: &Host, machine: &Machine, cpus: &CpuSet) -> MeasuredPower {
        let power = &machine.power;
        let governors = power.governors.iter().filter(|(_, on)| on.intersects(cpus));
        MeasuredPower {
            driver: power.cpufreq_driver.clone(),
            governors: governors.map(|(governor, _)| governor.clone()).collect(),
            turbo: power.turbo,
            idle_driver: power.cpuidle_driver.clone(),
            idle_states: read_idle_states(host, cpus),
        }
    }

    /// The governors: `performance`, or `none` without a driver.
    #[must_use]
    pub fn governor_text(&self) -> String {
        if self.governors.is_empty() { "none".to_owned() } else { self.governors.join(" and ") }
    }

    /// The idle states that are enabled: `POLL, C1`.
    #[must_use]
    pub fn idle_text(&self) -> String {
        match (&self.idle_states, &self.idle_driver) {
            (Some(states), _) if states.is_empty() => "all disabled".to_owned(),
            (Some(states), _) => states.join(", "),
            (None, Some(_)) => "unknown".to_owned(),
            (None, None) => "no driver".to_owned(),
        }
    }
}

impl fmt::Display for MeasuredPower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let turbo = match self.turbo {
            None => "unknown",
            Some(true) => "allowed",
            Some(false) => "off",
        };
        let (governor, idle) = (self.governor_text(), self.idle_text());
        write!(f, "governor {governor}; turbo {turbo}; idle states: {idle}")
    }
}

/// The idle states that one of these CPUs may enter; `None` when a CPU shows none.
fn read_idle_states(host: &Host, cpus: &CpuSet) -> Option<Vec<String>> {
    let mut found = Vec::new();
    let mut known = BTreeSet::new();
    for cpu in cpus.iter() {
        let dir = format!("{CPU}/cpu{cpu}/cpuidle");
        let mut numbers: Vec<usize> = host
            .list(&dir)
            .ok()?
            .iter()
            .filter_map(|name| name.strip_prefix("state")?.parse().ok())
            .collect();
        numbers.sort_unstable();
        for number in numbers {
            let name = host.read_line(&format!("{dir}/state{number}/name")).ok()?;
            let disabled = host.read_line(&format!("{dir}/state{number}/disable")).ok()?;
            if disabled == "0" && known.insert(name.clone()) {
                found.push(name);
            }
        }
    }
    Some(found)
}

/// The memory of the machine in KiB; `None` when it cannot be read.
#[must_use]
pub fn read_memory_kib(host: &Host) -> Option<u64> {
    let text = host.read("/proc/meminfo").ok()?;
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    total.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// A size of memory, rounded: kernels of one machine differ by some MiB.
#[must_use]
pub fn memory_size(kib: u64) -> String {
    let tenths = (kib * 10 + (1 << 19)) >> 20;
    format!("{}.{} GiB", tenths / 10, tenths % 10)
}

/// The time that a hypervisor took from these CPUs since boot; `None` when it cannot be read.
pub(super) fn read_steal_ns(host: &Host, cpus: &CpuSet) -> Option<u64> {
    let times = stat::parse(&host.read("/proc/stat").ok()?).ok()?;
    let stolen = cpus.iter().map(|cpu| Some(times.get(&cpu)?.steal.ns()));
    stolen.sum()
}

/// The time that a hypervisor took from these CPUs since an earlier reading.
pub(super) fn stolen_since(host: &Host, cpus: &CpuSet, before: Option<u64>) -> Option<u64> {
    Some(read_steal_ns(host, cpus)?.saturating_sub(before?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// A recording with these files.
    fn host(name: &str, files: &[(&str, &str)]) -> (Host, PathBuf) {
        let dir = std::env::temp_dir().join(format!("cpushield-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        for (path, text) in files {
            let path = dir.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        (Host::recorded(&dir).unwrap(), dir)
    }

    #[test]
    fn power_memory_and_stolen_time_of_the_measured_cpus_are_read() {
        let cpuidle = "sys/devices/system/cpu/cpu3/cpuidle";
        let states = [("0", "POLL", "0"), ("1", "C1", "0"), ("2", "C6", "1")];
        let mut files: Vec<(String, String)> = Vec::new();
        for (number, name, disabled) in states {
            files.push((format!("{cpuidle}/state{number}/name"), format!("{name}\n")));
            files.push((format!("{cpuidle}/state{number}/disable"), format!("{disabled}\n")));
        }
        files.push((
            "proc/meminfo".to_owned(),
            "MemTotal:  16318440 kB\nMemFree: 1 kB\n".to_owned(),
        ));
        let stat = "cpu  1 1 1 1 1 1 1 9\ncpu0 1 1 1 1 1 1 1 4\ncpu3 1 1 1 1 1 1 1 5\n";
        files.push(("proc/stat".to_owned(), stat.to_owned()));
        let files: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let (host, dir) = host("power", &files);
        let mut machine = Machine::default();
        machine.power.governors.insert("performance".to_owned(), "2-3".parse().unwrap());
        machine.power.governors.insert("powersave".to_owned(), "0-1".parse().unwrap());
        machine.power.turbo = Some(true);
        let cpus = CpuSet::single(3);
        let power = MeasuredPower::read(&host, &machine, &cpus);
        let said = "governor performance; turbo allowed; idle states: POLL, C1";
        assert_eq!(power.to_string(), said);
        assert_eq!(read_memory_kib(&host), Some(16_318_440));
        assert_eq!(memory_size(16_318_440), "15.6 GiB");
        assert_eq!(read_steal_ns(&host, &cpus), Some(50_000_000));
        assert_eq!(read_steal_ns(&host, &CpuSet::single(9)), None);
        let other = MeasuredPower::read(&host, &Machine::default(), &CpuSet::single(0));
        assert_eq!(other.to_string(), "governor none; turbo unknown; idle states: no driver");
        std::fs::remove_dir_all(dir).unwrap();
    }
}
