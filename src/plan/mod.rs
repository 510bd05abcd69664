//! Plan: `Machine` + `ShieldRequest` → [`Plan`]. Chooses CPUs by topology and collects what
//! tunables want. Pure: it reads no machine and writes nothing.

mod choose;
mod document;
#[cfg(test)]
pub(crate) mod fake;
mod groups;
mod missing;
mod parse;
mod pick;
#[cfg(test)]
mod properties;
mod readiness;
mod refused;
mod sites;

pub use choose::{CpuChoice, check_online, choose};
pub use document::*;
pub use groups::named;
pub use missing::missing;
pub use parse::PlanError;
pub use readiness::Readiness;
pub use refused::PlanRefusal;

use crate::change::Change;
use crate::policy::ShieldRequest;
use crate::survey::Machine;
use crate::tunables::{TUNABLES, Tunable, WantedChange, WantedChanges, leftovers, nearest};
use std::collections::BTreeMap;

/// Plans a shield.
///
/// # Errors
/// The request is unsafe or impossible on this machine.
pub fn plan(machine: &Machine, request: &ShieldRequest) -> Result<Plan, PlanRefusal> {
    check_names(request)?;
    let CpuChoice { shield, why, warnings } = choose(machine, request)?;
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
        boot: Vec::new(),
        warnings,
    };
    for tunable in TUNABLES {
        let name = tunable.name();
        match (request.tunables.get(name), tunable.optional(request.workload)) {
            (Some(false), _) => {
                plan.skip(*tunable, SkipKind::SwitchedOff, "switched off by the request");
            }
            (None, Some(why)) => {
                plan.skip(*tunable, SkipKind::OnlyWhenAsked, &format!("{why} (--on {name})"));
            }
            (Some(true), _) => {
                let wants = tunable.wants_on_request(machine, &plan.shield);
                plan.add(machine, *tunable, wants);
                if let Some(skipped) = plan.skipped.last().filter(|it| it.tunable == name) {
                    let warning =
                        format!("{name} was asked for and does nothing: {}", skipped.reason);
                    plan.warnings.push(warning);
                }
            }
            _ => {
                let wants = tunable.wants(machine, &plan.shield);
                plan.add(machine, *tunable, wants);
            }
        }
    }
    if request.tunables.get("cpuset") == Some(&false) {
        plan.warn_that_it_is_open(machine);
    }
    plan.warn_of_newcomers(machine);
    plan.warn_of_leftovers(machine, request);
    Ok(plan)
}

fn check_names(request: &ShieldRequest) -> Result<(), PlanRefusal> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if request.name.is_empty() || request.name.len() > 64 || !request.name.chars().all(plain) {
        return Err(PlanRefusal::BadName { name: request.name.clone() });
    }
    for name in request.tunables.keys() {
        let known: Vec<&str> = TUNABLES.iter().map(|tunable| tunable.name()).collect();
        if !known.contains(&name.as_str()) {
            return Err(PlanRefusal::NoSuchTunable {
                name: name.clone(),
                near: nearest(name, &known),
            });
        }
    }
    Ok(())
}

/// The step of a change that a tunable wants.
fn step(tunable: &dyn Tunable, wanted: WantedChange) -> Step {
    Step {
        tunable: tunable.name().to_owned(),
        change: wanted.change,
        now: wanted.now,
        reason: wanted.reason,
        risk: tunable.risk(),
        when: tunable.when(),
        removes: tunable.removes().to_vec(),
        required: wanted.required,
    }
}

impl Plan {
    fn skip(&mut self, tunable: &dyn Tunable, kind: SkipKind, reason: &str) {
        let tunable = tunable.name().to_owned();
        self.skipped.push(SkippedTunable { tunable, kind, reason: reason.to_owned() });
    }

    /// Without the tunable no program is moved away, and none is kept out.
    fn warn_that_it_is_open(&mut self, machine: &Machine) {
        let cpus = &self.shield.cpus;
        // Out of load balancing, nobody comes there unasked.
        let who = if cpus.is_subset(&machine.isolation.isolcpus_domain) {
            "any program can move itself"
        } else {
            "the scheduler may put any program"
        };
        self.warnings.push(format!(
            "the shield is open, for cpuset is switched off: {who} onto CPU {cpus}, and those that \
             are there stay"
        ));
    }

    /// A kernel thread that is born later gets all CPUs but those of `nohz_full=`, whatever the
    /// thread that makes it has (kthread() and housekeeping_nohz_full_setup(), 6.12). Where the
    /// scheduler balances over the shield, which a cpuset ends, it runs there too.
    fn warn_of_newcomers(&mut self, machine: &Machine) {
        let prepared = machine.isolation.nohz_full.clone().unwrap_or_default();
        let cpus = self.shield.cpus.minus(&prepared.union(&machine.isolation.isolcpus_domain));
        let confined = |step: &Step| match &step.change {
            Change::Slice { .. } => true,
            Change::Write { path, .. } => path.contains("cpuset"),
            _ => false,
        };
        if !cpus.is_empty() && !self.steps.iter().any(confined) {
            self.warnings.push(format!(
                "kernel threads that are born later may run on CPU {cpus}: without a cpuset only \
                 nohz_full={cpus} at boot keeps them away; `cpushield status` shows them"
            ));
        }
    }

    /// Timers that were armed on the CPUs before stay there, unless the CPUs go offline once.
    fn warn_of_leftovers(&mut self, machine: &Machine, request: &ShieldRequest) {
        let asked = request.tunables.contains_key("cpu-hotplug-cycle");
        let leftovers = leftovers(machine, &self.shield).filter(|_| !asked);
        self.warnings.extend(leftovers.map(|leftovers| leftovers.to_string()));
    }

    /// Adds what one tunable wants and what stays in spite of it.
    fn add(&mut self, machine: &Machine, tunable: &dyn Tunable, wants: WantedChanges) {
        match wants {
            WantedChanges::Nothing(reason) => {
                let asked = tunable.wants_on_request(machine, &self.shield);
                match asked {
                    WantedChanges::Changes(_) => {
                        let reason = format!("{reason} (--on {})", tunable.name());
                        self.skip(tunable, SkipKind::OnlyWhenAsked, &reason);
                    }
                    WantedChanges::Nothing(_) => {
                        self.skip(tunable, SkipKind::NotApplicable, &reason)
                    }
                }
            }
            WantedChanges::Changes(wanted) => {
                let (already, todo): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|w| w.already);
                if !already.is_empty() {
                    self.already.insert(tunable.name().to_owned(), already.len());
                }
                self.steps.extend(todo.into_iter().map(|wanted| step(tunable, wanted)));
            }
        }
        let remains = tunable.remains(machine, &self.shield);
        self.immovable.extend(remains.immovable);
        self.boot.extend(remains.boot);
        self.warnings.extend(remains.warnings);
    }
}

#[cfg(test)]
mod tests {
    use super::fake::{irq, plain, thread};
    use super::*;
    use crate::survey::{CgroupMode, IrqMovability, TunableReading};

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
    fn without_a_cpuset_threads_born_later_are_warned_of_unless_the_boot_keeps_them_away() {
        let warned = |machine: &Machine, on: &[(&str, bool)]| {
            let tunables = on.iter().map(|(name, on)| ((*name).to_owned(), *on)).collect();
            let cpus = Some("3".parse().unwrap());
            let plan = plan(machine, &ShieldRequest { cpus, tunables, ..ShieldRequest::default() })
                .unwrap();
            plan.warnings.iter().any(|text| text.contains("born later may run on CPU 3"))
        };
        assert!(!warned(&four(), &[]));
        assert!(warned(&four(), &[("cpuset", false)]));
        let mut machine = four();
        machine.isolation.nohz_full = Some("2-3".parse().unwrap());
        assert!(!warned(&machine, &[("cpuset", false)]));
    }

    #[test]
    fn a_plan_holds_what_differs_and_says_what_stays() {
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
        // Whether it can stop the tick is not known, so that is advised too.
        let advised: Vec<&str> = plan.boot.iter().map(|it| it.parameter.as_str()).collect();
        assert_eq!(advised[..2], ["nohz_full=3", "rcu_nocbs=3"]);
    }

    #[test]
    fn what_was_armed_on_a_ticking_cpu_is_named_and_the_cpu_cycle_offered() {
        let warned = |machine: &Machine, on: bool| {
            let tunables = on.then(|| ("cpu-hotplug-cycle".to_owned(), true)).into_iter().collect();
            let request = ShieldRequest {
                cpus: Some("3".parse().unwrap()),
                tunables,
                ..ShieldRequest::default()
            };
            let plan = plan(machine, &request).unwrap();
            plan.warnings.into_iter().find(|text| text.starts_with("timers and delayed works"))
        };
        let mut machine = four();
        let online = "/sys/devices/system/cpu/cpu3/online".to_owned();
        machine.settings.insert(online, TunableReading::Value("1".to_owned()));
        let said = warned(&machine, false).unwrap();
        assert!(said.contains("/proc/timer_list was not read"), "{said}");
        let text = "cpu: 1\n #0: <1>, other, S:01\ncpu: 3\n #0: <2>, tick_nohz_handler, S:01\n \
                    #1: <3>, psi_timer, S:01\n #2: <4>, psi_timer, S:01\n #3: <5>, perf, S:01\n";
        machine.timers = Some(cpushield_linux::text::timer_list::parse(text));
        let said = warned(&machine, false).unwrap();
        assert!(said.contains("Seen: perf, psi_timer (2). "), "{said}");
        assert!(said.contains("No kernel file shows"), "{said}");
        assert!(
            said.contains("`--on cpu-hotplug-cycle`") && said.contains("all CPUs stop"),
            "{said}"
        );
        assert_eq!(warned(&machine, true), None);
        // Without a way to do it the reason is said, and on a CPU that does not tick it is done.
        machine.cgroup.mode = CgroupMode::V1;
        let said = warned(&machine, false).unwrap();
        assert!(said.contains("Nothing moves them here: a v1 cpuset"), "{said}");
        machine.isolation.nohz_full = Some("3".parse().unwrap());
        assert_eq!(warned(&machine, false), None);
    }

    #[test]
    fn a_shield_without_cpuset_is_told_to_be_open() {
        let warned = |machine: &Machine, off: bool| {
            let tunables = off.then(|| ("cpuset".to_owned(), false)).into_iter().collect();
            let cpus = Some("3".parse().unwrap());
            let plan = plan(machine, &ShieldRequest { cpus, tunables, ..ShieldRequest::default() })
                .unwrap();
            plan.warnings.into_iter().find(|text| text.starts_with("the shield is open"))
        };
        let mut machine = four();
        assert_eq!(warned(&machine, false), None);
        let said = warned(&machine, true).unwrap();
        assert!(said.contains("the scheduler may put any program onto CPU 3"), "{said}");
        machine.isolation.isolcpus_domain = "3".parse().unwrap();
        let said = warned(&machine, true).unwrap();
        assert!(said.contains("any program can move itself onto CPU 3"), "{said}");
    }

    #[test]
    fn a_tunable_is_switched_off_by_name_and_a_wrong_name_is_told_the_right_one() {
        let mut request = ShieldRequest::default();
        request.tunables.insert("kthreads".to_owned(), false);
        let planned = plan(&four(), &request).unwrap();
        assert!(planned.steps.iter().all(|step| step.tunable != "kthreads"));
        request.tunables.insert("irqbalance".to_owned(), true);
        let planned = plan(&four(), &request).unwrap();
        let told = "irqbalance was asked for and does nothing: irqbalance is not running";
        assert!(planned.warnings.iter().any(|it| it == told), "{:?}", planned.warnings);
        request.tunables.insert("kthread".to_owned(), false);
        let refused = plan(&four(), &request).unwrap_err();
        assert_eq!(refused.hints()[0], "did you mean kthreads?");
    }
}
