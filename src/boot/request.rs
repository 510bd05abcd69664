//! What the user requests of the next boot: CPUs, kernels and parameters. Plain data.

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

/// The kernel parameters of a row that an experiment has measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeasuredRow {
    /// The row's name.
    pub name: String,
    /// The file with the experiment.
    pub file: String,
    /// The parameters.
    pub parameters: Vec<RequestedParameter>,
    /// The kernels, as a shell pattern: that of the measurement, unless the user names others.
    pub kernels: String,
    /// The CPUs that were measured.
    pub cpus: CpuSet,
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
