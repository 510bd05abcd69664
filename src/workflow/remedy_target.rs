//! What remedies are for: the machine as it is now, and its shield.

use super::machine_survey::survey_shielded;
use crate::documents::machine::Machine;
use crate::documents::plan::{Plan, Shield};
use crate::plan::plan;
use crate::policy::{ShieldRequest, Siblings};
use crate::survey::survey;
use crate::tunables;
use cpushield_linux::{CpuSet, Host, Store};

/// The machine and the shield that remedies are for: the active shield, or a hypothetical one on
/// these CPUs.
pub fn find_remedy_target(
    host: &Host,
    store: &Store,
    active: Option<&Plan>,
    cpus: &CpuSet,
) -> Option<(Machine, Shield)> {
    let machine = match active {
        Some(plan) => survey_shielded(host, store, plan),
        None => survey(host, &tunables::reads()),
    };
    let shield = match active {
        Some(plan) if cpus.is_subset(&plan.shield.cpus) => plan.shield.clone(),
        _ => {
            let (cpus, siblings) = (Some(cpus.clone()), Some(Siblings::Share));
            let request = ShieldRequest { cpus, siblings, ..ShieldRequest::default() };
            plan(&machine, &request).ok()?.shield
        }
    };
    Some((machine, shield))
}
