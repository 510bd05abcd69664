//! Whether a verdict makes `cpushield verify` succeed, and the reason if it does not.

use crate::change::EffectTime;
use crate::documents::evidence::{Leak, Verdict, VerdictState};
use crate::failure::{Failure, FailureKind};
use cpushield_linux::CpuSet;

/// What a verdict is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerdictSubject {
    /// CPUs of the shield that is in force.
    Shield,
    /// CPUs of that shield after `--fix` did what it could.
    FixedShield,
    /// CPUs that are in no shield of cpushield.
    Cpus,
}

/// Succeeds if the verdict holds.
///
/// # Errors
/// It does not hold, or that is unknown.
pub fn check(verdict: &Verdict, subject: VerdictSubject) -> Result<(), Failure> {
    if verdict.holds() {
        return Ok(());
    }
    let failure = Failure::new(FailureKind::DoesNotHold, summary(verdict, subject));
    let mut leaks = verdict.cpus.iter().flat_map(|cpu| &cpu.leaks);
    if subject == VerdictSubject::Shield && leaks.any(can_be_fixed_now) {
        return Err(failure.hint("fix what can be fixed without a reboot: cpushield verify --fix"));
    }
    Err(failure)
}

fn can_be_fixed_now(leak: &Leak) -> bool {
    leak.remedy.as_ref().is_some_and(|remedy| remedy.when == EffectTime::Runtime)
}

/// Why the exit code is 1.
#[must_use]
pub fn summary(verdict: &Verdict, subject: VerdictSubject) -> String {
    let broken: Vec<String> = verdict
        .gates
        .iter()
        .filter(|gate| gate.held != Some(true))
        .map(|gate| match gate.held {
            None => format!("it is unknown whether {} holds", gate.limit),
            _ => format!("{} does not hold: found {}", gate.limit, gate.found),
        })
        .collect();
    if !verdict.gates.is_empty() {
        return broken.join("; ");
    }
    let mut parts = Vec::new();
    let (leaks, unknown) = match subject {
        VerdictSubject::Shield | VerdictSubject::FixedShield => {
            ("the shield leaks on CPU", "it is not proven that the shield holds on CPU")
        }
        VerdictSubject::Cpus => (
            "no shield is active there, and the kernel interrupts CPU",
            "no shield is active there, and it is not proven that nothing interrupts CPU",
        ),
    };
    for (state, text) in [(VerdictState::Leaks, leaks), (VerdictState::Unknown, unknown)] {
        let cpus = cpus_in_state(verdict, state);
        if !cpus.is_empty() {
            parts.push(format!("{text} {cpus}"));
        }
    }
    parts.join("; ")
}

fn cpus_in_state(verdict: &Verdict, state: VerdictState) -> CpuSet {
    verdict.cpus.iter().filter(|cpu| cpu.state == state).map(|cpu| cpu.cpu).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::evidence::{CpuVerdict, SCHEMA};

    #[test]
    fn without_a_shield_the_summary_does_not_say_that_the_shield_leaks() {
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
        let text = summary(&verdict, VerdictSubject::Cpus);
        assert_eq!(text, "no shield is active there, and the kernel interrupts CPU 1");
        assert_eq!(check(&verdict, VerdictSubject::Cpus).unwrap_err().hints.len(), 0);
    }
}
