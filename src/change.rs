//! The closed list of what may be done to a machine. A [`Change`] is data: one executor writes,
//! reads back and journals it, one undo restores it (`apply/`). Pure.

use cpushield_linux::{CpuSet, Error, SchedPolicy, TaskId};
use serde::{Deserialize, Serialize};

/// One thing to be done to the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    },
    /// Make a directory (a cgroup, a tracing instance). Undo removes it.
    MakeDir {
        /// The directory; its parent exists or is made by an earlier change.
        path: String,
    },
    /// Restrict one task to these CPUs.
    Affinity {
        /// Which task, by number and start time.
        task: TaskId,
        /// Its command name, for people.
        comm: String,
        /// The CPUs it may run on afterwards.
        cpus: CpuSet,
    },
    /// Give one task a scheduling policy.
    Scheduling {
        /// Which task, by number and start time.
        task: TaskId,
        /// Its command name, for people.
        comm: String,
        /// The policy it has afterwards.
        policy: SchedPolicy,
    },
    /// Move every task of one cgroup into another, again until none is left. Undo moves all of
    /// them back, those born since too.
    MoveTasks {
        /// The cgroup's directory they are in.
        from: String,
        /// The cgroup's directory they go to.
        to: String,
    },
    /// Write nothing, but keep every user task's affinity, because the kernel overwrites
    /// affinities when cpusets change (before 6.2 always, `user_cpus_ptr`, commit 8f9ea86fdf99).
    /// Undo, last of all, puts back those that were rewritten.
    KeepAffinities,
    /// Tell irqbalance over its socket not to use these CPUs.
    BanFromIrqbalance {
        /// The CPUs it must leave alone.
        cpus: CpuSet,
    },
    /// Let systemd make and own a slice confined to these CPUs (`AllowedCPUs=`), at runtime only.
    Slice {
        /// The unit's name, [`crate::plan::Shield::group`] with `.slice`.
        unit: String,
        /// `AllowedCPUs=` and `AllowedMemoryNodes=` of the slice.
        cpus: CpuSet,
        /// Memory nodes of the slice.
        mems: CpuSet,
    },
    /// Take a CPU offline and online again, which sweeps timers and work queued there before.
    CycleCpu {
        /// The CPU.
        cpu: usize,
    },
}

/// How the kernel's answer is compared with what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ValueComparison {
    /// The same text but for white space around it.
    Text,
    /// The same set in list form (`0-2,5`).
    List,
    /// The same set in mask form, whatever the leading zeros (`00000007`, `7`).
    Mask,
    /// The bracketed word of a choice (`always [madvise] never`), or the first word of the text
    /// (`15 (expanded: 1408)`), is the value.
    Word,
    /// `+word` is written and the word is among those of the file (`cgroup.subtree_control`), or
    /// `-word` and it is not.
    Member,
    /// The same text, and it is written though it is there already: the kernel does something at
    /// each write.
    Again,
}

impl ValueComparison {
    /// Whether a file that shows `found` need not be written.
    #[must_use]
    pub fn already(self, found: &str, wanted: &str) -> bool {
        self != ValueComparison::Again && self.same(found, wanted)
    }

    /// Whether `found` (read back) says the same as `wanted` (written).
    #[must_use]
    pub fn same(self, found: &str, wanted: &str) -> bool {
        let (found, wanted) = (found.trim(), wanted.trim());
        match self {
            ValueComparison::Text | ValueComparison::Again => found == wanted,
            ValueComparison::List => match (found.parse::<CpuSet>(), wanted.parse::<CpuSet>()) {
                (Ok(a), Ok(b)) => a == b,
                _ => false,
            },
            ValueComparison::Mask => {
                match (CpuSet::parse_mask(found), CpuSet::parse_mask(wanted)) {
                    (Ok(a), Ok(b)) => a == b,
                    _ => false,
                }
            }
            ValueComparison::Word => chosen_word(found) == wanted,
            ValueComparison::Member => wanted.split_whitespace().all(|word| {
                let (present, name) = match word.strip_prefix('-') {
                    Some(name) => (false, name),
                    None => (true, word.trim_start_matches('+')),
                };
                found.split_whitespace().any(|known| known == name) == present
            }),
        }
    }
}

/// The word in brackets, else the first word.
#[must_use]
pub fn chosen_word(text: &str) -> &str {
    match text.split_once('[').and_then(|(_, rest)| rest.split_once(']')) {
        Some((word, _)) => word,
        None => text.split_whitespace().next().unwrap_or(""),
    }
}

/// What kind of answer refused a change, as far as it decides what to do about it.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalKind {
    /// Something else has it (EBUSY).
    Busy,
    /// The kernel does not take the value (EINVAL).
    Invalid,
    /// A cpuset has no CPUs or no memory nodes (ENOSPC).
    NoSpace,
    /// The task is exiting, and stays where it is.
    Exiting,
    /// A partition with CPUs that `isolcpus=` has isolated at boot.
    IsolatedAtBoot,
    /// A partition with CPUs that another control group has.
    NotExclusive,
    /// Any other answer.
    #[default]
    Other,
}

impl RefusalKind {
    /// Of the answer to a system call.
    #[must_use]
    pub fn of(error: &Error) -> RefusalKind {
        match () {
            () if error.is_busy() => RefusalKind::Busy,
            () if error.is_invalid() => RefusalKind::Invalid,
            () if error.is_no_space() => RefusalKind::NoSpace,
            () => RefusalKind::Other,
        }
    }

    /// Of what `cpuset.cpus.partition` shows of a partition that is not valid: `isolated invalid
    /// (partition config conflicts with housekeeping setup)`, `root invalid (Cpu list in
    /// cpuset.cpus not exclusive)` (`perr_strings`, kernel/cgroup/cpuset.c, 6.12).
    #[must_use]
    pub fn of_partition(shown: &str) -> RefusalKind {
        match () {
            () if shown.contains("housekeeping") => RefusalKind::IsolatedAtBoot,
            () if shown.contains("exclusive") => RefusalKind::NotExclusive,
            () => RefusalKind::Other,
        }
    }
}

/// Why something was refused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Refusal {
    /// The kind of answer.
    pub kind: RefusalKind,
    /// The answer.
    pub reason: String,
}

impl From<&Error> for Refusal {
    fn from(error: &Error) -> Refusal {
        Refusal { kind: RefusalKind::of(error), reason: error.reason() }
    }
}

/// What came of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    /// The machine was like that before; nothing was written.
    AlreadySo,
    /// Written and read back.
    Changed,
    /// The kernel refused; nothing changed.
    Refused {
        /// What kind of answer it was.
        #[serde(default)]
        kind: RefusalKind,
        /// The kernel's answer, `EIO: Input/output error`.
        reason: String,
    },
    /// The file, directory or task is not there.
    Absent,
}

/// How much harm a change can do while it is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Risk {
    /// Nothing is lost.
    None,
    /// Something gets slower or a diagnostic is off while the shield is up.
    Low,
    /// A program that misbehaves can now harm the machine, or all CPUs pause for a moment.
    Medium,
}

impl Risk {
    /// The word for people.
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
    /// Only by a kernel parameter at the next boot.
    Boot,
}

impl Change {
    /// What is changed, for people: a file, a task, a CPU.
    #[must_use]
    pub fn subject(&self) -> String {
        match self {
            Change::Write { path, .. } | Change::MakeDir { path } => path.clone(),
            Change::Affinity { task, comm, .. } => format!("affinity of {comm} ({})", task.tid),
            Change::Scheduling { task, comm, .. } => format!("policy of {comm} ({})", task.tid),
            Change::MoveTasks { from, to } => format!("tasks of {from} to {to}"),
            Change::KeepAffinities => "affinities of all tasks".to_owned(),
            Change::BanFromIrqbalance { .. } => "irqbalance".to_owned(),
            Change::Slice { unit, .. } => unit.clone(),
            Change::CycleCpu { cpu } => format!("CPU {cpu} offline and online"),
        }
    }

    /// Whether two changes are about the same thing, so that the later one takes the place of the
    /// earlier one. A CPU that is taken offline once more is another time of it.
    #[must_use]
    pub fn is_about_same(&self, other: &Change) -> bool {
        match (self, other) {
            (Change::Write { path: a, .. }, Change::Write { path: b, .. })
            | (Change::MakeDir { path: a }, Change::MakeDir { path: b })
            | (Change::Slice { unit: a, .. }, Change::Slice { unit: b, .. }) => a == b,
            (Change::Affinity { task: a, .. }, Change::Affinity { task: b, .. })
            | (Change::Scheduling { task: a, .. }, Change::Scheduling { task: b, .. }) => a == b,
            (Change::MoveTasks { .. }, Change::MoveTasks { .. }) => self == other,
            (Change::BanFromIrqbalance { .. }, Change::BanFromIrqbalance { .. })
            | (Change::KeepAffinities, Change::KeepAffinities) => true,
            _ => false,
        }
    }

    /// The equivalent shell command, for `apply --dry-run`.
    #[must_use]
    pub fn shell(&self) -> String {
        match self {
            Change::Write { path, value, .. } => {
                format!("echo {} > {}", quoted(value), quoted(path))
            }
            Change::MakeDir { path } => format!("mkdir {}", quoted(path)),
            Change::Affinity { task, comm, cpus } => {
                format!("taskset -pc {cpus} {} > /dev/null  # {}", task.tid, remark(comm))
            }
            Change::Scheduling { task, comm, policy } => {
                format!("{} {}  # {}", chrt(*policy), task.tid, remark(comm))
            }
            Change::MoveTasks { from, to } => {
                let (from, to) = (quoted(from), quoted(to));
                // v1 moves threads, v2 processes; bound kernel threads stay where they are.
                format!(
                    "f=tasks; [ -e {from}/$f ] || f=cgroup.procs; \
                     for t in $(cat {from}/$f); do echo $t > {to}/$f; done 2> /dev/null"
                )
            }
            Change::KeepAffinities => {
                ":  # here the affinity of every task would be saved".to_owned()
            }
            Change::BanFromIrqbalance { cpus } => format!(
                "printf 'settings cpus {cpus}' | socat - UNIX:$(echo /run/irqbalance/*.sock)"
            ),
            Change::Slice { unit, cpus, mems } => format!(
                "systemctl set-property --runtime {unit} AllowedCPUs={cpus} AllowedMemoryNodes={mems} \
                 && systemctl start {unit}"
            ),
            Change::CycleCpu { cpu } => {
                let online = format!("/sys/devices/system/cpu/cpu{cpu}/online");
                format!("echo 0 > {online}; echo 1 > {online}")
            }
        }
    }
}

/// The command that gives a scheduling policy.
fn chrt(policy: SchedPolicy) -> String {
    match policy {
        SchedPolicy::Fifo { priority } => format!("chrt -f -p {priority}"),
        SchedPolicy::Rr { priority } => format!("chrt -r -p {priority}"),
        SchedPolicy::Batch { .. } => "chrt -b -p 0".to_owned(),
        SchedPolicy::Idle => "chrt -i -p 0".to_owned(),
        SchedPolicy::Deadline { runtime_ns, deadline_ns, period_ns } => {
            format!("chrt -d -T {runtime_ns} -D {deadline_ns} -P {period_ns} -p 0")
        }
        SchedPolicy::Other { .. } | SchedPolicy::Unknown { .. } => "chrt -o -p 0".to_owned(),
    }
}

/// Text that stays within a remark: a task's name may hold any byte.
fn remark(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// A word as the shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_,./+:=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_back_are_compared_by_meaning() {
        assert!(ValueComparison::Mask.same("00000000,00000007\n", "7"));
        assert!(!ValueComparison::Mask.same("f", "7"));
        assert!(ValueComparison::List.same("0-2\n", "0,1,2"));
        assert!(ValueComparison::Word.same("always [madvise] never\n", "madvise"));
        assert!(!ValueComparison::Word.same("always [madvise] never\n", "never"));
        assert!(ValueComparison::Word.same("1408 (expanded: 1408)", "1408"));
        assert!(ValueComparison::Text.same("-1\n", "-1"));
        assert!(ValueComparison::Member.same("cpu cpuset io\n", "+cpuset"));
        assert!(!ValueComparison::Member.same("cpu io\n", "+cpuset"));
        assert!(ValueComparison::Member.same("cpu io\n", "-cpuset"));
    }
}
