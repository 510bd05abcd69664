//! What a person should know before the boot is changed. Pure.

use super::document::{BootKernel, WantedParameter};
use super::line;
use super::loaders::{FoundLoader, LoaderEntry};
use crate::plan::Shield;
use crate::survey::Machine;
use crate::tunables;
use cpushield_linux::text::kernel_version::KernelVersion;

/// The parameter that is only for machines with such interrupts.
const MANAGED_IRQ: &str = "isolcpus-managed-irq";

/// What the loader found, what kernels do not know, and what the running one was booted with.
pub(super) fn worth_knowing(
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
                "what kernel {0} can do is not known: there is no /boot/config-{0}",
                kernel.version
            ));
        }
    }
    if !machine.isolation.isolcpus_domain.is_empty() {
        warnings.push(format!(
            "the running kernel has isolcpus={}: a shield needs it not, and kernels from 6.7 to \
             6.17.2 make no cpuset partition there; take it out of the loader's configuration",
            machine.isolation.isolcpus_domain
        ));
    }
    warnings
}

/// Chosen kernels that would have different lists in `nohz_full=` and `isolcpus=`, and what they do
/// with them.
pub(super) fn different_lists(
    targets: &[&LoaderEntry],
    parameters: &[WantedParameter],
) -> Vec<String> {
    let words: Vec<String> = parameters.iter().map(|wanted| wanted.word.clone()).collect();
    let of_entry = |entry: &&LoaderEntry| {
        let version = KernelVersion::of_release(&entry.version);
        let lists = line::different_lists(&entry.args, &words, version)?;
        Some(format!("kernel {}: {lists}", entry.version))
    };
    targets.iter().filter_map(of_entry).collect()
}

/// What `plan` advises on this machine and is only given when it is asked for.
pub(super) fn asked_for_here(
    machine: &Machine,
    shield: &Shield,
    parameters: &[WantedParameter],
) -> Option<String> {
    let given = parameters.iter().any(|it| it.name == MANAGED_IRQ);
    let tunable = tunables::named("irq-affinity").filter(|_| !given)?;
    let remains = tunable.remains(machine, shield);
    let advice = remains.boot.first()?;
    Some(format!(
        "interrupts that only {} keeps off these CPUs are here: --on {MANAGED_IRQ} adds it",
        advice.parameter
    ))
}
