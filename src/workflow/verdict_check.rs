//! Whether a verdict makes `cpushield verify` succeed, and the reason if it does not.

use crate::change::EffectTime;
use crate::documents::count_text::joined;
use crate::documents::evidence::{Verdict, VerdictState};
use crate::failure::{Failure, FailureKind};
use crate::policy::TickLimit;
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
    let mut failure = Failure::new(FailureKind::DoesNotHold, summary(verdict, subject));
    if subject == VerdictSubject::Shield && has_remedy(verdict, EffectTime::Runtime) {
        failure = failure.hint("fix what can be fixed without a reboot: cpushield verify --fix");
    }
    if subject != VerdictSubject::Cpus
        && let Some(boot) = boot_command(verdict)
    {
        failure = failure.hint(format!("to fix the rest, use a trial boot: {boot}"));
    }
    Err(failure)
}

fn has_remedy(verdict: &Verdict, when: EffectTime) -> bool {
    let mut leaks = verdict.cpus.iter().flat_map(|cpu| &cpu.leaks);
    leaks.any(|leak| leak.remedy.as_ref().is_some_and(|remedy| remedy.when == when))
}

/// The command that writes the boot parameters for these CPUs; `None` if none of them would help.
fn boot_command(verdict: &Verdict) -> Option<String> {
    let cpus: CpuSet = verdict.cpus.iter().map(|cpu| cpu.cpu).collect();
    let boot = format!("cpushield boot apply --cpus {cpus} --trial");
    has_remedy(verdict, EffectTime::Boot).then_some(boot)
}

/// Why the exit code is 1.
#[must_use]
pub fn summary(verdict: &Verdict, subject: VerdictSubject) -> String {
    let broken =
        verdict.gates.iter().filter(|gate| gate.held != Some(true)).map(|gate| match gate.held {
            None => format!("it is unknown whether {} holds", gate.limit),
            _ => format!("{} does not hold: found {}", gate.limit, gate.found),
        });
    if !verdict.gates.is_empty() {
        return joined(broken, "; ");
    }
    let mut parts = Vec::new();
    let (leaks, unknown) = match subject {
        VerdictSubject::Shield | VerdictSubject::FixedShield => {
            ("the shield leaks on CPU", "it is not proven that the shield holds on CPU")
        }
        VerdictSubject::Cpus => (
            "the kernel interrupts unshielded CPU",
            "it is not proven that nothing interrupts unshielded CPU",
        ),
    };
    for (state, text) in [(VerdictState::Leaks, leaks), (VerdictState::Unknown, unknown)] {
        let cpus = cpus_in_state(verdict, state);
        if !cpus.is_empty() {
            parts.push(format!("{text} {cpus}"));
        }
    }
    let ticking = verdict.cpus.iter().filter(|cpu| cpu.apart_from.is_some());
    let ticking: CpuSet = ticking.map(|cpu| cpu.cpu).collect();
    if !ticking.is_empty() && verdict.tick == TickLimit::Counts {
        parts.push(format!("only the tick interrupts CPU {ticking} (--tick allowed accepts it)"));
    }
    parts.join("; ")
}

fn cpus_in_state(verdict: &Verdict, state: VerdictState) -> CpuSet {
    verdict.cpus.iter().filter(|cpu| cpu.state == state).map(|cpu| cpu.cpu).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causes::{Cause, Culprit};
    use crate::documents::evidence::{CpuVerdict, InterruptionCount, Leak, SCHEMA, WitnessKind};
    use crate::documents::remedy::Remedy;

    #[test]
    fn without_a_shield_the_summary_does_not_say_that_the_shield_leaks() {
        let cpu = CpuVerdict {
            cpu: 1,
            state: VerdictState::Leaks,
            apart_from: None,
            limits: None,
            leaks: Vec::new(),
            one_witness: Vec::new(),
            unwatched: Vec::new(),
            unknown: Vec::new(),
        };
        let verdict =
            Verdict { schema: SCHEMA, cpus: vec![cpu], gates: Vec::new(), tick: TickLimit::Counts };
        assert_eq!(summary(&verdict, VerdictSubject::Shield), "the shield leaks on CPU 1");
        let text = summary(&verdict, VerdictSubject::Cpus);
        assert_eq!(text, "the kernel interrupts unshielded CPU 1");
        assert_eq!(check(&verdict, VerdictSubject::Cpus).unwrap_err().hints.len(), 0);
    }

    fn leak(when: EffectTime, how: &str) -> Leak {
        let interruptions = InterruptionCount {
            cause: Cause::Tick,
            culprit: Culprit::Unknown,
            count: 1,
            nested: 0,
            time_ns: None,
            max_ns: None,
            witness: WitnessKind::Trace,
            stack: Vec::new(),
        };
        let remedy = Some(Remedy { tunable: "x".to_owned(), when, how: how.to_owned() });
        Leak { interruptions, remedy, why_none: None, device: None }
    }

    #[test]
    fn the_hints_name_the_fix_and_the_trial_boot_where_they_help() {
        let now = || leak(EffectTime::Runtime, "echo");
        let boot = || leak(EffectTime::Boot, "nohz_full=3");
        let fix = "fix what can be fixed without a reboot: cpushield verify --fix";
        let trial = "to fix the rest, use a trial boot: cpushield boot apply --cpus 3 --trial";
        let (shield, fixed) = (VerdictSubject::Shield, VerdictSubject::FixedShield);
        for (leaks, subject, expected) in [
            (vec![now()], shield, vec![fix]),
            (vec![now(), boot()], shield, vec![fix, trial]),
            (vec![boot()], shield, vec![trial]),
            (vec![now(), boot()], fixed, vec![trial]),
            (vec![now()], fixed, vec![]),
            (vec![now(), boot()], VerdictSubject::Cpus, vec![]),
        ] {
            let (limits, state) = (None, VerdictState::Leaks);
            let (one_witness, unwatched, unknown) = (Vec::new(), Vec::new(), Vec::new());
            let cpu = CpuVerdict {
                cpu: 3,
                state,
                apart_from: None,
                limits,
                leaks,
                one_witness,
                unwatched,
                unknown,
            };
            let verdict = Verdict {
                schema: SCHEMA,
                cpus: vec![cpu],
                gates: Vec::new(),
                tick: TickLimit::Counts,
            };
            assert_eq!(check(&verdict, subject).unwrap_err().hints, expected);
        }
    }
}
