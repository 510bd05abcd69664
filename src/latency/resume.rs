//! Resumed measurements: two documents → one, with a note about the pause between them. Times in
//! the joined document count measured time, without pauses. Pure.

use super::histogram::HistogramError;
use super::limits::judge_limits;
use super::order::MeasureRequest;
use super::{
    LatencyMeasurement, LatencyNote, LostPart, MeasurementPart, MeasurementPause, ShieldBreach,
    ThreadSeries, WorstTimeline, histogram,
};
use crate::documents::count_text::joined;
use crate::documents::load_done::{LoadDone, requested_words};
use crate::documents::time_text::exact_duration;
use crate::load::{LoadRequest, WantedLoad};
use crate::policy::LatencyLimits;
use std::collections::BTreeSet;
use std::fmt;

/// How many of the longest latencies are kept.
const WORST_MAX: usize = 16;

/// A difference that prevents resuming a measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResumeMismatch {
    /// The differing property.
    pub what: &'static str,
    /// Its value in the saved measurement.
    pub was: String,
    /// Its value now.
    pub is: String,
}

/// Finds the first difference between a saved measurement and a request to resume it. `kernel` and
/// `cmdline` are those of the running kernel.
#[must_use]
pub fn find_mismatch(
    before: &LatencyMeasurement,
    request: &MeasureRequest<'_>,
    kernel: Option<String>,
    cmdline: Option<String>,
) -> Option<ResumeMismatch> {
    let was: BTreeSet<String> = before
        .series
        .iter()
        .map(|series| describe_thread(series.cpu, series.period_ns, &series.policy))
        .collect();
    let mut is = BTreeSet::new();
    for cpu in request.cpus.iter() {
        let threads = request.threads.iter();
        is.extend(threads.map(|thread| describe_thread(cpu, thread.period_ns, &thread.policy)));
    }
    let over = before.series.first().map_or(&[][..], |series| &series.over);
    let guard = request.guard.as_ref().map(|guard| guard.name.clone());
    let (was_loaded, is_loaded) = describe_loads(before, &request.load);
    let load = before.loads.first();
    let on = load.map(|load| (load.cpus.to_string(), request.load.cpus.to_string()));
    let (was_on, is_on) = on.unwrap_or_default();
    let all = [
        ("the instrument", before.instrument.clone(), request.instrument.name().to_owned()),
        ("the threads", join_list(was), join_list(is)),
        (
            "--over",
            list_limits(over.iter().map(|over| over.limit_ns)),
            list_limits(request.over_ns.iter().copied()),
        ),
        ("the load", join_list(was_loaded), join_list(is_loaded)),
        ("the CPUs of the load", was_on, is_on),
        ("the shield", or(before.isolation.shield.clone(), "none"), or(guard, "none")),
        ("the kernel", or(before.setting.kernel.clone(), "unknown"), or(kernel, "unknown")),
        (
            "the kernel command line",
            or(before.setting.cmdline.clone(), "unknown"),
            or(cmdline, "unknown"),
        ),
    ];
    let differs = all.into_iter().find(|(_, was, is)| was != is);
    differs.map(|(what, was, is)| ResumeMismatch { what, was, is })
}

/// The loads that ran before, and those that are requested now. An optional load counts only if it
/// ran: it is skipped where it cannot run.
fn describe_loads(
    before: &LatencyMeasurement,
    request: &LoadRequest,
) -> (BTreeSet<String>, BTreeSet<String>) {
    let was = requested_words(&before.loads);
    let wanted = request.wanted.iter().filter(|wanted| {
        let name = wanted.kind.name();
        !wanted.optional || before.loads.iter().any(|load| load.kind_name() == name)
    });
    (was.into_iter().collect(), wanted.map(WantedLoad::word).collect())
}

fn describe_thread(cpu: usize, period_ns: u64, policy: &dyn std::fmt::Display) -> String {
    format!("CPU {cpu} {} {policy}", exact_duration(period_ns))
}

fn list_limits(limits_ns: impl Iterator<Item = u64>) -> String {
    join_list(limits_ns.map(exact_duration).collect())
}

/// The items, `none` if there are none.
fn join_list(all: BTreeSet<String>) -> String {
    if all.is_empty() { "none".to_owned() } else { joined(all, ", ") }
}

fn or(value: Option<String>, absent: &str) -> String {
    value.unwrap_or_else(|| absent.to_owned())
}

/// Why two parts of a measurement cannot be joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JoinError {
    /// The earlier part does not have this series.
    NotMeasured {
        /// Its CPU.
        cpu: usize,
        /// Its threads, as reports name them.
        role: String,
    },
    /// A histogram cannot be used.
    Histogram(HistogramError),
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinError::NotMeasured { cpu, role } => {
                write!(f, "the earlier part did not measure CPU {cpu}, {role}")
            }
            JoinError::Histogram(error) => error.fmt(f),
        }
    }
}

impl From<HistogramError> for JoinError {
    fn from(error: HistogramError) -> JoinError {
        JoinError::Histogram(error)
    }
}

/// Joins two documents. `limits` are those of the request.
///
/// # Errors
/// They have different threads, or a histogram cannot be decoded.
pub fn join_parts(
    before: &LatencyMeasurement,
    part: &LatencyMeasurement,
    limits: LatencyLimits,
) -> Result<LatencyMeasurement, JoinError> {
    let mut whole = part.clone();
    let offset = before.span_ns;
    whole.asked_ns = offset.saturating_add(part.asked_ns);
    whole.span_ns = offset.saturating_add(part.span_ns);
    (whole.began_s, whole.began_ns) = (before.began_s, before.began_ns);
    whole.parts = before.parts.clone();
    if whole.parts.is_empty() {
        whole.parts.push(part_of(before, 0));
    }
    whole.parts.push(part_of(part, offset));
    for series in &mut whole.series {
        let (cpu, role) = (series.cpu, series.role());
        let earlier = before.series.iter().find(|it| it.cpu == cpu && it.role() == role);
        let earlier = earlier.ok_or(JoinError::NotMeasured { cpu, role })?;
        *series = join_series(earlier, series, offset)?;
    }
    whole.series.sort_by_key(|series| std::cmp::Reverse(series.max_ns));
    for load in &mut whole.loads {
        match before.loads.iter().find(|it| it.name == load.name && it.unit == load.unit) {
            Some(earlier) if earlier.span_ns > 0 => add_load(load, earlier),
            // The interrupted part had not counted it yet.
            _ => {
                whole.notes.push(LatencyNote::LoadCountedInLastPart { load: load.name.clone() });
            }
        }
    }
    let number = whole.parts.len();
    let of_part = part.isolation.broken.iter().cloned();
    let of_part = of_part.map(|breach| ShieldBreach { part: Some(number), ..breach });
    whole.isolation.broken = before.isolation.broken.iter().cloned().chain(of_part).collect();
    whole.isolation.held = match (before.isolation.held, part.isolation.held) {
        (Some(a), Some(b)) => Some(a && b),
        _ => None,
    };
    let stolen = before.setting.steal_ns.zip(part.setting.steal_ns);
    whole.setting.steal_ns = stolen.map(|(before, part)| before.saturating_add(part));
    whole.doubts = union(&before.doubts, &part.doubts);
    whole.notes = union(&before.notes, &whole.notes);
    let lost = before.unfinished.then_some(LostPart::LastSecond);
    let pause = find_pause(&whole.parts);
    whole.notes.extend(pause.map(|pause| LatencyNote::Resumed { part: number, pause, lost }));
    whole.limits = limits;
    whole.gates = judge_limits(&whole, limits);
    Ok(whole)
}

fn part_of(latency: &LatencyMeasurement, at_ns: u64) -> MeasurementPart {
    MeasurementPart {
        at_ns,
        began_s: latency.began_s,
        began_ns: latency.began_ns,
        span_ns: latency.span_ns,
        boot: latency.setting.boot.clone(),
    }
}

fn union<T: Clone + PartialEq>(a: &[T], b: &[T]) -> Vec<T> {
    let new = b.iter().filter(|item| !a.contains(item));
    a.iter().chain(new).cloned().collect()
}

/// Finds the pause before the last part; `None` without an earlier part.
fn find_pause(parts: &[MeasurementPart]) -> Option<MeasurementPause> {
    let (last, rest) = parts.split_last()?;
    let before = rest.last()?;
    let end_s = before.began_s.saturating_add(before.span_ns / 1_000_000_000);
    let pause_s = last.began_s.saturating_sub(end_s);
    Some(match (&before.boot, &last.boot) {
        (Some(one), Some(other)) if one == other => {
            let end_ns = before.began_ns.saturating_add(before.span_ns);
            MeasurementPause::Same { pause_ns: last.began_ns.saturating_sub(end_ns) }
        }
        (Some(_), Some(_)) => MeasurementPause::Other { pause_s },
        _ => MeasurementPause::Unknown { pause_s },
    })
}

/// Joins two series of one thread.
fn join_series(
    before: &ThreadSeries,
    part: &ThreadSeries,
    offset: u64,
) -> Result<ThreadSeries, HistogramError> {
    let mut whole = part.clone();
    let counts = histogram::sum(&[before, part])?;
    whole.samples = before.samples.saturating_add(part.samples);
    whole.missed = before.missed.saturating_add(part.missed);
    for worst in &mut whole.worst {
        worst.at_ns = worst.at_ns.saturating_add(offset);
    }
    whole.worst.extend(before.worst.iter().cloned());
    whole.worst.sort_by_key(|worst| (std::cmp::Reverse(worst.late_ns), worst.at_ns));
    whole.worst.truncate(WORST_MAX);
    whole.min_ns = before.min_ns.into_iter().chain(part.min_ns).min();
    whole.max_ns = before.max_ns.max(part.max_ns);
    let sum = total_ns(before) + total_ns(part);
    let mean = sum.checked_div(u128::from(whole.samples));
    whole.mean_ns = mean.and_then(|mean| u64::try_from(mean).ok());
    let with_missed = histogram::with_missed(&counts, whole.period_ns);
    whole.percentiles = histogram::percentiles(&with_missed, whole.max_ns.unwrap_or(0));
    let all = whole.samples.saturating_add(whole.missed);
    for over in &mut whole.over {
        let earlier = before.over.iter().find(|earlier| earlier.limit_ns == over.limit_ns);
        over.count += earlier.map_or(0, |earlier| earlier.count);
        over.percent = histogram::percent_of(over.count, all);
    }
    whole.jitter_ns = before.jitter_ns.max(part.jitter_ns);
    whole.smis = before.smis.zip(part.smis).map(|(a, b)| a.saturating_add(b));
    whole.elsewhere = before.elsewhere.zip(part.elsewhere).map(|(a, b)| a.saturating_add(b));
    whole.timeline = WorstTimeline::joined(&before.timeline, &part.timeline, offset);
    whole.histogram = histogram::encode(&counts);
    whole.doubts = union(&before.doubts, &part.doubts);
    Ok(whole)
}

/// The sum of a thread's latencies.
fn total_ns(series: &ThreadSeries) -> u128 {
    u128::from(series.mean_ns.unwrap_or(0)) * u128::from(series.samples)
}

/// Adds the counts of an earlier part to a load.
fn add_load(load: &mut LoadDone, earlier: &LoadDone) {
    load.count = load.count.zip(earlier.count).map(|(a, b)| a.saturating_add(b));
    load.span_ns = load.span_ns.saturating_add(earlier.span_ns);
    load.per_s = load.count.map(|count| count as f64 * 1e9 / load.span_ns.max(1) as f64);
    load.doubts = union(&earlier.doubts, &load.doubts);
}

#[cfg(test)]
mod tests {
    use super::super::measure::tests::latency_of;
    use super::*;
    use crate::latency::{GuardBreach, LatencyDoubt, ThreadDoubt};
    use crate::load::parse_loads;
    use cpushield_linux::CpuSet;

    #[test]
    fn a_load_with_other_arguments_is_another_load() {
        let mut before = part(&[(1_000, 10)], 0, "a");
        before.loads.push(LoadDone {
            name: "command".to_owned(),
            arguments: vec!["make -j4".to_owned()],
            what: String::new(),
            program: None,
            cpus: CpuSet::single(0),
            unit: "runs".to_owned(),
            count: None,
            per_s: None,
            span_ns: 1,
            doubts: Vec::new(),
        });
        let requested = |word: &str| {
            let wanted = parse_loads(&[word.to_owned()]).unwrap();
            LoadRequest { wanted, ..LoadRequest::none() }
        };
        let (was, is) = describe_loads(&before, &requested("command:make -j4"));
        assert_eq!(was, is);
        let (was, is) = describe_loads(&before, &requested("command:make -j8"));
        assert_eq!(
            (join_list(was), join_list(is)),
            ("command:make -j4".into(), "command:make -j8".into())
        );
    }

    fn limit(max_ns: u64) -> LatencyLimits {
        LatencyLimits { max_ns: Some(max_ns), linuxcnc: None }
    }

    /// A document of these latencies that started at this second of a boot.
    fn part(counts: &[(u64, u64)], began_s: u64, boot: &str) -> LatencyMeasurement {
        let mut latency = latency_of(counts);
        (latency.asked_ns, latency.span_ns) = (10_000_000_000, 10_000_000_000);
        (latency.began_s, latency.began_ns) = (began_s, began_s * 1_000_000_000);
        latency.setting.boot = Some(boot.to_owned());
        latency
    }

    #[test]
    fn joined_parts_have_the_figures_of_one_measurement() {
        let (a, b) = ([(1_000, 700), (9_000, 3)], [(500, 200), (1_000, 90), (70_000, 7)]);
        let whole = part(&[(500, 200), (1_000, 790), (9_000, 3), (70_000, 7)], 100, "x");
        let mut before = part(&a, 100, "x");
        before.unfinished = true;
        before.asked_ns *= 2;
        let found = join_parts(&before, &part(&b, 117, "x"), limit(60_000)).unwrap();
        let (one, other) = (&found.series[0], &whole.series[0]);
        assert_eq!(one.histogram, other.histogram);
        assert_eq!(one.percentiles, other.percentiles);
        assert_eq!((one.samples, one.min_ns, one.max_ns), (1_000, Some(500), Some(70_000)));
        // Each part's mean is in whole nanoseconds.
        assert!(one.mean_ns.unwrap().abs_diff(other.mean_ns.unwrap()) <= 1);
        let worst: Vec<(u64, u64)> = one.worst.iter().map(|w| (w.at_ns, w.late_ns)).collect();
        assert_eq!(worst, [(10_002_000_000, 70_000), (2_000_000, 9_000)]);
        // A count of each part, over all of both.
        assert_eq!((one.over[0].count, one.over[0].percent), (2, 0.2));
        let moments = &one.timeline;
        let last = usize::try_from(10_000_000_000 / moments.step_ns).unwrap();
        assert_eq!((moments.worst_ns[0], moments.worst_ns[last]), (9_000, 70_000));
        assert_eq!((found.span_ns, found.asked_ns), (20_000_000_000, 20_000_000_000));
        assert!(!found.unfinished && found.gates[0].held == Some(false));
        let pause = MeasurementPause::Same { pause_ns: 7_000_000_000 };
        let lost = Some(LostPart::LastSecond);
        let resumed = LatencyNote::Resumed { part: 2, pause, lost };
        assert_eq!(found.notes, std::slice::from_ref(&resumed));
        assert_eq!(
            resumed.to_string(),
            "part 2 began 7s after the previous part ended; what the previous part measured after \
             its last save is lost"
        );
        // A third part, of another boot.
        let third = join_parts(&found, &part(&a, 500, "y"), LatencyLimits::default()).unwrap();
        let parts: Vec<u64> = third.parts.iter().map(|part| part.at_ns).collect();
        assert_eq!(parts, [0, 10_000_000_000, 20_000_000_000]);
        let pause = MeasurementPause::Other { pause_s: 373 };
        assert_eq!(third.notes[1], LatencyNote::Resumed { part: 3, pause, lost: None });
        assert_eq!(
            third.notes[1].to_string(),
            "part 3 began about 373 s by the wall clock after the previous part ended, after a \
             reboot"
        );
    }

    #[test]
    fn doubts_and_shield_breaches_are_kept() {
        let mut before = part(&[(1_000, 7)], 100, "x");
        before.series[0].doubts.push(ThreadDoubt::Elsewhere { count: 3 });
        before.isolation.held = Some(false);
        let breach = ShieldBreach { part: None, after_s: 3, how: GuardBreach::GroupGone };
        before.isolation.broken.push(breach);
        let mut after = part(&[(1_000, 7)], 120, "x");
        after.isolation.held = Some(true);
        after.doubts.push(LatencyDoubt::CpusOffline { cpus: CpuSet::single(3) });
        let whole = join_parts(&before, &after, limit(1_000_000)).unwrap();
        assert_eq!(whole.isolation.held, Some(false));
        assert_eq!(whole.gates[0].held, None);
        assert_eq!(whole.every_doubt().len(), 3, "{:?}", whole.every_doubt());
        let other = LatencyMeasurement {
            series: vec![ThreadSeries { cpu: 9, ..after.series[0].clone() }],
            ..after
        };
        let role = other.series[0].role();
        let error = JoinError::NotMeasured { cpu: 9, role };
        assert_eq!(join_parts(&before, &other, LatencyLimits::default()), Err(error));
    }

    /// A day of 10 kHz on 4 CPUs, with every value that a histogram distinguishes, and counts that
    /// do not compress well.
    #[test]
    fn the_document_of_a_day_is_small() {
        let mut random: u64 = 7;
        let mut counts = Vec::new();
        let mut value = 0;
        while value < 1 << 30 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            counts.push((value, 1 + (random >> 33) % 120_000));
            value += (value >> 10).max(1);
        }
        let mut day = part(&counts, 0, "x");
        assert!(day.series[0].samples > 24 * 3600 * 10_000, "{}", day.series[0].samples);
        let one = day.series.remove(0);
        let mut line = WorstTimeline::new(100_000_000);
        (0..24 * 3600 * 10).for_each(|at| line.enter(at * 100_000_000, 900_000_000 + at));
        let worst =
            (0..16).map(|n| super::super::WorstLatency { at_ns: n << 46, ..one.worst[0].clone() });
        let worst: Vec<_> = worst.collect();
        let series =
            |cpu| ThreadSeries { cpu, timeline: line.clone(), worst: worst.clone(), ..one.clone() };
        day.series = (0..4).map(series).collect();
        let text = crate::json::to_json(&day).unwrap();
        assert!(text.len() < 1 << 20, "{} bytes", text.len());
    }
}
