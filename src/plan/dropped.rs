//! Which other shields a change of an active shield interrupts, because its new version drops
//! settings. Pure.

use super::disturbed::find_disturbed;
use super::refused::PlanRefusal;
use crate::documents::plan::{ActiveShields, Disturbance, Plan, PlanWarning, Step};
use crate::policy::DisturbanceConsent;
use crate::tunables;
use std::collections::BTreeMap;

/// What it costs other active shields to restore the settings that the new version drops, by
/// tunable. A setting that another active shield needs is not restored.
fn disturbances(plan: &Plan, live: &ActiveShields) -> BTreeMap<String, Disturbance> {
    let is_kept = |step: &Step| plan.steps.iter().any(|new| new.change.is_about_same(&step.change));
    let dropped = live.replaced.iter().filter(|step| !is_kept(step));
    let dropped = dropped.filter_map(|step| {
        let tunable = tunables::named(&step.tunable)?;
        let effect = tunable.disturbs_when_undone?;
        // A mask that another shield needs too is restored in part.
        let has_mask =
            step.now.as_deref().is_some_and(|now| (tunable.disturbed_cpus)(now).is_some());
        if !has_mask && live.find_same(&step.change).is_some() {
            return None;
        }
        let shields = find_disturbed(tunable, step.now.as_deref(), &step.change, live);
        let disturbance = Disturbance::new(effect, &shields);
        (!shields.is_empty()).then(|| (step.tunable.clone(), disturbance))
    });
    dropped.collect()
}

fn warning(tunable: String, disturbance: Disturbance) -> PlanWarning {
    PlanWarning::RestoringInterrupts { tunable, disturbance }
}

/// Checks that the user consented to what a plan that replaces a version of its shield now costs
/// other active shields. A saved plan may be older than these shields.
///
/// # Errors
/// The plan was made without this consent.
pub fn check_dropped(plan: &Plan, live: &ActiveShields) -> Result<(), PlanRefusal> {
    for (tunable, disturbance) in disturbances(plan, live) {
        if !plan.warnings.contains(&warning(tunable.clone(), disturbance.clone())) {
            return Err(PlanRefusal::RestoringInterrupts { tunable, disturbance });
        }
    }
    Ok(())
}

impl Plan {
    /// Warns of what the change costs other active shields.
    ///
    /// # Errors
    /// The user does not consent to it.
    pub(super) fn accept_dropped(
        &mut self,
        live: &ActiveShields,
        consent: DisturbanceConsent,
    ) -> Result<(), PlanRefusal> {
        if consent == DisturbanceConsent::Given {
            let disturbances = disturbances(self, live).into_iter();
            self.warnings.extend(disturbances.map(|(tunable, it)| warning(tunable, it)));
        }
        check_dropped(self, live)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::plain;
    use super::super::{MachineWideEffect, plan, plan_with_others};
    use super::*;
    use crate::documents::machine::{Machine, TunableReading};
    use crate::policy::ShieldRequest;

    const FILE: &str = "/sys/devices/system/machinecheck/machinecheck0/check_interval";
    const NAME: &str = "mce-check-interval";

    fn machine() -> Machine {
        let mut machine = plain(4);
        machine.settings.insert(FILE.to_owned(), TunableReading::Value("300".to_owned()));
        machine
    }

    fn request(name: &str, cpus: &str, on: bool) -> ShieldRequest {
        ShieldRequest {
            name: name.to_owned(),
            cpus: Some(cpus.parse().unwrap()),
            tunables: [(NAME.to_owned(), on)].into(),
            ..ShieldRequest::default()
        }
    }

    #[test]
    fn a_change_that_restores_what_interrupts_other_shields_needs_consent() {
        let old = plan(&machine(), &request("a", "3", true)).unwrap();
        let has = |plan: &Plan| plan.steps.iter().any(|step| step.tunable == NAME);
        assert!(has(&old));
        let other = |on| plan(&machine(), &request("b", "2", on)).unwrap();
        let live = |others: &[Plan]| ActiveShields::new(others).replacing(Some(&old));
        let off = request("a", "3", false);
        let live_b = live(&[other(false)]);
        let disturbance = Disturbance::new(MachineWideEffect::CallsCpus, &live_b.shields);
        let tunable = NAME.to_owned();
        let refused = plan_with_others(&machine(), &off, &live_b).unwrap_err();
        assert!(!refused.is_usage());
        let expected = PlanRefusal::RestoringInterrupts {
            tunable: tunable.clone(),
            disturbance: disturbance.clone(),
        };
        assert_eq!(refused, expected);
        let yes = ShieldRequest { disturbance: DisturbanceConsent::Given, ..off.clone() };
        let changed = plan_with_others(&machine(), &yes, &live_b).unwrap();
        assert!(changed.warnings.contains(&warning(tunable, disturbance)));
        check_dropped(&changed, &live_b).unwrap();
        // A saved plan that was made when nothing was active.
        let saved = plan(&machine(), &off).unwrap();
        assert_eq!(check_dropped(&saved, &live_b), Err(expected));
        // Nothing is restored, or it interrupts no shield.
        plan_with_others(&machine(), &off, &live(&[other(true)])).unwrap();
        plan_with_others(&machine(), &off, &live(&[])).unwrap();
        let kept = plan_with_others(&machine(), &request("a", "3", true), &live_b).unwrap();
        assert!(has(&kept));
    }
}
