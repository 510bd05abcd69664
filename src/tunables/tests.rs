//! What holds for all tunables, and the cases that are easy to get wrong.

mod busy_machine;
mod isolated;

pub(super) use busy_machine::{after, busy};

use super::*;
use crate::causes::purpose::KernelOperation;
use crate::change::{EffectTime, Outcome, RefusalKind};
use crate::documents::inapplicable::InapplicableReason;
use crate::documents::machine::{CgroupMode, IrqMovability, TunableReading};
use crate::documents::plan::{
    BootLine, ChoiceWarning, CpusetWarning, ImmovableReason, RefusedIrq, Step,
};
use crate::documents::remedy::{Remedy, RemedyObstacle};
use crate::plan::fake::{irq, plain, set, thread};
use crate::plan::plan;
use crate::policy::ShieldRequest;
use busy_machine::group;
use cpushield_linux::CpuSet;
use cpushield_linux::text::kernel_version::KernelVersion;
use std::collections::BTreeSet;

/// A request for CPU 3 with every optional tunable on.
fn request() -> ShieldRequest {
    let tunables = TUNABLES.iter().map(|tunable| (tunable.name.to_owned(), true)).collect();
    ShieldRequest { cpus: Some(set("3")), tunables, ..ShieldRequest::default() }
}

#[test]
fn a_tunable_is_in_force_after_its_changes() {
    for (mode, systemd) in [
        (CgroupMode::V2, false),
        (CgroupMode::V2, true),
        (CgroupMode::V1, false),
        (CgroupMode::Hybrid, true),
    ] {
        let mut before = busy(mode);
        before.cgroup.systemd = systemd;
        let plan = plan(&before, &request()).unwrap();
        let done = after(before.clone(), &plan);
        for tunable in TUNABLES.iter().filter(|tunable| tunable.when == EffectTime::Runtime) {
            let name = tunable.name;
            let was = in_force(&before, &plan.shield, tunable);
            let on_v1 = name == "cpu-hotplug-cycle" && mode != CgroupMode::V2;
            let gone = on_v1 || ["rt-throttling", "offline-siblings"].contains(&name);
            assert_eq!(matches!(was, InForce::NotApplicable(_)), gone, "{name}: {was:?}");
            let force = in_force(&done, &plan.shield, tunable);
            let left = matches!(force, InForce::NotInForce(_));
            assert!(!left, "{mode:?} systemd {systemd} {name}: {force:#?}");
        }
        assert!(plan.steps.iter().all(|step| step.change.shell().contains(' ')));
    }
}

#[test]
fn every_tunable_has_a_name_and_a_page_with_its_source() {
    let names: BTreeSet<&str> = TUNABLES.iter().map(|tunable| tunable.name).collect();
    assert_eq!(names.len(), TUNABLES.len());
    for tunable in TUNABLES {
        let (name, page) = (tunable.name, tunable.page);
        assert!(page.contains("Source: "), "the page of {name} names no source");
        assert!(page.len() > 200, "the page of {name} is too short to explain it");
        let summary = tunable.summary;
        assert!(!summary.ends_with('.') && summary.len() < 90, "{name}: the summary {summary:?}");
        assert!(Cause::named(name).is_none(), "{name} is a cause too");
        for path in tunable.reads {
            assert!(path.starts_with("/sys/") || path.starts_with("/proc/"), "{name}: {path}");
        }
    }
    for cause in Cause::ALL {
        assert!(cause.page().len() > 90, "the page of {cause} is too short to explain it");
        assert!(!cause.summary().is_empty(), "{cause} has no summary");
    }
}

pub(super) fn shield(m: &Machine) -> Shield {
    plan(m, &ShieldRequest { cpus: Some(set("3")), ..ShieldRequest::default() }).unwrap().shield
}

pub(super) fn shell(m: &Machine, tunable: &str) -> Vec<String> {
    let mut request = request();
    request.tunables.retain(|name, _| name == tunable);
    let plan = plan(m, &request).unwrap();
    let steps = plan.steps.iter().filter(|step| step.tunable == tunable);
    steps.map(|step| step.change.shell()).collect()
}

#[test]
fn managed_irq_is_reported_not_failed() {
    let mut m = plain(4);
    m.irqs.push(irq(30, "nvme0q4", "3", IrqMovability::No("EPERM: not permitted".to_owned())));
    let alone = plan(&m, &request()).unwrap();
    assert_eq!(alone.immovable[0].what.to_string(), "irq 30 (nvme0q4)");
    assert!(matches!(
        alone.immovable[0].reason,
        ImmovableReason::Refused { arrives: RefusedIrq::OwnRequests, .. }
    ));
    assert!(!alone.boot.iter().any(|advice| advice.parameter.contains("managed_irq")));
    m.irqs[0].affinity = Some(set("2-3"));
    m.irqs[0].effective = Some(set("3"));
    let shared = plan(&m, &request()).unwrap();
    assert!(shared.boot.iter().any(|advice| advice.parameter == "isolcpus=managed_irq,3"));
    m.isolation.managed_irq = set("3");
    let booted = plan(&m, &request()).unwrap();
    assert!(!booted.boot.iter().any(|advice| advice.parameter.contains("managed_irq")));
    assert!(!shell(&m, "irq-affinity").iter().any(|line| line.contains("/irq/30/")));
}

#[test]
fn a_refused_interrupt_that_is_not_message_signalled_is_not_called_managed() {
    let mut m = plain(4);
    let no = || IrqMovability::No("EPERM: not permitted".to_owned());
    m.irqs = vec![irq(9, "acpi", "0-3", no()), irq(30, "hisi_sas", "3", no())];
    m.irqs[0].effective = Some(set("3"));
    for irq in &mut m.irqs {
        irq.chip = "IO-APIC".to_owned();
    }
    let plan = plan(&m, &request()).unwrap();
    for immovable in &plan.immovable {
        assert!(matches!(
            immovable.reason,
            ImmovableReason::Refused { arrives: RefusedIrq::NotKnown, .. }
        ));
    }
    assert_eq!(plan.immovable.len(), 2);
    assert!(!plan.boot.iter().any(|advice| advice.parameter.contains("managed_irq")));
    for culprit in ["IRQ 9 acpi", "IRQ 30 hisi_sas"] {
        let answer = remedy(&m, &shield(&m), Cause::Irq, &Culprit::shown(Cause::Irq, culprit), &[]);
        let answered = "EPERM: not permitted".to_owned();
        let arrives = RefusedIrq::NotKnown;
        let obstacle = RemedyObstacle::IrqRefused { answer: answered, arrives };
        assert_eq!(answer, RemedyAnswer::Impossible(obstacle));
    }
}

#[test]
fn boot_advice_leaves_the_boot_cpu_out() {
    let mut m = plain(4);
    m.isolation.nohz_full = Some(CpuSet::new());
    m.irqs.push(irq(30, "nvme0q4", "2-3", IrqMovability::No("EPERM: not permitted".to_owned())));
    let boot = |m: &Machine| -> (Vec<String>, bool) {
        let plan =
            plan(m, &ShieldRequest { cpus: Some(set("0-2")), ..ShieldRequest::default() }).unwrap();
        let is_warned = plan.warnings.contains(&PlanWarning::TickOfBootCpu { cpu: 0 });
        (plan.boot.into_iter().map(|advice| advice.parameter).collect(), is_warned)
    };
    let words = ["isolcpus=managed_irq,1-2", "nohz_full=1-2", "rcu_nocbs=1-2"];
    assert_eq!(boot(&m), (words.map(str::to_owned).to_vec(), true));
    // After that boot there is nothing more to advise, and the tick of CPU 0 is still there.
    m.isolation.nohz_full = Some(set("1-2"));
    m.isolation.managed_irq = set("1-2");
    assert_eq!(boot(&m), (Vec::new(), true));
    let others =
        plan(&m, &ShieldRequest { cpus: Some(set("2")), ..ShieldRequest::default() }).unwrap();
    let is_boot = |warning: &PlanWarning| {
        let choice = matches!(warning, PlanWarning::Choice(ChoiceWarning::BootCpu { .. }));
        choice || matches!(warning, PlanWarning::TickOfBootCpu { .. })
    };
    assert!(!others.warnings.iter().any(is_boot), "{:?}", others.warnings);
}

#[test]
fn a_plan_of_a_normal_user_warns_about_untried_interrupts() {
    let denied = || IrqMovability::Denied("EACCES: Permission denied".to_owned());
    let mut m = plain(4);
    m.irqs = vec![irq(30, "nvme0q4", "3", denied()), irq(31, "nvme0q3", "2", denied())];
    let warned = |m: &Machine| {
        let warnings = plan(m, &request()).unwrap().warnings;
        warnings.into_iter().find(|it| matches!(it, PlanWarning::IrqsUntried { .. }))
    };
    assert_eq!(warned(&m), Some(PlanWarning::IrqsUntried { count: 1 }));
    m.irqs[0].movable = IrqMovability::Yes;
    assert_eq!(warned(&m), None);
}

#[test]
fn a_v2_partition_takes_its_cpus_from_sibling_groups() {
    let mut m = busy(CgroupMode::V2);
    for (path, cpus) in [
        ("/sys/fs/cgroup/system.slice", "0-3"),
        ("/sys/fs/cgroup/only.slice", "3"),
        ("/sys/fs/cgroup/system.slice/deeper.service", "2-3"),
    ] {
        group(&mut m, path).cpus = set(cpus);
    }
    assert_eq!(
        shell(&m, "cpuset"),
        [
            "echo 0-2 > /sys/fs/cgroup/system.slice/cpuset.cpus",
            "echo '' > /sys/fs/cgroup/only.slice/cpuset.cpus",
            "echo +cpuset > /sys/fs/cgroup/cgroup.subtree_control",
            "mkdir /sys/fs/cgroup/cpushield",
            "echo 3 > /sys/fs/cgroup/cpushield/cpuset.cpus",
            "echo 1 > /sys/fs/cgroup/cpushield/cpuset.mems",
            "echo 3 > /sys/fs/cgroup/cpushield/cpuset.cpus.exclusive",
            "echo isolated > /sys/fs/cgroup/cpushield/cpuset.cpus.partition",
        ]
    );
    m.kernel.version = Some(KernelVersion::new(6, 1));
    assert!(!shell(&m, "cpuset").iter().any(|line| line.contains("exclusive")));
}

#[test]
fn v1_cpusets_shrink_from_the_deepest_up_and_the_root_is_emptied_last() {
    let mut m = busy(CgroupMode::V1);
    group(&mut m, "/sys/fs/cgroup/cpuset/docker").cpus = set("0-3");
    group(&mut m, "/sys/fs/cgroup/cpuset/docker/a").cpus = set("2-3");
    group(&mut m, "/sys/fs/cgroup/cpuset/docker/b").cpus = set("3");
    let lines = shell(&m, "cpuset");
    assert_eq!(lines[0], "echo 2 > /sys/fs/cgroup/cpuset/docker/a/cpuset.cpus");
    assert_eq!(lines[1], "echo 0-2 > /sys/fs/cgroup/cpuset/docker/cpuset.cpus");
    assert_eq!(lines[4], "echo 0-1 > /sys/fs/cgroup/cpuset/cpushield_housekeeping/cpuset.mems");
    assert_eq!(lines[7], "echo 1 > /sys/fs/cgroup/cpuset/cpushield/cpuset.mems");
    assert!(lines.last().unwrap().contains("tasks"), "{lines:#?}");
    let warnings = plan(&m, &request()).unwrap().warnings;
    let path = "/sys/fs/cgroup/cpuset/docker/b".to_owned();
    let stuck = CpusetWarning::CpusetKeepsCpus { path, cpus: set("3") };
    assert!(warnings.contains(&PlanWarning::Cpuset(stuck)), "{warnings:?}");
}

#[test]
fn a_partition_is_requested_with_isolcpus_until_the_kernel_refuses_it() {
    let mut m = busy(CgroupMode::V2);
    m.isolation.isolcpus_domain = set("3");
    let asks = |m: &Machine| shell(m, "cpuset").last().unwrap().contains("echo isolated");
    let warned = |m: &Machine, warning: CpusetWarning| {
        plan(m, &request()).unwrap().warnings.contains(&PlanWarning::Cpuset(warning))
    };
    let boot = BootLine { wants_nohz_full: false, linuxcnc: false };
    let doubtful = CpusetWarning::PartitionDoubtful { cpus: set("3"), boot };
    for (version, is_warned) in [((6, 1), false), ((6, 12), true), ((6, 18), false)] {
        m.kernel.version = Some(KernelVersion::from(version));
        assert!(asks(&m), "{version:?}");
        assert_eq!(warned(&m, doubtful.clone()), is_warned, "{version:?}");
    }
    m.kernel.version = None;
    assert!(asks(&m) && warned(&m, doubtful));
    // The next survey knows from the plan whether the active shield has a partition.
    let with = plan(&m, &request()).unwrap();
    let mut surveyed = m.clone();
    complete_survey(&mut surveyed, &with, &[]);
    assert_eq!(surveyed.cgroup.no_partition, None);
    m.cgroup.no_partition = Some("the kernel says so".to_owned());
    let without = plan(&m, &request()).unwrap();
    let answer = Some("the kernel says so".to_owned());
    assert!(warned(&m, CpusetWarning::PartitionRefused { cpus: set("3"), answer, boot }));
    complete_survey(&mut surveyed, &without, &[]);
    assert!(surveyed.cgroup.no_partition.is_some());
    // Other CPUs of the same machine are not affected.
    m.isolation.isolcpus_domain = set("2");
    assert!(asks(&m));
}

#[test]
fn without_a_partition_a_warning_is_given_and_programs_are_moved_one_by_one() {
    let mut m = busy(CgroupMode::V2);
    m.isolation.isolcpus_domain = set("3");
    m.cgroup.no_partition = Some("the kernel says so".to_owned());
    m.tasks.push(thread(600, "stray", false, false, "0-3"));
    m.tasks.push(thread(601, "mine", false, false, "3"));
    let moved = |m: &Machine| shell(m, "cpuset").concat();
    // The group of the shield takes the program that is there already.
    let group = shell(&m, "cpuset");
    let group: Vec<&str> = group.iter().map(String::as_str).collect();
    let expected = [
        "echo +cpuset > /sys/fs/cgroup/cgroup.subtree_control",
        "mkdir /sys/fs/cgroup/cpushield",
        "echo 3 > /sys/fs/cgroup/cpushield/cpuset.cpus",
        "echo 1 > /sys/fs/cgroup/cpushield/cpuset.mems",
        "echo 601 > /sys/fs/cgroup/cpushield/cgroup.procs  # mine",
        "taskset -pc 0-2 600 > /dev/null  # stray",
    ];
    assert_eq!(group, expected);
    let warnings = |m: &Machine| plan(m, &request()).unwrap().warnings;
    let answer = m.cgroup.no_partition.clone();
    let boot = BootLine { wants_nohz_full: false, linuxcnc: false };
    let refused = CpusetWarning::PartitionRefused { cpus: set("3"), answer, boot };
    assert!(warnings(&m).contains(&refused.into()), "{:?}", warnings(&m));
    m.isolation.isolcpus_domain = CpuSet::new();
    m.cgroup.mode = CgroupMode::None;
    assert!(moved(&m).starts_with("taskset -pc 0-2 600 "), "{}", moved(&m));
    let pinned = CpusetWarning::ThreadsPinned { count: 1, cpus: set("3") };
    assert!(warnings(&m).contains(&pinned.into()), "{:?}", warnings(&m));
}

#[test]
fn the_cpu_cycle_needs_nohz_full_v2_and_a_cpu_that_can_go_offline() {
    let good = busy(CgroupMode::V2);
    assert_eq!(shell(&good, "cpu-hotplug-cycle").len(), 1);
    assert!(shell(&busy(CgroupMode::V1), "cpu-hotplug-cycle").is_empty());
    let mut m = good.clone();
    m.isolation.nohz_full = Some(CpuSet::new());
    let unasked =
        plan(&m, &ShieldRequest { cpus: Some(set("3")), ..ShieldRequest::default() }).unwrap();
    assert!(unasked.steps.iter().all(|step| step.tunable != "cpu-hotplug-cycle"));
    assert_eq!(shell(&m, "cpu-hotplug-cycle").len(), 1, "requested by name");
    let done = after(m.clone(), &unasked);
    let leftover = super::remedy(
        &done,
        &unasked.shield,
        Cause::Workqueue,
        &Culprit::function("neigh_managed_work"),
        &[],
    );
    let leftover = leftover.remedy().unwrap();
    assert_eq!(leftover.how, "cpushield apply --cpus 3 --on cpu-hotplug-cycle");
    let mut m = good;
    let start = Some(KernelOperation::TimerStart);
    let re_arms = cpu_hotplug_cycle::tests::sent("nohz_full_kick_func", "a_timer", start);
    let kicked = |m: &Machine| {
        let kick = Culprit::function("nohz_full_kick_func");
        super::remedy(m, &shield(m), Cause::IpiCall, &kick, std::slice::from_ref(&re_arms))
    };
    let how = "cpushield verify --fix (takes CPU 3 offline and back online)".to_owned();
    let (tunable, when) = ("cpu-hotplug-cycle".to_owned(), EffectTime::Runtime);
    assert_eq!(kicked(&m), RemedyAnswer::Remedy(Remedy { tunable, when, how }));
    m.settings.remove("/sys/devices/system/cpu/cpu3/online");
    assert!(shell(&m, "cpu-hotplug-cycle").is_empty());
    let (tunable, reason) =
        ("cpu-hotplug-cycle".to_owned(), InapplicableReason::CpusStayOnline { cpus: set("3") });
    let obstacle = RemedyObstacle::Inapplicable { tunable, reason };
    assert_eq!(kicked(&m), RemedyAnswer::Impossible(obstacle));
}

#[test]
fn each_deadline_server_whose_file_exists_is_switched_off() {
    let ext = "/sys/kernel/debug/sched/ext_server/cpu3/runtime";
    let mut m = busy(CgroupMode::V2);
    assert_eq!(shell(&m, "fair-server").len(), 1);
    m.settings.insert(ext.to_owned(), TunableReading::Value("50000000".to_owned()));
    assert_eq!(shell(&m, "fair-server")[1], format!("echo 0 > {ext}"));
}

#[test]
fn bandwidths_are_changed_before_the_scheduling_domain() {
    let at = |name: &str| TUNABLES.iter().position(|tunable| tunable.name == name).unwrap();
    assert!(at("cpu-hotplug-cycle") < at("fair-server") && at("fair-server") < at("cpuset"));
    assert!(at("rt-throttling") < at("cpuset") && at("cpuset") < at("kthreads"));
    assert!(at("irqbalance") < at("irq-affinity") && at("keep-affinities") == 0);
}

/// A machine whose survey tried nothing, after `complete_survey`.
fn survey_with(before: &Machine, made: &[(u32, Outcome)]) -> (Machine, Shield) {
    let plan = plan(before, &request()).unwrap();
    let outcome = |step: &Step| {
        let of = |irq: &u32| step.change.shell().contains(&format!("/proc/irq/{irq}/"));
        let (_, outcome) = made.iter().find(|(irq, _)| of(irq))?;
        Some((step.clone(), outcome.clone()))
    };
    let outcomes: Vec<(Step, Outcome)> = plan.steps.iter().filter_map(outcome).collect();
    assert_eq!(outcomes.len(), made.len());
    let mut surveyed = before.clone();
    for irq in &mut surveyed.irqs {
        irq.movable = IrqMovability::Unknown("not tried".to_owned());
        if made.contains(&(irq.irq, Outcome::Changed)) {
            irq.affinity = Some(set("0-2"));
            irq.effective = Some(set("0"));
        }
    }
    complete_survey(&mut surveyed, &plan, &outcomes);
    (surveyed, plan.shield)
}

#[test]
fn the_shields_outcomes_decide_the_remedy_of_an_interrupt() {
    let no = || IrqMovability::No("EPERM: Operation not permitted".to_owned());
    let unknown = || IrqMovability::Denied("EACCES: Permission denied".to_owned());
    let mut m = plain(4);
    m.irqs = vec![
        irq(24, "virtio3-rx", "0-3", IrqMovability::Yes),
        irq(25, "virtio0-stats", "0-3", unknown()),
        irq(36, "virtio1-req.0", "0-3", no()),
        irq(37, "nvme0q4", "3", no()),
        irq(38, "late", "0-3", unknown()),
    ];
    m.irqs[2].effective = Some(set("3"));
    let refused =
        Outcome::Refused { kind: RefusalKind::Other, reason: "EIO: Input/output error".to_owned() };
    let (mut surveyed, shield) = survey_with(&m, &[(24, Outcome::Changed), (25, refused)]);
    let movable: Vec<&IrqMovability> = surveyed.irqs.iter().map(|irq| &irq.movable).collect();
    let eio = IrqMovability::No("EIO: Input/output error".to_owned());
    let untried = IrqMovability::Unknown("not tried".to_owned());
    assert_eq!(movable, [&IrqMovability::Yes, &eio, &no(), &no(), &untried]);
    let answer_text = |m: &Machine, culprit: &str| match remedy(
        m,
        &shield,
        Cause::Irq,
        &Culprit::shown(Cause::Irq, culprit),
        &[],
    ) {
        RemedyAnswer::Remedy(remedy) => remedy.how,
        RemedyAnswer::Impossible(obstacle) => obstacle.to_string(),
        RemedyAnswer::Unknown => panic!("{culprit}"),
    };
    let moved = "its affinity mask is now CPU 0-2; this interrupt came before the mask took effect";
    assert_eq!(answer_text(&surveyed, "IRQ 24 virtio3-rx"), moved);
    assert_eq!(answer_text(&surveyed, "IRQ 25 virtio0-stats"), "isolcpus=managed_irq,3");
    assert_eq!(answer_text(&surveyed, "IRQ 36 virtio1-req.0"), "isolcpus=managed_irq,3");
    let own = "the kernel refuses to move it (EPERM: Operation not permitted); it fires only \
               for I/O issued from the shield";
    assert_eq!(answer_text(&surveyed, "IRQ 37 nvme0q4"), own);
    let late = "echo 0-2 > /proc/irq/38/smp_affinity_list  # the kernel may refuse";
    assert_eq!(answer_text(&surveyed, "IRQ 38 late"), late);
    surveyed.irqs[0].effective = Some(set("3"));
    let moving = "its affinity mask is already CPU 0-2; the interrupt moves when it next fires";
    assert_eq!(answer_text(&surveyed, "IRQ 24 virtio3-rx"), moving);
    surveyed.isolation.managed_irq = set("3");
    assert!(
        answer_text(&surveyed, "IRQ 36 virtio1-req.0").ends_with("already includes the shield")
    );
    // Another device has the IRQ number now.
    let mut reused = m.clone();
    reused.irqs[2] = irq(36, "eth9", "0-3", untried.clone());
    complete_survey(&mut reused, &plan(&m, &request()).unwrap(), &[]);
    assert_eq!(reused.irqs[2].movable, untried);
}
