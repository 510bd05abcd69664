//! The processes that cpushield starts from its own program: their subcommands and their work.

pub use super::undo_watchdog::guard;
use crate::failure::Failure;
use crate::observe::sampler;
use crate::{latency, load};
use cpushield_linux::{CpuSet, Error, Host, Operation};
use std::time::Duration;

/// The names of the internal subcommands.
#[derive(Debug)]
pub struct InternalNames {
    /// The watchdog of a temporary shield.
    pub watchdog: &'static str,
    /// The modest load of `try`.
    pub gentle_load: &'static str,
    /// A load of `latency`.
    pub load: &'static str,
    /// The gap sampler of `verify`.
    pub sampler: &'static str,
    /// The threads of `latency`.
    pub measure: &'static str,
}

/// The internal subcommands.
pub const NAMES: InternalNames = InternalNames {
    watchdog: super::undo_watchdog::HIDDEN,
    gentle_load: load::HIDDEN,
    load: load::WORKER,
    sampler: sampler::HIDDEN,
    measure: latency::HIDDEN,
};

impl InternalNames {
    /// Whether an internal subcommand has this name.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        let InternalNames { watchdog, gentle_load, load, sampler, measure } = self;
        [watchdog, gentle_load, load, sampler, measure].contains(&&name)
    }
}

/// A worker process on the live machine.
#[derive(Debug)]
pub enum WorkerRole {
    /// Keeps CPUs modestly busy until `parent` or the time ends.
    GentleLoad {
        /// The CPUs.
        cpus: CpuSet,
        /// The process that needs the load.
        parent: i32,
        /// The longest time.
        seconds: u64,
    },
    /// A load of `latency`.
    Load,
    /// The gap sampler of `verify`.
    Sampler,
    /// The threads of `latency`.
    Measure,
}

/// Works until the process that started it has ended.
///
/// # Errors
/// The load cannot run.
pub fn serve(worker: WorkerRole) -> Result<(), Failure> {
    match worker {
        WorkerRole::GentleLoad { cpus, parent, seconds } => {
            load::serve(&cpus, parent, Duration::from_secs(seconds))
                .map_err(|e| Error::io(Operation::Call, "the load", e))?;
        }
        WorkerRole::Load => load::serve_kind(&Host::live()),
        WorkerRole::Sampler => sampler::serve(&Host::live()),
        WorkerRole::Measure => latency::serve(&Host::live()),
    }
    Ok(())
}
