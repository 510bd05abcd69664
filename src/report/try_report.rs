//! The blocks of a [`TryReport`]: the CPU and why it was chosen, the changes, the interruptions
//! before the shield and under it, what remains with its remedies, and whether everything was
//! restored. Pure.

use crate::causes::{Cause, Culprit};
use crate::documents::count_text::many;
use crate::documents::evidence::CpuEvidence;
use crate::documents::inapplicable::InapplicableReason;
use crate::documents::load_price::LoadPrice;
use crate::documents::remedy::RemedyObstacle;
use crate::documents::try_report::TryReport;
use crate::report::applied::shield_line;
use crate::report::blocks::{
    ReportBlock, Table, TableCell, TableColumn, TextLine, TextPart, TextTone,
};
use crate::report::table::{rate, span};
use crate::report::verdict::{WatchedRun, blind_spot_block};
use std::collections::BTreeMap;

/// Rows that the table of interruptions lists; the others are summed up in one line.
const ROWS_MAX: usize = 12;

impl TryReport {
    /// The blocks of `cpushield try`.
    #[must_use]
    pub fn blocks(&self) -> Vec<ReportBlock> {
        let why = self.plan.why.iter().map(|why| TextLine::new(why).below());
        let shield = [shield_line(&self.plan.shield)].into_iter().chain(why).collect();
        let changes = ReportBlock::line(self.changes());
        let mut blocks = vec![ReportBlock::Lines(shield), ReportBlock::Space, changes];
        for (before, shielded) in self.before.cpus.iter().zip(&self.shielded.cpus) {
            blocks.push(self.interruptions(before, shielded));
        }
        blocks.extend(self.tick_advice());
        blocks.extend(self.price.iter().flat_map(LoadPrice::blocks));
        let (evidence, verdict) = (&self.shielded, Some(&self.verdict));
        let run = WatchedRun { name: "", evidence, verdict };
        let remaining = run.remaining("What remains", ROWS_MAX);
        if remaining.is_empty() {
            let nothing = TextLine::new("Nothing remains.");
            blocks.extend([ReportBlock::Space, ReportBlock::line(nothing)]);
        }
        blocks.extend(remaining);
        blocks.extend(blind_spot_block(&[run]));
        blocks.extend(ReportBlock::doubts("Doubtful or unknown", run.doubts()));
        blocks.extend(self.restoration());
        blocks
    }

    /// What was changed.
    fn changes(&self) -> TextLine {
        let list: Vec<String> =
            self.changed.iter().map(|(name, count)| format!("{name} {count}")).collect();
        let sum: usize = self.changed.iter().map(|(_, count)| count).sum();
        let mut text = format!("Changed {}", many(sum, "setting"));
        if !list.is_empty() {
            text.push_str(&format!(": {}", list.join(", ")));
        }
        if self.refused > 0 {
            text.push_str(&format!(". The kernel refused {}.", many(self.refused, "change")));
        }
        TextLine::new(text)
    }

    /// Why the tick remains, and the command that stops it.
    fn tick_advice(&self) -> Option<ReportBlock> {
        let ticks = |cpu: &CpuEvidence| cpu.interruptions.iter().any(|it| it.cause == Cause::Tick);
        let leaks = self.verdict.cpus.iter().flat_map(|cpu| &cpu.leaks);
        let mut of_tick = leaks.filter(|leak| leak.interruptions.cause == Cause::Tick);
        let is_impossible = of_tick.any(|leak| match &leak.why_none {
            Some(RemedyObstacle::Inapplicable { reason, .. }) => {
                *reason == InapplicableReason::TickAlwaysOn
            }
            _ => false,
        });
        self.shielded.cpus.iter().any(ticks).then(|| {
            ReportBlock::Lines(match is_impossible {
                true => vec![TextLine::new(
                    "The tick runs whenever a program runs, and this kernel cannot stop it. The \
                     kernels of Debian, Ubuntu and Fedora can.",
                )],
                false => vec![
                    TextLine::new(
                        "The tick runs whenever a program runs. Only a boot with nohz_full= stops it.",
                    ),
                    TextLine::new("Next: cpushield boot apply --trial"),
                ],
            })
        })
    }

    fn interruptions(&self, before: &CpuEvidence, shielded: &CpuEvidence) -> ReportBlock {
        let rates = |before, shielded| {
            [rate(before, self.before.span_ns), rate(shielded, self.shielded.span_ns)]
        };
        let row = |cause: &str, culprit: String, figures: [String; 2]| -> Vec<TableCell> {
            let cells = [cause.to_owned(), culprit].into_iter().chain(figures);
            cells.map(TableCell::new).collect()
        };
        let causes = side_by_side(before, shielded);
        let mut rows: Vec<Vec<TableCell>> = Vec::new();
        for TryRow { cause, culprit, before, shielded } in causes.iter().take(ROWS_MAX) {
            rows.push(row(cause.name(), culprit.to_string(), rates(*before, *shielded)));
        }
        if let Some(others) = causes.get(ROWS_MAX..).filter(|others| !others.is_empty()) {
            let before = others.iter().map(|row| row.before).sum();
            let shielded = others.iter().map(|row| row.shielded).sum();
            let kinds = format!("{} more kinds", others.len());
            rows.push(row(&kinds, String::new(), rates(before, shielded)));
        }
        let entries =
            [entry_rate(before, self.before.span_ns), entry_rate(shielded, self.shielded.span_ns)];
        rows.push(row("all entries", "including nested ones".to_owned(), entries));
        let stretches = [longest_stretch(before), longest_stretch(shielded)];
        rows.push(row("longest stretch", "uninterrupted".to_owned(), stretches));
        let words = ["cause", "culprit"];
        let columns = TableColumn::words_and_numbers(&words, &["before", "shielded"]);
        let caption = format!("Interruptions of CPU {} per second", before.cpu);
        ReportBlock::Table(Table::new(caption, columns, rows))
    }

    fn restoration(&self) -> Vec<ReportBlock> {
        if self.left.is_empty() && self.differences.is_empty() {
            let parts = vec![
                TextPart::toned(TextTone::Good, "Everything was restored"),
                TextPart::new(": a second survey finds the machine as it was before."),
            ];
            return vec![ReportBlock::Space, ReportBlock::line(TextLine::of(parts))];
        }
        let differences = self.differences.iter().map(ToString::to_string);
        let items = self.left.iter().cloned().chain(differences);
        ReportBlock::doubts("Restored, except for these differences", items).into_iter().collect()
    }
}

fn entry_rate(cpu: &CpuEvidence, span_ns: u64) -> String {
    cpu.entries.map_or("unknown".to_owned(), |n| rate(n, span_ns))
}

fn longest_stretch(cpu: &CpuEvidence) -> String {
    cpu.longest_ns.map_or("unknown".to_owned(), span)
}

/// How often one culprit interrupted the CPU before the shield and under it.
struct TryRow {
    cause: Cause,
    culprit: Culprit,
    before: u64,
    shielded: u64,
}

/// Joins the interruptions before and under the shield by cause and culprit, the most frequent
/// under the shield first.
fn side_by_side(before: &CpuEvidence, shielded: &CpuEvidence) -> Vec<TryRow> {
    let mut counts: BTreeMap<(Cause, Culprit), (u64, u64)> = BTreeMap::new();
    for seen in &before.interruptions {
        counts.entry((seen.cause, seen.culprit.clone())).or_default().0 += seen.count;
    }
    for seen in &shielded.interruptions {
        counts.entry((seen.cause, seen.culprit.clone())).or_default().1 += seen.count;
    }
    let rows = counts.into_iter().map(|((cause, culprit), (before, shielded))| TryRow {
        cause,
        culprit,
        before,
        shielded,
    });
    let mut rows: Vec<TryRow> = rows.filter(|row| row.before + row.shielded > 0).collect();
    // What remains under the shield comes first: that is what the reader must act on.
    rows.sort_by_key(|row| std::cmp::Reverse((row.shielded, row.before)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causes::Culprit;
    use crate::documents::evidence::{Evidence, InterruptionCount, WitnessKind};
    use crate::documents::plan::{ChoiceReason, Plan, Shield};
    use crate::documents::try_report::SCHEMA;
    use crate::policy::{TunableSettings, VerifyLimits, Workload};
    use crate::report::blocks::{terminal_blocks, unpainted};
    use crate::tunables::RemedyAnswer;
    use crate::verify::judge;
    use crate::verify::judge::examples;

    fn plan() -> Plan {
        let shield = Shield {
            name: "cpushield".to_owned(),
            cpus: "3".parse().unwrap(),
            idle_siblings: "".parse().unwrap(),
            offline_siblings: "".parse().unwrap(),
            housekeeping: "0-2".parse().unwrap(),
            mems: "0".parse().unwrap(),
            workload: Workload::default(),
            balanced: false,
            shares_core: false,
            takes_whole_node: false,
            max_latency_ns: None,
            tickless: Default::default(),
            evict: false,
            closed: Default::default(),
            tunables: TunableSettings::default(),
        };
        Plan {
            schema: 1,
            boot_id: None,
            kernel: None,
            shield,
            why: vec![ChoiceReason::BootCpuKept { cpu: 0 }],
            steps: Vec::new(),
            already: BTreeMap::new(),
            skipped: Vec::new(),
            immovable: Vec::new(),
            unproven: Vec::new(),
            boot: Vec::new(),
            warnings: Vec::new(),
            operators: None,
        }
    }

    /// One second with as many interruptions by these causes.
    fn evidence(counts: &[(Cause, &str, u64)]) -> Evidence {
        let mut evidence = examples::clean();
        evidence.cpus[0].entries = Some(counts.iter().map(|(_, _, count)| count).sum());
        let rows = counts.iter().map(|(cause, culprit, count)| InterruptionCount {
            cause: *cause,
            culprit: Culprit::shown(*cause, culprit),
            count: *count,
            nested: 0,
            time_ns: Some(1_000),
            max_ns: Some(1_000),
            witness: WitnessKind::Trace,
            stack: Vec::new(),
        });
        evidence.cpus[0].interruptions = rows.collect();
        evidence
    }

    #[test]
    fn the_screen_shows_both_spans_what_remains_and_the_restoration() {
        let (tick, irq) = ((Cause::Tick, "tick_nohz_handler", 250), (Cause::Irq, "IRQ 9 acpi", 7));
        let shielded = evidence(&[tick]);
        let verdict = judge(&shielded, &VerifyLimits::default(), &|_, _| RemedyAnswer::Unknown);
        let report = TryReport {
            schema: SCHEMA,
            plan: plan(),
            changed: vec![("irq-affinity".to_owned(), 2)],
            refused: 1,
            before: evidence(&[tick, irq]),
            shielded,
            verdict,
            price: None,
            restored: 2,
            left: Vec::new(),
            differences: Vec::new(),
        };
        let expected = "\
Shielded: CPU 3. Housekeeping: CPU 0-2.
  CPU 0 is the boot CPU and stays a housekeeping CPU.

Changed 2 settings: irq-affinity 2. The kernel refused 1 change.

Interruptions of CPU 3 per second
  cause            culprit                before  shielded
  tick             tick_nohz_handler         250       250
  irq              IRQ 9 acpi               7.00         -
  all entries      including nested ones     257       250
  longest stretch  uninterrupted          1.00 s    1.00 s
The tick runs whenever a program runs. Only a boot with nohz_full= stops it.
Next: cpushield boot apply --trial

What remains
  cause  culprit            CPU  count  remedy
  tick   tick_nohz_handler    3    250  none known

Everything was restored: a second survey finds the machine as it was before.
";
        assert_eq!(terminal_blocks(&report.blocks(), 100, &unpainted), expected);
        let (tunable, reason) = ("nohz-full".to_owned(), InapplicableReason::TickAlwaysOn);
        let obstacle = RemedyObstacle::Inapplicable { tunable, reason };
        let verdict = judge(&report.shielded, &VerifyLimits::default(), &|_, _| {
            RemedyAnswer::Impossible(obstacle.clone())
        });
        let report = TryReport { verdict, ..report };
        let text = terminal_blocks(&report.blocks(), 100, &unpainted);
        assert!(text.contains("this kernel cannot stop it") && !text.contains("boot apply"));
    }
}
