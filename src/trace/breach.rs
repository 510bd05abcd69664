//! The first breach of a limit: what ran then, as a tree with times and stacks. Pure except for
//! reading back the pages of the recording.

use super::TraceRecorder;
use super::channel::CpuChannel;
use super::interruptions;
use super::recording::TraceRecording;
use super::timeline::{TimelineEntry, TimelineKind, story};
use crate::documents::evidence::{Breach, BreachNode, KernelWork, LimitBreach, MissingTree};
use crate::policy::VerifyLimits;
use cpushield_linux::sys::clock::ClockTicks;

/// What broke a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokenLimit {
    /// The number of entries into the kernel; 0 when they were not counted.
    Entries(u64),
    /// The length of a gap in nanoseconds, as the sampler saw it.
    Gap(u64),
    /// The length of an interruption in nanoseconds, as the trace saw it.
    Interruption(u64),
}

/// A breach at the moment it is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoticedBreach {
    /// The CPU.
    pub cpu: usize,
    /// When, on the clock of the trace.
    pub at: ClockTicks,
    /// What broke the limit.
    pub kind: BrokenLimit,
}

impl TraceRecorder<'_> {
    /// The number of entries in this phase so far, on the CPU with the most.
    #[must_use]
    pub fn most_entries(&self) -> Option<u64> {
        self.channels.iter().map(|channel| channel.tracker.entries()).max()
    }

    /// Sets the limits. From now on, the first breach in this phase is noted: more entries into the
    /// kernel, or a longer interruption in nanoseconds. Returns the tick at which the phase began.
    pub fn set_limits(&mut self, entries: Option<u64>, gap_ns: Option<u64>) -> ClockTicks {
        let ticks = gap_ns.map(|ns| interruptions::ns_to_ticks(ns, self.context.ticks_per_ns));
        self.channels.iter_mut().for_each(|channel| channel.tracker.set_limits(entries, ticks));
        self.begun
    }

    /// The first breach of this phase.
    #[must_use]
    pub fn first_breach(&self) -> Option<NoticedBreach> {
        let breaches = self.channels.iter().filter_map(|channel| self.breach_on(channel));
        breaches.min_by_key(|breach| breach.at)
    }

    fn breach_on(&self, channel: &CpuChannel) -> Option<NoticedBreach> {
        let breach = channel.tracker.first_breach()?;
        let kind = match breach.ticks {
            0 => BrokenLimit::Entries(breach.entries),
            ticks => BrokenLimit::Interruption(self.scale().ns(ticks)),
        };
        Some(NoticedBreach { cpu: channel.cpu, at: ClockTicks(breach.at), kind })
    }
}

/// Describes a breach from the recording. `span_start` is the start of the span on the
/// clock of the trace.
pub fn describe(
    recording: &mut TraceRecording,
    breach: &NoticedBreach,
    limits: &VerifyLimits,
    span_start: ClockTicks,
) -> Breach {
    let NoticedBreach { cpu, at, kind } = *breach;
    let what = describe_limit(kind, limits);
    // A gap begins a little before the first event in it.
    let length_ns = match kind {
        BrokenLimit::Gap(ns) => ns,
        BrokenLimit::Entries(_) | BrokenLimit::Interruption(_) => 0,
    };
    let at_ns = recording.scale.duration_ns(at);
    let mut search =
        BreachSearch { span: (at_ns, at_ns.saturating_add(length_ns)), ..BreachSearch::default() };
    let read = story(recording, cpu, &mut |entry| {
        search.add(entry);
        Ok(())
    });
    let missing = match read {
        _ if !search.found.is_empty() => None,
        Err(error) => Some(MissingTree::NotReadBack { answer: error.to_string() }),
        Ok(()) if recording.spool.discarded_until(cpu).is_some_and(|until| at.0 < until) => {
            Some(MissingTree::RecordsDiscarded)
        }
        Ok(()) if search.lost_events() => Some(MissingTree::EventsLost),
        Ok(()) => Some(MissingTree::NothingRecorded),
    };
    let at_ns = recording.scale.duration_ns(at.saturating_sub(span_start));
    Breach { cpu, what, at_ns, tree: search.found, missing }
}

/// What broke the limit, together with the limit.
fn describe_limit(kind: BrokenLimit, limits: &VerifyLimits) -> LimitBreach {
    let most_ns = limits.max_gap_ns.unwrap_or(0);
    match kind {
        BrokenLimit::Entries(count) => {
            LimitBreach::Entries { count, most: limits.max_entries.unwrap_or(0) }
        }
        BrokenLimit::Gap(ns) => LimitBreach::Gap { ns, most_ns },
        BrokenLimit::Interruption(ns) => LimitBreach::Interruption { ns, most_ns },
    }
}

/// Looks for the first interruption that touches a span.
#[derive(Debug, Default)]
struct BreachSearch {
    /// Start and end of the span in nanoseconds.
    span: (u64, u64),
    /// Start of the interruption that is being collected; `None` outside of one.
    inside: Option<u64>,
    /// Whether an entry after lost events showed that they belong to the span.
    events_lost: bool,
    /// The start of a loss that no entry follows yet.
    lost_since: Option<u64>,
    found: Vec<BreachNode>,
}

impl BreachSearch {
    /// Whether events of the span were lost. Call it after the last entry.
    fn lost_events(&self) -> bool {
        self.events_lost || self.lost_since.is_some_and(|since| since <= self.span.1)
    }

    /// Takes the next entry of the timeline, and keeps it when it belongs to the interruption.
    fn add(&mut self, entry: &TimelineEntry) {
        let (first, last) = self.span;
        // A loss lasts until the next entry.
        let lost = self.lost_since.take();
        self.events_lost |= lost.is_some_and(|since| since <= last && entry.begun_ns >= first);
        let (kind, cause, culprit) = match &entry.what {
            TimelineKind::Interruption(cause, culprit) => {
                (KernelWork::Interruption, *cause, culprit)
            }
            TimelineKind::Inside(kind, cause, culprit) => (*kind, *cause, culprit),
            TimelineKind::Undisturbed(_) => return self.inside = None,
            TimelineKind::Lost => {
                self.lost_since = Some(entry.begun_ns);
                return self.inside = None;
            }
        };
        if entry.depth == 0 {
            let touches = entry.begun_ns <= last && entry.end_ns >= first;
            self.inside = (touches && self.found.is_empty()).then_some(entry.begun_ns);
        }
        let Some(began) = self.inside else { return };
        self.found.push(BreachNode {
            depth: entry.depth,
            kind,
            cause,
            culprit: culprit.clone(),
            after_ns: entry.begun_ns.saturating_sub(began),
            took_ns: entry.end_ns.saturating_sub(entry.begun_ns),
            stack: entry.stack.clone(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causes::{Cause, Culprit};

    #[test]
    fn the_tree_shows_the_interruption_that_contains_the_breach() {
        let entry = |begun_ns, end_ns, depth, what| TimelineEntry {
            begun_ns,
            end_ns,
            depth,
            what,
            stack: Vec::new(),
        };
        let interruption =
            |name: &str| TimelineKind::Interruption(Cause::Tick, Culprit::function(name));
        let inside = |name: &str| {
            TimelineKind::Inside(KernelWork::Softirq, Cause::Softirq, Culprit::function(name))
        };
        let story = [
            entry(0, 100, 0, TimelineKind::Undisturbed(String::new())),
            entry(100, 200, 0, interruption("before")),
            entry(110, 120, 1, inside("before")),
            entry(300, 400, 0, interruption("it")),
            entry(310, 350, 1, inside("it")),
            entry(320, 330, 2, inside("it")),
            entry(400, 500, 0, TimelineKind::Undisturbed(String::new())),
            entry(500, 600, 0, interruption("after")),
            entry(510, 520, 1, inside("after")),
        ];
        let found = |first, last| {
            let mut search = BreachSearch { span: (first, last), ..BreachSearch::default() };
            story.iter().for_each(|entry| search.add(entry));
            let short = |b: &BreachNode| (b.depth, b.culprit.clone(), b.after_ns, b.took_ns);
            search.found.iter().map(short).collect::<Vec<_>>()
        };
        let it = Culprit::function("it");
        let whole = [(0, it.clone(), 0, 100), (1, it.clone(), 10, 40), (2, it, 20, 10)];
        assert_eq!(found(300, 300), whole, "kernel entry");
        assert_eq!(found(290, 900), whole, "a gap that another one follows");
        assert_eq!(found(450, 460), [], "nothing ran in the kernel");
    }

    #[test]
    fn a_loss_lasts_until_the_next_entry() {
        let entry = |begun_ns, what| TimelineEntry {
            begun_ns,
            end_ns: begun_ns + 10,
            depth: 0,
            what,
            stack: Vec::new(),
        };
        let story = [
            entry(0, TimelineKind::Undisturbed(String::new())),
            entry(100, TimelineKind::Lost),
            entry(200, TimelineKind::Undisturbed(String::new())),
            entry(500, TimelineKind::Lost),
        ];
        let lost = |at| {
            let mut search = BreachSearch { span: (at, at), ..BreachSearch::default() };
            story.iter().for_each(|entry| search.add(entry));
            search.lost_events()
        };
        assert_eq!([50, 150, 300, 600].map(lost), [false, true, false, true]);
    }
}
