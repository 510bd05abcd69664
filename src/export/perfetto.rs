//! A Perfetto trace for ui.perfetto.dev. Each watched CPU has a track of the workload with its
//! interruptions and nested events, and a track of the gaps that the sampler saw. Above them is a
//! track of the phases of the run. Names and numbers of fields are those of Perfetto v59
//! (protos/perfetto/trace: `trace_packet.proto`, `track_event.proto`, `track_descriptor.proto`,
//! `debug_annotation.proto`, `interned_data.proto`).

use super::protobuf::ProtoMessage;
use crate::causes::{Cause, Culprit};
use crate::trace::recording::TraceRecording;
use crate::trace::timeline::{TimelineEntry, TimelineKind, story};
use std::collections::HashMap;
use std::io::{self, Write};

/// `Trace.packet`.
const PACKET: u32 = 1;

/// `TracePacket`.
mod packet {
    pub const TIMESTAMP: u32 = 8;
    pub const SEQUENCE: u32 = 10;
    pub const TRACK_EVENT: u32 = 11;
    pub const INTERNED_DATA: u32 = 12;
    pub const SEQUENCE_FLAGS: u32 = 13;
    pub const TRACK_DESCRIPTOR: u32 = 60;
    /// `SEQ_INCREMENTAL_STATE_CLEARED`: earlier interned data is no longer valid.
    pub const CLEARED: u64 = 1;
    /// `SEQ_NEEDS_INCREMENTAL_STATE`: the packet refers to earlier interned data.
    pub const NEEDS: u64 = 2;
}

/// `TrackDescriptor`.
mod track {
    pub const UUID: u32 = 1;
    pub const NAME: u32 = 2;
    pub const PARENT: u32 = 5;
    pub const CHILD_ORDERING: u32 = 11;
    pub const RANK: u32 = 12;
    /// `ChildTracksOrdering.EXPLICIT`: ordered by rank.
    pub const BY_RANK: u64 = 3;
}

/// `TrackEvent`.
mod event {
    pub const ANNOTATION: u32 = 4;
    pub const TYPE: u32 = 9;
    pub const NAME_IID: u32 = 10;
    pub const TRACK: u32 = 11;
    pub const CATEGORY: u32 = 22;
    pub const BEGIN: u64 = 1;
    pub const END: u64 = 2;
    pub const INSTANT: u64 = 3;
}

/// `DebugAnnotation`.
mod annotation {
    pub const UINT: u32 = 3;
    pub const STRING: u32 = 6;
    pub const NAME: u32 = 10;
}

/// `InternedData.event_names`, and `EventName`.
const EVENT_NAMES: u32 = 2;
const IID: u32 = 1;
const IID_NAME: u32 = 2;

/// The one sequence of packets, and the tracks above those of the CPUs.
const SEQUENCE: u64 = 1;
const ROOT: u64 = 1;
const PHASES: u64 = 2;

/// What the recording does not contain.
pub struct ExportContext<'a> {
    /// The name of the workload; `None` uses the names of its threads.
    pub workload: Option<&'a str>,
    /// The remedy for an interruption; `None` when no remedy is known.
    pub remedy: &'a dyn Fn(Cause, &Culprit) -> Option<String>,
}

impl std::fmt::Debug for ExportContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExportContext").field("workload", &self.workload).finish_non_exhaustive()
    }
}

/// Writes the whole trace.
///
/// # Errors
/// Pages could not be kept or read back, or the writer failed.
pub fn write(
    recording: &mut TraceRecording,
    context: &ExportContext<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut file = TraceFile { out, names: HashMap::new() };
    let title = format!("cpushield {}", env!("CARGO_PKG_VERSION"));
    let root = ProtoMessage::default()
        .number(track::UUID, ROOT)
        .text(track::NAME, title.as_str())
        .number(track::CHILD_ORDERING, track::BY_RANK);
    let first = ProtoMessage::default()
        .number(packet::SEQUENCE, SEQUENCE)
        .number(packet::SEQUENCE_FLAGS, packet::CLEARED)
        .message(packet::TRACK_DESCRIPTOR, &root);
    file.packet(&first)?;
    file.track(PHASES, "phases of the watch", 0)?;
    phases(&mut file, recording)?;
    let cpus: Vec<usize> = recording.cpus.iter().map(|(cpu, _)| *cpu).collect();
    for (rank, cpu) in (1_u64..).zip(cpus) {
        let (workload, gaps) = (16 + 2 * cpu as u64, 17 + 2 * cpu as u64);
        file.track(workload, &format!("CPU {cpu}: workload and interruptions"), 2 * rank)?;
        let mut track = CpuTrack { track: workload, ends: Vec::new() };
        story(recording, cpu, &mut |entry| track.write_entry(&mut file, entry, context))?;
        track.close(&mut file, 0, u64::MAX)?;
        if recording.gaps.iter().any(|(at, _)| *at == cpu) {
            file.track(gaps, &format!("CPU {cpu}: gaps in user space"), 2 * rank + 1)?;
            gap_track(&mut file, recording, cpu, gaps)?;
        }
    }
    Ok(())
}

/// The output, and the names that are already interned in it.
struct TraceFile<'a> {
    out: &'a mut dyn Write,
    names: HashMap<String, u64>,
}

impl TraceFile<'_> {
    fn packet(&mut self, packet: &ProtoMessage) -> io::Result<()> {
        self.out.write_all(ProtoMessage::default().message(PACKET, packet).as_bytes())
    }

    fn track(&mut self, uuid: u64, name: &str, rank: u64) -> io::Result<()> {
        let track = ProtoMessage::default()
            .number(track::UUID, uuid)
            .number(track::PARENT, ROOT)
            .text(track::NAME, name)
            .number(track::RANK, rank);
        let packet = ProtoMessage::default()
            .number(packet::SEQUENCE, SEQUENCE)
            .message(packet::TRACK_DESCRIPTOR, &track);
        self.packet(&packet)
    }

    fn event(&mut self, at_ns: u64, name: Option<&str>, event: ProtoMessage) -> io::Result<()> {
        let mut packet = ProtoMessage::default()
            .number(packet::TIMESTAMP, at_ns)
            .number(packet::SEQUENCE, SEQUENCE)
            .number(packet::SEQUENCE_FLAGS, packet::NEEDS);
        let mut event = event;
        if let Some(name) = name {
            let next = self.names.len() as u64 + 1;
            let known = self.names.get(name).copied();
            let iid = known.unwrap_or(next);
            if known.is_none() {
                self.names.insert(name.to_owned(), iid);
                let entry = ProtoMessage::default().number(IID, iid).text(IID_NAME, name);
                let names = ProtoMessage::default().message(EVENT_NAMES, &entry);
                packet = packet.message(packet::INTERNED_DATA, &names);
            }
            event = event.number(event::NAME_IID, iid);
        }
        self.packet(&packet.message(packet::TRACK_EVENT, &event))
    }

    /// A slice that ends before the next one on the track begins.
    fn slice(
        &mut self,
        (begun, end): (u64, u64),
        name: &str,
        begin: ProtoMessage,
    ) -> io::Result<()> {
        let track = begin.clone().number(event::TYPE, event::END);
        self.event(begun, Some(name), begin.number(event::TYPE, event::BEGIN))?;
        self.event(end, None, track)
    }
}

fn event_on(track: u64) -> ProtoMessage {
    ProtoMessage::default().number(event::TRACK, track)
}

fn annotate(event: ProtoMessage, name: &str, text: &str) -> ProtoMessage {
    let note = ProtoMessage::default().text(annotation::NAME, name).text(annotation::STRING, text);
    event.message(event::ANNOTATION, &note)
}

fn phases(file: &mut TraceFile<'_>, recording: &TraceRecording) -> io::Result<()> {
    for pair in recording.phases.windows(2) {
        let [(begun, name), (end, _)] = pair else { continue };
        if !name.is_empty() && end > begun {
            let span = (recording.scale.ns(*begun), recording.scale.ns(*end));
            file.slice(span, name, event_on(PHASES))?;
        }
    }
    Ok(())
}

fn gap_track(
    file: &mut TraceFile<'_>,
    recording: &TraceRecording,
    cpu: usize,
    track: u64,
) -> io::Result<()> {
    for (_, gap) in recording.gaps.iter().filter(|(at, _)| *at == cpu) {
        let span = (recording.scale.ns(gap.start), recording.scale.ns(gap.end));
        file.slice(span, "gap", event_on(track))?;
    }
    Ok(())
}

/// The track of one CPU, with the ends of its open slices, the outermost first.
struct CpuTrack {
    track: u64,
    ends: Vec<u64>,
}

impl CpuTrack {
    /// Ends the slices at this depth or deeper, at this time at the latest.
    fn close(&mut self, file: &mut TraceFile<'_>, depth: usize, at_ns: u64) -> io::Result<()> {
        while self.ends.len() > depth {
            let end = self.ends.pop().unwrap_or(0).min(at_ns);
            file.event(end, None, event_on(self.track).number(event::TYPE, event::END))?;
        }
        Ok(())
    }

    fn write_entry(
        &mut self,
        file: &mut TraceFile<'_>,
        entry: &TimelineEntry,
        context: &ExportContext<'_>,
    ) -> io::Result<()> {
        self.close(file, entry.depth, entry.begun_ns)?;
        let (name, category) = name(&entry.what, context.workload);
        let mut event = event_on(self.track).text(event::CATEGORY, category);
        match &entry.what {
            TimelineKind::Interruption(cause, culprit) => {
                event = annotate(event, "cause", cause.name());
                event = annotate(event, "culprit", &culprit.to_string());
                if let Some(remedy) = (context.remedy)(*cause, culprit) {
                    event = annotate(event, "removed by", &remedy);
                }
                let took = ProtoMessage::default()
                    .text(annotation::NAME, "duration (ns)")
                    .number(annotation::UINT, entry.end_ns - entry.begun_ns);
                event = event.message(event::ANNOTATION, &took);
            }
            TimelineKind::Inside(kind, cause, _) => {
                event = annotate(event, "what", kind.name());
                event = annotate(event, "cause", cause.name());
            }
            TimelineKind::Undisturbed(_) | TimelineKind::Lost => {}
        }
        if !entry.stack.is_empty() {
            event = annotate(event, "stack", &entry.stack.join(" < "));
        }
        if entry.end_ns == entry.begun_ns {
            let instant = event.number(event::TYPE, event::INSTANT);
            return file.event(entry.begun_ns, Some(&name), instant);
        }
        file.event(entry.begun_ns, Some(&name), event.number(event::TYPE, event::BEGIN))?;
        // A nested slice never ends after the one around it.
        let around = self.ends.last().copied().unwrap_or(u64::MAX);
        self.ends.push(entry.end_ns.min(around));
        Ok(())
    }
}

/// The name of a slice, and its category, which decides its colour.
fn name(what: &TimelineKind, workload: Option<&str>) -> (String, &'static str) {
    match what {
        TimelineKind::Undisturbed(thread) => (workload.unwrap_or(thread).to_owned(), "workload"),
        TimelineKind::Interruption(cause, culprit) => {
            (with_culprit(cause.name(), culprit), "interruption")
        }
        TimelineKind::Inside(kind, _, culprit) => (with_culprit(kind.name(), culprit), "inside"),
        TimelineKind::Lost => ("events lost".to_owned(), "lost"),
    }
}

/// `irq: IRQ 24 nvme0q1`, or only the head for an unknown culprit.
fn with_culprit(head: &str, culprit: &Culprit) -> String {
    match culprit.to_string() {
        text if text.is_empty() => head.to_owned(),
        text => format!("{head}: {text}"),
    }
}
