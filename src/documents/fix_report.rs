//! The [`FixReport`] document of `cpushield verify --fix`: the observations, the fixes after each,
//! and what remains with the reason. Pure.

use super::evidence::{Evidence, Leak, RemedyObstacle, Verdict};
pub use super::fix_reason::{MissingChangeReason, RemainReason};
use crate::change::EffectTime;
use serde::{Deserialize, Serialize};

/// The version of the document's form.
pub const SCHEMA: u32 = 1;

/// The result of `verify --fix`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FixReport {
    /// The version of this form.
    pub schema: u32,
    /// Each observation with the fixes after it; the last round has no fixes.
    pub rounds: Vec<FixRound>,
    /// Why there was no further round.
    pub end: FixEnd,
    /// What still interrupts the shield, and why it remains.
    pub remains: Vec<RemainingLeak>,
    /// What the shield still lacks, and why.
    pub lacks: Vec<MissingPart>,
}

/// One observation, and the fixes that followed from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FixRound {
    /// What was observed.
    pub evidence: Evidence,
    /// The verdict on the evidence.
    pub verdict: Verdict,
    /// The fixes.
    pub done: Vec<AppliedFix>,
}

/// A change that was made or attempted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AppliedFix {
    /// The tunable that requires it.
    pub tunable: String,
    /// The object of the change.
    pub subject: String,
    /// The outcome.
    pub result: FixOutcome,
    /// The kernel's reason, or a note.
    pub why: Option<String>,
}

/// The outcome of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FixOutcome {
    /// The change took effect.
    Changed,
    /// The setting already had the value.
    AlreadySo,
    /// The kernel refused.
    Refused,
    /// The object of the change no longer exists.
    Absent,
}

/// Why there was no further round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FixEnd {
    /// The shield holds and lacks nothing that could be fixed.
    Holds,
    /// Nothing more can be done now.
    NothingMore,
    /// It was stopped; the fixes until then stay.
    Stopped,
    /// There were too many rounds: another process undoes the fixes.
    TooOften,
}

/// Something that still interrupts the shield.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RemainingLeak {
    /// The CPU.
    pub cpu: usize,
    /// The cause and the culprit.
    pub what: String,
    /// The number of interruptions.
    pub count: u64,
    /// Why it remains.
    #[serde(with = "crate::with_text::WithText::<RemainReason>")]
    pub why: RemainReason,
    /// The boot parameter that removes it.
    pub boot: Option<String>,
}

/// A change that the shield lacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MissingPart {
    /// The tunable that requires it.
    pub tunable: String,
    /// The object of the change.
    pub subject: String,
    /// Why it was not changed.
    #[serde(with = "crate::with_text::WithText::<MissingChangeReason>")]
    pub why: MissingChangeReason,
}

/// What still interrupts the shield after the last round, each with the reason why it remains.
#[must_use]
pub fn remains(rounds: &[FixRound], lacks: &[MissingPart]) -> Vec<RemainingLeak> {
    let Some(last) = rounds.last() else { return Vec::new() };
    let done: Vec<&AppliedFix> = rounds.iter().flat_map(|round| &round.done).collect();
    let mut remains = Vec::new();
    for judged in &last.verdict.cpus {
        remains.extend(judged.leaks.iter().map(|leak| {
            let seen = &leak.interruptions;
            let (why, boot) = explain_remaining(leak, &done, lacks);
            let what = format!("{} {}", seen.cause, seen.culprit).trim().to_owned();
            RemainingLeak { cpu: judged.cpu, what, count: seen.count.max(seen.nested), why, boot }
        }));
    }
    remains
}

/// Removes the remedies that were applied in vain from the last verdict, so that it does not offer
/// them again.
pub fn withdraw_applied(rounds: &mut [FixRound], lacks: &[MissingPart]) {
    let Some((FixRound { done, verdict, .. }, earlier)) = rounds.split_last_mut() else { return };
    let earlier = earlier.iter().flat_map(|round| &round.done);
    let done: Vec<&AppliedFix> = earlier.chain(&*done).collect();
    for leak in verdict.cpus.iter_mut().flat_map(|cpu| &mut cpu.leaks) {
        if let (RemainReason::NotRemoved { tunable }, _) = explain_remaining(leak, &done, lacks) {
            (leak.remedy, leak.why_none) = (None, Some(RemedyObstacle::Applied { tunable }));
        }
    }
}

/// Why an interruption remains, and the boot parameter that removes it.
fn explain_remaining(
    leak: &Leak,
    done: &[&AppliedFix],
    lacks: &[MissingPart],
) -> (RemainReason, Option<String>) {
    let Some(remedy) = &leak.remedy else {
        let obstacle = leak.why_none.clone();
        let why = obstacle
            .map_or(RemainReason::NoTunable, |obstacle| RemainReason::Obstacle { obstacle });
        return (why, None);
    };
    let how = remedy.how.clone();
    if remedy.when == EffectTime::Boot {
        return (RemainReason::OnlyAtBoot { parameter: how.clone() }, Some(how));
    }
    let tunable = remedy.tunable.clone();
    let lack = lacks.iter().find(|lack| lack.tunable == tunable);
    let why = match (lack, done.iter().any(|fix| fix.tunable == tunable)) {
        (Some(lack), _) => {
            let (subject, why) = (lack.subject.clone(), lack.why.clone());
            RemainReason::ChangeMissing { tunable, subject, why }
        }
        (None, true) => RemainReason::NotRemoved { tunable },
        (None, false) => RemainReason::OffByDefault { tunable, how },
    };
    (why, None)
}

impl FixReport {
    /// How many changes took effect.
    #[must_use]
    pub fn changes(&self) -> usize {
        let done = self.rounds.iter().flat_map(|round| &round.done);
        done.filter(|fix| fix.result == FixOutcome::Changed).count()
    }
}
