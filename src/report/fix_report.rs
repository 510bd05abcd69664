//! The blocks of a [`FixReport`]: the observations, the fixes after each, and what remains with the
//! reason. Pure.

use super::blocks::{
    ReportBlock, Table, TableCell, TableColumn, TextLine, TextPart, TextTone, words,
};
use super::table::span;
use super::verdict::{self, WatchedRun};
use crate::documents::fix_report::{
    FixEnd, FixOutcome, FixReport, FixRound, MissingPart, RemainingLeak,
};

/// Rows of one kind that a round lists; the others are counted.
const ROWS_MAX: usize = 12;

impl FixReport {
    /// The blocks of `cpushield verify --fix`: each round with its fixes, the last verdict, and
    /// what remains.
    #[must_use]
    pub fn blocks(&self) -> Vec<ReportBlock> {
        let mut blocks = Vec::new();
        for (n, round) in (1..).zip(&self.rounds) {
            let mut line = round.summary();
            line.parts.insert(0, TextPart::new(format!("Round {n}: ")));
            blocks.push(ReportBlock::line(line));
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
            1 => "1 change is now part of the shield, and undo reverts it".to_owned(),
            n => {
                format!("{n} changes are now part of the shield, and undo reverts them")
            }
        };
        let (tone, end) = match self.end {
            FixEnd::Holds => (TextTone::Good, "The shield holds".to_owned()),
            FixEnd::NothingMore => (TextTone::Plain, "Nothing more can be done now".to_owned()),
            FixEnd::Stopped => (TextTone::Doubt, "Stopped".to_owned()),
            FixEnd::TooOften => {
                let rounds = self.rounds.len();
                let why = "because the fixes do not last: another process may undo them";
                (TextTone::Bad, format!("Stopped after {rounds} rounds, {why}"))
            }
        };
        let end =
            TextLine::of(vec![TextPart::toned(tone, end), TextPart::new(format!(": {changes}."))]);
        let remains = self.remains.iter().map(|leak| {
            let RemainingLeak { cpu, what, count, why, .. } = leak;
            let (what, cpu) = (TableCell::new(what), TableCell::new(cpu));
            vec![what, cpu, TableCell::new(count), TableCell::new(why)]
        });
        let mut columns = TableColumn::words_and_numbers(&["what"], &["CPU", "count"]);
        columns.push(TableColumn::remarks("why"));
        let remains = Table::new("What remains", columns, remains.collect());
        let lacks = self.lacks.iter().map(|part| {
            let MissingPart { tunable, subject, why } = part;
            vec![TableCell::new(tunable), TableCell::code(subject), TableCell::new(why)]
        });
        let columns = ["tunable", "setting", "why"];
        let lacks = Table::new("What the shield lacks", columns, lacks.collect()).with_remarks();
        let tables = [remains, lacks].into_iter().filter_map(Table::into_block);
        [ReportBlock::line(end)].into_iter().chain(tables).collect()
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
            let entries = seen
                .entries
                .map_or(String::new(), |n| format!(", {} kernel entries", words::grouped(n)));
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
        let table = Table::new("Fixes", ["tunable", "setting", "result", "why"], rows.collect())
            .without_empty_columns();
        let more = verdict::more_line(fixes.count(), ROWS_MAX, "more").map(TextLine::below);
        let more = more.map(ReportBlock::line);
        table.into_block().into_iter().chain(more).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causes::{Cause, Culprit};
    use crate::change::EffectTime;
    use crate::documents::evidence::{
        CpuVerdict, Evidence, InterruptionCount, Leak, Verdict, VerdictState, WitnessKind,
    };
    use crate::documents::fix_report::{
        AppliedFix, MissingChangeReason, SCHEMA, remains, withdraw_applied,
    };
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
            "schema": 1, "began_ns": 0, "span_ns": 2_000_000_000_u64, "asked_ns": 2_000_000_000_u64,
            "stopped": false, "workload": "sampler",
            "cpus": [{
                "cpu": 3, "entries": leaks.len() * 7, "interruptions": [], "longest_ns": null,
                "gaps": null, "lost": 0, "steal_ns": null, "doubts": [], "whole": false,
                "tracked": false, "senders": [], "events": []
            }],
            "witnesses": [], "control": {"control": "seen", "provoked": []}
        });
        let evidence: Evidence = serde_json::from_value(evidence).unwrap();
        let state = if leaks.is_empty() { VerdictState::Holds } else { VerdictState::Leaks };
        let (one_witness, unwatched, unknown) = (Vec::new(), Vec::new(), Vec::new());
        let (cpu, limits) = (3, None);
        let cpu = CpuVerdict {
            cpu,
            state,
            apart_from: None,
            limits,
            leaks,
            one_witness,
            unwatched,
            unknown,
        };
        let verdict =
            Verdict { schema: 1, cpus: vec![cpu], gates: Vec::new(), tick: Default::default() };
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
        let mut rounds = vec![round(first, done), round(last, Vec::new())];
        let lacks = vec![MissingPart {
            tunable: "irq-affinity".to_owned(),
            subject: irq_file.to_owned(),
            why: MissingChangeReason::Refused {
                answer: Some("EIO: Input/output error".to_owned()),
            },
        }];
        let remains = remains(&rounds, &lacks);
        withdraw_applied(&mut rounds, &lacks);
        let offered = rounds[1].verdict.cpus[0].leaks.iter().map(|leak| leak.remedy.is_some());
        assert_eq!(offered.collect::<Vec<_>>(), [true, true, false, false]);
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
Nothing more can be done now: 1 change is now part of the shield, and undo reverts it.

What remains
  what            CPU  count  why
  tick              3      7  only a boot parameter removes it: nohz_full=3
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
