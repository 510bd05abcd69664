//! What the names in a selection of CPUs mean on this machine.

use crate::cpu_selection::{CpuNames, CpuSelection, SELECTION_HINT};
use crate::documents::machine::Machine;
use crate::failure::Failure;
use crate::survey::survey_boot;
use cpushield_linux::{CpuSet, Host};

/// The isolated partitions of the root (Documentation/admin-guide/cgroup-v2.rst, 6.9).
const PARTITIONS: &str = "/sys/fs/cgroup/cpuset.cpus.isolated";

/// The CPU list of a file; empty if it cannot be read.
fn read_list(host: &Host, path: &str) -> CpuSet {
    host.read_line(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or_default()
}

/// A CPU list of `/sys/devices/system/cpu`; empty if it cannot be read.
pub(super) fn read_cpu_list(host: &Host, name: &str) -> CpuSet {
    read_list(host, &format!("/sys/devices/system/cpu/{name}"))
}

/// Reads what the names mean. What the kernel does not show is empty.
#[must_use]
pub fn read_names(host: &Host) -> CpuNames {
    let active = host.online_cpus().unwrap_or_default();
    let isolated = match host.exists("/sys/devices/system/cpu/isolated") {
        true => read_cpu_list(host, "isolated"),
        // Kernels before 4.2 have no such file.
        false => survey_boot(host).isolation.isolcpus_domain,
    };
    CpuNames {
        all: read_cpu_list(host, "present").union(&active),
        isolated: isolated.union(&read_list(host, PARTITIONS)),
        active,
    }
}

/// What the names mean on a surveyed machine.
#[must_use]
pub(super) fn names_of(machine: &Machine) -> CpuNames {
    let isolation = &machine.isolation;
    let booted = isolation.isolated.as_ref().unwrap_or(&isolation.isolcpus_domain);
    let isolated = [Some(booted), isolation.partitions.as_ref()].into_iter().flatten();
    CpuNames {
        all: machine.topology.present.union(&machine.topology.online),
        active: machine.topology.online.clone(),
        isolated: isolated.collect(),
    }
}

/// The CPUs of a selection on this machine; `None` without one.
///
/// # Errors
/// The selection names no CPU of this machine.
pub fn select_cpus(
    host: &Host,
    selection: Option<&CpuSelection>,
) -> Result<Option<CpuSet>, Failure> {
    let resolved = selection.map(|selection| selection.resolve(&read_names(host))).transpose();
    resolved.map_err(|why| {
        let hint = why.hint().unwrap_or_else(|| SELECTION_HINT.to_owned());
        Failure::usage(format!("--cpus: {why}")).hint(hint)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_file_of_the_kernel_the_command_line_names_isolated_cpus() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/machines/hand-3.18/root");
        let host = Host::recorded(std::path::Path::new(root)).unwrap();
        assert_eq!(read_names(&host).isolated, CpuSet::single(3));
        assert_eq!(names_of(&survey_boot(&host)).isolated, CpuSet::single(3));
    }
}
