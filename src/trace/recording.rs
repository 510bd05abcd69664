//! A [`TraceRecording`]: the raw pages of a watch and everything that is needed to read them on
//! another machine. The recorder reads these pages anyway, so keeping them costs the watched CPUs
//! nothing.
//!
//! With `--trace-dat` or `--perfetto` `src/export/` converts a recording. `timeline.rs` runs the
//! state machine over it once more, with `interruptions/history.rs` attached. So pictures and sums
//! come from the same rules. With `--stop-on-breach` only the last pages are kept, and `breach.rs`
//! finds the tree of the breach. With `--stacks` each event has a stack (`stacks.rs`).

use super::culprit_stats::TaskNames;
use super::interruptions::ns_to_ticks;
use super::{TraceRecorder, clock_name};
use crate::documents::evidence::TracedSpan;
use cpushield_linux::Host;
use cpushield_linux::shared_memory::sampler::Gap;
use cpushield_linux::sys::clock::{ClockTicks, TickScale};
use cpushield_linux::trace::page_buffer::PageBuffer;
use cpushield_linux::trace::ring_buffer::PageLayout;
use cpushield_linux::trace::tracefs::TraceTexts;

/// A complete recording.
#[derive(Debug)]
pub struct TraceRecording {
    /// The layout of the pages.
    pub layout: PageLayout,
    /// Texts of tracefs.
    pub texts: TraceTexts,
    /// System and format text of each event that was recorded.
    pub events: Vec<(String, String)>,
    /// Lines of `/proc/kallsyms`, those of functions; empty when the kernel hides them.
    pub kallsyms: String,
    /// The trace clock.
    pub clock: &'static str,
    /// Converts ticks of that clock to nanoseconds.
    pub scale: TickScale,
    /// The part of `uname -a` about the kernel; empty when it cannot be read.
    pub kernel: String,
    /// Each CPU with its `stats` of tracefs at the end.
    pub cpus: Vec<(usize, String)>,
    /// Start of each phase in ticks, and its name; the last one is the end.
    pub phases: Vec<(u64, &'static str)>,
    /// The threads of the workload.
    pub workload: Vec<i32>,
    /// Tasks that were looked up while they were alive.
    pub tasks: TaskNames,
    /// Gaps that the sampler saw, with their CPU, in ticks; empty where it used another clock.
    pub gaps: Vec<(usize, Gap)>,
    /// Whether a stack is recorded behind every event.
    pub stacks: bool,
    /// The pages.
    pub spool: PageBuffer,
}

impl TraceRecording {
    /// Begins another phase at this moment.
    pub fn mark(&mut self, ClockTicks(at): ClockTicks, name: &'static str) {
        let place = self.phases.partition_point(|(begun, _)| *begun <= at);
        self.phases.insert(place, (at, name));
    }
}

/// The most gaps that are kept, of all CPUs.
const GAPS_MAX: usize = 1 << 20;

/// What is kept while the recorder runs.
#[derive(Debug)]
pub struct RecordingSpool {
    pub spool: PageBuffer,
    pub phases: Vec<(u64, &'static str)>,
    workload: Vec<i32>,
    gaps: Vec<(usize, Gap)>,
    /// Older records than this many nanoseconds are discarded; `None` to keep all.
    last_ns: Option<u64>,
}

impl RecordingSpool {
    /// An empty spool.
    pub fn new(spool: PageBuffer, last_ns: Option<u64>) -> RecordingSpool {
        RecordingSpool {
            spool,
            phases: Vec::new(),
            workload: Vec::new(),
            gaps: Vec::new(),
            last_ns,
        }
    }

    /// Discards what was recorded before this moment.
    fn forget_before(&mut self, at: u64, page_size: usize) {
        self.spool.discard_before(at, page_size);
        self.gaps.retain(|(_, gap)| gap.end > at);
        let over = self.phases.windows(2).take_while(|pair| pair[1].0 <= at).count();
        self.phases.drain(..over);
        if let Some((begun, _)) = self.phases.first_mut() {
            *begun = at.max(*begun);
        }
    }

    /// Adds threads of the workload; those that have ended are kept.
    pub fn add_workload(&mut self, tids: &[i32]) {
        for tid in tids {
            if !self.workload.contains(tid) {
                self.workload.push(*tid);
            }
        }
    }

    /// Adds gaps of a CPU; drops the last ones when there are too many.
    pub fn add_gaps(&mut self, cpu: usize, gaps: &[Gap]) {
        let room = GAPS_MAX.saturating_sub(self.gaps.len());
        self.gaps.extend(gaps.iter().take(room).map(|gap| (cpu, *gap)));
    }
}

impl TraceRecorder<'_> {
    /// Returns what was kept since [`TraceRecorder::start`]; `None` when nothing was to be kept.
    /// The trace continues for the positive control, but its pages are no longer kept.
    pub fn take_recording(&mut self) -> Option<TraceRecording> {
        self.spool.as_ref()?;
        // The records since the last poll belong to the file too. Where they cannot be read, the
        // file ends a little earlier.
        let _ = self.poll();
        let kept = self.spool.take()?;
        let host = self.host;
        let mut events = Vec::new();
        for (system, name) in &self.events {
            events.push(((*system).to_owned(), self.instance.format_text(system, name)));
        }
        Some(TraceRecording {
            layout: self.channels.first().map_or(PageLayout::COMMON, |channel| channel.layout()),
            texts: self.instance.texts(),
            events,
            kallsyms: function_lines(&host.read("/proc/kallsyms").unwrap_or_default()),
            clock: clock_name(self.tsc),
            scale: self.scale(),
            kernel: kernel_version(host),
            cpus: self
                .channels
                .iter()
                .map(|channel| (channel.cpu, self.instance.stats_text(channel.cpu)))
                .collect(),
            phases: kept.phases,
            workload: kept.workload,
            tasks: self.tasks.clone(),
            gaps: kept.gaps,
            stacks: self.stacks,
            spool: kept.spool,
        })
    }

    /// Discards what is older than the time to keep; not to be called after a limit was broken. The
    /// time counts back from the last moment whose records and gaps have been read: a breach after
    /// that moment is not known yet.
    pub fn forget_old_pages(&mut self) {
        let page_size = self.channels.first().map_or(0, |channel| channel.layout().page_size());
        let gaps = self.channels.iter().filter_map(|channel| channel.correlator.read_until());
        let read_until = gaps.min().map_or(self.polled.0, |gaps| gaps.min(self.polled.0));
        if let Some(kept) = &mut self.spool
            && let Some(last_ns) = kept.last_ns
        {
            let ticks = ns_to_ticks(last_ns, self.context.ticks_per_ns);
            kept.forget_before(read_until.saturating_sub(ticks), page_size);
        }
    }

    /// Start of the current phase, on the clock of the trace.
    #[must_use]
    pub fn phase_began(&self) -> ClockTicks {
        self.begun
    }

    /// The span from `began` to the start of the current phase.
    #[must_use]
    pub fn span_since(&self, began: ClockTicks) -> TracedSpan {
        TracedSpan { clock: clock_name(self.tsc).to_owned(), began: began.0, ended: self.begun.0 }
    }

    /// Names the current phase.
    pub fn name_phase(&mut self, name: &'static str) {
        if let Some((_, last)) = self.spool.as_mut().and_then(|kept| kept.phases.last_mut()) {
            *last = name;
        }
    }
}

/// The lines of functions. Events name nothing else, and most of the file is data.
fn function_lines(kallsyms: &str) -> String {
    let mut text = String::new();
    for line in kallsyms.lines() {
        let kind = line.split_ascii_whitespace().nth(1);
        if matches!(kind, Some("t" | "T" | "w" | "W")) && !line.starts_with("0000000000000000 ") {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// System, release and version, without the name of the machine.
fn kernel_version(host: &Host) -> String {
    let parts = ["ostype", "osrelease", "version"]
        .map(|file| host.read_line(&format!("/proc/sys/kernel/{file}")).unwrap_or_default());
    parts.join(" ").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_functions_with_addresses_are_kept() {
        let text = "ffffffff81000000 T _stext\nffffffff82a11000 D jiffies\n\
            0000000000000000 t hidden\nffffffffc0402000 t e1000_intr\t[e1000e]\n";
        let kept = "ffffffff81000000 T _stext\nffffffffc0402000 t e1000_intr\t[e1000e]\n";
        assert_eq!(function_lines(text), kept);
    }
}
