//! Provokes interruptions, for the positive control.

use crate::documents::evidence::{ProvokeFailure, ProvokeMethod};
use cpushield_linux::CpuSet;
use cpushield_linux::perf::{CpuEvent, PerfEvent};

/// The number of interruptions provoked on each CPU.
pub const TIMES: usize = 10;

/// The interruptions that were provoked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvokedInterrupt {
    /// How.
    pub by: ProvokeMethod,
    /// Each CPU, and how many of them the sampler saw; empty without a sampler.
    pub seen: Vec<(usize, usize)>,
}

/// Interrupts each CPU [`TIMES`] times from this thread, no matter what runs on it.
///
/// # Errors
/// The reason why that is not possible.
pub fn provoke(cpus: &CpuSet) -> Result<ProvokedInterrupt, ProvokeFailure> {
    for cpu in cpus.iter() {
        let clock = CpuEvent::open(cpu, PerfEvent::CPU_CLOCK).map_err(refused)?;
        for _ in 0..TIMES {
            clock.read().map_err(refused)?;
        }
    }
    Ok(ProvokedInterrupt { by: ProvokeMethod::PerfEvent, seen: Vec::new() })
}

#[expect(clippy::needless_pass_by_value, reason = "an argument of map_err")]
fn refused(error: impl ToString) -> ProvokeFailure {
    ProvokeFailure::PerfEventRefused { answer: error.to_string() }
}
