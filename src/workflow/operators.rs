//! Operators: users other than root that start programs in a shield, and the helper that answers
//! their requests as root.

use super::WorkContext;
use super::run_program::{ProgramCpus, ProgramRequest, explain_busy};
use crate::apply::{PublicShield, PublicState, read_public_state};
use crate::documents::process_note::ProcessNote;
use crate::failure::Failure;
use crate::policy::ShieldOperators;
use crate::run::{
    self, OPERATOR_COMMAND, OPERATOR_SOCKET, OPERATOR_TIMEOUT, OperatorAnswer, OperatorRequest,
    ProgramStart, RunError, ShieldPlacement, sudoers_line,
};
use cpushield_linux::operator_socket::OperatorConnection;
use cpushield_linux::{CpuSet, Error, Host, SchedPolicy, process};
use std::collections::BTreeSet;

/// Answers the request of an operator that is connected to standard input.
pub fn answer_operator(work: &WorkContext<'_>) {
    let Ok(connection) = OperatorConnection::standard_input() else { return };
    let sudo_user = process::sudo_user();
    let answer = run::serve_operator(&work.host, &work.store, &connection, sudo_user);
    let line = answer.line();
    work.ui.warn(line.trim_end());
    // The process that asked may have ended.
    drop(connection.answer(&line));
}

/// Explains how operators reach the helper where systemd offers no socket.
pub(super) fn explain_sudoers<'a>(
    operators: impl IntoIterator<Item = &'a ShieldOperators>,
    program: &str,
) -> String {
    let names = operators.into_iter().flat_map(|operators| {
        let group = operators.group.iter().map(|group| format!("%{}", group.name));
        group.chain(operators.users.iter().map(|user| user.name.clone()))
    });
    let names: BTreeSet<String> = names.collect();
    let line = sudoers_line(&names.into_iter().collect::<Vec<_>>().join(","), program);
    format!("operators need this line in /etc/sudoers.d/cpushield, made with visudo: {line}")
}

/// Starts a program in a shield for an operator. Returns only if that failed.
///
/// # Errors
/// There is no such shield, the user is no operator of it, or the program cannot be started.
pub(super) fn become_operator_program(
    work: &WorkContext<'_>,
    request: &ProgramRequest,
    denied: Error,
) -> Failure {
    match enter_as_operator(work, request, denied) {
        Ok(start) => run::execute(&start).into(),
        Err(failure) => failure,
    }
}

/// Enters the shield, and returns the program to execute there.
fn enter_as_operator(
    work: &WorkContext<'_>,
    request: &ProgramRequest,
    denied: Error,
) -> Result<ProgramStart, Failure> {
    let WorkContext { ui, host, .. } = work;
    let priority = find_priority(request)?;
    let public = choose_shield(work, denied)?;
    let group = public.group.clone();
    let place = ShieldPlacement::of_group(host, &public.shield, group);
    let Some(group) = &place.group else {
        let name = &place.name;
        return Err(Failure::machine(format!("shield {name} has no control group to enter")));
    };
    let choice = match request.cpus {
        ProgramCpus::One(cpu) => place.choose(host, cpu)?,
        ProgramCpus::Spread => return Err(only_root("--spread")),
    };
    explain_busy(ui, &choice);
    match place.v2 {
        false if priority.is_some() || request.lock_memory => {
            let why = "on cgroup v1 an operator has the limits of its login (limits.conf(5))";
            return Err(Failure::usage(why).hint("omit --fifo and --lock-memory"));
        }
        // A single thread, as this process has, is the whole process.
        false => host.write(&format!("{group}/tasks"), "0").map_err(|error| {
            let failure = Failure::from(error);
            explain_operators(failure, &public)
        })?,
        true => {
            let shield = Some(public.shield.name.clone());
            let lock_memory = request.lock_memory;
            ask(host, &OperatorRequest::Enter { shield, priority, lock_memory }, &public)?
                .iter()
                .for_each(|note| ui.status(&note.to_string()));
        }
    }
    let cpus = CpuSet::single(choice.cpu);
    host.set_affinity(0, &cpus)?;
    if let Some(policy @ SchedPolicy::Other { .. }) = request.policy {
        host.set_scheduling(0, policy)?;
    }
    Ok(ProgramStart {
        place,
        cpus,
        policy: None,
        user: None,
        lock_memory: false,
        command: request.command.clone(),
    })
}

/// The priority that an operator requests. Other policies, and other users, need root.
fn find_priority(request: &ProgramRequest) -> Result<Option<u32>, Failure> {
    if request.user.is_some() {
        return Err(only_root("--user"));
    }
    if request.own_priority.is_some() {
        return Err(only_root("--own-priority"));
    }
    match request.policy {
        Some(SchedPolicy::Fifo { priority }) => Ok(Some(priority)),
        None | Some(SchedPolicy::Other { .. }) => Ok(None),
        Some(_) => Err(only_root("a policy other than --fifo and --nice")),
    }
}

fn only_root(what: &str) -> Failure {
    Failure::usage(format!("only root can use {what}")).hint("omit it, or run it as root")
}

/// The active shield of this name, or the only one, as far as every user can know.
fn choose_shield(work: &WorkContext<'_>, denied: Error) -> Result<PublicShield, Failure> {
    let shields = match read_public_state(&work.host, &work.store) {
        PublicState::Active(shields) => shields,
        PublicState::Unknown | PublicState::Unfinished => return Err(denied.into()),
    };
    let names = || shields.iter().map(|it| it.shield.name.clone()).collect();
    let found = match (work.shield.as_deref(), shields.as_slice()) {
        (_, []) => return Err(RunError::NoShield.into()),
        (None, [only]) => only,
        (None, _) => return Err(RunError::Several { names: names() }.into()),
        (Some(name), _) => {
            let missing = || RunError::NoSuchShield { name: name.to_owned(), names: names() };
            shields.iter().find(|it| it.shield.name == name).ok_or_else(missing)?
        }
    };
    Ok(found.clone())
}

/// Asks the helper for a place. Returns its notes.
fn ask(
    host: &Host,
    request: &OperatorRequest,
    public: &PublicShield,
) -> Result<Vec<ProcessNote>, Failure> {
    let line = request.line();
    let answer = match host.ask_at_socket(OPERATOR_SOCKET, &line, OPERATOR_TIMEOUT) {
        // Without the socket of systemd, sudo may permit the helper.
        Err(error) if error.is_absent() => {
            let program = host.read_link("/proc/self/exe")?;
            let command = ["sudo", "-n", &program, OPERATOR_COMMAND];
            host.ask_program(&command, &line, OPERATOR_TIMEOUT).map_err(|_| {
                let why = format!("{OPERATOR_SOCKET} does not exist, and sudo does not permit it");
                let failure = Failure::machine(why)
                    .hint("root opens the socket where systemd runs: cpushield enable");
                failure.hint(explain_sudoers(public.operators.as_ref(), &program))
            })?
        }
        answer => answer.map_err(|error| explain_operators(Failure::from(error), public))?,
    };
    match serde_json::from_str(answer.trim_end()) {
        Ok(OperatorAnswer::Entered(entered)) => Ok(entered.notes),
        Ok(OperatorAnswer::Refused { text, rule, .. }) => {
            let rule = rule.map(|rule| format!("root can permit it in the policy: {rule}"));
            Err(rule.into_iter().fold(Failure::machine(text), Failure::hint))
        }
        Ok(OperatorAnswer::Left { .. }) | Err(_) => {
            Err(Failure::machine("the answer of the helper is not one of this version"))
        }
    }
}

/// Adds who the operators are.
fn explain_operators(failure: Failure, public: &PublicShield) -> Failure {
    let name = &public.shield.name;
    match &public.operators {
        Some(operators) => failure.hint(format!("operators of shield {name}: {operators}")),
        None => {
            failure.hint(format!("only root may enter shield {name}: its policy has no operators"))
        }
    }
}
