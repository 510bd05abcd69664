//! Kernel parameters that isolate CPUs, one page each. Pure: a parameter sees which CPUs and which
//! kernel it is for, and gives its value.

mod clocks;
mod cpus;
mod power;
mod watchdogs;

use crate::causes::Cause;
use crate::change::Risk;
use cpushield_linux::CpuSet;
use std::collections::BTreeMap;

/// When a parameter is proposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
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
pub struct Parameter {
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
    pub offer: Offer,
    /// Kernel options of which one must be set; none: every kernel knows it.
    pub needs: &'static [&'static str],
    /// Architectures that know it, as `uname -m` says; none: all.
    pub arches: &'static [&'static str],
    /// What does the same on the running kernel, if anything does.
    pub substitute: Option<&'static str>,
    /// What follows the equals sign; `None` for a word without.
    pub value: fn(&Site) -> Option<String>,
}

/// Which CPUs the parameters are for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// CPUs that are, or may ever be, shielded.
    pub cpus: CpuSet,
    /// All others that could ever be (`/sys/devices/system/cpu/possible`).
    pub rest: CpuSet,
}

/// Every parameter, in the order they are written.
pub const PARAMETERS: &[&Parameter] = &[
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
pub fn named(name: &str) -> Option<&'static Parameter> {
    PARAMETERS.iter().copied().find(|parameter| parameter.name == name)
}

impl Parameter {
    /// The word for the command line.
    #[must_use]
    pub fn word(&self, site: &Site) -> String {
        match (self.value)(site) {
            Some(value) => format!("{}={value}", self.keyword),
            None => self.keyword.to_owned(),
        }
    }

    /// Why a kernel does not know it; `None` when it does, or when its configuration is not there.
    #[must_use]
    pub fn unknown_to(
        &self,
        config: &BTreeMap<String, String>,
        arch: Option<&str>,
    ) -> Option<String> {
        if let Some(arch) =
            arch.filter(|arch| !self.arches.is_empty() && !self.arches.contains(arch))
        {
            return Some(format!("{arch} has no such parameter"));
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
        let site = Site { cpus: "2-3,8".parse().unwrap(), rest: "0-1".parse().unwrap() };
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
        let why = |config: BTreeMap<_, _>| cpus::NOHZ_FULL.unknown_to(&config, Some("x86_64"));
        assert_eq!(why(config("y")), None);
        assert_eq!(why(BTreeMap::new()), None);
        assert_eq!(why(config("n")).unwrap(), "built without CONFIG_NO_HZ_FULL");
        assert!(power::IDLE.unknown_to(&config("y"), Some("aarch64")).is_some());
    }
}
