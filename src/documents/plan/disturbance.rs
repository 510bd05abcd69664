//! [`Disturbance`]: what the changes of a tunable cost other active shields. Pure.

use super::{NamedShield, Shield, list_shields};
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a tunable does once to every CPU of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum MachineWideEffect {
    /// it stops all CPUs for an unknown time, once for each CPU that it cycles.
    CyclesCpus,
    /// it stops all CPUs for an unknown time, once for each CPU that goes offline.
    TakesCpusOffline,
    /// it may stop all CPUs for an unknown time, once for each CPU that comes online.
    BringsCpusOnline,
    /// it patches the kernel's code, which interrupts every CPU a few times.
    PatchesKernel,
    /// it interrupts every CPU once.
    CallsCpus,
    /// it queues kernel work on every CPU.
    QueuesWork,
    /// it queues kernel work on each CPU that the lockup detectors watch.
    QueuesWorkWhereWatched,
}

/// What the changes of a tunable cost other active shields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Disturbance {
    /// What the tunable does to every CPU.
    pub effect: MachineWideEffect,
    /// The active shields.
    pub shields: Vec<NamedShield>,
}

impl Disturbance {
    /// The effect on these shields.
    #[must_use]
    pub fn new(effect: MachineWideEffect, shields: &[Shield]) -> Disturbance {
        Disturbance { effect, shields: shields.iter().map(NamedShield::from).collect() }
    }

    /// The shields with their CPUs, for a sentence.
    #[must_use]
    pub fn named_shields(&self) -> String {
        list_shields(&self.shields)
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; this interrupts {}", self.effect, self.named_shields())
    }
}
