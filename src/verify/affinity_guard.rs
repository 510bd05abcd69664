//! Who measures keeps off the CPUs it measures.

use cpushield_linux::{CpuSet, sched};

/// This thread keeps off the watched CPUs until this is dropped. Where the kernel does not let it
/// (a cpuset without housekeeping CPUs), it stays, and is named among what interrupts.
#[derive(Debug)]
pub struct AffinityGuard {
    before: Option<CpuSet>,
}

impl AffinityGuard {
    /// Steps aside.
    #[must_use]
    pub fn step(housekeeping: &CpuSet) -> AffinityGuard {
        let Ok(before) = sched::affinity(0) else { return AffinityGuard { before: None } };
        // Where it was kept off other CPUs, by a shield or by its user, it stays off them.
        let kept = before.and(housekeeping);
        let aside = if kept.is_empty() { housekeeping } else { &kept };
        let moved = sched::set_affinity(0, aside).is_ok();
        AffinityGuard { before: moved.then_some(before) }
    }
}

impl Drop for AffinityGuard {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // The CPUs were allowed a moment ago; if they are not now, somebody else decided that.
            let _ = sched::set_affinity(0, before);
        }
    }
}
