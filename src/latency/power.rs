//! Reads the power management, the memory and the stolen time of a machine, for the document.

use super::MeasuredPower;
use crate::documents::machine::Machine;
use cpushield_linux::text::stat;
use cpushield_linux::{CpuSet, Host};
use std::collections::BTreeSet;

const CPU: &str = "/sys/devices/system/cpu";

/// Reads the power management of these CPUs.
#[must_use]
pub fn read_power(host: &Host, machine: &Machine, cpus: &CpuSet) -> MeasuredPower {
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
    use crate::latency::memory_size;
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
        let power = read_power(&host, &machine, &cpus);
        let said = "governor performance; turbo allowed; idle states: POLL, C1";
        assert_eq!(power.to_string(), said);
        assert_eq!(read_memory_kib(&host), Some(16_318_440));
        assert_eq!(memory_size(16_318_440), "15.6 GiB");
        assert_eq!(read_steal_ns(&host, &cpus), Some(50_000_000));
        assert_eq!(read_steal_ns(&host, &CpuSet::single(9)), None);
        let other = read_power(&host, &Machine::default(), &CpuSet::single(0));
        assert_eq!(other.to_string(), "governor none; turbo unknown; idle states: no driver");
        std::fs::remove_dir_all(dir).unwrap();
    }
}
