//! `cpushield verify --fix`: looks, does what removes what it saw and what the shield lacks, and
//! looks again. What it does becomes part of the active shield, through the shield's journal.

use super::ending;
use super::verify::{self, Look, Order, Shown};
use crate::apply;
use crate::change::{Change, When};
use crate::failure::Failure;
use crate::plan::{Step, missing};
use crate::report::fixed::{Came, Deed, End, Fixed, Lacking, Round, SCHEMA, remains};
use crate::run;
use crate::survey::Machine;
use crate::verify::Verdict;
use crate::verify::trace::recording::Recording;
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
pub(super) fn run(order: &Order<'_>) -> Result<(), Failure> {
    refuse(order)?;
    let mut mending = Mending { order, store: order.global.store(), tried: Vec::new() };
    let (fixed, recording) = mending.rounds()?;
    order.ui.show(&fixed, || fixed.text(&ending::paint, order.ui.width()))?;
    let Some(Round { evidence, verdict, .. }) = fixed.rounds.last() else { return Ok(()) };
    verify::export(order.ui, order.args, recording, &Shown { evidence, verdict })?;
    ending::outcome(verdict, ending::Subject::FixedShield)
}

/// Only CPUs of the active shield can be mended: what is changed goes into its journal.
fn refuse(order: &Order<'_>) -> Result<(), Failure> {
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
struct Mending<'a> {
    order: &'a Order<'a>,
    store: Store,
    /// What was tried.
    tried: Vec<(Change, Deed)>,
}

impl Mending<'_> {
    fn rounds(&mut self) -> Result<(Fixed, Option<Recording>), Failure> {
        let (mut rounds, mut looks) = (Vec::new(), 0);
        loop {
            let Look { evidence, verdict, recording, known } = self.order.look(true)?;
            let lacking = match &known {
                Some((machine, _)) => self.lacking(machine, &verdict)?,
                None => Vec::new(),
            };
            let (todo, lacks) = self.sort(lacking);
            let stopped = evidence.stopped;
            let mut round = Round { evidence, verdict, done: Vec::new() };
            let mut end = match () {
                () if stopped => Some(End::Stopped),
                () if todo.is_empty() && round.verdict.holds() => Some(End::Holds),
                // What could not be seen is looked at again: that is nobody's doing.
                () if todo.is_empty() && proves_nothing(&round.verdict) && looks < LOOKS_MAX => {
                    looks += 1;
                    None
                }
                () if todo.is_empty() => Some(End::NothingMore),
                () if rounds.len() + 1 == ROUNDS_MAX => Some(End::TooOften),
                () => None,
            };
            if end.is_none() && !todo.is_empty() {
                end = self.mend(rounds.len() + 1, &mut round, todo)?;
            }
            rounds.push(round);
            if let Some(end) = end {
                let remains = remains(&rounds, &lacks);
                return Ok((Fixed { schema: SCHEMA, rounds, end, remains, lacks }, recording));
            }
        }
    }

    /// What the shield lacks, and what would remove what was seen.
    fn lacking(&self, machine: &Machine, verdict: &Verdict) -> Result<Vec<Step>, Failure> {
        let Some(plan) = run::active(self.order.host, &self.store)? else { return Ok(Vec::new()) };
        let outcomes = apply::outcomes(self.order.host, &self.store)?;
        let leaks = verdict.cpus.iter().flat_map(|cpu| &cpu.leaks);
        let remedies = leaks.filter_map(|leak| leak.remedy.as_ref());
        let now = remedies.filter(|remedy| remedy.when == When::Runtime);
        let asked: BTreeSet<String> = now.map(|remedy| remedy.tunable.clone()).collect();
        Ok(missing(machine, &plan, &outcomes, &asked))
    }

    /// What can be done, and what not with the reason.
    fn sort(&self, lacking: Vec<Step>) -> (Vec<Step>, Vec<Lacking>) {
        let (mut todo, mut lacks) = (Vec::new(), Vec::new());
        for step in lacking {
            let tried = self.tried.iter().filter(|(change, _)| *change == step.change);
            let tried: Vec<&Deed> = tried.map(|(_, deed)| deed).collect();
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
            lacks.extend(why.map(|why| Lacking { tunable, subject, why }));
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
        round: &mut Round,
        mut todo: Vec<Step>,
    ) -> Result<Option<End>, Failure> {
        let ui = self.order.ui;
        let sum = round.sum(&|_, word| word.to_owned());
        ui.status(&format!("round {number}: {sum}; changes to make: {}", todo.len()));
        while !todo.is_empty() {
            // A CPU that goes offline disturbs cpusets and threads, so that comes first.
            let cycle = |step: &Step| matches!(step.change, Change::CycleCpu { .. });
            if todo.iter().any(cycle) {
                todo.retain(cycle);
            }
            let amended = apply::amend(self.order.host, &self.store, &todo)?;
            let deeds: Vec<Deed> = amended.steps.iter().map(Deed::of).collect();
            for step in todo {
                let subject = step.change.subject();
                let done = deeds.iter().rev().find(|deed| deed.subject == subject);
                self.tried.extend(done.map(|deed| (step.change.clone(), deed.clone())));
            }
            round.done.extend(deeds);
            if let Some(why) = amended.halted {
                ui.warn(&format!("{why}; what was done is part of the shield: `cpushield undo`"));
                let stopped = signal::stopped_by().is_some();
                return Ok(Some(if stopped { End::Stopped } else { End::NothingMore }));
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
fn is_over(change: &Change, deed: &Deed, times: usize) -> bool {
    let refused = matches!(deed.result, Came::Refused | Came::Absent);
    refused || !shows(change) || times >= TRIES_MAX
}

/// Whether it can be seen that a change is lacking.
fn shows(change: &Change) -> bool {
    !matches!(change, Change::CycleCpu { .. } | Change::BanFromIrqbalance { .. })
}

/// Why what was tried is still lacking; `None` where nobody can see whether it is.
fn failed(change: &Change, deed: &Deed) -> Option<String> {
    match deed.result {
        Came::Refused => {
            Some(format!("the kernel refuses: {}", deed.why.as_deref().unwrap_or("no reason")))
        }
        Came::Absent => Some("it is not there".to_owned()),
        Came::Changed | Came::AlreadySo => shows(change)
            .then(|| "it was done, but another process has changed it since".to_owned()),
    }
}
