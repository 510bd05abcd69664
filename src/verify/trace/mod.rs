//! The kernel's trace as witness: a private tracing instance whose binary pages are read from a
//! housekeeping CPU and turned into interruptions by cause and culprit.
//!
//! How it is used:
//!
//! 1. [`TraceRecorder::arm`] before the workload starts: makes the instance, sizes its buffers,
//! enables the events. This interrupts every CPU (the kernel patches its code), which is why it
//! comes first.
//! 2. [`TraceRecorder::start`]: recording begins; costs the watched CPUs nothing.
//! 3. [`TraceRecorder::poll`] every 50 to 100 ms from a housekeeping thread: reads what is there
//! and counts. It never waits on the buffer, because the kernel would wake a waiter by an interrupt
//!    on the watched CPU (`rb_wakeups()`).
//! 4. [`TraceRecorder::end_phase`] ends a phase and gives its evidence; the next begins at the same
//! moment. So a positive control can be provoked in a phase of its own before and after the time
//! that counts.
//! 5. Dropping the recorder puts everything back.
//!
//! Deliberately not here: who is to be watched and for how long (`verify::watch`), and what the
//! evidence means (`verify::judge`).

mod afterwards;
mod arm;
mod channel;
mod culprit_stats;
mod decode;
mod entry_events;
mod flight_recorder;
mod gap_correlation;
mod interference;
mod interruptions;
mod ipi_senders;
mod privilege;
mod record_window;
pub mod recording;
pub mod replay;
mod stacks;
mod tasks;
pub mod timeline;
mod trace_events;

use crate::verify::breach::{BrokenLimit, NoticedBreach};
use crate::verify::{
    AbsenceReason, BlindReason, BlindSpot, CpuDoubt, GapAttribution, InterruptSender,
    InterruptionCount,
};
use arm::ArmedTrace;
use channel::{CpuChannel, TracePhase};
use cpushield_linux::clock::{self, TickScale};
use cpushield_linux::page_buffer::PageBuffer;
use cpushield_linux::sampler::Gap;
use cpushield_linux::text::kallsyms::KernelSymbols;
use cpushield_linux::tracefs::TraceInstance;
use cpushield_linux::{CpuSet, Error, Host};
use culprit_stats::CulpritNames;
pub use culprit_stats::TaskName;
use decode::EventDecoder;
pub use entry_events::{EntryEvent, RecordedEvent};
use flight_recorder::FlightRecorder;
use interference::InterferenceMonitor;
use interruptions::TraceContext;
use ipi_senders::IpiSenders;
pub use record_window::ReadSpan;
use recording::RecordingSpool;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use tasks::{cpu_time, look_up, ran};

/// What is to be recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordRequest {
    /// The CPUs to watch.
    pub cpus: CpuSet,
    /// The workload's system calls too. Costs every process of the machine a little on each of its
    /// system calls while armed, so only when asked.
    pub syscalls: bool,
    /// The stack behind each event, which costs some microseconds more for each of them.
    pub stacks: bool,
}

/// What the trace saw on one CPU in one phase.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceEvidence {
    /// The CPU.
    pub cpu: usize,
    /// Length of the phase in nanoseconds.
    pub span_ns: u64,
    /// Entries into the kernel from user mode: those that have an event of their own (vectors,
    /// device interrupts, page faults, NMIs, and system calls when asked for), and on CPUs of
    /// `nohz_full=` those that only context tracking reports.
    pub entries: u64,
    /// Interrupts and NMIs that hit the kernel itself: a system call, a page fault, another
    /// interrupt, a kernel thread, the idle loop.
    #[serde(default)]
    pub kernel_interrupts: u64,
    /// Whether no entry can have escaped: system calls were traced, or context tracking told of
    /// this CPU.
    #[serde(default)]
    pub whole: bool,
    /// Whether context tracking told of this CPU.
    #[serde(default)]
    pub tracked: bool,
    /// Switches from one task to another.
    pub switches: u64,
    /// Stays in the kernel or in another task: the sum of `count` over [`Self::interruptions`].
    pub stays: u64,
    /// By cause and culprit, most frequent first.
    pub interruptions: Vec<InterruptionCount>,
    /// Longest time the workload was in user mode without an interruption, in nanoseconds (the
    /// longest idle time when no workload was named). `None` when it never ran.
    pub longest_ns: Option<u64>,
    /// The gaps of the sampler beside it; `None` when there were none to join.
    #[serde(default)]
    pub joined: Option<GapAttribution>,
    /// Who sent interrupts to it from other CPUs.
    #[serde(default)]
    pub senders: Vec<InterruptSender>,
    /// Events the kernel dropped because the buffer was full.
    pub lost: u64,
    /// Bytes of the trace that were not understood.
    pub skipped_bytes: u64,
    /// How often each event was seen, by name.
    pub events: Vec<(String, u64)>,
    /// What weakens the evidence: lost events, a clock that went backwards, …
    pub doubts: Vec<CpuDoubt>,
}

/// A running trace of some CPUs.
#[derive(Debug)]
pub struct TraceRecorder<'h> {
    host: &'h Host,
    // Before the instance: it cannot be removed while its files are open.
    channels: Vec<CpuChannel>,
    instance: TraceInstance<'h>,
    /// The senders of IPIs; `None` where they cannot be seen.
    senders: Option<IpiSenders<'h>>,
    decoder: EventDecoder,
    shared: TraceContext,
    symbols: KernelSymbols,
    tasks: HashMap<i32, TaskName>,
    blind: Vec<BlindSpot>,
    tsc: bool,
    /// When it was armed, for the rate of the clock.
    armed: clock::ClockReading,
    /// The beginning of the phase, in ticks.
    begun: u64,
    /// System calls are recorded.
    syscalls: bool,
    /// A stack is recorded behind every event, and shown.
    stacks: bool,
    /// System and name of the events that are recorded.
    events: Vec<(&'static str, &'static str)>,
    /// Those of them that report an entry, in the order of the catalogue.
    entry_events: Vec<EntryEvent>,
    /// Whether another process changed what is recorded; `None` before the start.
    interference: Option<InterferenceMonitor>,
    /// The raw pages, when somebody wants them.
    keeping: Option<RecordingSpool>,
    /// What happened lately, when somebody wants to know.
    lately: Option<FlightRecorder>,
}

impl<'h> TraceRecorder<'h> {
    /// Makes everything ready; nothing is recorded yet.
    ///
    /// # Errors
    /// There is no tracing here, it is not allowed, or arming it now would hang.
    pub fn arm(host: &'h Host, order: &RecordRequest) -> Result<TraceRecorder<'h>, AbsenceReason> {
        let armed = clock::ClockReading::now();
        let ArmedTrace { instance, formats, tsc, busy, stack, mut blind } = arm::arm(host, order)?;
        let refused = |error: Error| AbsenceReason::TraceNotOpened { answer: error.to_string() };
        let events = formats.iter().map(|(spec, _)| (spec.system, spec.name)).collect();
        let entry_events = entry_events::in_formats(&formats);
        let mut channels = Vec::new();
        for cpu in order.cpus.iter() {
            channels.push(CpuChannel::new(cpu, instance.pipe(cpu).map_err(refused)?));
        }
        let (mut decoder, unusable) = EventDecoder::new(&formats);
        decoder.expect_stacks(stack);
        let unusable = unusable.into_iter();
        blind.extend(unusable.map(|event| BlindSpot::EventFields { event: event.to_owned() }));
        let symbols = KernelSymbols::parse(&host.read("/proc/kallsyms").unwrap_or_default());
        if symbols.is_empty() {
            blind.push(BlindSpot::FunctionNames);
        }
        let shared = TraceContext::knowing(&symbols);
        let clock = if tsc { clock::TRACE_CLOCK } else { "mono" };
        let senders = match busy {
            false => IpiSenders::arm(host, &order.cpus, clock, order.stacks),
            true => Err(BlindReason::CpuBusy),
        };
        let senders = senders.map_err(|reason| blind.push(BlindSpot::Senders { reason })).ok();
        Ok(TraceRecorder {
            host,
            channels,
            instance,
            senders,
            decoder,
            shared,
            symbols,
            tasks: HashMap::new(),
            blind,
            tsc,
            armed,
            begun: 0,
            syscalls: order.syscalls,
            stacks: order.stacks,
            events,
            entry_events,
            interference: None,
            keeping: None,
            lately: None,
        })
    }

    /// From [`TraceRecorder::start`] on the raw pages are kept; see [`TraceRecorder::take_recording`].
    /// With a time, those of the last so many nanoseconds only.
    pub fn keep_pages(&mut self, spool: PageBuffer, last_ns: Option<u64>) {
        self.keeping = Some(RecordingSpool::new(spool, last_ns));
    }

    /// What this trace cannot see on this kernel.
    #[must_use]
    pub fn blind(&self) -> &[BlindSpot] {
        &self.blind
    }

    /// The threads that make up the workload, by number; may be told at any time, and children
    /// that they make on a watched CPU are taken in. Without a workload an idle CPU counts as
    /// undisturbed.
    pub fn set_workload(&mut self, tids: &[i32]) {
        self.shared.workload = tids.iter().copied().collect();
        if let Some(kept) = &mut self.keeping {
            kept.workload(tids);
        }
        for channel in &mut self.channels {
            channel.stays.workload_changed(&self.shared);
        }
    }

    /// The clock of the trace.
    #[must_use]
    pub fn now(&self) -> u64 {
        if self.tsc { clock::ticks() } else { clock::monotonic_ns() }
    }

    /// What a tick of that clock is worth.
    #[must_use]
    pub fn scale(&self) -> TickScale {
        let nanoseconds = TickScale { ns_per_tick: 1.0, error_ppm: 0.0 };
        if self.tsc {
            TickScale::between(self.armed, clock::ClockReading::now()).unwrap_or(nanoseconds)
        } else {
            nanoseconds
        }
    }

    /// Recording begins.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn start(&mut self) -> cpushield_linux::Result<()> {
        // NMIs tell how long they took in nanoseconds.
        self.shared.ticks_per_ns = 1.0 / self.scale().ns_per_tick;
        for channel in &mut self.channels {
            channel.discard()?;
            channel.stats = self.instance.stats(channel.cpu)?;
        }
        self.instance.start()?;
        let cpus = self.channels.iter().map(|channel| channel.cpu).collect();
        let events = self.events.clone();
        self.interference = Some(InterferenceMonitor::start(&self.instance, cpus, events));
        let begun = self.now();
        for channel in &mut self.channels {
            channel.stays.since(begun);
        }
        self.begin(begun);
        Ok(())
    }

    /// Reads and counts what the kernel has recorded since the last time. Never waits.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn poll(&mut self) -> cpushield_linux::Result<()> {
        let heard = self.now();
        for channel in &mut self.channels {
            let keep = self.keeping.as_mut().map(|kept| &mut kept.spool);
            channel.read(&self.decoder, &mut self.shared, None, keep)?;
            channel.heard(heard);
        }
        if let Some(senders) = &mut self.senders {
            senders.poll();
        }
        if let Some(monitor) = &mut self.interference {
            monitor.poll(self.host);
        }
        self.look_up_tasks();
        self.note(heard);
        self.forget(heard);
        Ok(())
    }

    /// Entries of this phase so far, on the CPU with most of them.
    #[must_use]
    pub fn most_entries(&self) -> Option<u64> {
        self.channels.iter().map(|channel| channel.stays.entries()).max()
    }

    /// The first breach of a limit in this phase is noted from now on: more entries into the
    /// kernel, or an interruption of more nanoseconds. Gives the tick at which the phase began.
    pub fn set_limits(&mut self, entries: Option<u64>, gap_ns: Option<u64>) -> u64 {
        let ticks = gap_ns.map(|ns| interruptions::ticks(ns, self.shared.ticks_per_ns));
        self.channels.iter_mut().for_each(|channel| channel.stays.limit(entries, ticks));
        self.begun
    }

    /// The first breach of this phase.
    #[must_use]
    pub fn first_breach(&self) -> Option<NoticedBreach> {
        let of = |channel: &CpuChannel| {
            let at = channel.stays.breached()?;
            let kind = match at.ticks {
                0 => BrokenLimit::Entries(at.entries),
                ticks => BrokenLimit::Interruption(self.scale().ns(ticks)),
            };
            Some(NoticedBreach { cpu: channel.cpu, at: at.at, kind })
        };
        self.channels.iter().filter_map(of).min_by_key(|breached| breached.at)
    }

    /// Lays gaps of the sampler on this CPU beside what was polled, where both have one clock: gaps
    /// in the order of time, and a tick before which no other begins.
    pub fn add_gaps(&mut self, cpu: usize, gaps: &[Gap], looked: u64) {
        let channel = self.channels.iter_mut().find(|channel| channel.cpu == cpu);
        if let (Some(kept), true) = (&mut self.keeping, self.tsc) {
            kept.gaps(cpu, gaps);
        }
        if let (Some(channel), true) = (channel, self.tsc) {
            channel.joiner.gaps(gaps, looked);
        }
    }

    /// Ends a phase: everything until now. One entry for each watched CPU.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn end_phase(&mut self) -> cpushield_linux::Result<Vec<TraceEvidence>> {
        let (begun, end, scale) = (self.begun, self.now(), self.scale());
        let mut phases = Vec::new();
        for channel in &mut self.channels {
            let keep = self.keeping.as_mut().map(|kept| &mut kept.spool);
            let ended = channel.read(&self.decoder, &mut self.shared, Some(end), keep)?;
            phases.push(ended.unwrap_or_else(|| channel.cut(end)));
            channel.heard(end);
        }
        if let Some(senders) = &mut self.senders {
            senders.poll();
            senders.name_the_dead();
            if senders.is_partial() && !self.blind.contains(&BlindSpot::SomeSenders) {
                self.blind.push(BlindSpot::SomeSenders);
            }
        }
        self.look_up_tasks();
        let span_ns = scale.ns(end.saturating_sub(begun));
        let mut evidence = Vec::new();
        for (channel, phase) in self.channels.iter_mut().zip(phases) {
            for pid in phase.seen.rows.tasks().chain(phase.seen.silent) {
                look_up(self.host, &mut self.tasks, pid);
            }
            let stats = self.instance.stats(channel.cpu)?;
            let counted = stats.lost().saturating_sub(channel.stats.lost());
            channel.stats = stats;
            let ran = ran(self.host, channel.runner, span_ns);
            let stacks = self.stacks.then(|| channel.stays.stacks());
            let names = CulpritNames { symbols: &self.symbols, tasks: &self.tasks, stacks };
            let mut told = tell(channel.cpu, span_ns, &phase, &names, &scale, counted, ran);
            told.joined = channel.joiner.end(&names, &scale);
            told.tracked = channel.stays.is_tracked();
            told.whole = self.syscalls || told.tracked;
            let senders = self.senders.as_ref();
            told.senders =
                senders.map(|all| all.to(channel.cpu, &self.symbols)).unwrap_or_default();
            if senders.is_some_and(|all| !all.is_partial()) {
                ipi_senders::name_calls(&mut told.interruptions, &mut told.joined, &told.senders);
            }
            afterwards::name_the_rest(&mut told.interruptions, self.syscalls);
            evidence.push(told);
        }
        self.begin(end);
        Ok(evidence)
    }

    /// Stops recording and puts everything back, and says if that failed (dropping does the same
    /// in silence).
    ///
    /// # Errors
    /// The kernel's first answer that is an error.
    pub fn close(self) -> cpushield_linux::Result<()> {
        drop(self.channels);
        self.instance.close()
    }

    /// A phase begins: notes who of the workload runs where.
    fn begin(&mut self, at: u64) {
        self.begun = at;
        if let Some(kept) = &mut self.keeping {
            kept.phases.push((at, ""));
        }
        if let Some(senders) = &mut self.senders {
            senders.begin();
        }
        for channel in &mut self.channels {
            channel.runner = None;
            channel.joiner.begin(at, self.shared.ticks_per_ns);
        }
        for tid in &self.shared.workload {
            let Ok(task) = self.host.task(*tid, *tid) else { continue };
            let channel = self.channels.iter_mut().find(|channel| channel.cpu == task.cpu);
            if let (Some(channel), 'R', Some(time)) =
                (channel, task.state, cpu_time(self.host, *tid))
            {
                channel.runner = Some((*tid, time));
            }
        }
    }

    /// Looks up tasks while they live.
    fn look_up_tasks(&mut self) {
        for channel in &self.channels {
            for pid in channel.stays.rows().tasks() {
                look_up(self.host, &mut self.tasks, pid);
            }
        }
    }
}

/// The evidence of one CPU.
fn tell(
    cpu: usize,
    span_ns: u64,
    phase: &TracePhase,
    names: &CulpritNames<'_>,
    scale: &TickScale,
    counted_lost: u64,
    ran: Option<bool>,
) -> TraceEvidence {
    let seen = &phase.seen;
    let lost = phase.lost.max(counted_lost).max(u64::from(phase.lost_unknown));
    let after = seen.silent.map(|pid| names.thread(pid));
    let counted = [
        (lost, CpuDoubt::EventsLost { count: lost }),
        (phase.skipped, CpuDoubt::BytesNotUnderstood { count: phase.skipped }),
        (seen.backwards, CpuDoubt::EventsBackwards { count: seen.backwards }),
        (seen.resyncs, CpuDoubt::TaskNotAnnounced { times: seen.resyncs, after }),
    ];
    let happened = counted.into_iter().filter(|(times, _)| *times > 0);
    let mut doubts: Vec<CpuDoubt> = happened.map(|(_, doubt)| doubt).collect();
    // Without a single event nothing but its CPU time shows that the workload ran at all; and with
    // it, that it ran all the time, for a switch would have been an event.
    let silent = phase.records() == 0;
    let longest_ns = match (silent, ran) {
        (true, Some(true)) => Some(span_ns),
        (true, Some(false)) => None,
        _ => seen.longest.map(|ticks| scale.ns(ticks)),
    };
    if silent && ran == Some(false) {
        doubts.push(CpuDoubt::WorkloadDidNotRun);
    }
    if scale.error_ppm > 1000.0 {
        doubts.push(CpuDoubt::ClockInaccurate { error_ppm: scale.error_ppm });
    }
    TraceEvidence {
        cpu,
        span_ns,
        entries: seen.entries,
        kernel_interrupts: seen.kernel_interrupts,
        switches: seen.switches,
        stays: seen.stays,
        interruptions: seen.rows.interruptions(names, scale),
        longest_ns,
        whole: false,
        tracked: false,
        joined: None,
        senders: Vec::new(),
        lost,
        skipped_bytes: phase.skipped,
        events: phase.named().map(|(spec, n)| (spec.name.to_owned(), n)).collect(),
        doubts,
    }
}
