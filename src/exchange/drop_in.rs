//! [`Plan`] → a drop-in for a systemd service that runs on the shielded CPUs. Pure.

use crate::documents::plan::Plan;
use crate::survey::{CgroupMode, Machine};
use std::fmt;

/// Why a drop-in cannot put a service into the shield.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropInRefusal {
    /// systemd is not the init system.
    NoSystemd,
    /// The shield is a cgroup v1 cpuset, which no unit can enter.
    NoCgroupV2,
}

impl fmt::Display for DropInRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DropInRefusal::NoSystemd => "systemd is not running here",
            DropInRefusal::NoCgroupV2 => {
                "the cpusets of this machine are cgroup v1, and systemd has slices with CPUs only \
                 on cgroup v2"
            }
        })
    }
}

/// The drop-in for a plan on this machine.
///
/// # Errors
/// The shield is not a slice of systemd here.
pub fn service_drop_in(machine: &Machine, plan: &Plan) -> Result<String, DropInRefusal> {
    if !machine.cgroup.systemd {
        return Err(DropInRefusal::NoSystemd);
    }
    if machine.cgroup.mode != CgroupMode::V2 {
        return Err(DropInRefusal::NoCgroupV2);
    }
    let shield = &plan.shield;
    let (name, group) = (&shield.name, shield.group());
    let working = shield.cpus.difference(&shield.idle_siblings);
    let mut text = format!(
        "# Runs a service on CPU {working} of the shield {name} (cpushield plan --export \
         systemd-drop-in).\n\
         # Next: save it as /etc/systemd/system/SERVICE.service.d/cpushield.conf, then:\n\
         # systemctl daemon-reload && systemctl restart SERVICE\n\
         #\n\
         # The slice keeps other tasks off these CPUs only while the shield is active (`cpushield\n\
         # apply`, or `cpushield enable` for every boot). Without it the service shares them.\n\
         # The kernel balances no tasks between CPUs of a shield: pin each busy thread to one.\n\
         [Unit]\nAfter=cpushield.service\n\n\
         [Service]\nSlice={group}.slice\nCPUAffinity={working}\n"
    );
    // A machine with one node needs no policy.
    if machine.topology.nodes.len() > 1 && !shield.mems.is_empty() {
        text.push_str(&format!("NUMAPolicy=bind\nNUMAMask={}\n", shield.mems));
    }
    Ok(text)
}
