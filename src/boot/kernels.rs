//! The kernels of a boot menu: what each was built with, which of them get the parameters, and
//! which parameters they know. Takes the menu's entries and reads the files of these kernels.

use super::kernel_file;
use super::loaders::{FoundLoader, LoaderEntry};
use super::planned_kernel::PlannedKernel;
use super::running_kernel::running_options;
use crate::documents::boot::{BootKernel, BootWarning, KernelRule};
use crate::documents::machine::{Machine, RealtimeKind};
use crate::glob;
use crate::survey::{named_cokernel, realtime_option};
use cpushield_linux::Host;
use cpushield_linux::text::{cmdline, kernel_image};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// How an installed kernel was built.
pub(super) struct KernelBuild {
    /// `CONFIG_NO_HZ_FULL` → `y`; empty when its configuration cannot be read.
    options: BTreeMap<String, String>,
    /// Whether it is a real-time kernel.
    realtime: RealtimeBuild,
}

/// Whether a kernel was built as a real-time kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
enum RealtimeBuild {
    /// It was, with what makes it one.
    Yes(RealtimeKind),
    No,
    Unknown,
}

impl RealtimeBuild {
    fn of_known(kind: Option<RealtimeKind>) -> RealtimeBuild {
        kind.map_or(RealtimeBuild::No, RealtimeBuild::Yes)
    }
}

impl KernelBuild {
    /// Whether its options are unknown.
    fn lacks_options(&self) -> bool {
        self.options.is_empty()
    }

    /// Whether it is a real-time kernel; `None` when unknown.
    pub(super) fn is_realtime(&self) -> Option<bool> {
        match self.realtime {
            RealtimeBuild::Yes(_) => Some(true),
            RealtimeBuild::No => Some(false),
            RealtimeBuild::Unknown => None,
        }
    }

    /// What makes it a real-time kernel; `None` when nothing does or that is unknown.
    fn realtime_kind(&self) -> Option<RealtimeKind> {
        match self.realtime {
            RealtimeBuild::Yes(kind) => Some(kind),
            RealtimeBuild::No | RealtimeBuild::Unknown => None,
        }
    }
}

/// Reads how each of these kernels was built, by version.
fn read_builds(
    host: &Host,
    machine: &Machine,
    entries: &[&LoaderEntry],
) -> BTreeMap<String, KernelBuild> {
    let build = |entry: &&LoaderEntry| (entry.version.clone(), read_build(host, machine, entry));
    entries.iter().map(build).collect()
}

fn read_build(host: &Host, machine: &Machine, entry: &LoaderEntry) -> KernelBuild {
    let running = machine.kernel.release.as_deref() == Some(entry.release());
    let mut options = kernel_file::read_config(host, &[entry.release(), &entry.version]);
    if options.is_empty() && running {
        options = running_options(machine);
    }
    let mut realtime = find_realtime_build(host, entry, &options);
    if realtime == RealtimeBuild::Unknown && running && machine.kernel.realtime.is_some() {
        realtime = RealtimeBuild::of_known(machine.kernel.realtime_kind);
    }
    KernelBuild { options, realtime }
}

/// Whether a part of a release is that of PREEMPT_RT: `rt`, `rt11`.
fn is_rt_version(part: &str) -> bool {
    part.strip_prefix("rt").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a kernel is a real-time kernel, by its name, its configuration and its image. A name as
/// `2.6.31-rt20` decides only where there is nothing else.
fn find_realtime_build(
    host: &Host,
    entry: &LoaderEntry,
    options: &BTreeMap<String, String>,
) -> RealtimeBuild {
    if let Some(kind) = named_cokernel(&entry.version).or_else(|| named_cokernel(entry.release())) {
        return RealtimeBuild::Yes(kind);
    }
    if !options.is_empty() {
        return RealtimeBuild::of_known(realtime_option(options).map(|(_, kind)| kind));
    }
    // Arch installs no configuration files, so the image is read too.
    let Some(banner) = kernel_file::read_banner(host, &entry.image_paths()) else {
        return match entry.version.split('-').any(is_rt_version) {
            true => RealtimeBuild::Yes(RealtimeKind::PreemptRt),
            false => RealtimeBuild::Unknown,
        };
    };
    let preempt_rt = kernel_image::is_realtime(&banner).then_some(RealtimeKind::PreemptRt);
    RealtimeBuild::of_known(preempt_rt)
}

/// The kernels of a menu, and which of them get the parameters.
pub(super) struct SelectedKernels<'a> {
    pub(super) entries: Vec<&'a LoaderEntry>,
    pub(super) builds: BTreeMap<String, KernelBuild>,
    pub(super) rule: KernelRule,
    pub(super) arch: Option<&'a str>,
}

impl<'a> SelectedKernels<'a> {
    /// Reads how these kernels were built. The rule may depend on that.
    pub(super) fn new(
        host: &Host,
        machine: &'a Machine,
        entries: Vec<&'a LoaderEntry>,
        choose: impl FnOnce(&BTreeMap<String, KernelBuild>) -> KernelRule,
    ) -> SelectedKernels<'a> {
        let builds = read_builds(host, machine, &entries);
        let rule = by_name(choose(&builds), &entries);
        SelectedKernels { entries, builds, rule, arch: machine.kernel.arch.as_deref() }
    }

    fn realtime(&self, entry: &LoaderEntry) -> Option<bool> {
        self.builds.get(&entry.version)?.is_realtime()
    }

    fn is_chosen(&self, index: usize, entry: &LoaderEntry) -> bool {
        match &self.rule {
            KernelRule::Realtime => self.realtime(entry) == Some(true),
            KernelRule::First => index == 0,
            KernelRule::Matching { glob: pattern } => glob::matches(pattern, &entry.version),
        }
    }

    pub(super) fn targets(&self) -> Vec<&'a LoaderEntry> {
        let entries = self.entries.iter().enumerate();
        entries.filter(|(i, entry)| self.is_chosen(*i, entry)).map(|(_, entry)| *entry).collect()
    }

    /// The kernel of an entry, to plan its words.
    pub(super) fn planned(&self, entry: &'a LoaderEntry) -> PlannedKernel<'_> {
        let options = self.builds.get(&entry.version).map(|build| Cow::Borrowed(&build.options));
        PlannedKernel {
            entry: Some(entry),
            release: Some(entry.release()),
            line: Some(&entry.args),
            options: options.unwrap_or_default(),
            arch: self.arch,
        }
    }

    /// Warnings about the chosen kernels whose options are unknown.
    pub(super) fn without_options(&self, targets: &[&LoaderEntry]) -> Vec<BootWarning> {
        let unknown = targets
            .iter()
            .filter(|it| self.builds.get(&it.version).is_none_or(KernelBuild::lacks_options));
        let warn = |entry: &&LoaderEntry| BootWarning::OptionsUnknown {
            version: entry.version.clone(),
            release: entry.release.clone(),
        };
        unknown.map(warn).collect()
    }

    /// The kernels for the plan.
    pub(super) fn describe(&self) -> Vec<BootKernel> {
        let kernel = |(index, entry): (usize, &&LoaderEntry)| BootKernel {
            version: entry.version.clone(),
            release: entry.release.clone(),
            title: entry.title.clone(),
            realtime: self.realtime(entry),
            realtime_kind: self.builds.get(&entry.version).and_then(KernelBuild::realtime_kind),
            chosen: self.is_chosen(index, entry),
            panics: has_panic_word(entry),
        };
        self.entries.iter().enumerate().map(kernel).collect()
    }
}

/// The rule for names of this menu: a pattern that matches only the releases of kernels becomes
/// their names, which the scripts for later kernels know.
fn by_name(rule: KernelRule, entries: &[&LoaderEntry]) -> KernelRule {
    let KernelRule::Matching { glob } = &rule else { return rule };
    if entries.iter().any(|entry| glob::matches(glob, &entry.version)) {
        return rule;
    }
    let chosen = entries.iter().filter(|entry| glob::matches(glob, entry.release()));
    let names: Vec<&str> = chosen.map(|entry| entry.version.as_str()).collect();
    if names.is_empty() { rule } else { KernelRule::Matching { glob: names.join("|") } }
}

/// Whether the entry says what happens after a panic.
pub(super) fn has_panic_word(entry: &LoaderEntry) -> bool {
    cmdline::values(&cmdline::parse(&entry.args), "panic").next().is_some()
}

/// One entry of each kernel: the first one for normal work that we did not make.
pub(super) fn first_entries(found: &FoundLoader) -> Vec<&LoaderEntry> {
    let mut first: Vec<&LoaderEntry> = Vec::new();
    let entries = found.entries.iter().filter(|entry| !entry.ours && entry.purpose.is_none());
    for entry in entries {
        if first.iter().all(|known| known.version != entry.version) {
            first.push(entry);
        }
    }
    first
}
