//! The text of `cpushield verify`: per CPU the verdict, what interrupted it and how to remove that,
//! the longest stretch, what no witness could see, and the limits. Pure.

use crate::report::table::{Align, lay_out, rate, span};
use crate::verify::{
    Control, CpuEvidence, CpuVerdict, Evidence, Interruptions, Leak, State, Verdict, WitnessKind,
};

/// Rows of the table of one CPU; the rest is summed up in one line.
const ROWS_MAX: usize = 15;

/// The whole text; `paint` gives the word of a verdict its colour.
#[must_use]
pub fn text(evidence: &Evidence, verdict: &Verdict, paint: &dyn Fn(State) -> String) -> String {
    let mut text = String::new();
    for (seen, judged) in evidence.cpus.iter().zip(&verdict.cpus) {
        text.push_str(&cpu(evidence, seen, judged, paint));
    }
    text.push_str(&witnesses(evidence));
    for gate in &verdict.gates {
        let word = match gate.held {
            Some(true) => "held",
            Some(false) => "NOT held",
            None => "UNKNOWN: the evidence cannot say",
        };
        text.push_str(&format!("limit {}: found {}: {word}\n", gate.limit, gate.found));
    }
    text
}

/// The word of a verdict.
#[must_use]
pub fn word(state: State) -> &'static str {
    match state {
        State::Holds => "holds",
        State::Leaks => "leaks",
        State::Unknown => "unknown",
    }
}

fn cpu(
    evidence: &Evidence,
    seen: &CpuEvidence,
    judged: &CpuVerdict,
    paint: &dyn Fn(State) -> String,
) -> String {
    let mut text = format!("CPU {}: {}", seen.cpu, paint(judged.state));
    let watched = span(evidence.span_ns);
    match seen.entries {
        Some(0) => text.push_str(&format!(", not interrupted in {watched}\n")),
        Some(n) => {
            let rate = rate(n, evidence.span_ns);
            text.push_str(&format!(", interrupted {n} times in {watched} ({rate}/s)\n"));
        }
        None => text.push_str(&format!(", watched for {watched}\n")),
    }
    for why in &judged.unknown {
        text.push_str(&format!("  not proven: {why}\n"));
    }
    if !judged.leaks.is_empty() {
        text.push_str(&table(&judged.leaks, evidence.span_ns));
    }
    text.push_str(&stretch(evidence, seen));
    text
}

fn table(leaks: &[Leak], span_ns: u64) -> String {
    let left = Align::Left;
    let right = Align::Right;
    let columns = [left, left, right, right, right, right, right, left];
    let head = ["cause", "culprit", "count", "rate/s", "inside", "time", "longest", "remedy"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(leaks.iter().take(ROWS_MAX).map(|leak| row(leak, span_ns)));
    let mut text = lay_out("  ", &columns, &rows);
    if leaks.len() > ROWS_MAX {
        text.push_str(&format!("  and {} more (--json has all)\n", leaks.len() - ROWS_MAX));
    }
    text
}

fn row(leak: &Leak, span_ns: u64) -> Vec<String> {
    let Interruptions { cause, culprit, count, nested, time_ns, max_ns, .. } = &leak.interruptions;
    let number = |n: &u64| if *n == 0 { "-".to_owned() } else { n.to_string() };
    let time = |ns: &Option<u64>| ns.map_or_else(|| "-".to_owned(), span);
    let remedy = leak.remedy.as_ref().map_or_else(
        || "-".to_owned(),
        |remedy| match remedy.when {
            crate::change::When::Runtime => format!("{}: {}", remedy.tunable, remedy.how),
            crate::change::When::Boot => format!("at boot: {}", remedy.how),
        },
    );
    vec![
        cause.to_string(),
        if culprit.is_empty() { "-".to_owned() } else { culprit.clone() },
        number(count),
        rate(*count, span_ns),
        number(nested),
        time(time_ns),
        time(max_ns),
        remedy,
    ]
}

fn percent(part: u64, whole: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
    let percent = part as f64 * 100.0 / whole.max(1) as f64;
    // What is not the whole must not be rounded up to it.
    let percent = if part < whole { percent.min(99.99) } else { 100.0 };
    format!("{percent:.2} %")
}

fn stretch(evidence: &Evidence, seen: &CpuEvidence) -> String {
    let mut text = String::new();
    if let Some(longest) = seen.longest_ns {
        let share = percent(longest, evidence.span_ns);
        text.push_str(&format!("  longest stretch: {} ({share})\n", span(longest)));
    }
    if let Some(gaps) = &seen.gaps {
        let least = span(gaps.threshold_ns);
        match gaps.count {
            0 => text.push_str(&format!("  no gap of {least} or more in user space\n")),
            n => text.push_str(&format!(
                "  gaps of {least} or more: {n}, longest {}, together {} ({})\n",
                span(gaps.max_ns),
                span(gaps.sum_ns),
                percent(gaps.sum_ns, evidence.span_ns)
            )),
        }
    }
    if let Some(ns) = seen.steal_ns.filter(|ns| *ns > 0) {
        text.push_str(&format!("  the hypervisor took {}\n", span(ns)));
    }
    text
}

fn witnesses(evidence: &Evidence) -> String {
    let mut text = String::new();
    let control = match &evidence.control {
        Control::Seen { what } => format!("seen by every witness: {what}"),
        Control::Missed { what } => format!("MISSED: {what}"),
        Control::NotDone { why } => format!("not done: {why}"),
    };
    text.push_str(&format!("positive control: {control}\n"));
    for witness in &evidence.witnesses {
        let name = match witness.kind {
            WitnessKind::Trace => "kernel trace",
            WitnessKind::Counters => "counters",
            WitnessKind::Sampler => "gap sampler",
        };
        match &witness.absent {
            Some(why) => text.push_str(&format!("{name}: not there: {why}\n")),
            None if witness.blind.is_empty() => text.push_str(&format!("{name}: watched\n")),
            None => {
                let blind = witness.blind.join("; ");
                text.push_str(&format!("{name}: watched; cannot see: {blind}\n"));
            }
        }
    }
    if evidence.stopped {
        text.push_str("stopped before its time; this is what was seen until then\n");
    }
    text
}
