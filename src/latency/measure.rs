//! Measure: `Host` → [`LatencyMeasurement`]. Starts the crew, lets the time go by, and makes a
//! document of its figures. It looks at them from a housekeeping CPU, several times a second.

use super::check::{beforehand, check, elsewhere};
use super::empty_document::blank;
use super::histogram;
use super::measurement_process::{LONG, MeasurementTimes, ThreadPlacement};
use super::order::{LatencyError, MeasureProgress, MeasureRequest};
use super::sample_source::{SampleSource, SeriesLabel};
use super::trace_witness::TraceWitness;
use super::{
    GuardState, LatencyDoubt, LatencyMeasurement, OverLimit, ShieldBreach, ThreadDoubt,
    ThreadSeries, WorstLatency, WorstTimeline,
};
use crate::load::LoadGenerator;
use crate::survey::survey_beside;
use crate::verify::Gate;
use crate::verify::affinity_guard::AffinityGuard;
use crate::verify::environment;
use cpushield_linux::clock::monotonic_ns;
use cpushield_linux::latency_stats::{
    LatencyFigures, LatencyStats, MOMENT_NS, ThreadStage, WorstMoment,
};
use cpushield_linux::{CpuSet, Host};
use std::thread::Scope;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How often the figures are looked at.
const STEP: Duration = Duration::from_millis(100);
/// So many steps apart the shield and the CPUs are looked at.
const ROUNDS: u64 = 10;
/// The threads get so long to go to sleep before their first event.
const LEAD_NS: u64 = 20_000_000;
/// Threads that were not told to end do so by themselves so long after the end.
const OVERTIME_NS: u64 = 2_000_000_000;
/// A figure that may be wrong by more says little.
const BLUR_NS: u64 = 20_000;

/// Measures.
///
/// # Errors
/// The order makes no sense on this machine, or the threads do not start. What goes wrong later is
/// a doubt in the document.
pub fn measure(
    host: &Host,
    order: &MeasureRequest<'_>,
) -> Result<LatencyMeasurement, LatencyError> {
    let online = check(host, order)?;
    let aside = AffinityGuard::step_aside(&online.minus(&order.cpus));
    (order.progress)(MeasureProgress::Starting);
    let machine = survey_beside(host, &[], &order.cpus);
    let migration = host.read_line("/proc/sys/kernel/timer_migration").ok().map(|on| on != "0");
    let seats = seats(order);
    let mut gang = LoadGenerator::start(&order.load)?;
    let mut witness = TraceWitness::arm(host, order);
    let mut feed = SampleSource::start(host, order, &seats)?;
    let rows = feed.rows().to_vec();
    witness.start(&rows);
    let nohz_full = machine.isolation.nohz_full.clone();
    let blank = blank(order, machine, migration);
    let mut run = MeasurementRun::new(host, order, &rows, blank);
    run.notes = beforehand(order, &online);
    run.notes.extend(feed.notes());
    run.notes.extend(elsewhere(order, nohz_full.as_ref(), migration));
    run.notes.append(&mut gang.notes);
    gang.go();
    let first = environment::take(host);
    run.blank.began_s =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let begin_ns = monotonic_ns().saturating_add(LEAD_NS);
    let from_ns = begin_ns.saturating_add(nanos(order.warmup));
    let until_ns = from_ns.saturating_add(nanos(order.span)).saturating_add(OVERTIME_NS);
    run.blank.began_ns = from_ns;
    feed.go(MeasurementTimes { begin_ns, from_ns, until_ns })?;
    let (calm, stopped, moved, end_ns) = std::thread::scope(|scope| {
        drive(scope, order, &rows, feed.tallies(), begin_ns);
        run.wait_until(&feed, &mut witness, from_ns);
        gang.count_from_now(host);
        let calm = environment::take(host);
        let stopped = run.watch(&feed, &mut witness, from_ns);
        gang.count_until_now(host);
        let moved = run.look_at_threads();
        run.notes.extend(order.instrument.told(host, &order.cpus));
        let end_ns = monotonic_ns();
        let longest = seats.iter().map(|seat| seat.period_ns).max().unwrap_or(0);
        feed.stop(Duration::from_nanos(longest));
        (calm, stopped, moved, end_ns)
    });
    run.enter_peaks(&feed, nanos(order.span).min(end_ns.saturating_sub(from_ns)).saturating_sub(1));
    run.blank.loads = gang.end(host);
    let changes = environment::changed(&first, &calm, &environment::take(host));
    let changes = changes.into_iter();
    run.doubts.extend(changes.map(|change| LatencyDoubt::CircumstanceChanged { change }));
    witness.look(&feed);
    let mut latency = run.told(&feed, &witness, (from_ns, end_ns), Some(moved));
    let (tracing, notes) = witness.end();
    latency.tracing = tracing;
    latency.notes.extend(notes);
    let rest = feed.dismiss();
    let series = &mut latency.series;
    series.iter_mut().zip(rest.of_each).for_each(|(one, doubts)| one.doubts.extend(doubts));
    series.iter_mut().zip(rest.smis).for_each(|(one, smis)| one.smis = smis);
    latency.doubts.extend(rest.of_all);
    latency.notes.extend(rest.notes);
    drop(aside);
    latency.stopped = stopped;
    latency.series.sort_by_key(|series| std::cmp::Reverse(series.max_ns));
    latency.gates = order.max_ns.map(|most| gate(&latency, most)).into_iter().collect();
    Ok(latency)
}

pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Every CPU gets every thread.
fn seats(order: &MeasureRequest<'_>) -> Vec<ThreadPlacement> {
    let on = |cpu| {
        order.beats.iter().map(move |beat| ThreadPlacement {
            cpu,
            period_ns: beat.period_ns,
            policy: beat.policy,
        })
    };
    order.cpus.iter().flat_map(on).collect()
}

/// Makes the events of instruments that somebody has to make them for.
fn drive<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    order: &'env MeasureRequest<'_>,
    rows: &'env [SeriesLabel],
    tallies: &'env [LatencyStats],
    begin_ns: u64,
) {
    let instrument = order.instrument;
    if !instrument.is_driven() {
        return;
    }
    for (row, tally) in rows.iter().zip(tallies) {
        scope.spawn(move || instrument.drive(row.seat.period_ns, begin_ns, tally));
    }
}

/// What is known while it runs.
struct MeasurementRun<'a> {
    host: &'a Host,
    order: &'a MeasureRequest<'a>,
    rows: &'a [SeriesLabel],
    /// What is known of the document from the beginning on.
    blank: LatencyMeasurement,
    timelines: Vec<WorstTimeline>,
    doubts: Vec<LatencyDoubt>,
    notes: Vec<String>,
    /// When the shield was found broken, and how; each way once.
    broken: Vec<ShieldBreach>,
}

impl<'a> MeasurementRun<'a> {
    fn new(
        host: &'a Host,
        order: &'a MeasureRequest<'a>,
        rows: &'a [SeriesLabel],
        blank: LatencyMeasurement,
    ) -> MeasurementRun<'a> {
        let (doubts, notes, broken) = (Vec::new(), Vec::new(), Vec::new());
        let timelines = rows.iter().map(|_| WorstTimeline::new(MOMENT_NS)).collect();
        MeasurementRun { host, order, rows, blank, timelines, doubts, notes, broken }
    }

    /// Lets time go by until then, or until somebody stops it.
    fn wait_until(&self, feed: &SampleSource<'_>, witness: &mut TraceWitness<'_>, ns: u64) {
        loop {
            witness.look(feed);
            feed.look();
            let left = Duration::from_nanos(ns.saturating_sub(monotonic_ns()));
            if left.is_zero() || (self.order.stop)() {
                return;
            }
            std::thread::sleep(left.min(STEP));
        }
    }

    /// Lets the span go by; whether it was stopped before.
    fn watch(
        &mut self,
        feed: &SampleSource<'_>,
        witness: &mut TraceWitness<'_>,
        from_ns: u64,
    ) -> bool {
        let of = nanos(self.order.span);
        let mut worst_ns = None;
        for round in 0_u64.. {
            let done = monotonic_ns().saturating_sub(from_ns);
            worst_ns = worst_ns.max(self.enter_peaks(feed, of.saturating_sub(1)));
            let done = Duration::from_nanos(done.min(of));
            (self.order.progress)(MeasureProgress::Measuring {
                done,
                of: self.order.span,
                worst_ns,
            });
            witness.look(feed);
            if round.is_multiple_of(ROUNDS) {
                self.look_around(done);
                if let Some(keep) = self.order.keep {
                    keep(self.told(feed, witness, (from_ns, monotonic_ns()), None));
                }
            }
            if done >= self.order.span {
                self.look_around(done);
                return false;
            }
            let running = |tally: &LatencyStats| {
                matches!(tally.stage(), ThreadStage::Waiting | ThreadStage::Running)
            };
            if (self.order.stop)() || !feed.tallies().iter().any(running) {
                return true;
            }
            std::thread::sleep(STEP.min(self.order.span - done));
        }
        true
    }

    /// The longest of each moment since the last time, of each thread, at the time when its event
    /// was due, but not after `end_ns`; gives the longest of all.
    fn enter_peaks(&mut self, feed: &SampleSource<'_>, end_ns: u64) -> Option<u64> {
        feed.look();
        let mut worst_ns = None;
        for (tally, line) in feed.tallies().iter().zip(&mut self.timelines) {
            for peak in tally.take_peaks() {
                line.enter(peak.at_ns.min(end_ns), peak.late_ns);
                worst_ns = worst_ns.max(Some(peak.late_ns));
            }
        }
        worst_ns
    }

    /// Whether the shield is in force and the CPUs are there.
    fn look_around(&mut self, done: Duration) {
        if let Some(guard) = &self.order.guard
            && let GuardState::Broken(how) = guard.look(self.host)
            && !self.broken.iter().any(|breach| breach.how == how)
        {
            self.broken.push(ShieldBreach { part: None, after_s: done.as_secs(), how });
        }
        if let Some(cpus) = environment::offline(self.host, &self.order.cpus) {
            let doubt = LatencyDoubt::CpusOffline { cpus };
            if !self.doubts.contains(&doubt) {
                self.doubts.push(doubt);
            }
        }
    }

    /// The document of what was seen from one time to another, its series in the order of the rows.
    /// `moved`: what is doubtful about each; `None` while they still run.
    fn told(
        &self,
        feed: &SampleSource<'_>,
        witness: &TraceWitness<'_>,
        (from_ns, end_ns): (u64, u64),
        moved: Option<Vec<Vec<ThreadDoubt>>>,
    ) -> LatencyMeasurement {
        let mut latency = self.blank.clone();
        latency.unfinished = moved.is_none();
        let (end_ns, late) = ended(self.order.span, from_ns, end_ns);
        latency.span_ns = end_ns.saturating_sub(from_ns);
        latency.doubts = self.doubts.iter().cloned().chain(late).collect();
        latency.notes.clone_from(&self.notes);
        latency.isolation.held = latency.isolation.held.map(|_| self.broken.is_empty());
        latency.isolation.broken.clone_from(&self.broken);
        let moved = moved.unwrap_or_default().into_iter().chain(std::iter::repeat(Vec::new()));
        let rows = self.rows.iter().zip(feed.tallies()).zip(&self.timelines).zip(moved);
        for (nth, (((row, tally), line), mut doubts)) in rows.enumerate() {
            let (figures, stage) = (tally.figures(), tally.stage());
            // Who still runs is in doubt only when it should have run again long ago.
            let next = figures.last_due_ns.max(from_ns).saturating_add(row.seat.period_ns);
            let in_time = row.tid == 0 || next.saturating_add(nanos(LONG)) >= end_ns;
            let busy = in_time && stage == ThreadStage::Running;
            // Where short latencies are no samples, none at all is what one hopes for.
            let silent =
                figures.samples == 0 && row.threshold_ns > 0 && stage == ThreadStage::Ended;
            let known = latency.unfinished && busy;
            if !(silent || known) {
                doubts.extend(doubtful(&row.seat, stage, &figures, end_ns));
            }
            latency.notes.extend(blurred(&row.seat, &figures));
            let mut one = of_row(row, tally, self.order, from_ns, line.clone(), doubts);
            for worst in &mut one.worst {
                let due_ns = from_ns.saturating_add(worst.at_ns);
                worst.why = witness.why(nth, &WorstMoment { due_ns, late_ns: worst.late_ns });
            }
            latency.series.push(one);
        }
        latency
    }

    /// What is not as it was made, for each thread: looked up while they still run.
    fn look_at_threads(&self) -> Vec<Vec<ThreadDoubt>> {
        let look = |SeriesLabel { seat, tid, .. }: &SeriesLabel| {
            let mut doubts = Vec::new();
            if *tid == 0 {
                return doubts;
            }
            match self.host.online_affinity(*tid) {
                Ok(cpus) if cpus == CpuSet::one(seat.cpu) => {}
                Ok(cpus) => doubts.push(ThreadDoubt::Moved { cpus }),
                Err(_) => doubts.push(ThreadDoubt::Gone),
            }
            match self.host.scheduling(*tid) {
                Ok(policy) if policy == seat.policy => {}
                Ok(policy) => {
                    doubts.push(ThreadDoubt::PolicyChanged { policy: policy.to_string() });
                }
                Err(_) => {}
            }
            doubts
        };
        self.rows.iter().map(look).collect()
    }
}

/// When the threads had ended at the latest, and what is doubtful when that was not noticed then.
fn ended(span: Duration, from_ns: u64, looked_ns: u64) -> (u64, Option<LatencyDoubt>) {
    let last_ns = from_ns.saturating_add(nanos(span)).saturating_add(OVERTIME_NS);
    let late_ns = looked_ns.saturating_sub(last_ns);
    let doubt = (late_ns > 0).then_some(LatencyDoubt::NotStopped { late_ns });
    (looked_ns.min(last_ns), doubt)
}

/// What one thread saw.
fn of_row(
    row: &SeriesLabel,
    tally: &LatencyStats,
    order: &MeasureRequest<'_>,
    from_ns: u64,
    timeline: WorstTimeline,
    doubts: Vec<ThreadDoubt>,
) -> ThreadSeries {
    let (seat, figures) = (&row.seat, tally.figures());
    let histogram = histogram::collect(tally.counts());
    let some = |ns: u64| (figures.samples > 0).then_some(ns);
    let share = |count: u64| {
        #[expect(clippy::cast_precision_loss, reason = "a share is not exact")]
        let share = count as f64 * 100.0 / (figures.samples + figures.missed).max(1) as f64;
        share
    };
    let over = |(limit_ns, count): (&u64, &u64)| {
        let (limit_ns, count) = (*limit_ns, *count);
        OverLimit { limit_ns, count, percent: share(count) }
    };
    ThreadSeries {
        cpu: seat.cpu,
        stage: row.stage.map(str::to_owned),
        period_ns: seat.period_ns,
        policy: seat.policy.to_string(),
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
        min_ns: some(figures.min_ns),
        mean_ns: figures.sum_ns.checked_div(figures.samples),
        max_ns: some(figures.max_ns),
        percentiles: histogram::percentiles(
            &histogram::with_missed(&histogram, seat.period_ns),
            figures.max_ns,
        ),
        over: order.over_ns.iter().zip(&figures.over).map(over).collect(),
        jitter_ns: (figures.samples > 1 && seat.period_ns > 0 && !order.instrument.is_driven())
            .then(|| {
                let late = figures.longest_ns.saturating_sub(seat.period_ns);
                late.max(seat.period_ns.saturating_sub(figures.shortest_ns))
            }),
        #[expect(clippy::cast_precision_loss, reason = "a mean is not exact")]
        look_ns: (figures.looks > 0).then(|| figures.looked_ns as f64 / figures.looks as f64),
        elsewhere: figures.elsewhere,
        timeline,
        histogram: histogram::encode(&histogram),
        doubts,
    }
}

/// What makes the figures of a thread doubtful.
fn doubtful(
    seat: &ThreadPlacement,
    stage: ThreadStage,
    figures: &LatencyFigures,
    end_ns: u64,
) -> Vec<ThreadDoubt> {
    let mut doubts = Vec::new();
    match stage {
        ThreadStage::Ended => {}
        ThreadStage::Waiting => doubts.push(ThreadDoubt::NeverBegan),
        ThreadStage::Running => {
            let due = figures.last_due_ns.saturating_add(seat.period_ns);
            if figures.samples == 0 && seat.period_ns > nanos(LONG) {
                doubts.push(ThreadDoubt::PeriodNotOver);
            } else if figures.samples == 0 {
                doubts.push(ThreadDoubt::SawNothing);
            } else if due < end_ns.saturating_add(nanos(LONG)) {
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

/// How far the figures of a thread may be too long.
fn blurred(seat: &ThreadPlacement, figures: &LatencyFigures) -> Option<String> {
    let blur = exact(figures.blur_ns);
    (figures.blur_ns > 0).then(|| {
        format!("CPU {}: every latency may be too long by up to {blur}, see explain", seat.cpu)
    })
}

/// A time as it can be given on the command line, nothing rounded.
pub(super) fn exact(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let fits = |unit: &&(u64, &str)| ns >= unit.0 && ns.is_multiple_of(unit.0);
    let (scale, unit) = units.iter().find(fits).copied().unwrap_or((1, "ns"));
    format!("{}{unit}", ns / scale)
}

/// Whether the worst is within the limit. What is over it is over it, whatever else is doubtful.
pub(super) fn gate(latency: &LatencyMeasurement, most_ns: u64) -> Gate<LatencyDoubt> {
    let worst = latency.worst().map(|(_, worst)| worst.late_ns);
    let mut why = latency.every_doubt();
    let least = latency.silent_below_ns();
    let held = match worst {
        Some(worst) if worst > most_ns => Some(false),
        Some(_) if why.is_empty() => Some(true),
        None if why.is_empty() && least.is_some_and(|least| least <= most_ns) => Some(true),
        _ => None,
    };
    if held == Some(false) {
        why.clear();
    }
    Gate {
        limit: format!("--max {}", exact(most_ns)),
        found: match (worst, least) {
            (Some(worst), _) => exact(worst),
            (None, Some(least)) => format!("nothing of {} or more", exact(least)),
            (None, None) => "nothing".to_owned(),
        },
        held,
        why,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::latency::GuardBreach;
    use crate::latency::{MeasuredIsolation, MeasuredSetting, SCHEMA, TraceUse};
    use crate::load::LoadDone;
    use crate::load::LoadDoubt;
    use cpushield_linux::SchedPolicy;

    const SEAT: ThreadPlacement = ThreadPlacement {
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
            parts: Vec::new(),
            began_s: 1_800_000_000,
            began_ns: 7_000_000_000,
            series: vec![ThreadSeries {
                cpu: 3,
                stage: None,
                period_ns: 1_000_000,
                policy: SEAT.policy.to_string(),
                threshold_ns: None,
                smis: None,
                samples,
                missed: 0,
                worst: vec![WorstLatency { at_ns: 2_000_000, late_ns: most, why: None }],
                min_ns: Some(least),
                mean_ns: Some(sum / samples),
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
            gates: Vec::new(),
            tracing: TraceUse::default(),
            isolation: MeasuredIsolation::default(),
            setting: MeasuredSetting::default(),
            doubts: Vec::new(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_span_does_not_outlast_the_threads() {
        let span = Duration::from_secs(3);
        assert_eq!(ended(span, 7, 3_000_000_007), (3_000_000_007, None));
        let (end_ns, why) = ended(span, 7, 9_700_000_007);
        assert_eq!(end_ns, 5_000_000_007);
        assert!(why.unwrap().to_string().ends_with("4700ms ago"));
    }

    #[test]
    fn a_gate_holds_only_without_doubt_and_is_broken_in_spite_of_it() {
        let plain = latency();
        let held = |latency: &LatencyMeasurement, most| gate(latency, most).held;
        assert_eq!(held(&plain, 31_000), Some(true));
        assert_eq!(held(&plain, 30_999), Some(false));
        let mut doubtful = plain.clone();
        doubtful.series[0].doubts.push(ThreadDoubt::Elsewhere { count: 3 });
        assert_eq!(held(&doubtful, 31_000), None);
        assert_eq!(held(&doubtful, 30_999), Some(false));
        let mut idle = plain.clone();
        idle.loads.push(LoadDone {
            name: "disk".to_owned(),
            what: String::new(),
            program: None,
            cpus: CpuSet::one(2),
            unit: "bytes".to_owned(),
            count: Some(0),
            per_s: Some(0.0),
            span_ns: 1,
            doubts: vec![LoadDoubt::DidNothing],
        });
        assert_eq!(gate(&idle, 31_000).reasons(), "the load disk: it did nothing");
        assert_eq!(held(&idle, 30_999), Some(false));
        let mut broken = plain.clone();
        let breach = ShieldBreach { part: None, after_s: 3, how: GuardBreach::GroupGone };
        broken.isolation.broken.push(breach);
        assert_eq!(held(&broken, 31_000), None);
        let mut stopped = plain.clone();
        stopped.stopped = true;
        assert_eq!(held(&stopped, 31_000), None);
        assert_eq!(gate(&stopped, 31_000).reasons(), "it was stopped after 5ms of 5ms");
        assert_eq!(held(&stopped, 30_999), Some(false));
        let mut silent = plain.clone();
        silent.series[0] = ThreadSeries {
            threshold_ns: Some(1_000),
            samples: 0,
            worst: Vec::new(),
            ..silent.series[0].clone()
        };
        assert_eq!(held(&silent, 1_000), Some(true));
        assert_eq!(held(&silent, 999), None, "what is shorter was not seen");
        assert_eq!(gate(&silent, 999).found, "nothing of 1us or more");
        silent.doubts.push(LatencyDoubt::RecordsLost { cpu: 3, count: 1 });
        assert_eq!(held(&silent, 1_000), None);
        let mut empty = plain;
        empty.series.clear();
        assert_eq!(held(&empty, 31_000), None);
        assert_eq!(gate(&empty, 20_000).limit, "--max 20us");
        assert_eq!(gate(&empty, 20_001).limit, "--max 20001ns");
        assert_eq!(gate(&empty, 1).found, "nothing");
    }

    #[test]
    fn a_thread_that_does_not_run_again_is_no_good_result() {
        let figures = LatencyFigures {
            samples: 7,
            last_due_ns: 10_000_000,
            elsewhere: Some(0),
            ..LatencyFigures::default()
        };
        assert_eq!(doubtful(&SEAT, ThreadStage::Ended, &figures, 11_000_000), []);
        assert_eq!(
            doubtful(&SEAT, ThreadStage::Running, &figures, 911_000_000),
            [ThreadDoubt::DidNotRunAgain { late_ns: 900_000_000 }]
        );
        let hourly = ThreadPlacement { period_ns: 3_600_000_000_000, ..SEAT };
        let asleep = doubtful(&hourly, ThreadStage::Running, &figures, 911_000_000);
        assert_eq!(asleep, [], "it sleeps until its next event");
        let none = LatencyFigures { elsewhere: Some(2), ..LatencyFigures::default() };
        let said = doubtful(&SEAT, ThreadStage::Ended, &none, 0);
        assert_eq!(said, [ThreadDoubt::NoEvent, ThreadDoubt::Elsewhere { count: 2 }]);
        let said = doubtful(&SEAT, ThreadStage::Failed(19), &figures, 0);
        assert!(said[0].to_string().starts_with("it ended before its time: No such device"));
    }

    #[test]
    fn a_thread_that_cannot_keep_up_is_no_good_result() {
        let said = |figures| {
            let doubts = doubtful(&SEAT, ThreadStage::Ended, &figures, 0);
            doubts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        let figures =
            LatencyFigures { samples: 7, missed: 7, blur_ns: BLUR_NS, ..LatencyFigures::default() };
        assert_eq!(said(figures.clone()), "");
        assert!(said(LatencyFigures { missed: 8, ..figures.clone() }).contains("cannot keep up"));
        assert!(
            said(LatencyFigures { early: 1, ..figures.clone() }).contains("before they were due")
        );
        let woken =
            LatencyFigures { slow: 2, slowest_ns: 70_000, max_ns: 80_000, ..figures.clone() };
        assert!(said(woken.clone()).contains("2 times, for 70us"));
        assert_eq!(said(LatencyFigures { max_ns: 900_000, ..woken }), "");
        assert!(said(LatencyFigures { blur_ns: 20_001, ..figures.clone() }).contains("20001ns"));
        assert!(blurred(&SEAT, &figures).is_some_and(|note| note.contains("20us")));
        let given_up = doubtful(&SEAT, ThreadStage::Overrun, &figures, 0);
        assert_eq!(given_up[0], ThreadDoubt::Overrun);
    }
}
