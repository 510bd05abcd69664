//! Checks of the parts of a change that a user may have edited in a saved plan. Pure.

use super::ValueComparison;
use cpushield_linux::CpuSet;

/// Where a change may write and create directories: kernel interfaces, never files on a disk.
const WRITES: &[&str] = &["/sys/", "/proc/sys/", "/proc/irq/", "/dev/cpuset/"];
/// The longest value that a kernel file accepts in one write.
const VALUE_BYTES_MAX: usize = 4096;

pub(super) fn check_path(path: &str) -> Result<(), String> {
    let inside = WRITES.iter().any(|prefix| path.starts_with(prefix));
    let direct = path.split('/').skip(1).all(|name| name != "." && name != "..");
    let clean = !path.contains("//") && !path.chars().any(char::is_control);
    if inside && direct && clean {
        return Ok(());
    }
    let places = WRITES.join(", ");
    Err(format!("expected a path below {places} without . and .., found {path:?}"))
}

pub(super) fn check_value(value: &str, compare: ValueComparison) -> Result<(), String> {
    if value.len() > VALUE_BYTES_MAX || value.chars().any(char::is_control) {
        return Err("expected one line of at most 4096 bytes as the value".to_owned());
    }
    let fits = match compare {
        ValueComparison::List => value.parse::<CpuSet>().is_ok(),
        ValueComparison::Mask => CpuSet::parse_mask(value).is_ok(),
        ValueComparison::Member => {
            value.split_whitespace().all(|word| word.starts_with(['+', '-']))
        }
        ValueComparison::Text | ValueComparison::Word | ValueComparison::Again => !value.is_empty(),
    };
    if fits { Ok(()) } else { Err(format!("{value:?} is not a value of the kind {compare:?}")) }
}

pub(super) fn check_task(tid: i32) -> Result<(), String> {
    if tid > 0 { Ok(()) } else { Err(format!("expected the number of a task, found {tid}")) }
}

pub(super) fn check_cpus(cpus: &CpuSet) -> Result<(), String> {
    if cpus.is_empty() { Err("expected at least one CPU".to_owned()) } else { Ok(()) }
}

/// Only lists of tasks are given away: a file `cpuset.*` would let its writer change the shield.
pub(super) fn check_task_list(path: &str) -> Result<(), String> {
    check_path(path)?;
    let places = ["/sys/fs/cgroup/", "/dev/cpuset/"];
    if path.ends_with("/tasks") && places.iter().any(|place| path.starts_with(place)) {
        return Ok(());
    }
    Err(format!("expected the file tasks of a control group, found {path:?}"))
}
