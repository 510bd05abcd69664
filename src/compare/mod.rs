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
use std::fmt;

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
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompareError {
    /// There are fewer than two groups.
    TooFew,
    /// Two groups have the same name.
    Name {
        /// The name.
        name: String,
    },
    /// A group has no runs.
    Empty {
        /// The group.
        group: String,
    },
    /// Two runs are the same document.
    Same {
        /// The first run.
        one: String,
        /// The second run.
        other: String,
    },
    /// Two runs measure different things.
    Instruments {
        /// The first run, with its instrument.
        one: (String, String),
        /// The second run, with its instrument.
        other: (String, String),
    },
    /// Two runs of one group are of different shields.
    Shields {
        /// The group.
        group: String,
        /// The first run, with its shield.
        one: (String, String),
        /// The second run, with its shield.
        other: (String, String),
    },
    /// One group has only outputs of `latency`, and the other only outputs of `verify`.
    Kinds {
        /// The base, with its subcommand.
        base: (String, &'static str),
        /// The other group, with its subcommand.
        other: (String, &'static str),
    },
    /// Two groups have no figure in common.
    Nothing {
        /// The base.
        base: String,
        /// The other group.
        other: String,
    },
    /// A document is damaged.
    Damaged {
        /// The run.
        run: String,
        /// What is wrong.
        why: latency::HistogramError,
    },
}

impl fmt::Display for CompareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompareError::TooFew => f.write_str("a comparison needs at least two groups"),
            CompareError::Name { name } => write!(f, "two groups have the name {name}"),
            CompareError::Empty { group } => write!(f, "group {group} has no runs"),
            CompareError::Same { one, other } => {
                write!(f, "{one} and {other} are the same run")
            }
            CompareError::Instruments { one, other } => write!(
                f,
                "not comparable: {} measured {}, {} measured {}",
                one.0, one.1, other.0, other.1
            ),
            CompareError::Shields { group, one, other } => write!(
                f,
                "group {group} mixes shields: {} belongs to shield {}, {} to shield {}",
                one.0, one.1, other.0, other.1
            ),
            CompareError::Kinds { base, other } => write!(
                f,
                "not comparable: {} has outputs of `{}`, {} of `{}`",
                base.0, base.1, other.0, other.1
            ),
            CompareError::Nothing { base, other } => {
                write!(f, "not comparable: {base} and {other} have no figure in common")
            }
            CompareError::Damaged { run, why } => write!(f, "{run}: {why}"),
        }
    }
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

/// Checks that no two runs of a group name different shields. A run without a name, such as one of
/// an older version, may be of any.
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
