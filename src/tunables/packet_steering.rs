//! `rps` and `xps`: network work is not steered to the shield. Pure.

use super::want::{setting, settings};
use super::{Tunable, WantedChange, WantedChanges};
use crate::causes::Cause;
use crate::causes::culprit::CulpritPattern;
use crate::change::{Risk, ValueComparison};
use crate::documents::inapplicable::InapplicableReason;
use crate::documents::machine::Machine;
use crate::documents::plan::{OffReason, Shield};
use cpushield_linux::CpuSet;

const RPS_MASKS: &str = "/sys/class/net/*/queues/rx-*/rps_cpus";
const RPS_DEFAULT: &str = "/proc/sys/net/core/rps_default_mask";
const XPS_MASKS: &str = "/sys/class/net/*/queues/tx-*/xps_cpus";

pub(super) const RPS: Tunable = Tunable {
    name: "rps",
    summary: "do not steer received packets to the shield",
    page: "\
Receive packet steering (RPS) passes received packets from the CPU that handled the interrupt to
other CPUs, with an IPI and a softirq there. Each receive queue has a mask. apply removes the
shielded CPUs from it, and from the mask for interfaces that appear later
(`net.core.rps_default_mask`, since 6.3). An empty mask, the default, switches RPS off for its
queue.

This tunable does not change receive flow steering (RFS, `rps_flow_cnt` of a queue), which does not
need a mask. RFS passes packets to the CPU where the receiving program last ran. apply sees only the
interfaces of the network namespace in which it runs, so not those inside containers.

Cost: fewer CPUs process received packets.

Source: get_rps_cpu() in net/core/dev.c (6.12); Documentation/networking/scaling.rst.",
    reads: &[RPS_MASKS, RPS_DEFAULT],
    removes: &[Cause::IpiCall, Cause::Softirq],
    culprits: &[
        CulpritPattern::Function("rps_trigger_softirq"),
        CulpritPattern::Function("net_rx"),
        CulpritPattern::Softirq("NET_RX"),
    ],
    risk: Risk::Low,
    wants: steer_received,
    ..Tunable::PLAIN
};

fn steer_received(machine: &Machine, shield: &Shield) -> WantedChanges {
    let default = setting(machine, RPS_DEFAULT).map(|text| (RPS_DEFAULT, text));
    let files = default.into_iter().chain(settings(machine, RPS_MASKS));
    remove_shield(files, shield, "otherwise the kernel processes received packets on the shield")
        .map_or(
            WantedChanges::Nothing(InapplicableReason::NoSteeredPackets),
            WantedChanges::Changes,
        )
}

pub(super) const XPS: Tunable = Tunable {
    name: "xps",
    summary: "do not bind transmit queues to shielded CPUs",
    page: "\
Transmit packet steering (XPS) chooses the transmit queue by the CPU that sends. It sends no work to
other CPUs, so it does not interrupt a shield by itself. If the shield shares a queue with other
CPUs, the shield's programs may also send packets of other programs. Other programs may also wait
until packets of the shield are sent.

Off unless requested (`--on xps`): then no queue is bound to a shielded CPU, and programs there
use any queue. For a program on the shield that sends a lot, bind a separate queue by hand instead.

Source: netdev_pick_tx() in net/core/dev.c (6.12); Documentation/networking/scaling.rst.",
    reads: &[XPS_MASKS],
    removes: &[Cause::Softirq],
    culprits: &[CulpritPattern::Function("net_tx"), CulpritPattern::Softirq("NET_TX")],
    risk: Risk::Low,
    optional: |_| Some(OffReason::SendsNoWork),
    wants: steer_sent,
    ..Tunable::PLAIN
};

fn steer_sent(machine: &Machine, shield: &Shield) -> WantedChanges {
    remove_shield(settings(machine, XPS_MASKS), shield, "this queue is bound to the shield")
        .map_or(WantedChanges::Nothing(InapplicableReason::NoBoundQueue), WantedChanges::Changes)
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
