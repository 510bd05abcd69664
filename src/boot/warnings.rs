//! What the user should know before boot files are changed. Pure.

use super::document::{BootKernel, WantedParameter};
use super::line;
use super::loaders::{FoundLoader, LoaderEntry};
use crate::plan::Shield;
use crate::survey::Machine;
use crate::tunables;
use cpushield_linux::text::kernel_version::KernelVersion;

/// The parameter for machines with managed interrupts.
const MANAGED_IRQ: &str = "isolcpus-managed-irq";

/// The loader's warnings, parameters that kernels do not know, and `isolcpus=` of the running one.
pub(super) fn collect(
    found: &FoundLoader,
    machine: &Machine,
    kernels: &[BootKernel],
    different_lists: Vec<String>,
) -> Vec<String> {
    let mut warnings = found.warnings.clone();
    warnings.extend(different_lists);
    for kernel in kernels.iter().filter(|kernel| kernel.chosen) {
        for unknown in &kernel.unknown {
            warnings.push(format!(
                "kernel {} does not know {}: {}",
                kernel.version, unknown.name, unknown.reason
            ));
        }
        if kernel.realtime.is_none() {
            warnings.push(format!(
                "the options of kernel {0} are unknown: there is no /boot/config-{0}",
                kernel.version
            ));
        }
    }
    if !machine.isolation.isolcpus_domain.is_empty() {
        warnings.push(format!(
            "the running kernel has isolcpus={}: a shield does not need it, and kernels from 6.7 \
             to 6.17.2 make no cpuset partition there; remove it from the loader's configuration",
            machine.isolation.isolcpus_domain
        ));
    }
    warnings
}

/// Chosen kernels whose `nohz_full=` and `isolcpus=` would have different lists, and what they do
/// then.
pub(super) fn different_lists(
    targets: &[&LoaderEntry],
    parameters: &[WantedParameter],
) -> Vec<String> {
    let words: Vec<String> = parameters.iter().map(|wanted| wanted.word.clone()).collect();
    let mut warnings = Vec::new();
    for entry in targets {
        let version = KernelVersion::from_release(&entry.version);
        if let Some(lists) = line::different_lists(&entry.args, &words, version) {
            warnings.push(format!("kernel {}: {lists}", entry.version));
        }
    }
    warnings
}

/// Recommends `--on isolcpus-managed-irq` on a machine that has such interrupts.
pub(super) fn managed_irqs(
    machine: &Machine,
    shield: &Shield,
    parameters: &[WantedParameter],
) -> Option<String> {
    if parameters.iter().any(|it| it.name == MANAGED_IRQ) {
        return None;
    }
    let tunable = tunables::named("irq-affinity")?;
    let remains = tunable.remains(machine, shield);
    let advice = remains.boot.first()?;
    Some(format!(
        "this machine has interrupts that only {} keeps off these CPUs: --on {MANAGED_IRQ} adds it",
        advice.parameter
    ))
}
