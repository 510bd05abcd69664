//! [`CpuCandidate`]: a set of CPUs that is worth trying. Plain data.

use super::{CandidateReason, ChoiceReason, ChoiceWarning};
use crate::with_text;
use cpushield_linux::CpuSet;
use serde::Serialize;

/// A set of CPUs to try.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuCandidate {
    /// The CPUs, with the siblings that stay idle.
    pub cpus: CpuSet,
    /// Why it is worth trying.
    #[serde(serialize_with = "with_text::serialize")]
    #[cfg_attr(feature = "schema", schemars(with = "with_text::WithText<CandidateReason>"))]
    pub reason: CandidateReason,
    /// Why the rules choose these CPUs.
    #[serde(serialize_with = "with_text::list::serialize")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<with_text::WithText<ChoiceReason>>"))]
    pub why: Vec<ChoiceReason>,
    /// What speaks against it.
    #[serde(serialize_with = "with_text::list::serialize")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<with_text::WithText<ChoiceWarning>>"))]
    pub warnings: Vec<ChoiceWarning>,
}

impl CpuCandidate {
    /// Its reasons in sentences.
    #[must_use]
    pub fn explain(&self) -> String {
        let sentences = self.why.iter().map(ToString::to_string);
        [self.reason.to_string()].into_iter().chain(sentences).collect::<Vec<_>>().join(" ")
    }
}
