//! The CPUs that a boot plan prepares, and those that its trial shields: requested ones, one core,
//! or every CPU that could be shielded. Takes the machine and a request. Pure.

use super::error::BootError;
use super::parameters::ParameterTarget;
use super::planned_kernel::PlannedKernel;
use super::request::{BootRequest, CpuOrigin};
use crate::documents::boot::BootReason;
use crate::documents::machine::Machine;
use crate::documents::plan::Shield;
use crate::plan::{PlanRefusal, choose};
use crate::policy::ShieldRequest;
use cpushield_linux::CpuSet;

/// The CPUs that the user requested; else one core where `isolcpus=` takes it away under one of the
/// kernels, or every CPU that could ever be shielded. Also returns which of these, and why.
pub(super) fn choose_shield(
    machine: &Machine,
    request: &BootRequest,
    kernels: &[PlannedKernel<'_>],
) -> Result<(Shield, CpuOrigin, Vec<BootReason>), BootError> {
    let isolate = kernels.iter().any(|kernel| kernel.isolates(request, machine));
    let request = &request.shield;
    let requested = request.cpus.is_some()
        || request.count.is_some()
        || request.near.is_some()
        || request.node.is_some();
    let (shield, origin, why) = if requested {
        let choice = choose(machine, request)?;
        let why = choice.why.into_iter().map(BootReason::Choice).collect();
        (choice.shield, CpuOrigin::Requested, why)
    } else if isolate {
        let shield = choose(machine, request)?.shield;
        let why = BootReason::IsolatedCore { cpus: shield.cpus.clone() };
        (shield, CpuOrigin::IsolatedCore, vec![why])
    } else {
        let shield = largest_shield(machine, request)?;
        let why = BootReason::EveryShieldableCpu { cpus: shield.cpus.clone() };
        (shield, CpuOrigin::Shieldable, vec![why])
    };
    if shield.cpus.contains(0) {
        return Err(BootError::BootCpu { cpus: shield.cpus });
    }
    Ok((shield, origin, why))
}

fn largest_shield(machine: &Machine, request: &ShieldRequest) -> Result<Shield, PlanRefusal> {
    let online = machine.topology.online.len();
    let mut request = ShieldRequest { count: Some(online), share: None, ..request.clone() };
    let mut choice = choose(machine, &request);
    use PlanRefusal::{HeldByCpusets, TooMany};
    if let Err(TooMany { possible, .. } | HeldByCpusets { possible, .. }) = choice
        && possible > 0
    {
        request.count = Some(possible);
        choice = choose(machine, &request);
    }
    choice.map(|choice| choice.shield)
}

/// The CPUs that a trial shields: all that the user named. When the tool chose them, one is
/// enough: a shield on all of them would leave almost no CPU to the starting services.
pub(super) fn trial_cpus(target: &ParameterTarget, origin: CpuOrigin) -> CpuSet {
    match origin {
        CpuOrigin::Requested | CpuOrigin::IsolatedCore => target.cpus.clone(),
        CpuOrigin::Shieldable => target.cpus.last().into_iter().collect(),
    }
}
