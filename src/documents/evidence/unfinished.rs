//! A watch that has not ended, as its file has it until then.

use crate::documents::time_text;
use cpushield_linux::CpuSet;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What `verify -o FILE` writes once a minute while it watches. The document replaces it at the
/// end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnfinishedWatch {
    /// The version of this format.
    pub schema: u32,
    /// The watched CPUs.
    pub cpus: CpuSet,
    /// How long the watch was to last, in nanoseconds.
    pub asked_ns: u64,
    /// How long the CPUs were watched without a break, in nanoseconds.
    pub watched_ns: u64,
    /// Most entries into the kernel on any of the CPUs so far; `null` without a trace. Nothing was
    /// judged yet.
    pub entries: Option<u64>,
    /// The longest gap so far, in nanoseconds; `null` without the sampler.
    pub gap_ns: Option<u64>,
}

impl fmt::Display for UnfinishedWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnfinishedWatch { cpus, asked_ns, watched_ns, entries, gap_ns, .. } = self;
        let (watched, asked) =
            (time_text::measured(*watched_ns), time_text::exact_duration(*asked_ns));
        write!(f, "the watch of CPU {cpus} ended early, after {watched} of {asked}")?;
        if let Some(entries) = entries {
            write!(f, ", with {entries} entries")?;
        }
        match gap_ns {
            Some(gap) if *gap > 0 => write!(f, ", longest gap {}", time_text::measured(*gap)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unfinished_watch_says_how_long_it_was_unbroken() {
        let watch = UnfinishedWatch {
            schema: 1,
            cpus: CpuSet::single(3),
            asked_ns: 3_600_000_000_000,
            watched_ns: 120_000_000_000,
            entries: Some(0),
            gap_ns: Some(41_000),
        };
        assert_eq!(
            watch.to_string(),
            "the watch of CPU 3 ended early, after 120s of 3600s, with 0 entries, longest gap \
             41us"
        );
        let unseen = UnfinishedWatch { entries: None, gap_ns: None, ..watch };
        assert_eq!(unseen.to_string(), "the watch of CPU 3 ended early, after 120s of 3600s");
    }
}
