//! The witnesses of one watch while they run: arming them, polling them and ending them in the
//! right order. Takes a `WatchOrder`, gives what each witness observed. What to watch and when the
//! span begins is up to `watch`; what the observations mean, to `judge`.

use crate::documents::evidence::{
    AbsenceReason, BlindSpot, Breach, ControlAt, CpuDoubt, PositiveControl, TraceInterference,
    TracedSpan, WatchedWorkload, WitnessKind, WitnessReport, WorkloadEnd,
};
use crate::observe::counters::{self, CounterSnapshot};
use crate::observe::event_counters::{ComparedCpu, SecondWitness};
use crate::observe::firmware::{self, SmiCounts};
use crate::observe::sampler::SamplerProcess;
use crate::observe::{environment, provoke};
use crate::trace::breach::{self, BrokenLimit, NoticedBreach};
use crate::trace::{self, TraceRecorder};
use crate::verify::control::{self, Provocation};
use crate::verify::observations::{self, SpanObservation};
use crate::verify::order::{UntilBreach, WatchOrder, WorstSoFar};
use cpushield_linux::processes::closer::close_in_child;
use cpushield_linux::sys::clock::{self, ClockReading, ClockTicks, TickScale, nanos};
use cpushield_linux::trace::page_buffer::PageBuffer;
use cpushield_linux::{CpuSet, Host};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Interval at which progress is reported and the stop flag is checked.
const STEP: Duration = Duration::from_millis(100);

/// The shortest such interval; used when the time to wait is short.
const STEP_LEAST: Duration = Duration::from_millis(1);

/// The threads of a given workload are looked up again after this many intervals.
const ROUNDS: u64 = 10;

/// How long a CPU may take to return to user mode after the handler of an interrupt has run.
const SETTLE: Duration = Duration::from_millis(1);

/// How a wait ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitEnd {
    /// The time is over.
    TimeOver,
    /// The user stopped it, or a limit was broken.
    Stopped,
    /// The workload ended.
    WorkloadEnded(WorkloadEnd),
}

impl WaitEnd {
    /// The same end, as if it had happened at the start of the next span.
    pub fn before_the_span(self) -> WaitEnd {
        match self {
            WaitEnd::WorkloadEnded(end) => {
                WaitEnd::WorkloadEnded(WorkloadEnd { after_ns: 0, ..end })
            }
            other => other,
        }
    }

    /// How the workload ended; `None` when it did not.
    pub fn workload_end(self) -> Option<WorkloadEnd> {
        match self {
            WaitEnd::WorkloadEnded(end) => Some(end),
            WaitEnd::TimeOver | WaitEnd::Stopped => None,
        }
    }
}

/// The running witnesses, and what they have seen so far.
pub struct ActiveInstruments<'h> {
    host: &'h Host,
    trace: Result<TraceRecorder<'h>, AbsenceReason>,
    sampler: Result<SamplerProcess, AbsenceReason>,
    /// When the sampler had begun the span, on `CLOCK_MONOTONIC_RAW`; `None` before that.
    sampler_began_ns: Option<u64>,
    /// Perf events that count what the trace records.
    pub second: SecondWitness,
    /// What runs on the watched CPUs.
    pub watched: WatchedWorkload,
    /// What makes the figures of this watch doubtful.
    pub doubts: Vec<CpuDoubt>,
    /// Threads of the workload that have been on the watched CPUs.
    placed_threads: BTreeSet<i32>,
    /// The longest gap of the span so far.
    longest_gap: ClockTicks,
    /// The gap limit that ends the watch, in nanoseconds.
    max_gap_ns: Option<u64>,
    /// Converts ticks of the sampler to nanoseconds; `None` before the span.
    pub tick_scale: Option<TickScale>,
    /// Start of the span, on the clock of the trace.
    span_start: ClockTicks,
    /// The first breach of a limit in the span.
    first_breach: Option<NoticedBreach>,
    /// The span on the clock of the trace.
    pub traced: Option<TracedSpan>,
    /// What other processes did to a trace that failed later, and the failure.
    lost_trace: Vec<TraceInterference>,
}

impl<'h> ActiveInstruments<'h> {
    /// Arms the trace and the perf events. Must run first: arming interrupts every CPU, and hangs
    /// while a real-time task spins.
    pub fn arm(host: &'h Host, order: &WatchOrder) -> ActiveInstruments<'h> {
        environment::wait_for_closers(host, order.stop);
        let wanted = trace::RecordRequest {
            cpus: order.cpus.clone(),
            syscalls: order.syscalls,
            stacks: order.stacks,
            ownership: order.workload.as_ref().is_some_and(|it| it.kind == WatchedWorkload::Cyclic),
        };
        let trace = TraceRecorder::arm(host, &wanted).map(|mut recorder| {
            recorder.watch_privilege();
            match (&order.until, &order.keep) {
                (Some(until), _) => {
                    let last_ns = until.before_ns + nanos(2 * STEP);
                    recorder.keep_pages(PageBuffer::bounded(), Some(last_ns));
                }
                (None, Some(keep)) => {
                    recorder.keep_pages(PageBuffer::spilling_next_to(keep.next_to), None);
                }
                (None, None) => {}
            }
            recorder
        });
        ActiveInstruments {
            host,
            second: SecondWitness::arm(host, &order.cpus, &trace),
            trace,
            sampler: Err(AbsenceReason::WorkloadGiven),
            sampler_began_ns: None,
            watched: order.workload.as_ref().map_or(WatchedWorkload::Sampler, |given| given.kind),
            doubts: Vec::new(),
            placed_threads: BTreeSet::new(),
            longest_gap: ClockTicks::default(),
            max_gap_ns: None,
            tick_scale: None,
            span_start: ClockTicks::default(),
            first_breach: None,
            traced: None,
            lost_trace: Vec::new(),
        }
    }

    /// Starts the gap sampler on the watched CPUs.
    pub fn start_sampler(&mut self, order: &WatchOrder) {
        let whole = order.warmup + order.span;
        let files = order.cgroup.iter().map(|dir| format!("{dir}/cgroup.procs")).collect();
        self.sampler =
            SamplerProcess::start(self.host, &order.cpus, files, order.threshold_ns, whole);
        if let (Ok(sampler), Some(note)) =
            (&mut self.sampler, environment::untrusted_clock(self.host))
        {
            sampler.blind.push(note);
        }
    }

    /// Looks up the threads of the workload.
    fn workload_threads(&self, order: &WatchOrder) -> Vec<i32> {
        match (&order.workload, &self.sampler) {
            (Some(given), _) => (given.threads)(),
            (None, Ok(sampler)) => sampler.spinners.iter().map(|spinner| spinner.tid).collect(),
            (None, Err(_)) => Vec::new(),
        }
    }

    /// Looks up the threads of the workload, passes them to the trace and returns them.
    pub fn update_workload(&mut self, order: &WatchOrder) -> Vec<i32> {
        let threads = self.workload_threads(order);
        if let Ok(recorder) = &mut self.trace {
            recorder.set_workload(&threads);
        }
        threads
    }

    /// Starts recording the trace.
    pub fn start(&mut self) {
        if let Ok(recorder) = &mut self.trace
            && let Err(error) = recorder.start()
        {
            self.trace = Err(AbsenceReason::failed(error));
        }
        self.name_phase("warm-up");
    }

    fn name_phase(&mut self, name: &'static str) {
        if let Ok(recorder) = &mut self.trace {
            recorder.name_phase(name);
        }
    }

    /// Describes the first breach from the raw trace, then hands the recording to the caller. Must
    /// run before newer records push the breach out.
    pub fn deliver_recording(&mut self, order: &WatchOrder) -> Option<Breach> {
        let recorder = self.trace.as_mut().ok()?;
        let mut recording = recorder.take_recording()?;
        let described = order.until.as_ref().zip(self.first_breach).map(|(until, breach)| {
            recording.mark(breach.at, "after the breach");
            breach::describe(&mut recording, &breach, &until.limits, self.span_start)
        });
        if let Some(keep) = &order.keep {
            (keep.take)(recording);
        }
        described
    }

    /// Runs an operation on the started trace. When it fails, the trace is lost.
    fn with_trace<T>(
        &mut self,
        operation: impl FnOnce(&mut TraceRecorder<'h>) -> cpushield_linux::Result<T>,
    ) -> Option<T> {
        let Ok(recorder) = &mut self.trace else { return None };
        match operation(recorder) {
            Ok(value) => Some(value),
            Err(error) => {
                self.lose_trace(&error);
                None
            }
        }
    }

    /// Gives up a trace that fails while it runs. It counts as absent, but not as one that was
    /// never there: another process may have made it fail.
    fn lose_trace(&mut self, error: &cpushield_linux::Error) {
        if let Ok(recorder) = &mut self.trace {
            self.lost_trace = recorder.interference();
        }
        self.lost_trace.push(TraceInterference::Failed { answer: error.to_string() });
        self.trace = Err(AbsenceReason::failed(error));
    }

    /// Reads the trace and the gaps of the sampler, and correlates the two.
    fn poll(&mut self) {
        self.with_trace(TraceRecorder::poll);
        let Ok(sampler) = &mut self.sampler else { return };
        for (cpu, gaps, complete_until) in sampler.drain() {
            for gap in &gaps {
                let ticks = ClockTicks(gap.end.saturating_sub(gap.start));
                self.longest_gap = self.longest_gap.max(ticks);
                let ns = self.tick_scale.map_or(0, |scale| scale.duration_ns(ticks));
                if self.first_breach.is_none() && self.max_gap_ns.is_some_and(|most| ns > most) {
                    self.first_breach = Some(NoticedBreach {
                        cpu,
                        at: ClockTicks(gap.start),
                        kind: BrokenLimit::Gap(ns),
                    });
                }
            }
            if let Ok(recorder) = &mut self.trace {
                recorder.add_gaps(cpu, &gaps, complete_until);
            }
        }
    }

    /// The worst figures since the span began.
    fn worst(&self) -> WorstSoFar {
        let scale = self.tick_scale.filter(|_| self.sampler.is_ok());
        WorstSoFar {
            entries: self.trace.as_ref().ok().and_then(TraceRecorder::most_entries),
            gap_ns: scale.map(|scale| scale.duration_ns(self.longest_gap)),
        }
    }

    /// Whether a limit that ends the watch is broken. Notes the first breach.
    fn check_limits(&mut self, order: &WatchOrder) -> bool {
        let Some(UntilBreach { limits, .. }) = &order.until else { return false };
        let traced = self.trace.as_ref().ok().and_then(TraceRecorder::first_breach);
        let found = [traced, self.first_breach].into_iter().flatten();
        self.first_breach = found.min_by_key(|breach| breach.at);
        // Without a trace on the sampler's clock, the moment of the breach is unknown.
        self.first_breach.is_some() || self.worst().breaks(limits)
    }

    /// Polls the witnesses until the time is over, the workload ends or the watch is stopped.
    pub fn wait(
        &mut self,
        order: &WatchOrder,
        time: Duration,
        report: &dyn Fn(Duration, WorstSoFar),
    ) -> WaitEnd {
        let began = Instant::now();
        // In a short wait too, the end of the workload must be noticed to within a tenth of it.
        let step = STEP.min(time / 10).max(STEP_LEAST);
        for round in 1_u64.. {
            self.poll();
            let done = began.elapsed();
            report(done.min(time), self.worst());
            if let Some(how) = order.workload.as_ref().and_then(|given| (given.ended)()) {
                // A workload that has ended at the first look did not run in this time at all.
                let after_ns = if round == 1 { 0 } else { nanos(done) };
                return WaitEnd::WorkloadEnded(WorkloadEnd { how, after_ns });
            }
            if done >= time {
                break;
            }
            if (order.stop)() || (self.tick_scale.is_some() && self.check_limits(order)) {
                return WaitEnd::Stopped;
            }
            if let (Ok(recorder), None) = (&mut self.trace, self.first_breach) {
                recorder.forget_old_pages();
            }
            if round.is_multiple_of(ROUNDS) {
                let threads = self.update_workload(order);
                self.check_placement(order, &threads);
            }
            if !self.trace.as_ref().is_ok_and(TraceRecorder::is_behind) {
                std::thread::sleep(step.min(time - done));
            }
        }
        WaitEnd::TimeOver
    }

    /// Notes when a watched CPU went offline or the workload left the watched CPUs; each once.
    fn check_placement(&mut self, order: &WatchOrder, threads: &[i32]) {
        let offline =
            environment::offline(self.host, &order.cpus).map(|cpus| CpuDoubt::CpusOffline { cpus });
        let placed = &mut self.placed_threads;
        let strayed = environment::strayed(self.host, threads, &order.cpus, placed);
        for doubt in [offline, strayed].into_iter().flatten() {
            if !self.doubts.contains(&doubt) {
                self.doubts.push(doubt);
            }
        }
    }

    /// Runs the positive control. It runs before the span and again after it, because an instrument
    /// may have gone blind in between.
    pub fn run_control(&mut self, order: &WatchOrder, at: ControlAt) -> PositiveControl {
        self.with_trace(TraceRecorder::end_phase);
        self.name_phase("positive control");
        let before = counters::read(self.host);
        let first = self.second.read();
        let mut provoked = match (&mut self.sampler, at) {
            // The sampler goes through its phases only once.
            (Ok(sampler), ControlAt::BeforeSpan) => sampler.control().or_else(|why| {
                provoke::provoke(self.host, &order.cpus)
                    .map_err(|failure| failure.after_sampler(why))
            }),
            _ => provoke::provoke(self.host, &order.cpus),
        };
        if let Ok(provoked) = &mut provoked {
            provoked.idle = self.retry_idle(order, &before);
        }
        let last = self.second.read();
        let after = counters::read(self.host);
        let traced = self.with_trace(TraceRecorder::end_phase);
        let mut counted = Vec::new();
        let mut perf = Vec::new();
        for cpu in order.cpus.iter() {
            let counts = counters::compare(&before, &after, cpu, &[]);
            counted.push((cpu, control::counted(&counts)));
            perf.push((cpu, self.second.function_calls(&first, &last, cpu)));
        }
        control::judge(&Provocation {
            at,
            provoked,
            counted,
            perf,
            traced: traced.as_deref().map(control::traced),
        })
    }

    /// Provokes interruptions again on CPUs that have too few of them by the kernel's own counters.
    /// Returns those that were idle, as [`provoke::retry_idle`].
    fn retry_idle(&self, order: &WatchOrder, before: &CounterSnapshot) -> Vec<(usize, usize)> {
        let now = counters::read(self.host);
        let has_too_few = |cpu: &usize| {
            let counts = counters::compare(before, &now, *cpu, &[]);
            control::counted(&counts).is_some_and(|count| count < control::ENOUGH)
        };
        let cpus: CpuSet = order.cpus.iter().filter(has_too_few).collect();
        if cpus.is_empty() { Vec::new() } else { provoke::retry_idle(self.host, &cpus) }
    }

    /// What other processes did to the recording.
    pub fn interference(&mut self) -> Vec<TraceInterference> {
        let lost = &mut self.lost_trace;
        self.trace.as_mut().map_or_else(|_| std::mem::take(lost), TraceRecorder::interference)
    }

    /// Begins the span: everything counts from now on. What interrupts the watched CPUs comes
    /// first. The span of the sampler lies in that of the trace, which so has the events of every
    /// gap. Returns its beginning in nanoseconds.
    pub fn begin_span(&mut self, order: &WatchOrder) -> u64 {
        if let Ok(recorder) = &mut self.trace {
            self.second.open(recorder);
        }
        std::thread::sleep(SETTLE);
        self.poll();
        self.longest_gap = ClockTicks::default();
        let began = clock::monotonic_ns();
        self.with_trace(TraceRecorder::end_phase);
        self.name_phase("watched");
        if let Ok(sampler) = &mut self.sampler {
            match sampler.begin_span() {
                Ok(()) => self.sampler_began_ns = Some(ClockReading::now().raw_ns),
                Err(why) => self.sampler = Err(why),
            }
        }
        self.max_gap_ns = order.until.as_ref().and_then(|until| until.limits.max_gap_ns);
        if let (Ok(recorder), Some(until)) = (&mut self.trace, &order.until) {
            // Where the sampler runs, it alone decides about gaps.
            let gap_ns = until.limits.max_gap_ns.filter(|_| self.sampler.is_err());
            self.span_start = recorder.set_limits(until.limits.max_entries, gap_ns);
        }
        began
    }

    /// Ends the span. Returns what was seen since [`ActiveInstruments::begin_span`].
    ///
    /// The order is that of the beginning, reversed. The sampler ends first, then its last gaps are
    /// read, so that all of them meet the events of the trace. The trace ends next, and only then
    /// the watched CPUs are interrupted: by the last read of the second witness, which has counted
    /// since before both spans, and perhaps by the answer of the sampler.
    pub fn end_span(&mut self, order: &WatchOrder) -> SpanObservation {
        // The last look at the workload in the span. The trace keeps its threads: those of a
        // program that has just ended are gone.
        let threads = self.workload_threads(order);
        self.check_placement(order, &threads);
        let sampled_ns = self.end_sampler_span();
        self.poll();
        self.check_limits(order);
        let began = self.trace.as_ref().ok().map(TraceRecorder::phase_began);
        let trace = self.with_trace(TraceRecorder::end_phase);
        self.traced = began.and_then(|began| Some(self.trace.as_ref().ok()?.span_since(began)));
        self.name_phase("over");
        if let Ok(recorder) = &mut self.trace
            && let Err(error) = self.second.close(recorder)
        {
            self.lose_trace(&error);
        }
        let mut gaps = Vec::new();
        if let Ok(sampler) = &mut self.sampler {
            match sampler.read_span() {
                Ok(seen) => gaps = seen,
                Err(why) => self.sampler = Err(why),
            }
        }
        SpanObservation { trace, gaps, sampled_ns }
    }

    /// Ends the span of the sampler. Returns for how long it had to run at least: from its answer
    /// at the beginning until the request to end.
    fn end_sampler_span(&mut self) -> u64 {
        let now_ns = ClockReading::now().raw_ns;
        if let Ok(sampler) = &mut self.sampler
            && let Err(why) = sampler.end_span()
        {
            self.sampler = Err(why);
        }
        self.sampler_began_ns.map_or(0, |began_ns| now_ns.saturating_sub(began_ns))
    }

    /// Ends all witnesses without waiting, and returns the comparison with the perf events.
    pub fn end(self) -> Vec<ComparedCpu> {
        drop(self.sampler);
        let (compared, mut files) = self.second.into_compared();
        let instances = self.trace.map(|trace| trace.into_dirs(&mut files)).unwrap_or_default();
        close_in_child(self.host, files, &instances);
        compared
    }

    /// Whether each witness watched, and what it could not see.
    pub fn witnesses(
        &self,
        before: &CounterSnapshot,
        after: &CounterSnapshot,
        smis: &(SmiCounts, SmiCounts),
    ) -> Vec<WitnessReport> {
        vec![
            self.trace_witness(),
            observations::counters_witness(before, after),
            WitnessReport {
                kind: WitnessKind::EventCounters,
                absent: self.second.absent().cloned(),
                blind: Vec::new(),
            },
            self.sampler_witness(),
            firmware::witness(&smis.0, &smis.1),
        ]
    }

    fn trace_witness(&self) -> WitnessReport {
        let (absent, blind) = match &self.trace {
            Ok(recorder) => (None, recorder.blind().to_vec()),
            Err(why) => (Some(why.clone()), Vec::new()),
        };
        WitnessReport { kind: WitnessKind::Trace, absent, blind }
    }

    fn sampler_witness(&self) -> WitnessReport {
        let (absent, blind) = match &self.sampler {
            Ok(sampler) => {
                let culprits = self.trace.is_err().then_some(BlindSpot::GapCulprits);
                (None, culprits.into_iter().chain(sampler.blind.iter().cloned()).collect())
            }
            Err(why) => (Some(why.clone()), Vec::new()),
        };
        WitnessReport { kind: WitnessKind::Sampler, absent, blind }
    }
}
