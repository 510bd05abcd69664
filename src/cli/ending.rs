//! How a verdict ends `cpushield verify`: its exit code, why, and the colours of its words.

use crate::change::When;
use crate::failure::{Failure, Kind};
use crate::ui::Tone;
use crate::verify::{Leak, State, Verdict};
use cpushield_linux::CpuSet;

/// The exit code of a verdict.
///
/// # Errors
/// It does not hold; `can_fix` says whether there is a shield that can be changed.
pub(super) fn outcome(verdict: &Verdict, can_fix: bool) -> Result<(), Failure> {
    if verdict.holds() {
        return Ok(());
    }
    let failure = Failure::new(Kind::DoesNotHold, summary(verdict));
    let now = |leak: &Leak| leak.remedy.as_ref().is_some_and(|remedy| remedy.when == When::Runtime);
    if can_fix && verdict.cpus.iter().flat_map(|cpu| &cpu.leaks).any(now) {
        return Err(
            failure.hint("`cpushield verify --fix` does what can be done now, and looks again")
        );
    }
    Err(failure)
}

/// The word of a verdict in its colour.
pub(super) fn paint(state: State, words: &str) -> String {
    let tone = match state {
        State::Holds => Tone::Good,
        State::Leaks => Tone::Bad,
        State::Unknown => Tone::Doubt,
    };
    tone.paint(words)
}

/// Why the exit code is 1.
pub(super) fn summary(verdict: &Verdict) -> String {
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
