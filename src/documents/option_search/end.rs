//! [`SearchEnd`]: how a search ended. Plain data.

use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};

/// How a search ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "end", rename_all = "kebab-case")]
pub enum SearchEnd {
    /// this set is sufficient and 1-minimal: if any one of its options is left out, the goal is
    /// missed.
    LeastSet,
    /// this set is sufficient; the measurements do not decide whether all of its options are
    /// needed.
    SomeUndecided,
    /// the goal is met without any option.
    NothingNeeded,
    /// the goal is missed even with every option.
    NotSufficient,
    /// no answer: the measurements do not decide whether the goal is met with every option.
    SufficiencyUnknown,
    /// no answer: when the set was measured again at the end, it did not meet the goal; the machine
    /// may have changed during the search.
    NotConfirmed,
    /// no answer: the result was measured again at the end, and these measurements do not decide
    /// whether the goal is met.
    ConfirmationUndecided,
}

impl SearchEnd {
    /// Whether the search has an answer.
    #[must_use]
    pub fn is_answer(&self) -> bool {
        matches!(self, SearchEnd::LeastSet | SearchEnd::SomeUndecided | SearchEnd::NothingNeeded)
    }
}
