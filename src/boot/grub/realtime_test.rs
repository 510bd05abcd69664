//! The test for real-time kernels in generated shell scripts: the same names and options as in the
//! survey. Pure.

use crate::survey::{COKERNEL_NAMES, REALTIME_OPTIONS};

/// The patterns of releases with a co-kernel, for the shell's `case`.
pub(in crate::boot) fn cokernel_names() -> String {
    COKERNEL_NAMES.iter().map(|(pattern, _)| *pattern).collect::<Vec<_>>().join("|")
}

/// An extended regular expression for a line of a configuration that only real-time kernels have.
pub(in crate::boot) fn realtime_options() -> String {
    let names: Vec<&str> = REALTIME_OPTIONS.iter().map(|(name, _)| *name).collect();
    format!("({})=y", names.join("|"))
}
