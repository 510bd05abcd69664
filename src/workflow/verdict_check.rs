//! Whether a verdict makes `cpushield verify` succeed, and the reason if it does not.

use super::WorkContext;
use super::boot_parameters::{BootOptions, BootOrder, plan_boot_of, preview_boot};
use super::machine_survey::survey_machine;
use super::shield_options::ShieldOptions;
use crate::boot::parameters::{ParameterOffer, named};
use crate::change::EffectTime;
use crate::documents::boot::BootPlan;
use crate::documents::count_text::joined;
use crate::documents::evidence::{Verdict, VerdictState};
use crate::documents::machine::Machine;
use crate::documents::remedy::Remedy;
use crate::failure::{Failure, FailureKind};
use crate::policy::TickLimit;
use cpushield_linux::CpuSet;
use cpushield_linux::text::cmdline::split_isolcpus;
use std::collections::BTreeSet;

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

/// Succeeds if the verdict holds. `boot_hint` says what to do about leaks that only a boot removes
/// ([`boot_hint`]).
///
/// # Errors
/// It does not hold, or that is unknown.
pub fn check(
    verdict: &Verdict,
    subject: VerdictSubject,
    boot_hint: impl FnOnce() -> String,
) -> Result<(), Failure> {
    if verdict.holds() {
        return Ok(());
    }
    let mut failure = Failure::new(FailureKind::DoesNotHold, summary(verdict, subject));
    if subject == VerdictSubject::Shield && has_remedy(verdict, EffectTime::Runtime) {
        failure = failure.hint("fix what can be fixed without a reboot: cpushield verify --fix");
    }
    if subject != VerdictSubject::Cpus && has_remedy(verdict, EffectTime::Boot) {
        failure = failure.hint(boot_hint());
    }
    Err(failure)
}

fn remedies(verdict: &Verdict, when: EffectTime) -> impl Iterator<Item = &Remedy> {
    let leaks = verdict.cpus.iter().flat_map(|cpu| &cpu.leaks);
    leaks.filter_map(|leak| leak.remedy.as_ref()).filter(move |remedy| remedy.when == when)
}

fn has_remedy(verdict: &Verdict, when: EffectTime) -> bool {
    remedies(verdict, when).next().is_some()
}

/// How this machine gets the boot parameters of the remedies: the command that writes them, or
/// that shows what keeps it from that. `machine` is the survey, if there was one.
#[must_use]
pub fn boot_hint(work: &WorkContext<'_>, verdict: &Verdict, machine: Option<Machine>) -> String {
    let machine = machine.unwrap_or_else(|| survey_machine(&work.host, &work.store));
    let words: BTreeSet<&str> =
        remedies(verdict, EffectTime::Boot).map(|it| it.how.as_str()).collect();
    let lists = words.iter().filter_map(|word| {
        let (_, value) = word.split_once('=')?;
        split_isolcpus(value).1.parse().ok()
    });
    // What was prepared stays so.
    let prepared = machine.isolation.nohz_full.clone().unwrap_or_default();
    let mut cpus = lists.fold(prepared, |all, cpus: CpuSet| all.union(&cpus));
    if cpus.is_empty() {
        cpus = verdict.cpus.iter().map(|cpu| cpu.cpu).collect();
    }
    let asked = remedies(verdict, EffectTime::Boot).filter_map(|it| named(&it.tunable));
    let asked = asked.filter(|it| matches!(it.offer, ParameterOffer::OnRequest(_)));
    let on: BTreeSet<String> = asked.map(|it| it.name.to_owned()).collect();
    let args = on.iter().fold(format!("--cpus {cpus}"), |args, name| format!("{args} --on {name}"));
    let options = ShieldOptions { on: on.into_iter().collect(), ..ShieldOptions::of_list(&cpus) };
    let plan = plan_boot_of(work, &machine, &options, &BootOptions::default()).ok();
    let has = |plan: &BootPlan, word| plan.parameters.iter().any(|it| it.word == word);
    let plan = plan.filter(|plan| words.iter().all(|word| has(plan, *word)));
    match plan.and_then(|plan| preview_boot(work, &plan, &BootOrder::trial()).ok()) {
        Some(Some(_)) => {
            format!("to fix the rest, use a trial boot: cpushield boot apply {args} --trial")
        }
        Some(None) => "to fix the rest, reboot: the boot files have the parameters".to_owned(),
        None => {
            let words = joined(words, " ");
            format!("to fix the rest, boot with {words}: cpushield boot plan {args}")
        }
    }
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
        let none = || unreachable!("there is no remedy");
        assert_eq!(check(&verdict, VerdictSubject::Cpus, none).unwrap_err().hints.len(), 0);
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
        let trial = "to fix the rest, …";
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
            let failure = check(&verdict, subject, || trial.to_owned()).unwrap_err();
            assert_eq!(failure.hints, expected);
        }
    }
}
