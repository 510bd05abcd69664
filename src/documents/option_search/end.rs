//! [`SearchEnd`]: how a search ended. Plain data.

use crate::documents::experiment::ListedReason;
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
    /// The culprits were found.
    Culprits,
    /// Some of the culprits may be innocent.
    CulpritsUndecided,
    /// The bad end does not miss the goal now.
    BadNotReproduced,
    /// It is unknown whether the bad end misses the goal now.
    BadUndecided,
    /// The good end does not meet the goal now.
    GoodNotReproduced,
    /// It is unknown whether the good end meets the goal now.
    GoodUndecided,
    /// The culprits that were found did not break the goal in the end.
    CulpritsNotConfirmed,
    /// Nothing was measured: the differences are listed only.
    Listed {
        /// Why.
        why: ListedReason,
    },
}

impl SearchEnd {
    /// Whether the search has an answer.
    #[must_use]
    pub fn is_answer(&self) -> bool {
        match self {
            SearchEnd::LeastSet
            | SearchEnd::SomeUndecided
            | SearchEnd::NothingNeeded
            | SearchEnd::Culprits
            | SearchEnd::CulpritsUndecided
            | SearchEnd::Listed { .. } => true,
            SearchEnd::NotSufficient
            | SearchEnd::SufficiencyUnknown
            | SearchEnd::NotConfirmed
            | SearchEnd::ConfirmationUndecided
            | SearchEnd::BadNotReproduced
            | SearchEnd::BadUndecided
            | SearchEnd::GoodNotReproduced
            | SearchEnd::GoodUndecided
            | SearchEnd::CulpritsNotConfirmed => false,
        }
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
            SearchEnd::Culprits => {
                "together these differences make the machine miss the goal; if any one of them is \
                 left out, the goal is met"
            }
            SearchEnd::CulpritsUndecided => {
                "together these differences make the machine miss the goal; the measurements do \
                 not decide whether all of them are needed for that"
            }
            SearchEnd::BadNotReproduced => {
                "when measured again on this machine, BAD meets the goal: the cause is not among \
                 the differences that cpushield can set"
            }
            SearchEnd::BadUndecided => {
                "no answer: BAD was measured again on this machine, and these measurements do not \
                 decide whether it misses the goal"
            }
            SearchEnd::GoodUndecided => {
                "no answer: GOOD was measured again on this machine, and these measurements do \
                 not decide whether it meets the goal"
            }
            SearchEnd::GoodNotReproduced => {
                "when measured again on this machine, GOOD misses the goal: the cause is not \
                 among the differences that cpushield can set"
            }
            SearchEnd::CulpritsNotConfirmed => {
                "no answer: when these differences were measured again at the end, the goal was \
                 met; the machine may have changed during the search"
            }
            SearchEnd::Listed { why } => return write!(f, "nothing was measured: {why}"),
        })
    }
}
