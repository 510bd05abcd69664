//! The warnings of a boot plan: what the user should know before boot files are changed. Pure.

use super::document::{BootKernel, BootWarning, WantedParameter};
use super::line;
use super::loaders::{FoundLoader, LoaderEntry};
use crate::plan::Shield;
use crate::survey::{Machine, list_rules};
use crate::tunables;

/// The loader's warnings, parameters that kernels do not know, and `isolcpus=` of the running one.
pub(super) fn collect(
    found: &FoundLoader,
    machine: &Machine,
    kernels: &[BootKernel],
    different_lists: Vec<BootWarning>,
) -> Vec<BootWarning> {
    let mut warnings = found.warnings.clone();
    warnings.extend(different_lists);
    for kernel in kernels.iter().filter(|kernel| kernel.chosen) {
        for unknown in &kernel.unknown {
            warnings.push(BootWarning::ParameterUnknown {
                version: kernel.version.clone(),
                parameter: unknown.name.clone(),
                why: unknown.why.clone(),
            });
        }
        for name in &kernel.undecided {
            let (version, parameter) = (kernel.version.clone(), name.clone());
            warnings.push(BootWarning::ParameterUndecided { version, parameter });
        }
        if kernel.realtime.is_none() {
            warnings.push(BootWarning::OptionsUnknown { version: kernel.version.clone() });
        }
    }
    if !machine.isolation.isolcpus_domain.is_empty() {
        let cpus = machine.isolation.isolcpus_domain.clone();
        warnings.push(BootWarning::IsolcpusBooted { cpus });
    }
    warnings
}

/// Chosen kernels whose `nohz_full=` and `isolcpus=` would have different lists, and what they do
/// then.
pub(super) fn different_lists(
    targets: &[&LoaderEntry],
    parameters: &[WantedParameter],
) -> Vec<BootWarning> {
    let words: Vec<String> = parameters.iter().map(|wanted| wanted.word.clone()).collect();
    let mut warnings = Vec::new();
    for entry in targets {
        let rules = list_rules(&entry.version);
        if let Some(lists) = line::different_lists(&entry.args, &words, rules) {
            let version = entry.version.clone();
            warnings.push(BootWarning::ListsDiffer { version, lists });
        }
    }
    warnings
}

/// The price of a planned `isolcpus=` with the flag `domain`, which is its default.
pub(super) fn planned_domain(parameters: &[WantedParameter]) -> Option<BootWarning> {
    let planned = parameters.iter().filter(|it| !it.already);
    let cpus = planned.into_iter().find_map(|it| line::isolated_domain(&it.word))?;
    Some(BootWarning::DomainPlanned { cpus })
}

/// Recommends `--on isolcpus-managed-irq` on a machine that has such interrupts.
pub(super) fn managed_irqs(
    machine: &Machine,
    shield: &Shield,
    parameters: &[WantedParameter],
) -> Option<BootWarning> {
    if parameters
        .iter()
        .any(|it| it.word.starts_with("isolcpus=") && it.word.contains("managed_irq,"))
    {
        return None;
    }
    let tunable = tunables::named("irq-affinity")?;
    let remains = tunable.remains(machine, shield);
    let advice = remains.boot.first()?;
    Some(BootWarning::ManagedIrqs { parameter: advice.parameter.to_string() })
}
