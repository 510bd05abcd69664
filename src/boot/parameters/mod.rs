//! Kernel parameters that isolate CPUs, each with a page for `explain`, and the slice
//! [`PARAMETERS`]. Pure: a parameter computes its value from the CPUs.

mod clocks;
mod cpus;
mod kernel_parameter;
mod power;
mod watchdogs;

pub use kernel_parameter::{KernelParameter, ParameterOffer, ParameterTarget};

use crate::change::EffectTime;
use crate::registry::{self, ExplainPage, ExplainedEntry, RegistryEntry};
use cpushield_linux::text::cmdline;
use cpushield_linux::text::kernel_version::KernelVersion;

/// Every parameter, in the order in which they are written.
pub const PARAMETERS: &[&KernelParameter] = &[
    &cpus::NOHZ_FULL,
    &cpus::RCU_NOCBS,
    &cpus::RCU_NOCB_POLL,
    &cpus::IRQAFFINITY,
    &cpus::MANAGED_IRQ,
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

/// The words that a kernel of this version knows, judged by version alone.
pub fn known_words(words: &[String], version: Option<KernelVersion>) -> Vec<&str> {
    words.iter().map(String::as_str).filter(|word| is_known(word, version)).collect()
}

fn is_known(word: &str, version: Option<KernelVersion>) -> bool {
    let name = word.split('=').next().unwrap_or_default();
    let parameter = PARAMETERS.iter().find(|it| cmdline::same_name(it.keyword, name));
    let since = parameter.and_then(|it| it.since);
    since.zip(version).is_none_or(|(since, version)| version >= since)
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
            for tunable in crate::tunables::TUNABLES {
                let same = tunable.name() == parameter.name;
                assert!(!same || tunable.page() == parameter.page, "{}", parameter.name);
            }
        }
        assert_eq!(cpus::IRQAFFINITY.word(&target), "irqaffinity=0-1");
        assert_eq!(cpus::MANAGED_IRQ.word(&target), "isolcpus=managed_irq,2-3,8");
    }

    #[test]
    fn a_parameter_is_unknown_to_a_kernel_built_without_its_option() {
        let config =
            |value: &str| BTreeMap::from([("CONFIG_NO_HZ_FULL".to_owned(), value.to_owned())]);
        let why =
            |config: BTreeMap<_, _>| cpus::NOHZ_FULL.unknown_to(&config, Some("x86_64"), None);
        assert_eq!(why(config("y")), None);
        assert_eq!(why(BTreeMap::new()), None);
        assert_eq!(why(config("n")).unwrap().to_string(), "built without CONFIG_NO_HZ_FULL");
        assert!(power::IDLE.unknown_to(&config("y"), Some("aarch64"), None).is_some());
    }
}
