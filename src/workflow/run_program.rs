//! Starts a program in the shield and supervises it.

use super::WorkContext;
use super::operators::become_operator_program;
use super::program_request::explain_busy;
pub use super::program_request::{ProgramCpus, ProgramRequest};
use crate::apply::JournalLoadError;
use crate::failure::{Failure, FailureKind};
pub use crate::run::parse_deadline;
use crate::run::{self, ProgramStart, RunError, ShieldPlacement, Supervision};
use cpushield_linux::{CpuSet, SchedPolicy};
use std::process::ExitCode;

/// Runs a program in the shield. Returns only if the program could not be started, or if this
/// process stayed as its parent.
///
/// # Errors
/// There is no shield, or the program cannot be started with these options.
pub fn run_program(work: &WorkContext<'_>, request: &ProgramRequest) -> Result<ExitCode, Failure> {
    let WorkContext { ui, host, store, .. } = work;
    if let Err(RunError::Journal(JournalLoadError::Access(error))) = run::all_active(host, store)
        && error.is_denied()
    {
        return Err(become_operator_program(work, request, error));
    }
    let (start, supervision) = prepare(work, request)?;
    if !request.is_watched {
        // Without it, `status` still shows what is risky.
        let _ = run::observe_start(host, &start.place, &|line| ui.warn(&line));
    }
    if !supervision.is_needed() {
        return Err(run::become_program(host, &start).into());
    }
    let ended = run::supervise(
        host,
        store,
        &start,
        &supervision,
        &mut |line: String| ui.status(&line),
        |error: run::RunError| {
            let failure = fail_before_start(Failure::from(error));
            ui.show_failure(&failure);
            failure.kind.code()
        },
    )?;
    Ok(ExitCode::from(ended.status()))
}

/// Gives a failure before the program ran an exit code that is reserved for cpushield.
#[must_use]
pub fn fail_before_start(failure: Failure) -> Failure {
    let kind = match failure.kind {
        FailureKind::NotFound | FailureKind::NotExecutable | FailureKind::Bug => failure.kind,
        _ => FailureKind::NotStarted,
    };
    Failure { kind, ..failure }
}

fn prepare(
    work: &WorkContext<'_>,
    request: &ProgramRequest,
) -> Result<(ProgramStart, Supervision), Failure> {
    let WorkContext { ui, host, store, .. } = work;
    let plan = run::shield(host, store, work.shield.as_deref())?;
    let place = ShieldPlacement::new(host, &plan);
    let requested = request.policy;
    let cpus = match (request.cpus, requested) {
        (ProgramCpus::Spread, _) => place.cpus.clone(),
        // The kernel allows SCHED_DEADLINE only for tasks that may run on all CPUs of their domain.
        (ProgramCpus::One(None), Some(SchedPolicy::Deadline { .. })) => {
            place.cpus.union(&place.idle)
        }
        // The scheduler chooses among them.
        (ProgramCpus::One(None), _) if plan.shield.balanced => place.cpus.clone(),
        (ProgramCpus::One(cpu), _) => {
            let choice = place.choose(host, cpu)?;
            explain_busy(ui, &choice);
            CpuSet::single(choice.cpu)
        }
    };
    place.check_online(host, &cpus)?;
    if let Some(note) = run::memory_note(host, store, &place) {
        ui.status(&note.to_string());
    }
    let user = request.user.as_deref().map(|user| run::look_up(host, user)).transpose()?;
    let ceiling = match (requested, request.own_priority) {
        (None, Some(priority)) => SchedPolicy::Fifo { priority },
        (requested, _) => requested.unwrap_or(SchedPolicy::Other { nice: 0 }),
    };
    run::check_policy(ceiling)?;
    // A program that sets its own priority may also choose the CPU of a thread.
    let rt_cpus = if request.own_priority.is_some() { &place.cpus } else { &cpus };
    let threads = match ceiling.rt_priority() {
        0 => Vec::new(),
        _ => run::threads(host, rt_cpus)?,
    };
    let order = run::order(ceiling, rt_cpus, &threads);
    for note in order.notes(ceiling) {
        ui.status(&note.to_string());
    }
    if ceiling.rt_priority() > 0 {
        run::limits(host, rt_cpus).iter().for_each(|sentence| ui.status(sentence));
    }
    if !request.lock_memory
        && let Some(user) = &user
    {
        run::lock_limit(user).iter().for_each(|sentence| ui.status(sentence));
    }
    let policy = requested.map(|_| order.policy).or_else(|| run::ordinary(host));
    let rt_cpus = rt_cpus.clone();
    let spread = (request.cpus == ProgramCpus::Spread).then(|| place.cpus.clone());
    let start = ProgramStart {
        place,
        cpus,
        policy,
        user,
        lock_memory: request.lock_memory,
        command: request.command.clone(),
    };
    Ok((start, Supervision { order, rt_cpus, spread, check_memory: request.lock_memory }))
}
