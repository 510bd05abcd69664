//! Findings about CPU lists: invalid lists, CPUs that do not exist, interrupts on isolated CPUs,
//! lists without a housekeeping CPU, and a tick that cannot stop. Pure.

use super::{LintTarget, to_line};
use crate::boot::line::to_word;
use crate::documents::boot::{BadListEffect, LintFinding};
use crate::registry::nearest;
use crate::survey::{IsolationKind, IsolationSetup, isolation_setup};
use cpushield_linux::CpuSet;
use cpushield_linux::text::cmdline::{self, ISOLCPUS_FLAGS, KernelParam};
use cpushield_linux::text::first_releases::STRICT_CPU_RANGE;

/// Parameters with a CPU list of which the last one counts, and what a kernel does with a list
/// that it cannot parse:
/// - `rcu_nocb_setup()`, kernel/rcu/tree_nocb.h (00a611229bfa): "bad CPU range, all CPUs set";
/// - `irq_affinity_setup()`, kernel/irq/irqdesc.c (04b5989e9209): ignores the error and adds the
///   boot CPU;
/// - `workqueue_unbound_cpus_setup()`, kernel/workqueue.c (6.12): "incorrect CPU range, using
///   default".
const LISTS: &[(&str, BadListEffect)] = &[
    ("rcu_nocbs", BadListEffect::AllCpus),
    ("irqaffinity", BadListEffect::CutOff),
    ("workqueue.unbound_cpus", BadListEffect::Ignored),
];

pub(super) fn find(target: &LintTarget<'_>, params: &[KernelParam]) -> Vec<LintFinding> {
    let possible = target.possible;
    let setup = isolation_setup(&to_line(params), possible, target.list_rules);
    let faults = setup.faults.iter().cloned();
    let mut found: Vec<LintFinding> =
        faults.map(|fault| LintFinding::NotAccepted { fault, messages: Vec::new() }).collect();
    match possible.last() {
        Some(last) => {
            found.extend(params.iter().filter_map(|param| bad_list(target, param, last)));
            found.extend(interrupts_without_tick(params, &setup, last));
        }
        // A line that is only planned was made from the CPUs.
        None if target.running => found.extend(params.iter().filter_map(unchecked_list)),
        None => {}
    }
    found.extend(params.iter().flat_map(unknown_flags));
    found.extend(without_housekeeping(target, &setup));
    found.extend(nohz_off(params, &setup));
    found
}

/// A list that cannot be checked, because the possible CPUs are unknown.
fn unchecked_list(param: &KernelParam) -> Option<LintFinding> {
    param.value.as_ref()?;
    let mut names =
        ["nohz_full", "isolcpus"].into_iter().chain(LISTS.iter().map(|(name, _)| *name));
    let has_list = names.any(|name| cmdline::same_name(name, &param.name));
    has_list.then(|| LintFinding::Unchecked { word: to_word(param) })
}

/// A list that the kernel cannot parse; `isolation_setup` has the valid lists of `nohz_full=` and
/// `isolcpus=`.
fn bad_list(target: &LintTarget<'_>, param: &KernelParam, last: usize) -> Option<LintFinding> {
    let value = param.value.as_deref()?;
    let (word, messages) = (to_word(param), Vec::new());
    let isolates = match param.name.replace('-', "_").as_str() {
        "nohz_full" => Some(CpuSet::parse_list(value, Some(last)).ok()),
        "isolcpus" => Some(cmdline::isolcpus(value, Some(last)).ok().map(|it| it.cpus)),
        _ => None,
    };
    if let Some(parsed) = isolates {
        return match parsed {
            // "incorrect CPU range": housekeeping_setup(), kernel/sched/isolation.c (6.12).
            None => {
                let effect = BadListEffect::Ignored;
                Some(LintFinding::NotAList { word, effect, messages })
            }
            Some(cpus) => cpus.is_empty().then_some(LintFinding::EmptyList { word }),
        };
    }
    let (_, effect) = LISTS.iter().find(|(name, _)| cmdline::same_name(name, &param.name))?;
    let effect = *effect;
    let Ok(cpus) = CpuSet::parse_list(value, Some(last)) else {
        return Some(LintFinding::NotAList { word, effect, messages });
    };
    if cpus.is_empty() {
        return Some(LintFinding::EmptyList { word });
    }
    let cpus: CpuSet = cpus.iter().filter(|cpu| *cpu > last).collect();
    let exceeds = !cpus.is_empty();
    let certain = target.version.is_none_or(|version| version >= STRICT_CPU_RANGE);
    let found = LintFinding::BeyondLast { word, last, effect, certain, messages, cpus };
    exceeds.then_some(found)
}

/// Flags of `isolcpus=` that mainline kernels skip; before commit 3662daf02350 they refuse the list
/// too.
fn unknown_flags(param: &KernelParam) -> Vec<LintFinding> {
    let value = param.value.as_deref().filter(|_| cmdline::same_name(&param.name, "isolcpus"));
    let flags = value
        .unwrap_or_default()
        .split(',')
        .take_while(|part| part.starts_with(|c: char| c.is_ascii_alphabetic()))
        // The words of CPU lists (`bitmap_getnum()` and `bitmap_parse_region()`, lib/bitmap-str.c,
        // 6.12).
        .filter(|part| !part.eq_ignore_ascii_case("all") && !part.starts_with("N"));
    // A flag that only a patch series has is another finding.
    let unknown = flags.filter(|flag| !ISOLCPUS_FLAGS.contains(flag) && *flag != "io_queue");
    let findings = unknown.map(|flag| LintFinding::UnknownFlag {
        word: to_word(param),
        flag: flag.to_owned(),
        near: nearest(flag, ISOLCPUS_FLAGS).into_iter().next(),
    });
    findings.collect()
}

/// Lists that name every online CPU. The kernel keeps the boot CPU out of a single list ("must
/// include one present CPU", `housekeeping_setup()`, kernel/sched/isolation.c, 5.10 and 7.0). Of
/// two lists that do so together, 7.0 ignores the later one; 6.12 accepts both.
pub(super) fn without_housekeeping(
    target: &LintTarget<'_>,
    setup: &IsolationSetup,
) -> Option<LintFinding> {
    let online = target.online();
    let words_of = |kinds: &[IsolationKind]| -> Vec<String> {
        let taken =
            setup.taken.iter().filter(|it| kinds.iter().any(|kind| it.kinds.contains(kind)));
        taken.map(|it| it.word.clone()).collect()
    };
    let (tick, domain) = (setup.cpus(IsolationKind::Tick), setup.cpus(IsolationKind::Domain));
    let kinds: &[IsolationKind] = if online.is_subset(&tick) {
        &[IsolationKind::Tick]
    } else if online.is_subset(&domain) {
        &[IsolationKind::Domain]
    } else {
        &[IsolationKind::Tick, IsolationKind::Domain]
    };
    let all = tick.union(&domain);
    let none = !online.is_empty() && online.is_subset(&all);
    none.then(|| LintFinding::NoHousekeeping { words: words_of(kinds), messages: Vec::new() })
}

/// An `irqaffinity=` of which every CPU is to have no tick: devices would interrupt only CPUs that
/// are to be left alone, and the boot CPU, which the kernel adds. A list with other CPUs too is no
/// finding: on a machine that is prepared for shields, CPUs of `nohz_full=` are housekeeping CPUs
/// until one starts. The last `irqaffinity=` counts (`irq_affinity_setup()`, kernel/irq/irqdesc.c,
/// 6.12).
fn interrupts_without_tick(
    params: &[KernelParam],
    setup: &IsolationSetup,
    last: usize,
) -> Option<LintFinding> {
    let param = cmdline::last(params, "irqaffinity")?;
    let cpus = CpuSet::parse_list(param.value.as_deref()?, Some(last)).ok()?;
    let taken = setup
        .taken
        .iter()
        .find(|it| it.kinds.as_slice() == [IsolationKind::Tick] && cpus.is_subset(&it.cpus))?;
    let (irqaffinity, nohz_full) = (to_word(param), taken.word.clone());
    (!cpus.is_empty()).then_some(LintFinding::InterruptsWithoutTick {
        irqaffinity,
        nohz_full,
        cpus,
    })
}

/// `nohz=off` together with CPUs without tick: no CPU ever enters the mode in which its tick can
/// stop (`tick_nohz_enabled`, kernel/time/tick-sched.c, 6.12). The last `nohz=` counts. Kernels at
/// first knew only `on` and `off`; now `kstrtobool()` (lib/kstrtox.c) parses it.
fn nohz_off(params: &[KernelParam], setup: &IsolationSetup) -> Option<LintFinding> {
    let nohz = cmdline::last(params, "nohz")?;
    let value = nohz.value.as_deref()?.to_ascii_lowercase();
    let off = value.starts_with(['n', 'f', '0']) || value.starts_with("of");
    let ticks = setup.taken.iter().filter(|it| it.kinds.contains(&IsolationKind::Tick));
    let words: Vec<String> = ticks.map(|it| it.word.clone()).collect();
    (off && !words.is_empty()).then(|| LintFinding::NohzOff { nohz: to_word(nohz), words })
}
