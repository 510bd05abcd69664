//! `cpushield verify --fix`: looks, does what removes what it saw and what the shield lacks, and
//! looks again. What it does becomes part of the active shield, through the shield's journal.

use super::exit_status;
use super::verify::{self, EvidenceRequest, VerifyOutput, VerifyResult};
use crate::apply;
use crate::change::{Change, EffectTime};
use crate::failure::Failure;
use crate::plan::{Step, missing};
use crate::report::fix_report::{
    AppliedFix, FixEnd, FixOutcome, FixReport, FixRound, MissingPart, SCHEMA, remains,
};
use crate::run;
use crate::survey::Machine;
use crate::verify::Verdict;
use crate::verify::trace::recording::TraceRecording;
use cpushield_linux::{Store, signal};
use std::collections::BTreeSet;

/// More looks are not worth anybody's time: something undoes what is done.
const ROUNDS_MAX: usize = 6;
/// How often is looked again because a look proved nothing.
const LOOKS_MAX: usize = 2;
/// How often one thing is done, when it is lacking again.
const TRIES_MAX: usize = 2;

/// Runs it.
///
/// # Errors
/// There is no shield to change, its journal cannot be used, or the last look does not hold.
pub(super) fn run(order: &EvidenceRequest<'_>) -> Result<(), Failure> {
    refuse(order)?;
    let mut mending = FixLoop { order, store: order.global.store(), tried: Vec::new() };
    let (fixed, recording) = mending.rounds()?;
    order.ui.show(&fixed, || fixed.text(&exit_status::paint, order.ui.width()))?;
    let Some(FixRound { evidence, verdict, .. }) = fixed.rounds.last() else { return Ok(()) };
    verify::export(order.ui, order.args, recording, &VerifyOutput { evidence, verdict })?;
    exit_status::outcome(verdict, exit_status::VerdictSubject::FixedShield)
}

/// Only CPUs of the active shield can be mended: what is changed goes into its journal.
fn refuse(order: &EvidenceRequest<'_>) -> Result<(), Failure> {
    let shield = order.scene.active.as_ref().map(|plan| &plan.shield);
    match shield {
        None => Err(Failure::machine("no shield is in force, and --fix changes one")
            .hint("make one: cpushield apply")
            .hint("without --fix, `cpushield verify --cpus LIST` says what each CPU would need")),
        Some(shield) if !order.scene.cpus.is_subset(&shield.cpus) => Err(Failure::usage(format!(
            "--fix changes the active shield, and CPU {} is not of it",
            order.scene.cpus.minus(&shield.cpus)
        ))
        .hint(format!("its CPUs: {}", shield.cpus))),
        Some(_) => Ok(()),
    }
}

/// Rounds of looking and mending.
struct FixLoop<'a> {
    order: &'a EvidenceRequest<'a>,
    store: Store,
    /// What was tried.
    tried: Vec<(Change, AppliedFix)>,
}

impl FixLoop<'_> {
    fn rounds(&mut self) -> Result<(FixReport, Option<TraceRecording>), Failure> {
        let (mut rounds, mut looks) = (Vec::new(), 0);
        loop {
            let VerifyResult { evidence, verdict, recording, known } = self.order.look(true)?;
            let lacking = match &known {
                Some((machine, _)) => self.lacking(machine, &verdict)?,
                None => Vec::new(),
            };
            let (todo, lacks) = self.sort(lacking);
            let stopped = evidence.stopped;
            let mut round = FixRound { evidence, verdict, done: Vec::new() };
            let mut end = match () {
                () if stopped => Some(FixEnd::Stopped),
                () if todo.is_empty() && round.verdict.holds() => Some(FixEnd::Holds),
                // What could not be seen is looked at again: that is nobody's doing.
                () if todo.is_empty() && proves_nothing(&round.verdict) && looks < LOOKS_MAX => {
                    looks += 1;
                    None
                }
                () if todo.is_empty() => Some(FixEnd::NothingMore),
                () if rounds.len() + 1 == ROUNDS_MAX => Some(FixEnd::TooOften),
                () => None,
            };
            if end.is_none() && !todo.is_empty() {
                end = self.mend(rounds.len() + 1, &mut round, todo)?;
            }
            rounds.push(round);
            if let Some(end) = end {
                let remains = remains(&rounds, &lacks);
                return Ok((FixReport { schema: SCHEMA, rounds, end, remains, lacks }, recording));
            }
        }
    }

    /// What the shield lacks, and what would remove what was seen.
    fn lacking(&self, machine: &Machine, verdict: &Verdict) -> Result<Vec<Step>, Failure> {
        let Some(plan) = run::active(self.order.host, &self.store)? else { return Ok(Vec::new()) };
        let outcomes = apply::outcomes(self.order.host, &self.store)?;
        let leaks = verdict.cpus.iter().flat_map(|cpu| &cpu.leaks);
        let remedies = leaks.filter_map(|leak| leak.remedy.as_ref());
        let now = remedies.filter(|remedy| remedy.when == EffectTime::Runtime);
        let asked: BTreeSet<String> = now.map(|remedy| remedy.tunable.clone()).collect();
        Ok(missing(machine, &plan, &outcomes, &asked))
    }

    /// What can be done, and what not with the reason.
    fn sort(&self, lacking: Vec<Step>) -> (Vec<Step>, Vec<MissingPart>) {
        let (mut todo, mut lacks) = (Vec::new(), Vec::new());
        for step in lacking {
            let tried = self.tried.iter().filter(|(change, _)| *change == step.change);
            let tried: Vec<&AppliedFix> = tried.map(|(_, deed)| deed).collect();
            let why = match tried.last() {
                Some(deed) if is_over(&step.change, deed, tried.len()) => {
                    failed(&step.change, deed)
                }
                _ => match self.withheld(&step.change) {
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

    /// Why a change is left to the user: it would move his own programs.
    fn withheld(&self, change: &Change) -> Option<String> {
        if !matches!(change, Change::CycleCpu { .. }) {
            return None;
        }
        let host = self.order.host;
        let members = self.order.scene.place.as_ref()?.members(host).ok()?;
        let program = members.iter().filter_map(|tid| host.task(*tid, *tid).ok());
        let program = program.filter(|task| !task.has_ended()).find(|task| !task.kthread)?;
        Some(format!(
            "{} ({}) is in the shield and would be moved; end it, and call --fix again",
            program.comm, program.id.tid
        ))
    }

    /// Does it, and what follows from it. Says why there is no further round, if so.
    fn mend(
        &mut self,
        number: usize,
        round: &mut FixRound,
        mut todo: Vec<Step>,
    ) -> Result<Option<FixEnd>, Failure> {
        let ui = self.order.ui;
        let sum = round.summary(&|_, word| word.to_owned());
        ui.status(&format!("round {number}: {sum}; changes to make: {}", todo.len()));
        while !todo.is_empty() {
            // A CPU that goes offline disturbs cpusets and threads, so that comes first.
            let cycle = |step: &Step| matches!(step.change, Change::CycleCpu { .. });
            if todo.iter().any(cycle) {
                todo.retain(cycle);
            }
            let amended = apply::amend(self.order.host, &self.store, &todo)?;
            let deeds: Vec<AppliedFix> = amended.steps.iter().map(AppliedFix::from_step).collect();
            for step in todo {
                let subject = step.change.subject();
                let done = deeds.iter().rev().find(|deed| deed.subject == subject);
                self.tried.extend(done.map(|deed| (step.change.clone(), deed.clone())));
            }
            round.done.extend(deeds);
            if let Some(why) = amended.halted {
                ui.warn(&format!("{why}; what was done is part of the shield: `cpushield undo`"));
                let stopped = signal::stopped_by().is_some();
                return Ok(Some(if stopped { FixEnd::Stopped } else { FixEnd::NothingMore }));
            }
            let Some(plan) = &self.order.scene.active else { break };
            let machine = super::beside(self.order.host, &self.store, plan);
            (todo, _) = self.sort(self.lacking(&machine, &round.verdict)?);
        }
        Ok(None)
    }
}

/// Whether nothing was seen, and nothing proven.
fn proves_nothing(verdict: &Verdict) -> bool {
    verdict.cpus.iter().all(|cpu| cpu.leaks.is_empty())
        && verdict.gates.iter().all(|gate| gate.held != Some(false))
}

/// Whether a change was tried often enough: what shows may have gone with another change, so it is
/// done once more.
fn is_over(change: &Change, deed: &AppliedFix, times: usize) -> bool {
    let refused = matches!(deed.result, FixOutcome::Refused | FixOutcome::Absent);
    refused || !shows(change) || times >= TRIES_MAX
}

/// Whether it can be seen that a change is lacking.
fn shows(change: &Change) -> bool {
    !matches!(change, Change::CycleCpu { .. } | Change::BanFromIrqbalance { .. })
}

/// Why what was tried is still lacking; `None` where nobody can see whether it is.
fn failed(change: &Change, deed: &AppliedFix) -> Option<String> {
    match deed.result {
        FixOutcome::Refused => {
            Some(format!("the kernel refuses: {}", deed.why.as_deref().unwrap_or("no reason")))
        }
        FixOutcome::Absent => Some("it is not there".to_owned()),
        FixOutcome::Changed | FixOutcome::AlreadySo => shows(change)
            .then(|| "it was done, but another process has changed it since".to_owned()),
    }
}
