//! How a verdict ends `cpushield verify`: its exit code, why, and the colours of its words.

use crate::change::EffectTime;
use crate::failure::{Failure, FailureKind};
use crate::ui::Emphasis;
use crate::verify::{Leak, Verdict, VerdictState};
use cpushield_linux::CpuSet;

/// What a verdict is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VerdictSubject {
    /// CPUs of the shield that is in force.
    Shield,
    /// The same after `--fix` did what it could.
    FixedShield,
    /// CPUs that no shield of ours has.
    Cpus,
}

/// The exit code of a verdict.
///
/// # Errors
/// It does not hold.
pub(super) fn outcome(verdict: &Verdict, subject: VerdictSubject) -> Result<(), Failure> {
    if verdict.holds() {
        return Ok(());
    }
    let failure = Failure::new(FailureKind::DoesNotHold, summary(verdict, subject));
    let now =
        |leak: &Leak| leak.remedy.as_ref().is_some_and(|remedy| remedy.when == EffectTime::Runtime);
    if subject == VerdictSubject::Shield && verdict.cpus.iter().flat_map(|cpu| &cpu.leaks).any(now)
    {
        return Err(
            failure.hint("`cpushield verify --fix` does what can be done now, and looks again")
        );
    }
    Err(failure)
}

/// The word of a verdict in its colour.
pub(super) fn paint(state: VerdictState, words: &str) -> String {
    let tone = match state {
        VerdictState::Holds => Emphasis::Good,
        VerdictState::Leaks => Emphasis::Bad,
        VerdictState::Unknown => Emphasis::Doubt,
    };
    tone.paint(words)
}

/// Why the exit code is 1.
pub(super) fn summary(verdict: &Verdict, subject: VerdictSubject) -> String {
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
    let (leaks, unknown) = match subject {
        VerdictSubject::Shield | VerdictSubject::FixedShield => {
            ("the shield leaks on CPU", "it is not proven that the shield holds on CPU")
        }
        VerdictSubject::Cpus => (
            "no shield is in force there, and the kernel interrupts CPU",
            "no shield is in force there, and it is not proven that nothing interrupts CPU",
        ),
    };
    for (state, words) in [(VerdictState::Leaks, leaks), (VerdictState::Unknown, unknown)] {
        let cpus = of(state);
        if !cpus.is_empty() {
            parts.push(format!("{words} {cpus}"));
        }
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::{CpuVerdict, SCHEMA};

    #[test]
    fn without_a_shield_no_shield_leaks() {
        let cpu = CpuVerdict {
            cpu: 1,
            state: VerdictState::Leaks,
            limits: None,
            leaks: Vec::new(),
            one_witness: Vec::new(),
            unwatched: Vec::new(),
            unknown: Vec::new(),
        };
        let verdict = Verdict { schema: SCHEMA, cpus: vec![cpu], gates: Vec::new() };
        assert_eq!(summary(&verdict, VerdictSubject::Shield), "the shield leaks on CPU 1");
        let words = summary(&verdict, VerdictSubject::Cpus);
        assert_eq!(words, "no shield is in force there, and the kernel interrupts CPU 1");
        assert_eq!(outcome(&verdict, VerdictSubject::Cpus).unwrap_err().hints.len(), 0);
    }
}
