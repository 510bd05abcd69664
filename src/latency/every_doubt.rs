//! All doubts about a [`LatencyMeasurement`], also those that follow from the rest of the document,
//! and the changes that the kernel refused. Pure.

use super::histogram::counts;
use super::{LatencyDoubt, LatencyMeasurement, LatencyNote, ThreadDoubt};

impl LatencyMeasurement {
    /// The tunables of which the kernel refused a change.
    pub fn refused_changes(&self) -> impl Iterator<Item = &str> {
        self.notes.iter().filter_map(|note| match note {
            LatencyNote::ChangeRefused { tunable } => Some(tunable.as_str()),
            _ => None,
        })
    }

    /// All doubts: of the document, its shield, its threads and its loads.
    #[must_use]
    pub fn every_doubt(&self) -> Vec<LatencyDoubt> {
        let mut doubts = self.doubts.clone();
        let broken = self.isolation.broken.iter().cloned();
        doubts.extend(broken.map(|breach| LatencyDoubt::ShieldBroken { breach }));
        for series in &self.series {
            let unreadable = counts(series).err();
            let unreadable =
                unreadable.map(|error| ThreadDoubt::HistogramUnreadable { why: error.to_string() });
            let of_thread = series.doubts.iter().cloned().chain(unreadable);
            doubts.extend(
                of_thread
                    .map(|doubt| LatencyDoubt::ThreadDoubtful { thread: series.thread(), doubt }),
            );
        }
        for load in &self.loads {
            doubts.extend(
                load.doubts
                    .iter()
                    .cloned()
                    .map(|doubt| LatencyDoubt::LoadDoubtful { load: load.name.clone(), doubt }),
            );
        }
        let (span_ns, asked_ns) = (self.span_ns, self.asked_ns);
        if self.unfinished {
            doubts.push(LatencyDoubt::Incomplete { span_ns, asked_ns });
        }
        if self.stopped {
            doubts.push(LatencyDoubt::Stopped { span_ns, asked_ns });
        }
        doubts
    }
}
