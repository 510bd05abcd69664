//! [`NodeRefusal`]: why NUMA nodes cannot be used as requested, with hints.

use super::comma_list::comma_list;
use cpushield_linux::CpuSet;
use cpushield_sentence::Sentence;
use serde::Serialize;
use std::fmt;

/// Why NUMA nodes cannot be used as requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Sentence)]
#[serde(tag = "tag", rename_all = "kebab-case")]
pub enum NodeRefusal {
    /// A node would keep no housekeeping CPU.
    #[print(write_exhausted(f, node, cpus, others))]
    Exhausted {
        /// The node.
        node: usize,
        /// Its CPUs that are requested.
        cpus: CpuSet,
        /// Its CPUs that other shields have: all others.
        others: CpuSet,
    },
    /// cannot shield the whole node {node}: it contains the boot CPU.
    BootNode {
        /// The node.
        node: usize,
        /// Its CPUs; `None` if the machine has no others.
        cpus: Option<CpuSet>,
    },
    /// cannot shield a whole NUMA node{place}: each node contains the boot CPU, or a CPU of another
    /// shield or of an exclusive cpuset.
    NoneWhole {
        /// What limits the choice, ` near eth0` or empty.
        place: String,
    },
    /// a request for a whole node cannot have a count or a share level.
    WholeAndPart,
    /// node {node} has no CPUs; nodes with CPUs: {nodes}.
    #[with(nodes = comma_list(nodes))]
    NoSuch {
        /// The requested node.
        node: usize,
        /// The nodes with CPUs.
        nodes: Vec<usize>,
    },
}

impl NodeRefusal {
    /// Whether the request is wrong, so that another request may succeed.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        !matches!(self, NodeRefusal::NoneWhole { .. })
    }

    /// What to do next.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        match self {
            NodeRefusal::Exhausted { cpus, .. } => {
                let first = cpus.first().unwrap_or_default();
                vec![
                    format!("omit one of its CPUs, for example CPU {first}"),
                    "or shield the whole node: --whole-node".to_owned(),
                ]
            }
            NodeRefusal::BootNode { cpus, .. } => {
                let list = cpus.as_ref();
                let list = list.map(|cpus| format!("or list its CPUs: --whole-node --cpus {cpus}"));
                let part = "shield only part of the node: omit --whole-node".to_owned();
                [part].into_iter().chain(list).collect()
            }
            NodeRefusal::NoneWhole { .. } => {
                vec!["shield only part of a node: omit --whole-node".to_owned()]
            }
            NodeRefusal::WholeAndPart => {
                vec!["omit whole_node, or omit count and share".to_owned()]
            }
            NodeRefusal::NoSuch { .. } => Vec::new(),
        }
    }
}

fn write_exhausted(
    f: &mut fmt::Formatter<'_>,
    node: &usize,
    cpus: &CpuSet,
    others: &CpuSet,
) -> fmt::Result {
    match node {
        node if others.is_empty() => write!(
            f,
            "node {node} would have no housekeeping CPU left: the request takes all its CPUs \
                 ({cpus})"
        ),
        node => write!(
            f,
            "node {node} would have no housekeeping CPU left: the request takes CPU {cpus}, \
                 and other shields have CPU {others}"
        ),
    }
}
