//! Measure: `Host` → [`LatencyMeasurement`]. Starts the measuring process, waits for the
//! requested time, and makes a document of its figures. A housekeeping CPU reads the figures
//! several times a second.

use super::check::{check_request, find_sharing_notes, find_timer_migration};
use super::empty_document::empty_document;
use super::histogram;
use super::limits::judge_limits;
use super::measurement_process::{LONG_PERIOD, MeasurementTimes, ThreadPlacement};
use super::order::{LatencyError, MeasureProgress, MeasureRequest};
use super::power::{read_steal_ns, stolen_since};
use super::sample_source::SampleSource;
use super::sampled_series::SeriesLabel;
use super::trace_witness::TraceWitness;
use super::{
    LatencyDoubt, LatencyMeasurement, LatencyNote, OverLimit, ShieldBreach, ThreadDoubt,
    ThreadSeries, WorstLatency, WorstTimeline,
};
use crate::documents::evidence::CircumstanceChange;
use crate::load::LoadGenerator;
use crate::observe::environment::{self, EnvironmentSnapshot};
use crate::survey::survey_with_shield;
use cpushield_linux::shared_memory::latency_stats::{
    LatencyFigures, LatencyStats, MOMENT_NS, ThreadStage, WorstMoment,
};
use cpushield_linux::sys::clock::{epoch_seconds, monotonic_ns, nanos};
use cpushield_linux::{CpuSet, Host};
use std::thread::Scope;
use std::time::Duration;

/// How often the figures are read.
const STEP: Duration = Duration::from_millis(100);
/// The shield and the CPUs are checked once in this many steps.
const ROUNDS: u64 = 10;
/// Time for the threads to go to sleep before their first event.
const LEAD_NS: u64 = 20_000_000;
/// Threads that were not stopped end by themselves this long after the end.
const OVERTIME_NS: u64 = 2_000_000_000;
/// A figure with a larger uncertainty is doubtful.
const BLUR_NS: u64 = 20_000;

/// Measures latency as requested.
///
/// # Errors
/// The request is not possible on this machine, or the threads do not start. A later problem
/// becomes a doubt in the document.
pub fn measure(
    host: &Host,
    request: &MeasureRequest<'_>,
) -> Result<LatencyMeasurement, LatencyError> {
    let online = check_request(host, request)?;
    // Where the kernel refuses, this thread stays.
    let aside = host.step_aside(&online.difference(&request.cpus)).ok();
    (request.progress)(MeasureProgress::Starting);
    let machine = survey_with_shield(host, &[], &request.cpus);
    let migration = host.read_line("/proc/sys/kernel/timer_migration").ok().map(|on| on != "0");
    let placements = placements(request);
    // The check of the isolation keeps the other CPUs busy, so it ends before the load begins.
    let nohz_full = machine.isolation.nohz_full.clone();
    let empty_document = empty_document(host, request, machine, migration);
    environment::wait_for_closers(host, request.stop);
    let mut load = LoadGenerator::start(host, &request.load)?;
    let mut witness = TraceWitness::arm(host, request);
    let mut source = SampleSource::start(host, request, &placements)?;
    let rows = source.rows().to_vec();
    witness.start(&rows);
    let mut run = MeasurementRun::new(host, request, &rows, empty_document);
    run.notes = find_sharing_notes(request, &online);
    run.notes.extend(source.notes());
    run.notes.extend(find_timer_migration(request, nohz_full.as_ref(), migration));
    run.notes.extend(load.skipped.drain(..).map(|skipped| LatencyNote::LoadSkipped { skipped }));
    // A part that is interrupted has these, without their counts.
    run.empty_document.loads = load.uncounted();
    load.begin();
    let before = environment::read(host);
    run.empty_document.began_s = epoch_seconds().unwrap_or(0);
    let begin_ns = monotonic_ns().saturating_add(LEAD_NS);
    let from_ns = begin_ns.saturating_add(nanos(request.warmup));
    let until_ns = from_ns.saturating_add(nanos(request.span)).saturating_add(OVERTIME_NS);
    run.empty_document.began_ns = from_ns;
    source.begin(MeasurementTimes { begin_ns, from_ns, until_ns })?;
    let (stopped, moved, end_ns) = std::thread::scope(|scope| {
        drive(scope, request, &rows, source.tallies(), begin_ns);
        run.wait_until(&source, &mut witness, from_ns);
        load.start_counting(host);
        run.circumstances = Some((before, environment::read(host)));
        let stolen_before = read_steal_ns(host, &request.cpus);
        let stopped = run.watch(&source, &mut witness, from_ns);
        load.stop_counting(host);
        run.empty_document.setting.steal_ns = stolen_since(host, &request.cpus, stolen_before);
        let moved = run.thread_state_doubts();
        run.notes.extend((request.instrument.notes)(host, &request.cpus));
        let end_ns = monotonic_ns();
        let longest = placements.iter().map(|placement| placement.period_ns).max().unwrap_or(0);
        source.stop(Duration::from_nanos(longest));
        (stopped, moved, end_ns)
    });
    run.enter_peaks(
        &source,
        nanos(request.span).min(end_ns.saturating_sub(from_ns)).saturating_sub(1),
    );
    run.empty_document.loads = load.end(host);
    witness.poll(&source);
    let mut latency = run.document(&source, &witness, (from_ns, end_ns), Some(moved));
    let (tracing, notes) = witness.end();
    latency.tracing = tracing;
    latency.notes.extend(notes);
    let facts = source.finish();
    let series = &mut latency.series;
    series
        .iter_mut()
        .zip(facts.thread_doubts)
        .for_each(|(series, doubts)| series.doubts.extend(doubts));
    series.iter_mut().zip(facts.smis).for_each(|(series, smis)| series.smis = smis);
    latency.doubts.extend(facts.doubts);
    latency.notes.extend(facts.notes);
    drop(aside);
    latency.stopped = stopped;
    latency.series.sort_by_key(|series| std::cmp::Reverse(series.max_ns));
    latency.gates = judge_limits(&latency, request.limits);
    Ok(latency)
}

/// Places every requested thread on every measured CPU.
fn placements(request: &MeasureRequest<'_>) -> Vec<ThreadPlacement> {
    let mut placements = Vec::new();
    for cpu in request.cpus.iter() {
        placements.extend(request.threads.iter().map(|thread| ThreadPlacement {
            cpu,
            period_ns: thread.period_ns,
            policy: thread.policy,
        }));
    }
    placements
}

/// Starts the threads that make the events of an instrument that cannot make its own.
fn drive<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    request: &'env MeasureRequest<'_>,
    rows: &'env [SeriesLabel],
    tallies: &'env [LatencyStats],
    begin_ns: u64,
) {
    let Some(drive) = request.instrument.drive else { return };
    for (row, tally) in rows.iter().zip(tallies) {
        scope.spawn(move || drive(row.placement.period_ns, begin_ns, tally));
    }
}

/// The state of a running measurement.
struct MeasurementRun<'a> {
    host: &'a Host,
    request: &'a MeasureRequest<'a>,
    rows: &'a [SeriesLabel],
    /// The part of the document that is known from the start.
    empty_document: LatencyMeasurement,
    timelines: Vec<WorstTimeline>,
    /// The environment before the warm-up and after it.
    circumstances: Option<(EnvironmentSnapshot, EnvironmentSnapshot)>,
    doubts: Vec<LatencyDoubt>,
    notes: Vec<LatencyNote>,
    /// Each way in which the shield was broken, with the time of its first detection.
    broken: Vec<ShieldBreach>,
}

impl<'a> MeasurementRun<'a> {
    fn new(
        host: &'a Host,
        request: &'a MeasureRequest<'a>,
        rows: &'a [SeriesLabel],
        empty_document: LatencyMeasurement,
    ) -> MeasurementRun<'a> {
        MeasurementRun {
            host,
            request,
            rows,
            empty_document,
            timelines: rows.iter().map(|_| WorstTimeline::new(MOMENT_NS)).collect(),
            circumstances: None,
            doubts: Vec::new(),
            notes: Vec::new(),
            broken: Vec::new(),
        }
    }

    /// Waits until `ns` of `CLOCK_MONOTONIC`, or until the measurement is stopped.
    fn wait_until(&self, source: &SampleSource<'_>, witness: &mut TraceWitness<'_>, ns: u64) {
        loop {
            witness.poll(source);
            source.poll();
            let left = Duration::from_nanos(ns.saturating_sub(monotonic_ns()));
            if left.is_zero() || (self.request.stop)() {
                return;
            }
            std::thread::sleep(left.min(STEP));
        }
    }

    /// Waits for the measured span. Returns whether the measurement was stopped before its end.
    fn watch(
        &mut self,
        source: &SampleSource<'_>,
        witness: &mut TraceWitness<'_>,
        from_ns: u64,
    ) -> bool {
        let span_ns = nanos(self.request.span);
        let mut worst_ns = None;
        for round in 0_u64.. {
            let done = monotonic_ns().saturating_sub(from_ns);
            worst_ns = worst_ns.max(self.enter_peaks(source, span_ns.saturating_sub(1)));
            let done = Duration::from_nanos(done.min(span_ns));
            (self.request.progress)(MeasureProgress::Measuring {
                done,
                of: self.request.span,
                worst_ns,
            });
            witness.poll(source);
            if round.is_multiple_of(ROUNDS) {
                self.check_shield_and_cpus(done);
                if let Some(save) = self.request.autosave {
                    save(self.document(source, witness, (from_ns, monotonic_ns()), None));
                }
            }
            if done >= self.request.span {
                self.check_shield_and_cpus(done);
                return false;
            }
            if (self.request.stop)() || !source.tallies().iter().any(is_active) {
                return true;
            }
            std::thread::sleep(STEP.min(self.request.span - done));
        }
        true
    }

    /// Adds each thread's peaks since the last call to its timeline, at the time when the event was
    /// due, but not after `end_ns`. Returns the longest latency among them.
    fn enter_peaks(&mut self, source: &SampleSource<'_>, end_ns: u64) -> Option<u64> {
        source.poll();
        let mut worst_ns = None;
        for (tally, line) in source.tallies().iter().zip(&mut self.timelines) {
            for peak in tally.take_peaks() {
                line.enter(peak.at_ns.min(end_ns), peak.late_ns);
                worst_ns = worst_ns.max(Some(peak.late_ns));
            }
        }
        worst_ns
    }

    /// Checks that the shield is in force and the CPUs are online.
    fn check_shield_and_cpus(&mut self, done: Duration) {
        if let Some(guard) = &self.request.guard
            && let Some(how) = guard.check(self.host)
            && !self.broken.iter().any(|breach| breach.how == how)
        {
            self.broken.push(ShieldBreach { after_s: done.as_secs(), how });
        }
        if let Some(cpus) = environment::offline(self.host, &self.request.cpus) {
            let doubt = LatencyDoubt::CpusOffline { cpus };
            if !self.doubts.contains(&doubt) {
                self.doubts.push(doubt);
            }
        }
    }

    /// Makes the document of the given time range, with its series in the order of the labels.
    /// `moved` has doubts for each thread; `None` while they still run.
    fn document(
        &self,
        source: &SampleSource<'_>,
        witness: &TraceWitness<'_>,
        (from_ns, end_ns): (u64, u64),
        moved: Option<Vec<Vec<ThreadDoubt>>>,
    ) -> LatencyMeasurement {
        let mut latency = self.empty_document.clone();
        latency.unfinished = moved.is_none();
        let (end_ns, late) = measured_end(self.request.span, from_ns, end_ns);
        latency.span_ns = end_ns.saturating_sub(from_ns);
        // A part that is interrupted has them too.
        let changes = self.find_changes().into_iter();
        let changes = changes.map(|change| LatencyDoubt::CircumstanceChanged { change });
        latency.doubts = self.doubts.iter().cloned().chain(late).chain(changes).collect();
        latency.notes.clone_from(&self.notes);
        latency.isolation.held = latency.isolation.held.map(|_| self.broken.is_empty());
        latency.isolation.broken.clone_from(&self.broken);
        let moved = moved.unwrap_or_default().into_iter().chain(std::iter::repeat(Vec::new()));
        let rows = self.rows.iter().zip(source.tallies()).zip(&self.timelines).zip(moved);
        for (nth, (((row, tally), line), mut doubts)) in rows.enumerate() {
            let (figures, stage) = (tally.figures(), tally.stage());
            let busy = stage == ThreadStage::Running
                && (row.tid == 0 || is_in_time(row.placement.period_ns, &figures, from_ns, end_ns));
            // Where short latencies are no samples, zero samples is the expected result.
            let silent =
                figures.samples == 0 && row.threshold_ns > 0 && stage == ThreadStage::Ended;
            let known = latency.unfinished && busy;
            if !(silent || known) {
                doubts.extend(stage_doubts(&row.placement, stage, &figures, end_ns));
            }
            // A part that is interrupted has them too: no later part can take them back.
            doubts.extend(figure_doubts(&figures));
            latency.notes.extend(note_blur(&row.placement, &figures));
            let mut series = series_for(row, tally, self.request, from_ns, line.clone(), doubts);
            for worst in &mut series.worst {
                let due_ns = from_ns.saturating_add(worst.at_ns);
                worst.why = witness.why(nth, &WorstMoment { due_ns, late_ns: worst.late_ns });
            }
            latency.series.push(series);
        }
        latency
    }

    /// What changed since the warm-up, and must not.
    fn find_changes(&self) -> Vec<CircumstanceChange> {
        self.circumstances.as_ref().map_or_else(Vec::new, |(before, after_warmup)| {
            environment::changed(before, after_warmup, &environment::read(self.host))
        })
    }

    /// Returns the doubts about each thread's affinity and policy. Call it while they still run.
    fn thread_state_doubts(&self) -> Vec<Vec<ThreadDoubt>> {
        self.rows.iter().map(|label| check_thread(self.host, label)).collect()
    }
}

/// Doubts about a running thread that another process moved, changed or ended.
fn check_thread(host: &Host, label: &SeriesLabel) -> Vec<ThreadDoubt> {
    let SeriesLabel { placement, tid, .. } = label;
    let mut doubts = Vec::new();
    if *tid == 0 {
        return doubts;
    }
    match host.online_affinity(*tid) {
        Ok(cpus) if cpus == CpuSet::single(placement.cpu) => {}
        Ok(cpus) => doubts.push(ThreadDoubt::Moved { cpus }),
        Err(_) => doubts.push(ThreadDoubt::Gone),
    }
    match host.scheduling(*tid) {
        Ok(policy) if policy == placement.policy => {}
        Ok(policy) => {
            doubts.push(ThreadDoubt::PolicyChanged { policy: policy.to_string() });
        }
        Err(_) => {}
    }
    doubts
}

/// Whether a thread waits for its start or still measures.
fn is_active(tally: &LatencyStats) -> bool {
    matches!(tally.stage(), ThreadStage::Waiting | ThreadStage::Running)
}

/// Returns the latest time at which the threads had ended, and a doubt when they were found later.
fn measured_end(span: Duration, from_ns: u64, looked_ns: u64) -> (u64, Option<LatencyDoubt>) {
    let last_ns = from_ns.saturating_add(nanos(span)).saturating_add(OVERTIME_NS);
    let late_ns = looked_ns.saturating_sub(last_ns);
    let doubt = (late_ns > 0).then_some(LatencyDoubt::NotStopped { late_ns });
    (looked_ns.min(last_ns), doubt)
}

/// Makes the series of one thread from its figures.
fn series_for(
    row: &SeriesLabel,
    tally: &LatencyStats,
    request: &MeasureRequest<'_>,
    from_ns: u64,
    timeline: WorstTimeline,
    doubts: Vec<ThreadDoubt>,
) -> ThreadSeries {
    let (placement, figures) = (&row.placement, tally.figures());
    let histogram = histogram::collect(tally.counts());
    let has_samples = figures.samples > 0;
    let events = figures.samples + figures.missed;
    let over = request.over_ns.iter().zip(&figures.over).map(|(limit_ns, count)| OverLimit {
        limit_ns: *limit_ns,
        count: *count,
        percent: histogram::percent_of(*count, events),
    });
    ThreadSeries {
        cpu: placement.cpu,
        stage: row.stage,
        period_ns: placement.period_ns,
        policy: placement.policy,
        threshold_ns: Some(row.threshold_ns).filter(|ns| *ns > 0),
        smis: None,
        samples: figures.samples,
        missed: figures.missed,
        worst: figures
            .worst
            .iter()
            .map(|worst| WorstLatency {
                at_ns: worst.due_ns.saturating_sub(from_ns),
                late_ns: worst.late_ns,
                why: None,
            })
            .collect(),
        min_ns: has_samples.then_some(figures.min_ns),
        mean_ns: figures.sum_ns.checked_div(figures.samples),
        max_ns: has_samples.then_some(figures.max_ns),
        percentiles: histogram::percentiles(
            &histogram::with_missed(&histogram, placement.period_ns),
            figures.max_ns,
        ),
        over: over.collect(),
        jitter_ns: (figures.samples > 1
            && placement.period_ns > 0
            && request.instrument.drive.is_none())
        .then(|| {
            let late = figures.longest_ns.saturating_sub(placement.period_ns);
            late.max(placement.period_ns.saturating_sub(figures.shortest_ns))
        }),
        look_ns: (figures.looks > 0).then(|| figures.looked_ns as f64 / figures.looks as f64),
        elsewhere: figures.elsewhere,
        timeline,
        histogram: histogram::encode(&histogram),
        doubts,
    }
}

/// Whether a thread that still runs is not doubtful: its next event is not long overdue. Without a
/// period it may see nothing for hours.
fn is_in_time(period_ns: u64, figures: &LatencyFigures, from_ns: u64, end_ns: u64) -> bool {
    let next = figures.last_due_ns.max(from_ns).saturating_add(period_ns);
    period_ns == 0 || next.saturating_add(nanos(LONG_PERIOD)) >= end_ns
}

/// Returns what is doubtful about the end of a thread, or about one that has not ended.
fn stage_doubts(
    placement: &ThreadPlacement,
    stage: ThreadStage,
    figures: &LatencyFigures,
    end_ns: u64,
) -> Vec<ThreadDoubt> {
    let mut doubts = Vec::new();
    match stage {
        ThreadStage::Ended => {}
        ThreadStage::Waiting => doubts.push(ThreadDoubt::NeverBegan),
        ThreadStage::Running => {
            let due = figures.last_due_ns.saturating_add(placement.period_ns);
            if figures.samples == 0 && placement.period_ns > nanos(LONG_PERIOD) {
                doubts.push(ThreadDoubt::PeriodNotOver);
            } else if figures.samples == 0 {
                doubts.push(ThreadDoubt::SawNothing);
            } else if due < end_ns.saturating_add(nanos(LONG_PERIOD)) {
                doubts.push(ThreadDoubt::DidNotRunAgain { late_ns: end_ns.saturating_sub(due) });
            }
        }
        ThreadStage::Overrun => doubts.push(ThreadDoubt::Overrun),
        ThreadStage::Failed(number) => {
            let answer = std::io::Error::from_raw_os_error(number).to_string();
            doubts.push(ThreadDoubt::Failed { answer });
        }
    }
    if figures.samples == 0 && stage == ThreadStage::Ended {
        doubts.push(ThreadDoubt::NoEvent);
    }
    doubts
}

/// Returns what makes the figures of a thread doubtful.
fn figure_doubts(figures: &LatencyFigures) -> Vec<ThreadDoubt> {
    let mut doubts = Vec::new();
    if let Some(count) = figures.elsewhere.filter(|elsewhere| *elsewhere > 0) {
        doubts.push(ThreadDoubt::Elsewhere { count });
    }
    if figures.missed > figures.samples {
        doubts.push(ThreadDoubt::MostlyMissed);
    }
    if figures.early > 0 {
        doubts.push(ThreadDoubt::EventsEarly { count: figures.early });
    }
    if figures.slow > 0 && figures.slowest_ns >= figures.max_ns / 2 {
        let (times, longest_ns) = (figures.slow, figures.slowest_ns);
        doubts.push(ThreadDoubt::WakerLate { times, longest_ns });
    }
    if figures.blur_ns > BLUR_NS {
        doubts.push(ThreadDoubt::DueBlurred { blur_ns: figures.blur_ns });
    }
    doubts
}

/// Notes how much too long the figures of a thread may be.
fn note_blur(placement: &ThreadPlacement, figures: &LatencyFigures) -> Option<LatencyNote> {
    let blur_ns = figures.blur_ns;
    (blur_ns > 0).then_some(LatencyNote::LatenciesTooLong { cpu: placement.cpu, blur_ns })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::documents::evidence::{Gate, GateFinding};
    use crate::documents::load_done::LoadDone;
    use crate::documents::load_doubt::LoadDoubt;
    use crate::latency::{GuardBreach, MeasuredIsolation, MeasuredSetting, SCHEMA, TraceUse};
    use crate::policy::LatencyLimits;
    use cpushield_linux::SchedPolicy;

    fn gate(latency: &LatencyMeasurement, most_ns: u64) -> Gate<LatencyDoubt> {
        let limits = LatencyLimits { max_ns: Some(most_ns), linuxcnc: None };
        judge_limits(latency, limits).remove(0)
    }

    const PLACEMENT: ThreadPlacement = ThreadPlacement {
        cpu: 3,
        period_ns: 1_000_000,
        policy: SchedPolicy::Fifo { priority: 80 },
    };

    /// A document of five events on CPU 3: 2, 2, 2, 3 and 31 µs.
    pub(in crate::latency) fn latency() -> LatencyMeasurement {
        latency_of(&[(2_000, 3), (3_000, 1), (31_000, 1)])
    }

    /// A document of these latencies and how often each came, smallest first, on CPU 3.
    pub(crate) fn latency_of(counts: &[(u64, u64)]) -> LatencyMeasurement {
        let histogram = histogram::collect(counts.iter().copied());
        let least = counts.first().map_or(0, |(ns, _)| *ns);
        let most = counts.last().map_or(0, |(ns, _)| *ns);
        let samples: u64 = counts.iter().map(|(_, count)| count).sum();
        let sum: u64 = counts.iter().map(|(ns, count)| ns * count).sum();
        LatencyMeasurement {
            schema: SCHEMA,
            instrument: "timer".to_owned(),
            asked_ns: 5_000_000,
            span_ns: 5_000_000,
            warmup_ns: 0,
            stopped: false,
            unfinished: false,
            began_s: 1_800_000_000,
            began_ns: 7_000_000_000,
            series: vec![ThreadSeries {
                cpu: 3,
                stage: None,
                period_ns: 1_000_000,
                policy: PLACEMENT.policy,
                threshold_ns: None,
                smis: None,
                samples,
                missed: 0,
                worst: vec![WorstLatency { at_ns: 2_000_000, late_ns: most, why: None }],
                min_ns: Some(least),
                mean_ns: sum.checked_div(samples),
                max_ns: Some(most),
                percentiles: histogram::percentiles(&histogram, most),
                over: vec![OverLimit { limit_ns: 20_000, count: 1, percent: 20.0 }],
                jitter_ns: Some(most - least),
                look_ns: None,
                elsewhere: Some(0),
                timeline: WorstTimeline { step_ns: 100_000_000, worst_ns: vec![most] },
                histogram: histogram::encode(&histogram),
                doubts: Vec::new(),
            }],
            loads: Vec::new(),
            limits: LatencyLimits::default(),
            gates: Vec::new(),
            tracing: TraceUse::default(),
            isolation: MeasuredIsolation::default(),
            setting: MeasuredSetting::default(),
            doubts: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn thread_doubts(
        placement: &ThreadPlacement,
        stage: ThreadStage,
        figures: &LatencyFigures,
        end_ns: u64,
    ) -> Vec<ThreadDoubt> {
        [stage_doubts(placement, stage, figures, end_ns), figure_doubts(figures)].concat()
    }

    #[test]
    fn the_measured_span_ends_with_the_threads() {
        let span = Duration::from_secs(3);
        assert_eq!(measured_end(span, 7, 3_000_000_007), (3_000_000_007, None));
        let (end_ns, why) = measured_end(span, 7, 9_700_000_007);
        assert_eq!(end_ns, 5_000_000_007);
        assert!(why.unwrap().to_string().contains("4700ms before"));
    }

    fn held(latency: &LatencyMeasurement, most_ns: u64) -> Option<bool> {
        gate(latency, most_ns).held
    }

    #[test]
    fn doubts_prevent_a_gate_from_holding_but_not_from_failing() {
        let plain = latency();
        assert_eq!(held(&plain, 31_000), Some(true));
        assert_eq!(held(&plain, 30_999), Some(false));
        let mut figure_doubts = plain.clone();
        figure_doubts.series[0].doubts.push(ThreadDoubt::Elsewhere { count: 3 });
        assert_eq!(held(&figure_doubts, 31_000), None);
        assert_eq!(held(&figure_doubts, 30_999), Some(false));
        let mut idle = plain.clone();
        idle.loads.push(LoadDone {
            name: "disk".to_owned(),
            arguments: Vec::new(),
            what: String::new(),
            program: None,
            cpus: CpuSet::single(2),
            unit: "bytes".to_owned(),
            count: Some(0),
            per_s: Some(0.0),
            span_ns: 1,
            doubts: vec![LoadDoubt::DidNothing],
        });
        assert_eq!(gate(&idle, 31_000).reasons(), "the load disk: it did nothing");
        assert_eq!(held(&idle, 30_999), Some(false));
        let mut broken = plain.clone();
        let breach = ShieldBreach { after_s: 3, how: GuardBreach::GroupGone };
        broken.isolation.broken.push(breach);
        assert_eq!(held(&broken, 31_000), None);
        let mut stopped = plain.clone();
        stopped.stopped = true;
        assert_eq!(held(&stopped, 31_000), None);
        assert_eq!(
            gate(&stopped, 31_000).reasons(),
            "the measurement was stopped after 5ms of 5ms"
        );
        assert_eq!(held(&stopped, 30_999), Some(false));
        let mut silent = plain.clone();
        silent.series[0] = ThreadSeries {
            threshold_ns: Some(1_000),
            samples: 0,
            worst: Vec::new(),
            ..silent.series[0].clone()
        };
        assert_eq!(held(&silent, 1_000), Some(true));
        assert_eq!(held(&silent, 999), None, "shorter latencies were not recorded");
        assert_eq!(gate(&silent, 999).found.to_string(), "nothing of 1us or more");
        silent.doubts.push(LatencyDoubt::RecordsLost { cpu: 3, count: 1 });
        assert_eq!(held(&silent, 1_000), None);
        let mut empty = plain;
        empty.series.clear();
        assert_eq!(held(&empty, 31_000), None);
        assert_eq!(gate(&empty, 20_000).limit.to_string(), "--max 20us");
        assert_eq!(gate(&empty, 20_001).limit.to_string(), "--max 20001ns");
        assert_eq!(gate(&empty, 1).found, GateFinding::NoLatency);
    }

    #[test]
    fn a_thread_that_does_not_run_again_is_doubtful() {
        let figures = LatencyFigures {
            samples: 7,
            last_due_ns: 10_000_000,
            elsewhere: Some(0),
            ..LatencyFigures::default()
        };
        assert_eq!(thread_doubts(&PLACEMENT, ThreadStage::Ended, &figures, 11_000_000), []);
        assert_eq!(
            thread_doubts(&PLACEMENT, ThreadStage::Running, &figures, 911_000_000),
            [ThreadDoubt::DidNotRunAgain { late_ns: 900_000_000 }]
        );
        let hourly = ThreadPlacement { period_ns: 3_600_000_000_000, ..PLACEMENT };
        let asleep = thread_doubts(&hourly, ThreadStage::Running, &figures, 911_000_000);
        assert_eq!(asleep, [], "it sleeps until its next event");
        let none = LatencyFigures { elsewhere: Some(2), ..LatencyFigures::default() };
        let doubts = thread_doubts(&PLACEMENT, ThreadStage::Ended, &none, 0);
        assert_eq!(doubts, [ThreadDoubt::NoEvent, ThreadDoubt::Elsewhere { count: 2 }]);
        let doubts = thread_doubts(&PLACEMENT, ThreadStage::Failed(19), &figures, 0);
        assert!(doubts[0].to_string().starts_with("it ended early: No such device"));
    }

    #[test]
    fn only_a_thread_with_a_period_is_overdue() {
        let long_ago = LatencyFigures { samples: 1, last_due_ns: 7, ..LatencyFigures::default() };
        let hour_ns = 3_600_000_000_000;
        assert!(!is_in_time(1_000_000, &long_ago, 0, hour_ns));
        assert!(is_in_time(0, &long_ago, 0, hour_ns));
    }

    #[test]
    fn a_thread_that_cannot_keep_up_is_doubtful() {
        let doubts_text = |figures| {
            let doubts = thread_doubts(&PLACEMENT, ThreadStage::Ended, &figures, 0);
            doubts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        let figures =
            LatencyFigures { samples: 7, missed: 7, blur_ns: BLUR_NS, ..LatencyFigures::default() };
        assert_eq!(doubts_text(figures.clone()), "");
        assert!(
            doubts_text(LatencyFigures { missed: 8, ..figures.clone() }).contains("cannot keep up")
        );
        assert!(
            doubts_text(LatencyFigures { early: 1, ..figures.clone() })
                .contains("before the due time")
        );
        let woken =
            LatencyFigures { slow: 2, slowest_ns: 70_000, max_ns: 80_000, ..figures.clone() };
        assert!(doubts_text(woken.clone()).contains("delayed 2 times, by up to 70us"));
        assert_eq!(doubts_text(LatencyFigures { max_ns: 900_000, ..woken }), "");
        assert!(
            doubts_text(LatencyFigures { blur_ns: 20_001, ..figures.clone() }).contains("20001ns")
        );
        let too_long = LatencyNote::LatenciesTooLong { cpu: 3, blur_ns: BLUR_NS };
        assert_eq!(note_blur(&PLACEMENT, &figures), Some(too_long));
        let given_up = thread_doubts(&PLACEMENT, ThreadStage::Overrun, &figures, 0);
        assert_eq!(given_up[0], ThreadDoubt::Overrun);
    }
}
