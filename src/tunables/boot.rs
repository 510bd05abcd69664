//! `nohz-full`, `rcu-nocbs` and `clocksource-watchdog`: possible with a boot parameter only. Pure.

use super::{Tunable, UnresolvedCause, WantedChanges};
use crate::causes::Cause;
use crate::causes::culprit::{CulpritPattern, TickDependency};
use crate::change::{EffectTime, Risk};
use crate::documents::inapplicable::InapplicableReason;
use crate::documents::machine::Machine;
use crate::documents::plan::{BootAdvice, BootAdviceReason, PlanWarning, Shield};
use cpushield_linux::CpuSet;
use cpushield_linux::text::first_releases;

/// `nohz-full`.
pub const NOHZ_FULL: Tunable = Tunable {
    name: "nohz-full",
    summary: "stop the tick on the shield (boot parameter)",
    page: "\
The tick interrupts every busy CPU 100 to 1000 times a second. On the CPUs in `nohz_full=` the
kernel can stop it. It does so while one ordinary task, one SCHED_RR task or SCHED_FIFO tasks run
there, and nothing else needs it. The parameter must be set at boot (up to Linux 7.2). The kernel
must be built with CONFIG_NO_HZ_FULL. The kernels of Debian and Fedora are, and the generic kernel
of Ubuntu since 24.04.

One prepared boot is enough: list in `nohz_full=` every CPU that may ever be shielded. Those are all
CPUs except the core of the boot CPU and one core of each other memory node; `cpushield boot plan`
lists them. Shields can then be applied and removed at runtime. Do not add `isolcpus=` for the same
CPUs. With it, kernels from 6.7 to 6.17.2 cannot make those CPUs a partition, and any program that
pins itself to them can run there.

Unreleased: a patch series of October 2026 (DHM, version 5) requires that `isolcpus=domain,` also
lists all CPUs of `nohz_full=` and `isolcpus=nohz,`. Otherwise the kernel warns and disables both.
No released kernel (up to 7.2) does that. This information comes from a summary of the mailing-list
thread, not from the patch.

Cost: entering and leaving the kernel takes a little longer on those CPUs, shielded or not, and RCU
callbacks run elsewhere (`rcu_nocbs=` is implied). The lockup detectors do not watch those CPUs
(`watchdog`).

Source: Documentation/timers/no_hz.rst, Documentation/admin-guide/cpu-isolation.rst,
kernel/sched/isolation.c, sched_can_stop_tick() in kernel/sched/core.c, can_stop_full_tick() in
kernel/time/tick-sched.c (6.12); Ubuntu bug 2051342; for the series, a digest of 2026-10-03 of
lore.kernel.org/all/20261002-wujing-dhm-v5-1-78a6996d87ad@gmail.com.",
    removes: &[Cause::Tick, Cause::Softirq, Cause::Kthread],
    risk: Risk::Low,
    when: EffectTime::Boot,
    wants: stop_tick,
    remains: advise_nohz_full,
    ..Tunable::PLAIN
};

/// `rcu-nocbs`.
pub const RCU_NOCBS: Tunable = Tunable {
    name: "rcu-nocbs",
    summary: "run RCU callbacks on other CPUs (boot parameter)",
    page: "\
RCU callbacks run in a softirq (on PREEMPT_RT in the thread rcuc) of the CPU that queued them. On
the CPUs in `rcu_nocbs=` the kernel passes them to threads that may run on other CPUs; `kthreads`
moves these threads off the shield. `nohz_full=` implies it for its CPUs.

Cost: freeing memory takes a little longer for programs on those CPUs.

Source: kernel/rcu/tree_nocb.h (6.12); Documentation/admin-guide/kernel-parameters.txt.",
    removes: &[Cause::Softirq, Cause::Kthread],
    culprits: &[
        CulpritPattern::Softirq("RCU"),
        CulpritPattern::Function("rcu"),
        // The other threads of RCU may run anywhere: `kthreads` moves them.
        CulpritPattern::Kthread("rcuc/"),
        CulpritPattern::TickKeptBy(TickDependency::Rcu),
        CulpritPattern::TickKeptBy(TickDependency::RcuExpedited),
    ],
    risk: Risk::None,
    when: EffectTime::Boot,
    wants: offload_callbacks,
    remains: advise_rcu_nocbs,
    ..Tunable::PLAIN
};

/// `clocksource-watchdog`.
pub const CLOCKSOURCE_WATCHDOG: Tunable = Tunable {
    name: "clocksource-watchdog",
    summary: "stop the timer that checks the time stamp counter on each CPU in turn (boot parameter)",
    page: "\
If the kernel does not trust the time stamp counter (TSC), a timer compares it with another clock
every half second. The timer runs on each CPU in turn, including shielded ones (6.12). With commit
763aacf86f1b (merged after 7.0), the timer stays on the boot CPU. It calls a function on each CPU in
turn with an IPI (`watchdog_check_skew_remote`). `tsc=reliable` stops it.

Add it only if the trace shows `clocksource_watchdog` or `watchdog_check_skew_remote` on the shield.
If the counter really is unreliable, the system time is then wrong and the kernel does not report
it.

Source: clocksource_watchdog() in kernel/time/clocksource.c (6.12);
Documentation/admin-guide/kernel-parameters.txt.",
    removes: &[Cause::Timer, Cause::IpiCall],
    culprits: &[
        CulpritPattern::Function("clocksource_watchdog"),
        CulpritPattern::Function("watchdog_check_skew_remote"),
    ],
    risk: Risk::Medium,
    when: EffectTime::Boot,
    wants: trust_clocksource,
    boot_parameter: Some("tsc=reliable"),
    ..Tunable::PLAIN
};

/// CPUs of a shield that boot parameters can prepare. The tick of the boot CPU keeps the time of
/// all others, so the kernel removes that CPU from `nohz_full=` (tick_nohz_init() in
/// kernel/time/tick-sched.c, 6.12); this tool never prepares it at boot.
pub(super) fn preparable(machine: &Machine, shield: &Shield) -> CpuSet {
    let boot = machine.topology.boot_cpu().map(CpuSet::single).unwrap_or_default();
    shield.cpus.difference(&boot)
}

/// Advises a boot parameter for these CPUs.
fn advise(
    tunable: &Tunable,
    name: &str,
    cpus: &CpuSet,
    reason: BootAdviceReason,
) -> UnresolvedCause {
    let (tunable, removes) = (tunable.name.to_owned(), tunable.removes.to_vec());
    let boot = vec![BootAdvice { tunable, parameter: format!("{name}={cpus}"), removes, reason }];
    UnresolvedCause { boot, ..UnresolvedCause::default() }
}

fn stop_tick(machine: &Machine, shield: &Shield) -> WantedChanges {
    match &machine.isolation.nohz_full {
        None => WantedChanges::Nothing(match machine.can_stop_tick() {
            Some(true) => InapplicableReason::OnlyAtBoot,
            Some(false) => InapplicableReason::TickAlwaysOn,
            None => InapplicableReason::TickStopUnknown,
        }),
        Some(cpus) if shield.cpus.is_subset(cpus) => WantedChanges::Changes(Vec::new()),
        Some(cpus) => WantedChanges::Nothing(match machine.topology.boot_cpu() {
            Some(cpu) if preparable(machine, shield).is_subset(cpus) => {
                InapplicableReason::TickOfCpu { cpu }
            }
            _ => InapplicableReason::OnlyAtBoot,
        }),
    }
}

fn advise_nohz_full(machine: &Machine, shield: &Shield) -> UnresolvedCause {
    let can_stop = machine.can_stop_tick();
    if can_stop == Some(false) {
        return UnresolvedCause::default();
    }
    let nohz_full = &machine.isolation.nohz_full.clone().unwrap_or_default();
    let missing = shield.cpus.difference(nohz_full);
    let mut remains = UnresolvedCause::default();
    let preparable = preparable(machine, shield);
    if missing.intersects(&preparable) {
        let cpus = missing.intersection(&preparable).intersection(&shield.online_cpus());
        let reason = BootAdviceReason::TickStops { known: can_stop.is_some(), cpus };
        remains = advise(&NOHZ_FULL, "nohz_full", &nohz_full.union(&preparable), reason);
    }
    let boot = machine.topology.boot_cpu().filter(|cpu| missing.contains(*cpu));
    remains.warnings.extend(boot.map(|cpu| PlanWarning::TickOfBootCpu { cpu }));
    remains
}

fn offload_callbacks(machine: &Machine, shield: &Shield) -> WantedChanges {
    if lacks_nocbs(machine) {
        return WantedChanges::Nothing(InapplicableReason::NoRcuOffload);
    }
    if shield.cpus.is_subset(&offloaded(machine)) {
        return WantedChanges::Changes(Vec::new());
    }
    WantedChanges::Nothing(InapplicableReason::OnlyAtBoot)
}

fn advise_rcu_nocbs(machine: &Machine, shield: &Shield) -> UnresolvedCause {
    let offloaded = offloaded(machine);
    if lacks_nocbs(machine) || preparable(machine, shield).is_subset(&offloaded) {
        return UnresolvedCause::default();
    }
    let all = offloaded.union(&preparable(machine, shield));
    // NO_HZ_FULL selects the option (kernel/time/Kconfig, 3.10 and 6.12).
    let known = !machine.kernel.config.is_empty() || machine.can_stop_tick() == Some(true);
    advise(&RCU_NOCBS, "rcu_nocbs", &all, BootAdviceReason::CallbacksElsewhere { known })
}

/// Whether the option is off in a configuration that could be read, or the kernel is older than the
/// option.
fn lacks_nocbs(machine: &Machine) -> bool {
    let config = &machine.kernel.config;
    let old = machine.kernel.version.is_some_and(|version| version < first_releases::RCU_NOCBS);
    old || !config.is_empty() && config.get("CONFIG_RCU_NOCB_CPU").is_none_or(|value| value != "y")
}

fn offloaded(machine: &Machine) -> CpuSet {
    let isolation = &machine.isolation;
    isolation.rcu_nocbs.union(isolation.nohz_full.as_ref().unwrap_or(&CpuSet::new()))
}

fn trust_clocksource(machine: &Machine, _shield: &Shield) -> WantedChanges {
    let reliable = machine.kernel.cmdline.as_deref().is_some_and(|line| {
        line.split_whitespace().any(|word| word == "tsc=reliable" || word == "tsc=nowatchdog")
    });
    if reliable || machine.kernel.clocksource.as_deref() != Some("tsc") {
        return WantedChanges::Changes(Vec::new());
    }
    WantedChanges::Nothing(InapplicableReason::OnlyWhereSeen {
        function: "clocksource_watchdog".to_owned(),
        parameter: "tsc=reliable".to_owned(),
    })
}
