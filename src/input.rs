//! Parses values of the command line: numbers, times, known names and selections of CPUs. An error
//! here is wrong input (exit code 2) in every subcommand.

use crate::cpu_selection::{CpuSelection, selection_hint};
use crate::policy::parse_span;
use clap::builder::{PathBufValueParser, PossibleValue, StringValueParser, TypedValueParser};
use std::ffi::OsStr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Parses a selection of CPUs, which the machine resolves.
///
/// # Errors
/// It is not a selection, or names no CPU.
pub fn cpu_selection(text: &str) -> Result<CpuSelection, String> {
    CpuSelection::parse(text).map_err(|error| format!("{error}; {}", selection_hint(text)))
}

/// Whether this file is standard output.
pub fn is_standard_output(file: &Path) -> bool {
    file == Path::new("-")
}

/// Parses the name of a file to write in addition to the result. A file named `-` is never meant.
pub fn output_file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|file| match is_standard_output(&file) {
        true => Err("expected a file: standard output has the result (as JSON: --json)"),
        false => Ok(file),
    })
}

/// Parses the number of a process or a thread.
///
/// # Errors
/// The text is not one.
pub fn process_number(text: &str) -> Result<i32, String> {
    number(text, 1..=i32::MAX, "a process or thread ID")
}

/// Parses the number of a CPU.
///
/// # Errors
/// The text is not one.
pub fn cpu_number(text: &str) -> Result<usize, String> {
    number(text, 0..=usize::MAX, "a CPU number")
}

/// Parses a count, which may be 0.
///
/// # Errors
/// The text is not one.
pub fn amount(text: &str) -> Result<u64, String> {
    number(text, 0..=u64::MAX, "a whole number that is 0 or more")
}

/// Parses a `SCHED_FIFO` priority, 1 to 99.
///
/// # Errors
/// The text is not one.
pub fn priority(text: &str) -> Result<u32, String> {
    number(text, 1..=99, "a priority from 1 to 99")
}

/// Parses a real-time priority, 1 to 98. The kernel's threads need a higher one.
///
/// # Errors
/// The text is not one.
pub fn lower_priority(text: &str) -> Result<u32, String> {
    number(text, 1..=98, "a priority from 1 to 98")
}

/// Parses a nice value.
///
/// # Errors
/// The text is not one.
pub fn nice(text: &str) -> Result<i32, String> {
    number(text, -20..=19, "a nice value from -20 to 19")
}

/// Parses a time with a unit, in the form of every TIME option ([`parse_span`]).
///
/// # Errors
/// The text is not one.
pub fn time(text: &str) -> Result<Duration, String> {
    parse_time(text).map(Duration::from_nanos)
}

fn parse_time(text: &str) -> Result<u64, String> {
    match text.trim().strip_prefix('-').map(parse_span) {
        Some(Ok(_)) => Err("a time cannot be negative".to_owned()),
        _ => parse_span(text),
    }
}

/// Parses a time that is not 0.
///
/// # Errors
/// The text is not one.
pub fn span(text: &str) -> Result<Duration, String> {
    span_ns(text).map(Duration::from_nanos)
}

/// Parses a time that is not 0, in nanoseconds.
///
/// # Errors
/// As [`span`].
pub fn span_ns(text: &str) -> Result<u64, String> {
    match parse_time(text)? {
        0 => Err("the time must be longer than 0".to_owned()),
        ns => Ok(ns),
    }
}

/// An argument that shells complete to known names. It accepts any text, because the
/// subcommand reports an unknown name better than clap does: it suggests similar names.
#[derive(Debug, Clone)]
pub struct KnownWord(pub fn() -> Vec<&'static str>);

impl TypedValueParser for KnownWord {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter().map(PossibleValue::new)))
    }
}

fn number<T: FromStr + PartialOrd>(
    text: &str,
    range: RangeInclusive<T>,
    what: &str,
) -> Result<T, String> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("not {what}"))
}
