//! What a user has put on CPUs that are isolated already, or pinned to CPUs of the shield.

use super::busy_machine::group;
use super::{PlanWarning, busy, shell};
use crate::change::Change;
use crate::documents::machine::{CgroupMode, IrqMovability, Machine};
use crate::plan::fake::{irq, set, thread};
use crate::plan::plan;
use crate::policy::ShieldRequest;
use cpushield_linux::CpuSet;

#[test]
fn a_program_joins_the_shield_only_if_a_user_has_pinned_it() {
    const ROOT: &str = "/sys/fs/cgroup";
    let mut m = busy(CgroupMode::V2);
    for (path, cpus) in [("", "0-3"), ("/robot.slice", "3"), ("/any.slice", "")] {
        group(&mut m, &format!("{ROOT}{path}")).cpus = set(cpus);
    }
    // The number of a thread, its process, its CPUs, and its group.
    for (tid, pid, cpus, group, joins) in [
        (700, 700, "3", "", true),
        (701, 701, "3", "/any.slice/a.service", true),
        // One thread of it is pinned.
        (702, 702, "0-3", "", true),
        (703, 702, "3", "", true),
        (704, 704, "2-3", "", false),
        (705, 705, "3", "/robot.slice/container", false),
        (709, 709, "3", "/cpushield_housekeeping", true),
        // Its other thread may run elsewhere only, so the process cannot join as a whole.
        (710, 710, "3", "", false),
        // The usual mask of a machine with isolcpus=.
        (712, 712, "3", "", true),
        (706, 706, "3", "/cpushield/programs", false),
        (707, 707, "3", "/cpushield.slice", false),
        (1, 1, "3", "", false),
    ] {
        let mut m = m.clone();
        m.tasks.push(thread(1, "init", false, false, if tid == 1 { "3" } else { "0-2" }));
        let mut put = |tid: i32, cpus: &str| {
            let mut placed = thread(tid, "mine", false, false, cpus);
            placed.task.pid = pid;
            placed.group = Some(format!("{ROOT}{group}"));
            m.tasks.push(placed);
        };
        put(tid, cpus);
        if tid == 702 {
            put(703, "3");
        } else if tid == 703 {
            put(702, "0-3");
        } else if tid == 710 {
            put(711, "0-1");
        } else if tid == 712 {
            put(713, "0-2");
        }
        let line = format!("echo {pid} > {ROOT}/cpushield/cgroup.procs  # mine");
        assert_eq!(shell(&m, "cpuset").contains(&line), joins, "{tid}, {group}");
    }
}

#[test]
fn what_the_user_has_put_on_isolated_cpus_stays_and_closed_cpus_get_nothing() {
    let mut m = busy(CgroupMode::V1);
    m.isolation.isolcpus_domain = set("2-3");
    m.tasks.push(thread(40, "kswapd1", true, false, "2-3"));
    m.tasks.push(thread(41, "kauditd", true, false, "0-3"));
    m.tasks.push(thread(42, "kswapd0", true, false, "0-1,3"));
    m.irqs = vec![
        irq(60, "eth0", "3", IrqMovability::Yes),
        irq(61, "eth1", "2-3", IrqMovability::Yes),
        irq(62, "ahci", "0-3", IrqMovability::Yes),
        irq(63, "eth2", "2", IrqMovability::Unknown("a shield is active".to_owned())),
    ];
    m.irqs[1].hint = Some(set("2-3"));
    m.tasks.push(thread(900, "both", false, false, "2-3"));
    m.tasks.push(thread(901, "closed", false, false, "2"));
    let planned = |m: &Machine, evict: bool| {
        plan(m, &ShieldRequest { count: Some(1), evict, ..ShieldRequest::default() }).unwrap()
    };
    let shell = |m: &Machine, evict: bool| -> Vec<String> {
        let steps = planned(m, evict).steps.into_iter();
        let steps = steps.filter(|step| step.tunable != "workqueues");
        steps.map(|step| step.change.shell()).collect()
    };
    let found = shell(&m, false);
    let has = |found: &[String], start: &str| found.iter().any(|line| line.starts_with(start));
    // A driver's wish is not the user's.
    for (start, evict, is_there) in [
        ("echo 0-1 > /proc/irq/62/", false, true),
        ("echo 0-1 > /proc/irq/61/", false, true),
        ("echo 0-1 > /proc/irq/60/", false, false),
        ("echo 0-1 > /proc/irq/60/", true, true),
        ("echo 0-1 > /proc/irq/63/", false, false),
        ("echo 0-1 > /proc/irq/63/", true, true),
        ("taskset -pc 0-1 41 ", false, true),
        ("taskset -pc 0-1 42 ", false, true),
        ("taskset -pc 0-1 40 ", false, false),
        ("taskset -pc 2 900 ", false, true),
        ("taskset -pc 0-1 900 ", true, true),
        ("taskset -pc 0-1 901 ", false, false),
        ("taskset -pc 0-1 901 ", true, true),
    ] {
        assert_eq!(has(&shell(&m, evict), start), is_there, "{start}, {evict}: {found:#?}");
    }
    let stays: Vec<String> = planned(&m, false)
        .immovable
        .iter()
        .map(|it| format!("{}: {}", it.what, it.reason))
        .collect();
    for line in [
        "irq 60 (eth0): stays where it was put, on CPUs of isolcpus=; --evict moves it",
        "kthread kswapd1: keeps CPU 2-3: its node has no other CPU that is not isolated",
    ] {
        assert!(stays.iter().any(|it| it == line), "{stays:#?}");
    }
    for (evict, keep) in [(false, "2-3"), (true, "")] {
        let kept = planned(&m, evict).steps.into_iter().find_map(|step| match step.change {
            Change::MoveTasks { keep, .. } => Some(keep),
            _ => None,
        });
        assert_eq!(kept, Some(set(keep)), "{evict}");
    }
    // CPUs of nohz_full= get work only where nothing else is left.
    m.isolation.isolcpus_domain = CpuSet::new();
    for (tickless, left) in [("1-3", "0"), ("0-3", "0-2"), ("2", "0-1")] {
        m.isolation.nohz_full = Some(set(tickless));
        let request = ShieldRequest { cpus: Some(set("3")), ..ShieldRequest::default() };
        let plan = plan(&m, &request).unwrap();
        let line = format!("taskset -pc {left} 41 > /dev/null  # kauditd");
        assert!(plan.steps.iter().any(|step| step.change.shell() == line), "{tickless}");
        let warned = plan.warnings.contains(&PlanWarning::WorkOnTickless { cpus: set("0-2") });
        assert_eq!(warned, tickless == "0-3");
    }
}
