//! Kernel parameters that isolate CPUs, each with a page for `explain`, and the slice
//! [`PARAMETERS`]. Pure: a parameter computes its value from the CPUs.

mod clocks;
mod cpus;
mod kernel_parameter;
mod power;
mod values;
mod watchdogs;

pub use kernel_parameter::{
    KernelFacts, KernelParameter, ParameterOffer, ParameterSupport, ParameterTarget,
};

pub use values::{ValueFault, meant_by_value, unknown_value};

use crate::change::EffectTime;
use crate::registry::{self, ExplainPage, ExplainedEntry, RegistryEntry};
use cpushield_linux::text::cmdline;

/// The names of the parameters of a mainline kernel, one a line, after a comment that says which
/// kernel's.
pub const KERNEL_NAMES: &str = include_str!("kernel_names.txt");

/// Every parameter, in the order in which they are written.
pub const PARAMETERS: &[&KernelParameter] = &[
    &cpus::NOHZ_FULL,
    &cpus::RCU_NOCBS,
    &cpus::RCU_NOCB_POLL,
    &cpus::IRQAFFINITY,
    &cpus::DOMAIN,
    &cpus::NOHZ,
    &cpus::MANAGED_IRQ,
    &cpus::IO_QUEUE,
    &cpus::BARE_NOHZ_FULL,
    &cpus::UNBOUND_CPUS,
    &cpus::KTHREAD_CPUS,
    &clocks::SKEW_TICK,
    &clocks::TSC,
    &clocks::CLOCKSOURCE,
    &watchdogs::NOWATCHDOG,
    &watchdogs::NOSOFTLOCKUP,
    &watchdogs::MCE,
    &power::NOSMT,
    &power::IDLE,
    &power::MAX_CSTATE,
    &power::INTEL_IDLE,
    &power::INTEL_PSTATE,
    &power::IOMMU,
    &power::MITIGATIONS,
];

/// Whether the kernel's document has a parameter of this name.
#[must_use]
pub fn names_kernel_parameter(name: &str) -> bool {
    KERNEL_NAMES.lines().any(|known| cmdline::same_name(known, name))
}

/// The parameters of the catalogue that have this name on the command line: the flags of
/// `isolcpus=` share one.
pub fn with_keyword(name: &str) -> impl Iterator<Item = &'static KernelParameter> {
    PARAMETERS.iter().copied().filter(move |it| cmdline::same_name(it.keyword, name))
}

/// The names that `--on` and `--off` have for a parameter of the kernel, such as `isolcpus`.
#[must_use]
pub fn offered_names(keyword: &str) -> Vec<&'static str> {
    let offered = with_keyword(keyword);
    let offered = offered.filter(|it| !matches!(it.offer, ParameterOffer::Never(_)));
    offered.map(|it| it.name).collect()
}

impl RegistryEntry for &'static KernelParameter {
    fn key(self) -> &'static str {
        self.name
    }
}

impl ExplainedEntry for &'static KernelParameter {
    fn explain(self) -> ExplainPage {
        ExplainPage {
            removes: Some(self.removes.iter().map(|cause| cause.name()).collect()),
            risk: Some(self.risk),
            when: Some(EffectTime::Boot),
            ..ExplainPage::new("boot parameter", self.name, self.summary, self.page)
        }
    }
}

/// The parameter of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static KernelParameter> {
    registry::find(PARAMETERS, name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::line;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn every_parameter_has_a_unique_name_a_page_with_sources_and_plain_words() {
        let target =
            ParameterTarget { cpus: "2-3,8".parse().unwrap(), rest: "0-1".parse().unwrap() };
        let mut names = BTreeSet::new();
        for parameter in PARAMETERS {
            assert!(names.insert(parameter.name), "{}", parameter.name);
            assert!(parameter.page.contains("\n\nSource: "), "{}", parameter.name);
            let words = parameter.word(&target);
            assert!(line::is_plain(&words), "{words}");
            if let Some(tunable) = crate::tunables::named(parameter.name) {
                assert_eq!(tunable.page, parameter.page);
                assert_eq!(tunable.removes, parameter.removes);
                assert_eq!(tunable.risk, parameter.risk);
            }
        }
        assert_eq!(cpus::IRQAFFINITY.word(&target), "irqaffinity=0-1");
        assert_eq!(cpus::MANAGED_IRQ.word(&target), "isolcpus=managed_irq,2-3,8");
    }

    /// What a kernel without an architecture has of a parameter.
    fn support(parameter: &KernelParameter, release: &str, options: &[(&str, &str)]) -> String {
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let options = options.collect();
        let facts = KernelFacts { options: &options, arch: None, release: Some(release) };
        match parameter.support(&facts) {
            ParameterSupport::Present => "present".to_owned(),
            ParameterSupport::Missing(why) => why.to_string(),
            ParameterSupport::Undecided => "undecided".to_owned(),
        }
    }

    #[test]
    fn the_configuration_decides_and_the_version_only_of_a_release_that_is_no_vendor_build() {
        let (rtai, vendor) = ("5.4.258-rtai-amd64", "4.18.0-553.el8.x86_64");
        let without = "built without CONFIG_NO_HZ_FULL";
        for (release, options, expected) in [
            (rtai, &[("CONFIG_NO_HZ_FULL", "y")][..], "present"),
            (rtai, &[("CONFIG_NO_HZ_FULL", "n")], without),
            // Without a configuration: few kernels with a co-kernel have the option.
            (rtai, &[], "undecided"),
            ("6.12.9-rt-amd64", &[], "present"),
            ("2.6.32-122-rtai", &[], "Linux 3.10 introduced it"),
            (vendor, &[], "undecided"),
            (vendor, &[("CONFIG_NO_HZ_FULL", "n")], without),
            ("2.6.32-754.el6.x86_64", &[], "undecided"),
            ("2.6.32-754.el6.x86_64", &[("CONFIG_NO_HZ_FULL", "y")], "present"),
            ("linux-lts", &[], "undecided"),
        ] {
            assert_eq!(support(&cpus::NOHZ_FULL, release, options), expected, "{release}");
        }
        // A flag shows in no option.
        let isolation = [("CONFIG_CPU_ISOLATION", "y")];
        assert_eq!(support(&cpus::MANAGED_IRQ, rtai, &isolation), "Linux 5.6 introduced it");
        assert_eq!(support(&cpus::MANAGED_IRQ, vendor, &isolation), "undecided");
        assert_eq!(support(&cpus::MANAGED_IRQ, "6.12.9", &isolation), "present");
        // A vendor removes no flag.
        let debian = "6.12.107+deb13-rt-amd64";
        let both = [("CONFIG_CPU_ISOLATION", "y"), ("CONFIG_NO_HZ_FULL", "y")];
        for parameter in [&cpus::MANAGED_IRQ, &cpus::NOHZ] {
            assert_eq!(support(parameter, debian, &both), "present", "{}", parameter.name);
            assert_eq!(support(parameter, "linux-lts", &both), "undecided", "{}", parameter.name);
        }
        // The option is younger than the parameter.
        let no_isolation = [("CONFIG_CPU_ISOLATION", "n")];
        assert_eq!(support(&cpus::DOMAIN, "2.6.32-122-rtai", &no_isolation), "present");
        let without = "built without CONFIG_CPU_ISOLATION";
        assert_eq!(support(&cpus::DOMAIN, rtai, &no_isolation), without);
    }

    #[test]
    fn a_parameter_that_stable_releases_got_later_is_undecided_in_their_series_only() {
        let (rtai, vendor) = ("2.6.32-122-rtai", "4.18.0-553.el8.x86_64");
        let smt = [("CONFIG_SCHED_SMT", "y")];
        for (parameter, release, options, expected) in [
            (&power::NOSMT, rtai, &[][..], "Linux 4.19 introduced it"),
            (&power::NOSMT, rtai, &smt, "Linux 4.19 introduced it"),
            (&power::NOSMT, "4.15.18", &[], "Linux 4.19 introduced it"),
            (&power::NOSMT, "4.14.50-rtai", &[], "undecided"),
            (&power::NOSMT, "4.14.50-rtai", &[("CONFIG_HOTPLUG_SMT", "y")], "present"),
            (&power::NOSMT, vendor, &[], "undecided"),
            (&power::NOSMT, "5.4.258-rtai-amd64", &[], "present"),
            (&power::MITIGATIONS, "4.18.20", &[], "Linux 5.2 introduced it"),
            (&power::MITIGATIONS, "4.19.89-xeno-3", &[], "undecided"),
            (&power::MITIGATIONS, vendor, &[], "undecided"),
            (&power::MITIGATIONS, "5.4.0-150-generic", &[], "present"),
            (&power::INTEL_PSTATE, rtai, &[], "Linux 3.9 introduced it"),
            (&power::INTEL_PSTATE, "2.6.32-754.el6.x86_64", &[], "undecided"),
            (&power::INTEL_PSTATE, "3.10.0-1160.el7.x86_64", &[], "present"),
        ] {
            let name = parameter.name;
            assert_eq!(support(parameter, release, options), expected, "{name} {release}");
        }
    }

    #[test]
    fn a_parameter_of_another_architecture_is_missing() {
        let options = BTreeMap::new();
        let facts = KernelFacts { options: &options, arch: Some("aarch64"), release: None };
        assert!(matches!(power::IDLE.support(&facts), ParameterSupport::Missing(_)));
    }
}
