//! The events that report entries into the kernel, and how often each was recorded between two
//! reads of the perf counters. The second witness compares these figures with its own.

use super::TraceRecorder;
use super::record_window::ReadSpan;
use super::trace_events::{self, EventSpec};
use crate::documents::evidence::{EntryClass, TraceInterference};
use cpushield_linux::text::trace_format::EventFormat;

/// An event that reports an entry into the kernel or a switch of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryEvent {
    /// The class of entry that it reports.
    pub class: EntryClass,
    /// Its directory below `events`.
    pub system: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Its place in the catalogue.
    pub(super) place: usize,
    /// Its number in the running kernel.
    pub id: u16,
}

impl std::fmt::Display for EntryEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.system, self.name)
    }
}

/// How often an event was recorded between two reads of the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedEvent {
    /// The event.
    pub event: EntryEvent,
    /// Records between the reads.
    pub least: u64,
    /// The same plus the records during the reads.
    pub most: u64,
}

/// The events of this kernel that report entries, in the order of the catalogue.
pub fn in_formats(formats: &[(&'static EventSpec, EventFormat)]) -> Vec<EntryEvent> {
    let mut found = Vec::new();
    for (place, spec) in trace_events::events().enumerate() {
        let format = formats.iter().find(|(known, _)| *known == spec);
        if let (Some(class), Some((_, format))) = (spec.kind.entry_class(), format) {
            let EventSpec { system, name, .. } = *spec;
            found.push(EntryEvent { class, system, name, place, id: format.id });
        }
    }
    found
}

impl TraceRecorder<'_> {
    /// The events that report entries, which the second witness counts too.
    #[must_use]
    pub fn entry_events(&self) -> &[EntryEvent] {
        &self.entry_events
    }

    /// Opens the window after the first read of a CPU's counters. There was no poll since the read
    /// began.
    pub fn open_window(&mut self, cpu: usize, read: ReadSpan) {
        let channels = self.channels.iter_mut().filter(|channel| channel.cpu == cpu);
        channels.for_each(|channel| channel.window.open(read));
    }

    /// Closes the window after the last read of a CPU's counters. There was no poll since the read
    /// began.
    pub fn close_window(&mut self, cpu: usize, read: ReadSpan) {
        let channels = self.channels.iter_mut().filter(|channel| channel.cpu == cpu);
        channels.for_each(|channel| channel.window.close(read));
    }

    /// The records of each entry event between the two reads, in the order of
    /// [`TraceRecorder::entry_events`].
    #[must_use]
    pub fn recorded(&self, cpu: usize) -> Vec<RecordedEvent> {
        let Some(channel) = self.channels.iter().find(|channel| channel.cpu == cpu) else {
            return Vec::new();
        };
        let mut recorded = Vec::new();
        for event in &self.entry_events {
            let (least, most) = channel.window.bounds(event.place);
            recorded.push(RecordedEvent { event: *event, least, most });
        }
        recorded
    }

    /// What other processes did to the recording so far.
    pub fn interference(&mut self) -> Vec<TraceInterference> {
        let monitor = self.interference.as_mut();
        monitor.map(|monitor| monitor.found(self.host, &self.instance)).unwrap_or_default()
    }
}

#[cfg(test)]
impl EntryEvent {
    /// An event for tests, at the first place.
    pub fn new(class: EntryClass, system: &'static str, name: &'static str, id: u16) -> EntryEvent {
        EntryEvent { class, system, name, place: 0, id }
    }
}
