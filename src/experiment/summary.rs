//! [`LatencyMeasurement`] → [`ExperimentRun`]: what a cell keeps of each measurement. Pure.

use super::{ExperimentRun, LoadAchieved, ThreadTrack};
use crate::latency::{LatencyMeasurement, LoadDone, OverLimit, Percentile, ThreadSeries};

/// What an experiment keeps of a measurement whose whole document is in `file`.
#[must_use]
pub fn summary(round: usize, latency: &LatencyMeasurement, file: String) -> ExperimentRun {
    let mut periods: Vec<u64> = latency.series.iter().map(|series| series.period_ns).collect();
    periods.sort_unstable();
    periods.dedup();
    ExperimentRun {
        round,
        began_s: latency.began_s,
        span_ns: latency.span_ns,
        kernel: latency.setting.kernel.clone(),
        held: latency.isolation.held,
        tracks: periods.into_iter().map(|period_ns| track(period_ns, latency)).collect(),
        loads: latency.loads.iter().map(achieved).collect(),
        doubts: latency.every_doubt().iter().map(ToString::to_string).collect(),
        file,
    }
}

fn achieved(load: &LoadDone) -> LoadAchieved {
    LoadAchieved { load: load.name.clone(), per_s: load.per_s, unit: load.unit.clone() }
}

fn track(period_ns: u64, latency: &LatencyMeasurement) -> ThreadTrack {
    // Stages of one wakeup are never added up.
    let whole = |series: &&ThreadSeries| series.stage == latency.last_stage();
    let of: Vec<&ThreadSeries> =
        latency.series.iter().filter(|it| it.period_ns == period_ns).filter(whole).collect();
    let samples = of.iter().map(|series| series.samples).sum();
    let missed = of.iter().map(|series| series.missed).sum();
    // Without the figure of one CPU nobody knows the worst of all.
    let every = |ns: &dyn Fn(&ThreadSeries) -> Option<u64>| {
        let all: Option<Vec<u64>> = of.iter().map(|series| ns(series)).collect();
        all?.into_iter().max()
    };
    ThreadTrack {
        period_ns,
        samples,
        missed,
        max_ns: every(&|series| series.max_ns),
        jitter_ns: every(&|series| series.jitter_ns),
        percentiles: percentiles(&of),
        over: over(&of, samples + missed),
    }
}

/// Those that every CPU has, each of the CPU where it is longest.
fn percentiles(of: &[&ThreadSeries]) -> Vec<Percentile> {
    let Some(first) = of.first() else { return Vec::new() };
    let worst = |one: &Percentile| {
        let all: Option<Vec<u64>> =
            of.iter().map(|series| series.percentile(one.percent)).collect();
        Some(Percentile { percent: one.percent, ns: all?.into_iter().max()? })
    };
    first.percentiles.iter().filter_map(worst).collect()
}

fn over(of: &[&ThreadSeries], events: u64) -> Vec<OverLimit> {
    let Some(first) = of.first() else { return Vec::new() };
    let sum = |limit_ns: u64| {
        let counts = of.iter().flat_map(|series| &series.over);
        let count = counts.filter(|over| over.limit_ns == limit_ns).map(|over| over.count).sum();
        #[expect(clippy::cast_precision_loss, reason = "a share is not exact")]
        let percent = count as f64 * 100.0 / events.max(1) as f64;
        OverLimit { limit_ns, count, percent }
    };
    first.over.iter().map(|over| sum(over.limit_ns)).collect()
}
