//! Checks the kernel parameters of a row of an experiment for the kernel of that row: words that
//! no check knows, words that this kernel lacks, and words with which the CPUs of the row do not
//! start. Writes nothing.

use super::error::BootError;
use super::kernels::{self, SelectedKernels};
use super::lint::{LintTarget, find_unstarted};
use super::loaders::InstalledLoader;
use super::request::UnknownWords;
use super::requested_words::{check_support, find_unknown, refuse};
use super::running_kernel;
use crate::documents::boot::{KernelRule, WordFault};
use crate::documents::machine::Machine;
use crate::policy::RequestedParameter;
use crate::survey::list_rules;
use cpushield_linux::text::cmdline;
use cpushield_linux::text::kernel_version::KernelVersion;
use cpushield_linux::{CpuSet, Host};

/// The kernel parameters of a row.
#[derive(Debug, Clone, Copy)]
pub struct RowWords<'a> {
    /// The release of the row's kernel; `None` is the running one.
    pub kernel: Option<&'a str>,
    /// The parameters.
    pub words: &'a [RequestedParameter],
    /// Whether words are accepted that no check knows.
    pub unknown: UnknownWords,
    /// The CPUs that the row measures.
    pub cpus: &'a CpuSet,
}

impl RowWords<'_> {
    fn version<'a>(&'a self, machine: &'a Machine) -> &'a str {
        self.kernel.or(machine.kernel.release.as_deref()).unwrap_or_default()
    }
}

/// Checks that the words of a row are known.
///
/// # Errors
/// No check knows a word.
pub fn check_row_words(
    host: &Host,
    machine: &Machine,
    row: &RowWords<'_>,
) -> Result<(), BootError> {
    let version = row.version(machine);
    for request in row.words {
        if row.unknown == UnknownWords::Refuse
            && let Some((fault, near)) = find_unknown(host, &request.word, &[version])
        {
            return Err(refuse(request, fault, near));
        }
    }
    Ok(())
}

/// Checks that the kernel of a row can be booted with its words.
///
/// # Errors
/// The kernel does not have a word, or it starts without CPUs of the row.
pub fn check_row_kernel(
    host: &Host,
    machine: &Machine,
    row: &RowWords<'_>,
    menu: Option<&InstalledLoader>,
) -> Result<(), BootError> {
    let version = row.version(machine);
    if row.unknown == UnknownWords::Refuse {
        check_kernel(host, machine, menu, version, row.words)?;
    }
    check_limits(machine, version, row)
}

/// Checks that the kernel of this version has the parameters, as far as its files show.
fn check_kernel(
    host: &Host,
    machine: &Machine,
    menu: Option<&InstalledLoader>,
    version: &str,
    words: &[RequestedParameter],
) -> Result<(), BootError> {
    let entries = menu.map(|(_, found)| kernels::first_entries(found)).unwrap_or_default();
    let Some(entry) = entries.into_iter().find(|entry| entry.release() == version) else {
        return match machine.kernel.release.as_deref() == Some(version) {
            true => check_support(words, |it| running_kernel::support(it, machine)),
            false => Ok(()),
        };
    };
    let kernel = SelectedKernels::new(host, machine, vec![entry], |_| KernelRule::First);
    check_support(words, |it| kernel.support(it, entry))
}

/// Checks that the kernel starts the CPUs of the row. A list of CPUs in another word was checked
/// with the boot.
fn check_limits(machine: &Machine, version: &str, row: &RowWords<'_>) -> Result<(), BootError> {
    let target = LintTarget {
        running: false,
        version: KernelVersion::from_release(version),
        list_rules: list_rules(version),
        ..LintTarget::running(machine)
    };
    for request in row.words {
        let params = cmdline::parse(&request.word);
        if let Some((started, cpus)) = find_unstarted(&target, &params, row.cpus) {
            return Err(refuse(request, WordFault::CpusNotStarted { started, cpus }, Vec::new()));
        }
    }
    Ok(())
}
