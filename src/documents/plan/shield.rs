//! [`Shield`]: the CPUs of a shield and what was requested for them. Pure.

use crate::documents::count_text::joined;
use crate::policy::{ShieldRequest, TunableSetting, TunableSettings, Workload};
use cpushield_linux::CpuSet;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The CPUs of a shield.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Shield {
    /// Its name.
    pub name: String,
    /// Shielded CPUs, idle siblings included.
    pub cpus: CpuSet,
    /// SMT siblings in the shield that must stay idle.
    pub idle_siblings: CpuSet,
    /// The idle siblings that are offline while the shield is active.
    #[serde(default, skip_serializing_if = "CpuSet::is_empty")]
    pub offline_siblings: CpuSet,
    /// Every other online CPU that is in no other shield and not closed.
    pub housekeeping: CpuSet,
    /// The other CPUs that are isolated already, by `isolcpus=` or an exclusive cpuset. Nothing is
    /// moved there.
    #[serde(default, skip_serializing_if = "CpuSet::is_empty")]
    pub closed: CpuSet,
    /// The other CPUs of `nohz_full=`: work of the kernel goes there only where nothing else is
    /// left.
    #[serde(default, skip_serializing_if = "CpuSet::is_empty")]
    pub tickless: CpuSet,
    /// Whether programs and interrupts leave closed CPUs although the user has put them there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub evict: bool,
    /// Memory nodes of the shielded CPUs.
    pub mems: CpuSet,
    /// The workload.
    pub workload: Workload,
    /// The `max_latency` of its policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_latency_ns: Option<u64>,
    /// Whether the scheduler balances the shield's own programs among its CPUs.
    pub balanced: bool,
    /// Whether an SMT sibling of a shielded CPU is not in the shield.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shares_core: bool,
    /// Whether a memory node has no housekeeping CPU.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub takes_whole_node: bool,
    /// What the request says about tunables, by name: `true`, `false`, or a value.
    #[serde(default, skip_serializing_if = "TunableSettings::is_empty")]
    pub tunables: TunableSettings,
}

impl Shield {
    /// Whether it has the name of a shield that was requested without one.
    #[must_use]
    pub fn has_default_name(&self) -> bool {
        self.name == ShieldRequest::default().name
    }

    /// This command about the shield: `cpushield undo --shield rt`. It names no shield that has the
    /// default name.
    #[must_use]
    pub fn command(&self, command: &str) -> String {
        match self.has_default_name() {
            true => command.to_owned(),
            false => format!("{command} --shield {}", self.name),
        }
    }

    /// The exit latency that `max_latency` leaves for sleep: a quarter.
    #[must_use]
    pub fn sleep_limit_us(&self) -> Option<u64> {
        self.max_latency_ns.map(|ns| ns / 4_000)
    }

    /// This command with the options that request the same shield again, as `apply` and `plan` take
    /// them: its name, CPUs, siblings, workload and tunables.
    #[must_use]
    pub fn request_command(&self, command: &str) -> String {
        let siblings = match (self.offline_siblings.is_empty(), self.shares_core) {
            (false, _) => Some("--siblings offline".to_owned()),
            (true, true) => Some("--siblings share".to_owned()),
            (true, false) => None,
        };
        let has_default_workload = self.workload == Workload::default();
        let workload = (!has_default_workload).then(|| format!("--workload {}", self.workload));
        let mut options = vec![self.command(command)];
        // Idle siblings join the CPUs that are listed.
        options.push(format!("--cpus {}", self.cpus.difference(&self.idle_siblings)));
        options.extend(siblings);
        options.extend(self.takes_whole_node.then(|| "--whole-node".to_owned()));
        options.extend(self.balanced.then(|| "--balance".to_owned()));
        options.extend(self.evict.then(|| "--evict".to_owned()));
        options.extend(workload);
        let mut tunables = self.tunables.clone();
        let is_cyclic = self.workload == Workload::Cyclic;
        let has_limit = tunables.choice("cpu-idle").unwrap_or(is_cyclic);
        let limit = self.sleep_limit_us().filter(|_| has_limit);
        if let (Some(us), None) = (limit, tunables.value("cpu-idle")) {
            tunables.set("cpu-idle", TunableSetting::Value(format!("{us}us")));
        }
        options.extend(tunables.iter().map(|(name, setting)| setting.option(name)));
        options.join(" ")
    }

    /// The closed CPUs, as the end of a sentence about the shield.
    #[must_use]
    pub fn closed_text(&self) -> String {
        match self.closed.is_empty() {
            true => String::new(),
            false => format!(" Isolated already, and left alone: CPU {}.", self.closed),
        }
    }

    /// The CPUs whose own programs stay where they are.
    #[must_use]
    pub fn kept(&self) -> CpuSet {
        if self.evict { CpuSet::new() } else { self.closed.clone() }
    }

    /// Tasks that may run on no other CPUs than these are not moved to the housekeeping programs.
    #[must_use]
    pub fn kept_programs(&self) -> CpuSet {
        let kept = self.kept();
        if kept.is_empty() { kept } else { kept.union(&self.cpus) }
    }

    /// The same shield with this tunable enabled in addition.
    #[must_use]
    pub fn with_tunable(&self, tunable: &str) -> Shield {
        let mut shield = self.clone();
        if !shield.tunables.choice(tunable).unwrap_or_default() {
            shield.tunables.set(tunable, true);
        }
        shield
    }
}

/// An active shield, as another shield names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NamedShield {
    /// Its name.
    pub name: String,
    /// Its CPUs.
    pub cpus: CpuSet,
}

impl From<&Shield> for NamedShield {
    fn from(shield: &Shield) -> NamedShield {
        NamedShield { name: shield.name.clone(), cpus: shield.cpus.clone() }
    }
}

impl fmt::Display for NamedShield {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shield {} (CPU {})", self.name, self.cpus)
    }
}

/// Lists shields in a sentence.
#[must_use]
pub fn list_shields(shields: &[NamedShield]) -> String {
    joined(shields, ", ")
}
