//! [`WrittenShield`]: a shield as users write it, as options or as a table of a policy file. Pure.

use super::toml_place::WrongValue;
use super::{
    BootPolicy, OperatorPolicy, PolicyLimits, ShareLevel, ShieldRequest, Siblings, TunableSettings,
    Workload, expected_name, is_shield_name,
};
use crate::cpu_selection::{CpuNames, CpuSelection, CpuSelectionError, SELECTION_HINT};
use serde::Deserialize;

/// A shield as users write it: the options that select its CPUs, and a table `[shield.NAME]`. The
/// order of the fields is that of the keys in errors, `display_order` is that of the help.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, clap::Args)]
#[serde(deny_unknown_fields, default, expecting = "a table [shield.NAME]")]
pub struct WrittenShield {
    /// CPUs to shield: `3`, `2-3`, `2-N` (`N` is the last CPU), `isolated`, `active`, `boot`,
    /// `all`; `^` excludes CPUs: `all,^0-1`
    #[arg(long, value_name = "LIST", conflicts_with_all = ["count", "near", "node", "share"])]
    #[arg(display_order = 0)]
    pub cpus: Option<String>,
    /// Number of CPUs to shield; cpushield chooses them
    #[arg(long, value_name = "N", value_parser = cpu_count, display_order = 1)]
    pub count: Option<usize>,
    /// Shield only whole groups, so that housekeeping and shielded CPUs share no core, L2 or L3
    #[arg(long, value_enum, display_order = 5)]
    pub share: Option<ShareLevel>,
    /// Choose CPUs near this device, for example `eth0` or `nvme0n1`
    #[arg(long, value_name = "DEVICE", display_order = 2)]
    pub near: Option<String>,
    /// Choose CPUs on this NUMA node
    #[arg(long, value_name = "N", value_parser = node_number, display_order = 3)]
    pub node: Option<usize>,
    /// What runs on the SMT siblings of the shielded cores [default: idle, except that programs run
    /// on every CPU that --cpus lists]
    #[arg(long, value_enum)]
    pub siblings: Option<Siblings>,
    /// Shield all CPUs of the best NUMA node, or of the node given by --node; the node then has no
    /// housekeeping CPU. With --cpus, allow the list to include whole nodes
    #[arg(long, conflicts_with_all = ["count", "share"], display_order = 4)]
    pub whole_node: bool,
    /// Let the scheduler balance the shield's own programs among its CPUs
    #[arg(long)]
    pub balance: bool,
    /// Also move the programs and interrupts that were put on CPUs of isolcpus= on purpose
    #[arg(long)]
    pub evict: bool,
    /// Kind of workload that will run on the CPUs
    #[arg(long, value_enum)]
    pub workload: Option<Workload>,
    /// What it says about tunables, and about parameters of the next boot.
    #[arg(skip)]
    pub tunables: TunableSettings,
    /// What the next boot gets (`cpushield boot`).
    #[arg(skip)]
    pub boot: BootPolicy,
    /// The limits that `verify` and `latency` check.
    #[arg(skip)]
    pub limits: PolicyLimits,
    /// Users other than root that may enter the shield.
    #[arg(skip)]
    pub operators: Option<OperatorPolicy>,
}

impl WrittenShield {
    /// Whether the CPUs are chosen by something other than a list.
    fn has_choice(&self) -> bool {
        self.count.is_some() || self.share.is_some() || self.near.is_some() || self.node.is_some()
    }

    /// Whether it says which CPUs.
    #[must_use]
    pub fn selects_cpus(&self) -> bool {
        self.cpus.is_some() || self.has_choice() || self.whole_node
    }

    /// This shield, completed by that of a policy. A list replaces the choice of the policy, and a
    /// choice replaces its list.
    #[must_use]
    pub fn or(self, mut policy: WrittenShield) -> WrittenShield {
        if self.selects_cpus() {
            policy.cpus = None;
        }
        if self.cpus.is_some() {
            (policy.count, policy.share, policy.near, policy.node) = (None, None, None, None);
        }
        policy.tunables.extend((*self.tunables).clone());
        WrittenShield {
            cpus: self.cpus.or(policy.cpus),
            count: self.count.or(policy.count),
            share: self.share.or(policy.share),
            near: self.near.or(policy.near),
            node: self.node.or(policy.node),
            siblings: self.siblings.or(policy.siblings),
            whole_node: self.whole_node || policy.whole_node,
            balance: self.balance || policy.balance,
            evict: self.evict || policy.evict,
            workload: self.workload.or(policy.workload),
            ..policy
        }
    }

    /// Checks the name, the count, the operators and the CPU list.
    pub(super) fn check(&self, name: &str) -> Result<(), WrongValue> {
        if !is_shield_name(name) {
            return Err((&[], format!("expected {}", expected_name(name))));
        }
        if self.count == Some(0) {
            return Err((&[], "expected a count of at least 1".to_owned()));
        }
        self.operators.as_ref().map_or(Ok(()), OperatorPolicy::check)?;
        let Some(list) = &self.cpus else { return Ok(()) };
        if self.has_choice() {
            let why = "expected either cpus or a choice by count, share, near and node";
            return Err((&[], why.to_owned()));
        }
        let checked = CpuSelection::parse(list).map(drop);
        checked.map_err(|error| (["cpus"].as_slice(), format!("{error}; {SELECTION_HINT}")))
    }

    /// The request for this shield. The names in its list have these meanings.
    ///
    /// # Errors
    /// The list names no CPU.
    pub fn request(
        &self,
        name: &str,
        names: &CpuNames,
    ) -> Result<ShieldRequest, CpuSelectionError> {
        let list = self.cpus.as_ref();
        let cpus = list.map(|list| CpuSelection::parse(list)?.resolve(names)).transpose()?;
        Ok(ShieldRequest {
            name: name.to_owned(),
            cpus,
            count: self.count,
            share: self.share,
            near: self.near.clone(),
            node: self.node,
            siblings: self.siblings,
            whole_node: self.whole_node,
            balance: self.balance,
            evict: self.evict,
            workload: self.workload.unwrap_or_default(),
            max_latency_ns: self.limits.max_latency_ns,
            tunables: self.tunables.clone(),
            ..ShieldRequest::default()
        })
    }
}

/// Parses a number of CPUs.
fn cpu_count(text: &str) -> Result<usize, &'static str> {
    match text.parse() {
        Ok(0) => Err("a shield needs at least 1 CPU"),
        Ok(count) => Ok(count),
        Err(_) => Err("expected a number of CPUs"),
    }
}

/// Parses the number of a NUMA node.
fn node_number(text: &str) -> Result<usize, &'static str> {
    text.parse().map_err(|_| "not the number of a NUMA node")
}
