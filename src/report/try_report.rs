//! The one screen of `cpushield try`: which CPU and why, what was changed, what interrupted it
//! before and while shielded, what remains and what would remove it, and that everything is back.
//! Pure.

use crate::causes::{Cause, Culprit};
use crate::plan::Plan;
use crate::report::price::LoadPrice;
use crate::report::table::{Align, fit, fold, many, rate, span};
use crate::survey::MachineDifference;
use crate::verify::{CpuEvidence, Evidence, PositiveControl, Verdict, WitnessReport};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the document's form.
pub const SCHEMA: u32 = 1;

/// Rows of the table of interruptions; more are summed up in one line.
const ROWS_MAX: usize = 12;

/// Everything that `try` found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TryReport {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The plan that was applied.
    pub plan: Plan,
    /// How many changes took effect, by tunable in the order of the plan.
    pub changed: Vec<(String, usize)>,
    /// How many were refused by the kernel.
    pub refused: usize,
    /// Evidence before the shield.
    pub before: Evidence,
    /// Evidence under the shield.
    pub shielded: Evidence,
    /// What the evidence under the shield says.
    pub verdict: Verdict,
    /// What it took from the rest of the machine; `None` when that was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<LoadPrice>,
    /// How many changes were put back.
    pub restored: usize,
    /// What could not be put back, in sentences.
    pub left: Vec<String>,
    /// What differs between the surveys before and after.
    pub differences: Vec<MachineDifference>,
}

impl TryReport {
    /// The screen, no wider than `width` where that is possible.
    #[must_use]
    pub fn text(&self, width: usize) -> String {
        let mut text = String::new();
        text.push_str(&self.choice());
        text.push_str(&self.changes());
        for (before, shielded) in self.before.cpus.iter().zip(&self.shielded.cpus) {
            text.push_str(&self.interruptions(before, shielded, width));
        }
        text.push_str(&self.price.as_ref().map_or_else(String::new, LoadPrice::text));
        text.push_str(&self.remains());
        text.push_str(&self.doubts());
        text.push_str(&self.put_back());
        fold(&text, width)
    }

    fn choice(&self) -> String {
        let shield = &self.plan.shield;
        let mut text =
            format!("Shielded: CPU {}. Housekeeping: CPU {}.\n", shield.cpus, shield.housekeeping);
        for why in &self.plan.why {
            text.push_str(&format!("  {why}\n"));
        }
        text
    }

    /// What was changed.
    fn changes(&self) -> String {
        let list: Vec<String> =
            self.changed.iter().map(|(name, count)| format!("{name} {count}")).collect();
        let sum: usize = self.changed.iter().map(|(_, count)| count).sum();
        let mut text = format!("\nChanged {}", many(sum, "setting"));
        if self.refused > 0 {
            text.push_str(&format!(" ({} refused by the kernel)", self.refused));
        }
        text.push_str(&format!(": {}\n", list.join(", ")));
        text
    }

    fn interruptions(&self, before: &CpuEvidence, shielded: &CpuEvidence, width: usize) -> String {
        let mut rows = vec![vec![
            format!("Interruptions of CPU {} per second", before.cpu),
            String::new(),
            "before".to_owned(),
            "shielded".to_owned(),
        ]];
        let both = side_by_side(before, shielded);
        for (cause, culprit, was, is) in both.iter().take(ROWS_MAX) {
            rows.push(vec![
                format!("  {cause}"),
                culprit.to_string(),
                rate(*was, self.before.span_ns),
                rate(*is, self.shielded.span_ns),
            ]);
        }
        if both.len() > ROWS_MAX {
            let sum = |pick: fn(&TryRow) -> u64| both.iter().skip(ROWS_MAX).map(pick).sum();
            rows.push(vec![
                format!("  {} more kinds", both.len() - ROWS_MAX),
                String::new(),
                rate(sum(|row| row.2), self.before.span_ns),
                rate(sum(|row| row.3), self.shielded.span_ns),
            ]);
        }
        let entries = |evidence: &Evidence, cpu: &CpuEvidence| {
            cpu.entries.map_or("unknown".to_owned(), |n| rate(n, evidence.span_ns))
        };
        let longest = |cpu: &CpuEvidence| cpu.longest_ns.map_or("unknown".to_owned(), span);
        rows.push(vec![
            "  all entries, nested ones included".to_owned(),
            String::new(),
            entries(&self.before, before),
            entries(&self.shielded, shielded),
        ]);
        rows.push(vec![
            "Longest uninterrupted stretch".to_owned(),
            String::new(),
            longest(before),
            longest(shielded),
        ]);
        let columns = [Align::Left, Align::Left, Align::Right, Align::Right];
        format!("\n{}", fit("", &columns, &rows, width))
    }

    fn remains(&self) -> String {
        let mut lines: Vec<String> = Vec::new();
        for cpu in &self.verdict.cpus {
            // What only ran inside of another interruption goes with that one.
            for leak in cpu.leaks.iter().filter(|leak| leak.interruptions.count > 0) {
                let what = &leak.interruptions;
                let how = match &leak.remedy {
                    Some(remedy) => format!("{} ({})", remedy.how, when(remedy.when)),
                    None => leak.why_none.clone().unwrap_or("no tunable known".to_owned()),
                };
                lines.push(format!("  {} {}: {how}", what.cause, what.culprit));
            }
        }
        lines.dedup();
        if lines.is_empty() {
            return "\nNothing remains.\n".to_owned();
        }
        let more = lines.len().saturating_sub(ROWS_MAX);
        lines.truncate(ROWS_MAX);
        if more > 0 {
            lines.push(format!("  and {more} more: `cpushield verify --json` lists them"));
        }
        format!("\nWhat remains, and what removes it\n{}\n", lines.join("\n"))
    }

    /// What the instruments could not see: a number without it would claim too much.
    fn doubts(&self) -> String {
        let mut lines: Vec<String> = Vec::new();
        let name = |witness: &WitnessReport| format!("{:?}", witness.kind).to_lowercase();
        for witness in &self.shielded.witnesses {
            if let Some(why) = &witness.absent {
                lines.push(format!("  {}: {why}", name(witness)));
            }
        }
        // The numbers come from the best witness, so its blind spots are theirs.
        if let Some(best) = self.shielded.witnesses.iter().find(|witness| witness.absent.is_none())
        {
            lines.extend(best.blind.iter().map(|blind| format!("  {}: {blind}", name(best))));
        }
        match &self.shielded.control {
            PositiveControl::Seen { .. } => {}
            PositiveControl::Missed { what } => lines.push(format!("  control: not seen: {what}")),
            PositiveControl::NotDone { why } => lines.push(format!("  control: not done: {why}")),
        }
        for cpu in &self.verdict.cpus {
            lines.extend(cpu.unknown.iter().map(|why| format!("  CPU {}: {why}", cpu.cpu)));
        }
        if lines.is_empty() {
            return String::new();
        }
        format!("\nWhat could not be seen here\n{}\n", lines.join("\n"))
    }

    fn put_back(&self) -> String {
        if self.left.is_empty() && self.differences.is_empty() {
            return "\nAll of it was put back: a second survey finds the machine as it was.\n"
                .to_owned();
        }
        let mut text = "\nPut back, but not everything is as it was:\n".to_owned();
        for line in &self.left {
            text.push_str(&format!("  {line}\n"));
        }
        for difference in &self.differences {
            text.push_str(&format!("  {difference}\n"));
        }
        text
    }
}

fn when(when: crate::change::EffectTime) -> &'static str {
    match when {
        crate::change::EffectTime::Runtime => "now",
        crate::change::EffectTime::Boot => "at the next boot",
    }
}

/// Cause, culprit, count before, count under the shield.
type TryRow = (Cause, Culprit, u64, u64);

/// Both evidences by cause and culprit; the most frequent first.
fn side_by_side(before: &CpuEvidence, shielded: &CpuEvidence) -> Vec<TryRow> {
    let mut counts: BTreeMap<(Cause, Culprit), (u64, u64)> = BTreeMap::new();
    for seen in &before.interruptions {
        counts.entry((seen.cause, seen.culprit.clone())).or_default().0 += seen.count;
    }
    for seen in &shielded.interruptions {
        counts.entry((seen.cause, seen.culprit.clone())).or_default().1 += seen.count;
    }
    let mut rows: Vec<TryRow> =
        counts.into_iter().map(|((cause, culprit), (was, is))| (cause, culprit, was, is)).collect();
    rows.retain(|row| row.2 + row.3 > 0);
    // What remains under the shield comes first: that is what the reader must act on.
    rows.sort_by_key(|row| std::cmp::Reverse((row.3, row.2)));
    rows
}
