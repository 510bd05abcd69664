//! At a glance: the verdicts and the worst latencies, the changes between the first and the last
//! document of each kind, everything that is doubtful, and the limits.

use crate::documents::evidence::{CpuEvidence, Evidence};
use crate::documents::latency::{LatencyMeasurement, ThreadSeries};
use crate::report::blocks::{Card, ReportBlock, TextTone, words};
use crate::report::latency::measured_value;
use crate::report::limits::{limit_block, limit_row};
use crate::report::page::material::{LabelledDocument, ReportMaterial, WatchWithVerdict};
use crate::report::table::span;
use crate::report::verdict::{entries, overall};

/// CPUs whose figures a card shows.
const CPUS_MAX: usize = 4;

/// The section.
pub(super) fn blocks(material: &ReportMaterial) -> Vec<ReportBlock> {
    let mut blocks = Vec::new();
    let observations = material.observations.iter().map(observation_card);
    let cards: Vec<Card> =
        observations.chain(material.latencies.iter().map(latency_card)).collect();
    if !cards.is_empty() {
        blocks.push(ReportBlock::Cards(cards));
    }
    blocks.extend(changes(material).into_iter().map(ReportBlock::Text));
    let times = !material.observations.is_empty() || !material.latencies.is_empty();
    blocks.extend(material.guests().next().filter(|_| times).map(|name| {
        ReportBlock::Text(format!(
            "These times come from a guest of {name}. Its gaps and latencies include the time that the \
             hypervisor or emulator took from the CPU. No shield in the guest can prevent that. \
             Judge the shield by its interruptions, not by these times."
        ))
    }));
    blocks.extend(ReportBlock::doubts("Doubtful or unknown", doubts(material)));
    blocks.extend(limits(material));
    blocks
}

fn observation_card(observation: &LabelledDocument<WatchWithVerdict>) -> Card {
    let WatchWithVerdict { evidence, verdict, .. } = &observation.document;
    let (tone, value) = verdict.as_ref().map_or((TextTone::Plain, "not judged"), overall);
    let cpus = evidence.cpus.iter().take(CPUS_MAX);
    let mut details: Vec<String> = cpus.map(|cpu| describe_cpu(cpu, evidence.span_ns)).collect();
    if evidence.cpus.len() > CPUS_MAX {
        details.push(format!("and {} more CPUs", evidence.cpus.len() - CPUS_MAX));
    }
    let (label, doubts) = (observation.label.clone(), observation.run().doubts().len());
    Card {
        about: "interruptions".to_owned(),
        label,
        value: value.to_owned(),
        tone,
        details,
        doubts,
    }
}

fn describe_cpu(cpu: &CpuEvidence, span_ns: u64) -> String {
    let gap = cpu.gaps.as_ref().filter(|gaps| gaps.count > 0);
    let gap = gap.map_or_else(String::new, |gaps| format!(", longest gap {}", span(gaps.max_ns)));
    format!("CPU {}: {}{gap}", cpu.cpu, entries(cpu, span_ns))
}

fn latency_card(latency: &LabelledDocument<LatencyMeasurement>) -> Card {
    let run = &latency.document;
    let held = run.gates.iter().map(|gate| gate.held);
    let silent_below = run.silent_below_ns();
    let (value, mut details) = match (run.worst(), silent_below) {
        (Some((series, worst)), _) => {
            let thread = crate::report::latency::describe_thread(series);
            let mut details = vec![format!("worst of {} on {thread}", run.instrument)];
            details.extend(typical_latency(series));
            (span(worst.late_ns), details)
        }
        (None, Some(threshold_ns)) => {
            (format!("below {}", span(threshold_ns)), vec![format!("worst of {}", run.instrument)])
        }
        (None, None) => ("nothing measured".to_owned(), vec![run.instrument.clone()]),
    };
    let samples: u64 = run.series.iter().map(|series| series.samples).sum();
    let span = words::time(words::float(run.span_ns));
    details.push(format!("{} samples in {span}", words::grouped(samples)));
    let is_known = run.worst().is_some() || silent_below.is_some();
    let tone = match (is_known, held.clone().all(|held| held == Some(true))) {
        (false, _) => TextTone::Doubt,
        (true, true) if run.gates.is_empty() => TextTone::Plain,
        (true, true) => TextTone::Good,
        (true, false) if held.clone().any(|held| held == Some(false)) => TextTone::Bad,
        (true, false) => TextTone::Doubt,
    };
    let (label, doubts) = (latency.label.clone(), latency_doubts(latency).len());
    Card { about: "latency".to_owned(), label, value, tone, details, doubts }
}

/// `99.9 % of samples within 12.0 µs`, or the median of fewer samples.
fn typical_latency(series: &ThreadSeries) -> Option<String> {
    let (percent, ns) = match series.percentile(99.9) {
        Some(ns) => ("99.9", ns),
        None => ("50", series.percentile(50.0)?),
    };
    Some(format!("{percent} % of samples within {}", span(ns)))
}

/// How the last document of each kind differs from the first one, in sentences.
fn changes(material: &ReportMaterial) -> Vec<String> {
    let mut sentences = Vec::new();
    if let [first, .., last] = material.observations.as_slice() {
        let rates = [first, last].map(|o| entries_per_second(&o.document.evidence));
        if let [Some(before), Some(after)] = rates {
            let (before, after) = (words::plain(before), words::plain(after));
            sentences.push(format!(
                "Kernel entries per CPU per second: {before} ({}), {after} ({}).",
                first.label, last.label
            ));
        }
    }
    let mut compared = false;
    for (instrument, role) in super::threads::kinds(material) {
        let same = material.latencies.iter().filter(|l| l.document.instrument == instrument);
        let worst = same.filter_map(|latency| {
            let threads = latency.document.series.iter().filter(|series| series.role() == role);
            Some((&latency.label, threads.filter_map(|series| series.max_ns).max()?))
        });
        let worst: Vec<(&String, u64)> = worst.collect();
        let [(first, before), .., (last, after)] = worst.as_slice() else { continue };
        let Some(ratio) = words::ratio(*before, *after) else { continue };
        let kind = super::threads::kind(&instrument, &role);
        let (before, after) = (span(*before), span(*after));
        sentences.push(format!("Worst of {kind}: {before} ({first}), {after} ({last}): {ratio}."));
        compared = true;
    }
    if compared {
        sentences.push(
            "These are single runs. To tell whether a difference is significant, use `cpushield \
         compare` with several runs of each."
                .to_owned(),
        );
    }
    sentences
}

/// Kernel entries per second and CPU; `None` when they are unknown.
fn entries_per_second(evidence: &Evidence) -> Option<f64> {
    let entries: Option<u64> = evidence.cpus.iter().map(|cpu| cpu.entries).sum();
    let cpus = words::float(evidence.cpus.len().max(1) as u64);
    Some(words::float(entries?) * 1e9 / words::float(evidence.span_ns.max(1)) / cpus)
}

/// Everything that is doubtful, with the label of its document.
fn doubts(material: &ReportMaterial) -> Vec<String> {
    let mut doubts = material.doubts.clone();
    doubts.extend(material.observations.iter().flat_map(|observation| observation.run().doubts()));
    doubts.extend(material.observations.iter().filter_map(unproven_verdict));
    doubts.extend(material.latencies.iter().flat_map(latency_doubts));
    doubts
}

/// A doubt about a document whose verdict does not follow from its evidence.
fn unproven_verdict(observation: &LabelledDocument<WatchWithVerdict>) -> Option<String> {
    let WatchWithVerdict { evidence, verdict, .. } = &observation.document;
    let name = if observation.label.is_empty() { "the document" } else { &observation.label };
    verdict.as_ref()?.claims_more_than(evidence).then(|| {
        format!(
            "{name}: the verdict claims more than the evidence shows: another program changed the \
             document, or a different version of cpushield wrote it"
        )
    })
}

fn latency_doubts(latency: &LabelledDocument<LatencyMeasurement>) -> Vec<String> {
    let doubts = latency.document.every_doubt().into_iter();
    doubts.map(|doubt| format!("{}: {doubt}", latency.label)).collect()
}

/// The limits of all documents, and whether they held.
fn limits(material: &ReportMaterial) -> Option<ReportBlock> {
    let mut rows = Vec::new();
    for observation in &material.observations {
        let gates = observation.document.verdict.iter().flat_map(|verdict| &verdict.gates);
        rows.extend(gates.map(|gate| limit_row(&observation.label, gate, &gate.found.to_string())));
    }
    for LabelledDocument { label, document } in &material.latencies {
        let gates = document.gates.iter();
        rows.extend(gates.map(|gate| limit_row(label, gate, &measured_value(gate))));
    }
    limit_block(rows)
}
