//! The [`FixReport`] document of `cpushield verify --fix` and its blocks: the observations, the
//! fixes after each, and what remains with the reason. Pure.

use super::blocks::{ReportBlock, Table, TableCell, TableColumn, TextLine, TextPart, TextTone};
pub use super::fix_reason::{MissingChangeReason, RemainReason};
use super::table::span;
use super::verdict::{self, WatchedRun};
use crate::apply::AppliedStep;
use crate::change::{EffectTime, Outcome};
use crate::documents::evidence::{Evidence, Leak, Verdict};
use serde::{Deserialize, Serialize};

/// The version of the document's form.
pub const SCHEMA: u32 = 1;

/// Rows of one kind that a round lists; the others are counted.
const ROWS_MAX: usize = 12;

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
    #[serde(with = "crate::with_text")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::with_text::WithText<RemainReason>"))]
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
    #[serde(with = "crate::with_text")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "crate::with_text::WithText<MissingChangeReason>")
    )]
    pub why: MissingChangeReason,
}

impl AppliedFix {
    /// The fix that an applied step made.
    #[must_use]
    pub fn from_step(step: &AppliedStep) -> AppliedFix {
        let (result, why) = match &step.done.outcome {
            Outcome::Changed => {
                (FixOutcome::Changed, step.done.note.as_ref().map(ToString::to_string))
            }
            Outcome::AlreadySo => (FixOutcome::AlreadySo, None),
            Outcome::Refused { reason, .. } => (FixOutcome::Refused, Some(reason.clone())),
            Outcome::Absent => (FixOutcome::Absent, None),
        };
        AppliedFix { tunable: step.tunable.clone(), subject: step.subject.clone(), result, why }
    }
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

    /// The blocks of `cpushield verify --fix`: each round with its fixes, the last verdict, and
    /// what remains.
    #[must_use]
    pub fn blocks(&self) -> Vec<ReportBlock> {
        let mut blocks = Vec::new();
        for (n, round) in (1..).zip(&self.rounds) {
            let mut line = round.summary();
            line.parts.insert(0, TextPart::new(format!("Round {n}: ")));
            blocks.push(ReportBlock::Lines(vec![line]));
            if n < self.rounds.len() {
                blocks.extend(round.run().remaining("Interruptions", ROWS_MAX));
            }
            blocks.extend(round.fixes());
            blocks.push(ReportBlock::Space);
        }
        if let Some(last) = self.rounds.last() {
            blocks.extend(verdict::blocks(&last.evidence, &last.verdict));
            blocks.push(ReportBlock::Space);
        }
        blocks.extend(self.conclusion());
        blocks
    }

    /// Why there was no further round, what remains, and what the shield lacks.
    #[must_use]
    pub fn conclusion(&self) -> Vec<ReportBlock> {
        let changes = match self.changes() {
            0 => "nothing was changed".to_owned(),
            1 => "1 change is part of the shield now, and `cpushield undo` reverts it".to_owned(),
            n => {
                format!("{n} changes are part of the shield now, and `cpushield undo` reverts them")
            }
        };
        let (tone, end) = match self.end {
            FixEnd::Holds => (TextTone::Good, "The shield holds".to_owned()),
            FixEnd::NothingMore => (TextTone::Plain, "Nothing more can be done now".to_owned()),
            FixEnd::Stopped => (TextTone::Doubt, "Stopped".to_owned()),
            FixEnd::TooOften => {
                let rounds = self.rounds.len();
                let why = "because another process undoes the fixes";
                (TextTone::Bad, format!("Stopped after {rounds} rounds, {why}"))
            }
        };
        let end =
            TextLine::of(vec![TextPart::toned(tone, end), TextPart::new(format!(": {changes}."))]);
        let remains = self.remains.iter().map(|leak| {
            let RemainingLeak { cpu, what, count, why, .. } = leak;
            [what, &cpu.to_string(), &count.to_string(), &why.to_string()]
                .map(TableCell::new)
                .to_vec()
        });
        let mut columns = vec![TableColumn::words("what")];
        columns.extend(["CPU", "count"].map(TableColumn::numbers));
        columns.push(TableColumn::remarks("why"));
        let remains = Table::new("What remains", columns, remains.collect());
        let lacks = self.lacks.iter().map(|part| {
            let MissingPart { tunable, subject, why } = part;
            vec![TableCell::new(tunable), TableCell::code(subject), TableCell::new(why.to_string())]
        });
        let mut columns = ["tunable", "setting"].map(TableColumn::words).to_vec();
        columns.push(TableColumn::remarks("why"));
        let lacks = Table::new("What the shield lacks", columns, lacks.collect());
        let tables = [remains, lacks].into_iter().filter_map(Table::into_block);
        [ReportBlock::Lines(vec![end])].into_iter().chain(tables).collect()
    }
}

impl FixRound {
    /// The observation without a name.
    fn run(&self) -> WatchedRun<'_> {
        WatchedRun { name: "", evidence: &self.evidence, verdict: Some(&self.verdict) }
    }

    /// One line: each CPU with its verdict and its kernel entries.
    #[must_use]
    pub fn summary(&self) -> TextLine {
        let mut parts = Vec::new();
        for (seen, judged) in self.evidence.cpus.iter().zip(&self.verdict.cpus) {
            let between = if parts.is_empty() { "" } else { "; " };
            let entries = seen.entries.map_or(String::new(), |n| format!(", {n} kernel entries"));
            parts.push(TextPart::new(format!("{between}CPU {} ", seen.cpu)));
            parts.push(TextPart::toned(verdict::tone(judged.state), verdict::word(judged.state)));
            parts.push(TextPart::new(entries));
        }
        parts.push(TextPart::new(format!(" in {}", span(self.evidence.span_ns))));
        TextLine::of(parts)
    }

    /// The fixes, without those whose setting was already right.
    fn fixes(&self) -> Vec<ReportBlock> {
        let fixes = self.done.iter().filter(|fix| fix.result != FixOutcome::AlreadySo);
        let rows = fixes.clone().take(ROWS_MAX).map(|fix| {
            let (tone, word) = match fix.result {
                FixOutcome::Changed | FixOutcome::AlreadySo => (TextTone::Good, "changed"),
                FixOutcome::Refused => (TextTone::Bad, "refused"),
                FixOutcome::Absent => (TextTone::Plain, "does not exist"),
            };
            let why = fix.why.as_deref().unwrap_or_default();
            let (tunable, subject) = (TableCell::new(&fix.tunable), TableCell::code(&fix.subject));
            vec![tunable, subject, TableCell::toned(tone, word), TableCell::new(why)]
        });
        let columns = ["tunable", "setting", "result", "why"].map(TableColumn::words).to_vec();
        let table = Table::new("Fixes", columns, rows.collect()).without_empty_columns();
        let more = verdict::more_line(fixes.count(), ROWS_MAX, "more").map(TextLine::below);
        let more = more.map(|line| ReportBlock::Lines(vec![line]));
        table.into_block().into_iter().chain(more).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causes::{Cause, Culprit};
    use crate::documents::evidence::{CpuVerdict, InterruptionCount, VerdictState, WitnessKind};
    use crate::documents::remedy::Remedy;
    use crate::report::blocks::{terminal_blocks, unpainted};

    fn leak(cause: Cause, culprit: &str, remedy: Option<(&str, EffectTime, &str)>) -> Leak {
        let interruptions = InterruptionCount {
            cause,
            culprit: Culprit::shown(cause, culprit),
            count: 7,
            nested: 0,
            time_ns: None,
            max_ns: None,
            witness: WitnessKind::Trace,
            stack: Vec::new(),
        };
        let remedy = remedy.map(|(tunable, when, how)| Remedy {
            tunable: tunable.to_owned(),
            when,
            how: how.to_owned(),
        });
        Leak { interruptions, remedy, why_none: None, device: None }
    }

    fn fix(tunable: &str, subject: &str, result: FixOutcome) -> AppliedFix {
        let why = (result == FixOutcome::Refused).then(|| "EIO: Input/output error".to_owned());
        AppliedFix { tunable: tunable.to_owned(), subject: subject.to_owned(), result, why }
    }

    fn round(leaks: Vec<Leak>, done: Vec<AppliedFix>) -> FixRound {
        let evidence = serde_json::json!({
            "schema": 1, "span_ns": 2_000_000_000_u64, "stopped": false, "workload": "sampler",
            "cpus": [{
                "cpu": 3, "entries": leaks.len() * 7, "interruptions": [], "longest_ns": null,
                "gaps": null, "lost": 0, "steal_ns": null, "doubts": []
            }],
            "witnesses": [], "control": {"control": "seen", "provoked": []}
        });
        let evidence: Evidence = serde_json::from_value(evidence).unwrap();
        let state = if leaks.is_empty() { VerdictState::Holds } else { VerdictState::Leaks };
        let (one_witness, unwatched, unknown) = (Vec::new(), Vec::new(), Vec::new());
        let (cpu, limits) = (3, None);
        let cpu = CpuVerdict { cpu, state, limits, leaks, one_witness, unwatched, unknown };
        let verdict = Verdict { schema: 1, cpus: vec![cpu], gates: Vec::new() };
        FixRound { evidence, verdict, done }
    }

    #[test]
    fn the_text_shows_each_round_and_what_remains_with_its_reason() {
        let now = |tunable| Some((tunable, EffectTime::Runtime, "echo"));
        let tick = || leak(Cause::Tick, "", Some(("nohz-full", EffectTime::Boot, "nohz_full=3")));
        let irq = || leak(Cause::Irq, "IRQ 9 acpi", now("irq-affinity"));
        let first = vec![
            tick(),
            irq(),
            leak(Cause::Timer, "vmstat_update", now("vm-stat-interval")),
            leak(Cause::Kthread, "odd", None),
        ];
        let irq_file = "/proc/irq/9/smp_affinity_list";
        let done = vec![
            fix("irq-affinity", irq_file, FixOutcome::Refused),
            fix("vm-stat-interval", "/proc/sys/vm/stat_interval", FixOutcome::Changed),
            fix("kthreads", "affinity of kswapd0 (9)", FixOutcome::AlreadySo),
        ];
        let last = vec![
            tick(),
            irq(),
            leak(Cause::Kthread, "odd", None),
            leak(Cause::Timer, "late", now("vm-stat-interval")),
        ];
        let rounds = vec![round(first, done), round(last, Vec::new())];
        let lacks = vec![MissingPart {
            tunable: "irq-affinity".to_owned(),
            subject: irq_file.to_owned(),
            why: MissingChangeReason::Refused {
                answer: Some("EIO: Input/output error".to_owned()),
            },
        }];
        let remains = remains(&rounds, &lacks);
        let fixed = FixReport { schema: SCHEMA, rounds, end: FixEnd::NothingMore, remains, lacks };
        let text = terminal_blocks(&fixed.blocks(), 120, &unpainted);
        let start = "\
Round 1: CPU 3 leaks, 28 kernel entries in 2.00 s

Interruptions
  cause    culprit                           CPU  count  remedy
  tick     -                                   3      7  at boot: nohz_full=3
  irq      IRQ 9 acpi                          3      7  irq-affinity: echo
  timer    vmstat_update: memory statistics    3      7  vm-stat-interval: echo
  kthread  odd                                 3      7  none known

Fixes
  tunable           setting                        result   why
  irq-affinity      /proc/irq/9/smp_affinity_list  refused  EIO: Input/output error
  vm-stat-interval  /proc/sys/vm/stat_interval     changed

Round 2: CPU 3 leaks, 28 kernel entries in 2.00 s

CPU 3: leaks, 28 kernel entries in 2.00 s (14.0/s)
";
        assert!(text.starts_with(start), "{text}");
        let end = "
Nothing more can be done now: 1 change is part of the shield now, and `cpushield undo` reverts it.

What remains
  what            CPU  count  why
  tick              3      7  only a boot with nohz_full=3 removes it
  irq IRQ 9 acpi    3      7  irq-affinity: /proc/irq/9/smp_affinity_list: the kernel refuses: \
                   EIO: Input/output error
  kthread odd       3      7  no known tunable removes it
  timer late        3      7  vm-stat-interval was applied, but the interruption is still there

What the shield lacks
  tunable       setting                        why
  irq-affinity  /proc/irq/9/smp_affinity_list  the kernel refuses: EIO: Input/output error
";
        assert!(text.ends_with(end), "{text}");
        assert_eq!(fixed.remains[0].boot.as_deref(), Some("nohz_full=3"));
    }
}
