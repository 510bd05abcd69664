//! The planned parameters and the command lines of the kernels → whether each kernel can take the
//! words, and warnings about those that it takes but that do not help. Nothing is written.

use super::error::BootError;
use super::line;
use super::lint::{LintTarget, lint_line};
use super::loaders::{BootLoader, LoaderEntry};
use super::running_kernel::shows_smt;
use crate::documents::boot::{BootWarning, LintFinding, WantedParameter};
use crate::documents::command_line_fault::CommandLineFault;
use crate::survey::{IsolationKind, isolation_setup, list_rules};
use cpushield_linux::text::kernel_version::KernelVersion;
use cpushield_linux::{CpuSet, Host};

/// Planned parameters, and the machine that they are for.
pub(super) struct LinesToCheck<'a> {
    pub(super) host: &'a Host,
    pub(super) parameters: &'a [WantedParameter],
    pub(super) arch: Option<&'a str>,
    pub(super) possible: &'a CpuSet,
    pub(super) online: &'a CpuSet,
}

impl LinesToCheck<'_> {
    /// Checks that every chosen kernel can take the words together with those that it already has.
    ///
    /// # Errors
    /// A kernel would ignore words, or they contradict those that it already has.
    pub(super) fn check_entries(
        &self,
        loader: Option<&dyn BootLoader>,
        targets: &[&LoaderEntry],
    ) -> Result<Vec<BootWarning>, BootError> {
        let mut words = self.parameters.iter().map(|wanted| &wanted.word);
        if let Some(word) = words.find(|word| !line::is_plain(word)) {
            let what = "the parameter".to_owned();
            return Err(BootError::NotPlain { what, text: word.clone() });
        }
        let mut warnings = Vec::new();
        for entry in targets {
            let words = words_of(self.parameters, &entry.version);
            self.check_conflicts(loader, entry, &words)?;
            self.check_lists(loader, entry, &words)?;
            let found = self.find_new(&entry.args, &words, entry.release());
            let place = |finding: &LintFinding| {
                let theirs = finding.words().into_iter().find(|word| !is_ours(&words, word));
                let source = theirs.and_then(|word| self.source(loader, line::name_of(word)));
                source.or_else(|| Some(entry.place.clone()))
            };
            warnings.extend(self.sort(&entry.version, found, place)?);
        }
        Ok(warnings)
    }

    /// Checks the words for a kernel whose command line is not in a menu.
    ///
    /// # Errors
    /// The kernel would ignore one of the words.
    pub(super) fn check_words(&self, version: &str) -> Result<Vec<BootWarning>, BootError> {
        let found = self.find_new("", &words_of(self.parameters, version), version);
        self.sort(version, found, |_| None)
    }

    /// The file and line from which a generated menu has this parameter.
    fn source(&self, loader: Option<&dyn BootLoader>, keyword: &str) -> Option<String> {
        loader?.generator()?.source(self.host, keyword)
    }

    /// What is wrong with the line with the words, and not with the line without them.
    fn find_new(&self, present: &str, words: &[String], version: &str) -> Vec<LintFinding> {
        let (possible, online, arch) = (self.possible, self.online, self.arch);
        let list_rules = list_rules(version);
        let version = KernelVersion::from_release(version);
        let (running, smt) = (false, shows_smt(self.host));
        let target = LintTarget { possible, online, running, smt, version, list_rules, arch };
        new_findings(present, words, &target)
    }

    /// Refuses the first finding because of which words would have no effect; the others become
    /// warnings.
    fn sort(
        &self,
        version: &str,
        found: Vec<LintFinding>,
        place: impl Fn(&LintFinding) -> Option<String>,
    ) -> Result<Vec<BootWarning>, BootError> {
        let mut warnings = Vec::new();
        for finding in found {
            if defeats(&finding) {
                return Err(self.defeated(version, place(&finding), finding));
            }
            warnings.push(BootWarning::Finding { version: version.to_owned(), finding });
        }
        Ok(warnings)
    }

    fn check_conflicts(
        &self,
        loader: Option<&dyn BootLoader>,
        entry: &LoaderEntry,
        words: &[String],
    ) -> Result<(), BootError> {
        // GRUB puts `BOOT_IMAGE=` and the kernel's file in front.
        let text = format!("BOOT_IMAGE=/boot/vmlinuz-{} {}", entry.version, entry.args);
        let Err(conflict) = line::merge(&text, words, line::limit(self.arch), self.possible.last())
        else {
            return Ok(());
        };
        let keyword = match &conflict {
            line::ParameterConflict::Differs { present, .. }
            | line::ParameterConflict::Mismatch { present, .. } => Some(line::name_of(present)),
            _ => None,
        };
        let place = keyword.and_then(|keyword| self.source(loader, keyword));
        Err(BootError::Conflict {
            version: entry.version.clone(),
            place: place.unwrap_or_else(|| entry.place.clone()),
            why: conflict.to_string(),
        })
    }

    /// A kernel must not get a list that it ignores. And a kernel that has one list for
    /// `nohz_full=` and `isolcpus=` must not get two: it would take ours, which comes first, and
    /// drop the isolation that the user configured.
    fn check_lists(
        &self,
        loader: Option<&dyn BootLoader>,
        entry: &LoaderEntry,
        words: &[String],
    ) -> Result<(), BootError> {
        if KernelVersion::from_release(entry.release()).is_none() {
            return Ok(());
        }
        let rules = list_rules(entry.release());
        let Some(fault) = line::first_ignored(&entry.args, words, self.possible, rules) else {
            return Ok(());
        };
        if fault.words().into_iter().all(|word| is_ours(words, word)) {
            let finding = LintFinding::NotAccepted { fault, messages: Vec::new() };
            return Err(self.defeated(&entry.version, Some(entry.place.clone()), finding));
        }
        Err(BootError::ListsDiffer {
            version: entry.version.clone(),
            place: self.source(loader, "isolcpus").unwrap_or_else(|| entry.place.clone()),
            isolcpus: isolation_setup(&entry.args, self.possible, rules)
                .cpus(IsolationKind::Domain),
            fault: Box::new(fault),
        })
    }

    /// The refusal of words that a finding defeats.
    fn defeated(&self, version: &str, place: Option<String>, finding: LintFinding) -> BootError {
        let named = finding.words();
        let ours = self.parameters.iter().filter(|it| named.contains(&it.word.as_str()));
        let words = ours.map(|it| format!("{} ({})", it.word, it.reason)).collect();
        BootError::Defeated { version: version.to_owned(), words, place, finding: finding.into() }
    }
}

/// The words of a kernel.
pub(super) fn words_of(parameters: &[WantedParameter], version: &str) -> Vec<String> {
    parameters.iter().filter(|it| it.is_for(version)).map(|it| it.word.clone()).collect()
}

/// What is wrong with a line that gets words, and not with the line without them.
pub(super) fn new_findings(
    present: &str,
    words: &[String],
    target: &LintTarget<'_>,
) -> Vec<LintFinding> {
    let before = lint_line(present, target);
    let mut found = lint_line(&line::with_missing(present, words), target);
    found.retain(|finding| !before.contains(finding));
    found
}

/// Whether a kernel would ignore a word because of the finding, or start without CPUs that a word
/// names. Others are only advice. A word that no check knows was accepted or refused before.
pub(super) fn defeats(finding: &LintFinding) -> bool {
    match finding {
        LintFinding::NotAccepted { fault, .. } => match fault {
            CommandLineFault::ListDiffers { .. }
            | CommandLineFault::Replaced { .. }
            | CommandLineFault::BeyondLast { .. }
            | CommandLineFault::PartUnknown { .. } => true,
            CommandLineFault::NoSuchCpus { .. } | CommandLineFault::InterruptsOnIsolated { .. } => {
                false
            }
        },
        LintFinding::BeyondLast { .. }
        | LintFinding::NotAList { .. }
        | LintFinding::EmptyList { .. }
        | LintFinding::CpusNotStarted { .. }
        | LintFinding::NoValue { .. }
        | LintFinding::NoHousekeeping { .. }
        | LintFinding::NohzOff { .. }
        | LintFinding::Overridden { .. }
        | LintFinding::Ineffective { .. } => true,
        LintFinding::Unchecked { .. }
        | LintFinding::InterruptsWithoutTick { .. }
        | LintFinding::UnknownValue { .. }
        | LintFinding::Unreleased { .. }
        | LintFinding::UnknownFlag { .. }
        | LintFinding::Repeated { .. }
        | LintFinding::OtherValue { .. }
        | LintFinding::NoPartition { .. }
        | LintFinding::NoCpusets { .. }
        | LintFinding::Misspelled { .. }
        | LintFinding::UnknownToKernel { .. }
        | LintFinding::NotMainline { .. }
        | LintFinding::NotRequested { .. }
        | LintFinding::NotInForce { .. } => false,
    }
}

fn is_ours(words: &[String], word: &str) -> bool {
    words.iter().any(|our| our == word)
}
