//! Watch: `Host` → [`Evidence`]. Arms the witnesses, provokes the positive control, lets the span
//! go by and puts together what each witness saw. Decides nothing.
//!
//! Order matters: everything that touches the watched CPUs (arming, placing the sampler, the
//! control, the end of the sampler) lies outside the span that counts.

use crate::verify::affinity_guard::AffinityGuard;
use crate::verify::breach::{self, BrokenLimit, NoticedBreach};
use crate::verify::control::{self, ControlAt, Provocation};
use crate::verify::counters::{self, CounterSnapshot};
use crate::verify::environment;
use crate::verify::event_counters::SecondWitness;
use crate::verify::firmware::{self, SmiCounts};
use crate::verify::observations::{self, CombinedObservations, SpanObservation};
use crate::verify::order::{UntilBreach, WatchError, WatchOrder, WatchProgress, WorstSoFar};
use crate::verify::sampler::SamplerProcess;
use crate::verify::trace::{self, TraceRecorder};
use crate::verify::{
    AbsenceReason, BlindSpot, Breach, CpuDoubt, Evidence, PositiveControl, SCHEMA,
    TraceInterference, TracedSpan, WatchedWorkload, WitnessKind, WitnessReport, WorkloadEnd,
};
use cpushield_linux::clock::{TickScale, monotonic_ns};
use cpushield_linux::page_buffer::PageBuffer;
use cpushield_linux::{CpuSet, Host};
use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often progress is told and the stop flag asked.
const STEP: Duration = Duration::from_millis(100);

/// The same in a short time.
const STEP_LEAST: Duration = Duration::from_millis(1);

/// So many steps apart the threads of a given workload are looked up again.
const ROUNDS: u64 = 10;

/// How a time ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum WaitEnd {
    /// It was over.
    Over,
    /// Somebody stopped it.
    Stopped,
    /// The workload ended, in this way.
    Ended(WorkloadEnd),
}

impl WaitEnd {
    /// The same, as the span that comes after it sees it.
    fn before_the_span(self) -> WaitEnd {
        match self {
            WaitEnd::Ended(ended) => WaitEnd::Ended(WorkloadEnd { after_ns: 0, ..ended }),
            rest => rest,
        }
    }

    fn ended(self) -> Option<WorkloadEnd> {
        match self {
            WaitEnd::Ended(ended) => Some(ended),
            WaitEnd::Over | WaitEnd::Stopped => None,
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The wall clock; `None` where it is set to before 1970.
fn seconds_since_1970() -> Option<u64> {
    SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|time| time.as_secs())
}

/// Watches the CPUs.
///
/// # Errors
/// The order makes no sense on this machine, or the workload does not start. A witness that is not
/// there is no error: the evidence says so.
pub fn watch(host: &Host, order: &WatchOrder) -> Result<Evidence, WatchError> {
    let online = check(host, order)?;
    let _aside = AffinityGuard::step(&online.minus(&order.cpus));
    (order.progress)(WatchProgress::Arming);
    let mut bench = ActiveInstruments::arm(host, order);
    match &order.workload {
        Some(given) => (given.start)().map_err(|why| WatchError::Workload { why })?,
        None => bench.seat_sampler(order),
    }
    bench.start();
    let first = environment::take(host);
    (order.progress)(WatchProgress::Settling);
    let mut rest = bench.wait(order, order.warmup, &|_, _| ()).before_the_span();
    let mut own = bench.workload(order);
    let control = bench.control(order, ControlAt::BeforeSpan);
    let guest = firmware::guest(host);
    let meter = firmware::SmiCounter::start(host, &order.cpus);
    let smis = meter.take();
    let calm = environment::take(host);
    bench.doubts.clear();
    bench.begin(order);
    let before = counters::take(host, &order.cpus);
    let (began, began_s, began_ns) = (Instant::now(), seconds_since_1970(), monotonic_ns());
    if rest == WaitEnd::Over {
        // Elsewhere the sampler has another clock.
        let rate = TickScale::between(first.at, calm.at);
        bench.rate = rate.filter(|_| cfg!(target_arch = "x86_64"));
        rest = bench.wait(order, order.span, &|done, worst| {
            (order.progress)(WatchProgress::Watching { done, of: order.span, worst });
        });
    }
    let span = began.elapsed();
    (order.progress)(WatchProgress::Gathering);
    let after = counters::take(host, &order.cpus);
    let seen = bench.end(order);
    let breach = bench.hand_over(order);
    let control = control.and(bench.control(order, ControlAt::AfterSpan));
    let interference = bench.interference();
    let smis = (smis, meter.take());
    let changes = environment::changed(&first, &calm, &environment::take(host)).into_iter();
    bench.doubts.extend(changes.map(|change| CpuDoubt::CircumstanceChanged { change }));
    own.extend(bench.workload(order));
    // The trace's time encloses the reading of the counters, which takes long on a slow machine;
    // where there is a trace, entries and the longest stretch are those of its time.
    let traced = seen.trace.iter().flatten().map(|cpu| cpu.span_ns).max();
    let span_ns = traced.unwrap_or(nanos(span));
    let doubts = std::mem::take(&mut bench.doubts);
    let witnesses = bench.witnesses(&before, &after, &smis);
    let (workload, compared) = (bench.watched, bench.second.into_compared());
    let all = CombinedObservations { before, after, smis, seen, compared, own, doubts, span_ns };
    Ok(Evidence {
        schema: SCHEMA,
        began_s,
        began_ns: Some(began_ns),
        span_ns,
        asked_ns: nanos(order.span),
        stopped: rest == WaitEnd::Stopped,
        ended: rest.ended(),
        workload,
        guest,
        cpus: order.cpus.iter().map(|cpu| all.of(cpu, workload)).collect(),
        witnesses,
        interference,
        control,
        traced: bench.traced.take(),
        breach,
    })
}

/// The online CPUs, when the order can be followed.
fn check(host: &Host, order: &WatchOrder) -> Result<CpuSet, WatchError> {
    if !host.is_live() {
        return Err(WatchError::Recorded);
    }
    if order.cpus.is_empty() {
        return Err(WatchError::NoCpus);
    }
    let online = host.online_cpus()?;
    let offline = order.cpus.minus(&online);
    if !offline.is_empty() {
        return Err(WatchError::Offline { cpus: offline, online });
    }
    if online.minus(&order.cpus).is_empty() {
        return Err(WatchError::NoneLeft { online });
    }
    Ok(online)
}

/// The witnesses that run.
struct ActiveInstruments<'h> {
    host: &'h Host,
    trace: Result<TraceRecorder<'h>, AbsenceReason>,
    sampler: Result<SamplerProcess, AbsenceReason>,
    /// Counts what the trace records.
    second: SecondWitness,
    /// What runs on the CPUs.
    watched: WatchedWorkload,
    /// What happened that should not have.
    doubts: Vec<CpuDoubt>,
    /// Threads of the workload that were on the watched CPUs.
    seated: BTreeSet<i32>,
    /// The longest gap of the span so far, in ticks of the sampler.
    longest: u64,
    /// The limit that ends the watch.
    max_gap_ns: Option<u64>,
    /// What a tick is worth; `None` before the span.
    rate: Option<TickScale>,
    /// When the span began, in ticks of the trace.
    began: u64,
    /// The first breach of a limit in the span.
    breached: Option<NoticedBreach>,
    /// The span on the clock of the trace.
    traced: Option<TracedSpan>,
}

impl<'h> ActiveInstruments<'h> {
    /// Arms the trace, which touches every CPU and hangs under a spinning real-time task: first of
    /// all.
    fn arm(host: &'h Host, order: &WatchOrder) -> ActiveInstruments<'h> {
        let wanted = trace::RecordRequest {
            cpus: order.cpus.clone(),
            syscalls: order.syscalls,
            stacks: order.stacks,
        };
        let spool = || match (&order.until, &order.keep) {
            (Some(until), _) => {
                Some((PageBuffer::bounded(), Some(until.before_ns + nanos(2 * STEP))))
            }
            (None, Some(keep)) => Some((PageBuffer::spilling_next_to(keep.beside), None)),
            (None, None) => None,
        };
        let trace = TraceRecorder::arm(host, &wanted).map(|mut recorder| {
            recorder.watch_privilege();
            if let Some((spool, last_ns)) = spool() {
                recorder.keep(spool, last_ns);
            }
            recorder
        });
        ActiveInstruments {
            host,
            second: SecondWitness::arm(&order.cpus, &trace),
            trace,
            sampler: Err(AbsenceReason::WorkloadGiven),
            watched: match order.workload {
                Some(_) => WatchedWorkload::Given,
                None => WatchedWorkload::Sampler,
            },
            doubts: Vec::new(),
            seated: BTreeSet::new(),
            longest: 0,
            max_gap_ns: None,
            rate: None,
            began: 0,
            breached: None,
            traced: None,
        }
    }

    /// Starts the sampler.
    fn seat_sampler(&mut self, order: &WatchOrder) {
        let whole = order.warmup + order.span;
        let files = order.cgroup.iter().map(|dir| format!("{dir}/cgroup.procs")).collect();
        self.sampler = SamplerProcess::start(&order.cpus, files, order.threshold_ns, whole);
        if let (Ok(sampler), Some(note)) = (&mut self.sampler, distrust(self.host)) {
            sampler.blind.push(note);
        }
    }

    /// The threads of the workload as they are now; the trace is told.
    fn workload(&mut self, order: &WatchOrder) -> Vec<i32> {
        let threads = match (&order.workload, &self.sampler) {
            (Some(given), _) => (given.threads)(),
            (None, Ok(sampler)) => sampler.seats.iter().map(|seat| seat.tid).collect(),
            (None, Err(_)) => Vec::new(),
        };
        if let Ok(recorder) = &mut self.trace {
            recorder.workload(&threads);
        }
        threads
    }

    /// The trace begins to record.
    fn start(&mut self) {
        self.with_trace(TraceRecorder::start);
        self.name_phase("settling");
    }

    fn name_phase(&mut self, name: &'static str) {
        if let Ok(recorder) = &mut self.trace {
            recorder.name_phase(name);
        }
    }

    /// Hands the raw trace over and finds the breach in it, before newer records push that out.
    fn hand_over(&mut self, order: &WatchOrder) -> Option<Breach> {
        let recorder = self.trace.as_mut().ok()?;
        let mut recording = recorder.recording()?;
        let told = order.until.as_ref().zip(self.breached).map(|(until, breached)| {
            recording.mark(breached.at, "after the breach");
            breach::tell(&mut recording, &breached, &until.limits, self.began)
        });
        if let Some(keep) = &order.keep {
            (keep.take)(recording);
        }
        told
    }

    /// Asks something of the trace; when that fails, there is no trace any more.
    fn with_trace<T>(
        &mut self,
        ask: impl FnOnce(&mut TraceRecorder<'h>) -> cpushield_linux::Result<T>,
    ) -> Option<T> {
        let Ok(recorder) = &mut self.trace else { return None };
        match ask(recorder) {
            Ok(answer) => Some(answer),
            Err(error) => {
                self.trace = Err(AbsenceReason::failed(error));
                None
            }
        }
    }

    /// Hears both witnesses and lays what they say beside each other.
    fn poll(&mut self) {
        self.with_trace(TraceRecorder::poll);
        let Ok(sampler) = &mut self.sampler else { return };
        for (cpu, gaps, looked) in sampler.drain() {
            for gap in &gaps {
                let long = gap.end.saturating_sub(gap.start);
                self.longest = self.longest.max(long);
                let ns = self.rate.map_or(0, |rate| rate.ns(long));
                if self.breached.is_none() && self.max_gap_ns.is_some_and(|most| ns > most) {
                    self.breached =
                        Some(NoticedBreach { cpu, at: gap.start, kind: BrokenLimit::Gap(ns) });
                }
            }
            if let Ok(recorder) = &mut self.trace {
                recorder.join(cpu, &gaps, looked);
            }
        }
    }

    /// The worst since the span began.
    fn worst(&self) -> WorstSoFar {
        let scale = self.rate.filter(|_| self.sampler.is_ok());
        WorstSoFar {
            entries: self.trace.as_ref().ok().and_then(TraceRecorder::entries),
            gap_ns: scale.map(|scale| scale.ns(self.longest)),
        }
    }

    /// Whether a limit is broken that ends the watch; what broke it first is noted.
    fn is_broken(&mut self, order: &WatchOrder) -> bool {
        let Some(UntilBreach { limits, .. }) = &order.until else { return false };
        let traced = self.trace.as_ref().ok().and_then(TraceRecorder::breached);
        let found = [traced, self.breached].into_iter().flatten();
        self.breached = found.min_by_key(|breached| breached.at);
        // Without a trace that has the sampler's clock nobody can say where.
        self.breached.is_some() || self.worst().breaks(limits)
    }

    /// Lets time go by.
    fn wait(
        &mut self,
        order: &WatchOrder,
        time: Duration,
        tell: &dyn Fn(Duration, WorstSoFar),
    ) -> WaitEnd {
        let began = Instant::now();
        // Of a short time too it is to be known how much of it the workload ran.
        let step = STEP.min(time / 10).max(STEP_LEAST);
        for round in 1_u64.. {
            self.poll();
            let done = began.elapsed();
            tell(done.min(time), self.worst());
            if let Some(how) = order.workload.as_ref().and_then(|given| (given.ended)()) {
                // What is found ended at the first look ran not at all in this time.
                let after_ns = if round == 1 { 0 } else { nanos(done) };
                return WaitEnd::Ended(WorkloadEnd { how, after_ns });
            }
            if done >= time {
                break;
            }
            if (order.stop)() || (self.rate.is_some() && self.is_broken(order)) {
                return WaitEnd::Stopped;
            }
            if round.is_multiple_of(ROUNDS) {
                let threads = self.workload(order);
                self.look_after(order, &threads);
            }
            std::thread::sleep(step.min(time - done));
        }
        WaitEnd::Over
    }

    /// Notices when a CPU or the workload went away; each once.
    fn look_after(&mut self, order: &WatchOrder, threads: &[i32]) {
        let offline = environment::offline(self.host, &order.cpus);
        let offline = offline.map(|cpus| CpuDoubt::CpusOffline { cpus });
        let seated = &mut self.seated;
        let strayed = environment::strayed(self.host, threads, &order.cpus, seated);
        for doubt in [offline, strayed].into_iter().flatten() {
            if !self.doubts.contains(&doubt) {
                self.doubts.push(doubt);
            }
        }
    }

    /// The positive control: before the span, and again after it, because an instrument may have
    /// gone blind meanwhile.
    fn control(&mut self, order: &WatchOrder, at: ControlAt) -> PositiveControl {
        self.with_trace(TraceRecorder::cut);
        self.name_phase("positive control");
        let before = counters::take(self.host, &order.cpus);
        let first = self.second.read();
        let provoked = match (&mut self.sampler, at) {
            // It goes through its phases once.
            (Ok(sampler), ControlAt::BeforeSpan) => sampler.control().or_else(|why| {
                control::provoke(&order.cpus).map_err(|other| format!("{why}; {other}"))
            }),
            _ => control::provoke(&order.cpus),
        };
        let last = self.second.read();
        let calls = |cpu| (cpu, self.second.function_calls(&first, &last, cpu));
        let perf = order.cpus.iter().map(calls).collect();
        let after = counters::take(self.host, &order.cpus);
        let traced = self.with_trace(TraceRecorder::cut);
        let counted = |cpu| control::counted(&counters::compare(&before, &after, cpu, &[]));
        control::judge(&Provocation {
            at,
            provoked,
            counted: order.cpus.iter().map(|cpu| (cpu, counted(cpu))).collect(),
            perf,
            traced: traced.as_deref().map(control::traced),
        })
    }

    /// What other processes did to the recording.
    fn interference(&mut self) -> Vec<TraceInterference> {
        self.trace.as_mut().map(TraceRecorder::interference).unwrap_or_default()
    }

    /// From here on everything counts.
    fn begin(&mut self, order: &WatchOrder) {
        if let Ok(recorder) = &mut self.trace {
            self.second.open(recorder);
        }
        if let Ok(sampler) = &mut self.sampler
            && let Err(why) = sampler.begin()
        {
            self.sampler = Err(why);
        }
        self.poll();
        self.longest = 0;
        self.with_trace(TraceRecorder::cut);
        self.name_phase("watched");
        self.max_gap_ns = order.until.as_ref().and_then(|until| until.limits.max_gap_ns);
        if let (Ok(recorder), Some(until)) = (&mut self.trace, &order.until) {
            // A gap is judged by the sampler where there is one.
            let gap_ns = until.limits.max_gap_ns.filter(|_| self.sampler.is_err());
            self.began = recorder.limit(until.limits.max_entries, gap_ns);
        }
    }

    /// What was seen since [`ActiveInstruments::begin`].
    fn end(&mut self, order: &WatchOrder) -> SpanObservation {
        self.poll();
        self.is_broken(order);
        let began = self.trace.as_ref().ok().map(TraceRecorder::phase_began);
        let trace = self.with_trace(TraceRecorder::cut);
        self.traced = began.and_then(|began| Some(self.trace.as_ref().ok()?.span_since(began)));
        self.name_phase("over");
        if let Ok(recorder) = &mut self.trace
            && let Err(error) = self.second.close(recorder)
        {
            self.trace = Err(AbsenceReason::failed(error));
        }
        let mut gaps = Vec::new();
        if let Ok(sampler) = &mut self.sampler {
            match sampler.end() {
                Ok(seen) => gaps = seen,
                Err(why) => self.sampler = Err(why),
            }
        }
        SpanObservation { trace, gaps }
    }

    /// What became of every witness.
    fn witnesses(
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
                let who = self.trace.is_err().then_some(BlindSpot::GapCulprits);
                (None, who.into_iter().chain(sampler.blind.iter().cloned()).collect())
            }
            Err(why) => (Some(why.clone()), Vec::new()),
        };
        WitnessReport { kind: WitnessKind::Sampler, absent, blind }
    }
}

/// What is doubtful about the clock of the sampler: on x86 the kernel offers the time stamp counter
/// as clocksource only where it found it stable and the same on all CPUs.
fn distrust(host: &Host) -> Option<BlindSpot> {
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    let path = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
    let text = host.read_line(path).ok()?;
    let trusted = text.split_whitespace().any(|name| name == "tsc");
    (!trusted).then_some(BlindSpot::UntrustedTsc)
}
