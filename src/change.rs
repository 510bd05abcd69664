//! The closed list of changes that cpushield makes to a machine. A [`Change`] is data: one executor
//! writes, reads back and journals it, one undo restores it (`apply/`). Pure.

mod check;
mod comparison;
mod written_file;

pub use check::ChangeFault;
pub use comparison::{ValueComparison, chosen_word};
pub use written_file::WrittenFile;

use crate::quote::quote_for_shell;
use check::{check_cpus, check_path, check_task, check_task_list, check_value};
use cpushield_linux::{CpuSet, Error, TaskId};
use serde::{Deserialize, Serialize};

/// One change to the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Change {
    /// Write a value to a kernel file that exists.
    Write {
        /// The file.
        path: String,
        /// The value to write.
        value: String,
        /// How the value read back is compared with what was written.
        compare: ValueComparison,
        /// What the file decides.
        #[serde(default, skip_serializing_if = "WrittenFile::is_setting")]
        what: WrittenFile,
    },
    /// Create a directory (a cgroup, a tracing instance). Undo removes it.
    MakeDir {
        /// The directory. Its parent exists, or an earlier change creates it.
        path: String,
    },
    /// Restrict one task to these CPUs.
    Affinity {
        /// Which task, by number and start time.
        task: TaskId,
        /// Its command name, for display.
        comm: String,
        /// The CPUs it may run on afterwards.
        cpus: CpuSet,
    },
    /// Move every task from one cgroup to another, repeatedly until none is left. Undo moves all of
    /// them back, including tasks created since.
    MoveTasks {
        /// The directory of the cgroup that they leave.
        from: String,
        /// The directory of the cgroup that they join.
        to: String,
        /// Tasks that may run on no other CPUs than these stay.
        #[serde(default, skip_serializing_if = "CpuSet::is_empty")]
        keep: CpuSet,
    },
    /// Move a process into the group of the shield: the user already runs it on these CPUs. Undo
    /// moves it back.
    MoveProcess {
        /// Its first thread, by number and start time.
        task: TaskId,
        /// Its command name, for display.
        comm: String,
        /// The directory of the cgroup that it joins.
        to: String,
    },
    /// Write nothing, but save every user task's affinity, because the kernel overwrites
    /// affinities when cpusets change (before 6.2 always, `user_cpus_ptr`, commit 8f9ea86fdf99).
    /// As its last step, undo restores those that were overwritten.
    KeepAffinities,
    /// Tell irqbalance, through its socket, not to use these CPUs.
    BanFromIrqbalance {
        /// The CPUs that it must not use.
        cpus: CpuSet,
    },
    /// Make systemd create and own a slice that is confined to these CPUs (`AllowedCPUs=`), at
    /// runtime only.
    Slice {
        /// The unit's name, [`crate::documents::plan::Shield::group`] with `.slice`.
        unit: String,
        /// `AllowedCPUs=` of the slice.
        cpus: CpuSet,
        /// `AllowedMemoryNodes=` of the slice; empty on a machine with one memory node, where the
        /// slice keeps those of its parent.
        mems: CpuSet,
    },
    /// Let the members of a group write the list of tasks of a cgroup (v1). Its owner stays.
    GiveToGroup {
        /// The file `tasks`.
        path: String,
        /// The group.
        gid: u32,
    },
    /// Take a CPU offline and online again. This moves away the timers and work queued there.
    CycleCpu {
        /// The CPU.
        cpu: usize,
    },
    /// Take an SMT sibling offline. Undo brings it online.
    OfflineSibling {
        /// The CPU.
        cpu: usize,
        /// A sibling of its core that keeps running.
        sibling: usize,
    },
}

/// The kind of a refusal, as far as it decides what to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RefusalKind {
    /// Another user has it (EBUSY).
    Busy,
    /// The kernel does not accept the value (EINVAL).
    Invalid,
    /// A cpuset has no CPUs or no memory nodes (ENOSPC).
    NoSpace,
    /// The task is exiting, so it cannot be moved.
    Exiting,
    /// The partition has CPUs that `isolcpus=` isolated at boot.
    IsolatedAtBoot,
    /// The partition has CPUs of another cgroup.
    NotExclusive,
    /// Any other answer.
    Other,
}

impl RefusalKind {
    /// The kind of a system call error.
    #[must_use]
    pub fn from_error(error: &Error) -> RefusalKind {
        match () {
            () if error.is_busy() => RefusalKind::Busy,
            () if error.is_invalid() => RefusalKind::Invalid,
            () if error.is_no_space() => RefusalKind::NoSpace,
            () => RefusalKind::Other,
        }
    }

    /// The kind of an invalid partition, from what `cpuset.cpus.partition` shows: `isolated invalid
    /// (partition config conflicts with housekeeping setup)`, `root invalid (Cpu list in
    /// cpuset.cpus not exclusive)` (`perr_strings`, kernel/cgroup/cpuset.c, 6.12).
    #[must_use]
    pub fn from_partition(shown: &str) -> RefusalKind {
        match () {
            () if shown.contains("housekeeping") => RefusalKind::IsolatedAtBoot,
            () if shown.contains("exclusive") => RefusalKind::NotExclusive,
            () => RefusalKind::Other,
        }
    }
}

/// Why a change was refused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Refusal {
    /// The kind of refusal.
    pub kind: RefusalKind,
    /// The answer of the kernel, `EIO: Input/output error`.
    pub reason: String,
}

impl From<&Error> for Refusal {
    fn from(error: &Error) -> Refusal {
        Refusal { kind: RefusalKind::from_error(error), reason: error.reason() }
    }
}

/// The outcome of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    /// The machine already had the value; nothing was written.
    AlreadySo,
    /// The value was written and read back.
    Changed,
    /// The kernel refused; nothing changed.
    Refused {
        /// The kind of refusal.
        kind: RefusalKind,
        /// The kernel's answer, `EIO: Input/output error`.
        reason: String,
    },
    /// The file, directory or task does not exist.
    Absent,
}

/// The harm that a change can do while it is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Risk {
    /// No harm.
    None,
    /// Something is slower or a diagnostic is disabled while the shield is active.
    Low,
    /// A misbehaving program can harm the machine, or all CPUs pause for a moment.
    Medium,
}

impl Risk {
    /// The word shown to the user.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Risk::None => "none",
            Risk::Low => "low",
            Risk::Medium => "medium",
        }
    }
}

/// When a change can take effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum EffectTime {
    /// Now, on the running kernel.
    Runtime,
    /// Only at the next boot, by a kernel parameter.
    Boot,
}

impl Change {
    /// Whether it makes or configures the cgroup of this name, or the slice.
    #[must_use]
    pub fn is_about_group(&self, group: &str) -> bool {
        let slice = format!("{group}.slice");
        match self {
            Change::Write { path, .. }
            | Change::MakeDir { path }
            | Change::MoveProcess { to: path, .. }
            | Change::GiveToGroup { path, .. } => {
                path.split('/').any(|part| part == group || part == slice)
            }
            Change::Slice { unit, .. } => *unit == slice,
            _ => false,
        }
    }

    /// The memory nodes that it gives to a group or a slice.
    #[must_use]
    pub fn shield_mems(&self) -> Option<CpuSet> {
        match self {
            Change::Write { value, what: WrittenFile::CpusetMems, .. } => value.parse().ok(),
            Change::Slice { mems, .. } if !mems.is_empty() => Some(mems.clone()),
            _ => None,
        }
    }

    /// What is changed, for display: a file, a task, a CPU.
    #[must_use]
    pub fn subject(&self) -> String {
        match self {
            Change::Write { path, .. } | Change::MakeDir { path } => path.clone(),
            Change::Affinity { task, comm, .. } => format!("affinity of {comm} ({})", task.tid),
            Change::MoveTasks { from, to, .. } => format!("tasks of {from} to {to}"),
            Change::MoveProcess { task, comm, .. } => format!("program {comm} ({})", task.tid),
            Change::KeepAffinities => "affinities of all tasks".to_owned(),
            Change::BanFromIrqbalance { .. } => "irqbalance".to_owned(),
            Change::Slice { unit, .. } => unit.clone(),
            Change::GiveToGroup { path, .. } => format!("access to {path}"),
            Change::CycleCpu { cpu } => format!("hotplug cycle of CPU {cpu}"),
            Change::OfflineSibling { cpu, sibling } => {
                format!("CPU {cpu}, the SMT sibling of CPU {sibling}")
            }
        }
    }

    /// Whether two changes are about the same object, so that the later one replaces the earlier
    /// one. Two CPU cycles are always separate changes.
    #[must_use]
    pub fn is_about_same(&self, other: &Change) -> bool {
        match self {
            Change::Write { path: a, .. } => {
                matches!(other, Change::Write { path: b, .. } if a == b)
            }
            Change::MakeDir { path: a } => matches!(other, Change::MakeDir { path: b } if a == b),
            Change::GiveToGroup { path: a, .. } => {
                matches!(other, Change::GiveToGroup { path: b, .. } if a == b)
            }
            Change::Slice { unit: a, .. } => {
                matches!(other, Change::Slice { unit: b, .. } if a == b)
            }
            Change::Affinity { task: a, .. } => {
                matches!(other, Change::Affinity { task: b, .. } if a == b)
            }
            Change::MoveProcess { task: a, .. } => {
                matches!(other, Change::MoveProcess { task: b, .. } if a == b)
            }
            Change::OfflineSibling { cpu: a, .. } => {
                matches!(other, Change::OfflineSibling { cpu: b, .. } if a == b)
            }
            Change::BanFromIrqbalance { .. } => matches!(other, Change::BanFromIrqbalance { .. }),
            Change::MoveTasks { from, to, .. } => {
                matches!(other, Change::MoveTasks { from: a, to: b, .. } if (from, to) == (a, b))
            }
            Change::KeepAffinities => self == other,
            Change::CycleCpu { .. } => false,
        }
    }

    /// Whether this change and one of another shield about the same object want different values,
    /// of which it can have only one. The CPUs of several shields are combined instead.
    #[must_use]
    pub fn conflicts_with(&self, theirs: &Change) -> bool {
        let has_one_value = match self {
            Change::Write { compare, .. } => !compare.is_set(),
            Change::GiveToGroup { .. } => true,
            Change::MakeDir { .. }
            | Change::Affinity { .. }
            | Change::MoveTasks { .. }
            | Change::MoveProcess { .. }
            | Change::KeepAffinities
            | Change::BanFromIrqbalance { .. }
            | Change::Slice { .. }
            | Change::CycleCpu { .. }
            | Change::OfflineSibling { .. } => false,
        };
        has_one_value && self.requested_value() != theirs.requested_value()
    }

    /// Checks a change from a saved plan for a shield with these CPUs and this cgroup.
    ///
    /// # Errors
    /// No plan may contain it.
    pub fn check(&self, shielded: &CpuSet, group: &str) -> Result<(), ChangeFault> {
        match self {
            Change::Write { path, value, compare, .. } => {
                check_path(path)?;
                check_value(value, *compare)
            }
            Change::MakeDir { path } => check_path(path),
            Change::MoveTasks { from, to, .. } => {
                check_path(&format!("{from}/")).and(check_path(to))
            }
            Change::Affinity { task, cpus, .. } => check_task(task.tid).and(check_cpus(cpus)),
            Change::MoveProcess { task, to, .. } => check_task(task.tid).and(check_path(to)),
            Change::KeepAffinities => Ok(()),
            Change::BanFromIrqbalance { cpus } => check_cpus(cpus),
            Change::Slice { unit, cpus, .. } => {
                let wanted = format!("{group}.slice");
                if *unit != wanted {
                    return Err(ChangeFault::Slice { wanted, found: unit.clone() });
                }
                check_cpus(cpus)
            }
            Change::GiveToGroup { path, .. } => check_task_list(path),
            Change::CycleCpu { cpu } if shielded.contains(*cpu) => Ok(()),
            Change::CycleCpu { cpu } => Err(ChangeFault::NotShielded { cpu: *cpu }),
            Change::OfflineSibling { cpu, sibling } => match (cpu, sibling) {
                (cpu, _) if !shielded.contains(*cpu) => Err(ChangeFault::NotShielded { cpu: *cpu }),
                (cpu, sibling) if cpu == sibling => Err(ChangeFault::OwnSibling { cpu: *cpu }),
                _ => Ok(()),
            },
        }
    }

    /// The value that it sets, for tables.
    #[must_use]
    pub fn requested_value(&self) -> String {
        match self {
            Change::Write { value, .. } => value.clone(),
            Change::MakeDir { .. } => "created".to_owned(),
            Change::Affinity { cpus, .. } => format!("CPU {cpus}"),
            Change::MoveTasks { .. } => "moved".to_owned(),
            Change::MoveProcess { to, .. } => to.clone(),
            Change::KeepAffinities => "saved".to_owned(),
            Change::BanFromIrqbalance { cpus } => format!("avoids CPU {cpus}"),
            Change::Slice { cpus, mems, .. } if mems.is_empty() => format!("CPU {cpus}"),
            Change::Slice { cpus, mems, .. } => format!("CPU {cpus}, memory {mems}"),
            Change::GiveToGroup { gid, .. } => format!("group {gid}"),
            Change::CycleCpu { .. } => "done".to_owned(),
            Change::OfflineSibling { .. } => "offline".to_owned(),
        }
    }

    /// The equivalent shell command, for `apply --dry-run`.
    #[must_use]
    pub fn shell(&self) -> String {
        match self {
            Change::Write { path, value, .. } => {
                format!("echo {} > {}", quote_for_shell(value), quote_for_shell(path))
            }
            Change::MakeDir { path } => format!("mkdir {}", quote_for_shell(path)),
            Change::Affinity { task, comm, cpus } => {
                format!("taskset -pc {cpus} {} > /dev/null  # {}", task.tid, escape_comment(comm))
            }
            Change::MoveTasks { from, to, .. } => {
                let (from, to) = (quote_for_shell(from), quote_for_shell(to));
                // v1 moves threads, v2 processes; bound kernel threads cannot move.
                format!(
                    "f=tasks; [ -e {from}/$f ] || f=cgroup.procs; \
                     for t in $(cat {from}/$f); do echo $t > {to}/$f; done 2> /dev/null"
                )
            }
            Change::MoveProcess { task, comm, to } => {
                let list = quote_for_shell(&format!("{to}/cgroup.procs"));
                format!("echo {} > {list}  # {}", task.tid, escape_comment(comm))
            }
            Change::KeepAffinities => {
                ":  # the affinity of every task would be saved here".to_owned()
            }
            Change::BanFromIrqbalance { cpus } => format!(
                "printf 'settings cpus {cpus}' | socat - UNIX:$(echo /run/irqbalance/*.sock)"
            ),
            Change::Slice { unit, cpus, mems } => {
                let properties = slice_properties(cpus, mems).join(" ");
                format!(
                    "systemctl set-property --runtime {unit} {properties} && systemctl start {unit}"
                )
            }
            Change::GiveToGroup { path, gid } => {
                let path = quote_for_shell(path);
                format!("chgrp {gid} {path} && chmod g+w {path}")
            }
            Change::CycleCpu { cpu } => {
                let online = format!("/sys/devices/system/cpu/cpu{cpu}/online");
                format!("echo 0 > {online}; echo 1 > {online}")
            }
            Change::OfflineSibling { cpu, .. } => {
                format!("echo 0 > /sys/devices/system/cpu/cpu{cpu}/online")
            }
        }
    }
}

/// The properties of the shield's slice, as `systemctl set-property` takes them
/// (systemd.resource-control(5), v257). Without memory nodes the slice has those of its parent.
#[must_use]
pub fn slice_properties(cpus: &CpuSet, mems: &CpuSet) -> Vec<String> {
    let cpus = format!("AllowedCPUs={cpus}");
    let mems = (!mems.is_empty()).then(|| format!("AllowedMemoryNodes={mems}"));
    [cpus].into_iter().chain(mems).collect()
}

/// Makes a text safe for a shell comment: the name of a task may contain any byte.
fn escape_comment(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
