//! What a kernel parameter is: its word for the command line, when it is proposed, and which
//! kernels know it. Pure.

use crate::causes::Cause;
use crate::change::Risk;
use crate::documents::boot::{ParameterSkipReason, SkippedParameter, UnknownReason};
use crate::survey::named_cokernel;
use cpushield_linux::CpuSet;
use cpushield_linux::text::first_releases::{CPU_ISOLATION_OPTION, SOFTLOCKUP_DETECTOR_OPTION};
use cpushield_linux::text::kernel_version::{KernelVersion, may_be_vendor_build};
use std::collections::BTreeMap;

/// When a parameter is proposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterOffer {
    /// Always: it makes shields possible, and costs little while no shield is active.
    Always,
    /// When the user named the CPUs: it keeps other work off them permanently.
    ForNamedCpus,
    /// On kernels that do not have `nohz_full=` and can make such CPUs a partition; on others only
    /// by name, and why.
    WithoutNohzFull(&'static str),
    /// On machines with interrupts that it moves; on others only by name, and why.
    ForManagedIrqs(&'static str),
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
    /// Its name on the kernel command line.
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
    /// Which kernels know it.
    pub kernels: ParameterKernels,
    /// What has the same effect on the running kernel; `None` when nothing does.
    pub substitute: Option<&'static str>,
    /// The text after the equals sign; `None` for a word without one.
    pub value: fn(&ParameterTarget) -> Option<String>,
}

/// Which kernels know a parameter.
#[derive(Debug)]
pub struct ParameterKernels {
    /// Kernel options of which one must be set; empty: every kernel knows it.
    pub needs: &'static [&'static str],
    /// The first kernel that knows it, for kernels whose configuration cannot be read; `None`:
    /// every supported kernel knows it, or the version is unknown.
    pub since: Option<KernelVersion>,
    /// Older series whose later stable releases have it too.
    pub backports: &'static [KernelVersion],
    /// The first kernel that knows the flag in its value, which no option shows.
    pub flag_since: Option<KernelVersion>,
    /// Architectures that know it, as in `uname -m`; empty: all.
    pub arches: &'static [&'static str],
}

/// Every supported kernel.
pub(super) const EVERY_KERNEL: ParameterKernels =
    ParameterKernels { needs: &[], since: None, backports: &[], flag_since: None, arches: &[] };

/// Every supported kernel for x86.
pub(super) const X86_KERNELS: ParameterKernels =
    ParameterKernels { arches: &["x86_64", "i686", "i386"], ..EVERY_KERNEL };

/// What most parameters have.
pub(super) const COMMON: KernelParameter = KernelParameter {
    name: "",
    keyword: "",
    summary: "",
    page: "",
    removes: &[],
    risk: Risk::Low,
    offer: ParameterOffer::Always,
    kernels: EVERY_KERNEL,
    substitute: None,
    value: |_| None,
};

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

    /// Whether this tool never writes it.
    #[must_use]
    pub fn is_never_written(&self) -> bool {
        matches!(self.offer, ParameterOffer::Never(_))
    }

    /// The document that says why it is left out.
    pub(crate) fn skip(&self, reason: ParameterSkipReason) -> SkippedParameter {
        SkippedParameter { name: self.name.to_owned(), reason }
    }

    /// Whether a kernel has it. The configuration wins over the version. The version counts only
    /// for a release that shows no vendor's build, because vendors add parameters to old versions.
    /// In a series of `backports` it decides nothing: a release may hide its last number.
    #[must_use]
    pub fn support(&self, kernel: &KernelFacts) -> ParameterSupport {
        if let Some(arch) = kernel
            .arch
            .filter(|arch| !self.kernels.arches.is_empty() && !self.kernels.arches.contains(arch))
        {
            return ParameterSupport::Missing(UnknownReason::Arch { arch: arch.to_owned() });
        }
        let flag = self
            .kernels
            .flag_since
            .map_or(ParameterSupport::Present, |since| kernel.keeps_flag(since));
        if flag != ParameterSupport::Present {
            return flag;
        }
        let mut needs = self.kernels.needs.to_vec();
        needs.retain(|option| kernel.can_have(option));
        if needs.is_empty() {
            let since = self.kernels.since.filter(|_| self.kernels.needs.is_empty());
            return since.map_or(ParameterSupport::Present, |since| {
                self.with_backports(kernel, kernel.keeps(since))
            });
        }
        if needs.iter().any(|option| kernel.options.get(*option).is_some_and(|it| it == "y")) {
            return ParameterSupport::Present;
        }
        if needs.iter().all(|option| kernel.options.contains_key(*option)) {
            return ParameterSupport::Missing(UnknownReason::NotBuilt { options: needs });
        }
        let by_version = self.kernels.since.map_or(ParameterSupport::Present, |since| {
            self.with_backports(kernel, kernel.reaches(since))
        });
        match by_version {
            ParameterSupport::Present if kernel.may_lack(&needs) => ParameterSupport::Undecided,
            by_version => by_version,
        }
    }

    /// Whether only later stable releases of a kernel's series have it.
    #[must_use]
    pub fn is_backported_to(&self, release: &str) -> bool {
        KernelVersion::from_release(release)
            .is_some_and(|series| self.kernels.backports.contains(&series))
    }

    /// What is known by the version, given that later stable releases of the series may have it.
    fn with_backports(
        &self,
        kernel: &KernelFacts,
        by_version: ParameterSupport,
    ) -> ParameterSupport {
        let backported = kernel.release.is_some_and(|release| self.is_backported_to(release));
        match by_version {
            ParameterSupport::Missing(_) if backported => ParameterSupport::Undecided,
            by_version => by_version,
        }
    }
}

/// Whether a kernel has a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParameterSupport {
    /// It has it.
    Present,
    /// It does not have it, and why.
    Missing(UnknownReason),
    /// Neither its configuration nor its name decides.
    Undecided,
}

/// What the files of a kernel show about it.
#[derive(Debug, Clone, Copy)]
pub struct KernelFacts<'a> {
    /// `CONFIG_NO_HZ_FULL` → `y`; empty when its configuration cannot be read.
    pub options: &'a BTreeMap<String, String>,
    /// The architecture, as in `uname -m`, where known.
    pub arch: Option<&'a str>,
    /// Its release, where known.
    pub release: Option<&'a str>,
}

impl KernelFacts<'_> {
    fn version(&self) -> Option<KernelVersion> {
        KernelVersion::from_release(self.release?)
    }

    /// Whether it has what every kernel has since a version of mainline, whatever its options. A
    /// vendor adds such things to old versions, and removes none from new ones.
    fn keeps(&self, since: KernelVersion) -> ParameterSupport {
        match self.version() {
            Some(version) if version < since => self.reaches(since),
            _ => ParameterSupport::Present,
        }
    }

    /// Whether it has a flag that mainline has since a version. It is unknown without a version.
    fn keeps_flag(&self, since: KernelVersion) -> ParameterSupport {
        match self.version() {
            Some(_) => self.keeps(since),
            None => ParameterSupport::Undecided,
        }
    }

    /// Whether a version cannot show that it has one of these options. The kernels of
    /// distributions have all of them; few kernels with a co-kernel do.
    fn may_lack(&self, options: &[&str]) -> bool {
        options.iter().all(|option| OFF_BY_DEFAULT.contains(option))
            && self.release.is_some_and(|release| named_cokernel(release).is_some())
    }

    /// Whether it has what mainline has since a version.
    fn reaches(&self, since: KernelVersion) -> ParameterSupport {
        match self.version() {
            Some(version) if !self.release.is_none_or(may_be_vendor_build) => {
                match version < since {
                    true => ParameterSupport::Missing(UnknownReason::too_old(since)),
                    false => ParameterSupport::Present,
                }
            }
            _ => ParameterSupport::Undecided,
        }
    }

    /// Whether an option exists in a kernel of this version.
    fn can_have(&self, option: &str) -> bool {
        let since = OPTIONS_SINCE.iter().find(|(name, _)| *name == option);
        let since = since.map(|(_, since)| *since);
        since.zip(self.version()).is_none_or(|(since, version)| version >= since)
    }
}

/// Options that a kernel has only if its configuration requests them (kernel/time/Kconfig and
/// kernel/rcu/Kconfig, 6.12).
const OFF_BY_DEFAULT: &[&str] = &["CONFIG_NO_HZ_FULL", "CONFIG_RCU_NOCB_CPU"];

/// Options that are younger than what they enable: before, every kernel had that.
const OPTIONS_SINCE: &[(&str, KernelVersion)] = &[
    ("CONFIG_CPU_ISOLATION", CPU_ISOLATION_OPTION),
    ("CONFIG_SOFTLOCKUP_DETECTOR", SOFTLOCKUP_DETECTOR_OPTION),
];
