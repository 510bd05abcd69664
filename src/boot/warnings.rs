//! The warnings of a boot plan: what the user should know before boot files are changed. Pure.

use super::line;
use super::loaders::{FoundLoader, LoaderEntry};
use super::parameters::named;
use super::request::CpuOrigin;
use crate::documents::boot::{BootKernel, BootWarning, SkippedParameter, WantedParameter};
use crate::documents::machine::Machine;
use crate::documents::plan::Shield;
use crate::policy::ShieldRequest;
use crate::survey::{IsolationKind, isolation_setup, list_rules};
use crate::tunables;
use cpushield_linux::text::first_releases::PARTITION_REFUSES_ISOLCPUS;
use cpushield_linux::text::kernel_version::KernelVersion;

/// The loader's warnings, parameters that kernels do not know, chosen kernels whose options are
/// unknown, and `isolcpus=` of the running one.
pub(super) fn collect(
    found: &FoundLoader,
    machine: &Machine,
    (kernels, without_options): (&[BootKernel], Vec<String>),
    targets: &[&LoaderEntry],
    parameters: &[WantedParameter],
) -> Vec<BootWarning> {
    let mut warnings = found.warnings.clone();
    warnings.extend(different_lists(targets, parameters));
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
            let backported = named(name).is_some_and(|it| it.is_backported_to(&version));
            warnings.push(BootWarning::ParameterUndecided { version, parameter, backported });
        }
    }
    let unknown = without_options.into_iter();
    warnings.extend(unknown.map(|version| BootWarning::OptionsUnknown { version }));
    warnings.extend(present_isolcpus(machine, targets, parameters));
    warnings
}

/// `isolcpus=` on the line of a chosen kernel, or of the running one without a menu, unless it is
/// wanted: by the plan itself, or because the kernel has no `nohz_full=` to replace it.
fn present_isolcpus(
    machine: &Machine,
    targets: &[&LoaderEntry],
    parameters: &[WantedParameter],
) -> Option<BootWarning> {
    let planned = parameters.iter().any(|it| line::isolated_domain(&it.word).is_some());
    if planned || machine.can_stop_tick() == Some(false) {
        return None;
    }
    let possible = &machine.topology.possible;
    let mut lines = targets.iter().map(|entry| {
        let setup = isolation_setup(&entry.args, possible, list_rules(&entry.version));
        (Some(entry.version.clone()), setup.cpus(IsolationKind::Domain))
    });
    let (version, cpus) = match targets.is_empty() {
        true => (None, machine.isolation.isolcpus_domain.clone()),
        false => lines.find(|(_, cpus)| !cpus.is_empty())?,
    };
    let release = version.clone().or_else(|| machine.kernel.release.clone());
    let refusing = release.filter(|release| may_refuse_partition(release));
    (!cpus.is_empty()).then_some(BootWarning::IsolcpusPresent { version, cpus, refusing })
}

/// Chosen kernels whose `nohz_full=` and `isolcpus=` would have different lists, and what they do
/// then.
fn different_lists(targets: &[&LoaderEntry], parameters: &[WantedParameter]) -> Vec<BootWarning> {
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

/// The price of a planned `isolcpus=` with the flag `domain`, which is its default. Where cpushield
/// has chosen the CPUs for it, the reason for the choice says the same.
pub(super) fn planned_domain(
    parameters: &[WantedParameter],
    versions: &[&str],
    origin: CpuOrigin,
) -> Option<BootWarning> {
    let planned = parameters.iter().filter(|it| !it.already);
    let cpus = planned.into_iter().find_map(|it| line::isolated_domain(&it.word))?;
    let refusing = versions.iter().find(|version| may_refuse_partition(version));
    let is_new = origin != CpuOrigin::IsolatedCore || refusing.is_some();
    let refusing = refusing.map(|it| (*it).to_owned());
    is_new.then_some(BootWarning::DomainPlanned { cpus, refusing })
}

/// Parameters that the request switches on and that no chosen kernel gets.
pub(super) fn inapplicable_requests(
    request: &ShieldRequest,
    skipped: &[SkippedParameter],
) -> Vec<BootWarning> {
    let requested = skipped.iter().filter(|it| request.tunables.get(&it.name) == Some(&true));
    let warnings = requested.map(|SkippedParameter { name, reason }| {
        BootWarning::RequestInapplicable { parameter: name.clone(), reason: reason.clone() }
    });
    warnings.collect()
}

/// Whether a kernel refuses a partition with CPUs of `isolcpus=`, or its version is not known.
fn may_refuse_partition(release: &str) -> bool {
    KernelVersion::from_release(release)
        .is_none_or(|version| PARTITION_REFUSES_ISOLCPUS.contains(&version))
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

#[cfg(test)]
mod tests {
    use super::*;
    use cpushield_linux::CpuSet;

    #[test]
    fn isolcpus_is_not_to_be_removed_where_it_is_wanted() {
        let mut machine = Machine::default();
        machine.isolation.isolcpus_domain = CpuSet::single(3);
        machine.isolation.nohz_full = Some(CpuSet::new());
        let wanted = |word: &str| WantedParameter {
            name: String::new(),
            word: word.to_owned(),
            reason: String::new(),
            substitute: None,
            booted: true,
            in_force: None,
            instead: None,
            already: true,
        };
        let (cpus, refusing) = (CpuSet::single(3), None);
        let version = None;
        let warning = Some(BootWarning::IsolcpusPresent { version, cpus, refusing });
        assert_eq!(present_isolcpus(&machine, &[], &[wanted("nohz_full=3")]), warning);
        assert_eq!(present_isolcpus(&machine, &[], &[wanted("isolcpus=3")]), None);
        // The line of the chosen kernel decides, not that of the running one.
        machine.topology.possible = CpuSet::from_iter(0..4);
        let mut entry = LoaderEntry { version: "6.12.9".to_owned(), ..LoaderEntry::default() };
        assert_eq!(present_isolcpus(&machine, &[&entry], &[]), None);
        entry.args = "quiet isolcpus=2".to_owned();
        let (cpus, refusing) = (CpuSet::single(2), Some(entry.version.clone()));
        let version = refusing.clone();
        let warning = Some(BootWarning::IsolcpusPresent { version, cpus, refusing });
        assert_eq!(present_isolcpus(&machine, &[&entry], &[]), warning);
        machine.isolation.nohz_full = None;
        machine.kernel.config.insert("CONFIG_NO_HZ_FULL".to_owned(), "n".to_owned());
        assert_eq!(present_isolcpus(&machine, &[], &[]), None);
    }

    #[test]
    fn partitions_are_mentioned_for_kernels_that_refuse_them_only() {
        for (release, refuses) in [
            ("5.4.0-rtai", false),
            ("6.1.0-40-rt-amd64", false),
            ("6.12.43+deb13-rt-amd64", true),
            ("7.2.0-rt", false),
            ("ours", true),
        ] {
            assert_eq!(may_refuse_partition(release), refuses, "{release}");
        }
    }
}
