//! Who measures keeps off the CPUs it measures.

use cpushield_linux::{CpuSet, sched};

/// This thread keeps off the watched CPUs until this is dropped. Where the kernel does not let it
/// (a cpuset without housekeeping CPUs), it stays, and is named among what interrupts.
#[derive(Debug)]
pub struct Aside {
    before: Option<CpuSet>,
}

impl Aside {
    /// Steps aside.
    #[must_use]
    pub fn step(housekeeping: &CpuSet) -> Aside {
        let Ok(before) = sched::affinity(0) else { return Aside { before: None } };
        // Where it was kept off other CPUs, by a shield or by its user, it stays off them.
        let kept = before.and(housekeeping);
        let aside = if kept.is_empty() { housekeeping } else { &kept };
        let moved = sched::set_affinity(0, aside).is_ok();
        Aside { before: moved.then_some(before) }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // The CPUs were allowed a moment ago; if they are not now, somebody else decided that.
            let _ = sched::set_affinity(0, before);
        }
    }
}
