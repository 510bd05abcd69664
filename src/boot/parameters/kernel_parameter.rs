//! What a kernel parameter is: its word for the command line, when it is proposed, and which
//! kernels know it. Pure.

use crate::boot::document::{SkipReason, SkippedParameter, UnknownReason};
use crate::causes::Cause;
use crate::change::Risk;
use cpushield_linux::CpuSet;
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
    pub(crate) fn skip(&self, reason: SkipReason) -> SkippedParameter {
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
