//! Which other shields the changes of a tunable interrupt. Pure.

use crate::change::Change;
use crate::documents::plan::{ActiveShields, Disturbance, Shield};
use crate::tunables::{Tunable, WantedChange, WantedChanges};

/// What the changes of a tunable cost other active shields; `None` if they cost nothing, for
/// example because they have already been made.
pub(super) fn find_disturbance(
    tunable: &Tunable,
    wants: &WantedChanges,
    live: &ActiveShields,
) -> Option<Disturbance> {
    let effect = tunable.disturbs_others?;
    let WantedChanges::Changes(wanted) = wants else { return None };
    let is_new = |it: &&WantedChange| !it.already && !live.has_made(&it.change);
    let new = wanted.iter().find(is_new)?;
    let shields = find_disturbed(tunable, new.now.as_deref(), &new.change, live);
    (!shields.is_empty()).then(|| Disturbance::new(effect, &shields))
}

/// The active shields that the change of a setting disturbs. `now` is its value before, or the one
/// that is restored.
pub(super) fn find_disturbed(
    tunable: &Tunable,
    now: Option<&str>,
    change: &Change,
    live: &ActiveShields,
) -> Vec<Shield> {
    let Some(cpus) = now.and_then(|now| (tunable.disturbed_cpus)(now)) else {
        return live.shields.clone();
    };
    let has_it = |shield: &Shield| {
        let mut changes = live.changes.iter();
        changes.any(|(name, theirs)| *name == shield.name && theirs.change.is_about_same(change))
    };
    let is_disturbed = |shield: &&Shield| shield.cpus.intersects(&cpus) && !has_it(shield);
    live.shields.iter().filter(is_disturbed).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::super::fake::plain;
    use super::super::{Plan, PlanWarning, plan, plan_with_others};
    use super::*;
    use crate::documents::machine::{Machine, TunableReading};
    use crate::documents::plan::{MachineWideEffect, SkipReason};
    use crate::policy::{DisturbanceConsent, ShieldRequest};

    fn machine(mask: &str) -> Machine {
        let mut machine = plain(6);
        let file = "/proc/sys/kernel/watchdog_cpumask".to_owned();
        machine.settings.insert(file, TunableReading::Value(mask.to_owned()));
        machine
    }

    fn request(name: &str, cpus: &str, on: bool, disturbance: DisturbanceConsent) -> ShieldRequest {
        ShieldRequest {
            name: name.to_owned(),
            cpus: Some(cpus.parse().unwrap()),
            tunables: [("watchdog".to_owned(), on)].into(),
            disturbance,
            ..ShieldRequest::default()
        }
    }

    #[test]
    fn the_lockup_detectors_disturb_only_shields_that_they_watch() {
        let (no, yes) = (DisturbanceConsent::NotGiven, DisturbanceConsent::Given);
        let other = |name, cpus, on| plan(&machine("0-5"), &request(name, cpus, on, no)).unwrap();
        let (watched, off) = (other("a", "5", false), other("b", "4", true));
        let live = ActiveShields::new(&[watched.clone(), off.clone()]);
        let effect = MachineWideEffect::QueuesWorkWhereWatched;
        let disturbance = Disturbance::new(effect, std::slice::from_ref(&watched.shield));
        let planned = |mask, live: &ActiveShields, consent| {
            plan_with_others(&machine(mask), &request("c", "3", true, consent), live).unwrap()
        };
        let has = |plan: &Plan| plan.steps.iter().any(|step| step.tunable == "watchdog");
        let spared = planned("0-3,5", &live, no);
        let skipped = spared.skipped.iter().find(|it| it.tunable == "watchdog").unwrap();
        let expected = SkipReason::SparesShields { disturbance: disturbance.clone() };
        assert_eq!((has(&spared), &skipped.reason), (false, &expected));
        let accepted = planned("0-3,5", &live, yes);
        let tunable = "watchdog".to_owned();
        let warning = PlanWarning::InterruptsShields { tunable, disturbance };
        assert!(has(&accepted) && accepted.warnings.contains(&warning));
        // The other shields have the tunable, or the mask never had their CPUs.
        assert!(has(&planned("0-3,5", &ActiveShields::new(&[off]), no)));
        assert!(has(&planned("0-3", &live, no)));
        // To drop it interrupts the same shields.
        let drop = |live: ActiveShields| {
            let live = live.replacing(Some(&accepted));
            plan_with_others(&machine("0-3,5"), &request("c", "3", false, no), &live)
        };
        drop(live).unwrap_err();
        drop(ActiveShields::new(&[other("b", "4", true)])).unwrap();
    }
}
