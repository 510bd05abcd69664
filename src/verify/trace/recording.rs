//! A [`TraceRecording`]: the raw pages of a watch with all that is needed to read them elsewhere.
//! The recorder keeps the pages that it reads anyway; nothing more is asked of the watched CPUs.

use super::TraceRecorder;
use super::culprit_stats::TaskName;
use super::interruptions::ticks;
use crate::verify::TracedSpan;
use cpushield_linux::Host;
use cpushield_linux::clock::TickScale;
use cpushield_linux::page_buffer::PageBuffer;
use cpushield_linux::ring_buffer::PageLayout;
use cpushield_linux::sampler::Gap;
use cpushield_linux::tracefs::TraceTexts;
use std::collections::HashMap;

/// Everything that was recorded.
#[derive(Debug)]
pub struct TraceRecording {
    /// The form of the pages.
    pub layout: PageLayout,
    /// Texts of tracefs.
    pub texts: TraceTexts,
    /// System and format text of each event that was recorded.
    pub events: Vec<(String, String)>,
    /// Lines of `/proc/kallsyms`, those of functions; empty when the kernel hides them.
    pub kallsyms: String,
    /// The trace clock.
    pub clock: &'static str,
    /// What a tick of it is worth.
    pub scale: TickScale,
    /// `uname -a` as far as it says something about the kernel; empty when that cannot be read.
    pub kernel: String,
    /// Each CPU with its `stats` of tracefs at the end.
    pub cpus: Vec<(usize, String)>,
    /// When each phase began, in ticks, and what it is; the last one is the end.
    pub phases: Vec<(u64, &'static str)>,
    /// The threads of the workload.
    pub workload: Vec<i32>,
    /// Tasks that were looked up while they lived.
    pub tasks: HashMap<i32, TaskName>,
    /// Gaps that the sampler saw, with their CPU, in ticks; none where it ran by another clock.
    pub gaps: Vec<(usize, Gap)>,
    /// A stack is behind every event, and is to be shown.
    pub stacks: bool,
    /// The pages.
    pub spool: PageBuffer,
}

impl TraceRecording {
    /// Something else begins at this moment.
    pub fn mark(&mut self, at: u64, name: &'static str) {
        let place = self.phases.partition_point(|(begun, _)| *begun <= at);
        self.phases.insert(place, (at, name));
    }
}

/// Gaps kept one by one, of all CPUs.
const GAPS_MAX: usize = 1 << 20;

/// What is kept while the recorder runs.
#[derive(Debug)]
pub struct RecordingSpool {
    pub spool: PageBuffer,
    pub phases: Vec<(u64, &'static str)>,
    workload: Vec<i32>,
    gaps: Vec<(usize, Gap)>,
    /// What is older than so many nanoseconds is forgotten.
    last_ns: Option<u64>,
}

impl RecordingSpool {
    /// Nothing kept yet.
    pub fn new(spool: PageBuffer, last_ns: Option<u64>) -> RecordingSpool {
        RecordingSpool {
            spool,
            phases: Vec::new(),
            workload: Vec::new(),
            gaps: Vec::new(),
            last_ns,
        }
    }

    /// Forgets what came before this moment.
    fn forget_before(&mut self, at: u64, page_size: usize) {
        self.spool.discard_before(at, page_size);
        self.gaps.retain(|(_, gap)| gap.end > at);
        let over = self.phases.windows(2).take_while(|pair| pair[1].0 <= at).count();
        self.phases.drain(..over);
        if let Some((begun, _)) = self.phases.first_mut() {
            *begun = at.max(*begun);
        }
    }

    /// Threads of the workload; those that are gone stay known.
    pub fn workload(&mut self, tids: &[i32]) {
        for tid in tids {
            if !self.workload.contains(tid) {
                self.workload.push(*tid);
            }
        }
    }

    /// Gaps of a CPU; the first ones where there are too many.
    pub fn gaps(&mut self, cpu: usize, gaps: &[Gap]) {
        let room = GAPS_MAX.saturating_sub(self.gaps.len());
        self.gaps.extend(gaps.iter().take(room).map(|gap| (cpu, *gap)));
    }
}

impl TraceRecorder<'_> {
    /// Ends recording and hands over what there is since [`TraceRecorder::start`]; `None` when
    /// nothing was to be kept.
    pub fn take_recording(&mut self) -> Option<TraceRecording> {
        self.keeping.as_ref()?;
        // What came since the last reading belongs to the file too. Where the kernel refuses, the
        // file ends a little earlier.
        let _ = self.instance.stop().and_then(|()| self.poll());
        let kept = self.keeping.take()?;
        let host = self.host;
        let event = |(system, name): &(&'static str, &'static str)| {
            ((*system).to_owned(), self.instance.format_text(system, name))
        };
        Some(TraceRecording {
            layout: self.channels.first().map_or(PageLayout::COMMON, |channel| channel.layout()),
            texts: self.instance.texts(),
            events: self.events.iter().map(event).collect(),
            kallsyms: functions(&host.read("/proc/kallsyms").unwrap_or_default()),
            clock: if self.tsc { cpushield_linux::clock::TRACE_CLOCK } else { "mono" },
            scale: self.scale(),
            kernel: kernel(host),
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

    /// What was recorded before the last so many nanoseconds is forgotten, unless a limit was
    /// broken since: what led to that is what is wanted.
    pub(super) fn forget(&mut self, heard: u64) {
        let broken = self.channels.iter().any(|channel| channel.stays.breached().is_some());
        let page_size = self.channels.first().map_or(0, |channel| channel.layout().page_size());
        let per_ns = self.shared.ticks_per_ns;
        if let Some(kept) = self.keeping.as_mut().filter(|_| !broken)
            && let Some(last_ns) = kept.last_ns
        {
            kept.forget_before(heard.saturating_sub(ticks(last_ns, per_ns)), page_size);
        }
    }

    /// When the present phase began, on the clock of the trace.
    #[must_use]
    pub fn phase_began(&self) -> u64 {
        self.begun
    }

    /// From then to the beginning of the present phase.
    #[must_use]
    pub fn span_since(&self, began: u64) -> TracedSpan {
        let clock = if self.tsc { cpushield_linux::clock::TRACE_CLOCK } else { "mono" };
        TracedSpan { clock: clock.to_owned(), began, ended: self.begun }
    }

    /// What the phase is that began last, for people.
    pub fn name_phase(&mut self, name: &'static str) {
        if let Some((_, last)) = self.keeping.as_mut().and_then(|kept| kept.phases.last_mut()) {
            *last = name;
        }
    }
}

/// The lines that are those of functions: events name nothing else, and data is most of the file.
fn functions(kallsyms: &str) -> String {
    let is_function = |line: &&str| {
        let kind = line.split_ascii_whitespace().nth(1);
        matches!(kind, Some("t" | "T" | "w" | "W")) && !line.starts_with("0000000000000000 ")
    };
    let mut text = String::new();
    for line in kallsyms.lines().filter(is_function) {
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// System, release and version, without the name of the machine.
fn kernel(host: &Host) -> String {
    let word = |file: &str| host.read_line(&format!("/proc/sys/kernel/{file}")).unwrap_or_default();
    format!("{} {} {}", word("ostype"), word("osrelease"), word("version")).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_functions_with_addresses_are_kept() {
        let text = "ffffffff81000000 T _stext\nffffffff82a11000 D jiffies\n\
            0000000000000000 t hidden\nffffffffc0402000 t e1000_intr\t[e1000e]\n";
        let kept = "ffffffff81000000 T _stext\nffffffffc0402000 t e1000_intr\t[e1000e]\n";
        assert_eq!(functions(text), kept);
    }
}
