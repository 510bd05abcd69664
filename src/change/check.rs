//! Checks of the parts of a change that a user may have edited in a saved plan. Pure.

use super::ValueComparison;
use cpushield_linux::CpuSet;
use cpushield_sentence::Sentence;

/// Where a change may write and create directories: kernel interfaces, never files on a disk.
const WRITES: &[&str] = &["/sys/", "/proc/sys/", "/proc/irq/", "/dev/cpuset/"];
/// The longest value that a kernel file accepts in one write.
const VALUE_BYTES_MAX: usize = 4096;

/// Why no plan may contain a change.
#[derive(Debug, Clone, PartialEq, Eq, Sentence)]
pub enum ChangeFault {
    /// expected a path below {places} without . or .., found {path:?}.
    #[with(places = WRITES.join(", "))]
    Place {
        /// The path.
        path: String,
    },
    /// expected the `tasks` file of a cgroup, found {path:?}.
    NotTaskList {
        /// The path.
        path: String,
    },
    /// expected one line of at most {VALUE_BYTES_MAX} bytes as the value.
    NotOneLine,
    /// expected {expected} as the value, found {value:?}.
    #[with(expected = match compare {
                    ValueComparison::List => "a CPU list",
                    ValueComparison::Mask => "a CPU mask",
                    ValueComparison::Member => "+WORD or -WORD",
                    ValueComparison::Text | ValueComparison::Word | ValueComparison::Again => {
                        "one word or number"
                    }
                })]
    Value {
        /// The value.
        value: String,
        /// The kind.
        compare: ValueComparison,
    },
    /// expected a task ID, found {tid}.
    Task {
        /// The number.
        tid: i32,
    },
    /// expected at least one CPU.
    NoCpu,
    /// expected the slice {wanted:?}, found {found:?}.
    Slice {
        /// The slice of the shield.
        wanted: String,
        /// The slice that was found.
        found: String,
    },
    /// CPU {cpu} is not shielded.
    NotShielded {
        /// The CPU.
        cpu: usize,
    },
    /// a CPU cannot be its own sibling: CPU {cpu}.
    OwnSibling {
        /// The CPU.
        cpu: usize,
    },
    /// expected an earlier step that saves the affinities of tasks, found none.
    AffinitiesNotSaved,
}

pub(super) fn check_path(path: &str) -> Result<(), ChangeFault> {
    let inside = WRITES.iter().any(|prefix| path.starts_with(prefix));
    let direct = path.split('/').skip(1).all(|name| name != "." && name != "..");
    let clean = !path.contains("//") && !path.chars().any(char::is_control);
    if inside && direct && clean {
        return Ok(());
    }
    Err(ChangeFault::Place { path: path.to_owned() })
}

pub(super) fn check_value(value: &str, compare: ValueComparison) -> Result<(), ChangeFault> {
    if value.len() > VALUE_BYTES_MAX || value.chars().any(char::is_control) {
        return Err(ChangeFault::NotOneLine);
    }
    let fits = match compare {
        ValueComparison::List => value.parse::<CpuSet>().is_ok(),
        ValueComparison::Mask => CpuSet::parse_mask(value).is_ok(),
        ValueComparison::Member => {
            value.split_whitespace().all(|word| word.starts_with(['+', '-']))
        }
        ValueComparison::Text | ValueComparison::Word | ValueComparison::Again => !value.is_empty(),
    };
    if fits { Ok(()) } else { Err(ChangeFault::Value { value: value.to_owned(), compare }) }
}

pub(super) fn check_task(tid: i32) -> Result<(), ChangeFault> {
    if tid > 0 { Ok(()) } else { Err(ChangeFault::Task { tid }) }
}

pub(super) fn check_cpus(cpus: &CpuSet) -> Result<(), ChangeFault> {
    if cpus.is_empty() { Err(ChangeFault::NoCpu) } else { Ok(()) }
}

/// Only lists of tasks are given away: a file `cpuset.*` would let its writer change the shield.
pub(super) fn check_task_list(path: &str) -> Result<(), ChangeFault> {
    check_path(path)?;
    let places = ["/sys/fs/cgroup/", "/dev/cpuset/"];
    if path.ends_with("/tasks") && places.iter().any(|place| path.starts_with(place)) {
        return Ok(());
    }
    Err(ChangeFault::NotTaskList { path: path.to_owned() })
}
