//! Plans all shields of a policy, before anything is written.

use super::WorkContext;
use super::active_shields::active_shields;
use super::apply_shield::explain_change;
use super::machine_survey::survey_machine;
use super::machine_without::remove_shield;
use super::shield_options::{PolicyOptions, resolve_all};
use crate::documents::plan::Plan;
use crate::documents::policy_plans::{self, PolicyPlans};
use crate::failure::Failure;
use crate::plan::{PlannedShield, WantedShield, plan_policy};

/// The shields of a policy, planned together.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedPolicy {
    /// The shields, in the order in which they are applied.
    pub shields: Vec<PlannedShield>,
    /// The active shields that are not in the policy. They are left alone.
    pub others: Vec<Plan>,
}

impl PlannedPolicy {
    /// The plans as a document.
    #[must_use]
    pub fn document(&self) -> PolicyPlans {
        PolicyPlans {
            schema: policy_plans::SCHEMA,
            plans: self.shields.iter().map(|it| it.plan.clone()).collect(),
            others: self.others.iter().map(|plan| plan.shield.clone()).collect(),
        }
    }
}

/// Plans all shields of a policy file, or of the default one, as they are now.
///
/// # Errors
/// The policy is wrong, a shield is impossible on this machine, or shields conflict.
pub fn plan_policy_shields(
    work: &WorkContext<'_>,
    options: &PolicyOptions,
) -> Result<PlannedPolicy, Failure> {
    let WorkContext { host, store, .. } = work;
    let machine = survey_machine(host, store);
    let requests = resolve_all(options, host, &machine)?;
    let (active, others): (Vec<Plan>, Vec<Plan>) = active_shields(work)?
        .into_iter()
        .partition(|plan| requests.iter().any(|request| request.name == plan.shield.name));
    let mut wanted = Vec::new();
    for request in requests {
        let active = active.iter().find(|plan| plan.shield.name == request.name).cloned();
        let mut machine = machine.clone();
        if let Some(active) = &active {
            remove_shield(&mut machine, host, store, active)?;
        }
        wanted.push(WantedShield { request, machine, active });
    }
    let mut shields = plan_policy(wanted, &others)?;
    for shield in &mut shields {
        if let Some(active) = &shield.wanted.active {
            explain_change(&mut shield.plan, active);
        }
    }
    Ok(PlannedPolicy { shields, others })
}
