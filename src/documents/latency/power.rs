//! [`MeasuredPower`]: the power management of a machine. Figures of machines that differ in it
//! cannot be compared. Plain data.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The power management of the measured CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MeasuredPower {
    /// The driver of their frequencies; `None` without one.
    pub driver: Option<String>,
    /// Their governors, each once; empty without a driver.
    pub governors: Vec<String>,
    /// Whether turbo (boost) is allowed; `None` when it cannot be read.
    pub turbo: Option<bool>,
    /// The driver of their idle states; `None` without one.
    pub idle_driver: Option<String>,
    /// The idle states that one of them may enter, each once; `None` when they cannot be read.
    pub idle_states: Option<Vec<String>>,
}

impl MeasuredPower {
    /// The governors: `performance`, or `none` without a driver.
    #[must_use]
    pub fn governor_text(&self) -> String {
        if self.governors.is_empty() { "none".to_owned() } else { self.governors.join(" and ") }
    }

    /// The idle states that are enabled: `POLL, C1`.
    #[must_use]
    pub fn idle_text(&self) -> String {
        match (&self.idle_states, &self.idle_driver) {
            (Some(states), _) if states.is_empty() => "all disabled".to_owned(),
            (Some(states), _) => states.join(", "),
            (None, Some(_)) => "unknown".to_owned(),
            (None, None) => "no driver".to_owned(),
        }
    }
}

impl fmt::Display for MeasuredPower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let turbo = match self.turbo {
            None => "unknown",
            Some(true) => "allowed",
            Some(false) => "off",
        };
        let (governor, idle) = (self.governor_text(), self.idle_text());
        write!(f, "governor {governor}; turbo {turbo}; idle states: {idle}")
    }
}

/// A size of memory, rounded: kernels of one machine differ by some MiB.
#[must_use]
pub fn memory_size(kib: u64) -> String {
    let tenths = (kib * 10 + (1 << 19)) >> 20;
    format!("{}.{} GiB", tenths / 10, tenths % 10)
}
