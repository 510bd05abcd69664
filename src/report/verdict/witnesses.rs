//! The witnesses of an observation → lines: which ones watched, what they cannot see, and what is
//! doubtful. Pure.

use super::WatchedRun;
use crate::documents::count_text::many;
use crate::documents::evidence::{Evidence, PositiveControl, WitnessKind, WitnessReport};
use crate::report::blocks::{ReportBlock, TextLine, TextPart, TextTone};

impl WatchedRun<'_> {
    /// The positive control and the witnesses, a line for each.
    pub fn witness_block(&self) -> ReportBlock {
        let evidence = self.evidence;
        let control = match &evidence.control {
            PositiveControl::Seen { .. } => TextPart::new(evidence.control.to_string()),
            PositiveControl::Missed { .. } | PositiveControl::NotDone { .. } => {
                TextPart::toned(TextTone::Doubt, evidence.control.to_string())
            }
        };
        let mut lines = vec![TextLine::of(vec![self.prefix(), control])];
        lines.extend(evidence.witnesses.iter().map(|witness| {
            let state = match &witness.absent {
                Some(_) => TextPart::toned(TextTone::Doubt, describe_absence(witness)),
                None => TextPart::new(format!("{} watched", name(witness.kind))),
            };
            let agreement = match (&witness.absent, witness.kind) {
                (None, WitnessKind::EventCounters) => agreement(evidence),
                _ => TextPart::default(),
            };
            TextLine::of(vec![self.prefix(), state, agreement])
        }));
        lines.extend(
            evidence.stopped.then(|| {
                TextLine::of(vec![self.prefix(), TextPart::toned(TextTone::Doubt, STOPPED)])
            }),
        );
        ReportBlock::Lines(lines)
    }

    /// What the witnesses cannot see, a sentence for each.
    fn blind_spots(&self) -> impl Iterator<Item = String> {
        let traced = (self.evidence.witnesses.iter())
            .any(|witness| witness.kind == WitnessKind::Trace && witness.absent.is_none());
        // The trace sees what the counters cannot see.
        let matters = move |kind| match kind {
            WitnessKind::EventCounters => false,
            WitnessKind::Counters => !traced,
            WitnessKind::Trace | WitnessKind::Sampler | WitnessKind::Firmware => true,
        };
        let witnesses = self.evidence.witnesses.iter();
        let present = witnesses.filter(move |it| it.absent.is_none() && matters(it.kind));
        present.flat_map(|witness| {
            witness.blind.iter().map(|blind| format!("{}: {blind}", name(witness.kind)))
        })
    }

    /// Everything that is doubtful or unknown about the observation.
    pub fn doubts(&self) -> Vec<String> {
        let evidence = self.evidence;
        let mut doubts = Vec::new();
        for judged in self.verdict.iter().flat_map(|verdict| &verdict.cpus) {
            let unproven = judged.unknown.iter();
            doubts.extend(unproven.map(|why| format!("CPU {}, not proven: {why}", judged.cpu)));
        }
        for cpu in &evidence.cpus {
            doubts.extend(cpu.doubts.iter().map(|doubt| format!("CPU {}: {doubt}", cpu.cpu)));
            if let Some(lost) = cpu.lost.filter(|lost| *lost > 0) {
                let lost = many(usize::try_from(lost).unwrap_or(usize::MAX), "event");
                doubts.push(format!("CPU {}: the trace lost {lost}", cpu.cpu));
            }
        }
        let absent = evidence.witnesses.iter().filter(|witness| witness.absent.is_some());
        doubts.extend(absent.map(describe_absence));
        if !matches!(evidence.control, PositiveControl::Seen { .. }) {
            doubts.push(evidence.control.to_string());
        }
        doubts.extend(evidence.stopped.then(|| STOPPED.to_owned()));
        let mut named: Vec<String> = Vec::new();
        for doubt in doubts {
            let doubt = format!("{}{doubt}", self.prefix().text);
            if !named.contains(&doubt) {
                named.push(doubt);
            }
        }
        named
    }
}

/// What no witness of these observations can see, each blind spot once.
pub fn blind_spot_block(runs: &[WatchedRun<'_>]) -> Option<ReportBlock> {
    let mut items: Vec<String> = Vec::new();
    for blind in runs.iter().flat_map(WatchedRun::blind_spots) {
        if !items.contains(&blind) {
            items.push(blind);
        }
    }
    let title = "Not visible to the witnesses".to_owned();
    (!items.is_empty()).then_some(ReportBlock::Doubts { title, items })
}

const STOPPED: &str = "stopped early: the figures cover only the time until then";

fn name(kind: WitnessKind) -> &'static str {
    match kind {
        WitnessKind::Trace => "kernel trace",
        WitnessKind::Counters => "kernel counters",
        WitnessKind::EventCounters => "perf event counters",
        WitnessKind::Sampler => "gap sampler",
        WitnessKind::Firmware => "SMI counter",
    }
}

/// A witness that did not watch, and why.
fn describe_absence(witness: &WitnessReport) -> String {
    let why = witness.absent.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    format!("{} did not watch{why}", name(witness.kind))
}

/// How the perf events compare with the trace.
fn agreement(evidence: &Evidence) -> TextPart {
    if evidence.cpus.iter().any(|cpu| !cpu.witness_doubts.is_empty()) {
        return TextPart::toned(TextTone::Bad, ", and disagree with the kernel trace");
    }
    let events = evidence.cpus.iter().flat_map(|cpu| &cpu.events);
    let counted: u64 = events.filter_map(|event| event.counted).sum();
    TextPart::new(format!(", and agree with the kernel trace ({counted} events counted)"))
}
