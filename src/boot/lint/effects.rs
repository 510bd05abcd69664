//! Compares the words of the command line with what the running kernel shows. Pure.

use super::{LintTarget, lists, to_line};
use crate::boot::line::to_word;
use crate::boot::running_kernel::offloaded_cpus;
use crate::documents::boot::{EffectSource, LintFinding};
use crate::documents::machine::Machine;
use crate::survey::{IsolationKind, IsolationSetup, isolation_setup};
use cpushield_linux::CpuSet;
use cpushield_linux::text::cmdline::{self, KernelParam};

pub(super) fn find(machine: &Machine, params: &[KernelParam]) -> Vec<LintFinding> {
    let target = LintTarget::running(machine);
    let setup = isolation_setup(&to_line(params), target.possible, target.list_rules);
    let isolation = &machine.isolation;
    let mut found = Vec::new();
    let tick = (IsolationKind::Tick, EffectSource::NohzFull, isolation.nohz_full.as_ref());
    let domain = (IsolationKind::Domain, EffectSource::Isolated, isolation.isolated.as_ref());
    for (kind, source, shows) in [tick, domain] {
        let Some(shows) = shows else { continue };
        let taken = setup.taken.iter().filter(|it| it.kinds.contains(&kind));
        let words: Vec<String> = taken.map(|it| it.word.clone()).collect();
        let wanted = setup.cpus(kind);
        if !words.is_empty() && !is_in_force(&target, &setup, source, &wanted, shows) {
            found.push(not_in_force(words, wanted, source, shows));
        } else if words.is_empty() && source == EffectSource::NohzFull && !shows.is_empty() {
            found.push(LintFinding::NotRequested { source, shows: shows.clone() });
        }
    }
    found.extend(offloading(machine, params));
    found.extend(default_affinity(machine, params));
    found.extend(other_values(machine, params));
    found
}

/// `clocksource=` and `nosmt` with another value in the kernel's file. The last `clocksource=`
/// counts, and names a source that the kernel need not have (`boot_override_clocksource()`,
/// kernel/time/clocksource.c, 6.12). Where SMT is not supported, there is nothing to switch off.
fn other_values(machine: &Machine, params: &[KernelParam]) -> Vec<LintFinding> {
    let last = |name| cmdline::last(params, name);
    let clock = last("clocksource").zip(machine.kernel.clocksource.as_deref());
    let clock =
        clock.filter(|(param, shows)| param.value.as_deref().is_some_and(|it| it != *shows));
    let smt = last("nosmt").zip(machine.topology.smt_control.as_deref());
    let smt = smt.filter(|(_, shows)| *shows == "on");
    let found = [
        (clock, "/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        (smt, "/sys/devices/system/cpu/smt/control"),
    ];
    let found = found.into_iter().filter_map(|(found, path)| {
        let (param, shows) = found?;
        Some(LintFinding::OtherValue { word: to_word(param), path, shows: shows.to_owned() })
    });
    found.collect()
}

/// Whether a file of the kernel shows what the words request. From 7.0 live partitions can add
/// CPUs to `isolated`, so only missing CPUs count there.
fn is_in_force(
    target: &LintTarget<'_>,
    setup: &IsolationSetup,
    source: EffectSource,
    wanted: &CpuSet,
    shows: &CpuSet,
) -> bool {
    let missing = wanted.difference(shows);
    // The finding about housekeeping CPUs covers the boot CPU, which the kernel leaves out.
    let kept = missing.len() == 1 && lists::without_housekeeping(target, setup).is_some();
    let extra = source == EffectSource::NohzFull && !shows.is_subset(wanted);
    (missing.is_empty() || kept) && !extra
}

/// `rcu_nocbs=` without a thread for each of its online CPUs. Kernels with `nocb_is_setup` start
/// such a thread for every CPU, so only a missing thread says something
/// (`rcu_spawn_cpu_nocb_kthread()`, kernel/rcu/tree_nocb.h, 6.12).
fn offloading(machine: &Machine, params: &[KernelParam]) -> Option<LintFinding> {
    let (word, cpus) = last_list(machine, params, "rcu_nocbs")?;
    let wanted = cpus.intersection(LintTarget::running(machine).online());
    let shows = offloaded_cpus(machine.tasks.iter().map(|placed| &placed.task))?;
    let source = EffectSource::OffloadThreads;
    (!wanted.is_subset(&shows)).then(|| not_in_force(vec![word], wanted, source, &shows))
}

/// `irqaffinity=` with other CPUs in the default affinity. The kernel adds the boot CPU, which is
/// CPU 0 except after kexec (`irq_affinity_setup()`, kernel/irq/irqdesc.c, 04b5989e9209).
fn default_affinity(machine: &Machine, params: &[KernelParam]) -> Option<LintFinding> {
    let (word, wanted) = last_list(machine, params, "irqaffinity")?;
    let shows = machine.irq_default.as_ref()?;
    let expected = wanted.union(&CpuSet::single(0));
    let source = EffectSource::DefaultAffinity;
    (!shows.is_subset(&expected)).then(|| not_in_force(vec![word], wanted, source, shows))
}

/// The last word of a parameter with its CPUs; `None` when its list is invalid or names CPUs that
/// do not exist.
fn last_list(machine: &Machine, params: &[KernelParam], name: &str) -> Option<(String, CpuSet)> {
    let param = cmdline::last(params, name)?;
    let possible = &machine.topology.possible;
    let cpus = CpuSet::parse_list(param.value.as_deref()?, possible.last()).ok()?;
    cpus.is_subset(possible).then(|| (to_word(param), cpus))
}

fn not_in_force(
    words: Vec<String>,
    wanted: CpuSet,
    source: EffectSource,
    shows: &CpuSet,
) -> LintFinding {
    LintFinding::NotInForce { words, wanted, source, shows: shows.clone(), messages: Vec::new() }
}
