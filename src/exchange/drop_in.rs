//! [`Plan`] → a drop-in for a systemd service that runs on the shielded CPUs. Pure.

use crate::documents::machine::{CgroupMode, Machine};
use crate::documents::plan::Plan;
use cpushield_sentence::Sentence;

/// Why a drop-in cannot put a service into the shield.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Sentence)]
pub enum DropInRefusal {
    /// systemd is not running here.
    NoSystemd,
    /// the cpusets of this machine use cgroup v1, but systemd can give CPUs to a slice only on
    /// cgroup v2.
    NoCgroupV2,
    /// the tunable cpuset is off, so the shield has no slice that a service could join.
    NoSlice,
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
    if shield.tunables.choice("cpuset") == Some(false) {
        return Err(DropInRefusal::NoSlice);
    }
    let (name, group) = (&shield.name, shield.group());
    let working = shield.cpus.difference(&shield.idle_siblings);
    // systemd merges lists that are given more than once; an empty one discards the earlier ones
    // (systemd.exec(5), CPUAffinity=).
    let mut text = format!(
        "# Runs a service on CPU {working} of the shield {name} (cpushield plan --export \
         systemd-drop-in).\n\
         # Next: save it as /etc/systemd/system/SERVICE.service.d/cpushield.conf, then:\n\
         # systemctl daemon-reload && systemctl restart SERVICE\n\
         #\n\
         # The slice keeps other tasks off these CPUs only while the shield is active (`cpushield\n\
         # apply`, or `cpushield enable` for every boot). Otherwise other tasks run on them too.\n\
         # The kernel does not balance tasks among a shield's CPUs: pin each busy thread to one.\n\
         [Unit]\nAfter=cpushield.service\n\n\
         [Service]\nSlice={group}.slice\nCPUAffinity=\nCPUAffinity={working}\n"
    );
    // A machine with one node needs no policy.
    if machine.topology.nodes.len() > 1 && !shield.mems.is_empty() {
        text.push_str(&format!("NUMAPolicy=bind\nNUMAMask={}\n", shield.mems));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::fake::plain;
    use crate::plan::plan;
    use crate::policy::ShieldRequest;

    #[test]
    fn a_shield_without_cpuset_has_no_slice_to_enter() {
        let mut machine = plain(4);
        (machine.cgroup.systemd, machine.cgroup.mode) = (true, CgroupMode::V2);
        let mut request = ShieldRequest::default();
        request.tunables.set("cpuset", false);
        let plan = plan(&machine, &request).unwrap();
        assert_eq!(service_drop_in(&machine, &plan), Err(DropInRefusal::NoSlice));
    }
}
