//! `cpushield verify`: watches shielded CPUs and says whether the shield holds.

use crate::cli::Global;
use crate::failure::{Failure, Kind};
use crate::report::verdict as report;
use crate::ui::{Tone, Ui};
use crate::verify::{self, Evidence, Limits, Progress, State, Verdict, WatchOrder};
use cpushield_linux::{CpuSet, Host, signal};
use serde::Serialize;
use std::time::Duration;

/// Watch shielded CPUs and say whether the shield holds
///
/// Without a command a busy loop that looks at the clock runs on the CPUs. Exit code 0: every CPU
/// holds, or with limits, all limits hold. Exit code 1: something does not hold, or is not proven.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The CPUs to watch (those of the active shield when left out)
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuSet>,
    /// How long to watch
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = duration)]
    time: Duration,
    /// How long the workload runs before anything counts
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    settle: Duration,
    /// Limit: at most N entries into the kernel on each CPU
    #[arg(long, value_name = "N")]
    max_entries: Option<u64>,
    /// Limit: no gap longer than this (`5us`)
    #[arg(long, value_name = "TIME", value_parser = duration)]
    max_gap: Option<Duration>,
}

/// Gaps from this many nanoseconds on count, unless a limit is shorter.
const THRESHOLD_NS: u64 = 1_000;

/// Both documents.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    evidence: &'a Evidence,
    verdict: &'a Verdict,
}

/// Runs it.
///
/// # Errors
/// The CPUs cannot be watched, or something does not hold.
pub fn run(ui: &Ui, global: &Global, args: &Args) -> Result<(), Failure> {
    let host = match &global.root {
        Some(dir) => Host::recorded(dir)?,
        None => Host::live(),
    };
    let cpus = match &args.cpus {
        Some(cpus) => cpus.clone(),
        None => {
            return Err(Failure::usage("which CPUs?").hint("name them: cpushield verify --cpus 3"));
        }
    };
    let limits = Limits { max_entries: args.max_entries, max_gap_ns: args.max_gap.map(nanos) };
    let threshold_ns = limits.max_gap_ns.map_or(THRESHOLD_NS, |most| most.clamp(1, THRESHOLD_NS));
    signal::catch_stops()
        .map_err(|e| Failure::machine(format!("signals cannot be caught: {e}")))?;
    let bar = ui.bar();
    let evidence = verify::watch(
        &host,
        &WatchOrder {
            cpus,
            span: args.time,
            settle: args.settle,
            threshold_ns,
            syscalls: false,
            cgroup: None,
            workload: None,
            progress: &|progress| match progress {
                Progress::Arming => bar.tell("getting ready"),
                Progress::Settling => bar.tell("settling"),
                Progress::Watching { done, of } => bar.part("watching", done, of),
                Progress::Gathering => bar.tell("gathering"),
            },
            stop: &|| signal::stopped_by().is_some(),
        },
    );
    bar.end();
    let evidence = evidence?;
    let verdict = verify::judge(&evidence, &limits, &|_| None);
    ui.show(&Shown { evidence: &evidence, verdict: &verdict }, || {
        report::text(&evidence, &verdict, &|state| tone(state).paint(report::word(state)))
    })?;
    if verdict.holds() { Ok(()) } else { Err(Failure::new(Kind::DoesNotHold, summary(&verdict))) }
}

fn tone(state: State) -> Tone {
    match state {
        State::Holds => Tone::Good,
        State::Leaks => Tone::Bad,
        State::Unknown => Tone::Doubt,
    }
}

/// Why the exit code is 1.
fn summary(verdict: &Verdict) -> String {
    let broken: Vec<String> = verdict
        .gates
        .iter()
        .filter(|gate| gate.held != Some(true))
        .map(|gate| match gate.held {
            None => format!("it is not known whether {} holds", gate.limit),
            _ => format!("{} does not hold: found {}", gate.limit, gate.found),
        })
        .collect();
    if !verdict.gates.is_empty() {
        return broken.join("; ");
    }
    let of = |state| -> CpuSet {
        verdict.cpus.iter().filter(|cpu| cpu.state == state).map(|cpu| cpu.cpu).collect()
    };
    let mut parts = Vec::new();
    for (state, words) in [
        (State::Leaks, "the shield leaks on CPU"),
        (State::Unknown, "it is not proven that the shield holds on CPU"),
    ] {
        let cpus = of(state);
        if !cpus.is_empty() {
            parts.push(format!("{words} {cpus}"));
        }
    }
    parts.join("; ")
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A time with its unit: `5us`, `1.5s`, `2m`; a number alone is seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let scale = match unit.trim() {
        "ns" => 1e-9,
        "us" | "µs" | "μs" => 1e-6,
        "ms" => 1e-3,
        "s" | "" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("{unit:?} is not a unit of time: ns, us, ms, s, m or h")),
    };
    let number: f64 =
        number.parse().map_err(|_| "expected a time such as 10s or 5us".to_owned())?;
    match Duration::try_from_secs_f64(number * scale) {
        Ok(time) if time.is_zero() => Err("the time must be longer than nothing".to_owned()),
        Ok(time) if time > Duration::from_secs(366 * 86_400) => {
            Err("the time must be shorter than a year".to_owned())
        }
        Ok(time) => Ok(time),
        Err(_) => Err("expected a time such as 10s or 5us".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_unit() {
        for (text, ns) in [
            ("5us", 5_000),
            ("5µs", 5_000),
            ("250ns", 250),
            ("1.5ms", 1_500_000),
            ("10s", 10_000_000_000),
            ("3", 3_000_000_000),
            ("2m", 120_000_000_000),
        ] {
            assert_eq!(duration(text).map(nanos), Ok(ns), "{text}");
        }
        for text in ["", "s", "5 parsecs", "-1s", "0s", "1e3s", "9999999h", "1.2.3s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
