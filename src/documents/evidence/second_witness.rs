//! The second witness: perf events that count the tracepoints that the trace records. This module
//! holds the figures that are compared and the doubts when they differ. Pure.
//!
//! The counters are read once before the span and once after it. On the clock of the trace, the
//! first read lasts from `a0` to `a1` and the second from `b0` to `b1`. An event before `a0` cannot
//! be in the difference; one between `a1` and `b0` must be. So the difference lies between the
//! number of records in (a1, b0) and in (a0, b1). There is no other tolerance.

use crate::documents::evidence::EntryClass;
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Nanoseconds of a millisecond.
const MS: u64 = 1_000_000;

/// One event of the trace on one CPU, seen by both witnesses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventEvidence {
    /// The class of entry that the event reports.
    pub class: EntryClass,
    /// System and name: `irq_vectors:local_timer_entry`.
    pub event: String,
    /// Records of the trace between the two reads of the counter. It must have counted these.
    pub recorded_least: u64,
    /// The same plus the records during the reads. It cannot have counted more.
    pub recorded_most: u64,
    /// What the perf event counted between the reads; `None` without such a counter.
    pub counted: Option<u64>,
}

impl EventEvidence {
    /// Whether both witnesses saw the same.
    #[must_use]
    pub fn is_confirmed(&self) -> bool {
        self.counted.is_some() && self.disagreement().is_none()
    }

    /// The difference between the two; `None` when they agree, or when nothing was counted.
    #[must_use]
    pub fn disagreement(&self) -> Option<WitnessDoubt> {
        let counted = self.counted?;
        let agree = (self.recorded_least..=self.recorded_most).contains(&counted);
        (!agree).then(|| WitnessDoubt::Disagreement { event: self.clone(), counted })
    }
}

/// Why the second witness or the trace cannot be relied on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "doubt", rename_all = "kebab-case")]
pub enum WitnessDoubt {
    /// The trace and the counter saw different numbers.
    #[print(write_disagreement(f, event, counted))]
    Disagreement {
        /// The event.
        event: EventEvidence,
        /// What was counted.
        counted: u64,
    },
    /// the counters were enabled for {enabled_ns} ms and counted for {running_ns} ms of {span_ns}
    /// ms: the CPU was offline, or something stopped them.
    #[with(enabled_ns = enabled_ns / MS, running_ns = running_ns / MS, span_ns = span_ns / MS)]
    NotCovering {
        /// Nanoseconds for which they were enabled between the reads.
        enabled_ns: u64,
        /// Nanoseconds for which they counted.
        running_ns: u64,
        /// Nanoseconds between the end of the first read and the beginning of the second.
        span_ns: u64,
    },
    /// the kernel split the counter group because the CPU went offline.
    GroupTakenApart,
    /// the counter of {event} went backwards from {first} to {last}.
    WentBack {
        /// The event that it counts.
        event: String,
        /// What it had counted before the span.
        first: u64,
        /// What it had counted after the span.
        last: u64,
    },
    /// the counters could not be read: {why}.
    Unreadable {
        /// The kernel's answer.
        why: String,
    },
}

fn write_disagreement(
    f: &mut fmt::Formatter<'_>,
    event: &EventEvidence,
    counted: &u64,
) -> fmt::Result {
    let EventEvidence { class, event, recorded_least, recorded_most, .. } = event;
    write!(f, "the witnesses for {class} disagree: perf counted {counted} of {event}, ")?;
    match recorded_least == recorded_most {
        true => write!(f, "the trace recorded {recorded_least}"),
        false => write!(f, "the trace recorded {recorded_least} to {recorded_most}"),
    }
}

/// The enabled time is on the kernel's `local_clock()`, the span on the clock of the trace. Both
/// rates come from one calibration of the TSC, and NTP changes `CLOCK_MONOTONIC` by at most one
/// part in this many (`tsc_refine_calibration_work()`, arch/x86/kernel/tsc.c; `MAXFREQ`,
/// kernel/time/ntp.c, 6.12).
const CLOCKS_DIFFER: u64 = 2_000;
/// Where the TSC is unstable, `local_clock()` stays within one tick of the clock of the machine
/// (`sched_clock_local()`, kernel/sched/clock.c, 6.12): 10 ms at 100 Hz, at both ends.
const CLOCK_STEPS_NS: u64 = 20_000_000;
/// A span of less than two seconds may miss at most this part.
const MISSED_MAX: u64 = 100;

/// How long a group of counters was enabled and counted between two reads, by `local_clock()`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedTime {
    /// Nanoseconds for which it was enabled.
    pub enabled_ns: u64,
    /// Nanoseconds for which it counted.
    pub running_ns: u64,
}

/// The doubt about counters that did not count for the whole span, in nanoseconds of the trace;
/// `None` when they did.
#[must_use]
pub fn check_coverage(counted: CountedTime, span_ns: u64) -> Option<WitnessDoubt> {
    let CountedTime { enabled_ns, running_ns } = counted;
    let missed_ns = (span_ns / CLOCKS_DIFFER + CLOCK_STEPS_NS).min(span_ns / MISSED_MAX);
    let least_ns = span_ns - missed_ns;
    let covered = enabled_ns >= least_ns && running_ns >= least_ns;
    (!covered).then_some(WitnessDoubt::NotCovering { enabled_ns, running_ns, span_ns })
}

/// What another process did to the recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "interference", rename_all = "kebab-case")]
pub enum TraceInterference {
    /// {by} wrote to {file} in the trace instance of verify.
    #[with(by = name_process(by))]
    Written {
        /// Below the directory of the tracing instance.
        file: String,
        /// `trace-cmd (812)`; `None` where the kernel does not say.
        by: Option<String>,
    },
    /// {by} opened {file} in the trace instance of verify.
    #[with(by = name_process(by))]
    Opened {
        /// Below the directory of the tracing instance.
        file: String,
        /// `trace-cmd (812)`; `None` where the kernel does not say.
        by: Option<String>,
    },
    /// {file} in the trace instance of verify was removed.
    Removed {
        /// Below the directory of the tracing instance.
        file: String,
    },
    /// the kernel could not report every access to the trace files.
    Unreported,
    /// cannot watch whether other processes change the trace: {answer}.
    Unwatched {
        /// The kernel's error.
        answer: String,
    },
    /// verify could not read its trace to the end: {answer}.
    Failed {
        /// The kernel's error.
        answer: String,
    },
    /// {file} in the trace instance of verify was set to {armed:?} and is now {found:?}.
    SettingChanged {
        /// Below the directory of the tracing instance.
        file: String,
        /// What was set.
        armed: String,
        /// What is there now; empty when the file is gone.
        found: String,
    },
}

fn name_process(by: &Option<String>) -> &str {
    by.as_deref().unwrap_or("another process")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(recorded: (u64, u64), counted: Option<u64>) -> EventEvidence {
        EventEvidence {
            class: EntryClass::PageFault,
            event: "exceptions:page_fault_user".to_owned(),
            recorded_least: recorded.0,
            recorded_most: recorded.1,
            counted,
        }
    }

    #[test]
    fn a_count_outside_the_recorded_range_is_a_disagreement_with_both_figures() {
        for (recorded, counted) in [((0, 0), Some(0)), ((3, 5), Some(3)), ((3, 5), Some(5))] {
            assert_eq!(event(recorded, counted).disagreement(), None);
        }
        assert_eq!(event((0, 0), None).disagreement(), None, "nothing to compare with");
        let text = |recorded, counted| event(recorded, Some(counted)).disagreement().unwrap();
        assert_eq!(
            text((0, 0), 1382).to_string(),
            "the witnesses for page faults disagree: perf counted 1382 of \
             exceptions:page_fault_user, the trace recorded 0"
        );
        assert_eq!(
            text((3, 5), 2).to_string(),
            "the witnesses for page faults disagree: perf counted 2 of \
             exceptions:page_fault_user, the trace recorded 3 to 5"
        );
        assert!(event((3, 5), Some(6)).disagreement().is_some());
    }

    #[test]
    fn counters_that_stopped_do_not_cover_the_span() {
        let second = 1_000_000_000;
        let check =
            |enabled_ns, running_ns| check_coverage(CountedTime { enabled_ns, running_ns }, second);
        assert_eq!(check(second, second), None);
        assert_eq!(check(second + 9_000_000, second), None, "reading takes time");
        let doubt = check(900_000_000, 900_000_000);
        assert!(matches!(doubt, Some(WitnessDoubt::NotCovering { .. })));
        assert!(check(second, 900_000_000).is_some());
        let minute = 60 * second;
        let missed = |missed| {
            let time = minute - missed;
            check_coverage(CountedTime { enabled_ns: time, running_ns: time }, minute)
        };
        assert!(missed(400_000_000).is_some(), "off for a blink of a long span");
        assert_eq!(missed(50_000_000), None, "as far as the clocks may differ");
    }
}
