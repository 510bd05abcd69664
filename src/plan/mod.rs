//! Plan: `Machine` + `ShieldRequest` → [`Plan`]. Chooses CPUs by topology and collects the changes
//! that tunables want. Pure: it reads no machine and writes nothing.
//!
//! The result is a plan or a `PlanRefusal`. Each rule that decides something adds its reason to the
//! plan, and the same input gives the same plan. `choose.rs` chooses the CPUs, `plan_choice`
//! collects the changes, and `missing.rs` plans what an active shield lacks.

mod alternatives;
mod candidates;
mod choice_notes;
mod choose;
mod comma_list;
mod disturbed;
mod dropped;
mod evidence_limits;
mod free_cpus;
mod groups;
mod isolated;
mod missing;
mod node_refusal;
mod offline;
mod operators;
mod parse;
mod pick;
mod policy_plans;
mod readiness;
mod refused;
mod repeated_cycles;
mod saved;
mod saved_refusal;
mod sibling_refusal;
mod siblings;
mod sites;

pub use crate::documents::plan::*;
pub use alternatives::alternatives;
pub use candidates::list_candidates;
use choose::choose_with_others;
pub use choose::{CpuChoice, check_online, choose};
use disturbed::find_disturbance;
pub use dropped::check_dropped;
use evidence_limits::find_evidence_limits;
pub use free_cpus::find_free_cpus;
pub use missing::{missing, wanted_now};
pub use node_refusal::NodeRefusal;
pub use parse::{PlanError, PlanFault};
pub use policy_plans::{PlannedShield, PolicyRefusal, WantedShield, plan_policy};
pub use readiness::Readiness;
pub use refused::PlanRefusal;
use repeated_cycles::settle_cycles;
pub use saved::check_saved;
pub use saved_refusal::SavedRefusal;
pub use sibling_refusal::{SiblingHolder, SiblingRefusal};

use crate::change::Change;
use crate::documents::inapplicable::InapplicableReason;
use crate::documents::machine::{CgroupMode, Machine};
use crate::policy::{DisturbanceConsent, ShieldRequest, TunableSetting, is_shield_name};
use crate::registry::nearest;
use crate::survey::is_of_cset;
use crate::tunables::{
    TUNABLES, Tunable, WantedChange, WantedChanges, foreign_partition, leftovers,
};
use cpushield_linux::CpuSet;
use cpushield_linux::text::first_releases::KTHREADS_AVOID_NOHZ_FULL_UNTIL;
use std::collections::BTreeMap;

/// Plans a shield on a machine without shields.
///
/// # Errors
/// The request is unsafe or impossible on this machine.
pub fn plan(machine: &Machine, request: &ShieldRequest) -> Result<Plan, PlanRefusal> {
    plan_with_others(machine, request, &ActiveShields::default())
}

/// Plans a shield that joins active ones.
///
/// # Errors
/// The request is unsafe or impossible on this machine, or conflicts with an active shield.
pub fn plan_with_others(
    machine: &Machine,
    request: &ShieldRequest,
    live: &ActiveShields,
) -> Result<Plan, PlanRefusal> {
    check_names(request)?;
    plan_choice(machine, request, choose_one_kind(machine, request, live)?, live)
}

/// Chooses the CPUs of a shield. Those that cpushield chooses can be one partition, or none can.
fn choose_one_kind(
    machine: &Machine,
    request: &ShieldRequest,
    live: &ActiveShields,
) -> Result<CpuChoice, PlanRefusal> {
    let choice = choose_with_others(machine, request, live)?;
    if request.cpus.is_none() {
        isolated::check_one_kind(machine, request, &choice.shield.cpus)?;
    }
    Ok(choice)
}

/// Plans a shield that joins active ones, on CPUs that were chosen before.
///
/// # Errors
/// The request is impossible on this machine, or conflicts with an active shield.
pub fn plan_choice(
    machine: &Machine,
    request: &ShieldRequest,
    choice: CpuChoice,
    live: &ActiveShields,
) -> Result<Plan, PlanRefusal> {
    let CpuChoice { shield, why, warnings } = choice.together_with(machine, live)?;
    offline::check_offline(machine, &shield, request, live)?;
    if request.tunables.choice("cpuset") != Some(false) {
        check_partitions(machine, &shield)?;
    }
    let unproven = find_evidence_limits(machine, &shield);
    let mut plan = Plan {
        schema: SCHEMA,
        boot_id: machine.boot_id.clone(),
        kernel: machine.kernel.release.clone(),
        shield,
        why,
        steps: Vec::new(),
        already: BTreeMap::new(),
        skipped: Vec::new(),
        immovable: Vec::new(),
        unproven,
        boot: Vec::new(),
        warnings: warnings.into_iter().map(PlanWarning::from).collect(),
        operators: request.operators.clone(),
    };
    for tunable in TUNABLES {
        plan.plan_tunable((machine, live), tunable, request);
    }
    if request.tunables.choice("cpuset") == Some(false) {
        plan.warn_of_open_shield(machine);
    }
    operators::add_operators(&mut plan, machine, request.operators.as_ref())?;
    plan.check_conflicts(live)?;
    plan.accept_dropped(live, request.disturbance)?;
    plan.warn_of_moved_memory(machine, live);
    plan.warn_of_work_on_tickless(machine);
    plan.warn_of_new_kthreads(machine);
    plan.warn_of_leftovers((machine, live), request);
    Ok(plan)
}

/// Plans again a version of a shield that an earlier plan described, on the same CPUs and with the
/// same tunables.
///
/// # Errors
/// As [`plan_choice`].
pub fn plan_version(
    machine: &Machine,
    before: &Plan,
    live: &ActiveShields,
) -> Result<Plan, PlanRefusal> {
    let Plan { shield, why, warnings, operators, .. } = before.clone();
    let warnings = warnings.into_iter().filter_map(|warning| match warning {
        PlanWarning::Choice(choice) => Some(choice),
        _ => None,
    });
    let warnings = warnings.collect();
    let made = before.steps.iter().map(|step| &step.tunable).chain(before.already.keys());
    let made = made.map(|tunable| {
        let value = shield.tunables.get(tunable).filter(|it| it.is_on()).cloned();
        (tunable.clone(), value.unwrap_or(TunableSetting::Switch(true)))
    });
    let off = before.skipped.iter().filter(|skipped| skipped.reason == SkipReason::SwitchedOff);
    let off = off.map(|skipped| (skipped.tunable.clone(), false.into()));
    let request = ShieldRequest {
        name: shield.name.clone(),
        cpus: Some(shield.cpus.clone()),
        balance: shield.balanced,
        evict: shield.evict,
        workload: shield.workload,
        max_latency_ns: shield.max_latency_ns,
        tunables: made.chain(off).collect(),
        operators,
        // What was in force before is restored, whatever the cost.
        disturbance: DisturbanceConsent::Given,
        ..ShieldRequest::default()
    };
    plan_choice(machine, &request, CpuChoice { shield, why, warnings }, live)
}

fn check_names(request: &ShieldRequest) -> Result<(), PlanRefusal> {
    if !is_shield_name(&request.name) {
        return Err(PlanRefusal::BadName { name: request.name.clone() });
    }
    for name in request.tunables.keys() {
        let known: Vec<&str> = TUNABLES.iter().map(|tunable| tunable.name).collect();
        if !known.contains(&name.as_str()) {
            return Err(PlanRefusal::NoSuchTunable {
                name: name.clone(),
                near: nearest(name, &known),
            });
        }
    }
    Ok(())
}

/// Checks that no other program has claimed CPUs of the shield in an exclusive cpuset.
fn check_partitions(machine: &Machine, shield: &Shield) -> Result<(), PlanRefusal> {
    match foreign_partition(machine, shield) {
        Some(group) => Err(PlanRefusal::InPartition {
            cpus: group.cpus.intersection(&shield.cpus),
            group: group.path.clone(),
            of_cset: is_of_cset(machine, group),
        }),
        None => Ok(()),
    }
}

/// Makes a step from a change that a tunable wants.
fn step(tunable: &Tunable, wanted: WantedChange) -> Step {
    Step {
        tunable: tunable.name.to_owned(),
        change: wanted.change,
        now: wanted.now,
        reason: wanted.reason,
        risk: tunable.risk,
        when: tunable.when,
        removes: tunable.removes.to_vec(),
        required: wanted.required,
    }
}

impl Plan {
    fn skip(&mut self, tunable: &Tunable, reason: SkipReason) {
        let tunable = tunable.name.to_owned();
        self.skipped.push(SkippedTunable { tunable, reason });
    }

    /// Adds the changes of one tunable, or says why it has none.
    fn plan_tunable(
        &mut self,
        (machine, live): (&Machine, &ActiveShields),
        tunable: &Tunable,
        request: &ShieldRequest,
    ) {
        let name = tunable.name;
        let asked = request.tunables.choice(name);
        let wants = match (asked, (tunable.optional)(request.workload)) {
            (Some(false), _) => {
                return self.skip(tunable, SkipReason::SwitchedOff);
            }
            (None, Some(why)) => {
                let reason = SkipReason::OnRequest { tunable: name.to_owned(), why };
                return self.skip(tunable, reason);
            }
            (Some(true), _) => tunable.wants_on_request(machine, &self.shield),
            (None, None) => (tunable.wants)(machine, &self.shield),
        };
        let wants = self.keep_off_with_others(tunable, wants, live);
        let (wants, kept) = settle_cycles(name, wants, live);
        if !kept.is_empty() {
            let why = InapplicableReason::ShieldedAlready { cpus: kept };
            if asked == Some(true) {
                let (tunable, reason) = (name.to_owned(), why.clone());
                self.warnings.push(PlanWarning::RequestInapplicable { tunable, reason });
            }
            self.skip(tunable, SkipReason::Inapplicable { why });
            if matches!(&wants, WantedChanges::Changes(wanted) if wanted.is_empty()) {
                return;
            }
        }
        if let Some(disturbance) = find_disturbance(tunable, &wants, live) {
            match request.disturbance {
                DisturbanceConsent::Given => {
                    let tunable = name.to_owned();
                    self.warnings.push(PlanWarning::InterruptsShields { tunable, disturbance });
                }
                DisturbanceConsent::NotGiven => {
                    if asked == Some(true) {
                        let (tunable, disturbance) = (name.to_owned(), disturbance.clone());
                        self.warnings.push(PlanWarning::LeftOut { tunable, disturbance });
                    }
                    return self.skip(tunable, SkipReason::SparesShields { disturbance });
                }
            }
        }
        let inapplicable = match &wants {
            WantedChanges::Nothing(reason) if asked == Some(true) => Some(reason.clone()),
            _ => None,
        };
        self.add((machine, live), tunable, wants);
        if let Some(reason) = inapplicable {
            let tunable = name.to_owned();
            self.warnings.push(PlanWarning::RequestInapplicable { tunable, reason });
        }
    }

    /// Adds what another shield has moved off the CPUs of this one too, because it keeps work off
    /// all CPUs of `nohz_full=`: it must stay off when the other shield leaves.
    fn keep_off_with_others(
        &self,
        tunable: &Tunable,
        wants: WantedChanges,
        live: &ActiveShields,
    ) -> WantedChanges {
        let theirs = live.changes.iter().map(|(_, step)| step);
        let moved = theirs.filter(|step| {
            let now = step.now.as_deref().unwrap_or_default();
            let (before, after) = match &step.change {
                Change::Affinity { cpus, .. } => (now.parse().ok(), Some(cpus.clone())),
                Change::Write { compare, value, .. } => {
                    (compare.parse_set(now), compare.parse_set(value))
                }
                _ => (None, None),
            };
            let is_here = |cpus: CpuSet| cpus.intersects(&self.shield.cpus);
            before.is_some_and(is_here)
                && after.is_some_and(|cpus| !is_here(cpus))
                && step.tunable == tunable.name
        });
        let moved: Vec<&Step> = moved.collect();
        if live.shields.iter().all(|shield| shield.tickless.is_empty()) || moved.is_empty() {
            return wants;
        }
        let mut wanted = wants.into_changes();
        for step in moved {
            if !wanted.iter().any(|wanted| wanted.change.is_about_same(&step.change)) {
                let Step { change, reason, .. } = step.clone();
                let now = step.now.clone();
                let (required, already) = (false, true);
                wanted.push(WantedChange { change, now, reason, required, already });
            }
        }
        WantedChanges::Changes(wanted)
    }

    /// Checks that no active shield needs another value of a setting.
    fn check_conflicts(&self, live: &ActiveShields) -> Result<(), PlanRefusal> {
        for step in &self.steps {
            let Some((shield, theirs)) = live.find_same(&step.change) else { continue };
            if step.change.conflicts_with(theirs) {
                return Err(PlanRefusal::OtherValue {
                    subject: step.change.subject(),
                    value: step.change.requested_value(),
                    shield: shield.to_owned(),
                    theirs: theirs.requested_value(),
                });
            }
        }
        Ok(())
    }

    /// Warns that without the tunable `cpuset` no program is moved away or kept out.
    fn warn_of_open_shield(&mut self, machine: &Machine) {
        let cpus = self.shield.cpus.clone();
        let scheduled = !cpus.is_subset(&machine.isolation.isolcpus_domain);
        self.warnings.push(CpusetWarning::ShieldOpen { cpus, scheduled }.into());
    }

    /// Warns that the new version of a shield moves the memory of its programs. On cgroup v1 pages
    /// stay where they are.
    fn warn_of_moved_memory(&mut self, machine: &Machine, live: &ActiveShields) {
        let new = self.steps.iter().find_map(|step| step.change.shield_mems());
        let old = live.replaced.iter().find_map(|step| step.change.shield_mems());
        let (Some(from), Some(to)) = (old, new) else { return };
        if machine.cgroup.mode == CgroupMode::V2 && !from.is_subset(&to) {
            let others = live.shields.iter().map(NamedShield::from).collect();
            self.warnings.push(PlanWarning::MemoryMoves { from, to, others });
        }
    }

    /// Warns where the work of a node, or of the machine, has only CPUs of `nohz_full=` left.
    fn warn_of_work_on_tickless(&mut self, machine: &Machine) {
        let left = &self.shield.housekeeping;
        let nodes =
            machine.topology.nodes.iter().filter(|it| it.cpus.intersects(&self.shield.cpus));
        let near = nodes.map(|node| node.cpus.intersection(left));
        let only_tickless = |cpus: &CpuSet| cpus.is_subset(&self.shield.tickless);
        let cpus: CpuSet = near
            .chain([left.clone()])
            .filter(only_tickless)
            .fold(CpuSet::new(), |all, cpus| all.union(&cpus));
        if !cpus.is_empty() {
            self.warnings.push(PlanWarning::WorkOnTickless { cpus });
        }
    }

    /// Warns of kernel threads that are created later. They may run on all CPUs except those of
    /// `nohz_full=`, whatever the affinity of the thread that creates them (kthread() and
    /// housekeeping_nohz_full_setup(), 6.12). Since 7.0 `nohz_full=` has no such effect, but
    /// `isolcpus=` has (commit 041ee6f3727a). They also run on the shield if the scheduler balances
    /// load over it, which a cpuset prevents.
    fn warn_of_new_kthreads(&mut self, machine: &Machine) {
        let by_nohz_full =
            machine.kernel.version.is_none_or(|version| version < KTHREADS_AVOID_NOHZ_FULL_UNTIL);
        let nohz_full = machine.isolation.nohz_full.clone().filter(|_| by_nohz_full);
        let prepared = nohz_full.unwrap_or_default();
        let cpus = self.shield.cpus.difference(&prepared.union(&machine.isolation.isolcpus_domain));
        if !cpus.is_empty() && !self.has_cpuset() {
            self.warnings.push(PlanWarning::NewKthreads { cpus });
        }
    }

    /// Whether steps make cpusets, or change those of other programs.
    fn has_cpuset(&self) -> bool {
        self.steps.iter().any(|step| match &step.change {
            Change::Slice { .. } => true,
            Change::Write { what, .. } => what.is_of_cpuset(),
            _ => false,
        })
    }

    /// Warns of timers that were armed on the CPUs before. They stay there unless the CPUs go
    /// offline once.
    fn warn_of_leftovers(
        &mut self,
        (machine, live): (&Machine, &ActiveShields),
        request: &ShieldRequest,
    ) {
        if request.tunables.contains_key("cpu-hotplug-cycle") {
            return;
        }
        let Some(mut leftovers) = leftovers(machine, &self.shield) else { return };
        let kept = self.shield.cpus.intersection(&live.replaced_cpus);
        if leftovers.obstacle.is_none() && !kept.is_empty() {
            leftovers.obstacle = Some(InapplicableReason::ShieldedAlready { cpus: kept });
        }
        leftovers.others = live.shields.iter().map(NamedShield::from).collect();
        self.warnings.push(PlanWarning::Leftovers(leftovers));
    }

    /// Adds the changes that one tunable wants, and what remains in spite of it.
    fn add(
        &mut self,
        (machine, live): (&Machine, &ActiveShields),
        tunable: &Tunable,
        wants: WantedChanges,
    ) {
        match wants {
            WantedChanges::Nothing(why) => {
                let reason = match tunable.wants_on_request(machine, &self.shield) {
                    WantedChanges::Changes(_) => {
                        let tunable = tunable.name.to_owned();
                        SkipReason::InapplicableByDefault { tunable, why }
                    }
                    WantedChanges::Nothing(_) => SkipReason::Inapplicable { why },
                };
                self.skip(tunable, reason);
            }
            WantedChanges::Changes(wanted) => {
                // What an active shield has changed must stay as long as this one is active.
                let is_done =
                    |it: &WantedChange| it.already && live.find_same(&it.change).is_none();
                let (already, todo): (Vec<_>, Vec<_>) = wanted.into_iter().partition(is_done);
                if !already.is_empty() {
                    self.already.insert(tunable.name.to_owned(), already.len());
                }
                for mut wanted in todo {
                    if let Change::BanFromIrqbalance { cpus } = &mut wanted.change {
                        *cpus = cpus.union(&live.cpus());
                    }
                    self.steps.push(step(tunable, wanted));
                }
            }
        }
        let remains = (tunable.remains)(machine, &self.shield);
        self.immovable.extend(remains.immovable);
        self.boot.extend(remains.boot);
        self.warnings.extend(remains.warnings);
    }
}

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod properties;

#[cfg(test)]
mod tests {
    use super::fake::{irq, machine, plain, thread};
    use super::*;
    use crate::documents::leftovers::Leftovers;
    use crate::documents::machine::{CgroupMode, CpusetGroup, IrqMovability, TunableReading};
    use crate::policy::{Siblings, Workload};
    use crate::refusal::UserError;

    fn four() -> Machine {
        let mut machine = plain(4);
        machine.cgroup.mode = CgroupMode::V2;
        machine.cgroup.mount = Some("/sys/fs/cgroup".to_owned());
        machine.irq_default = Some("0-3".parse().unwrap());
        machine.irqs.push(irq(24, "virtio0-input", "0-3", IrqMovability::Yes));
        machine.irqs.push(irq(25, "nvme0q4", "3", IrqMovability::No("EPERM".to_owned())));
        machine.tasks.push(thread(2, "kthreadd", true, false, "0-3"));
        machine.tasks.push(thread(30, "ksoftirqd/3", true, true, "3"));
        machine.tasks.push(thread(31, "kswapd0", true, false, "0-2"));
        let mask = "/sys/devices/virtual/workqueue/cpumask".to_owned();
        machine.settings.insert(mask, TunableReading::Value("f".to_owned()));
        machine
    }

    #[test]
    fn cpus_that_another_program_has_made_exclusive_are_refused() {
        let refused = |mode, change: fn(&mut CpusetGroup), on: &[(&str, bool)]| {
            let mut machine = four();
            machine.cgroup.mode = mode;
            let mut group = CpusetGroup {
                path: "/sys/fs/cgroup/robot".to_owned(),
                cpus: "2-3".parse().unwrap(),
                effective: None,
                partition: Some("member".to_owned()),
                exclusive: false,
                balanced: None,
                tasks: None,
            };
            change(&mut group);
            machine.cgroup.groups.push(group);
            let tunables = on.iter().map(|(name, on)| ((*name).to_owned(), *on)).collect();
            let cpus = Some("3".parse().unwrap());
            let request = ShieldRequest { cpus, tunables, ..ShieldRequest::default() };
            plan(&machine, &request).err()
        };
        let expected = Some(PlanRefusal::InPartition {
            cpus: "3".parse().unwrap(),
            group: "/sys/fs/cgroup/robot".to_owned(),
            of_cset: false,
        });
        let isolated: fn(&mut CpusetGroup) = |group| group.partition = Some("isolated".to_owned());
        let exclusive: fn(&mut CpusetGroup) = |group| group.exclusive = true;
        assert_eq!(refused(CgroupMode::V2, isolated, &[]), expected);
        assert_eq!(refused(CgroupMode::V1, exclusive, &[]), expected);
        assert_eq!(refused(CgroupMode::V2, |_| (), &[]), None);
        assert_eq!(refused(CgroupMode::V2, isolated, &[("cpuset", false)]), None);
        // The kernel has not accepted it.
        let invalid = |group: &mut CpusetGroup| {
            group.partition = Some("isolated invalid (Cpu list not exclusive)".to_owned());
        };
        assert_eq!(refused(CgroupMode::V2, invalid, &[]), None);
    }

    #[test]
    fn without_a_cpuset_new_kernel_threads_get_a_warning_unless_the_boot_keeps_them_away() {
        let warned = |machine: &Machine, on: &[(&str, bool)]| {
            let tunables = on.iter().map(|(name, on)| ((*name).to_owned(), *on)).collect();
            let cpus = Some("3".parse().unwrap());
            let plan = plan(machine, &ShieldRequest { cpus, tunables, ..ShieldRequest::default() })
                .unwrap();
            plan.warnings.contains(&PlanWarning::NewKthreads { cpus: fake::set("3") })
        };
        assert!(!warned(&four(), &[]));
        assert!(warned(&four(), &[("cpuset", false)]));
        let mut machine = four();
        machine.isolation.nohz_full = Some("2-3".parse().unwrap());
        assert!(!warned(&machine, &[("cpuset", false)]));
        machine.kernel.version = Some(KTHREADS_AVOID_NOHZ_FULL_UNTIL);
        assert!(warned(&machine, &[("cpuset", false)]));
        assert!(!warned(&machine, &[]));
        machine.isolation.isolcpus_domain = "3".parse().unwrap();
        assert!(!warned(&machine, &[("cpuset", false)]));
    }

    #[test]
    fn what_stops_all_cpus_spares_other_shields_unless_the_user_consents() {
        let mut machine = four();
        machine.isolation.nohz_full = Some("2-3".parse().unwrap());
        for cpu in 2..4 {
            let online = format!("/sys/devices/system/cpu/cpu{cpu}/online");
            machine.settings.insert(online, TunableReading::Value("1".to_owned()));
        }
        let request = |name: &str, cpus: &str, disturbance| ShieldRequest {
            name: name.to_owned(),
            cpus: Some(cpus.parse().unwrap()),
            disturbance,
            ..ShieldRequest::default()
        };
        let (no, yes) = (DisturbanceConsent::NotGiven, DisturbanceConsent::Given);
        let other = plan(&machine, &request("a", "3", no)).unwrap();
        let cycle = Change::CycleCpu { cpu: 2 };
        let cycles = |plan: &Plan| plan.steps.iter().any(|step| step.change == cycle);
        let live = ActiveShields::new(std::slice::from_ref(&other));
        let spared = plan_with_others(&machine, &request("b", "2", no), &live).unwrap();
        let skipped = spared.skipped.iter().find(|it| it.tunable == "cpu-hotplug-cycle").unwrap();
        let disturbance = Disturbance::new(MachineWideEffect::CyclesCpus, &live.shields);
        let expected = SkipReason::SparesShields { disturbance: disturbance.clone() };
        assert_eq!((cycles(&spared), &skipped.reason), (false, &expected));
        let given = plan_with_others(&machine, &request("b", "2", yes), &live).unwrap();
        let tunable = "cpu-hotplug-cycle".to_owned();
        let warned = PlanWarning::InterruptsShields { tunable, disturbance };
        assert!(cycles(&given) && given.warnings.contains(&warned), "{:?}", given.warnings);
        // What the version before has done is not repeated, and counts as made.
        let again = live.clone().replacing(Some(&given));
        let again = plan_with_others(&machine, &request("b", "2", no), &again).unwrap();
        let made = |plan: &Plan| plan.already.get("cpu-hotplug-cycle").copied();
        assert_eq!((cycles(&again), made(&again)), (false, Some(1)), "{:?}", again.skipped);
        let third = live.clone().replacing(Some(&again));
        let third = plan_with_others(&machine, &request("b", "2", yes), &third).unwrap();
        assert_eq!((cycles(&third), made(&third)), (false, Some(1)), "{:?}", third.skipped);
        // Requests that have nothing to do with others stay what they are.
        let mut off = request("b", "2", no);
        off.tunables.set("cpu-hotplug-cycle", false);
        let off = plan_with_others(&machine, &off, &live).unwrap();
        let skipped = off.skipped.iter().find(|it| it.tunable == "cpu-hotplug-cycle").unwrap();
        assert_eq!(skipped.reason, SkipReason::SwitchedOff);
    }

    #[test]
    fn a_cpu_that_is_shielded_already_is_not_taken_offline() {
        let mut machine = four();
        for cpu in 2..4 {
            let online = format!("/sys/devices/system/cpu/cpu{cpu}/online");
            machine.settings.insert(online, TunableReading::Value("1".to_owned()));
        }
        let request = |cpus: &str, on: bool, disturbance| ShieldRequest {
            cpus: Some(cpus.parse().unwrap()),
            tunables: on.then(|| ("cpu-hotplug-cycle".to_owned(), true)).into_iter().collect(),
            disturbance,
            ..ShieldRequest::default()
        };
        let (no, yes) = (DisturbanceConsent::NotGiven, DisturbanceConsent::Given);
        let spared = plan(&machine, &request("3", false, no)).unwrap();
        let live = ActiveShields::default().replacing(Some(&spared));
        for (cpus, cycled) in [("3", vec![]), ("2-3", vec![Change::CycleCpu { cpu: 2 }])] {
            for disturbance in [no, yes] {
                let plan = plan_with_others(&machine, &request(cpus, true, disturbance), &live);
                let plan = plan.unwrap();
                let steps = plan.steps.iter().map(|step| step.change.clone());
                let steps: Vec<Change> =
                    steps.filter(|change| matches!(change, Change::CycleCpu { .. })).collect();
                assert_eq!(steps, cycled);
                assert!(!plan.already.contains_key("cpu-hotplug-cycle"), "{:?}", plan.already);
                let why = InapplicableReason::ShieldedAlready { cpus: fake::set("3") };
                let (tunable, reason) = ("cpu-hotplug-cycle".to_owned(), why.clone());
                let warning = PlanWarning::RequestInapplicable { tunable, reason };
                assert!(plan.warnings.contains(&warning), "{:?}", plan.warnings);
                let skipped = plan.skipped.iter().find(|it| it.tunable == "cpu-hotplug-cycle");
                assert_eq!(skipped.unwrap().reason, SkipReason::Inapplicable { why });
            }
        }
    }

    #[test]
    fn settings_that_interrupt_every_cpu_spare_other_shields() {
        let mut machine = four();
        let tracefs = "/sys/kernel/tracing".to_owned();
        for (path, value) in [
            ("/sys/devices/system/machinecheck/machinecheck0/check_interval", "300"),
            (&format!("{tracefs}/buffer_size_kb"), "7 (expanded: 1408)"),
            (&format!("{tracefs}/events/sched/sched_switch/enable"), "0"),
        ] {
            machine.settings.insert(path.to_owned(), TunableReading::Value(value.to_owned()));
        }
        machine.tracing.tracefs = Some(tracefs);
        for (name, effect) in [
            ("mce-check-interval", MachineWideEffect::CallsCpus),
            ("tracing-buffer", MachineWideEffect::QueuesWork),
        ] {
            let request = |shield: &str, cpus: &str, on: bool| ShieldRequest {
                name: shield.to_owned(),
                cpus: Some(cpus.parse().unwrap()),
                tunables: [(name.to_owned(), on)].into(),
                ..ShieldRequest::default()
            };
            let skipped = |first: bool| {
                let first = plan(&machine, &request("a", "3", first)).unwrap();
                let live = ActiveShields::new(std::slice::from_ref(&first));
                // The machine has what the first shield has set.
                let after = |mut machine: Machine| {
                    for step in first.steps.iter().filter(|step| step.tunable == name) {
                        if let Change::Write { path, value, .. } = &step.change {
                            machine.assume_file(path, value);
                        }
                    }
                    machine
                };
                let other =
                    plan_with_others(&after(machine.clone()), &request("b", "2", true), &live);
                let skipped = other.unwrap().skipped.into_iter().find(|it| it.tunable == name);
                (skipped.map(|skipped| skipped.reason), Disturbance::new(effect, &live.shields))
            };
            let (reason, disturbance) = skipped(false);
            assert_eq!(reason, Some(SkipReason::SparesShields { disturbance }), "{name}");
            if name != "tracing-buffer" {
                assert_eq!(skipped(true).0, None, "{name}");
            }
        }
    }

    #[test]
    fn a_change_of_memory_nodes_says_that_pages_move() {
        let mut machine = fake::machine(&["0", "1", "2", "3"], &[], &["0-1", "2-3"]);
        machine.cgroup.mode = CgroupMode::V2;
        machine.cgroup.mount = Some("/sys/fs/cgroup".to_owned());
        let request =
            |cpus| ShieldRequest { cpus: Some(fake::set(cpus)), ..ShieldRequest::default() };
        let is_move = |warning: &PlanWarning| matches!(warning, PlanWarning::MemoryMoves { .. });
        for (systemd, mode, before, after, is_warned) in [
            (false, CgroupMode::V2, "3", "1", true),
            (true, CgroupMode::V2, "3", "1", true),
            (false, CgroupMode::V2, "1,3", "1", true),
            (false, CgroupMode::V2, "3", "1,3", false),
            (false, CgroupMode::V2, "3", "2", false),
            (false, CgroupMode::V1, "3", "1", false),
        ] {
            (machine.cgroup.mode, machine.cgroup.systemd) = (mode, systemd);
            let old = plan(&machine, &request(before)).unwrap();
            let live = ActiveShields::default().replacing(Some(&old));
            let warnings = plan_with_others(&machine, &request(after), &live).unwrap().warnings;
            assert_eq!(
                warnings.iter().any(is_move),
                is_warned,
                "{before} to {after}: {warnings:?}"
            );
        }
        // Next to another shield.
        (machine.cgroup.mode, machine.cgroup.systemd) = (CgroupMode::V2, false);
        let other = ShieldRequest { name: "other".to_owned(), ..request("2") };
        let others = [plan(&machine, &other).unwrap()];
        let old = plan(&machine, &request("3")).unwrap();
        let live = ActiveShields::new(&others).replacing(Some(&old));
        let warnings = plan_with_others(&machine, &request("1"), &live).unwrap().warnings;
        let warning = warnings.iter().find(|warning| is_move(warning)).unwrap().to_string();
        let end = "may stay behind. This queues kernel work on every CPU and interrupts shield \
                   other (CPU 2)";
        assert!(warning.ends_with(end), "{warning}");
    }

    #[test]
    fn a_plan_lists_what_differs_and_what_cannot_be_moved() {
        let plan = plan(
            &four(),
            &ShieldRequest { cpus: Some("3".parse().unwrap()), ..ShieldRequest::default() },
        );
        let plan = plan.unwrap();
        let shell: Vec<String> = plan.steps.iter().map(|step| step.change.shell()).collect();
        assert!(shell.contains(&"echo 0-2 > /proc/irq/24/smp_affinity_list".to_owned()));
        assert!(shell.contains(&"echo 7 > /sys/devices/virtual/workqueue/cpumask".to_owned()));
        assert!(shell.contains(&"taskset -pc 0-2 2 > /dev/null  # kthreadd".to_owned()));
        let isolated = "echo isolated > /sys/fs/cgroup/cpushield/cpuset.cpus.partition".to_owned();
        assert!(shell.contains(&isolated), "{shell:#?}");
        assert!(!shell.iter().any(|line| line.contains("kswapd0") || line.contains("/25/")));
        let stays: Vec<String> = plan.immovable.iter().map(|i| i.what.to_string()).collect();
        assert_eq!(stays, ["kthread ksoftirqd/3", "irq 25 (nvme0q4)"]);
        // It is unknown whether this kernel can stop the tick, so that is advised too.
        let advised: Vec<&str> = plan.boot.iter().map(|advice| advice.parameter.as_str()).collect();
        assert_eq!(advised[..2], ["nohz_full=3", "rcu_nocbs=3"]);
    }

    #[test]
    fn timers_armed_on_a_ticking_cpu_are_named_and_the_cpu_cycle_is_offered() {
        let warned = |machine: &Machine, on: bool| {
            let tunables = on.then(|| ("cpu-hotplug-cycle".to_owned(), true)).into_iter().collect();
            let request = ShieldRequest {
                cpus: Some("3".parse().unwrap()),
                tunables,
                ..ShieldRequest::default()
            };
            let plan = plan(machine, &request).unwrap();
            plan.warnings.into_iter().find_map(|warning| match warning {
                PlanWarning::Leftovers(leftovers) => Some(leftovers),
                _ => None,
            })
        };
        let mut machine = four();
        let online = "/sys/devices/system/cpu/cpu3/online".to_owned();
        machine.settings.insert(online, TunableReading::Value("1".to_owned()));
        let cpus = fake::set("3");
        let others = Vec::new();
        let unread = Leftovers { cpus: cpus.clone(), seen: None, obstacle: None, others };
        assert_eq!(warned(&machine, false), Some(unread.clone()));
        let text = "cpu: 1\n #0: <1>, other, S:01\ncpu: 3\n #0: <2>, tick_nohz_handler, S:01\n \
                    #1: <3>, psi_timer, S:01\n #2: <4>, psi_timer, S:01\n #3: <5>, perf, S:01\n";
        machine.timers = Some(cpushield_linux::text::timer_list::parse(text));
        let seen = [("perf", 1), ("psi_timer", 2)].map(|(name, count)| (name.to_owned(), count));
        let read = Leftovers { seen: Some(BTreeMap::from(seen)), cpus, ..unread };
        assert_eq!(warned(&machine, false), Some(read.clone()));
        let expected = "timers and delayed work items that were armed on CPU 3 re-arm there. Seen: \
                        perf, psi_timer (2). No kernel file shows delayed work items or timers of \
                        the timer wheel. `--on cpu-hotplug-cycle` moves all of them: it takes the \
                        CPU offline and online. Cost: this stops all CPUs (stop_machine) for an \
                        unknown time";
        assert_eq!(read.to_string(), expected);
        let (name, cpus) = ("a".to_owned(), fake::set("1"));
        let next_to = Leftovers { others: vec![NamedShield { name, cpus }], ..read.clone() };
        let (_, consent) = expected.split_once("`--on cpu-hotplug-cycle`").unwrap();
        let consent =
            format!("`--on cpu-hotplug-cycle --disturb`{consent}, those of shield a (CPU 1) too");
        assert!(next_to.to_string().ends_with(&consent), "{next_to}");
        assert_eq!(warned(&machine, true), None);
        // If the cycle is impossible, the reason is given. A CPU that does not tick needs none.
        machine.cgroup.mode = CgroupMode::V1;
        let obstacle = Some(InapplicableReason::CpusetLosesCpu);
        assert_eq!(warned(&machine, false), Some(Leftovers { obstacle, ..read }));
        machine.isolation.nohz_full = Some("3".parse().unwrap());
        assert_eq!(warned(&machine, false), None);
    }

    #[test]
    fn a_shield_without_cpuset_is_reported_as_open() {
        let warned = |machine: &Machine, off: bool| {
            let tunables = off.then(|| ("cpuset".to_owned(), false)).into_iter().collect();
            let cpus = Some("3".parse().unwrap());
            let plan = plan(machine, &ShieldRequest { cpus, tunables, ..ShieldRequest::default() })
                .unwrap();
            plan.warnings.into_iter().find_map(|warning| match warning {
                PlanWarning::Cpuset(CpusetWarning::ShieldOpen { cpus, scheduled }) => {
                    Some((cpus.to_string(), scheduled))
                }
                _ => None,
            })
        };
        let mut machine = four();
        assert_eq!(warned(&machine, false), None);
        assert_eq!(warned(&machine, true), Some(("3".to_owned(), true)));
        machine.isolation.isolcpus_domain = "3".parse().unwrap();
        assert_eq!(warned(&machine, true), Some(("3".to_owned(), false)));
    }

    #[test]
    fn a_tunable_is_switched_off_by_name_and_a_wrong_name_gets_a_suggestion() {
        let mut request = ShieldRequest::default();
        request.tunables.set("kthreads", false);
        let planned = plan(&four(), &request).unwrap();
        assert!(planned.steps.iter().all(|step| step.tunable != "kthreads"));
        request.tunables.set("irqbalance", true);
        let planned = plan(&four(), &request).unwrap();
        let (tunable, reason) = ("irqbalance".to_owned(), InapplicableReason::NoIrqbalance);
        let expected = PlanWarning::RequestInapplicable { tunable, reason };
        assert!(planned.warnings.contains(&expected), "{:?}", planned.warnings);
        request.tunables.set("kthread", false);
        let refused = plan(&four(), &request).unwrap_err();
        assert_eq!(refused.hints()[0], "did you mean kthreads?");
    }

    #[test]
    fn the_options_of_a_shield_request_it_again() {
        let switched = |tunables: &[(&str, bool)]| {
            tunables.iter().map(|(name, enabled)| ((*name).to_owned(), *enabled)).collect()
        };
        let smt = machine(&["0,4", "1,5", "2,6", "3,7"], &[], &["0-7"]);
        let nodes = machine(&["0", "1", "2", "3"], &[], &["0-1", "2-3"]);
        let count = |n| ShieldRequest { count: Some(n), ..ShieldRequest::default() };
        let listed = |cpus: &str, siblings| ShieldRequest {
            cpus: Some(cpus.parse().unwrap()),
            siblings,
            ..ShieldRequest::default()
        };
        for (machine, request, options) in [
            (&plain(4), count(1), "--cpus 3"),
            (&smt, count(1), "--cpus 3"),
            (&smt, listed("3,7", None), "--cpus 3,7"),
            (&smt, listed("3", Some(Siblings::Share)), "--cpus 3 --siblings share"),
            (
                &nodes,
                ShieldRequest { whole_node: true, ..ShieldRequest::default() },
                "--cpus 2-3 --whole-node",
            ),
            (
                &plain(4),
                ShieldRequest {
                    name: "rt".to_owned(),
                    workload: Workload::Cyclic,
                    balance: true,
                    ..count(2)
                },
                "--shield rt --cpus 2-3 --balance --workload cyclic",
            ),
            (
                &plain(4),
                ShieldRequest {
                    tunables: switched(&[("thp", false), ("rt-throttling", true)]),
                    ..count(1)
                },
                "--cpus 3 --on rt-throttling --off thp",
            ),
        ] {
            let shield = plan(machine, &request).unwrap().shield;
            assert_eq!(shield.request_command("apply"), format!("apply {options}"));
            let again = ShieldRequest {
                cpus: Some(shield.cpus.difference(&shield.idle_siblings)),
                count: None,
                ..request
            };
            assert_eq!(plan(machine, &again).unwrap().shield, shield, "{options}");
        }
        let mut offline = plan(&smt, &listed("3", None)).unwrap().shield;
        offline.offline_siblings = offline.idle_siblings.clone();
        assert_eq!(offline.request_command("try"), "try --cpus 3 --siblings offline");
    }

    #[test]
    fn a_tunable_that_is_added_later_is_requested_again() {
        let mut plan = plan(&four(), &ShieldRequest::default()).unwrap();
        let off = |plan: &Plan| plan.skipped.iter().any(|skipped| skipped.tunable == "ksm");
        assert!(off(&plan));
        plan.request_tunable("ksm");
        plan.request_tunable("irq-affinity");
        assert!(!off(&plan));
        assert_eq!(plan.shield.request_command("apply"), "apply --cpus 2 --on ksm");
    }
}
