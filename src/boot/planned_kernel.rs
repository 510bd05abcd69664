//! A kernel that gets words: which parameters it has, and whether it needs `isolcpus=`. Pure; its
//! files were read before.

use super::loaders::LoaderEntry;
use super::parameters::{KernelFacts, KernelParameter, ParameterSupport, named};
use super::request::BootRequest;
use super::running_kernel::running_options;
use crate::documents::boot::WantedParameter;
use crate::documents::machine::Machine;
use crate::survey::named_cokernel;
use cpushield_linux::text::kernel_version::KernelVersion;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A kernel that gets words: one of a boot menu, or the running one where there is no menu.
pub(super) struct PlannedKernel<'a> {
    /// Its entry; `None`: it runs.
    pub(super) entry: Option<&'a LoaderEntry>,
    /// Its release, if that is known.
    pub(super) release: Option<&'a str>,
    /// Its command line, if that is known.
    pub(super) line: Option<&'a str>,
    /// How it was built.
    pub(super) options: Cow<'a, BTreeMap<String, String>>,
    pub(super) arch: Option<&'a str>,
}

impl<'a> PlannedKernel<'a> {
    /// The running kernel.
    pub(super) fn running(machine: &'a Machine) -> PlannedKernel<'a> {
        let kernel = &machine.kernel;
        PlannedKernel {
            entry: None,
            release: kernel.release.as_deref(),
            line: kernel.cmdline.as_deref(),
            options: Cow::Owned(running_options(machine)),
            arch: kernel.arch.as_deref(),
        }
    }

    /// Whether it has a parameter.
    pub(super) fn support(&self, parameter: &KernelParameter) -> ParameterSupport {
        let (options, arch, release) = (&*self.options, self.arch, self.release);
        parameter.support(&KernelFacts { options, arch, release })
    }

    /// Whether it refuses partitions with CPUs of `isolcpus=`, or may do so.
    pub(super) fn may_refuse_partition(&self, machine: &Machine) -> bool {
        machine.may_refuse_partition(self.release.and_then(KernelVersion::from_release))
    }

    /// Whether it has no `nohz_full=`, so that `isolcpus=` takes its place where the shield can
    /// have its CPUs. Few kernels with a co-kernel have it, so such a kernel counts unless the
    /// request names it.
    pub(super) fn needs_isolcpus(&self, request: &BootRequest, machine: &Machine) -> bool {
        let Some(nohz_full) = named("nohz-full") else { return false };
        let lacks = match self.support(nohz_full) {
            ParameterSupport::Present => false,
            ParameterSupport::Missing(_) => true,
            ParameterSupport::Undecided => {
                self.release.and_then(named_cokernel).is_some()
                    && request.shield.tunables.choice(nohz_full.name) != Some(true)
            }
        };
        lacks && !self.may_refuse_partition(machine)
    }

    /// Whether the plan takes CPUs out of its scheduling domains.
    pub(super) fn isolates(&self, request: &BootRequest, machine: &Machine) -> bool {
        let Some(domain) = named("isolcpus-domain") else { return false };
        let wanted = match request.shield.tunables.choice(domain.name) {
            Some(wanted) => wanted,
            None => self.needs_isolcpus(request, machine),
        };
        wanted && self.support(domain) == ParameterSupport::Present
    }

    /// Whether a planned parameter is for it.
    pub(super) fn gets(&self, wanted: &WantedParameter) -> bool {
        self.entry.is_none_or(|entry| wanted.is_for(&entry.version))
    }
}

/// Whether one of the kernels has a parameter; undecided when none is known to have it, and one may
/// have it.
pub(super) fn best_support(
    kernels: &[PlannedKernel<'_>],
    parameter: &KernelParameter,
) -> ParameterSupport {
    let mut all: Vec<_> = kernels.iter().map(|kernel| kernel.support(parameter)).collect();
    all.sort_by_key(|support| match support {
        ParameterSupport::Present => 0,
        ParameterSupport::Undecided => 1,
        ParameterSupport::Missing(_) => 2,
    });
    all.into_iter().next().unwrap_or(ParameterSupport::Present)
}
