//! [`PlanRefusal`]: why a request cannot be planned, with hints.

use super::alternatives::alternatives;
use super::comma_list::comma_list;
use super::node_refusal::NodeRefusal;
use super::saved_refusal::SavedRefusal;
use super::sibling_refusal::SiblingRefusal;
use crate::documents::plan::Disturbance;
use crate::policy::expected_name;
use crate::refusal::{FailureKind, UserError};
use cpushield_linux::CpuSet;
use cpushield_sentence::Sentence;
use serde::Serialize;
use serde_json::Value;
use std::fmt;

/// Why a request cannot be planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Sentence)]
#[serde(tag = "tag", rename_all = "kebab-case")]
pub enum PlanRefusal {
    /// cannot admit operators: {why}.
    Operators {
        /// Why.
        why: String,
    },
    /// the survey found no online CPU.
    NoTopology,
    /// this machine has only one CPU; a shield needs a second one.
    OneCpu,
    /// the request names no CPU.
    EmptyList,
    /// this machine has no CPU {cpus}; it has CPU {present}.
    NoSuchCpu {
        /// The missing CPUs.
        cpus: CpuSet,
        /// The CPUs of the machine.
        present: CpuSet,
    },
    /// CPU {cpus} is offline.
    Offline {
        /// The CPUs.
        cpus: CpuSet,
        /// Whether SMT is switched off.
        smt_off: bool,
    },
    /// No housekeeping CPU would be left.
    #[print(write_all_cpus(f, online, joined))]
    AllCpus {
        /// Every online CPU.
        online: CpuSet,
        /// Those of them that the list does not have: SMT siblings that join it.
        joined: CpuSet,
        /// The CPUs that can be shielded together; empty if there are none.
        most: CpuSet,
    },
    /// this machine has no device {name:?}; it has {known}.
    #[with(known = comma_list(known))]
    NoSuchDevice {
        /// The requested device.
        name: String,
        /// The known devices.
        known: Vec<String>,
    },
    /// More CPUs are requested than can be shielded.
    #[print(self.write_too_many(f))]
    TooMany {
        /// The requested number.
        count: usize,
        /// The possible number.
        possible: usize,
        /// What limits the choice, ` on node 1` or empty.
        place: String,
        /// Whether single SMT siblings would give more CPUs.
        halves: bool,
        /// Whether the machine has several NUMA nodes, each of which keeps a CPU.
        several_nodes: bool,
        /// Whether a whole NUMA node, which may be requested, has the missing CPUs.
        whole_node: bool,
    },
    /// the shield cannot have an L{level} cache{place} to itself: each is shared with the boot CPU,
    /// or is the only one of its node.
    NoOwnCache {
        /// The level.
        level: u32,
        /// What limits the choice, ` on node 1` or empty.
        place: String,
    },
    /// cannot tell which CPUs share an L{level} cache: the kernel shows none.
    NoCacheShown {
        /// The level.
        level: u32,
    },
    /// there is no tunable {name:?}.
    NoSuchTunable {
        /// The name.
        name: String,
        /// The nearest names that exist.
        near: Vec<String>,
    },
    /// CPU {cpus} is already in shield {shield}.
    InOtherShield {
        /// The CPUs.
        cpus: CpuSet,
        /// The active shield.
        shield: String,
    },
    /// CPU {cpus} belongs exclusively to {group}, a cpuset of another program; a shield would break
    /// that cpuset.
    InPartition {
        /// The CPUs.
        cpus: CpuSet,
        /// The cgroup.
        group: String,
        /// Whether cset has made it.
        of_cset: bool,
    },
    /// Exclusive cpusets of another program leave too few CPUs.
    #[print(self.write_held(f))]
    HeldByCpusets {
        /// The requested number.
        count: usize,
        /// The possible number.
        possible: usize,
        /// The cgroups.
        sets: Vec<String>,
        /// Whether cset has made some of them.
        of_cset: bool,
    },
    /// With the active shields and the closed CPUs, no housekeeping CPU would be left.
    #[print(write_no_rest(f, free, closed))]
    NoHousekeeping {
        /// The CPUs that are in no shield yet.
        free: CpuSet,
        /// Those that `isolcpus=` or an exclusive cpuset closes.
        closed: CpuSet,
    },
    /// CPU {isolated} of isolcpus= would keep this kernel from making CPU {others} a partition;
    /// give each list a shield of its own.
    TwoLists {
        /// The CPUs of `isolcpus=`.
        isolated: CpuSet,
        /// The others.
        others: CpuSet,
    },
    /// shield {shield} has set {subject} to {theirs:?}, but this shield needs {value:?}.
    OtherValue {
        /// What can have only one of the values, as [`crate::change::Change::subject`] says it.
        subject: String,
        /// The requested value.
        value: String,
        /// The active shield.
        shield: String,
        /// Its value.
        theirs: String,
    },
    /// the new version of the shield drops {tunable}, but restoring the old settings disturbs other
    /// shields: {disturbance}.
    RestoringInterrupts {
        /// The tunable.
        tunable: String,
        /// The cost.
        disturbance: Disturbance,
    },
    /// {name:?} cannot be a shield's name; use {instead}.
    #[with(instead = expected_name(name))]
    BadName {
        /// The name.
        name: String,
    },
    /// The SMT siblings cannot be used as requested.
    #[serde(untagged)]
    #[delegate]
    Siblings(SiblingRefusal),
    /// The NUMA nodes cannot be used as requested.
    #[serde(untagged)]
    #[delegate(from)]
    Node(NodeRefusal),
    /// A saved plan does not fit this machine now.
    #[serde(untagged)]
    #[delegate(from)]
    Saved(SavedRefusal),
}

impl UserError for PlanRefusal {
    fn kind(&self) -> FailureKind {
        if self.is_usage() { FailureKind::Usage } else { FailureKind::Machine }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            PlanRefusal::Siblings(refusal) => refusal.hints(),
            PlanRefusal::Node(refusal) => refusal.hints(),
            PlanRefusal::Offline { cpus, smt_off } => {
                let cpu = cpus.first().unwrap_or_default();
                let file = format!("/sys/devices/system/cpu/cpu{cpu}/online");
                match smt_off {
                    true => vec![
                        "enable SMT: echo on > /sys/devices/system/cpu/smt/control".to_owned(),
                        format!(
                            "or bring a CPU online that is not an SMT sibling: echo 1 > {file}"
                        ),
                    ],
                    false => vec![format!("bring it online: echo 1 > {file}")],
                }
            }
            PlanRefusal::NoSuchDevice { name, known } => vec![hint_device(name, known)],
            PlanRefusal::AllCpus { most, .. } if most.is_empty() => Vec::new(),
            PlanRefusal::AllCpus { most, .. } => {
                vec![format!("omit some CPUs; this list is possible: {most}")]
            }
            PlanRefusal::InOtherShield { shield, .. } | PlanRefusal::OtherValue { shield, .. } => {
                vec![format!("take that shield down: cpushield undo --shield {shield}")]
            }
            PlanRefusal::InPartition { of_cset: true, .. }
            | PlanRefusal::HeldByCpusets { of_cset: true, .. } => vec![
                "save the sets as a policy: cpushield plan --from cset -o policy.toml".to_owned(),
                "then remove them: cset shield --reset".to_owned(),
            ],
            PlanRefusal::HeldByCpusets { .. } => {
                vec!["remove these cpusets with rmdir when they have no tasks".to_owned()]
            }
            PlanRefusal::InPartition { .. } => vec![
                "choose other CPUs: cpushield plan --free lists them".to_owned(),
                "or leave programs where they are: --off cpuset".to_owned(),
            ],
            PlanRefusal::RestoringInterrupts { tunable, .. } => vec![
                "accept the interruption: --disturb".to_owned(),
                format!("or keep these settings: --on {tunable}"),
            ],
            PlanRefusal::TwoLists { isolated, others } => two_shields(isolated, others),
            PlanRefusal::NoHousekeeping { closed, .. } => vec![leave_a_rest(closed)],
            PlanRefusal::Saved(_) => {
                vec!["plan again: the machine or the file has changed".to_owned()]
            }
            PlanRefusal::TooMany { .. } => self.smaller_requests(),
            PlanRefusal::NoSuchTunable { near, .. } => {
                let near = near.iter().map(|name| format!("did you mean {name}?"));
                near.chain(["list the tunables: cpushield explain".to_owned()]).collect()
            }
            PlanRefusal::NoOwnCache { .. } | PlanRefusal::NoCacheShown { .. } => {
                vec!["omit --share, or use --share core".to_owned()]
            }
            PlanRefusal::EmptyList => {
                vec!["name the CPUs: --cpus 3".to_owned(), "or give a number: --count 1".to_owned()]
            }
            PlanRefusal::Operators { .. } => {
                vec!["change operators in the policy, or omit them".to_owned()]
            }
            PlanRefusal::NoTopology => {
                vec!["see the notes in the output of `cpushield survey`".to_owned()]
            }
            _ => Vec::new(),
        }
    }

    fn reason(&self) -> Option<Value> {
        serde_json::to_value(self).ok()
    }
}

fn write_all_cpus(f: &mut fmt::Formatter<'_>, online: &CpuSet, joined: &CpuSet) -> fmt::Result {
    write!(f, "cannot shield all CPUs ({online}")?;
    if !joined.is_empty() {
        write!(f, ", including CPU {joined} as SMT siblings")?;
    }
    f.write_str("): interrupts and other programs need at least one")
}

fn write_no_rest(f: &mut fmt::Formatter<'_>, free: &CpuSet, closed: &CpuSet) -> fmt::Result {
    match closed.is_empty() {
        true => write!(
            f,
            "other shields leave only CPU {free}, but interrupts and other programs need at least \
             one CPU"
        ),
        false => write!(
            f,
            "interrupts and other programs need at least one CPU, but isolcpus= or an exclusive \
             cpuset closes CPU {closed}"
        ),
    }
}

/// How to leave a housekeeping CPU.
fn leave_a_rest(closed: &CpuSet) -> String {
    match closed.is_empty() {
        true => {
            "take a shield down: cpushield undo --shield NAME (cpushield status lists the shields)"
        }
        false => "boot without isolcpus=, or list fewer CPUs",
    }
    .to_owned()
}

/// The commands that make a shield of each list.
fn two_shields(isolated: &CpuSet, others: &CpuSet) -> Vec<String> {
    let first = format!("cpushield apply --cpus {isolated}");
    vec![first, format!("cpushield apply --shield second --cpus {others}")]
}

/// How to name a device that exists.
fn hint_device(name: &str, known: &[String]) -> String {
    if name.contains(':') {
        let node = format!("/sys/bus/pci/devices/{name}/numa_node");
        return format!("name its node instead: --node N; this prints N: cat {node}");
    }
    // The name of a partition begins with that of its disk.
    let given = name.trim_start_matches("/dev/");
    match known.iter().find(|known| given.starts_with(known.as_str())) {
        Some(near) => format!("did you mean {near}?"),
        None => "for a bond, a bridge or a VLAN, name the underlying network card".to_owned(),
    }
}

impl std::error::Error for PlanRefusal {}

impl PlanRefusal {
    /// Says how many CPUs are possible, and what keeps the others.
    fn write_too_many(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PlanRefusal::TooMany { count, possible, place, several_nodes, .. } = self else {
            return Ok(());
        };
        match possible {
            0 => write!(f, "no CPU can be shielded{place}")?,
            _ => write!(f, "cannot shield {count} CPUs{place}; the maximum is {possible}")?,
        }
        f.write_str(match several_nodes {
            true => {
                ": the core of the boot CPU, and one CPU of each node, remain housekeeping CPUs"
            }
            false => ": the core of the boot CPU remains a housekeeping CPU",
        })
    }

    /// Requests that are possible instead of one that is too large.
    fn smaller_requests(&self) -> Vec<String> {
        let PlanRefusal::TooMany { possible, halves, whole_node, .. } = self else {
            return Vec::new();
        };
        let ways = [
            (*possible > 0).then(|| format!("request fewer CPUs: --count {possible}")),
            whole_node.then(|| "shield the whole node: --whole-node instead of --count".into()),
            halves.then(|| "shield single SMT siblings: --siblings share".into()),
        ];
        alternatives(ways.into_iter().flatten())
    }

    /// Says which exclusive cpusets leave too few CPUs.
    fn write_held(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PlanRefusal::HeldByCpusets { count, possible, sets, of_cset } = self else {
            return Ok(());
        };
        let owner = if *of_cset { "cset" } else { "another program" };
        match possible {
            0 => f.write_str("no CPU can be shielded")?,
            most => write!(f, "cannot shield {count} CPUs; the maximum is {most}")?,
        }
        write!(f, ": {owner} has made these cpusets exclusive: {}", comma_list(sets))
    }
}

impl PlanRefusal {
    /// Whether the request is wrong, so that another request may succeed. Otherwise the machine
    /// lacks something.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        match self {
            PlanRefusal::Siblings(refusal) => refusal.is_usage(),
            PlanRefusal::Node(refusal) => refusal.is_usage(),
            PlanRefusal::EmptyList
            | PlanRefusal::NoSuchCpu { .. }
            | PlanRefusal::AllCpus { .. }
            | PlanRefusal::TooMany { possible: 1.., .. }
            | PlanRefusal::NoSuchDevice { .. }
            | PlanRefusal::NoSuchTunable { .. }
            | PlanRefusal::InOtherShield { .. }
            | PlanRefusal::TwoLists { .. }
            | PlanRefusal::BadName { .. } => true,
            PlanRefusal::NoTopology
            | PlanRefusal::Operators { .. }
            | PlanRefusal::OneCpu
            | PlanRefusal::Offline { .. }
            | PlanRefusal::TooMany { .. }
            | PlanRefusal::NoCacheShown { .. }
            | PlanRefusal::InPartition { .. }
            | PlanRefusal::HeldByCpusets { .. }
            | PlanRefusal::NoHousekeeping { .. }
            | PlanRefusal::OtherValue { .. }
            | PlanRefusal::Saved(_)
            | PlanRefusal::RestoringInterrupts { .. }
            | PlanRefusal::NoOwnCache { .. } => false,
        }
    }
}
