//! Figures side by side → rows with a finding: whether the difference is more than chance. Pure.

use super::figures::FigureDraft;
use super::statistics::{self, GroupPairing};
use super::{
    ALPHA, ComparedFigure, ComparisonFinding, Estimate, FigureRow, FindingAnswer, GivenGroup,
    GivenRun,
};
use std::collections::BTreeMap;

/// Runs are of one length when the longest is at most so many times the shortest.
const LENGTHS: f64 = 1.1;

/// Says of which figures nothing can be said: those of doubtful runs, and the extremes of runs
/// that had unequal chances to see one.
pub(super) fn bar(drafts: &mut [FigureDraft], base: &GivenGroup, other: &GivenGroup) {
    let runs = || base.runs.iter().chain(&other.runs);
    for draft in drafts {
        let latency = !matches!(draft.figure, ComparedFigure::Noise | ComparedFigure::Gap);
        let its = || runs().filter(|run| run.latency().is_some() == latency);
        let doubtful: Vec<&str> =
            its().filter(|run| !run.doubts().is_empty()).map(|run| run.name.as_str()).collect();
        if !doubtful.is_empty() {
            draft.barred.push(format!("doubtful: {}", doubtful.join(", ")));
        }
        if matches!(
            draft.figure,
            ComparedFigure::Worst | ComparedFigure::Jitter | ComparedFigure::Gap
        ) {
            draft.barred.extend(unequal(&its().collect::<Vec<_>>()));
        }
    }
}

/// Why extremes of these runs cannot be compared: who looks longer, or at more CPUs, sees worse.
fn unequal(runs: &[&GivenRun]) -> Vec<String> {
    let mut why = Vec::new();
    let spans = || runs.iter().map(|run| run.span_ns());
    if let (Some(least), Some(most)) = (spans().min(), spans().max()) {
        #[expect(clippy::cast_precision_loss, reason = "a tenth is looked for")]
        let far = most as f64 > least as f64 * LENGTHS;
        if far {
            why.push(
                "the runs are of different length, and a longer one sees a worse worst".into(),
            );
        }
    }
    let mut cpus = runs.iter().map(|run| run.cpus().len());
    let first = cpus.next();
    if cpus.any(|count| Some(count) != first) {
        why.push("on more CPUs the worst is worse by itself".to_owned());
    }
    why
}

/// Rows with findings. Figures of the same runs are tested together.
pub(super) fn judge(drafts: Vec<FigureDraft>) -> Vec<FigureRow> {
    let present = |draft: &FigureDraft| -> (Vec<bool>, Vec<bool>) {
        let some = |runs: &[Option<f64>]| runs.iter().map(Option::is_some).collect();
        (some(&draft.base.runs), some(&draft.other.runs))
    };
    let mut families: BTreeMap<(Vec<bool>, Vec<bool>), Vec<usize>> = BTreeMap::new();
    for (at, draft) in drafts.iter().enumerate().filter(|(_, draft)| draft.barred.is_empty()) {
        families.entry(present(draft)).or_default().push(at);
    }
    let mut findings: BTreeMap<usize, ComparisonFinding> = BTreeMap::new();
    for family in families.into_values() {
        let pairing = |at: &usize| drafts.get(*at).map(pairing);
        let pairings: Vec<GroupPairing> = family.iter().filter_map(pairing).collect();
        let found = statistics::adjusted(&pairings);
        for ((at, pairing), p) in family.iter().zip(&pairings).zip(found) {
            findings.insert(*at, finding(pairing, p, family.len()));
        }
    }
    let row = |(at, draft): (usize, FigureDraft)| {
        let finding = findings.remove(&at).unwrap_or_else(|| unknown(draft.barred.clone(), None));
        row(draft, finding)
    };
    drafts.clone().into_iter().enumerate().map(row).collect()
}

fn pairing(draft: &FigureDraft) -> GroupPairing {
    GroupPairing { base: draft.base.known(), other: draft.other.known() }
}

fn unknown(why: Vec<String>, runs_needed: Option<usize>) -> ComparisonFinding {
    ComparisonFinding { answer: FindingAnswer::Unknown, p: None, runs_needed, why }
}

fn finding(pairing: &GroupPairing, p: f64, figures: usize) -> ComparisonFinding {
    let (base, other) = (pairing.base.len(), pairing.other.len());
    let needed = statistics::runs_needed(figures, ALPHA);
    if statistics::smallest_p(base, other) > ALPHA {
        let why = format!("{needed} runs of each would be needed");
        return unknown(vec![why], Some(needed));
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
        let why = format!(
            "no run of the one is among those of the other, but of {figures} figures one may look \
             so by chance; {needed} runs of each would be needed"
        );
        return ComparisonFinding { p: Some(p), ..unknown(vec![why], Some(needed)) };
    }
    ComparisonFinding {
        answer: FindingAnswer::NotShown,
        p: Some(p),
        runs_needed: None,
        why: Vec::new(),
    }
}

/// Compares one figure of two groups of runs, which was chosen before it was looked at; so nothing
/// is adjusted. Without an estimate when a figure is not above 0, or a group is empty.
#[must_use]
pub fn one_figure(base: &[f64], other: &[f64]) -> (ComparisonFinding, Option<Estimate>) {
    let pairing = GroupPairing { base: base.to_vec(), other: other.to_vec() };
    let p = statistics::adjusted(std::slice::from_ref(&pairing)).first().copied().unwrap_or(1.0);
    (finding(&pairing, p, 1), estimate(&pairing))
}

fn estimate(pairing: &GroupPairing) -> Option<Estimate> {
    let (ratio, interval) = statistics::times(pairing, ALPHA)?;
    let (least, most) = (interval.map(|it| it.0), interval.map(|it| it.1));
    Some(Estimate { ratio, least, most })
}

/// Whether all of one group are below all of the other.
fn is_apart(pairing: &GroupPairing) -> bool {
    let below = |a: &[f64], b: &[f64]| a.iter().all(|a| b.iter().all(|b| a < b));
    below(&pairing.base, &pairing.other) || below(&pairing.other, &pairing.base)
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
