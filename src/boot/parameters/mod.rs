//! Kernel parameters that isolate CPUs, each with a page for `explain`. Pure: a parameter computes
//! its value from the CPUs.

mod clocks;
mod cpus;
mod power;
mod watchdogs;

use super::document::{SkipReason, SkippedParameter, UnknownReason};
use crate::causes::Cause;
use crate::change::Risk;
use cpushield_linux::CpuSet;
use cpushield_linux::text::cmdline;
use cpushield_linux::text::kernel_version::KernelVersion;
use std::collections::BTreeMap;

/// When a parameter is proposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterOffer {
    /// Always: it makes shields possible, and costs little while no shield is active.
    Always,
    /// When the user named the CPUs: it keeps other work off them permanently.
    ForNamedCpus,
    /// Only when the user requests it by name, and why.
    OnRequest(&'static str),
    /// Never by this tool, and why.
    Never(&'static str),
}

/// One kernel parameter.
#[derive(Debug)]
pub struct KernelParameter {
    /// Its name for `--on` and `explain`.
    pub name: &'static str,
    /// Its name on the kernel's command line.
    pub keyword: &'static str,
    /// One line for lists.
    pub summary: &'static str,
    /// The page of `explain`: why it helps, its cost, its sources.
    pub page: &'static str,
    /// The causes of interruptions that it removes.
    pub removes: &'static [Cause],
    /// What it can harm.
    pub risk: Risk,
    /// When it is proposed.
    pub offer: ParameterOffer,
    /// Kernel options of which one must be set; empty: every kernel knows it.
    pub needs: &'static [&'static str],
    /// The first kernel that knows it, for kernels whose configuration cannot be read; `None`:
    /// every supported kernel knows it, or the version is unknown.
    pub since: Option<KernelVersion>,
    /// Architectures that know it, as in `uname -m`; empty: all.
    pub arches: &'static [&'static str],
    /// What has the same effect on the running kernel, if anything has.
    pub substitute: Option<&'static str>,
    /// The text after the equals sign; `None` for a word without one.
    pub value: fn(&ParameterTarget) -> Option<String>,
}

/// Which CPUs the parameters are for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParameterTarget {
    /// CPUs that are shielded or may be later.
    pub cpus: CpuSet,
    /// All other possible CPUs (`/sys/devices/system/cpu/possible`).
    pub rest: CpuSet,
}

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

/// The parameter of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static KernelParameter> {
    PARAMETERS.iter().copied().find(|parameter| parameter.name == name)
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

impl KernelParameter {
    /// The word for the command line.
    #[must_use]
    pub fn word(&self, target: &ParameterTarget) -> String {
        match (self.value)(target) {
            Some(value) => format!("{}={value}", self.keyword),
            None => self.keyword.to_owned(),
        }
    }

    /// The document that says why it is left out.
    pub(super) fn skip(&self, reason: SkipReason) -> SkippedParameter {
        SkippedParameter { name: self.name.to_owned(), reason }
    }

    /// Why a kernel does not know it; `None` when it does, or when neither its configuration nor
    /// its version is known. The configuration wins over the version, because distributions
    /// backport parameters.
    #[must_use]
    pub fn unknown_to(
        &self,
        config: &BTreeMap<String, String>,
        arch: Option<&str>,
        version: Option<KernelVersion>,
    ) -> Option<UnknownReason> {
        if let Some(arch) =
            arch.filter(|arch| !self.arches.is_empty() && !self.arches.contains(arch))
        {
            return Some(UnknownReason::Arch { arch: arch.to_owned() });
        }
        if let (true, Some(since), Some(version)) = (config.is_empty(), self.since, version)
            && version < since
        {
            return Some(UnknownReason::too_old(since));
        }
        if config.is_empty() || self.needs.is_empty() {
            return None;
        }
        let has_option =
            self.needs.iter().any(|option| config.get(*option).is_some_and(|value| value == "y"));
        (!has_option).then(|| UnknownReason::NotBuilt { options: self.needs.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::line;
    use std::collections::BTreeSet;

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
