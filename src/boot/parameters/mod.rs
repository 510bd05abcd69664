//! Kernel parameters that isolate CPUs, one page each. Pure: a parameter sees which CPUs and which
//! kernel it is for, and gives its value.

mod clocks;
mod cpus;
mod power;
mod watchdogs;

use crate::causes::Cause;
use crate::change::Risk;
use cpushield_linux::CpuSet;
use cpushield_linux::text::cmdline;
use cpushield_linux::text::kernel_version::KernelVersion;
use std::collections::BTreeMap;

/// When a parameter is proposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterOffer {
    /// Always: it makes shields possible and costs little while there is none.
    Always,
    /// When the user named the CPUs: it keeps others away from them for good.
    ForNamedCpus,
    /// Only when the user asks for it by name, and why.
    Asked(&'static str),
    /// Not by this tool, and why.
    Never(&'static str),
}

/// One kernel parameter.
#[derive(Debug)]
pub struct KernelParameter {
    /// Its name here, as `--on` and `explain` know it.
    pub name: &'static str,
    /// Its name to the kernel.
    pub keyword: &'static str,
    /// One line for lists.
    pub summary: &'static str,
    /// The page of `explain`: why, what it costs, sources.
    pub page: &'static str,
    /// Causes it removes.
    pub removes: &'static [Cause],
    /// What it can harm.
    pub risk: Risk,
    /// When it is proposed.
    pub offer: ParameterOffer,
    /// Kernel options of which one must be set; none: every kernel knows it.
    pub needs: &'static [&'static str],
    /// The first kernel that knows it, where its configuration cannot be read; `None`: older than
    /// what this tool is for, or not known.
    pub since: Option<KernelVersion>,
    /// Architectures that know it, as `uname -m` says; none: all.
    pub arches: &'static [&'static str],
    /// What does the same on the running kernel, if anything does.
    pub substitute: Option<&'static str>,
    /// What follows the equals sign; `None` for a word without.
    pub value: fn(&ParameterTarget) -> Option<String>,
}

/// Which CPUs the parameters are for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParameterTarget {
    /// CPUs that are, or may ever be, shielded.
    pub cpus: CpuSet,
    /// All others that could ever be (`/sys/devices/system/cpu/possible`).
    pub rest: CpuSet,
}

/// Every parameter, in the order they are written.
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

/// The words that a kernel of this version knows, as far as versions say so.
pub fn known_words(words: &[String], version: Option<KernelVersion>) -> Vec<&str> {
    let is_known = |word: &&str| {
        let name = word.split('=').next().unwrap_or_default();
        let parameter = PARAMETERS.iter().find(|it| cmdline::same_name(it.keyword, name));
        let since = parameter.and_then(|it| it.since);
        since.zip(version).is_none_or(|(since, version)| version >= since)
    };
    words.iter().map(String::as_str).filter(is_known).collect()
}

impl KernelParameter {
    /// The word for the command line.
    #[must_use]
    pub fn word(&self, site: &ParameterTarget) -> String {
        match (self.value)(site) {
            Some(value) => format!("{}={value}", self.keyword),
            None => self.keyword.to_owned(),
        }
    }

    /// Why a kernel does not know it; `None` when it does, or when neither its configuration nor
    /// its version is known. The configuration decides where it is there: distributions take
    /// parameters over into older kernels.
    #[must_use]
    pub fn unknown_to(
        &self,
        config: &BTreeMap<String, String>,
        arch: Option<&str>,
        version: Option<KernelVersion>,
    ) -> Option<String> {
        if let Some(arch) =
            arch.filter(|arch| !self.arches.is_empty() && !self.arches.contains(arch))
        {
            return Some(format!("{arch} has no such parameter"));
        }
        if let (true, Some(since), Some(version)) = (config.is_empty(), self.since, version)
            && version < since
        {
            return Some(format!("it came with Linux {since}"));
        }
        let set = |option: &&&str| config.get(**option).is_some_and(|value| value == "y");
        if config.is_empty() || self.needs.is_empty() || self.needs.iter().any(|o| set(&o)) {
            return None;
        }
        Some(format!("built without {}", self.needs.join(" or ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::line;
    use std::collections::BTreeSet;

    #[test]
    fn every_parameter_has_its_own_name_a_page_with_its_source_and_plain_words() {
        let site = ParameterTarget { cpus: "2-3,8".parse().unwrap(), rest: "0-1".parse().unwrap() };
        let mut names = BTreeSet::new();
        for parameter in PARAMETERS {
            assert!(names.insert(parameter.name), "{}", parameter.name);
            assert!(parameter.page.contains("\n\nSource: "), "{}", parameter.name);
            let words = parameter.word(&site);
            assert!(line::plain(&words), "{words}");
            for tunable in crate::tunables::TUNABLES {
                let same = tunable.name() == parameter.name;
                assert!(!same || tunable.page() == parameter.page, "{}", parameter.name);
            }
        }
        assert_eq!(cpus::IRQAFFINITY.word(&site), "irqaffinity=0-1");
        assert_eq!(cpus::MANAGED_IRQ.word(&site), "isolcpus=managed_irq,2-3,8");
    }

    #[test]
    fn a_kernel_without_the_option_is_said_so_and_one_without_a_configuration_is_not() {
        let config =
            |value: &str| BTreeMap::from([("CONFIG_NO_HZ_FULL".to_owned(), value.to_owned())]);
        let why =
            |config: BTreeMap<_, _>| cpus::NOHZ_FULL.unknown_to(&config, Some("x86_64"), None);
        assert_eq!(why(config("y")), None);
        assert_eq!(why(BTreeMap::new()), None);
        assert_eq!(why(config("n")).unwrap(), "built without CONFIG_NO_HZ_FULL");
        assert!(power::IDLE.unknown_to(&config("y"), Some("aarch64"), None).is_some());
    }
}
