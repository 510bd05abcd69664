//! [`LatencyMeasurement`] → [`ExperimentRun`]: the figures of a measurement that a cell contains.
//! Pure.

use super::{ExperimentRun, LoadAchieved, ThreadTrack};
use crate::documents::latency::{LatencyMeasurement, OverLimit, Percentile, ThreadSeries};
use crate::documents::load_done::LoadDone;
use crate::latency::percent_of;

/// Summarizes a measurement whose whole document is in `file`.
#[must_use]
pub fn summarize(round: usize, latency: &LatencyMeasurement, file: String) -> ExperimentRun {
    let mut periods: Vec<u64> = latency.series.iter().map(|series| series.period_ns).collect();
    periods.sort_unstable();
    periods.dedup();
    let tracks = periods.into_iter().map(|period_ns| summarize_threads(period_ns, latency));
    ExperimentRun {
        round,
        began_s: latency.began_s,
        span_ns: latency.span_ns,
        kernel: latency.setting.kernel.clone(),
        boot: latency.setting.boot.clone(),
        held: latency.isolation.held,
        isolation: latency.isolation.check.clone(),
        tracks: tracks.collect(),
        loads: latency.loads.iter().map(summarize_load).collect(),
        doubts: latency.every_doubt(),
        refused: latency.refused_changes().map(str::to_owned).collect(),
        file,
    }
}

fn summarize_load(load: &LoadDone) -> LoadAchieved {
    LoadAchieved { load: load.name.clone(), per_s: load.per_s, unit: load.unit.clone() }
}

/// Combines the threads of one period on all CPUs.
fn summarize_threads(period_ns: u64, latency: &LatencyMeasurement) -> ThreadTrack {
    // The stages of a wakeup are not added up: only the stage that includes the others counts.
    let series: Vec<&ThreadSeries> = (latency.series.iter())
        .filter(|series| series.period_ns == period_ns)
        .filter(|series| series.stage == latency.last_stage())
        .collect();
    let samples = series.iter().map(|series| series.samples).sum();
    let missed = series.iter().map(|series| series.missed).sum();
    ThreadTrack {
        period_ns,
        samples,
        missed,
        mean_ns: combine_means(&series),
        max_ns: find_longest(series.iter().map(|series| series.longest_at_most_ns())),
        jitter_ns: find_longest(series.iter().map(|series| series.jitter_ns)),
        percentiles: combine_percentiles(&series),
        over: add_over_limits(&series, samples + missed),
    }
}

/// The longest of the times of all CPUs; `None` when one of them is unknown.
fn find_longest(times_ns: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    times_ns.collect::<Option<Vec<u64>>>()?.into_iter().max()
}

/// The mean of the events of all CPUs; `None` when one of them is unknown.
fn combine_means(series: &[&ThreadSeries]) -> Option<u64> {
    let sums = series.iter().map(|one| Some(u128::from(one.mean_ns?) * u128::from(one.samples)));
    let sum: u128 = sums.sum::<Option<u128>>()?;
    let samples: u128 = series.iter().map(|one| u128::from(one.samples)).sum();
    u64::try_from(sum.checked_div(samples)?).ok()
}

/// The percentiles that every CPU has, each of the CPU where it is longest.
fn combine_percentiles(series: &[&ThreadSeries]) -> Vec<Percentile> {
    let first = series.first().map(|series| series.percentiles.as_slice()).unwrap_or_default();
    let longest = first.iter().filter_map(|Percentile { percent, .. }| {
        let ns = find_longest(series.iter().map(|series| series.percentile(*percent)))?;
        Some(Percentile { percent: *percent, ns })
    });
    longest.collect()
}

/// The latencies over each limit, of all CPUs.
fn add_over_limits(series: &[&ThreadSeries], events: u64) -> Vec<OverLimit> {
    let first = series.first().map(|series| series.over.as_slice()).unwrap_or_default();
    let sums = first.iter().map(|&OverLimit { limit_ns, .. }| {
        let all = series.iter().flat_map(|series| &series.over);
        let count = all.filter(|over| over.limit_ns == limit_ns).map(|over| over.count).sum();
        OverLimit { limit_ns, count, percent: percent_of(count, events) }
    });
    sums.collect()
}
