//! The warnings of a boot plan: what the user should know before boot files are changed. Pure.

use super::loaders::{FoundLoader, LoaderEntry};
use super::planned_kernel::PlannedKernel;
use super::planned_lines::words_of;
use super::request::CpuOrigin;
use super::{line, lint};
use crate::documents::boot::{BootWarning, LintFinding, SkippedParameter, WantedParameter};
use crate::documents::machine::Machine;
use crate::policy::ShieldRequest;
use crate::survey::{list_rules, running_list_rules};
use cpushield_linux::text::cmdline;
use cpushield_linux::text::kernel_version::KernelVersion;

/// The loader's warnings, lists that differ, chosen kernels whose options are unknown, and words
/// that keep a shield open.
pub(super) fn collect(
    found: &FoundLoader,
    machine: &Machine,
    without_options: Vec<BootWarning>,
    targets: &[&LoaderEntry],
    parameters: &[WantedParameter],
) -> Vec<BootWarning> {
    let mut warnings = found.warnings.clone();
    warnings.extend(different_lists(targets, parameters));
    warnings.extend(without_options);
    warnings.extend(open_words(machine, targets, parameters));
    warnings
}

/// Words on the line of a chosen kernel, or of the running one without a menu, that keep a shield
/// open, unless the plan has them too.
fn open_words(
    machine: &Machine,
    targets: &[&LoaderEntry],
    parameters: &[WantedParameter],
) -> Vec<BootWarning> {
    let find = |name: &str, version: &str, line: &str, list_rules| {
        let mut own = parameters.iter().filter(|it| it.is_for(name));
        let planned = own.any(|it| line::isolated_domain(&it.word).is_some());
        let number = KernelVersion::from_release(version);
        let found = lint::cpusets::find(machine, &cmdline::parse(line), number, list_rules);
        let found = found.into_iter().filter_map(|mut finding| {
            if let LintFinding::NoPartition { boot, .. } = &mut finding {
                // The plan has what replaces it.
                boot.wants_nohz_full = false;
                return (!planned).then_some(finding);
            }
            Some(finding)
        });
        found.map(|finding| BootWarning::Finding { version: version.to_owned(), finding }).collect()
    };
    let kernel = &machine.kernel;
    let of_running = kernel.release.as_deref().zip(kernel.cmdline.as_deref());
    match of_running.filter(|_| targets.is_empty()) {
        Some((version, line)) => {
            find(version, version, line, running_list_rules(kernel, &machine.isolation))
        }
        None => {
            let found = |it: &&LoaderEntry| {
                find(&it.version, it.release(), &it.args, list_rules(it.release()))
            };
            targets.iter().map(found).find(|found| !found.is_empty()).unwrap_or_default()
        }
    }
}

/// Chosen kernels whose `nohz_full=` and `isolcpus=` would have different lists, and what they do
/// then.
fn different_lists(targets: &[&LoaderEntry], parameters: &[WantedParameter]) -> Vec<BootWarning> {
    let mut warnings = Vec::new();
    for entry in targets {
        let words = words_of(parameters, &entry.version);
        let rules = list_rules(entry.release());
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
    machine: &Machine,
    parameters: &[WantedParameter],
    kernels: &[PlannedKernel<'_>],
    origin: CpuOrigin,
) -> Option<BootWarning> {
    let mut planned = parameters.iter().filter(|it| !it.already);
    let (cpus, wanted) = planned.find_map(|it| Some((line::isolated_domain(&it.word)?, it)))?;
    let may_refuse = |it: &&PlannedKernel| it.gets(wanted) && it.may_refuse_partition(machine);
    let refusing = kernels.iter().find(may_refuse).map(|it| it.release);
    let is_new = origin != CpuOrigin::IsolatedCore || refusing.is_some();
    let refusing = refusing.flatten().map(str::to_owned);
    is_new.then_some(BootWarning::DomainPlanned { cpus, refusing })
}

/// Parameters that the request switches on and that no chosen kernel gets.
pub(super) fn inapplicable_requests(
    request: &ShieldRequest,
    skipped: &[SkippedParameter],
) -> Vec<BootWarning> {
    let requested = skipped.iter().filter(|it| request.tunables.choice(&it.name) == Some(true));
    let warnings = requested.map(|SkippedParameter { name, reason }| {
        BootWarning::RequestInapplicable { parameter: name.clone(), reason: reason.clone() }
    });
    warnings.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::machine::CgroupMode;
    use cpushield_linux::CpuSet;

    #[test]
    fn isolcpus_is_to_be_removed_where_the_kernel_cannot_close_the_shield_with_it() {
        let mut machine = Machine::default();
        machine.topology.possible = CpuSet::from_iter(0..4);
        machine.kernel.cmdline = Some("isolcpus=3".to_owned());
        machine.cgroup.mode = CgroupMode::V2;
        let wanted = |word: &str| WantedParameter {
            name: String::new(),
            word: word.to_owned(),
            kernels: Vec::new(),
            reason: String::new(),
            substitute: None,
            booted: true,
            in_force: None,
            instead: None,
            already: true,
        };
        let entry = |version: &str, args: &str| LoaderEntry {
            version: version.to_owned(),
            args: args.to_owned(),
            ..LoaderEntry::default()
        };
        let found = |machine: &Machine, targets: &[&LoaderEntry], word: &str| {
            let found = open_words(machine, targets, &[wanted(word)]);
            found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        };
        let removal =
            "remove isolcpus= (or only its flag domain) from the boot loader's configuration";
        for (release, refuses) in [
            ("5.4.0-rtai", false),
            ("6.1.0-40-rt-amd64", false),
            ("6.12.43+deb13-rt-amd64", true),
            ("7.2.0-rt", false),
            ("ours", true),
        ] {
            machine.kernel.release = Some(release.to_owned());
            let running = found(&machine, &[], "nohz_full=3");
            assert_eq!(running.contains(removal), refuses, "{release}: {running}");
            assert_eq!(found(&machine, &[], "isolcpus=3"), "");
            // The line of the chosen kernel decides, not that of the running one.
            let chosen = found(&machine, &[&entry(release, "quiet isolcpus=2")], "nohz_full=3");
            assert_eq!(chosen.contains("takes CPU 2 out of scheduling"), refuses, "{chosen}");
            assert_eq!(found(&machine, &[&entry(release, "quiet")], "nohz_full=3"), "");
        }
        machine.cgroup.mode = CgroupMode::V1;
        assert_eq!(found(&machine, &[], "nohz_full=3"), "");
        machine.kernel.cmdline = Some("cgroup_disable=memory,cpuset".to_owned());
        let off = "kernel ours: cgroup_disable=memory,cpuset switches cpusets off";
        assert!(found(&machine, &[], "nohz_full=3").starts_with(off));
    }
}
