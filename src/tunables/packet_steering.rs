//! `rps` and `xps`: network work is not steered to the shield. Pure.

use super::want::{setting, settings};
use super::{Tunable, WantedChange, WantedChanges};
use crate::causes::Cause;
use crate::causes::culprit::CulpritPattern;
use crate::change::{Risk, ValueComparison};
use crate::documents::inapplicable::InapplicableReason;
use crate::documents::machine::Machine;
use crate::documents::plan::{OffReason, Shield};
use crate::policy::Workload;
use cpushield_linux::CpuSet;

const RPS: &str = "/sys/class/net/*/queues/rx-*/rps_cpus";
const RPS_DEFAULT: &str = "/proc/sys/net/core/rps_default_mask";
const XPS: &str = "/sys/class/net/*/queues/tx-*/xps_cpus";

#[derive(Debug)]
pub(super) struct Rps;

#[derive(Debug)]
pub(super) struct Xps;

const RPS_PAGE: &str = "\
Receive packet steering (RPS) passes received packets from the CPU that handled the interrupt to
other CPUs, with an IPI and a softirq there. Each receive queue has a mask. apply removes the
shielded CPUs from it, and from the mask for interfaces that appear later
(`net.core.rps_default_mask`, since 6.3). An empty mask, the default, switches RPS off for its
queue.

This tunable does not change receive flow steering (RFS, `rps_flow_cnt` of a queue), which does not
need a mask. RFS passes packets to the CPU where the receiving program last ran. apply sees only the
interfaces of the network namespace in which it runs, so not those inside containers.

Cost: fewer CPUs process received packets.

Source: get_rps_cpu() in net/core/dev.c (6.12); Documentation/networking/scaling.rst.";

const XPS_PAGE: &str = "\
Transmit packet steering (XPS) chooses the transmit queue by the CPU that sends. It sends no work to
other CPUs, so it does not interrupt a shield by itself. If the shield shares a queue with other
CPUs, the shield's programs may also send packets of other programs. Other programs may also wait
until packets of the shield are sent.

Off unless requested (`--on xps`): then no queue is bound to a shielded CPU, and programs there
use any queue. For a program on the shield that sends a lot, bind a separate queue by hand instead.

Source: netdev_pick_tx() in net/core/dev.c (6.12); Documentation/networking/scaling.rst.";

impl Tunable for Rps {
    fn name(&self) -> &'static str {
        "rps"
    }

    fn summary(&self) -> &'static str {
        "do not steer received packets to the shield"
    }

    fn page(&self) -> &'static str {
        RPS_PAGE
    }

    fn reads(&self) -> &'static [&'static str] {
        &[RPS, RPS_DEFAULT]
    }

    fn removes(&self) -> &'static [Cause] {
        &[Cause::IpiCall, Cause::Softirq]
    }

    fn culprits(&self) -> &'static [CulpritPattern] {
        &[
            CulpritPattern::Function("rps_trigger_softirq"),
            CulpritPattern::Function("net_rx"),
            CulpritPattern::Softirq("NET_RX"),
        ]
    }

    fn risk(&self) -> Risk {
        Risk::Low
    }

    fn wants(&self, machine: &Machine, shield: &Shield) -> WantedChanges {
        let default = setting(machine, RPS_DEFAULT).map(|text| (RPS_DEFAULT, text));
        let files = default.into_iter().chain(settings(machine, RPS));
        remove_shield(
            files,
            shield,
            "otherwise the kernel processes received packets on the shield",
        )
        .map_or(
            WantedChanges::Nothing(InapplicableReason::NoSteeredPackets),
            WantedChanges::Changes,
        )
    }
}

impl Tunable for Xps {
    fn name(&self) -> &'static str {
        "xps"
    }

    fn summary(&self) -> &'static str {
        "do not bind transmit queues to shielded CPUs"
    }

    fn page(&self) -> &'static str {
        XPS_PAGE
    }

    fn reads(&self) -> &'static [&'static str] {
        &[XPS]
    }

    fn removes(&self) -> &'static [Cause] {
        &[Cause::Softirq]
    }

    fn culprits(&self) -> &'static [CulpritPattern] {
        &[CulpritPattern::Function("net_tx"), CulpritPattern::Softirq("NET_TX")]
    }

    fn risk(&self) -> Risk {
        Risk::Low
    }

    fn optional(&self, _workload: Workload) -> Option<OffReason> {
        Some(OffReason::SendsNoWork)
    }

    fn wants(&self, machine: &Machine, shield: &Shield) -> WantedChanges {
        remove_shield(settings(machine, XPS), shield, "this queue is bound to the shield").map_or(
            WantedChanges::Nothing(InapplicableReason::NoBoundQueue),
            WantedChanges::Changes,
        )
    }
}

/// Removes shielded CPUs from the masks; `None` when no mask has any.
fn remove_shield<'a>(
    files: impl Iterator<Item = (&'a str, &'a str)>,
    shield: &Shield,
    reason: &str,
) -> Option<Vec<WantedChange>> {
    let wanted = files.filter_map(|(path, text)| {
        let mask = CpuSet::parse_mask(text).ok().filter(|mask| mask.intersects(&shield.cpus))?;
        let value = mask.difference(&shield.cpus).difference(&shield.closed).to_mask();
        Some(WantedChange::write(
            Some(text.to_owned()),
            path,
            &value,
            ValueComparison::Mask,
            reason,
        ))
    });
    let wanted: Vec<WantedChange> = wanted.collect();
    (!wanted.is_empty()).then_some(wanted)
}
