//! The timeline of a [`TraceRecording`]: undisturbed times, interruptions and what ran inside them,
//! with names, in the order of time. The sums of a verdict consist of the same entries. Pure except
//! for reading the pages back.

use super::culprit_stats::CulpritNames;
use super::interruptions::{LogEntry, LogEntryKind};
use super::recording::TraceRecording;
use super::replay::{PageReplay, RecordedTrace};
use super::stacks::StackTable;
use crate::causes::{Cause, Culprit};
use crate::documents::evidence::KernelWork;
use cpushield_linux::text::kallsyms::KernelSymbols;
use cpushield_linux::text::trace_format::EventFormat;
use std::io;

/// An entry of the timeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineEntry {
    /// When it began, in nanoseconds of the trace clock.
    pub begun_ns: u64,
    /// When it ended; the same moment when its end is unknown.
    pub end_ns: u64,
    /// Depth inside an interruption; 0 is the interruption itself, or undisturbed time.
    pub depth: usize,
    /// Its kind.
    pub what: TimelineKind,
    /// The kernel stack, innermost function first; empty where stacks were not recorded.
    pub stack: Vec<String>,
}

/// The kind of a timeline entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TimelineKind {
    /// This task ran undisturbed; `idle` where there is no workload.
    Undisturbed(String),
    /// An interruption, by cause and culprit.
    Interruption(Cause, Culprit),
    /// Something inside an interruption: its kind, its cause and its culprit.
    Inside(KernelWork, Cause, Culprit),
    /// Events are missing here.
    Lost,
}

/// Replays everything that was recorded on a CPU, and calls `on_entry` with each entry.
///
/// # Errors
/// The pages cannot be read back, or `on_entry` fails.
pub fn story(
    recording: &mut TraceRecording,
    cpu: usize,
    on_entry: &mut dyn FnMut(&TimelineEntry) -> io::Result<()>,
) -> io::Result<()> {
    let mut formats: Vec<(String, String, EventFormat)> = recording
        .events
        .iter()
        .filter_map(|(system, text)| {
            let name = text.lines().find_map(|line| line.strip_prefix("name: "))?;
            Some((system.clone(), name.trim().to_owned(), EventFormat::parse(text).ok()?))
        })
        .collect();
    let own = recording.texts.ftrace.iter().find(|text| text.starts_with("name: kernel_stack\n"));
    let own = own.and_then(|text| EventFormat::parse(text).ok());
    formats.extend(own.map(|form| ("ftrace".to_owned(), "kernel_stack".to_owned(), form)));
    let symbols = KernelSymbols::parse(&recording.kallsyms);
    let mut replay = PageReplay::new(RecordedTrace {
        cpu,
        layout: recording.layout,
        formats: &formats,
        symbols: symbols.clone(),
        scale: recording.scale,
        workload: &recording.workload,
    });
    let first = recording.phases.first().map_or(0, |(at, _)| *at);
    let last = recording.phases.last().map_or(0, |(at, _)| *at);
    // Nothing is known about discarded pages.
    replay.keep_history_from(recording.spool.discarded_until(cpu).unwrap_or(first));
    let TraceRecording { layout, scale, tasks, spool, stacks: shown, .. } = recording;
    let names = CulpritNames { symbols: &symbols, tasks, stacks: None };
    let mut report_entries = |entries: Vec<LogEntry>, stacks: &StackTable| -> io::Result<()> {
        entries.into_iter().try_for_each(|entry| {
            let what = match entry.what {
                LogEntryKind::Undisturbed(0) => TimelineKind::Undisturbed("idle".to_owned()),
                LogEntryKind::Undisturbed(pid) => TimelineKind::Undisturbed(names.thread(pid)),
                LogEntryKind::Interruption(key) => {
                    let (cause, culprit) = names.describe(key);
                    TimelineKind::Interruption(cause, culprit)
                }
                LogEntryKind::Frame(work, key) => {
                    let (cause, culprit) = names.describe(key);
                    TimelineKind::Inside(work, cause, culprit)
                }
                LogEntryKind::Lost => TimelineKind::Lost,
            };
            let (begun_ns, end_ns) = (scale.ns(entry.begun), scale.ns(entry.end));
            let stack = entry.stack.filter(|_| *shown);
            let stack = stacks.function_names(stack, &symbols);
            on_entry(&TimelineEntry { begun_ns, end_ns, depth: entry.depth, what, stack })
        })
    };
    spool.each(cpu, layout.page_size(), &mut |page| {
        replay.page(page);
        report_entries(replay.take_history(), replay.stacks())
    })?;
    replay.finish(last);
    report_entries(replay.take_history(), replay.stacks())
}
