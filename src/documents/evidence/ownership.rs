//! Whose the interruptions of a program that sleeps were, and how late it was woken. Pure data.

use super::IpiOrigin;
use crate::causes::{Cause, Culprit};
use crate::documents::count_text::many;
use crate::documents::time_text::measured;
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Whose an interruption is. Of several parts, the last in this list decides.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Sentence,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[names]
pub enum Owner {
    /// The workload's own: its timers, wake-ups, system calls and faults.
    Own,
    /// The tick.
    Tick,
    /// The evidence does not tell.
    Unassigned,
    /// Anything else.
    Foreign,
}

/// The interruptions of a CPU by owner, and the delays of the workload there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OwnershipEvidence {
    /// The sum of each owner; owners without an interruption are not listed.
    pub sums: Vec<OwnerSum>,
    /// What the interruptions consist of, by owner, most frequent first.
    pub rows: Vec<OwnedRow>,
    /// How often a thread of the workload began to run after it had slept.
    pub activations: u64,
    /// How long that took.
    pub delays: ActivationDelays,
    /// Whether records of armed timers, wake-ups or senders are missing.
    pub partial: bool,
}

/// The interruptions of one owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OwnerSum {
    /// The owner.
    pub owner: Owner,
    /// Whether they were harmless: over while the workload slept, before its next timer was due.
    pub harmless: bool,
    /// Their number.
    pub count: u64,
    /// Their time in nanoseconds.
    pub time_ns: u64,
    /// The longest, in nanoseconds.
    pub max_ns: u64,
}

/// Parts of interruptions with one owner, cause and culprit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OwnedRow {
    /// The owner.
    pub owner: Owner,
    /// See [`OwnerSum::harmless`].
    pub harmless: bool,
    /// The cause.
    pub cause: Cause,
    /// The culprit.
    #[serde(with = "crate::with_text")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::with_text::WithText<Culprit>"))]
    pub culprit: Culprit,
    /// Who woke the workload, sent the interrupt or the signal, or armed the timer; `None` if that
    /// is unknown or meaningless.
    #[serde(default, with = "crate::with_text::option", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::with_text::WithText<IpiOrigin>>")
    )]
    pub by: Option<IpiOrigin>,
    /// Whether `by` is a thread of the workload's process on another CPU.
    pub same_process: bool,
    /// How often it ran.
    pub count: u64,
    /// Its own time in nanoseconds.
    pub time_ns: u64,
    /// The longest interruption with it, in nanoseconds.
    pub max_ns: u64,
}

/// The delays of activations: from when the timer was due (without a timer: from the wake-up) until
/// the thread ran.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ActivationDelays {
    /// Activations without a timer whose due time is known, measured from the wake-up on.
    pub by_wake: u64,
    /// Activations by a timer that expired on another CPU.
    pub elsewhere: u64,
    /// Activations that something foreign delayed.
    pub foreign: u64,
    /// The longest delays, longest first.
    pub worst: Vec<ActivationDelay>,
}

/// One delay, in nanoseconds, with its parts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ActivationDelay {
    /// When the thread ran, in nanoseconds since the start of the span.
    pub at_ns: u64,
    /// The thread.
    pub tid: i32,
    /// The delay.
    pub delay_ns: u64,
    /// The CPU was idle, or left an idle state.
    pub idle_ns: u64,
    /// Something foreign ran, or something that cannot be assigned.
    pub foreign_ns: u64,
    /// The tick ran.
    pub tick_ns: u64,
    /// The rest: the workload's own timer and switch.
    pub own_ns: u64,
    /// The CPU on which the timer expired, if that was another one.
    pub elsewhere: Option<usize>,
}

impl fmt::Display for ActivationDelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", measured(self.delay_ns))?;
        let parts = [
            (self.idle_ns, "idle"),
            (self.foreign_ns, "foreign"),
            (self.tick_ns, "tick"),
            (self.own_ns, "own"),
        ];
        let parts = parts.into_iter().filter(|(ns, _)| *ns > 0);
        let mut parts: Vec<_> =
            parts.map(|(ns, name)| format!("{name} {}", measured(ns))).collect();
        parts.extend(self.elsewhere.map(|cpu| format!("the timer expired on CPU {cpu}")));
        write!(f, " ({})", parts.join(", "))
    }
}

impl OwnershipEvidence {
    /// The sum of an owner that counts.
    #[must_use]
    pub fn sum(&self, owner: Owner) -> Option<&OwnerSum> {
        self.sums.iter().find(|sum| sum.owner == owner && !sum.harmless)
    }

    /// Foreign interruptions, also harmless ones, and activations whose timer expired elsewhere.
    #[must_use]
    pub fn all_foreign(&self) -> u64 {
        let foreign = self.sums.iter().filter(|sum| sum.owner == Owner::Foreign);
        foreign.map(|sum| sum.count).sum::<u64>() + self.delays.elsewhere
    }
}

/// The ticks that a verdict leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TickShare {
    /// Their number.
    pub count: u64,
    /// The longest, in nanoseconds.
    pub max_ns: u64,
}

impl fmt::Display for TickShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "apart from {}, longest {}", many(self.count, "tick"), measured(self.max_ns))
    }
}

/// Why the split of the interruptions proves nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "doubt", rename_all = "kebab-case")]
pub enum OwnershipDoubt {
    /// whose the interruptions were could not be seen.
    Unseen,
    /// {count} neither certainly the program's own nor certainly foreign.
    #[with(count = many(*count, "interruption"))]
    Unassigned {
        /// How many.
        count: u64,
    },
    /// {times} of the program; fewer than {least} prove nothing.
    #[with(times = many(*activations, "activation"))]
    FewActivations {
        /// How often.
        activations: u64,
        /// How often it must be at least.
        least: u64,
    },
    /// records of armed timers, wake-ups or senders are missing.
    Partial,
}
