//! Findings about words: misspelled, without a value, repeated, overridden, or unknown to this
//! kernel. Only words that the catalogue of parameters knows, or that resemble one of them, are
//! judged: a command line also has words for init and for modules. Pure.

use crate::boot::document::{LintFinding, UnknownReason};
use crate::boot::line::to_word;
use crate::boot::parameters::{KernelParameter, PARAMETERS, ParameterOffer, ParameterSupport};
use crate::boot::running_kernel::support;
use crate::registry::nearest;
use crate::survey::Machine;
use cpushield_linux::text::cmdline::{self, KernelParam};

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

/// Parameters that resemble one of the catalogue (Documentation/admin-guide/kernel-parameters.txt,
/// 6.12).
const LOOKALIKES: &[&str] = &["nmi_watchdog", "amd_pstate"];

/// Parameters of the catalogue that only kernels of some vendors have.
const FOREIGN: &[&str] = &["kthread_cpus"];

/// The shortest name that is compared; shorter ones resemble too many others.
const COMPARED_MIN: usize = 6;
/// How much longer or shorter a misspelled name may be.
const LENGTH_DIFFERENCE_MAX: usize = 2;

/// Findings about words that this kernel knows, or that resemble one of the catalogue.
pub(super) fn find(params: &[KernelParam]) -> Vec<LintFinding> {
    let mut found = Vec::new();
    for (index, param) in params.iter().enumerate() {
        let word = to_word(param);
        let has_name = |names: &[&str]| names.iter().any(|it| cmdline::same_name(it, &param.name));
        if lacks_value(param) {
            found.push(LintFinding::NoValue { word });
            continue;
        }
        if let Some(near) = misspelled(param) {
            found.push(LintFinding::Misspelled { word, near });
            continue;
        }
        if parameter(param).is_none() && !has_name(SINGLE) {
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

/// Why the surveyed kernel does not know a parameter; `None` when it does or when that is unknown.
fn why_unknown(machine: &Machine, parameter: &KernelParameter) -> Option<UnknownReason> {
    match support(parameter, machine) {
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
    PARAMETERS.iter().copied().find(|it| cmdline::same_name(it.keyword, &param.name))
}

/// The name that a misspelled one resembles. Names of module parameters (`module.name`) are not
/// compared: modules differ by kernel.
fn misspelled(param: &KernelParam) -> Option<String> {
    let name = param.name.replace('-', "_");
    let known = parameter(param).is_some() || LOOKALIKES.contains(&name.as_str());
    if known || name.len() < COMPARED_MIN || name.contains('.') {
        return None;
    }
    let compared = PARAMETERS.iter().filter(|it| {
        !is_foreign(it) && !it.keyword.contains('.') && it.keyword.len() > COMPARED_MIN
    });
    let names: Vec<&str> = compared.map(|it| it.keyword).collect();
    let mut near = nearest(&name, &names).into_iter();
    near.find(|near| near.len().abs_diff(name.len()) <= LENGTH_DIFFERENCE_MAX)
}
