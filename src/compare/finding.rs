//! Figures of two groups → rows with a finding: whether the difference is significant. Pure.

use super::figures::FigureDraft;
use super::statistics::{self, GroupPairing};
use super::{
    ALPHA, BetterDirection, ComparedFigure, ComparisonFinding, Estimate, FigureRow, FindingAnswer,
    FindingReason, GivenGroup, GivenRun, GroupFigure,
};
use std::collections::BTreeMap;

/// Runs count as equally long when the longest is at most this many times the shortest.
const SPAN_RATIO_MAX: f64 = 1.1;

/// Excludes figures that cannot be tested: those of doubtful runs, and the extremes of runs with
/// unequal chances to see one.
pub(super) fn exclude_doubtful(drafts: &mut [FigureDraft], base: &GivenGroup, other: &GivenGroup) {
    for draft in drafts {
        let latency = !matches!(draft.figure, ComparedFigure::Noise | ComparedFigure::Gap);
        let runs = base.runs.iter().chain(&other.runs);
        let runs: Vec<&GivenRun> = runs.filter(|run| run.latency().is_some() == latency).collect();
        let doubtful = runs.iter().filter(|run| !run.doubts().is_empty());
        let doubtful: Vec<String> = doubtful.map(|run| run.name.clone()).collect();
        if !doubtful.is_empty() {
            draft.barred.push(FindingReason::DoubtfulRuns { runs: doubtful });
        }
        if matches!(
            draft.figure,
            ComparedFigure::Worst | ComparedFigure::Jitter | ComparedFigure::Gap
        ) {
            draft.barred.extend(unequal_chances(&runs));
        }
    }
}

/// Why the extremes of these runs cannot be compared: a longer run, or one on more CPUs, sees a
/// worse extreme.
fn unequal_chances(runs: &[&GivenRun]) -> Vec<FindingReason> {
    let mut why = Vec::new();
    let spans = runs.iter().map(|run| run.span_ns());
    if let (Some(least), Some(most)) = (spans.clone().min(), spans.max())
        && most as f64 > least as f64 * SPAN_RATIO_MAX
    {
        why.push(FindingReason::LengthsDiffer);
    }
    let mut cpus = runs.iter().map(|run| run.cpus().len());
    let first = cpus.next();
    if cpus.any(|count| Some(count) != first) {
        why.push(FindingReason::CpusDiffer);
    }
    why
}

/// Rows with findings. Figures of the same runs are tested together.
pub(super) fn judge(drafts: Vec<FigureDraft>) -> Vec<FigureRow> {
    let mut families: BTreeMap<[Vec<bool>; 2], Vec<usize>> = BTreeMap::new();
    for (at, draft) in drafts.iter().enumerate().filter(|(_, draft)| draft.barred.is_empty()) {
        let present = [&draft.base, &draft.other]
            .map(|side| side.runs.iter().map(Option::is_some).collect::<Vec<bool>>());
        families.entry(present).or_default().push(at);
    }
    let mut findings: BTreeMap<usize, ComparisonFinding> = BTreeMap::new();
    for family in families.into_values() {
        let pairings: Vec<GroupPairing> =
            family.iter().filter_map(|at| drafts.get(*at).map(pairing)).collect();
        let found = statistics::adjusted(&pairings);
        for ((at, pairing), p) in family.iter().zip(&pairings).zip(found) {
            findings.insert(*at, finding(pairing, p, family.len()));
        }
    }
    let rows = drafts.into_iter().enumerate().map(|(at, draft)| {
        let finding = findings.remove(&at).unwrap_or_else(|| unknown(draft.barred.clone(), None));
        row(draft, finding)
    });
    rows.collect()
}

fn pairing(draft: &FigureDraft) -> GroupPairing {
    GroupPairing { base: draft.base.known(), other: draft.other.known() }
}

fn unknown(why: Vec<FindingReason>, runs_needed: Option<usize>) -> ComparisonFinding {
    ComparisonFinding { answer: FindingAnswer::Unknown, p: None, runs_needed, why }
}

fn finding(pairing: &GroupPairing, p: f64, figures: usize) -> ComparisonFinding {
    let (base, other) = (pairing.base.len(), pairing.other.len());
    let needed = statistics::runs_needed(figures, ALPHA);
    if statistics::smallest_p(base, other) > ALPHA {
        return unknown(vec![FindingReason::TooFewRuns { needed }], Some(needed));
    }
    if p <= ALPHA {
        return ComparisonFinding {
            answer: FindingAnswer::Differs,
            p: Some(p),
            runs_needed: None,
            why: Vec::new(),
        };
    }
    if is_apart(pairing) && needed > base.min(other) {
        let why = FindingReason::OneOfMany { figures, needed };
        return ComparisonFinding { p: Some(p), ..unknown(vec![why], Some(needed)) };
    }
    ComparisonFinding {
        answer: FindingAnswer::NotShown,
        p: Some(p),
        runs_needed: None,
        why: Vec::new(),
    }
}

/// One figure of two groups of runs that was chosen in advance, so `p` is not adjusted.
#[derive(Debug, Clone, PartialEq)]
pub struct OneFigure {
    /// Whether the difference is significant.
    pub finding: ComparisonFinding,
    /// The ratio; `None` when a figure is not above 0, or a group is empty.
    pub estimate: Option<Estimate>,
    /// Whether the other's figures are the lower ones; `None` when neither are.
    pub is_other_lower: Option<bool>,
}

/// Compares one figure of two groups of runs.
#[must_use]
pub fn one_figure(base: &[f64], other: &[f64]) -> OneFigure {
    let pairing = GroupPairing { base: base.to_vec(), other: other.to_vec() };
    let p = statistics::adjusted(std::slice::from_ref(&pairing)).first().copied().unwrap_or(1.0);
    OneFigure {
        finding: finding(&pairing, p, 1),
        estimate: estimate(&pairing),
        is_other_lower: statistics::is_other_lower(base, other),
    }
}

fn estimate(pairing: &GroupPairing) -> Option<Estimate> {
    let (ratio, interval) = statistics::times(pairing, ALPHA)?;
    let (least, most) = interval.unzip();
    Some(Estimate { ratio, least, most })
}

/// Whether all figures of one group are below all of the other.
fn is_apart(GroupPairing { base, other }: &GroupPairing) -> bool {
    let is_below = base.iter().all(|a| other.iter().all(|b| a < b));
    is_below || other.iter().all(|a| base.iter().all(|b| a < b))
}

impl GroupFigure {
    /// The median of its runs; `None` without any.
    #[must_use]
    pub fn median(&self) -> Option<f64> {
        statistics::median(self.known())
    }
}

impl FigureRow {
    /// Whether the other group is better; `None` when the difference is not significant.
    #[must_use]
    pub fn is_better(&self) -> Option<bool> {
        let differs = self.finding.answer == FindingAnswer::Differs;
        let lower = statistics::is_other_lower(&self.base.known(), &self.other.known())?;
        differs.then_some(lower == (self.better == BetterDirection::Lower))
    }
}

fn row(draft: FigureDraft, finding: ComparisonFinding) -> FigureRow {
    let typical = estimate(&pairing(&draft));
    let ratio = match (draft.base.value, draft.other.value) {
        (Some(base), Some(other)) if base > 0.0 => Some(other / base),
        _ => None,
    };
    let FigureDraft { subject, figure, unit, better, base, other, .. } = draft;
    FigureRow { subject, figure, unit, better, base, other, ratio, typical, finding }
}
