//! What the user requests of the next boot: CPUs, kernels and parameters. Plain data.

use crate::documents::machine::Machine;
use crate::policy::{RequestedParameter, ShieldRequest};
use cpushield_linux::CpuSet;

/// Which CPUs and which kernels the user wants to prepare.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BootRequest {
    /// The CPUs. Its `tunables` switch single parameters on or off.
    pub shield: ShieldRequest,
    /// The kernels, as a shell pattern; `None` lets the tool choose.
    pub kernels: Option<String>,
    /// Whether parameters of [`ShieldRequest::parameters`] are written that no check knows.
    pub unknown_words: UnknownWords,
}

/// Where the words of a plan come from.
#[derive(Debug, Clone, Copy)]
pub enum WordSource<'a> {
    /// They are chosen for a request.
    Request(&'a BootRequest),
    /// They are given.
    Given(&'a GivenWords),
}

/// Kernel parameters that need not be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenWords {
    /// The parameters.
    pub parameters: Vec<RequestedParameter>,
    /// The kernels, as a shell pattern.
    pub kernels: String,
    /// Whether parameters are accepted that no check knows, or that the kernel does not have.
    pub unknown: UnknownWords,
    /// The CPUs that they are for; empty when unknown. The kernel must start them.
    pub cpus: CpuSet,
    /// The row that an experiment has measured with them; `None`: the user wrote them.
    pub row: Option<MeasuredRow>,
}

impl GivenWords {
    /// The words of an experiment's row, for the kernel of this release, or else the running one.
    #[must_use]
    pub fn of_row(machine: &Machine, release: Option<&str>, words: &[String]) -> GivenWords {
        let request =
            |word: &String| RequestedParameter { word: word.clone(), place: "boot".into() };
        let release = release.or(machine.kernel.release.as_deref());
        GivenWords {
            parameters: words.iter().map(request).collect(),
            kernels: release.unwrap_or_default().to_owned(),
            unknown: UnknownWords::Accept,
            cpus: CpuSet::new(),
            row: None,
        }
    }
}

/// A row of an experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeasuredRow {
    /// Its name.
    pub name: String,
    /// The file with the experiment.
    pub file: String,
    /// Why the row was not measured, or not completely; `None` when nothing is missing.
    pub missing: Option<String>,
}

/// Whether words are accepted that the checks do not know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UnknownWords {
    /// They are an error.
    #[default]
    Refuse,
    /// They are written.
    Accept,
}

/// Where the CPUs of a plan come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CpuOrigin {
    /// The user requested CPUs.
    Requested,
    /// The user requested none: they are all that could ever be shielded.
    Shieldable,
    /// The user requested none, and `isolcpus=` takes them away from other programs: one core.
    IsolatedCore,
}
