//! Plans the shields of a policy together: [`WantedShield`]s and the active shields →
//! [`PlannedShield`]s, in the order in which they are applied. Pure.
//!
//! Shields with a CPU list come first, then those whose CPUs are chosen; of these, first the ones
//! that are active, so that they keep their CPUs. A shield that gives CPUs to another one is
//! changed before that one gets them.

use super::comma_list::comma_list;
use super::refused::PlanRefusal;
use super::{CpuChoice, check_names, choose_one_kind, plan_choice};
use crate::change::{Change, ValueComparison};
use crate::documents::machine::Machine;
use crate::documents::plan::{ActiveShields, Plan, Shield};
use crate::policy::ShieldRequest;
use crate::refusal::{FailureKind, UserError};
use cpushield_linux::CpuSet;
use cpushield_sentence::Sentence;
use serde::Serialize;
use serde_json::Value;

/// A shield that a policy wants.
#[derive(Debug, Clone, PartialEq)]
pub struct WantedShield {
    /// The request of the policy.
    pub request: ShieldRequest,
    /// The machine without the version of this shield that is in force.
    pub machine: Machine,
    /// The version that is in force; `None` if the shield is not active.
    pub active: Option<Plan>,
}

/// A shield of a policy with its plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedShield {
    /// What was requested.
    pub wanted: WantedShield,
    /// Its CPUs. They stay the same when the plan is made again before it is applied.
    pub choice: CpuChoice,
    /// The plan, made as if the shields before it were in force.
    pub plan: Plan,
}

/// Plans the shields of a policy. `others` are the active shields that are not in it. Returns them
/// in the order in which they can be applied.
///
/// # Errors
/// A request is impossible on this machine, or two shields conflict.
pub fn plan_policy(
    wanted: Vec<WantedShield>,
    others: &[Plan],
) -> Result<Vec<PlannedShield>, PolicyRefusal> {
    check_lists(&wanted)?;
    let chosen = choose_all(wanted, others)?;
    plan_all(order_by_handover(chosen)?, others)
}

/// A shield with its CPUs.
struct ChosenShield {
    wanted: WantedShield,
    choice: CpuChoice,
}

impl ChosenShield {
    fn name(&self) -> &str {
        &self.wanted.request.name
    }
}

/// Checks that no two lists of CPUs overlap.
fn check_lists(wanted: &[WantedShield]) -> Result<(), PolicyRefusal> {
    for (n, a) in wanted.iter().enumerate() {
        for b in wanted.iter().skip(n + 1) {
            let (Some(of_a), Some(of_b)) = (&a.request.cpus, &b.request.cpus) else { continue };
            if of_a.intersects(of_b) {
                let shields = [&a.request.name, &b.request.name].map(String::clone);
                return Err(PolicyRefusal::SameCpus { cpus: of_a.intersection(of_b), shields });
            }
        }
    }
    Ok(())
}

/// The turn of a shield when CPUs are chosen.
fn turn(wanted: &WantedShield) -> u8 {
    match (&wanted.request.cpus, &wanted.active) {
        (Some(_), _) => 0,
        (None, Some(_)) => 1,
        (None, None) => 2,
    }
}

/// Chooses the CPUs of each shield.
fn choose_all(
    mut wanted: Vec<WantedShield>,
    others: &[Plan],
) -> Result<Vec<ChosenShield>, PolicyRefusal> {
    wanted.sort_by_key(turn);
    let mut chosen: Vec<ChosenShield> = Vec::new();
    let mut left = wanted.into_iter();
    while let Some(wanted) = left.next() {
        let mut shields: Vec<Shield> = others.iter().map(|plan| plan.shield.clone()).collect();
        shields.extend(chosen.iter().map(|it| it.choice.shield.clone()));
        if wanted.request.cpus.is_none() {
            // A shield whose turn comes later keeps its CPUs if possible.
            let later = left.as_slice().iter().filter_map(|it| it.active.as_ref());
            shields.extend(later.map(|plan| plan.shield.clone()));
        }
        let live = ActiveShields { shields, ..ActiveShields::default() };
        let live = live.replacing(wanted.active.as_ref());
        let choice = check_names(&wanted.request)
            .and_then(|()| choose_one_kind(&wanted.machine, &wanted.request, &live));
        let choice = choice.map_err(|refusal| {
            PolicyRefusal::new(&wanted.request.name, refusal, &chosen_names(&chosen), &live)
        })?;
        chosen.push(ChosenShield { wanted, choice });
    }
    Ok(chosen)
}

fn chosen_names(chosen: &[ChosenShield]) -> Vec<String> {
    chosen.iter().map(|it| it.name().to_owned()).collect()
}

/// Puts a shield that gives CPUs to another one before that one.
fn order_by_handover(mut left: Vec<ChosenShield>) -> Result<Vec<ChosenShield>, PolicyRefusal> {
    let mut ordered = Vec::new();
    while !left.is_empty() {
        let next = left.iter().position(|it| {
            let mut held = left.iter().filter(|other| other.name() != it.name());
            !held.any(|other| held_cpus(other).intersects(&it.choice.shield.cpus))
        });
        let Some(next) = next else {
            return Err(PolicyRefusal::Exchange { shields: chosen_names(&left) });
        };
        ordered.push(left.remove(next));
    }
    Ok(ordered)
}

/// The CPUs that a shield has until it is changed.
fn held_cpus(chosen: &ChosenShield) -> CpuSet {
    chosen.wanted.active.as_ref().map(|plan| plan.shield.cpus.clone()).unwrap_or_default()
}

/// Plans each shield as if those before it were in force, and those after it were as they are.
fn plan_all(
    chosen: Vec<ChosenShield>,
    others: &[Plan],
) -> Result<Vec<PlannedShield>, PolicyRefusal> {
    let mut planned: Vec<PlannedShield> = Vec::new();
    let mut left = chosen.into_iter();
    while let Some(ChosenShield { wanted, choice }) = left.next() {
        let mut live = others.to_vec();
        live.extend(planned.iter().map(|it| it.plan.clone()));
        live.extend(left.as_slice().iter().filter_map(|it| it.wanted.active.clone()));
        let live = ActiveShields::new(&live).replacing(wanted.active.as_ref());
        let mut machine = wanted.machine.clone();
        planned.iter().for_each(|it| assume_applied(&mut machine, &it.plan));
        let plan = plan_choice(&machine, &wanted.request, choice.clone(), &live);
        let plan = plan.map_err(|refusal| {
            let names: Vec<String> = planned.iter().map(|it| it.plan.shield.name.clone()).collect();
            PolicyRefusal::new(&wanted.request.name, refusal, &names, &live)
        })?;
        planned.push(PlannedShield { wanted, choice, plan });
    }
    Ok(planned)
}

/// Changes a surveyed machine as a plan would.
fn assume_applied(machine: &mut Machine, plan: &Plan) {
    for step in plan.steps.iter().filter(|step| step.is_runtime()) {
        match &step.change {
            Change::Write { path, value, compare, .. }
                if compare.is_set() || *compare == ValueComparison::Text =>
            {
                machine.assume_file(path, value);
            }
            Change::Affinity { task, cpus, .. } => machine.assume_affinity(*task, cpus),
            Change::Slice { unit, cpus, .. } => machine.assume_slice(unit, cpus),
            Change::OfflineSibling { cpu, .. } => machine.assume_offline(*cpu),
            _ => {}
        }
    }
}

/// Why the shields of a policy cannot be planned together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Sentence)]
#[serde(tag = "tag", rename_all = "kebab-case")]
pub enum PolicyRefusal {
    /// shields {a} and {b} of the policy both request CPU {cpus}.
    #[with(a = &shields[0], b = &shields[1])]
    SameCpus {
        /// The CPUs.
        cpus: CpuSet,
        /// The shields.
        shields: [String; 2],
    },
    /// shields {a} and {b} of the policy need different values for {subject}: {of_a:?} and
    /// {of_b:?}.
    #[with(a = &values[0].0, of_a = &values[0].1, b = &values[1].0, of_b = &values[1].1)]
    SameSetting {
        /// What can have only one value.
        subject: String,
        /// Each shield with its value.
        values: [(String, String); 2],
    },
    /// active shields would exchange CPUs, so none can be changed first: {shields}.
    #[with(shields = comma_list(shields))]
    Exchange {
        /// The shields.
        shields: Vec<String>,
    },
    /// together these shields leave no CPU for interrupts and other programs: {shields}.
    #[with(shields = comma_list(shields))]
    NoHousekeeping {
        /// All shields up to the one for which no CPU is left.
        shields: Vec<String>,
    },
    /// shield {name}: {refusal}.
    Shield {
        /// The shield.
        name: String,
        /// Why.
        refusal: PlanRefusal,
    },
}

impl PolicyRefusal {
    /// The refusal of one shield. `before` are the shields of the policy that were planned before
    /// it, and `live` are all that were taken to be active.
    fn new(
        name: &str,
        refusal: PlanRefusal,
        before: &[String],
        live: &ActiveShields,
    ) -> PolicyRefusal {
        let name = name.to_owned();
        match refusal {
            PlanRefusal::OtherValue { subject, value, shield, theirs }
                if before.contains(&shield) =>
            {
                PolicyRefusal::SameSetting { subject, values: [(shield, theirs), (name, value)] }
            }
            PlanRefusal::NoHousekeeping { .. } => {
                let live = live.shields.iter().map(|shield| shield.name.clone());
                PolicyRefusal::NoHousekeeping { shields: live.chain([name]).collect() }
            }
            refusal => PolicyRefusal::Shield { name, refusal },
        }
    }

    /// Whether the policy is wrong. Otherwise the machine lacks something.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        match self {
            PolicyRefusal::SameCpus { .. } | PolicyRefusal::SameSetting { .. } => true,
            PolicyRefusal::Exchange { .. } | PolicyRefusal::NoHousekeeping { .. } => false,
            PolicyRefusal::Shield { refusal, .. } => refusal.is_usage(),
        }
    }
}

impl UserError for PolicyRefusal {
    fn kind(&self) -> FailureKind {
        if self.is_usage() { FailureKind::Usage } else { FailureKind::Machine }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            PolicyRefusal::SameCpus { shields, .. } => {
                vec![format!("change the cpus of {} in the policy", shields.join(" or "))]
            }
            PolicyRefusal::SameSetting { values, .. } => {
                let [(a, _), (b, _)] = values;
                vec![format!("change {a} or {b} in the policy")]
            }
            PolicyRefusal::Exchange { shields } => {
                let first = shields.first().map_or("NAME", String::as_str);
                vec![format!("take one of them down first: cpushield undo --shield {first}")]
            }
            PolicyRefusal::NoHousekeeping { .. } => vec![
                "give the shields fewer CPUs in the policy".to_owned(),
                "or take another shield down: cpushield undo --shield NAME (cpushield status lists \
                 the shields)"
                    .to_owned(),
            ],
            PolicyRefusal::Shield { refusal, .. } => refusal.hints(),
        }
    }

    fn reason(&self) -> Option<Value> {
        serde_json::to_value(self).ok()
    }
}

impl std::error::Error for PolicyRefusal {}

#[cfg(test)]
mod tests {
    use super::super::fake::{plain, set};
    use super::super::plan;
    use super::*;

    fn request(name: &str, cpus: Option<&str>, count: Option<usize>) -> ShieldRequest {
        let cpus = cpus.map(set);
        ShieldRequest { name: name.to_owned(), cpus, count, ..ShieldRequest::default() }
    }

    /// A shield with a list.
    fn listed(name: &str, cpus: &str) -> ShieldRequest {
        request(name, Some(cpus), None)
    }

    /// A shield whose CPUs are chosen.
    fn counted(name: &str, count: usize) -> ShieldRequest {
        request(name, None, Some(count))
    }

    /// A plan of a shield that is active already.
    fn active(cpus: usize, name: &str, list: &str) -> Plan {
        plan(&plain(cpus), &listed(name, list)).unwrap()
    }

    /// Plans a policy on a machine with 6 CPUs: `b=5 a=4`, or why not.
    fn planned(requests: Vec<ShieldRequest>, active: &[Plan]) -> String {
        let named = |name: &str| active.iter().find(|plan| plan.shield.name == name).cloned();
        let others = active
            .iter()
            .filter(|plan| !requests.iter().any(|request| request.name == plan.shield.name));
        let others: Vec<Plan> = others.cloned().collect();
        let wanted = requests.into_iter().map(|request| WantedShield {
            machine: plain(6),
            active: named(&request.name),
            request,
        });
        match plan_policy(wanted.collect(), &others) {
            Ok(planned) => {
                let shields = planned.iter().map(|it| &it.plan.shield);
                let shields: Vec<String> =
                    shields.map(|it| format!("{}={}", it.name, it.cpus)).collect();
                shields.join(" ")
            }
            Err(refusal) => refusal.to_string(),
        }
    }

    #[test]
    fn lists_come_first_and_choices_avoid_all_lists() {
        assert_eq!(planned(vec![counted("a", 1), listed("b", "5")], &[]), "b=5 a=4");
        assert_eq!(planned(vec![counted("a", 1), counted("b", 2)], &[]), "a=5 b=3-4");
        let other = active(6, "x", "5");
        assert_eq!(planned(vec![counted("a", 1), listed("b", "4")], &[other]), "b=4 a=3");
    }

    #[test]
    fn an_active_shield_keeps_its_cpus_when_another_one_is_added() {
        let live = [active(6, "b", "5")];
        assert_eq!(planned(vec![counted("a", 1), counted("b", 1)], &live), "b=5 a=4");
        let live = [active(6, "a", "4"), active(6, "b", "5")];
        assert_eq!(planned(vec![counted("a", 1), counted("b", 1)], &live), "a=4 b=5");
        // Unless a list needs them.
        let live = [active(6, "b", "5")];
        assert_eq!(planned(vec![listed("a", "5"), counted("b", 1)], &live), "b=4 a=5");
    }

    #[test]
    fn a_shield_that_gives_cpus_away_is_changed_first() {
        let live = [active(6, "a", "3"), active(6, "b", "4-5")];
        assert_eq!(planned(vec![listed("a", "3-4"), listed("b", "5")], &live), "b=5 a=3-4");
        let live = [active(6, "a", "4"), active(6, "b", "5")];
        assert_eq!(
            planned(vec![listed("a", "5"), listed("b", "4")], &live),
            "active shields would exchange CPUs, so none can be changed first: a, b"
        );
    }

    #[test]
    fn conflicts_name_the_shields() {
        assert_eq!(
            planned(vec![listed("a", "4-5"), listed("b", "3-4")], &[]),
            "shields a and b of the policy both request CPU 4"
        );
        assert_eq!(
            planned(vec![listed("a", "4-5"), listed("b", "0-3")], &[]),
            "together these shields leave no CPU for interrupts and other programs: a, b"
        );
        assert_eq!(
            planned(vec![listed("a", "5")], &[active(6, "x", "4-5")]),
            "shield a: CPU 5 is already in shield x"
        );
        assert_eq!(
            planned(vec![listed("a", "5"), listed("b", "9")], &[]),
            "shield b: this machine has no CPU 9; it has CPU 0-5"
        );
    }

    #[test]
    fn each_plan_keeps_off_the_shields_before_it() {
        let wanted = [listed("a", "5"), listed("b", "4")].map(|request| WantedShield {
            request,
            machine: plain(6),
            active: None,
        });
        let planned = plan_policy(wanted.into(), &[]).unwrap();
        let housekeeping = planned.iter().map(|it| it.plan.shield.housekeeping.to_string());
        assert_eq!(housekeeping.collect::<Vec<_>>(), ["0-4", "0-3"]);
    }
}
