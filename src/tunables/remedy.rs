//! [`remedy`]: finds what removes an interruption. Pure.

use super::{InForce, RemedyAnswer, TUNABLES, Tunable, WantedChange, WantedChanges, in_force};
use super::{cpuset, irq_affinity};
use crate::causes::{Cause, Culprit};
use crate::change::{Change, EffectTime};
use crate::documents::evidence::InterruptSender;
use crate::documents::machine::Machine;
use crate::documents::plan::Shield;
use crate::documents::remedy::{Remedy, RemedyObstacle};

/// How to remove an interruption of a shield: by a tunable that is not in force, else by a boot
/// parameter, else by moving the interrupting task out. `culprit`, if known, selects the change
/// that affects it. `senders` are those of all interrupts from other CPUs to this one.
#[must_use]
pub fn remedy(
    machine: &Machine,
    shield: &Shield,
    cause: Cause,
    culprit: &Culprit,
    senders: &[InterruptSender],
) -> RemedyAnswer {
    let unbalanced = cpuset::remedy_of_balancing(machine, shield);
    if let Some(remedy) = unbalanced.clone().filter(|_| cpuset::is_balancing(culprit)) {
        return RemedyAnswer::Remedy(remedy);
    }
    // Tunables that name the culprit are more specific than those for all culprits.
    let (named, mut others): (Vec<&Tunable>, Vec<_>) = TUNABLES
        .iter()
        .copied()
        .filter(|tunable| tunable.removes.contains(&cause))
        .filter(|tunable| !(tunable.spares)(machine, shield, cause, culprit, senders))
        .partition(|tunable| tunable.culprits.iter().any(|pattern| pattern.matches(culprit)));
    let mut all = named.iter().chain(&others);
    if let Some(answer) = all.find_map(|tunable| (tunable.remedy_for)(machine, shield, culprit)) {
        return answer;
    }
    others.retain(|tunable| {
        let guess = culprit.is_unknown() && tunable.when == EffectTime::Runtime;
        tunable.culprits.is_empty() || guess
    });
    let found = [&named, &others].into_iter().find_map(|tunables| {
        tunables
            .iter()
            .find_map(|tunable| at_runtime(machine, shield, tunable, culprit))
            .or_else(|| tunables.iter().find_map(|it| on_request(machine, shield, it)))
            .or_else(|| tunables.iter().find_map(|it| at_boot(machine, shield, it, cause)))
    });
    // Another task that may run there also requests a reschedule. So what keeps tasks off comes
    // first.
    let unbalanced = unbalanced.filter(|_| cause == Cause::IpiReschedule);
    if let Some(remedy) =
        found.or_else(|| move_task_out(machine, shield, cause, culprit)).or(unbalanced)
    {
        return RemedyAnswer::Remedy(remedy);
    }
    // A tunable for the boot has a parameter, or a reason why there is none.
    let mut boot = named.iter().chain(&others).filter(|tunable| tunable.when == EffectTime::Boot);
    let obstacle = boot.find_map(|tunable| match in_force(machine, shield, tunable) {
        InForce::NotApplicable(reason) => {
            let tunable = tunable.name.to_owned();
            Some(RemedyObstacle::Inapplicable { tunable, reason })
        }
        _ => None,
    });
    obstacle.map_or(RemedyAnswer::Unknown, RemedyAnswer::Impossible)
}

/// Moves a task out that is still there: on a complete shield, a task must have been added to it.
fn move_task_out(
    machine: &Machine,
    shield: &Shield,
    cause: Cause,
    culprit: &Culprit,
) -> Option<Remedy> {
    let (Cause::UserTask, Culprit::Task { pid, comm }) = (cause, culprit) else { return None };
    let mut tasks = machine.tasks.iter();
    let how = format!("cpushield remove {pid}");
    tasks.find(|placed| {
        let task = &placed.task;
        task.id.tid == *pid && task.comm == *comm && placed.affinity.intersects(&shield.cpus)
    })?;
    Some(Remedy { tunable: "cpuset".to_owned(), when: EffectTime::Runtime, how })
}

fn at_runtime(
    machine: &Machine,
    shield: &Shield,
    tunable: &Tunable,
    culprit: &Culprit,
) -> Option<Remedy> {
    let InForce::NotInForce(missing) = in_force(machine, shield, tunable) else { return None };
    let about = missing.iter().find(|wanted| affects(wanted, culprit));
    let how = match (about, missing.as_slice()) {
        (Some(wanted), _) => wanted.change.shell(),
        (None, [only]) => only.change.shell(),
        (None, many) => {
            let shield = match (tunable.optional)(shield.workload) {
                Some(_) => &shield.with_tunable(tunable.name),
                None => shield,
            };
            format!("{} ({} changes)", shield.request_command("cpushield apply"), many.len())
        }
    };
    Some(Remedy { tunable: tunable.name.to_owned(), when: EffectTime::Runtime, how })
}

/// A change that the tunable makes on this machine only on request.
fn on_request(machine: &Machine, shield: &Shield, tunable: &Tunable) -> Option<Remedy> {
    if !matches!(in_force(machine, shield, tunable), InForce::NotApplicable(_)) {
        return None;
    }
    let wants = tunable.wants_on_request(machine, shield);
    let tunable = tunable.name.to_owned();
    let how = shield.with_tunable(&tunable).request_command("cpushield apply");
    matches!(wants, WantedChanges::Changes(wanted) if !wanted.is_empty()).then_some(Remedy {
        tunable,
        when: EffectTime::Runtime,
        how,
    })
}

fn at_boot(machine: &Machine, shield: &Shield, tunable: &Tunable, cause: Cause) -> Option<Remedy> {
    let how = tunable.at_boot(machine, shield, cause)?;
    Some(Remedy { tunable: tunable.name.to_owned(), when: EffectTime::Boot, how })
}

/// Whether a change affects this culprit: the interrupt of `IRQ 24 nvme0q3`, the thread of
/// `kswapd0 (88)`.
fn affects(wanted: &WantedChange, culprit: &Culprit) -> bool {
    match &wanted.change {
        Change::Write { path, .. } => {
            let Culprit::Irq { irq, .. } = culprit else { return false };
            irq_affinity::is_affinity_file(path, *irq)
        }
        Change::Affinity { task, comm, .. } => match culprit {
            Culprit::Kthread { comm: name } => name == comm,
            Culprit::Task { pid, .. } => *pid == task.tid,
            _ => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{after, busy, shield};
    use super::*;
    use crate::causes::culprit::{RaisedBy, TickDependency};
    use crate::documents::machine::{CgroupMode, PlacedThread, TunableReading};
    use crate::documents::plan::Plan;
    use crate::plan::fake::{plain, set, thread};
    use crate::plan::plan;
    use crate::policy::ShieldRequest;
    use cpushield_linux::CpuSet;

    #[test]
    fn a_task_on_a_complete_shield_is_moved_out_by_its_pid() {
        let m = busy(CgroupMode::V2);
        let plan =
            plan(&m, &ShieldRequest { cpus: Some(set("3")), ..ShieldRequest::default() }).unwrap();
        let mut done = after(m.clone(), &plan);
        let there = [(309, "python3"), (7, "a (b)"), (8, "another")];
        let group = Some("/sys/fs/cgroup/cpushield".to_owned());
        done.tasks.extend(there.map(|(tid, comm)| PlacedThread {
            group: group.clone(),
            ..thread(tid, comm, false, false, "3")
        }));
        done.tasks.push(thread(10, "moved", false, false, "0-2"));
        let how = |culprit: Culprit| {
            let remedy = remedy(&done, &plan.shield, Cause::UserTask, &culprit, &[]).remedy()?;
            Some(format!("{}: {}", remedy.tunable, remedy.how))
        };
        assert_eq!(how(Culprit::task(309, "python3")).unwrap(), "cpuset: cpushield remove 309");
        assert_eq!(how(Culprit::task(7, "a (b)")).unwrap(), "cpuset: cpushield remove 7");
        assert_eq!(how(Culprit::Unknown), None);
        assert_eq!(how(Culprit::task(9, "ended")), None);
        assert_eq!(how(Culprit::task(10, "moved")), None);
        assert_eq!(how(Culprit::task(8, "ended")), None, "its number has another task");
    }

    #[test]
    fn unbound_work_follows_masks_alone() {
        let m = busy(CgroupMode::V2);
        let request = ShieldRequest { cpus: Some(set("3")), ..ShieldRequest::default() };
        let plan = plan(&m, &request).unwrap();
        let done = after(m, &plan);
        for (culprit, is_unbound) in [
            ("wb_workfn (unbound)", true),
            ("flush_to_ldisc (unbound)", true),
            ("kworker/u16:2", true),
            ("vmstat_update", false),
        ] {
            let shown = Culprit::shown(Cause::Workqueue, culprit);
            let answer = remedy(&done, &plan.shield, Cause::Workqueue, &shown, &[]);
            let masked = RemedyAnswer::Impossible(RemedyObstacle::WorkMaskedSince);
            assert_eq!(answer == masked, is_unbound, "{culprit}: {answer:?}");
        }
    }

    /// The remedies for what load balancing causes: its softirq, its thread and its interrupts.
    fn remedies_of_balancing(machine: &Machine, shield: &Shield) -> [Option<String>; 3] {
        let softirq = Culprit::Softirq { name: "SCHED".to_owned(), raised_by: RaisedBy::Unknown };
        let culprits = [
            (Cause::Softirq, softirq),
            (Cause::Kthread, Culprit::kthread("migration/3")),
            (Cause::IpiReschedule, Culprit::Unknown),
        ];
        culprits.map(|(cause, culprit)| {
            let remedy = remedy(machine, shield, cause, &culprit, &[]).remedy()?;
            Some(format!("{}: {}", remedy.tunable, remedy.how))
        })
    }

    #[test]
    fn a_shield_without_balancing_has_no_interruptions_by_balancing() {
        for mode in [CgroupMode::V2, CgroupMode::V1] {
            let m = busy(mode);
            let planned = |cpus, balance| {
                let cpus = Some(set(cpus));
                plan(&m, &ShieldRequest { cpus, balance, ..ShieldRequest::default() }).unwrap()
            };
            let applied = |plan: &Plan| {
                let mut done = after(m.clone(), plan);
                // On v1 the kernel sets the CPUs of programs that move to another cpuset.
                for placed in done.tasks.iter_mut().filter(|placed| !placed.task.kthread) {
                    placed.affinity = placed.affinity.difference(&plan.shield.cpus);
                }
                done
            };
            let balanced = planned("1,3", true);
            let done = applied(&balanced);
            let unbalanced = Some("cpuset: cpushield apply --cpus 1,3".to_owned());
            let remedies = remedies_of_balancing(&done, &balanced.shield);
            assert_eq!(remedies, [(); 3].map(|()| unbalanced.clone()), "{mode:?}");
            // Tasks that are not kept off request reschedules too.
            let [.., early] = remedies_of_balancing(&m, &balanced.shield);
            assert!(early.is_some_and(|how| how.contains("--balance")), "{mode:?}");
            for other in [planned("1,3", false), planned("3", true)] {
                let done = applied(&other);
                let remedies = remedies_of_balancing(&done, &other.shield);
                assert!(remedies.iter().flatten().all(|how| !how.starts_with("cpuset: ")));
                assert_eq!(remedies[2], None, "{mode:?}");
            }
        }
        let m = busy(CgroupMode::None);
        let shield = Shield { balanced: true, cpus: set("1,3"), ..shield(&m) };
        let remedies = remedies_of_balancing(&m, &shield);
        assert!(!remedies.contains(&Some("cpuset: cpushield apply --cpus 1,3".to_owned())));
    }

    #[test]
    fn a_remedy_affects_the_culprit() {
        let mut m = busy(CgroupMode::V2);
        // Its PID equals the number of a CPU.
        m.tasks.push(thread(3, "pool_workqueue_release", true, false, "0-3"));
        let shield = shield(&m);
        let how = |cause, culprit: &str| {
            let remedy =
                remedy(&m, &shield, cause, &Culprit::shown(cause, culprit), &[]).remedy()?;
            Some(format!("{}: {}", remedy.tunable, remedy.how))
        };
        for (cause, culprit, wanted) in [
            (Cause::Irq, "IRQ 24 eth0", "irq-affinity: echo 0-2 > /proc/irq/24/smp_affinity_list"),
            (Cause::Kthread, "kthreadd", "kthreads: taskset -pc 0-2 2 "),
            (Cause::Workqueue, "vmstat_update", "vm-stat-interval: echo 3600 >"),
            (Cause::Workqueue, "wb_workfn (unbound)", "workqueues: "),
            (Cause::Workqueue, "fb_flashcursor", "console-cursor-blink: echo 0 >"),
            (Cause::Hrtimer, "watchdog_timer_fn", "watchdog: echo 0-2 >"),
            (Cause::Hrtimer, "dl_task_timer", "fair-server: echo 0 >"),
            (Cause::Softirq, "NET_RX", "irq-affinity: cpushield apply"),
            (Cause::IpiCall, "rcu_exp_handler", "rcu-normal: echo 1 >"),
            (Cause::UserTask, "stress (812)", "cpuset: cpushield apply"),
            (Cause::Timer, "clocksource_watchdog", "clocksource-watchdog: tsc=reliable"),
            (Cause::IpiCall, "watchdog_check_skew_remote", "clocksource-watchdog: tsc=reliable"),
            (Cause::Frequency, "set from this CPU", "cpu-governor: echo performance >"),
        ] {
            let found = how(cause, culprit).unwrap_or_default();
            assert!(
                found.starts_with(wanted),
                "{cause} {culprit}\n  found {found}\n  not   {wanted}"
            );
        }
        let kept = Culprit::Tick {
            function: "tick_nohz_handler".to_owned(),
            kept_by: vec![TickDependency::Scheduler],
        };
        let found = remedy(&m, &shield, Cause::Tick, &kept, &[]).remedy().unwrap();
        assert_eq!(found.tunable, "fair-server");
        // It is the timer of any delayed work; nothing shows that it is that of writeback.
        let writeback = "/proc/sys/vm/dirty_writeback_centisecs".to_owned();
        let mut delayed = m.clone();
        delayed.settings.insert(writeback, TunableReading::Value("500".to_owned()));
        let culprit = Culprit::function("delayed_work_timer_fn");
        let found = remedy(&delayed, &shield, Cause::Timer, &culprit, &[]).remedy();
        assert_ne!(found.map(|remedy| remedy.tunable).as_deref(), Some("writeback-interval"));
        assert_eq!(how(Cause::Smi, ""), None);
        // It is bound to its CPU: moving other threads does not remove it.
        assert_eq!(how(Cause::Kthread, "ksoftirqd/3"), None);
        // All runtime tunables are in force: only a boot parameter is left.
        let mut plain = plain(4);
        plain.isolation.nohz_full = Some(CpuSet::new());
        let left =
            remedy(&plain, &shield, Cause::Tick, &Culprit::function("tick_nohz_handler"), &[]);
        let left = left.remedy().unwrap();
        assert_eq!((left.when, left.how.as_str()), (EffectTime::Boot, "nohz_full=3"));
    }
}
