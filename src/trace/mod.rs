//! The kernel's trace as witness: a private tracing instance whose binary pages are read from a
//! housekeeping CPU and turned into interruptions by cause and culprit.
//!
//! How it is used:
//!
//! 1. [`TraceRecorder::arm`] before the workload starts: creates the instance, sizes its buffers
//!    and enables the events. This interrupts every CPU, because the kernel patches its code. That
//!    is why it comes first.
//! 2. [`TraceRecorder::start`] starts recording; it costs the watched CPUs nothing.
//! 3. [`TraceRecorder::poll`], every 50 to 100 ms from a housekeeping thread, reads and counts the
//!    new records. It never waits on the buffer, because the kernel would wake a waiter with an
//!    interrupt on the watched CPU (`rb_wakeups()`).
//! 4. [`TraceRecorder::end_phase`] ends a phase and returns its evidence; the next begins at the
//!    same moment. So the positive control has separate phases before and after the span.
//! 5. Dropping the recorder restores everything.
//!
//! Not here: what to watch and for how long (`verify::watch`), and what the evidence means
//! (`verify::judge`). A sequence of events that is counted wrongly becomes a case in
//! `src/trace/interruptions/cases.txt`.
//!
//! A trace record takes this path:
//!
//! 1. `crates/linux/src/trace/tracefs.rs` finds tracefs, or mounts it for this process alone. It
//!    makes a private instance and reads `trace_pipe_raw` by pages, from a housekeeping CPU. It
//!    never blocks in a read: an interrupt on the watched CPU would wake it.
//! 2. `crates/linux/src/trace/ring_buffer.rs` parses the page. It counts lost records and unknown
//!    bytes. No claim spans them.
//! 3. `trace_events.rs` is the table of events: what to enable, which fields to read, and what
//!    each means. `decode.rs` finds the fields with the formats of the running kernel.
//! 4. `interruptions.rs` is a state machine per CPU, the `InterruptionTracker`. One period in the
//!    kernel or in another task is one interruption, with a stack of frames inside. The first
//!    frame is the cause, except for an IPI that only led to the next task.
//! 5. `gap_correlation.rs` matches the sampler's gaps with the interruptions; the TSC is the clock
//!    of both. The sampler writes its gaps to a ring
//!    (`crates/linux/src/shared_memory/sampler/ring.rs`) that this process reads. A gap without an
//!    event was taken below the kernel. The judge then checks the SMI and steal counters.
//! 6. `ipi_senders.rs` watches the other CPUs through a filtered instance. It records which CPU
//!    sends which function call, from where, and for which timer or work item
//!    (`src/causes/purpose.rs`). It also sees requests for kernel modules.
//! 7. `culprit_stats.rs` adds up by cause and culprit in constant memory. A culprit is a type
//!    (`src/causes/culprit.rs`) up to the last table. JSON has its tag and fields together with
//!    the text (`src/with_text.rs`), and no code parses the text.

mod afterwards;
mod arm;
pub mod breach;
mod channel;
mod cpu_evidence;
mod culprit_stats;
mod decode;
mod entry_events;
mod flight_recorder;
mod gap_correlation;
mod interference;
mod interruptions;
mod ipi_senders;
mod ownership;
mod ownership_watch;
mod privilege;
mod record_window;
pub mod recording;
mod relations;
pub mod replay;
mod side_trace;
mod stacks;
mod tasks;
pub mod timeline;
mod trace_events;

use crate::documents::evidence::{AbsenceReason, BlindReason, BlindSpot};
use arm::ArmedTrace;
use channel::CpuChannel;
pub use cpu_evidence::TraceEvidence;
use cpu_evidence::build_evidence;
use cpushield_linux::processes::closer::OpenFile;
use cpushield_linux::shared_memory::sampler::Gap;
use cpushield_linux::sys::clock::{self, ClockTicks, TickScale};
use cpushield_linux::text::kallsyms::KernelSymbols;
use cpushield_linux::trace::page_buffer::PageBuffer;
use cpushield_linux::trace::tracefs::TraceInstance;
use cpushield_linux::{CpuSet, Error, Host};
use culprit_stats::CulpritNames;
pub use culprit_stats::{TaskName, TaskNames};
use decode::EventDecoder;
pub use entry_events::{EntryEvent, RecordedEvent};
use flight_recorder::FlightRecorder;
use interference::InterferenceMonitor;
use interruptions::TraceContext;
use ipi_senders::IpiSenders;
use ownership_watch::OwnershipWatch;
pub use record_window::ReadSpan;
use recording::RecordingSpool;
use stacks::SenderStacks;
use std::time::{Duration, Instant};
use tasks::{kernel_threads, look_up_task, ran_mostly};

/// What to record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordRequest {
    /// The CPUs to watch.
    pub cpus: CpuSet,
    /// Whether to record system calls too. While armed, this slows every system call on the machine
    /// a little.
    pub syscalls: bool,
    /// Whether to record the stack behind each event, which costs some microseconds for each event.
    pub stacks: bool,
    /// Whether to tell the workload's own interruptions from foreign ones.
    pub ownership: bool,
}

/// How long the buffers are read at once. What is left is read later, or lost and counted.
const POLL_MAX: Duration = Duration::from_millis(100);

/// A running trace of some CPUs.
#[derive(Debug)]
pub struct TraceRecorder<'h> {
    host: &'h Host,
    // Before the instance: it cannot be removed while its files are open.
    channels: Vec<CpuChannel>,
    instance: TraceInstance<'h>,
    /// The senders of IPIs; `None` where they cannot be seen.
    senders: Option<IpiSenders<'h>>,
    /// Whose the interruptions are; `None` if that was not asked, or cannot be seen.
    ownership: Option<OwnershipWatch<'h>>,
    decoder: EventDecoder,
    context: TraceContext,
    symbols: KernelSymbols,
    tasks: TaskNames,
    blind: Vec<BlindSpot>,
    tsc: bool,
    /// When it was armed, to measure the rate of the clock.
    armed: clock::ClockReading,
    /// Start of the phase.
    begun: ClockTicks,
    /// Everything recorded before this tick has been read.
    polled: ClockTicks,
    /// Whether system calls are recorded.
    syscalls: bool,
    /// Whether a stack is recorded behind every event.
    stacks: bool,
    /// System and name of the events that are recorded.
    events: Vec<(&'static str, &'static str)>,
    /// The events that report an entry, in the order of the catalogue.
    entry_events: Vec<EntryEvent>,
    /// Whether another process changed what is recorded; `None` before the start.
    interference: Option<InterferenceMonitor>,
    /// The raw pages, when they are kept.
    spool: Option<RecordingSpool>,
    /// The recent history, when it is kept.
    flight_recorder: Option<FlightRecorder>,
}

impl<'h> TraceRecorder<'h> {
    /// Prepares the trace; nothing is recorded yet.
    ///
    /// # Errors
    /// Tracing is not available or not allowed, or arming it now would hang.
    pub fn arm(host: &'h Host, order: &RecordRequest) -> Result<TraceRecorder<'h>, AbsenceReason> {
        let armed = clock::ClockReading::now();
        let ArmedTrace { instance, formats, tsc, busy, stack, mut blind } = arm::arm(host, order)?;

        let events = formats.iter().map(|(spec, _)| (spec.system, spec.name)).collect();
        let entry_events = entry_events::in_formats(&formats);
        let mut channels = Vec::new();
        for cpu in order.cpus.iter() {
            channels.push(CpuChannel::new(cpu, instance.pipe(cpu).map_err(pipe_refused)?));
        }
        let (mut decoder, unusable) = EventDecoder::new(&formats);
        decoder.expect_stacks(stack);
        let unusable = unusable.into_iter();
        blind.extend(unusable.map(|event| BlindSpot::EventFields { event: event.to_owned() }));
        let symbols = KernelSymbols::parse(&host.read("/proc/kallsyms").unwrap_or_default());
        if symbols.is_empty() {
            blind.push(BlindSpot::FunctionNames);
        }
        let context = TraceContext::from_symbols(&symbols);
        let senders = match busy {
            false => {
                let stacks = match order.stacks {
                    true => SenderStacks::Reported,
                    false => SenderStacks::Omitted,
                };
                IpiSenders::arm(host, &order.cpus, clock_name(tsc), stacks)
            }
            true => Err(BlindReason::CpuBusy),
        };
        let senders = senders.map_err(|reason| blind.push(BlindSpot::Senders { reason })).ok();
        let ownership = match (order.ownership, busy) {
            (false, _) => None,
            (true, false) => Some(OwnershipWatch::prepare(host, &order.cpus, clock_name(tsc))),
            (true, true) => Some(Err(BlindReason::CpuBusy)),
        };
        let ownership = ownership.and_then(|watch| {
            watch.map_err(|reason| blind.push(BlindSpot::Owners { reason })).ok()
        });
        if ownership.is_some() {
            channels.iter_mut().for_each(|channel| channel.tracker.keep_moments());
        }
        Ok(TraceRecorder {
            host,
            channels,
            instance,
            senders,
            ownership,
            decoder,
            context,
            symbols,
            tasks: kernel_threads(host),
            blind,
            tsc,
            armed,
            begun: ClockTicks::default(),
            polled: ClockTicks::default(),
            syscalls: order.syscalls,
            stacks: order.stacks,
            events,
            entry_events,
            interference: None,
            spool: None,
            flight_recorder: None,
        })
    }

    /// Keeps the raw pages from [`TraceRecorder::start`] on, for [`TraceRecorder::take_recording`].
    /// With `last_ns`, keeps only those of the last `last_ns` nanoseconds.
    pub fn keep_pages(&mut self, spool: PageBuffer, last_ns: Option<u64>) {
        self.spool = Some(RecordingSpool::new(spool, last_ns));
    }

    /// What this trace cannot see on this kernel.
    #[must_use]
    pub fn blind(&self) -> &[BlindSpot] {
        &self.blind
    }

    /// Sets the threads of the workload; may be called at any time. Children that they create on a
    /// watched CPU are added. Without a workload, an idle CPU counts as undisturbed.
    pub fn set_workload(&mut self, tids: &[i32]) {
        self.context.workload = tids.iter().copied().collect();
        if let Some(spool) = &mut self.spool {
            spool.add_workload(tids);
        }
        for channel in &mut self.channels {
            channel.tracker.workload_changed(&self.context);
        }
        self.ownership.iter_mut().for_each(|watch| watch.set_workload(tids));
    }

    /// Reads the clock of the trace. Where that is not the counter, a tick is a nanosecond.
    #[must_use]
    pub fn now(&self) -> ClockTicks {
        if self.tsc { clock::ticks() } else { ClockTicks(clock::monotonic_ns()) }
    }

    /// Converts ticks of that clock to nanoseconds.
    #[must_use]
    pub fn scale(&self) -> TickScale {
        let nanoseconds = TickScale { ns_per_tick: 1.0, error_ppm: 0.0 };
        if self.tsc {
            TickScale::between(self.armed, clock::ClockReading::now()).unwrap_or(nanoseconds)
        } else {
            nanoseconds
        }
    }

    /// Starts recording.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn start(&mut self) -> cpushield_linux::Result<()> {
        // The event of an NMI has its duration in nanoseconds.
        self.context.ticks_per_ns = 1.0 / self.scale().ns_per_tick;
        for channel in &mut self.channels {
            channel.discard()?;
            channel.stats = self.instance.stats(channel.cpu)?;
        }
        self.instance.start()?;
        if let Some(Err(reason)) = self.ownership.as_mut().map(OwnershipWatch::start) {
            self.blind.push(BlindSpot::Owners { reason });
            self.ownership = None;
        }
        let cpus = self.channels.iter().map(|channel| channel.cpu).collect();
        let events = self.events.clone();
        self.interference = Some(InterferenceMonitor::start(
            &mut self.instance,
            clock_name(self.tsc),
            cpus,
            events,
        ));
        let begun = self.now();
        for channel in &mut self.channels {
            channel.tracker.recording_started(begun.0);
        }
        self.begin_phase(begun);
        Ok(())
    }

    /// Reads and counts what the kernel has recorded since the last call. Never waits.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn poll(&mut self) -> cpushield_linux::Result<()> {
        let now = self.now();
        let share = POLL_MAX / u32::try_from(self.channels.len()).unwrap_or(u32::MAX);
        for channel in &mut self.channels {
            let until = Instant::now() + share;
            let keep = self.spool.as_mut().map(|spool| &mut spool.spool);
            channel.read(&self.decoder, &mut self.context, (None, until), keep)?;
            channel.advance(now);
        }
        if let Some(senders) = &mut self.senders {
            senders.poll();
        }
        let behind = self.channels.iter().filter_map(|channel| channel.behind).min();
        let now = behind.map_or(now, |behind| ClockTicks(behind.min(now.0)));
        self.poll_ownership(now);
        if let Some(monitor) = &mut self.interference {
            monitor.poll(self.host, &self.instance);
        }
        self.look_up_tasks();
        self.record_history(now);
        self.polled = now;
        Ok(())
    }

    /// Whether records were left that could not be read in time.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.channels.iter().any(|channel| channel.behind.is_some())
    }

    /// Correlates gaps of the sampler on this CPU with the trace, where both use the same clock.
    /// The gaps are in the order of time; no other gap begins before tick `complete_until`.
    pub fn add_gaps(&mut self, cpu: usize, gaps: &[Gap], complete_until: ClockTicks) {
        let channel = self.channels.iter_mut().find(|channel| channel.cpu == cpu);
        if let (Some(spool), true) = (&mut self.spool, self.tsc) {
            spool.add_gaps(cpu, gaps);
        }
        if let (Some(channel), true) = (channel, self.tsc) {
            channel.correlator.add_gaps(gaps, complete_until.0);
        }
    }

    /// Ends a phase and returns its evidence, one entry for each watched CPU.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn end_phase(&mut self) -> cpushield_linux::Result<Vec<TraceEvidence>> {
        let (begun, end, scale) = (self.begun, self.now(), self.scale());
        let mut phases = Vec::new();
        for channel in &mut self.channels {
            let keep = self.spool.as_mut().map(|spool| &mut spool.spool);
            let end_at = (Some(end), Instant::now());
            let ended = channel.read(&self.decoder, &mut self.context, end_at, keep)?;
            phases.push(ended.unwrap_or_else(|| channel.end_phase(end)));
            channel.advance(end);
        }
        if let Some(senders) = &mut self.senders {
            senders.poll();
            senders.read_saved_names();
            if senders.is_partial() && !self.blind.contains(&BlindSpot::SomeSenders) {
                self.blind.push(BlindSpot::SomeSenders);
            }
        }
        self.poll_ownership(end);
        self.look_up_tasks();
        let span_ns = scale.duration_ns(end.saturating_sub(begun));
        let mut evidence = Vec::new();
        for (place, (channel, phase)) in self.channels.iter_mut().zip(phases).enumerate() {
            for pid in phase.stats.rows.tasks().chain(phase.stats.silent) {
                look_up_task(self.host, &mut self.tasks, pid);
            }
            let stats = self.instance.stats(channel.cpu)?;
            // What another process has read through a copy of the descriptor is missing, too.
            let read = stats.read.saturating_sub(channel.stats.read);
            let taken = read.saturating_sub(std::mem::take(&mut channel.records_read));
            let lost = stats.lost().saturating_sub(channel.stats.lost());
            let counted = lost.saturating_add(taken);
            channel.stats = stats;
            let ran = ran_mostly(self.host, channel.runner, span_ns);
            let stacks = self.stacks.then(|| channel.tracker.stacks());
            let names = CulpritNames { symbols: &self.symbols, tasks: &self.tasks, stacks };
            let mut found =
                build_evidence(channel.cpu, span_ns, &phase, &names, &scale, counted, ran);
            found.joined = channel.correlator.end_phase(&names, &scale);
            let ownership = self.ownership.as_mut();
            found.ownership = ownership.and_then(|watch| watch.evidence(place, &names, &scale));
            found.tracked = channel.tracker.is_tracked();
            found.whole = self.syscalls || found.tracked;
            let senders = self.senders.as_ref();
            found.senders =
                senders.map(|all| all.to(channel.cpu, &self.symbols)).unwrap_or_default();
            if senders.is_some_and(|all| !all.is_partial()) {
                ipi_senders::name_calls(
                    &mut found.interruptions,
                    &mut found.joined,
                    &found.senders,
                );
            }
            afterwards::name_entries_without_event(&mut found.interruptions, self.syscalls);
            evidence.push(found);
        }
        self.begin_phase(end);
        Ok(evidence)
    }

    /// Stops recording and restores everything. Dropping does the same but ignores errors.
    ///
    /// # Errors
    /// The kernel's first answer that is an error.
    pub fn close(self) -> cpushield_linux::Result<()> {
        drop(self.channels);
        self.instance.close()
    }

    /// Stops recording. The caller closes the files and then removes these directories.
    #[must_use]
    pub fn into_dirs(self, files: &mut Vec<OpenFile>) -> Vec<String> {
        let TraceRecorder { channels, instance, senders, ownership, interference, .. } = self;
        drop(channels);
        files.extend(interference.into_iter().flat_map(InterferenceMonitor::into_files));
        let side = senders.map(|it| it.trace).into_iter().chain(ownership.map(|it| it.trace));
        instance
            .into_dir()
            .into_iter()
            .chain(side.filter_map(|side| side.into_dir(files)))
            .collect()
    }

    /// Begins a phase, and notes which thread of the workload runs on each CPU.
    fn begin_phase(&mut self, at: ClockTicks) {
        self.begun = at;
        if let Some(spool) = &mut self.spool {
            spool.phases.push((at.0, ""));
        }
        if let Some(senders) = &mut self.senders {
            senders.begin_phase();
        }
        self.ownership.iter_mut().for_each(|watch| watch.begin_phase(at));
        for channel in &mut self.channels {
            channel.runner = None;
            channel.correlator.begin_phase(at.0, self.context.ticks_per_ns);
        }
        for tid in &self.context.workload {
            let Ok(task) = self.host.task(*tid, *tid) else { continue };
            let channel = self.channels.iter_mut().find(|channel| channel.cpu == task.cpu);
            if let (Some(channel), 'R', Some(time)) =
                (channel, task.state, self.host.cpu_ticks(*tid).ok())
            {
                channel.runner = Some((*tid, time));
            }
        }
    }

    /// Takes what was read up to this moment. Records of other CPUs are read after it.
    fn poll_ownership(&mut self, until: ClockTicks) {
        let Some(mut watch) = self.ownership.take() else { return };
        let (scale, known) = (self.scale(), self.now());
        watch.poll(&mut self.channels, &self.context, scale, (until, known));
        self.ownership = Some(watch);
    }

    /// Looks up the names of tasks while they are alive.
    fn look_up_tasks(&mut self) {
        for pid in self.ownership.iter().flat_map(OwnershipWatch::tasks) {
            look_up_task(self.host, &mut self.tasks, pid);
        }
        for channel in &self.channels {
            for pid in channel.tracker.rows().tasks() {
                look_up_task(self.host, &mut self.tasks, pid);
            }
        }
    }
}

/// The `trace_clock`: ticks of the TSC, or else nanoseconds.
fn clock_name(tsc: bool) -> &'static str {
    if tsc { clock::TRACE_CLOCK } else { "mono" }
}

fn pipe_refused(error: Error) -> AbsenceReason {
    AbsenceReason::TraceNotOpened { answer: error.to_string() }
}
