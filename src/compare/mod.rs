//! Compare: groups of documents ([`GivenGroup`]) → [`Comparison`]: ratios of the worst case,
//! percentiles, jitter, noise and throughput. It also finds other differences between the groups
//! (`traits`), the order of the runs (`sequence`), and which differences are significant
//! (`statistics`).
//!
//! A run contributes one value to each figure. The thousands of samples inside a run are not
//! independent, so only repeated runs can show chance: with one run of each, it claims nothing. See
//! `finding.rs`.

mod figures;
mod finding;
mod sequence;
mod statistics;
mod traits;

pub use crate::documents::comparison::*;
pub use finding::{OneFigure, one_figure};
pub use statistics::median;

use crate::documents::evidence::{CpuVerdict, Evidence, JudgeReason, Verdict};
use crate::documents::latency::LatencyMeasurement;
use crate::latency;
use cpushield_sentence::Sentence;

/// A group of runs to compare.
#[derive(Debug, Clone, PartialEq)]
pub struct GivenGroup {
    /// Its name.
    pub name: String,
    /// Its runs.
    pub runs: Vec<GivenRun>,
}

/// One run to compare.
#[derive(Debug, Clone, PartialEq)]
pub struct GivenRun {
    /// Its name: the file.
    pub name: String,
    /// Its document.
    pub measured: MeasuredDocument,
}

/// A document that can be compared.
#[derive(Debug, Clone, PartialEq)]
pub enum MeasuredDocument {
    /// From `latency --json`.
    Latency(Box<LatencyMeasurement>),
    /// From `verify --json`.
    Verify(Box<Evidence>, Box<Verdict>),
}

/// Why nothing can be compared.
#[derive(Debug, Clone, PartialEq, Eq, Sentence)]
#[kind(Usage)]
pub enum CompareError {
    /// a comparison needs at least two groups.
    #[hint("cpushield compare before=a1.json,a2.json after=b1.json,b2.json")]
    TooFew,
    /// two groups have the name {name}.
    #[hint("cpushield compare before=a1.json,a2.json after=b1.json,b2.json")]
    Name {
        /// The name.
        name: String,
    },
    /// group {group} has no runs.
    #[hint("cpushield compare before=a1.json,a2.json after=b1.json,b2.json")]
    Empty {
        /// The group.
        group: String,
    },
    /// {one} and {other} are the same run.
    #[hint("each repetition must be a separate run: remove one of the two files")]
    Same {
        /// The first run.
        one: String,
        /// The second run.
        other: String,
    },
    /// not comparable: {a} measured {of_a}, {b} measured {of_b}.
    #[with(a = &one.0, of_a = &one.1, b = &other.0, of_b = &other.1)]
    #[hint("compare runs of the same instrument")]
    Instruments {
        /// The first run, with its instrument.
        one: (String, String),
        /// The second run, with its instrument.
        other: (String, String),
    },
    /// group {group} mixes shields: {a} belongs to shield {of_a}, {b} to shield {of_b}.
    #[with(a = &one.0, of_a = &one.1, b = &other.0, of_b = &other.1)]
    #[hint("make one group per shield: a=a1.json,a2.json b=b1.json,b2.json")]
    Shields {
        /// The group.
        group: String,
        /// The first run, with its shield.
        one: (String, String),
        /// The second run, with its shield.
        other: (String, String),
    },
    /// not comparable: {a} has outputs of `{of_a}`, {b} of `{of_b}`.
    #[with(a = &base.0, of_a = base.1, b = &other.0, of_b = other.1)]
    #[hint("compare two outputs of the same subcommand")]
    Kinds {
        /// The base, with its subcommand.
        base: (String, &'static str),
        /// The other group, with its subcommand.
        other: (String, &'static str),
    },
    /// not comparable: {base} and {other} have no figure in common.
    #[hint("measure both groups with the same --thread periods")]
    Nothing {
        /// The base.
        base: String,
        /// The other group.
        other: String,
    },
    /// {run}: {why}.
    #[hint("repeat the measurement")]
    Damaged {
        /// The run.
        run: String,
        /// What is wrong.
        why: latency::HistogramError,
    },
}

impl std::error::Error for CompareError {}

/// Compares each group with the first.
///
/// # Errors
/// The groups cannot be compared at all. What makes a comparison doubtful is a doubt in the
/// document.
pub fn compare(groups: &[GivenGroup]) -> Result<Comparison, CompareError> {
    check(groups)?;
    let (base, others) = groups.split_first().ok_or(CompareError::TooFew)?;
    let pairs = others.iter().map(|other| pair(base, other)).collect::<Result<_, _>>()?;
    Ok(Comparison {
        schema: SCHEMA,
        alpha: ALPHA,
        groups: groups.iter().map(describe_group).collect(),
        pairs,
    })
}

fn check(groups: &[GivenGroup]) -> Result<(), CompareError> {
    if groups.len() < 2 {
        return Err(CompareError::TooFew);
    }
    let runs: Vec<&GivenRun> = groups.iter().flat_map(|group| &group.runs).collect();
    for (n, one) in runs.iter().enumerate() {
        for other in runs.iter().skip(n + 1) {
            // A run that is counted twice would pass for a repetition.
            if one.measured == other.measured {
                let (one, other) = (one.name.clone(), other.name.clone());
                return Err(CompareError::Same { one, other });
            }
            if let (MeasuredDocument::Latency(a), MeasuredDocument::Latency(b)) =
                (&one.measured, &other.measured)
                && a.instrument != b.instrument
            {
                let one = (one.name.clone(), a.instrument.clone());
                let other = (other.name.clone(), b.instrument.clone());
                return Err(CompareError::Instruments { one, other });
            }
        }
    }
    for (n, group) in groups.iter().enumerate() {
        if group.runs.is_empty() {
            return Err(CompareError::Empty { group: group.name.clone() });
        }
        if groups.iter().skip(n + 1).any(|other| other.name == group.name) {
            return Err(CompareError::Name { name: group.name.clone() });
        }
        check_shields(group)?;
    }
    Ok(())
}

/// Checks that no two runs of a group name different shields. A run without a name may be of
/// any.
fn check_shields(group: &GivenGroup) -> Result<(), CompareError> {
    let mut named = group.runs.iter().filter_map(|run| Some((run.name.clone(), run.shield()?)));
    let Some((run, shield)) = named.next() else { return Ok(()) };
    match named.find(|(_, other)| *other != shield) {
        None => Ok(()),
        Some((other_run, other)) => Err(CompareError::Shields {
            group: group.name.clone(),
            one: (run, shield.to_owned()),
            other: (other_run, other.to_owned()),
        }),
    }
}

fn pair(base: &GivenGroup, other: &GivenGroup) -> Result<GroupPair, CompareError> {
    let mut drafts = figures::drafts(base, other)?;
    if drafts.is_empty() {
        let kinds = [base, other].map(only_kind);
        let (base, other) = (base.name.clone(), other.name.clone());
        if let [Some(ours), Some(theirs)] = kinds
            && ours != theirs
        {
            return Err(CompareError::Kinds { base: (base, ours), other: (other, theirs) });
        }
        return Err(CompareError::Nothing { base, other });
    }
    finding::exclude_doubtful(&mut drafts, base, other);
    let sequence = sequence::run_order(base, other);
    let mut doubts = sequence::doubts(sequence, base, other);
    doubts.extend(traits::inconsistencies(base));
    doubts.extend(traits::inconsistencies(other));
    Ok(GroupPair {
        base: base.name.clone(),
        other: other.name.clone(),
        sequence,
        differences: traits::differences(base, other),
        rows: finding::judge(drafts),
        doubts,
        notes: figures::notes(base, other),
    })
}

/// The subcommand whose outputs the runs of a group are; `None` if they are of both kinds.
fn only_kind(group: &GivenGroup) -> Option<&'static str> {
    let count = group.runs.iter().filter(|run| run.latency().is_some()).count();
    match count {
        0 => Some("verify"),
        count if count == group.runs.len() => Some("latency"),
        _ => None,
    }
}

fn describe_group(group: &GivenGroup) -> RunGroup {
    let runs = group.runs.iter().map(|run| MeasuredRun {
        name: run.name.clone(),
        instrument: run.instrument().to_owned(),
        began_s: run.began_s(),
        span_ns: run.span_ns(),
        doubts: run.doubts(),
    });
    let shield = group.runs.iter().find_map(GivenRun::shield).map(str::to_owned);
    RunGroup { name: group.name.clone(), shield, runs: runs.collect() }
}

impl GivenRun {
    fn latency(&self) -> Option<&LatencyMeasurement> {
        match &self.measured {
            MeasuredDocument::Latency(latency) => Some(latency),
            MeasuredDocument::Verify(..) => None,
        }
    }

    fn evidence(&self) -> Option<&Evidence> {
        match &self.measured {
            MeasuredDocument::Latency(_) => None,
            MeasuredDocument::Verify(evidence, _) => Some(evidence),
        }
    }

    /// The shield that contains all its CPUs; `None` without one, or where that is not recorded.
    fn shield(&self) -> Option<&str> {
        match &self.measured {
            MeasuredDocument::Latency(latency) => latency.isolation.shield.as_deref(),
            MeasuredDocument::Verify(evidence, _) => evidence.shield.as_deref(),
        }
    }

    fn instrument(&self) -> &str {
        self.latency().map_or("verify", |latency| &latency.instrument)
    }

    fn began_s(&self) -> Option<u64> {
        let measured = self.latency().map(|latency| latency.began_s);
        measured.or_else(|| self.evidence()?.began_s)
    }

    fn span_ns(&self) -> u64 {
        match &self.measured {
            MeasuredDocument::Latency(latency) => latency.span_ns,
            MeasuredDocument::Verify(evidence, _) => evidence.span_ns,
        }
    }

    /// The reasons why its figures are doubtful.
    fn doubts(&self) -> Vec<RunDoubt> {
        match &self.measured {
            MeasuredDocument::Latency(latency) => {
                let doubts = latency.every_doubt().into_iter();
                doubts.map(|doubt| RunDoubt::Measurement { doubt }).collect()
            }
            MeasuredDocument::Verify(evidence, verdict) => verify_doubts(evidence, verdict),
        }
    }
}

/// The doubts about a run of `verify`, each once.
fn verify_doubts(evidence: &Evidence, verdict: &Verdict) -> Vec<RunDoubt> {
    let mut doubts: Vec<RunDoubt> = Vec::new();
    for cpu in &evidence.cpus {
        let figures = cpu.doubts.iter().cloned();
        doubts.extend(figures.map(|doubt| RunDoubt::CpuFigures { cpu: cpu.cpu, doubt }));
    }
    for CpuVerdict { cpu, unknown, .. } in &verdict.cpus {
        for reason in unknown.iter().cloned() {
            let doubt = match reason {
                JudgeReason::FiguresDoubtful { doubt } => RunDoubt::CpuFigures { cpu: *cpu, doubt },
                reason => RunDoubt::CpuVerdict { cpu: *cpu, reason },
            };
            if !doubts.contains(&doubt) {
                doubts.push(doubt);
            }
        }
    }
    if evidence.stopped {
        doubts.push(RunDoubt::StoppedEarly);
    }
    doubts
}

#[cfg(test)]
mod tests;
