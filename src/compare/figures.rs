//! Groups of runs → figures side by side. Threads that do the same on every CPU are one subject:
//! the worst of all its CPUs, percentiles of their merged histograms. Pure.

use super::{BetterDirection, CompareError, ComparedFigure, GivenGroup, GivenRun, GroupFigure};
use crate::latency::{self, ThreadSeries};
use crate::verify::Evidence;
use std::collections::BTreeSet;

/// Percentiles that are compared.
const PERCENTS: [f64; 4] = [50.0, 99.0, 99.9, 99.99];

/// A figure of two groups before anything is said of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FigureDraft {
    pub(super) subject: String,
    pub(super) figure: ComparedFigure,
    pub(super) unit: String,
    pub(super) better: BetterDirection,
    pub(super) base: GroupFigure,
    pub(super) other: GroupFigure,
    /// Why nothing can be said of it.
    pub(super) barred: Vec<String>,
}

/// Every figure of which both groups have something.
pub(super) fn drafts(
    base: &GivenGroup,
    other: &GivenGroup,
) -> Result<Vec<FigureDraft>, CompareError> {
    let mut drafts = Vec::new();
    let theirs = roles(other);
    for role in roles(base).iter().filter(|role| theirs.contains(role)) {
        drafts.extend(of_threads(role, base, other)?);
    }
    drafts.extend(of_loads(base, other));
    drafts.extend(both("", ComparedFigure::Noise, "1/s", [base, other].map(noise)));
    drafts.extend(both("", ComparedFigure::Gap, "ns", [base, other].map(gap)));
    Ok(drafts)
}

/// What the loads of both groups got done.
fn of_loads(base: &GivenGroup, other: &GivenGroup) -> Vec<FigureDraft> {
    let theirs = loads(other);
    let side = |group: &GivenGroup, name: &str, unit: &str| {
        let done = |run: &GivenRun| {
            let loads = run.latency().map_or(&[][..], |latency| &latency.loads);
            loads.iter().find(|load| load.name == name && load.unit == unit)?.per_s
        };
        let runs: Vec<Option<f64>> = group.runs.iter().map(done).collect();
        let known: Vec<f64> = runs.iter().copied().flatten().collect();
        let mean = known.iter().sum::<f64>() / real(known.len() as u64);
        GroupFigure { value: (!known.is_empty()).then_some(mean), runs }
    };
    let shared = loads(base).into_iter().filter(|load| theirs.contains(load));
    let draft = |(name, unit): (String, String)| {
        let sides = [base, other].map(|group| side(group, &name, &unit));
        both(&name, ComparedFigure::Throughput, &format!("{unit}/s"), sides)
    };
    shared.filter_map(draft).collect()
}

/// The loads of a group with their units.
fn loads(group: &GivenGroup) -> BTreeSet<(String, String)> {
    let all = group.runs.iter().filter_map(GivenRun::latency).flat_map(|latency| &latency.loads);
    all.map(|load| (load.name.clone(), load.unit.clone())).collect()
}

/// What the groups do not have in common, for people.
pub(super) fn notes(base: &GivenGroup, other: &GivenGroup) -> Vec<String> {
    let mut notes = Vec::new();
    let (ours, theirs) = (roles(base), roles(other));
    let mut only = |group: &GivenGroup, has: &[String], lacks: &[String]| {
        for role in has.iter().filter(|role| !lacks.contains(role)) {
            notes.push(format!("only {} has {role}; they are left out", group.name));
        }
    };
    only(base, &ours, &theirs);
    only(other, &theirs, &ours);
    if base.runs.len() != other.runs.len() {
        notes.push(format!(
            "the worst of {} runs is compared with that of {}: more runs have a worse maximum",
            base.runs.len(),
            other.runs.len()
        ));
    }
    notes
}

/// What the threads of a group do, in the order of its documents.
fn roles(group: &GivenGroup) -> Vec<String> {
    let mut roles: Vec<(u64, String)> = Vec::new();
    for series in group.runs.iter().filter_map(GivenRun::latency).flat_map(|one| &one.series) {
        let role = (series.period_ns, series.role());
        if !roles.contains(&role) {
            roles.push(role);
        }
    }
    roles.sort();
    roles.into_iter().map(|(_, role)| role).collect()
}

/// The threads of a run that do this.
fn threads<'a>(run: &'a GivenRun, role: &str) -> Vec<&'a ThreadSeries> {
    let all = run.latency().into_iter().flat_map(|latency| &latency.series);
    all.filter(|series| series.role() == role).collect()
}

/// The figures of threads that do the same.
fn of_threads(
    role: &str,
    base: &GivenGroup,
    other: &GivenGroup,
) -> Result<Vec<FigureDraft>, CompareError> {
    let mut drafts = Vec::new();
    let sides = [base, other];
    let worst = |series: &ThreadSeries| series.max_ns;
    drafts.extend(both(role, ComparedFigure::Worst, "ns", sides.map(|one| most(one, role, worst))));
    let tables = [quantiles(base, role)?, quantiles(other, role)?];
    for (n, percent) in PERCENTS.into_iter().enumerate() {
        let side = |table: &FigureTable| GroupFigure {
            value: table.all.get(n).copied().flatten(),
            runs: table.runs.iter().map(|run| run.get(n).copied().flatten()).collect(),
        };
        let sides = [side(&tables[0]), side(&tables[1])];
        drafts.extend(both(role, ComparedFigure::Percentile { percent }, "ns", sides));
    }
    let jitter = |series: &ThreadSeries| series.jitter_ns;
    drafts.extend(both(
        role,
        ComparedFigure::Jitter,
        "ns",
        sides.map(|one| most(one, role, jitter)),
    ));
    Ok(drafts)
}

/// A figure, when both have something of it.
fn both(
    subject: &str,
    figure: ComparedFigure,
    unit: &str,
    sides: [GroupFigure; 2],
) -> Option<FigureDraft> {
    let [base, other] = sides;
    let some = |side: &GroupFigure| side.runs.iter().any(Option::is_some);
    (some(&base) && some(&other)).then(|| FigureDraft {
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

#[expect(clippy::cast_precision_loss, reason = "ratios are shown, and times are below 2^52 ns")]
fn real(number: u64) -> f64 {
    number as f64
}

/// The largest of all threads, of each run and of all.
fn most(
    group: &GivenGroup,
    role: &str,
    figure: impl Fn(&ThreadSeries) -> Option<u64>,
) -> GroupFigure {
    let of_run =
        |run: &GivenRun| threads(run, role).into_iter().filter_map(&figure).max().map(real);
    let runs: Vec<Option<f64>> = group.runs.iter().map(of_run).collect();
    GroupFigure { value: runs.iter().copied().flatten().reduce(f64::max), runs }
}

/// Percentiles in the order of [`PERCENTS`]; `None` where the samples do not reach.
type Quantiles = Vec<Option<f64>>;

struct FigureTable {
    all: Quantiles,
    runs: Vec<Quantiles>,
}

fn quantiles(group: &GivenGroup, role: &str) -> Result<FigureTable, CompareError> {
    let of = |run: &GivenRun, series: &[&ThreadSeries]| {
        let wrong = |why| CompareError::Damaged { run: run.name.clone(), why };
        let found = latency::percentiles_of(series).map_err(wrong)?;
        let at = |percent: &f64| {
            let same = found.iter().find(|one| (one.percent - percent).abs() < 1e-6);
            same.map(|one| real(one.ns))
        };
        Ok(PERCENTS.iter().map(at).collect::<Quantiles>())
    };
    let mut runs = Vec::new();
    let mut every = Vec::new();
    for run in &group.runs {
        let series = threads(run, role);
        runs.push(of(run, &series)?);
        every.extend(series);
    }
    // Whatever is damaged was told of its own run.
    let all = group.runs.first().map_or(Ok(Quantiles::new()), |run| of(run, &every))?;
    Ok(FigureTable { all, runs })
}

/// Entries into the kernel per second and CPU.
fn noise(group: &GivenGroup) -> GroupFigure {
    let counted = |run: &GivenRun| {
        let evidence = run.evidence()?;
        let entries: Option<u64> = evidence.cpus.iter().map(|cpu| cpu.entries).sum();
        let seconds = real(evidence.span_ns) / 1e9 * real(evidence.cpus.len() as u64);
        (seconds > 0.0).then_some((real(entries?), seconds))
    };
    let counts: Vec<Option<(f64, f64)>> = group.runs.iter().map(counted).collect();
    let known = || counts.iter().flatten();
    let (entries, seconds) = known().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    GroupFigure {
        value: (seconds > 0.0).then(|| entries / seconds),
        runs: counts.iter().map(|one| one.map(|(entries, seconds)| entries / seconds)).collect(),
    }
}

/// The longest gap.
fn gap(group: &GivenGroup) -> GroupFigure {
    let longest = |evidence: &Evidence| {
        let gaps: Option<Vec<u64>> =
            evidence.cpus.iter().map(|cpu| Some(cpu.gaps.as_ref()?.max_ns)).collect();
        gaps?.into_iter().max().map(real)
    };
    let runs: Vec<Option<f64>> =
        group.runs.iter().map(|run| run.evidence().and_then(longest)).collect();
    GroupFigure { value: runs.iter().copied().flatten().reduce(f64::max), runs }
}
