//! The processes that cpushield starts from its own program: their subcommands and their work.

pub use super::irqbalance_ban::ban_from_irqbalance;
pub use super::operators::answer_operator;
pub use super::undo_watchdog::guard;
use crate::boot::early::BAN_COMMAND;
use crate::latency::{self, MeasurementProtocol};
use crate::load::{self, GentleLoadProtocol, LoadProtocol};
use crate::observe::sampler::{self, SamplerProtocol};
use crate::run::OPERATOR_COMMAND;
use crate::worker::WorkerProtocol;
use cpushield_linux::{EventLog, Host};
use std::sync::Arc;

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
    /// The ban of the shielded CPUs from irqbalance.
    pub ban: &'static str,
    /// The answer to a request of an operator.
    pub operator: &'static str,
}

/// The internal subcommands.
pub const NAMES: InternalNames = InternalNames {
    watchdog: super::undo_watchdog::HIDDEN,
    gentle_load: GentleLoadProtocol::SUBCOMMAND,
    load: LoadProtocol::SUBCOMMAND,
    sampler: SamplerProtocol::SUBCOMMAND,
    measure: MeasurementProtocol::SUBCOMMAND,
    ban: BAN_COMMAND,
    operator: OPERATOR_COMMAND,
};

/// A kind of worker.
#[derive(Debug, Clone, Copy)]
pub enum WorkerRole {
    /// The modest load of `try`.
    GentleLoad,
    /// A load of `latency`.
    Load,
    /// The gap sampler of `verify`.
    Sampler,
    /// The threads of `latency`.
    Measure,
}

/// Serves the process that started this one, on the live machine, with the log of that process.
pub fn serve(role: WorkerRole, log: Option<EventLog>) {
    let host = Host::live().logging(log);
    match role {
        WorkerRole::GentleLoad => load::serve_gentle(),
        WorkerRole::Load => load::serve_kind(&host),
        WorkerRole::Sampler => sampler::serve(&host),
        WorkerRole::Measure => latency::serve(&Arc::new(host)),
    }
}
