//! Groups of runs → figures of both. Threads of the same role on different CPUs are one subject:
//! the worst of all CPUs, and percentiles of their merged histograms. Pure.

use super::{
    BetterDirection, CompareError, ComparedFigure, FindingReason, GivenGroup, GivenRun,
    GroupFigure, PairNote,
};
use crate::documents::evidence::Evidence;
use crate::documents::latency::ThreadSeries;
use crate::latency;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Percentiles that are compared.
const PERCENTS: [f64; 4] = [50.0, 99.0, 99.9, 99.99];

/// A figure of two groups before it is tested.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FigureDraft {
    pub(super) subject: String,
    pub(super) figure: ComparedFigure,
    pub(super) unit: String,
    pub(super) better: BetterDirection,
    pub(super) base: GroupFigure,
    pub(super) other: GroupFigure,
    /// Why it cannot be tested.
    pub(super) barred: Vec<FindingReason>,
}

/// Every figure that both groups have.
pub(super) fn drafts(
    base: &GivenGroup,
    other: &GivenGroup,
) -> Result<Vec<FigureDraft>, CompareError> {
    let mut drafts = Vec::new();
    let theirs = roles(other);
    for role in roles(base).iter().filter(|role| theirs.contains(role)) {
        drafts.extend(latency_drafts(role, base, other)?);
    }
    drafts.extend(throughput_drafts(base, other));
    drafts.extend(draft("", ComparedFigure::Noise, "1/s", [base, other].map(noise)));
    drafts.extend(draft("", ComparedFigure::Gap, "ns", [base, other].map(gap)));
    Ok(drafts)
}

/// The throughput of the loads that both groups have.
fn throughput_drafts(base: &GivenGroup, other: &GivenGroup) -> Vec<FigureDraft> {
    let theirs = loads(other);
    let shared = loads(base).into_iter().filter(|load| theirs.contains(load));
    let drafts = shared.filter_map(|(name, unit)| {
        let sides = [base, other].map(|group| throughput(group, &name, &unit));
        draft(&name, ComparedFigure::Throughput, &format!("{unit}/s"), sides)
    });
    drafts.collect()
}

/// The throughput of one load, and its mean over the runs.
fn throughput(group: &GivenGroup, name: &str, unit: &str) -> GroupFigure {
    let runs = group.runs.iter().map(|run| {
        let loads = run.latency().map_or(&[][..], |latency| &latency.loads);
        loads.iter().find(|load| load.name == name && load.unit == unit)?.per_s
    });
    let runs: Vec<Option<f64>> = runs.collect();
    let known: Vec<f64> = runs.iter().copied().flatten().collect();
    let mean = known.iter().sum::<f64>() / real(known.len() as u64);
    GroupFigure { value: (!known.is_empty()).then_some(mean), runs }
}

/// The loads of a group with their units.
fn loads(group: &GivenGroup) -> BTreeSet<(String, String)> {
    let all = group.runs.iter().filter_map(GivenRun::latency).flat_map(|latency| &latency.loads);
    all.map(|load| (load.name.clone(), load.unit.clone())).collect()
}

/// Remarks on what the groups do not have in common.
pub(super) fn notes(base: &GivenGroup, other: &GivenGroup) -> Vec<PairNote> {
    let mut notes = Vec::new();
    for (group, without) in [(base, other), (other, base)] {
        let missing = roles(without);
        for role in roles(group).into_iter().filter(|role| !missing.contains(role)) {
            notes.push(PairNote::OnlyInOneGroup { group: group.name.clone(), role });
        }
    }
    if base.runs.len() != other.runs.len() {
        let (base, other) = (base.runs.len(), other.runs.len());
        notes.push(PairNote::RunCountsDiffer { base, other });
    }
    notes
}

/// The roles of the threads of a group, by period. The last stage of a wakeup is first, because it
/// includes the others.
fn roles(group: &GivenGroup) -> Vec<String> {
    let mut roles = Vec::new();
    for series in
        group.runs.iter().filter_map(GivenRun::latency).flat_map(|latency| &latency.series)
    {
        let role = (series.period_ns, Reverse(series.stage), series.role());
        if !roles.contains(&role) {
            roles.push(role);
        }
    }
    roles.sort();
    roles.into_iter().map(|(.., role)| role).collect()
}

/// The threads of a run with this role.
fn threads<'a>(run: &'a GivenRun, role: &str) -> Vec<&'a ThreadSeries> {
    let all = run.latency().into_iter().flat_map(|latency| &latency.series);
    all.filter(|series| series.role() == role).collect()
}

/// The latency figures of the threads with this role.
fn latency_drafts(
    role: &str,
    base: &GivenGroup,
    other: &GivenGroup,
) -> Result<Vec<FigureDraft>, CompareError> {
    let mut drafts = Vec::new();
    let sides = [base, other];
    let worst = sides.map(|group| largest(group, role, ThreadSeries::longest_at_most_ns));
    drafts.extend(draft(role, ComparedFigure::Worst, "ns", worst));
    let is_periodic = |group: &GivenGroup| {
        group.runs.iter().any(|run| threads(run, role).iter().any(|series| series.period_ns > 0))
    };
    if !sides.into_iter().any(is_periodic) {
        // Its samples are the gaps. Fewer short gaps would mean longer percentiles.
        let rates = sides.map(|group| gap_rate(group, role));
        drafts.extend(draft(role, ComparedFigure::GapRate, "1/s", rates));
        return Ok(drafts);
    }
    drafts.extend(draft(role, ComparedFigure::Average, "ns", sides.map(|it| average(it, role))));
    let tables = [quantiles(base, role)?, quantiles(other, role)?];
    for (n, percent) in PERCENTS.into_iter().enumerate() {
        let percentiles = tables.each_ref().map(|table| GroupFigure {
            value: table.all.get(n).copied().flatten(),
            runs: table.runs.iter().map(|run| run.get(n).copied().flatten()).collect(),
        });
        drafts.extend(draft(role, ComparedFigure::Percentile { percent }, "ns", percentiles));
    }
    let jitter = sides.map(|group| largest(group, role, |series| series.jitter_ns));
    drafts.extend(draft(role, ComparedFigure::Jitter, "ns", jitter));
    Ok(drafts)
}

/// A figure of both groups; `None` unless both have it.
fn draft(
    subject: &str,
    figure: ComparedFigure,
    unit: &str,
    sides: [GroupFigure; 2],
) -> Option<FigureDraft> {
    let [base, other] = sides;
    let both = [&base, &other].iter().all(|side| side.runs.iter().any(Option::is_some));
    both.then(|| FigureDraft {
        subject: subject.to_owned(),
        figure,
        unit: unit.to_owned(),
        better: if figure == ComparedFigure::Throughput {
            BetterDirection::Higher
        } else {
            BetterDirection::Lower
        },
        base,
        other,
        barred: Vec::new(),
    })
}

fn real(number: u64) -> f64 {
    number as f64
}

/// The largest figure of all threads with this role, for each run and over all runs.
fn largest(
    group: &GivenGroup,
    role: &str,
    figure: impl Fn(&ThreadSeries) -> Option<u64>,
) -> GroupFigure {
    let runs = group.runs.iter();
    let runs: Vec<Option<f64>> = runs
        .map(|run| threads(run, role).into_iter().filter_map(&figure).max().map(real))
        .collect();
    GroupFigure { value: runs.iter().copied().flatten().reduce(f64::max), runs }
}

/// The average over all samples of the threads with this role, for each run and over all runs.
fn average(group: &GivenGroup, role: &str) -> GroupFigure {
    let sums = group.runs.iter().map(|run| {
        let series = threads(run, role).into_iter();
        let sums = series.filter_map(|one| Some((real(one.mean_ns?) * real(one.samples), one)));
        let (sum, samples) =
            sums.fold((0.0, 0), |all, (sum, one)| (all.0 + sum, all.1 + one.samples));
        (samples > 0).then_some((sum, real(samples)))
    });
    rate(sums.collect())
}

/// The gaps per second and thread of each run, and of all runs.
fn gap_rate(group: &GivenGroup, role: &str) -> GroupFigure {
    let counts = group.runs.iter().map(|run| {
        let series = threads(run, role);
        let seconds = real(run.span_ns()) / 1e9 * real(series.len() as u64);
        let gaps: u64 = series.iter().map(|series| series.samples).sum();
        (seconds > 0.0).then_some((real(gaps), seconds))
    });
    rate(counts.collect())
}

/// The quotient of two numbers, such as counts and seconds: of each run, and of all together.
fn rate(pairs: Vec<Option<(f64, f64)>>) -> GroupFigure {
    let known = pairs.iter().flatten();
    let (sum, divisor) = known.fold((0.0, 0.0), |sums, run| (sums.0 + run.0, sums.1 + run.1));
    GroupFigure {
        value: (divisor > 0.0).then(|| sum / divisor),
        runs: pairs.iter().map(|run| run.map(|(number, divisor)| number / divisor)).collect(),
    }
}

/// Percentiles in the order of [`PERCENTS`]; `None` where there are too few samples.
type Quantiles = Vec<Option<f64>>;

struct FigureTable {
    all: Quantiles,
    runs: Vec<Quantiles>,
}

fn quantiles(group: &GivenGroup, role: &str) -> Result<FigureTable, CompareError> {
    let mut runs = Vec::new();
    let mut every = Vec::new();
    for run in &group.runs {
        let series = threads(run, role);
        runs.push(merged_quantiles(run, &series)?);
        every.extend(series);
    }
    // A damaged histogram was already reported for its run.
    let first = group.runs.first();
    let all = first.map_or(Ok(Quantiles::new()), |run| merged_quantiles(run, &every))?;
    Ok(FigureTable { all, runs })
}

/// The percentiles of the merged histograms of threads.
///
/// # Errors
/// A histogram is damaged; the error names `run`.
fn merged_quantiles(run: &GivenRun, series: &[&ThreadSeries]) -> Result<Quantiles, CompareError> {
    let percentiles = latency::percentiles_of(series)
        .map_err(|why| CompareError::Damaged { run: run.name.clone(), why })?;
    let quantiles = PERCENTS.iter().map(|percent| {
        let same = percentiles.iter().find(|p| (p.percent - percent).abs() < 1e-6);
        same.map(|p| real(p.ns))
    });
    Ok(quantiles.collect())
}

/// Kernel entries per second and CPU.
fn noise(group: &GivenGroup) -> GroupFigure {
    let counts = group.runs.iter().map(|run| {
        let evidence = run.evidence()?;
        let entries: Option<u64> = evidence.cpus.iter().map(|cpu| cpu.entries).sum();
        let seconds = real(evidence.span_ns) / 1e9 * real(evidence.cpus.len() as u64);
        (seconds > 0.0).then_some((real(entries?), seconds))
    });
    rate(counts.collect())
}

/// The longest gap of each run.
fn gap(group: &GivenGroup) -> GroupFigure {
    let runs: Vec<Option<f64>> =
        group.runs.iter().map(|run| run.evidence().and_then(longest_gap)).collect();
    GroupFigure { value: runs.iter().copied().flatten().reduce(f64::max), runs }
}

fn longest_gap(evidence: &Evidence) -> Option<f64> {
    let gaps: Option<Vec<u64>> =
        evidence.cpus.iter().map(|cpu| Some(cpu.gaps.as_ref()?.max_ns)).collect();
    gaps?.into_iter().max().map(real)
}
