//! The one way off the shielded CPUs for a thread of this program.

use crate::cpuset::CpuSet;
use crate::host::Host;
use crate::sys::sched;
use std::io;

/// Keeps the calling thread on housekeeping CPUs until it is dropped. Threads and processes that it
/// starts in that time inherit them.
#[derive(Debug)]
#[must_use = "the thread returns when this is dropped"]
pub struct AffinityGuard {
    /// The CPUs before; `None` if they are not restored.
    before: Option<CpuSet>,
    cpus: CpuSet,
}

impl Host {
    /// Moves the calling thread to housekeeping CPUs. A shield or the user may have restricted it
    /// already; that restriction stays if it leaves any of these CPUs. Does nothing on a recorded
    /// machine.
    ///
    /// # Errors
    /// The kernel refuses: the cpuset of this process has none of these CPUs.
    pub fn step_aside(&self, housekeeping: &CpuSet) -> io::Result<AffinityGuard> {
        if !self.is_live() {
            return Ok(AffinityGuard { before: None, cpus: housekeeping.clone() });
        }
        let before = sched::affinity(0)?;
        let allowed = before.intersection(housekeeping);
        let cpus = if allowed.is_empty() { housekeeping.clone() } else { allowed };
        sched::set_affinity(0, &cpus)?;
        Ok(AffinityGuard { before: Some(before), cpus })
    }
}

impl AffinityGuard {
    /// Leaves the thread there for good. Returns where it may run.
    pub fn stay(mut self) -> CpuSet {
        self.before = None;
        std::mem::take(&mut self.cpus)
    }
}

impl Drop for AffinityGuard {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // If these CPUs are no longer allowed, another process decided that since.
            let _ = sched::set_affinity(0, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_returns_unless_it_stays_and_keeps_its_restriction() {
        let host = Host::live();
        let own = sched::affinity(0).unwrap();
        let one = CpuSet::single(own.iter().next().unwrap());
        let beyond = one.union(&CpuSet::single(4000));
        let aside = host.step_aside(&beyond).unwrap();
        assert_eq!(sched::affinity(0).unwrap(), one);
        drop(aside);
        assert_eq!(sched::affinity(0).unwrap(), own);
        assert!(host.step_aside(&CpuSet::new()).is_err(), "there is no other place to run");
        assert_eq!(host.step_aside(&one).unwrap().stay(), one);
        assert_eq!(sched::affinity(0).unwrap(), one);
    }
}
