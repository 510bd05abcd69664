//! What the names in a selection of CPUs mean on this machine.

use crate::cpu_selection::{CpuNames, CpuSelection, SELECTION_HINT};
use crate::failure::Failure;
use crate::survey::Machine;
use cpushield_linux::{CpuSet, Host};

const CPU: &str = "/sys/devices/system/cpu";
/// The isolated partitions of the root (Documentation/admin-guide/cgroup-v2.rst, 6.9).
const PARTITIONS: &str = "/sys/fs/cgroup/cpuset.cpus.isolated";

/// Reads what the names mean. What the kernel does not show is empty.
#[must_use]
pub fn read_names(host: &Host) -> CpuNames {
    let list = |path: &str| -> CpuSet {
        host.read_line(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or_default()
    };
    let active = host.online_cpus().unwrap_or_default();
    CpuNames {
        all: list(&format!("{CPU}/present")).union(&active),
        isolated: list(&format!("{CPU}/isolated")).union(&list(PARTITIONS)),
        active,
    }
}

/// What the names mean on a surveyed machine.
#[must_use]
pub(super) fn names_of(machine: &Machine) -> CpuNames {
    let isolation = &machine.isolation;
    let isolated = [&isolation.isolated, &isolation.partitions].into_iter().flatten();
    CpuNames {
        all: machine.topology.present.union(&machine.topology.online),
        active: machine.topology.online.clone(),
        isolated: isolated.fold(CpuSet::new(), |all, cpus| all.union(cpus)),
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
    resolved.map_err(|why| Failure::usage(format!("--cpus: {why}")).hint(SELECTION_HINT))
}
