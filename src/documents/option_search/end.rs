//! [`SearchEnd`]: how a search ended. Plain data.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How a search ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "end", rename_all = "kebab-case")]
pub enum SearchEnd {
    /// The least sufficient set was found, and every option of it is needed.
    LeastSet,
    /// The set is sufficient, but some of its options may be superfluous.
    SomeUndecided,
    /// No option is needed.
    NothingNeeded,
    /// Even with every option the goal is missed.
    NotSufficient,
    /// It is unknown whether the goal is met with every option.
    SufficiencyUnknown,
    /// The set that was found did not meet the goal in the end.
    NotConfirmed,
    /// It is unknown whether the goal was met or missed with the result in the end.
    ConfirmationUndecided,
}

impl SearchEnd {
    /// Whether the search has an answer.
    #[must_use]
    pub fn is_answer(&self) -> bool {
        matches!(self, SearchEnd::LeastSet | SearchEnd::SomeUndecided | SearchEnd::NothingNeeded)
    }
}

impl fmt::Display for SearchEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SearchEnd::LeastSet => {
                "this set is sufficient and 1-minimal: if any one of its options is left out, the \
                 goal is missed"
            }
            SearchEnd::SomeUndecided => {
                "this set is sufficient; the measurements do not decide whether all of its options \
                 are needed"
            }
            SearchEnd::NothingNeeded => "the goal is met without any option",
            SearchEnd::NotSufficient => "the goal is missed even with every option",
            SearchEnd::SufficiencyUnknown => {
                "no answer: the measurements do not decide whether the goal is met with every \
                 option"
            }
            SearchEnd::NotConfirmed => {
                "no answer: when the set was measured again at the end, it did not meet the goal; \
                 the machine may have changed during the search"
            }
            SearchEnd::ConfirmationUndecided => {
                "no answer: the result was measured again at the end, and these measurements do \
                 not decide whether the goal is met"
            }
        })
    }
}
