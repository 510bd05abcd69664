//! What a wrong word of a command line does, and what shows it. Plain data.

use cpushield_sentence::Sentence;
use serde::Serialize;

/// What a word does to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "effect", rename_all = "kebab-case")]
pub enum OverrideEffect {
    /// It switches all watchdogs for lockups off.
    WatchdogsOff,
    /// It keeps a driver from starting.
    DriverNotStarted {
        /// The driver.
        driver: &'static str,
    },
    /// It switches all mitigations off.
    MitigationsOff,
}

/// What a kernel does with a list that it cannot parse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum BadListEffect {
    /// the kernel ignores the whole list.
    Ignored,
    /// the kernel uses all CPUs instead.
    AllCpus,
    /// the kernel uses only the CPUs before the error, plus the boot CPU.
    CutOff,
}

/// Where a kernel shows which CPUs a parameter has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum EffectSource {
    /// /sys/devices/system/cpu/nohz_full.
    NohzFull,
    /// /sys/devices/system/cpu/isolated.
    Isolated,
    /// the list of rcuo threads.
    OffloadThreads,
    /// /proc/irq/default_smp_affinity.
    DefaultAffinity,
}
