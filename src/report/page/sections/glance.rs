//! At a glance: the verdicts and the worst latencies, what changed between the first and the last
//! of each kind, limits, and everything that is doubtful, beside each other.

use crate::latency::{LatencyMeasurement, ThreadSeries};
use crate::report::page::block::{Card, ReportBlock, Table, TableCell, TableColumn, TextTone};
use crate::report::page::material::{LabelledDocument, ReportMaterial, WatchWithVerdict};
use crate::report::page::words;
use crate::report::table::{many, rate, span};
use crate::verify::{CpuEvidence, Gate, LimitsKept, PositiveControl, Verdict, VerdictState};

/// The section.
pub(super) fn blocks(material: &ReportMaterial) -> Vec<ReportBlock> {
    let mut blocks = Vec::new();
    let looks = material.looks.iter().map(look);
    let cards: Vec<Card> = looks.chain(material.latencies.iter().map(latency)).collect();
    if !cards.is_empty() {
        blocks.push(ReportBlock::Cards(cards));
    }
    blocks.extend(changes(material).into_iter().map(ReportBlock::Text));
    let times = !material.looks.is_empty() || !material.latencies.is_empty();
    blocks.extend(super::guests(material).next().filter(|_| times).map(|name| {
        ReportBlock::Text(format!(
            "These are times of a guest of {name}. Longest gaps and latencies contain what the \
             hypervisor or emulator took from the CPU, which no shield in the guest can prevent; \
             judge the shield by what interrupted, not by these times."
        ))
    }));
    let doubts = doubts(material);
    if !doubts.is_empty() {
        let title = "Doubtful or not known".to_owned();
        blocks.push(ReportBlock::Doubts { title, items: doubts });
    }
    blocks.extend(limits(material));
    blocks
}

fn look(look: &LabelledDocument<WatchWithVerdict>) -> Card {
    let WatchWithVerdict { evidence, verdict, .. } = &look.it;
    let (value, tone) = match verdict {
        Some(verdict) => word(verdict),
        None => ("not judged".to_owned(), TextTone::Plain),
    };
    let mut details: Vec<String> =
        evidence.cpus.iter().take(4).map(|cpu| seen(cpu, evidence.span_ns)).collect();
    if evidence.cpus.len() > 4 {
        details.push(format!("and {} more CPUs", evidence.cpus.len() - 4));
    }
    let (label, doubts) = (look.label.clone(), of_look(look).len());
    Card { about: "interruptions".to_owned(), label, value, tone, details, doubts }
}

/// The word of all CPUs together; the worst one is the word of all.
fn word(verdict: &Verdict) -> (String, TextTone) {
    let limits: Vec<LimitsKept> = verdict.cpus.iter().filter_map(|cpu| cpu.limits).collect();
    let states = || verdict.cpus.iter().map(|cpu| cpu.state);
    let (value, tone) = if limits.contains(&LimitsKept::Beyond) {
        ("beyond the limits", TextTone::Bad)
    } else if limits.contains(&LimitsKept::Unknown) {
        ("unknown", TextTone::Doubt)
    } else if !limits.is_empty() {
        ("within the limits", TextTone::Good)
    } else if states().any(|state| state == VerdictState::Leaks) {
        ("leaks", TextTone::Bad)
    } else if verdict.cpus.is_empty() || states().any(|state| state == VerdictState::Unknown) {
        ("unknown", TextTone::Doubt)
    } else {
        ("holds", TextTone::Good)
    };
    (value.to_owned(), tone)
}

fn seen(cpu: &CpuEvidence, span_ns: u64) -> String {
    let watched = words::time(words::float(span_ns));
    let entries = match cpu.entries {
        None => "how often it entered the kernel is unknown".to_owned(),
        Some(0) => format!("did not enter the kernel in {watched}"),
        Some(n) => format!("{} kernel entries/s in {watched}", rate(n, span_ns)),
    };
    let gap = cpu.gaps.as_ref().filter(|gaps| gaps.count > 0);
    let gap = gap.map_or_else(String::new, |gaps| format!(", longest gap {}", span(gaps.max_ns)));
    format!("CPU {}: {entries}{gap}", cpu.cpu)
}

fn latency(latency: &LabelledDocument<LatencyMeasurement>) -> Card {
    let it = &latency.it;
    let held = it.gates.iter().map(|gate| gate.held);
    let (value, mut details) = match it.worst() {
        Some((series, worst)) => {
            let thread = super::latency::thread(series);
            let mut details = vec![format!("worst of {} on {thread}", it.instrument)];
            details.extend(typical(series));
            (span(worst.late_ns), details)
        }
        None => ("nothing measured".to_owned(), vec![it.instrument.clone()]),
    };
    let samples: u64 = it.series.iter().map(|series| series.samples).sum();
    let span = words::time(words::float(it.span_ns));
    details.push(format!("{} samples in {span}", words::grouped(samples)));
    let tone = match (it.worst().is_some(), held.clone().all(|held| held == Some(true))) {
        (false, _) => TextTone::Doubt,
        (true, true) if it.gates.is_empty() => TextTone::Plain,
        (true, true) => TextTone::Good,
        (true, false) if held.clone().any(|held| held == Some(false)) => TextTone::Bad,
        (true, false) => TextTone::Doubt,
    };
    let (label, doubts) = (latency.label.clone(), of_latency(latency).len());
    Card { about: "latency".to_owned(), label, value, tone, details, doubts }
}

fn typical(series: &ThreadSeries) -> Option<String> {
    let named = |percent: f64| series.percentile(percent);
    let (percent, ns) = match named(99.9) {
        Some(ns) => ("99.9", ns),
        None => ("50", named(50.0)?),
    };
    Some(format!("{percent} % at most {}", span(ns)))
}

/// What the last of a kind is against the first one, in sentences.
fn changes(material: &ReportMaterial) -> Vec<String> {
    let mut told = Vec::new();
    if let [first, .., last] = material.looks.as_slice() {
        let rate = |look: &LabelledDocument<WatchWithVerdict>| {
            let evidence = &look.it.evidence;
            let entries: Option<u64> = evidence.cpus.iter().map(|cpu| cpu.entries).sum();
            let cpus = words::float(evidence.cpus.len().max(1) as u64);
            Some(words::float(entries?) * 1e9 / words::float(evidence.span_ns.max(1)) / cpus)
        };
        if let (Some(before), Some(after)) = (rate(first), rate(last)) {
            let (before, after) = (words::plain(before), words::plain(after));
            told.push(format!(
                "Entries of each CPU into the kernel in a second: {before} ({}), {after} ({}).",
                first.label, last.label
            ));
        }
    }
    let mut compared = false;
    for (instrument, role) in super::latency::kinds(material) {
        let worst = |latency: &&LabelledDocument<LatencyMeasurement>| {
            let same = latency.it.instrument == instrument;
            let of = latency.it.series.iter().filter(|series| series.role() == role);
            same.then(|| of.filter_map(|series| series.max_ns).max()).flatten()
        };
        let all: Vec<_> =
            material.latencies.iter().filter_map(|l| Some((&l.label, worst(&l)?))).collect();
        let [(first, before), .., (last, after)] = all.as_slice() else { continue };
        let Some(ratio) = words::ratio(*before, *after) else { continue };
        let kind = super::latency::kind(&instrument, &role);
        let (before, after) = (span(*before), span(*after));
        told.push(format!("Worst of {kind}: {before} ({first}), {after} ({last}): {ratio}."));
        compared = true;
    }
    if compared {
        told.push(
            "These are single runs. `cpushield compare` with several runs of each tells whether a \
             difference is significant."
                .to_owned(),
        );
    }
    told
}

/// Everything that is doubtful, with the name of its document.
fn doubts(material: &ReportMaterial) -> Vec<String> {
    let mut doubts = material.doubts.clone();
    doubts.extend(material.looks.iter().flat_map(of_look));
    doubts.extend(material.latencies.iter().flat_map(of_latency));
    doubts
}

fn of_look(look: &LabelledDocument<WatchWithVerdict>) -> Vec<String> {
    let WatchWithVerdict { evidence, verdict, .. } = &look.it;
    let mut doubts = Vec::new();
    for judged in verdict.iter().flat_map(|verdict| &verdict.cpus) {
        let whys = judged.unknown.iter();
        doubts.extend(whys.map(|why| format!("CPU {}, not proven: {why}", judged.cpu)));
    }
    for cpu in &evidence.cpus {
        doubts.extend(cpu.doubts.iter().map(|doubt| format!("CPU {}: {doubt}", cpu.cpu)));
        if let Some(lost) = cpu.lost.filter(|lost| *lost > 0) {
            let lost = many(usize::try_from(lost).unwrap_or(usize::MAX), "event");
            doubts.push(format!("CPU {}: the trace lost {lost}", cpu.cpu));
        }
    }
    for witness in &evidence.witnesses {
        let name = super::noise::witness(witness.kind);
        doubts.extend(witness.absent.iter().map(|why| format!("{name} did not watch: {why}")));
    }
    match &evidence.control {
        PositiveControl::Seen { .. } => {}
        PositiveControl::Missed { what } => {
            doubts.push(format!("an interruption was made on purpose and not seen: {what}"));
        }
        PositiveControl::NotDone { why } => {
            doubts.push(format!("that the instruments see was not proven: {why}"));
        }
    }
    if evidence.stopped {
        doubts.push("it was stopped before its time".to_owned());
    }
    let mut named = Vec::new();
    for doubt in doubts {
        let doubt = format!("{}: {doubt}", look.label);
        if !named.contains(&doubt) {
            named.push(doubt);
        }
    }
    named
}

fn of_latency(latency: &LabelledDocument<LatencyMeasurement>) -> Vec<String> {
    let doubts = latency.it.every_doubt().into_iter();
    doubts.map(|doubt| format!("{}: {doubt}", latency.label)).collect()
}

/// The limits that were asked for.
fn limits(material: &ReportMaterial) -> Option<ReportBlock> {
    let of_looks = material.looks.iter().flat_map(|look| {
        let gates = look.it.verdict.iter().flat_map(|verdict| &verdict.gates);
        gates.map(|gate| limit(&look.label, gate))
    });
    let of_latencies = material.latencies.iter().flat_map(|latency| {
        let gates = latency.it.gates.iter();
        gates.map(|gate| limit(&latency.label, gate))
    });
    let rows: Vec<Vec<TableCell>> = of_looks.chain(of_latencies).collect();
    let columns = ["of", "limit", "found", "held", "why"].map(TableColumn::words).to_vec();
    let caption = "Limits that were asked for".to_owned();
    (!rows.is_empty()).then_some(ReportBlock::Table(Table { caption, columns, rows }))
}

fn limit<R: std::fmt::Display>(label: &str, gate: &Gate<R>) -> Vec<TableCell> {
    let held = match gate.held {
        Some(true) => TableCell::toned(TextTone::Good, "held"),
        Some(false) => TableCell::toned(TextTone::Bad, "not held"),
        None => TableCell::unknown(),
    };
    let found = TableCell::new(&gate.found);
    vec![
        TableCell::new(label),
        TableCell::code(&gate.limit),
        found,
        held,
        TableCell::new(gate.reasons()),
    ]
}
