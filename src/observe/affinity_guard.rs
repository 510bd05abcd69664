//! Keeps the measuring thread off the CPUs that it measures.

use cpushield_linux::{CpuSet, sched};

/// Keeps the calling thread off the watched CPUs until it is dropped. Where the kernel refuses (a
/// cpuset without housekeeping CPUs), the thread stays and appears among the interruptions.
#[derive(Debug)]
pub struct AffinityGuard {
    before: Option<CpuSet>,
}

impl AffinityGuard {
    /// Restricts the affinity of the calling thread to housekeeping CPUs.
    #[must_use]
    pub fn step_aside(housekeeping: &CpuSet) -> AffinityGuard {
        let Ok(before) = sched::affinity(0) else { return AffinityGuard { before: None } };
        // A shield or the user may have restricted the thread already; that restriction stays.
        let allowed = before.intersection(housekeeping);
        let target = if allowed.is_empty() { housekeeping } else { &allowed };
        let moved = sched::set_affinity(0, target).is_ok();
        AffinityGuard { before: moved.then_some(before) }
    }
}

impl Drop for AffinityGuard {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // If these CPUs are no longer allowed, another process decided that meanwhile.
            let _ = sched::set_affinity(0, before);
        }
    }
}
