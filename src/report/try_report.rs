//! The screen of `cpushield try`: the CPU and why it was chosen, the changes, the interruptions
//! before the shield and under it, what remains with its remedies, and whether everything was
//! restored. Pure.

use crate::causes::{Cause, Culprit};
use crate::documents::evidence::{CpuEvidence, Evidence, PositiveControl, Verdict, WitnessReport};
use crate::plan::Plan;
use crate::report::price::LoadPrice;
use crate::report::table::{Align, fit, fold, many, rate, span};
use crate::survey::MachineDifference;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the document's form.
pub const SCHEMA: u32 = 1;

/// Rows that the table of interruptions lists; the others are summed up in one line.
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
    /// The price for the rest of the machine; `None` when it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<LoadPrice>,
    /// How many changes were undone.
    pub restored: usize,
    /// What could not be restored, in sentences.
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
        text.push_str(&self.remaining());
        text.push_str(&self.blind_spots());
        text.push_str(&self.restoration());
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
        let causes = side_by_side(before, shielded);
        for TryRow { cause, culprit, before, shielded } in causes.iter().take(ROWS_MAX) {
            rows.push(vec![
                format!("  {cause}"),
                culprit.to_string(),
                rate(*before, self.before.span_ns),
                rate(*shielded, self.shielded.span_ns),
            ]);
        }
        if let Some(others) = causes.get(ROWS_MAX..).filter(|others| !others.is_empty()) {
            rows.push(vec![
                format!("  {} more kinds", others.len()),
                String::new(),
                rate(others.iter().map(|row| row.before).sum(), self.before.span_ns),
                rate(others.iter().map(|row| row.shielded).sum(), self.shielded.span_ns),
            ]);
        }
        rows.push(vec![
            "  all entries, including nested ones".to_owned(),
            String::new(),
            entry_rate(before, self.before.span_ns),
            entry_rate(shielded, self.shielded.span_ns),
        ]);
        rows.push(vec![
            "Longest uninterrupted stretch".to_owned(),
            String::new(),
            longest_stretch(before),
            longest_stretch(shielded),
        ]);
        let columns = [Align::Left, Align::Left, Align::Right, Align::Right];
        format!("\n{}", fit("", &columns, &rows, width))
    }

    fn remaining(&self) -> String {
        let mut lines: Vec<String> = Vec::new();
        for cpu in &self.verdict.cpus {
            // What only ran inside another interruption disappears together with that one.
            for leak in cpu.leaks.iter().filter(|leak| leak.interruptions.count > 0) {
                let what = &leak.interruptions;
                let how = match &leak.remedy {
                    Some(remedy) => format!("{} ({})", remedy.how, when(remedy.when)),
                    None => leak.why_none.clone().unwrap_or("no known tunable".to_owned()),
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

    /// What the witnesses could not see: figures without it would claim too much.
    fn blind_spots(&self) -> String {
        let mut lines: Vec<String> = Vec::new();
        for witness in &self.shielded.witnesses {
            if let Some(why) = &witness.absent {
                lines.push(format!("  {}: {why}", witness_name(witness)));
            }
        }
        // The figures come from the best witness and share its blind spots.
        if let Some(best) = self.shielded.witnesses.iter().find(|witness| witness.absent.is_none())
        {
            let name = witness_name(best);
            lines.extend(best.blind.iter().map(|blind| format!("  {name}: {blind}")));
        }
        match &self.shielded.control {
            PositiveControl::Seen { .. } => {}
            control @ (PositiveControl::Missed { .. } | PositiveControl::NotDone { .. }) => {
                lines.push(format!("  {control}"));
            }
        }
        for cpu in &self.verdict.cpus {
            lines.extend(cpu.unknown.iter().map(|why| format!("  CPU {}: {why}", cpu.cpu)));
        }
        if lines.is_empty() {
            return String::new();
        }
        format!("\nWhat could not be seen here\n{}\n", lines.join("\n"))
    }

    fn restoration(&self) -> String {
        if self.left.is_empty() && self.differences.is_empty() {
            return "\nEverything was restored: a second survey finds the machine as it was.\n"
                .to_owned();
        }
        let mut text = "\nRestored, except for these differences:\n".to_owned();
        for line in &self.left {
            text.push_str(&format!("  {line}\n"));
        }
        for difference in &self.differences {
            text.push_str(&format!("  {difference}\n"));
        }
        text
    }
}

fn witness_name(witness: &WitnessReport) -> String {
    format!("{:?}", witness.kind).to_lowercase()
}

fn entry_rate(cpu: &CpuEvidence, span_ns: u64) -> String {
    cpu.entries.map_or("unknown".to_owned(), |n| rate(n, span_ns))
}

fn longest_stretch(cpu: &CpuEvidence) -> String {
    cpu.longest_ns.map_or("unknown".to_owned(), span)
}

fn when(when: crate::change::EffectTime) -> &'static str {
    match when {
        crate::change::EffectTime::Runtime => "now",
        crate::change::EffectTime::Boot => "at the next boot",
    }
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
