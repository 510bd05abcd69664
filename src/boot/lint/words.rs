//! Findings about words: misspelled, without a value, with a value that no kernel takes, repeated,
//! overridden, of an unreleased series, or unknown to this kernel. Only words that the catalogue of
//! parameters knows, or that resemble one of them, are judged: a command line also has words for
//! init and for modules. Pure.

use super::LintTarget;
use crate::boot::line::{name_of, to_word};
use crate::boot::parameters::{
    KERNEL_NAMES, KernelParameter, PARAMETERS, ParameterOffer, ParameterSupport, meant_by_value,
    names_kernel_parameter, unknown_value, with_keyword,
};
use crate::boot::planned_kernel::PlannedKernel;
use crate::boot::refusals;
use crate::documents::boot::{LintFinding, UnknownReason};
use crate::documents::machine::Machine;
use crate::registry::{is_one_slip, nearest};
use cpushield_linux::text::cmdline::{self, KernelParam};
use cpushield_linux::text::first_releases::BARE_RCU_NOCBS;

/// Parameters of which only the last value counts:
/// - `rcu_nocb_setup()`, kernel/rcu/tree_nocb.h (00a611229bfa);
/// - `irq_affinity_setup()`, kernel/irq/irqdesc.c (04b5989e9209);
/// - `workqueue_unbound_cpus_setup()`, kernel/workqueue.c (6.12);
/// - `setup_tick_nohz()` and `skew_tick()`, kernel/time/tick-sched.c (6.12);
/// - `boot_override_clocksource()`, kernel/time/clocksource.c (6.12).
///
/// `isolcpus=` and `nohz_full=` have other rules (src/survey/command_line.rs). Parameters like
/// `tsc=` and `mce=` add their values up.
const SINGLE: &[&str] =
    &["rcu_nocbs", "irqaffinity", "workqueue.unbound_cpus", "nohz", "skew_tick", "clocksource"];

/// Parameters that the kernel knows only with an equals sign: `__setup("nohz_full=", …)` and
/// `__setup("isolcpus=", …)` in kernel/sched/isolation.c (7.0), `__setup("irqaffinity=", …)` in
/// kernel/irq/irqdesc.c (04b5989e9209), `__setup("workqueue.unbound_cpus=", …)` in
/// kernel/workqueue.c (6.12). The bare `nohz_full` is proposed, but no released kernel has it.
const WITH_VALUE: &[&str] = &["nohz_full", "isolcpus", "irqaffinity", "workqueue.unbound_cpus"];

/// Parameters of tuning guides that the catalogue does not have
/// (Documentation/admin-guide/kernel-parameters.txt, 6.12). A misspelled one is found too.
const OTHERS: &[&str] = &["nmi_watchdog", "amd_pstate", "threadirqs", "preempt"];

/// Parameters of the catalogue that only kernels of some vendors have.
const FOREIGN: &[&str] = &["kthread_cpus"];

/// The shortest name that is compared without its value; shorter ones resemble too many others.
const COMPARED_MIN: usize = 6;
/// The shortest name of a word in the kernel's log that is compared: `live` and `vga` are words for
/// other programs.
const LOGGED_MIN: usize = 5;
/// How much longer or shorter a misspelled name may be.
const LENGTH_DIFFERENCE_MAX: usize = 2;

/// Findings about words that this kernel knows, or that resemble one of the catalogue.
pub(super) fn find(target: &LintTarget<'_>, params: &[KernelParam]) -> Vec<LintFinding> {
    let mut found = Vec::new();
    for (index, param) in params.iter().enumerate() {
        let word = to_word(param);
        let has_name = |names: &[&str]| names.iter().any(|it| cmdline::same_name(it, &param.name));
        if let Some(finding) = faulty(target, param) {
            found.push(finding);
            continue;
        }
        if parameter(param).is_none() && !has_name(SINGLE) && !has_name(OTHERS) {
            continue;
        }
        let earlier = &params[..index];
        let same = |it: &&KernelParam| cmdline::same_name(&it.name, &param.name);
        if earlier.iter().filter(same).any(|it| it.value == param.value) {
            found.push(LintFinding::Repeated { word });
        } else if let Some(lost) = earlier.iter().rfind(same).filter(|_| has_name(SINGLE)) {
            found.push(LintFinding::Overridden { lost: to_word(lost), by: word });
        }
    }
    found
}

/// What is wrong with a word by itself.
fn faulty(target: &LintTarget<'_>, param: &KernelParam) -> Option<LintFinding> {
    let word = to_word(param);
    if let Some(page) = unreleased_page(param) {
        return Some(LintFinding::Unreleased { word, page });
    }
    let is_bare = param.value.is_none() && cmdline::same_name(&param.name, "rcu_nocbs");
    let too_young = target.list_rules.is_some_and(|version| version < BARE_RCU_NOCBS);
    if lacks_value(param) || (is_bare && too_young) {
        return Some(LintFinding::NoValue { word });
    }
    if let Some(near) = misspelled(param) {
        return Some(LintFinding::Misspelled { word, near, messages: Vec::new() });
    }
    let unknown = unknown_value(&param.name, param.value.as_deref()?)?;
    let (near, takes) = (unknown.near.into_iter().next(), unknown.takes);
    Some(LintFinding::UnknownValue { word, near, takes })
}

/// The page about a word that only a patch series has; `None` for other words.
pub(super) fn unreleased_page(param: &KernelParam) -> Option<&'static str> {
    match param.value.as_deref() {
        None => cmdline::same_name(&param.name, "nohz_full").then_some("nohz-full-without-list"),
        Some(value) => {
            let flags = value.split(',').take_while(|it| it.starts_with(char::is_alphabetic));
            let isolcpus = cmdline::same_name(&param.name, "isolcpus");
            let has_flag = flags.into_iter().any(|flag| flag == "io_queue");
            (isolcpus && has_flag).then_some("isolcpus-io-queue")
        }
    }
}

/// Whether the kernel knows the parameter only with a value, and it has none.
pub(super) fn lacks_value(param: &KernelParam) -> bool {
    param.value.is_none() && WITH_VALUE.iter().any(|it| cmdline::same_name(it, &param.name))
}

/// Words of the catalogue that this kernel does not know, by its configuration.
pub(super) fn unknown_to_kernel(machine: &Machine, params: &[KernelParam]) -> Vec<LintFinding> {
    let unknown = params.iter().filter_map(|param| {
        let parameter = parameter(param)?;
        let word = to_word(param);
        if let (ParameterOffer::Never(why), true) = (parameter.offer, is_foreign(parameter)) {
            return Some(LintFinding::NotMainline { word, why });
        }
        let why = why_unknown(machine, parameter)?;
        Some(LintFinding::UnknownToKernel { word, why })
    });
    unknown.collect()
}

/// Whether one of these findings names the word of a parameter.
pub(super) fn is_named(findings: &[LintFinding], param: &KernelParam) -> bool {
    let word = to_word(param);
    findings.iter().any(|finding| match finding {
        LintFinding::UnknownToKernel { word: named, .. }
        | LintFinding::NotMainline { word: named, .. } => *named == word,
        _ => false,
    })
}

/// Words that the kernel's log lists as unknown and that resemble one of its parameters. Most of
/// the others are for init. The words of these findings are left out.
pub(super) fn misspelled_in_log(log: &[String], found: &[LintFinding]) -> Vec<LintFinding> {
    let named = |word: &str| found.iter().any(|finding| finding.words().contains(&word));
    let unknown = refusals::unknown_words(log).filter(|word| !named(word));
    let misspelled = unknown.filter_map(|word| {
        let near = one_slip_from(name_of(word))?;
        Some(LintFinding::Misspelled { word: word.to_owned(), near, messages: Vec::new() })
    });
    misspelled.collect()
}

/// Whether a parameter resembles one of the kernel's document, and is not in it.
pub(super) fn resembles_parameter(param: &KernelParam) -> bool {
    one_slip_from(&param.name).is_some()
}

/// The parameter of the kernel's document from which an unknown name differs by one slip.
fn one_slip_from(name: &str) -> Option<String> {
    let name = name.replace('-', "_");
    if name.len() < LOGGED_MIN || names_kernel_parameter(&name) {
        return None;
    }
    let known = KERNEL_NAMES.lines().filter(|line| !line.starts_with('#'));
    let near = known.filter(|known| is_one_slip(&name, &known.replace('-', "_")));
    near.min_by_key(|near| near.len().abs_diff(name.len())).map(str::to_owned)
}

/// Why the surveyed kernel does not know a parameter; `None` when it does or when that is unknown.
fn why_unknown(machine: &Machine, parameter: &KernelParameter) -> Option<UnknownReason> {
    match PlannedKernel::running(machine).support(parameter) {
        ParameterSupport::Missing(why) => Some(why),
        ParameterSupport::Present | ParameterSupport::Undecided => None,
    }
}

/// Whether only kernels of some vendors have the parameter.
fn is_foreign(parameter: &KernelParameter) -> bool {
    FOREIGN.contains(&parameter.keyword)
}

/// The entry of the catalogue for a parameter of the line.
fn parameter(param: &KernelParam) -> Option<&'static KernelParameter> {
    with_keyword(&param.name).next()
}

/// The name that a misspelled one resembles. Of a parameter of a module (`module.name`), either the
/// module or the name must be right: modules differ by kernel.
fn misspelled(param: &KernelParam) -> Option<String> {
    let name = param.name.replace('-', "_");
    let is_known = parameter(param).is_some() || names_kernel_parameter(&name);
    if is_known {
        return None;
    }
    if let Some(meant) = param.value.as_deref().and_then(|value| meant_by_value(&name, value)) {
        return Some(meant.to_owned());
    }
    if name.len() < COMPARED_MIN {
        return None;
    }
    let keywords = PARAMETERS.iter().filter(|it| !is_foreign(it)).map(|it| it.keyword);
    let keywords: Vec<&str> = keywords.chain(OTHERS.iter().copied()).collect();
    let Some((module, last)) = name.split_once('.') else {
        let compared = keywords.into_iter().filter(|it| !it.contains('.'));
        return nearest_name(&name, compared.filter(|it| it.len() > COMPARED_MIN).collect());
    };
    let dotted = || keywords.iter().filter_map(|it| it.split_once('.'));
    let names = dotted().filter(|(of, _)| *of == module).map(|(_, name)| name);
    let modules = dotted().filter(|(_, name)| *name == last).map(|(of, _)| of);
    let by_name = nearest_name(last, names.collect()).map(|near| format!("{module}.{near}"));
    by_name.or_else(|| Some(format!("{}.{last}", nearest_name(module, modules.collect())?)))
}

fn nearest_name(name: &str, names: Vec<&str>) -> Option<String> {
    let mut near = nearest(name, &names).into_iter();
    near.find(|near| near.len().abs_diff(name.len()) <= LENGTH_DIFFERENCE_MAX)
}
