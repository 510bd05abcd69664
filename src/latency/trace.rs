//! A run of a kernel tracer: its settings, a private instance, the threads it measures, and its
//! records, counted into tallies. Housekeeping CPUs do all of the reading and writing.

use self::page_sink::{ChannelRecorder, PageSink};
use super::kthreads::{find_tracer_threads, run_time_ns, wait_for_kthread};
use super::measurement_process::{self, MeasurementProcess, MeasurementTimes, ThreadPlacement};
use super::order::{LatencyError, MeasureRequest};
use super::refusal::TracerRefusal;
use super::sampled_series::{FinalFacts, SeriesLabel};
use super::settings::ChangedSettings;
use super::tracer::{LatencyTracer, MeasuredThreads, RecordLayout, TracerJob, TracerUse};
use super::{LatencyDoubt, LatencyNote, ThreadDoubt};
use crate::observe::firmware::{self, SmiCounter, SmiCounts};
use cpushield_linux::errno::{EBUSY, EINVAL};
use cpushield_linux::shared_memory::latency_stats::{
    DeferredRecorder, LIMITS, LatencyBoard, LatencyStats, ThreadSettings,
};
use cpushield_linux::trace::tracefs::{InstanceSettings, TraceInstance, TracePipe, Tracefs};
use cpushield_linux::{CpuSet, Error, Host, sys::clock};
use std::cell::RefCell;
use std::time::{Duration, Instant};

/// The clock of the records: `CLOCK_MONOTONIC`, as for all figures.
const CLOCK: &str = "mono";
/// How long to wait for outstanding events, in addition to the period.
const GRACE_PERIOD: Duration = Duration::from_secs(2);
/// The most pages read in one go, so that a fast writer cannot occupy the reader forever.
const PAGES_MAX: usize = 4096;

/// A running kernel tracer. Dropping it restores the settings that the running tracer would
/// otherwise keep. After that, the order of the fields is the order of dropping: no thread of the
/// measurement may have the tracer's file open when the instance is removed, as the kernel kills
/// such a thread.
#[derive(Debug)]
pub(super) struct LatencyTrace<'h> {
    process: Option<MeasurementProcess>,
    channels: RefCell<Vec<TracerChannel>>,
    instance: Option<RefCell<TraceInstance<'h>>>,
    settings: ChangedSettings<'h>,
    board: LatencyBoard,
    rows: Vec<SeriesLabel>,
    notes: Vec<LatencyNote>,
    doubts: RefCell<Vec<LatencyDoubt>>,
    tracer: &'static dyn LatencyTracer,
    record_layout: RecordLayout,
    cpus: CpuSet,
    period_ns: u64,
    stages: usize,
    limits_ns: [u64; LIMITS],
    host: &'h Host,
    /// The SMI counter and its values at the start; `None` for tracers that do not need it.
    smis: Option<(SmiCounter<'h>, SmiCounts)>,
    /// Threads of the tracer whose run time shows whether silence means that there were no gaps.
    tracer_threads: Option<TracerThreads>,
}

/// The kernel threads of a tracer.
#[derive(Debug)]
struct TracerThreads {
    name: &'static str,
    /// For each CPU: the thread's number, the time when that was read, and its run time until then.
    threads: Vec<(i32, u64, Option<u64>)>,
}

/// A tracer thread that ran for less than this fraction of the time proves nothing by its silence.
const MIN_RUN_SHARE: u64 = 8;

/// One CPU's records.
#[derive(Debug)]
struct TracerChannel {
    pipe: TracePipe,
    cpu: usize,
    /// One for each stage.
    recorders: Vec<ChannelRecorder>,
    /// Lost records whose number is known, and whether others were lost or unreadable.
    lost: u64,
    torn: bool,
}

impl<'h> LatencyTrace<'h> {
    /// Prepares the tracer and its threads. On an error, it restores what it changed.
    pub(super) fn start(
        host: &'h Host,
        request: &MeasureRequest<'_>,
        tracer: &'static dyn LatencyTracer,
        placements: &[ThreadPlacement],
    ) -> Result<LatencyTrace<'h>, LatencyError> {
        let tracefs = Tracefs::find(host)?;
        let mut settings = ChangedSettings::claim(host, &request.store, &tracefs)
            .map_err(|why| request.refuse(why))?;
        if let Some((dir, name)) =
            tracefs.active_tracers(host, tracer.conflicting_tracers()).first()
        {
            let (tracer, dir) = (name.to_string(), dir.to_string());
            return Err(request.refuse(TracerRefusal::TracerInUse { tracer, dir }));
        }
        let period_ns = placements.first().map_or(0, |placement| placement.period_ns);
        let job = TracerJob { cpus: &request.cpus, period_ns };
        let usage = tracer.plan_use(host, &tracefs, &job).map_err(|why| request.refuse(why))?;
        let format = tracefs.format(host, "ftrace", tracer.name())?;
        let record_layout =
            format.ok_or("format").and_then(|format| RecordLayout::new(tracer, &format));
        let record_layout = record_layout.map_err(|part| {
            request.refuse(TracerRefusal::NoRecordPart { tracer: tracer.name(), part })
        })?;
        settings
            .change(usage.settings.clone())
            .map_err(|e| request.refuse(TracerRefusal::Linux(e)))?;
        let mut instance =
            prepare_instance(host, tracefs, &request.cpus).map_err(|why| request.refuse(why))?;
        set_tracer(&mut instance, tracer).map_err(|why| request.refuse(why))?;
        // Afterwards: while a pipe is open, the kernel does not allow changes of the tracer.
        let channels = open_channels(&instance, &request.cpus, usage.stages.len())?;
        let mut trace = LatencyTrace {
            process: None,
            channels: RefCell::new(channels),
            instance: Some(RefCell::new(instance)),
            settings,
            board: LatencyBoard::new(placements.len() * usage.stages.len())
                .map_err(|e| LatencyError::Threads { why: e.to_string() })?,
            rows: Vec::new(),
            notes: usage.notes.clone(),
            doubts: RefCell::default(),
            tracer,
            record_layout,
            cpus: request.cpus.clone(),
            period_ns,
            stages: usage.stages.len(),
            limits_ns: measurement_process::limits(request),
            host,
            smis: None,
            tracer_threads: None,
        };
        // From here on, an error drops the trace, which restores them while the tracer runs.
        trace.settings.change_in_running_tracer()?;
        if usage.counts_smis {
            let meter = SmiCounter::start(host, &trace.cpus);
            let before = meter.read();
            trace.smis = Some((meter, before));
        }
        trace.start_threads(request, placements, &usage)?;
        Ok(trace)
    }

    /// Starts or finds the measured threads and labels their series.
    fn start_threads(
        &mut self,
        request: &MeasureRequest<'_>,
        placements: &[ThreadPlacement],
        usage: &TracerUse,
    ) -> Result<(), LatencyError> {
        let tids = match usage.threads {
            MeasuredThreads::Ours => {
                let process = MeasurementProcess::start(self.host, request, placements)?;
                self.notes.extend(process.notes.iter().cloned());
                let tids = process.tids.clone();
                self.process = Some(process);
                tids
            }
            MeasuredThreads::Kernels(name) => find_tracer_threads(self.host, name, placements)?,
            MeasuredThreads::Uninterruptible(name) => {
                self.tracer_threads = Some(TracerThreads { name, threads: Vec::new() });
                vec![0; placements.len()]
            }
        };
        for (placement, tid) in placements.iter().zip(tids) {
            let threshold_ns = usage.threshold_ns;
            self.rows.extend(usage.stages.iter().map(|stage| SeriesLabel {
                placement: *placement,
                stage: *stage,
                threshold_ns,
                tid,
            }));
        }
        Ok(())
    }

    pub(super) fn rows(&self) -> &[SeriesLabel] {
        &self.rows
    }

    pub(super) fn tallies(&self) -> &[LatencyStats] {
        self.board.tallies()
    }

    pub(super) fn notes(&self) -> Vec<LatencyNote> {
        self.notes.clone()
    }

    /// Starts measuring and recording.
    pub(super) fn begin(&mut self, times: MeasurementTimes) -> Result<(), LatencyError> {
        for (nth, channel) in self.channels.get_mut().iter_mut().enumerate() {
            let settings = ThreadSettings {
                cpu: channel.cpu,
                period_ns: self.period_ns,
                from_ns: times.from_ns,
                until_ns: times.until_ns,
                gives_up: false,
                limits_ns: self.limits_ns,
            };
            let tallies = self.board.tallies().iter().skip(nth * self.stages);
            for (recorder, tally) in channel.recorders.iter_mut().zip(tallies) {
                recorder.deferred = Some(DeferredRecorder::open(tally, settings));
            }
        }
        if let Some(process) = &mut self.process {
            process.begin(times)?;
        }
        if let Some(instance) = &self.instance {
            instance.borrow_mut().start()?;
        }
        if let Some(tracer_threads) = &mut self.tracer_threads {
            for cpu in self.cpus.iter() {
                let tid =
                    wait_for_kthread(self.host, &format!("{}{cpu}", tracer_threads.name), &|_| {
                        true
                    })?;
                let now = clock::monotonic_ns();
                tracer_threads.threads.push((tid, now, run_time_ns(self.host, tid)));
            }
        }
        Ok(())
    }

    /// Adds a doubt for each tracer thread that had too little CPU time.
    fn check_tracer_threads(&self) {
        let Some(tracer_threads) = &self.tracer_threads else { return };
        for (cpu, (tid, since, before)) in self.cpus.iter().zip(&tracer_threads.threads) {
            let span = clock::monotonic_ns().saturating_sub(*since);
            let ran =
                run_time_ns(self.host, *tid).zip(*before).map(|(now, was)| now.saturating_sub(was));
            if ran.is_none_or(|ran| ran < span / MIN_RUN_SHARE) {
                let thread = format!("{}{cpu}", tracer_threads.name);
                let doubt =
                    LatencyDoubt::TracerThreadStarved { thread, ran_ns: ran, span_ns: span };
                self.doubts.borrow_mut().push(doubt);
            }
        }
    }

    /// Counts the records since the last call.
    pub(super) fn poll(&self) {
        let job = TracerJob { cpus: &self.cpus, period_ns: self.period_ns };
        let mut channels = self.channels.borrow_mut();
        for (channel, tallies) in
            channels.iter_mut().zip(self.board.tallies().chunks(self.stages.max(1)))
        {
            if let Err(error) = channel.read(self.tracer, &self.record_layout, &job, tallies) {
                let (cpu, answer) = (channel.cpu, error.to_string());
                let doubt = LatencyDoubt::RecordsUnreadable { cpu, answer };
                let mut doubts = self.doubts.borrow_mut();
                if !doubts.contains(&doubt) {
                    doubts.push(doubt);
                }
            }
        }
    }

    /// Stops recording once the events that are due by now have come, or after a timeout.
    pub(super) fn stop(&self, longest_period: Duration) {
        let now = clock::monotonic_ns();
        let until = Instant::now() + longest_period.min(GRACE_PERIOD) + GRACE_PERIOD;
        let mut caught_up: Vec<Vec<bool>>;
        loop {
            self.poll();
            let channels = self.channels.borrow();
            let stages = channels.iter().map(|channel| channel.caught_up(now, self.period_ns));
            caught_up = stages.collect();
            drop(channels);
            if caught_up.iter().flatten().all(|stage| *stage) || Instant::now() >= until {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.check_tracer_threads();
        if let Some(process) = &self.process {
            process.stop(longest_period);
        }
        if let Some(instance) = &self.instance
            && let Err(error) = instance.borrow_mut().stop()
        {
            let answer = error.to_string();
            self.doubts.borrow_mut().push(LatencyDoubt::TracerNotStopped { answer });
        }
        self.poll();
        let mut channels = self.channels.borrow_mut();
        let recorders = channels.iter_mut().flat_map(|channel| &mut channel.recorders);
        for ((recorder, tally), caught_up) in
            recorders.zip(self.board.tallies()).zip(caught_up.iter().flatten())
        {
            // A stage whose events did not come stays open, and its series has a doubt.
            if let Some(deferred) = recorder.deferred.filter(|_| *caught_up) {
                deferred.close(tally);
            }
        }
    }

    /// Adds the number of SMIs of each CPU, and a note where they cannot be counted.
    fn add_smis(&mut self, facts: &mut FinalFacts) {
        let Some((meter, before)) = self.smis.take() else { return };
        let after = meter.read();
        if let Some(why) = firmware::absent(&before, &after) {
            facts.notes.push(LatencyNote::SmisNotCounted { cpus: self.cpus.clone(), why });
        }
        for cpu in self.cpus.iter() {
            let count = firmware::between(&before, &after, cpu);
            facts.smis.extend(std::iter::repeat_n(count, self.stages));
        }
    }

    /// Stops the threads, removes the instance and restores the settings.
    pub(super) fn finish(mut self) -> FinalFacts {
        if let Some(process) = self.process.take() {
            process.finish();
        }
        let channels = std::mem::take(&mut *self.channels.borrow_mut());
        let mut facts = FinalFacts { doubts: self.doubts.take(), ..FinalFacts::default() };
        for channel in channels {
            if let Some(instance) = &self.instance
                && let Ok(stats) = instance.borrow().stats(channel.cpu)
                && stats.lost() > 0
            {
                let (cpu, count) = (channel.cpu, stats.lost());
                facts.doubts.push(LatencyDoubt::RecordsLost { cpu, count });
            }
            facts
                .thread_doubts
                .extend(channel.recorders.iter().map(|recorder| channel.doubts(recorder)));
            // The pipe closes here: an instance whose pipes are open cannot be removed.
        }
        facts.doubts.extend(setting_doubts(self.settings.restore_in_running_tracer()));
        if let Some(Err(error)) = self.instance.take().map(|instance| instance.into_inner().close())
        {
            facts.doubts.push(LatencyDoubt::TraceLeft { answer: error.to_string() });
        }
        facts.doubts.extend(setting_doubts(self.settings.restore_after_tracer()));
        self.add_smis(&mut facts);
        facts
    }
}

impl Drop for LatencyTrace<'_> {
    fn drop(&mut self) {
        // After an error. A tracer that ends with such a setting keeps it for its next run: hwlat
        // keeps its `tracing_thresh` (`hwlat_tracer_reset()`, kernel/trace/trace_hwlat.c, 6.12).
        if self.instance.is_some() {
            // An error cannot be reported here.
            let _ = self.settings.restore_in_running_tracer();
        }
    }
}

fn setting_doubts(errors: Vec<Error>) -> impl Iterator<Item = LatencyDoubt> {
    errors.into_iter().map(|error| LatencyDoubt::SettingLeft { answer: error.to_string() })
}

/// Makes an instance that does not record yet.
fn prepare_instance<'h>(
    host: &'h Host,
    tracefs: Tracefs,
    cpus: &CpuSet,
) -> Result<TraceInstance<'h>, TracerRefusal> {
    let hog = host.hogs().unwrap_or_default().into_iter().next();
    let wanted = InstanceSettings {
        cpus,
        clock: CLOCK,
        events: &[],
        buffer_kib: None,
        shrink: &CpuSet::new(),
        no_work: hog.is_some(),
    };
    TraceInstance::prepare(host, tracefs, &wanted).map_err(|error| match (hog, error.errno()) {
        (Some(hog), Some(EBUSY)) => TracerRefusal::RecordingBlocked { hog: Box::new(hog) },
        _ => TracerRefusal::NoTrace { error },
    })
}

fn open_channels(
    instance: &TraceInstance<'_>,
    cpus: &CpuSet,
    stages: usize,
) -> Result<Vec<TracerChannel>, LatencyError> {
    let mut channels = Vec::new();
    for cpu in cpus.iter() {
        let (pipe, recorders) = (instance.pipe(cpu)?, vec![ChannelRecorder::default(); stages]);
        channels.push(TracerChannel { pipe, cpu, recorders, lost: 0, torn: false });
    }
    Ok(channels)
}

/// Selects the tracer in the instance.
fn set_tracer(
    instance: &mut TraceInstance<'_>,
    tracer: &dyn LatencyTracer,
) -> Result<(), TracerRefusal> {
    instance.set_tracer(tracer.name()).map_err(|error| match error.errno() {
        Some(EBUSY) => TracerRefusal::TracerBusy { error },
        Some(EINVAL) => TracerRefusal::NoTracerInInstances { tracer: tracer.name() },
        _ => TracerRefusal::Linux(error),
    })
}

impl TracerChannel {
    fn read(
        &mut self,
        tracer: &dyn LatencyTracer,
        record_layout: &RecordLayout,
        job: &TracerJob<'_>,
        tallies: &[LatencyStats],
    ) -> Result<(), Error> {
        let layout = self.pipe.layout();
        for _ in 0..PAGES_MAX {
            let Some(page) = self.pipe.next_page()? else { break };
            let mut sink = PageSink {
                recorders: &mut self.recorders,
                lost: &mut self.lost,
                torn: &mut self.torn,
            };
            sink.count_page(&layout, page, tracer, record_layout, job, tallies);
        }
        Ok(())
    }

    /// Whether each stage has an event that was due within the period before `now`, or later.
    fn caught_up(&self, now: u64, period_ns: u64) -> Vec<bool> {
        let after = now.saturating_sub(period_ns);
        self.recorders.iter().map(|recorder| period_ns == 0 || recorder.due_ns >= after).collect()
    }

    fn doubts(&self, recorder: &ChannelRecorder) -> Vec<ThreadDoubt> {
        let mut doubts = Vec::new();
        if recorder.missing > 0 {
            doubts.push(ThreadDoubt::EventsMissing { count: recorder.missing });
        }
        if self.lost > 0 || self.torn {
            let count = Some(self.lost).filter(|lost| *lost > 0);
            doubts.push(ThreadDoubt::RecordsLost { count });
        }
        doubts
    }
}

mod page_sink;
#[cfg(test)]
mod tests;
