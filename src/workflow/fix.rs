//! Fixes a shield: watches, makes the changes that remove leaks and restore what the
//! shield lacks, and watches again. Through the journal, the changes become part of the active
//! shield.
//!
//! Between two watches, `src/plan/missing.rs` (pure) asks each tunable which changes are missing,
//! and `src/apply/amend.rs` adds them to the active shield. The loop ends when the shield holds,
//! when every remedy was tried, or when it is stopped. It gives the reason for each remaining leak.
//!
//! An amendment is one journal line, on disk before its first write. It contains repeated steps,
//! which keep their first originals, and added steps with theirs. `Change::is_about_same` tells
//! whether two steps concern the same object. Undo needs no special case, and it also works after
//! a kill in the middle.

use super::WorkContext;
use super::apply_shield::warn_of_nohz_full;
use super::machine_survey::survey_shielded;
use super::verify_shield::{SurveyWhen, VerifyResult, VerifySession};
use crate::apply;
use crate::change::{Change, EffectTime, Outcome};
use crate::documents::applied::AppliedStep;
use crate::documents::evidence::Verdict;
use crate::documents::fix_report::{
    AppliedFix, FixEnd, FixOutcome, FixReport, FixRound, MissingChangeReason, MissingPart, SCHEMA,
    remains, withdraw_applied,
};
use crate::documents::machine::Machine;
use crate::documents::plan::Step;
use crate::failure::Failure;
use crate::plan::missing;
use crate::run;
use crate::trace::recording::TraceRecording;
use cpushield_linux::sys::signal;
use std::collections::BTreeSet;

/// Rounds at most. If more are needed, something keeps reverting the changes.
const ROUNDS_MAX: usize = 6;
/// How often the watch is repeated because it proved nothing.
const REPEATS_MAX: usize = 2;
/// How often the same change is made when it is missing again.
const TRIES_MAX: usize = 2;

/// Watches and fixes until the shield holds or nothing more can be done.
///
/// # Errors
/// There is no shield to change, or its journal cannot be used.
pub fn fix(session: &VerifySession<'_>) -> Result<(FixReport, Option<TraceRecording>), Failure> {
    check_target(session)?;
    FixLoop { session, tried: Vec::new() }.run_rounds()
}

/// Refuses CPUs outside the active shield, because every change goes into its journal.
fn check_target(session: &VerifySession<'_>) -> Result<(), Failure> {
    let shield = session.target.active.as_ref().map(|plan| &plan.shield);
    match shield {
        None => Err(Failure::machine("no shield is active, so --fix has nothing to change")
            .hint("apply one: cpushield apply")
            .hint("or show what each CPU needs: cpushield verify --cpus LIST")),
        Some(shield) if !session.target.cpus.is_subset(&shield.cpus) => {
            Err(Failure::usage(format!(
                "--fix changes the active shield, but CPU {} is not part of it",
                session.target.cpus.difference(&shield.cpus)
            ))
            .hint(format!("use CPUs of the shield: {}", shield.cpus)))
        }
        Some(_) => Ok(()),
    }
}

/// Rounds of watching and fixing.
struct FixLoop<'a> {
    session: &'a VerifySession<'a>,
    /// The changes that were tried, with what became of each.
    tried: Vec<(Change, AppliedFix)>,
}

impl FixLoop<'_> {
    /// Repeats rounds until the shield holds or nothing more can be done.
    fn run_rounds(&mut self) -> Result<(FixReport, Option<TraceRecording>), Failure> {
        let (mut rounds, mut repeats) = (Vec::new(), 0);
        loop {
            let VerifyResult { evidence, verdict, recording, known } =
                self.session.watch_and_judge(SurveyWhen::Always)?;
            let missing = match &known {
                Some((machine, _)) => self.find_missing(machine, &verdict)?,
                None => Vec::new(),
            };
            let (todo, lacks) = self.partition_possible(missing);
            let stopped = evidence.stopped;
            let mut round = FixRound { evidence, verdict, done: Vec::new() };
            let mut end = match () {
                () if stopped => Some(FixEnd::Stopped),
                () if todo.is_empty() && round.verdict.holds() => Some(FixEnd::Holds),
                // The watch proved nothing and there is nothing to fix, so watch again.
                () if todo.is_empty()
                    && proves_nothing(&round.verdict)
                    && repeats < REPEATS_MAX =>
                {
                    repeats += 1;
                    None
                }
                () if todo.is_empty() => Some(FixEnd::NothingMore),
                () if rounds.len() + 1 == ROUNDS_MAX => Some(FixEnd::TooOften),
                () => None,
            };
            if end.is_none() && !todo.is_empty() {
                end = self.make_changes(rounds.len() + 1, &mut round, todo)?;
            }
            rounds.push(round);
            if let Some(end) = end {
                let remains = remains(&rounds, &lacks);
                withdraw_applied(&mut rounds, &lacks);
                return Ok((FixReport { schema: SCHEMA, rounds, end, remains, lacks }, recording));
            }
        }
    }

    /// The name of the shield that is fixed.
    fn shield_name(&self) -> String {
        let active = self.session.target.active.as_ref();
        active.map(|plan| plan.shield.name.clone()).unwrap_or_default()
    }

    /// The steps that the shield lacks, and those that would remove the leaks.
    fn find_missing(&self, machine: &Machine, verdict: &Verdict) -> Result<Vec<Step>, Failure> {
        let WorkContext { host, store, .. } = self.session.work;
        let name = self.shield_name();
        let Some(plan) = run::active(host, store, Some(&name))? else { return Ok(Vec::new()) };
        let outcomes = apply::outcomes(host, store)?;
        let leaks = verdict.cpus.iter().flat_map(|cpu| &cpu.leaks);
        let remedies = leaks.filter_map(|leak| leak.remedy.as_ref());
        let now = remedies.filter(|remedy| remedy.when == EffectTime::Runtime);
        let requested: BTreeSet<String> = now.map(|remedy| remedy.tunable.clone()).collect();
        Ok(missing(machine, &plan, &outcomes, &requested))
    }

    /// Splits missing steps into those that can be done and those that cannot, with the reason.
    fn partition_possible(&self, missing: Vec<Step>) -> (Vec<Step>, Vec<MissingPart>) {
        let (mut todo, mut lacks) = (Vec::new(), Vec::new());
        for step in missing {
            let tried = self.tried.iter().filter(|(change, _)| *change == step.change);
            let tried: Vec<&AppliedFix> = tried.map(|(_, fix)| fix).collect();
            let why = match tried.last() {
                Some(fix) if is_exhausted(&step.change, fix, tried.len()) => {
                    why_still_missing(&step.change, fix)
                }
                _ => match self.why_withheld(&step.change) {
                    Some(why) => Some(why),
                    None => {
                        todo.push(step);
                        continue;
                    }
                },
            };
            let (tunable, subject) = (step.tunable, step.change.subject());
            lacks.extend(why.map(|why| MissingPart { tunable, subject, why }));
        }
        (todo, lacks)
    }

    /// Why a change is left to the user: it would move the programs in the shield. `None` if it
    /// may be made.
    fn why_withheld(&self, change: &Change) -> Option<MissingChangeReason> {
        if !matches!(change, Change::CycleCpu { .. }) {
            return None;
        }
        let host = &self.session.work.host;
        let members = self.session.target.place.as_ref()?.members(host).ok()?;
        let program = members.iter().filter_map(|tid| host.task(*tid, *tid).ok());
        let program = program.filter(|task| !task.has_ended()).find(|task| !task.kthread)?;
        Some(MissingChangeReason::MovesProgram { comm: program.comm, tid: program.id.tid })
    }

    /// Makes the changes, and further changes that they require. Returns why there is no further
    /// round, if there is none.
    fn make_changes(
        &mut self,
        number: usize,
        round: &mut FixRound,
        mut todo: Vec<Step>,
    ) -> Result<Option<FixEnd>, Failure> {
        let WorkContext { ui, host, store, .. } = self.session.work;
        let sum = round.summary().text();
        ui.status(&format!("round {number}: {sum}; changes to make: {}", todo.len()));
        while !todo.is_empty() {
            // A CPU that goes offline disturbs cpusets and threads, so those changes come first.
            if todo.iter().any(cycles_cpu) {
                todo.retain(cycles_cpu);
            }
            let amended = apply::amend(host, store, &self.shield_name(), &todo)?;
            // A partition may be among the changes.
            warn_of_nohz_full(self.session.work);
            let fixes: Vec<AppliedFix> = amended.steps.iter().map(AppliedFix::from_step).collect();
            for step in todo {
                let subject = step.change.subject();
                let fix = fixes.iter().rev().find(|fix| fix.subject == subject);
                self.tried.extend(fix.map(|fix| (step.change.clone(), fix.clone())));
            }
            round.done.extend(fixes);
            if let Some(why) = amended.halted {
                let active = self.session.target.active.as_ref();
                let undo = "cpushield undo".to_owned();
                let undo = active.map_or(undo, |plan| plan.shield.command("cpushield undo"));
                ui.warn(&format!(
                    "{why}; the changes so far are part of the shield; to undo them: {undo}"
                ));
                let stopped = signal::stopped_by().is_some();
                return Ok(Some(if stopped { FixEnd::Stopped } else { FixEnd::NothingMore }));
            }
            let Some(plan) = &self.session.target.active else { break };
            let machine = survey_shielded(host, store, plan);
            (todo, _) = self.partition_possible(self.find_missing(&machine, &round.verdict)?);
        }
        Ok(None)
    }
}

fn cycles_cpu(step: &Step) -> bool {
    matches!(step.change, Change::CycleCpu { .. })
}

/// Whether the watch found no leak and no broken limit, so the verdict proves nothing.
fn proves_nothing(verdict: &Verdict) -> bool {
    verdict.cpus.iter().all(|cpu| cpu.leaks.is_empty())
        && verdict.gates.iter().all(|gate| gate.held != Some(false))
}

/// Whether a change was tried often enough. A change that is visible is retried, because another
/// change may have reverted it.
fn is_exhausted(change: &Change, fix: &AppliedFix, times: usize) -> bool {
    let refused = matches!(fix.result, FixOutcome::Refused | FixOutcome::Absent);
    refused || !is_visible(change) || times >= TRIES_MAX
}

/// Whether the machine shows that a change is missing.
fn is_visible(change: &Change) -> bool {
    !matches!(change, Change::CycleCpu { .. } | Change::BanFromIrqbalance { .. })
}

/// Why a change that was tried is still missing; `None` if the machine does not show whether it is.
fn why_still_missing(change: &Change, fix: &AppliedFix) -> Option<MissingChangeReason> {
    match fix.result {
        FixOutcome::Refused => Some(MissingChangeReason::Refused { answer: fix.why.clone() }),
        FixOutcome::Absent => Some(MissingChangeReason::Absent),
        FixOutcome::Changed | FixOutcome::AlreadySo => {
            is_visible(change).then_some(MissingChangeReason::ChangedSince)
        }
    }
}

impl AppliedFix {
    /// The fix that an applied step made.
    fn from_step(step: &AppliedStep) -> AppliedFix {
        let (result, why) = match &step.done.outcome {
            Outcome::Changed => {
                (FixOutcome::Changed, step.done.note.as_ref().map(ToString::to_string))
            }
            Outcome::AlreadySo => (FixOutcome::AlreadySo, None),
            Outcome::Refused { reason, .. } => (FixOutcome::Refused, Some(reason.clone())),
            Outcome::Absent => (FixOutcome::Absent, None),
        };
        AppliedFix { tunable: step.tunable.clone(), subject: step.subject.clone(), result, why }
    }
}
