//! What the command line and the files it names may say: numbers, CPU lists and documents. What is
//! wrong there is wrong input (exit code 2), whatever command reads it.

use crate::failure::{Failure, FailureKind};
use crate::plan::PlanRefusal;
use crate::policy::parse_span;
use cpushield_linux::{CpuSet, Host, read_document};
use std::ops::RangeInclusive;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

/// What a CPU list looks like.
pub(super) const LIST_HINT: &str = "a list looks like 3, 2-3 or 2-N";

/// Reads a file that the user named.
///
/// # Errors
/// The file is not there, is no text, or may not be read.
pub(super) fn read_file(file: &Path) -> Result<String, Failure> {
    read_document(file).map_err(|error| {
        let forbidden = matches!(error.errno(), Some(1 | 13));
        let failure = Failure::from(error);
        if forbidden { failure } else { Failure { kind: FailureKind::Usage, ..failure } }
    })
}

/// A list of CPUs.
///
/// # Errors
/// It is not a list, or names no CPU.
pub(super) fn cpu_list(text: &str) -> Result<CpuSet, String> {
    match text.parse::<CpuSet>() {
        Ok(cpus) if cpus.is_empty() => {
            Err("it names no CPU; a list looks like 3 or 2-3".to_owned())
        }
        Ok(cpus) => Ok(cpus),
        Err(error) => match mask_hint(text) {
            Some(hint) => Err(format!("{error}; {hint}")),
            None => Err(format!("{error}; a list looks like 3 or 2-3")),
        },
    }
}

/// What to do with a hexadecimal mask where a list is expected.
pub(super) fn mask_hint(text: &str) -> Option<String> {
    let cpus = CpuSet::parse_mask(text).ok().filter(|_| text.starts_with("0x"))?;
    Some(format!("this is a mask; `cpushield mask {text}` converts it to the list {cpus}"))
}

/// Refuses CPUs that the machine does not have, or that are offline.
///
/// # Errors
/// Names the CPUs.
pub(super) fn check_cpus(host: &Host, cpus: &CpuSet) -> Result<(), Failure> {
    let online = host.online_cpus()?;
    let present = host.read_line("/sys/devices/system/cpu/present");
    let present: CpuSet = present.ok().and_then(|text| text.parse().ok()).unwrap_or_default();
    let present = present.union(&online);
    if !cpus.is_subset(&present) {
        return Err(PlanRefusal::NoSuchCpu { cpus: cpus.minus(&present), present }.into());
    }
    if !cpus.is_subset(&online) {
        return Err(PlanRefusal::Offline { cpus: cpus.minus(&online) }.into());
    }
    Ok(())
}

/// The number of a process or a thread.
///
/// # Errors
/// It is not one.
pub(super) fn process_number(text: &str) -> Result<i32, String> {
    number(text, 1..=i32::MAX, "a process number")
}

/// The number of one CPU.
///
/// # Errors
/// It is not one.
pub(super) fn cpu_number(text: &str) -> Result<usize, String> {
    number(text, 0..=usize::MAX, "a CPU number")
}

/// The number of a NUMA node.
///
/// # Errors
/// It is not one.
pub(super) fn node_number(text: &str) -> Result<usize, String> {
    number(text, 0..=usize::MAX, "the number of a NUMA node")
}

/// A number of things that may be none.
///
/// # Errors
/// It is not one.
pub(super) fn amount(text: &str) -> Result<u64, String> {
    number(text, 0..=u64::MAX, "a whole number, 0 or more")
}

/// A real-time priority, as `SCHED_FIFO` has them.
///
/// # Errors
/// It is not one.
pub(super) fn priority(text: &str) -> Result<u32, String> {
    number(text, 1..=99, "a priority, 1 to 99")
}

/// A real-time priority that leaves the kernel one above it.
///
/// # Errors
/// It is not one.
pub(super) fn lower_priority(text: &str) -> Result<u32, String> {
    number(text, 1..=98, "a priority, 1 to 98")
}

/// A nice value.
///
/// # Errors
/// It is not one.
pub(super) fn nice(text: &str) -> Result<i32, String> {
    number(text, -20..=19, "a nice value, -20 to 19")
}

/// A time with its unit, as every option takes it ([`parse_span`]).
///
/// # Errors
/// It is not one.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    parse_span(text).map(Duration::from_nanos)
}

/// The same, longer than nothing.
///
/// # Errors
/// It is not one, or is none.
pub(super) fn span(text: &str) -> Result<Duration, String> {
    span_ns(text).map(Duration::from_nanos)
}

/// The same in nanoseconds.
///
/// # Errors
/// As [`span`].
pub(super) fn span_ns(text: &str) -> Result<u64, String> {
    match parse_span(text)? {
        0 => Err("the time must be longer than nothing".to_owned()),
        ns => Ok(ns),
    }
}

fn number<T: FromStr + PartialOrd>(
    text: &str,
    range: RangeInclusive<T>,
    what: &str,
) -> Result<T, String> {
    let found = text.parse().ok().filter(|number| range.contains(number));
    found.ok_or_else(|| format!("it is not {what}"))
}
