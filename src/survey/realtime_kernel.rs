//! Tells real-time kernels: PREEMPT_RT, and kernels with a co-kernel (RTAI, Xenomai), which handles
//! interrupts before Linux does. Takes a release, options or the files of the running kernel. Pure.

use super::RealtimeKind;
use crate::glob;
use std::collections::BTreeMap;

/// Patterns of releases of kernels with a co-kernel: `5.4.258-rtai-amd64`, `2.6.38.8-xenomai+`.
/// They are valid in the shell's `case` too. PREEMPT_RT kernels are not known by name: the
/// suffix `-rt` is used for others as well.
pub const COKERNEL_NAMES: &[(&str, RealtimeKind)] = &[
    ("*[!a-z]rtai*", RealtimeKind::Rtai),
    ("*[!a-z]xenomai*", RealtimeKind::Xenomai),
    ("*[!a-z]xeno", RealtimeKind::Xenomai),
    ("*[!a-z]xeno[!a-z]*", RealtimeKind::Xenomai),
    ("*[!a-z]evl", RealtimeKind::Xenomai),
    ("*[!a-z]evl[!a-z]*", RealtimeKind::Xenomai),
    ("*[!a-z]ipipe*", RealtimeKind::InterruptPipeline),
    ("*[!a-z]dovetail*", RealtimeKind::InterruptPipeline),
];

/// Options that only real-time kernels set. RTAI has none of its own: its modules need an I-pipe.
///
/// Sources: kernel/Kconfig.preempt (6.12); kernel/xenomai/Kconfig of Xenomai 3; kernel/evl/Kconfig
/// and kernel/dovetail of the EVL project (5.15); kernel/ipipe/Kconfig of the I-pipe patch (4.19).
pub const REALTIME_OPTIONS: &[(&str, RealtimeKind)] = &[
    ("CONFIG_PREEMPT_RT", RealtimeKind::PreemptRt),
    ("CONFIG_PREEMPT_RT_FULL", RealtimeKind::PreemptRt),
    ("CONFIG_XENOMAI", RealtimeKind::Xenomai),
    ("CONFIG_EVL", RealtimeKind::Xenomai),
    ("CONFIG_IPIPE", RealtimeKind::InterruptPipeline),
    ("CONFIG_DOVETAIL", RealtimeKind::InterruptPipeline),
];

/// Directories that a running co-kernel creates; the last one comes with any I-pipe kernel.
pub(super) const COKERNEL_DIRS: &[(&str, RealtimeKind)] = &[
    ("/proc/rtai", RealtimeKind::Rtai),
    ("/proc/xenomai", RealtimeKind::Xenomai),
    ("/proc/ipipe", RealtimeKind::InterruptPipeline),
];

/// The co-kernel that a release names; `None` when it names none.
#[must_use]
pub fn named_cokernel(release: &str) -> Option<RealtimeKind> {
    let found = COKERNEL_NAMES.iter().find(|(pattern, _)| glob::matches(pattern, release));
    found.map(|(_, kind)| *kind)
}

/// The option that makes it a real-time kernel, and its kind; `None` when none is set.
#[must_use]
pub fn realtime_option(options: &BTreeMap<String, String>) -> Option<(&'static str, RealtimeKind)> {
    let is_set = |name: &str| options.get(name).is_some_and(|value| value == "y");
    REALTIME_OPTIONS.iter().find(|(name, _)| is_set(name)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cokernel_is_known_by_the_name_of_its_release() {
        for (release, kind) in [
            ("5.4.258-rtai-amd64", Some(RealtimeKind::Rtai)),
            ("2.6.32-122-rtai", Some(RealtimeKind::Rtai)),
            ("3.4-9-rtai-686-pae", Some(RealtimeKind::Rtai)),
            ("2.6.38.8-xenomai+", Some(RealtimeKind::Xenomai)),
            ("4.19.89-xeno-3.1", Some(RealtimeKind::Xenomai)),
            ("5.15.98-evl", Some(RealtimeKind::Xenomai)),
            ("4.14.78-ipipe", Some(RealtimeKind::InterruptPipeline)),
            // Parts of other words.
            ("6.1.0-certain", None),
            ("2.6.36-xenon", None),
            ("6.12.9-rt-amd64", None),
        ] {
            assert_eq!(named_cokernel(release), kind, "{release}");
        }
    }
}
