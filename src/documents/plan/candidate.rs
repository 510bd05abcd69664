//! [`CpuCandidate`]: a set of CPUs that is worth trying. Plain data.

use super::{CandidateReason, ChoiceReason, ChoiceWarning};
use crate::documents::count_text::joined;
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
    #[serde(with = "with_text::WithText::<CandidateReason>")]
    pub reason: CandidateReason,
    /// Why the rules choose these CPUs.
    #[serde(with = "with_text::TextList::<ChoiceReason>")]
    pub why: Vec<ChoiceReason>,
    /// What speaks against it.
    #[serde(with = "with_text::TextList::<ChoiceWarning>")]
    pub warnings: Vec<ChoiceWarning>,
}

impl CpuCandidate {
    /// Its reasons in sentences.
    #[must_use]
    pub fn explain(&self) -> String {
        let sentences = self.why.iter().map(ToString::to_string);
        joined([self.reason.to_string()].into_iter().chain(sentences), " ")
    }
}
