//! The kernels of a boot menu: what each was built with, which of them get the parameters, and
//! which parameters they know. Takes the menu's entries and reads the files of these kernels.

use super::document::{BootKernel, KernelRule, UnknownParameter, UnknownReason};
use super::kernel_file;
use super::loaders::{FoundLoader, LoaderEntry};
use super::parameters::KernelParameter;
use crate::glob;
use crate::survey::Machine;
use cpushield_linux::Host;
use cpushield_linux::text::kernel_version::KernelVersion;
use cpushield_linux::text::{cmdline, kconfig, kernel_image};
use std::collections::BTreeMap;

/// How an installed kernel was built.
pub(super) struct KernelBuild {
    /// `CONFIG_NO_HZ_FULL` → `y`; empty when its configuration cannot be read.
    options: BTreeMap<String, String>,
    /// Whether it is a PREEMPT_RT kernel; `None` when unknown.
    pub(super) realtime: Option<bool>,
}

/// Reads how each of these kernels was built, by version.
pub(super) fn read_builds(
    host: &Host,
    machine: &Machine,
    entries: &[&LoaderEntry],
) -> BTreeMap<String, KernelBuild> {
    let mut builds = BTreeMap::new();
    for entry in entries {
        builds.insert(entry.version.clone(), read_build(host, machine, entry));
    }
    builds
}

fn read_build(host: &Host, machine: &Machine, entry: &LoaderEntry) -> KernelBuild {
    let version = entry.version.as_str();
    let running = machine.kernel.release.as_deref() == Some(version);
    let mut options = read_config(host, version);
    if options.is_empty() && running {
        // The running kernel may show it (`/proc/config.gz`).
        options.clone_from(&machine.kernel.config);
    }
    let by_config = (!options.is_empty()).then(|| {
        is_set(&options, "CONFIG_PREEMPT_RT") || is_set(&options, "CONFIG_PREEMPT_RT_FULL")
    });
    // Arch installs no configuration files, so the image is read too.
    let realtime = by_config
        .or_else(|| is_realtime_image(host, entry))
        .or(machine.kernel.realtime.filter(|_| running));
    KernelBuild { options, realtime }
}

fn is_set(options: &BTreeMap<String, String>, option: &str) -> bool {
    options.get(option).is_some_and(|value| value == "y")
}

/// Whether the banner in the kernel's image names PREEMPT_RT; `None` when there is no banner.
fn is_realtime_image(host: &Host, entry: &LoaderEntry) -> Option<bool> {
    let version = &entry.version;
    let mut paths = vec![format!("/boot/vmlinuz-{version}"), format!("/boot/kernel-{version}")];
    if let Some(files) = &entry.files {
        paths.extend(kernel_file::candidate_paths(&entry.place, &files.kernel));
    }
    Some(kernel_image::is_realtime(&kernel_file::read_banner(host, &paths)?))
}

fn read_config(host: &Host, version: &str) -> BTreeMap<String, String> {
    let paths = [format!("/boot/config-{version}"), format!("/usr/lib/modules/{version}/config")];
    let text = paths.iter().find_map(|path| host.read(path).ok());
    text.and_then(|text| kconfig::parse(&text).ok()).unwrap_or_default()
}

/// The kernels of a menu, and which of them get the parameters.
pub(super) struct SelectedKernels<'a> {
    pub(super) entries: Vec<&'a LoaderEntry>,
    pub(super) builds: BTreeMap<String, KernelBuild>,
    pub(super) rule: KernelRule,
    pub(super) arch: Option<&'a str>,
}

impl<'a> SelectedKernels<'a> {
    fn realtime(&self, entry: &LoaderEntry) -> Option<bool> {
        self.builds.get(&entry.version)?.realtime
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

    /// Why a kernel does not know a parameter; `None` when it does.
    fn why_unknown(
        &self,
        parameter: &KernelParameter,
        entry: &LoaderEntry,
    ) -> Option<UnknownReason> {
        let version = KernelVersion::from_release(&entry.version);
        parameter.unknown_to(&self.builds.get(&entry.version)?.options, self.arch, version)
    }

    /// Why none of the chosen kernels knows a parameter; `None` when one of them does.
    pub(super) fn why_unknown_to_all(
        &self,
        parameter: &KernelParameter,
        targets: &[&LoaderEntry],
    ) -> Option<UnknownReason> {
        let reasons: Vec<UnknownReason> =
            targets.iter().filter_map(|entry| self.why_unknown(parameter, entry)).collect();
        (reasons.len() == targets.len()).then(|| reasons.first().cloned()).flatten()
    }

    /// The kernels for the plan, each with those of the parameters that it does not know.
    pub(super) fn describe(&self, parameters: &[&KernelParameter]) -> Vec<BootKernel> {
        let mut kernels = Vec::new();
        for (index, entry) in self.entries.iter().enumerate() {
            let unknown = parameters.iter().filter_map(|parameter| {
                let why = self.why_unknown(parameter, entry)?;
                Some(UnknownParameter { name: parameter.name.to_owned(), why })
            });
            kernels.push(BootKernel {
                version: entry.version.clone(),
                title: entry.title.clone(),
                realtime: self.realtime(entry),
                chosen: self.is_chosen(index, entry),
                panics: has_panic_word(entry),
                unknown: unknown.collect(),
            });
        }
        kernels
    }
}

/// Whether the entry says what happens after a panic.
pub(super) fn has_panic_word(entry: &LoaderEntry) -> bool {
    cmdline::values(&cmdline::parse(&entry.args), "panic").next().is_some()
}

/// One entry of each kernel: the first one that we did not make.
pub(super) fn first_entries(found: &FoundLoader) -> Vec<&LoaderEntry> {
    let mut first: Vec<&LoaderEntry> = Vec::new();
    for entry in found.entries.iter().filter(|entry| !entry.ours) {
        if first.iter().all(|known| known.version != entry.version) {
            first.push(entry);
        }
    }
    first
}
