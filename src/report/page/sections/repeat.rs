//! How to repeat it: the commands that make the same documents and the same report.

use crate::latency::Latency;
use crate::report::page::block::Block;
use crate::report::page::material::{Labelled, Look, Material, Settings};
use cpushield_linux::CpuSet;

/// The section.
pub(super) fn blocks(material: &Material) -> Vec<Block> {
    let mut lines: Vec<String> = Vec::new();
    lines.extend(material.settings.iter().map(shield));
    lines.extend(material.looks.iter().map(verify));
    lines.extend(material.latencies.iter().map(latency));
    if !material.command.is_empty() {
        let words: Vec<String> = material.command.iter().map(|word| quoted(word)).collect();
        lines.push(words.join(" "));
    }
    if lines.is_empty() {
        return Vec::new();
    }
    let caption = "In a shell, as root; every document says what it was measured on".to_owned();
    vec![
        Block::Code { caption, text: lines.join("\n") },
        Block::Text(
            "Figures of two runs are never the same: repeat each several times, by turns, and let \
             `cpushield compare` say what is more than chance."
                .to_owned(),
        ),
    ]
}

fn shield(settings: &Labelled<Settings>) -> String {
    let shield = &settings.it.plan.shield;
    let verb = if settings.it.undone { "try" } else { "apply" };
    format!("cpushield {verb} --cpus {}", shield.cpus)
}

fn verify(look: &Labelled<Look>) -> String {
    let evidence = &look.it.evidence;
    let cpus: CpuSet = evidence.cpus.iter().map(|cpu| cpu.cpu).collect();
    let span = exact(if evidence.asked_ns > 0 { evidence.asked_ns } else { evidence.span_ns });
    let limits = look.it.verdict.iter().flat_map(|verdict| &verdict.gates);
    let limits: String = limits.map(|gate| format!(" {}", gate.limit)).collect();
    let file = quoted(&format!("{}.json", look.label));
    format!("cpushield verify --cpus {cpus} --for {span}{limits} --json > {file}")
}

fn latency(latency: &Labelled<Latency>) -> String {
    let it = &latency.it;
    let cpus: CpuSet = it.series.iter().map(|series| series.cpu).collect();
    let mut periods: Vec<u64> = it.series.iter().map(|series| series.period_ns).collect();
    periods.sort_unstable();
    periods.dedup();
    let mut words = format!(
        "cpushield latency {} --cpus {cpus} --for {} --settle {}",
        quoted(&it.instrument),
        exact(it.asked_ns),
        exact(it.settle_ns)
    );
    for period in periods.iter().filter(|period| **period > 0) {
        words.push_str(&format!(" --thread {}", exact(*period)));
    }
    // The thread of the shortest period has the highest priority.
    let first = it.series.iter().min_by_key(|series| series.period_ns);
    let policy = first.map_or("", |series| series.policy.as_str());
    match policy.split_once(' ') {
        Some(("SCHED_FIFO", priority)) => words.push_str(&format!(" --fifo {priority}")),
        _ if periods.iter().any(|period| *period > 0) => words.push_str(" --other"),
        _ => {}
    }
    let limits: Vec<u64> = it
        .series
        .first()
        .map_or_else(Vec::new, |series| series.over.iter().map(|over| over.limit_ns).collect());
    words.extend(limits.iter().map(|ns| format!(" --over {}", exact(*ns))));
    words.extend(it.loads.iter().map(|load| format!(" --load {}", quoted(&load.name))));
    words.extend(it.gates.iter().map(|gate| format!(" {}", gate.limit)));
    format!("{words} --json > {}", quoted(&format!("{}.json", latency.label)))
}

/// A time as the command line takes it: `10s`, `1ms`, `1500us`.
fn exact(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let fits = units.into_iter().find(|(size, _)| ns > 0 && ns.is_multiple_of(*size));
    fits.map_or_else(|| format!("{ns}ns"), |(size, unit)| format!("{}{unit}", ns / size))
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
