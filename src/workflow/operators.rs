//! Operators: users other than root that start programs in a shield and move them out of it, and
//! the helper that answers their requests as root.

use super::WorkContext;
use super::program_request::{ProgramCpus, ProgramRequest, explain_busy};
use crate::apply::{PublicShield, PublicState, read_public_state};
use crate::documents::moved_process::MovedProcess;
use crate::documents::process_note::ProcessNote;
use crate::failure::Failure;
use crate::plan::alternatives;
use crate::policy::{OperatorName, ShieldOperators};
use crate::run::{
    self, HelperCaller, OPERATOR_COMMAND, OPERATOR_TIMEOUT, OperatorAnswer, OperatorRefusal,
    OperatorRequest, PRIORITY_MAX, ProgramStart, RunError, ShieldPlacement, operator_socket,
    sudoers_line,
};
use cpushield_linux::processes::operator_socket::OperatorConnection;
use cpushield_linux::{CpuSet, Error, Host, SchedPolicy, processes::inherited, processes::process};
use std::thread;
use std::time::Duration;

/// Answers the request of an operator that is connected to standard input. `socket_of` is the
/// shield of the socket.
pub fn answer_operator(work: &WorkContext<'_>, socket_of: Option<String>) {
    inherited::shed_inherited();
    let Ok(connection) = OperatorConnection::standard_input() else { return };
    let caller = HelperCaller { sudo_user: process::sudo_user(), socket_of };
    let answer = run::serve_operator(&work.host, &work.store, &connection, &caller);
    let line = answer.line();
    work.ui.warn(line.trim_end());
    // The process that asked may have ended.
    drop(connection.answer(&line));
}

/// Explains how operators reach the helper where systemd offers no socket.
pub(super) fn explain_sudoers<'a>(
    host: &Host,
    operators: impl IntoIterator<Item = &'a ShieldOperators>,
    program: &str,
) -> String {
    match sudoers_line(host, operators, program) {
        Ok(line) => {
            format!("operators need this line in /etc/sudoers.d/cpushield (use visudo): {line}")
        }
        Err(why) => format!(
            "do not permit {program} in sudoers: {why}; as root, install cpushield where only root \
             can write, such as /usr/local/bin, and let operators use that copy"
        ),
    }
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
        Ok(start) => run::execute(&work.host, &start).into(),
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
    if let (Some(asked), Some(priority)) = (request.policy, priority) {
        let given = SchedPolicy::Fifo { priority };
        if asked != given {
            ui.status(&ProcessNote::PriorityLowered { asked, given }.to_string());
        }
    }
    let public = choose_shield(work, denied)?;
    let group = public.group.clone();
    let place = ShieldPlacement::of_group(host, &public.shield, group);
    let Some(group) = &place.group else {
        let name = &place.name;
        return Err(Failure::machine(format!("shield {name} has no cgroup to enter")));
    };
    let choice = match request.cpus {
        ProgramCpus::One(cpu) => place.choose(host, cpu)?,
        ProgramCpus::Spread => return Err(only_root("--spread")),
    };
    explain_busy(ui, &choice);
    match place.v2 {
        false if priority.is_some() || request.own_priority.is_some() || request.lock_memory => {
            let why = "on cgroup v1, an operator's limits come from the login (limits.conf(5)), \
                       not from the policy";
            return Err(Failure::usage(why).hint("omit --fifo, --own-priority and --lock-memory"));
        }
        // A single thread, as this process has, is the whole process.
        false => host
            .write(&format!("{group}/tasks"), "0")
            .map_err(|error| explain_operators(error, &public, PermittedBy::Group))?,
        true => {
            let shield = Some(public.shield.name.clone());
            let lock_memory = request.lock_memory;
            let own_priority = request.own_priority;
            let request = OperatorRequest::Enter { shield, priority, own_priority, lock_memory };
            match ask(host, &request, &public)? {
                OperatorAnswer::Entered(entered) => {
                    entered.notes.iter().for_each(|note| ui.status(&note.to_string()));
                }
                answer => return Err(explain_refusal(answer)),
            }
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

/// Moves processes of this user out of a shield.
///
/// # Errors
/// There is no such shield, the user is no operator of it, or a process cannot be moved. Those that
/// were moved before it stay outside.
pub(super) fn remove_as_operator(
    work: &WorkContext<'_>,
    pids: &[i32],
    denied: Error,
) -> Result<Vec<MovedProcess>, Failure> {
    let WorkContext { host, .. } = work;
    let public = choose_shield(work, denied)?;
    let place = ShieldPlacement::of_group(host, &public.shield, public.group.clone());
    if let (Some(group), false) = (&place.group, place.v2) {
        let why = "on cgroup v1, operators move threads themselves, by writing to the tasks files";
        let mount = group.rsplit_once('/').map_or("", |(mount, _)| mount);
        let command = format!("echo PID >{mount}/cpushield_housekeeping/tasks");
        return Err(Failure::usage(why).hint(command));
    }
    let name = &public.shield.name;
    let moved = pids.iter().map(|pid| {
        let request = OperatorRequest::Leave { shield: Some(name.clone()), pid: Some(*pid) };
        match ask(host, &request, &public)? {
            OperatorAnswer::Left(moved) => Ok(moved),
            answer => Err(explain_refusal(answer)),
        }
    });
    moved.collect()
}

/// The priority that an operator requests, at most the highest one that root gives. Other policies,
/// and other users, need root.
fn find_priority(request: &ProgramRequest) -> Result<Option<u32>, Failure> {
    if request.user.is_some() {
        return Err(only_root("--user"));
    }
    match request.policy {
        Some(SchedPolicy::Fifo { priority }) => Ok(Some(priority.min(PRIORITY_MAX))),
        None | Some(SchedPolicy::Other { .. }) => Ok(None),
        Some(_) => Err(only_root("a scheduling policy other than --fifo and --nice")),
    }
}

fn only_root(what: &str) -> Failure {
    Failure::usage(format!("only root can use {what}")).hint("omit it, or run the command as root")
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

/// How often the helper is asked while it is busy, and the pauses between: about four seconds.
const BUSY_ATTEMPTS: u32 = 16;
const BUSY_PAUSE: Duration = Duration::from_millis(250);

/// Asks the helper, again if it is busy: it never waits, so that it cannot delay root.
fn ask(
    host: &Host,
    request: &OperatorRequest,
    public: &PublicShield,
) -> Result<OperatorAnswer, Failure> {
    for _ in 1..BUSY_ATTEMPTS {
        match ask_once(host, request, public)? {
            OperatorAnswer::Refused { refusal: OperatorRefusal::Busy { .. }, .. } => {
                thread::sleep(BUSY_PAUSE);
            }
            answer => return Ok(answer),
        }
    }
    ask_once(host, request, public)
}

fn ask_once(
    host: &Host,
    request: &OperatorRequest,
    public: &PublicShield,
) -> Result<OperatorAnswer, Failure> {
    let line = request.line();
    let socket = operator_socket(&public.shield.name);
    let answer = match host.ask_at_socket(&socket, &line, OPERATOR_TIMEOUT) {
        // Without the socket of systemd, sudo may permit the helper.
        Err(error) if error.is_absent() => {
            let program = host.read_link("/proc/self/exe")?;
            let command = ["sudo", "-n", &program, OPERATOR_COMMAND];
            host.ask_program(&command, &line, OPERATOR_TIMEOUT).map_err(|error| {
                let sudo = command.join(" ");
                let why = format!("{socket} does not exist, and `{sudo}` failed: {error}");
                let failure = Failure::machine(why)
                    .hint("create the socket as root (needs systemd): cpushield enable");
                failure.hint(explain_sudoers(host, public.operators.as_ref(), &program))
            })?
        }
        // systemd closes connections above the limits of the socket.
        Err(error) if error.is_closed() => return Ok(OperatorRefusal::Busy { pid: None }.into()),
        answer => answer.map_err(|error| explain_operators(error, public, PermittedBy::User))?,
    };
    serde_json::from_str(answer.trim_end()).map_err(|_| unexpected_answer())
}

fn unexpected_answer() -> Failure {
    Failure::machine("this version of cpushield does not understand the helper's answer")
}

/// The failure of an answer that does not say what was asked for.
fn explain_refusal(answer: OperatorAnswer) -> Failure {
    let OperatorAnswer::Refused { text, rule, .. } = answer else { return unexpected_answer() };
    rule.iter().map(|rule| explain_rule(rule)).fold(Failure::machine(text), Failure::hint)
}

fn explain_rule(rule: &str) -> String {
    format!("root can permit this in the policy: {rule}")
}

/// What a policy can permit here: on cgroup v1 only the members of a group are operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PermittedBy {
    User,
    Group,
}

/// Adds the operators of the shield, and what would permit the access that the kernel denied.
fn explain_operators(error: Error, public: &PublicShield, by: PermittedBy) -> Failure {
    let denied = error.is_denied();
    let name = &public.shield.name;
    let operators = match &public.operators {
        Some(operators) => format!("operators of shield {name}: {operators}"),
        None => format!("only root may enter shield {name}: its policy has no operators"),
    };
    let failure = Failure::from(error).hint(operators);
    if !denied {
        return failure;
    }
    let group = public.operators.as_ref().and_then(|operators| operators.group.as_ref());
    let rules = list_rules(name, group, by, process::effective_user());
    rules.into_iter().fold(failure, Failure::hint)
}

/// What would permit a user to enter a shield. `group` is that of its operators.
fn list_rules(
    shield: &str,
    group: Option<&OperatorName>,
    by: PermittedBy,
    uid: u32,
) -> Vec<String> {
    let shield = shield.to_owned();
    let member = group.map(|group| {
        let join = format!("usermod --append --groups {} USER", group.name);
        format!("as root, add the user to the group; this takes effect at the next login: {join}")
    });
    let rule = match (by, group) {
        (PermittedBy::User, _) => OperatorRefusal::NotPermitted { shield, uid }.rule(),
        (PermittedBy::Group, None) => {
            Some(format!("[shield.{shield}.operators] group = \"GROUP\""))
        }
        (PermittedBy::Group, Some(_)) => None,
    };
    let rule = rule.map(|rule| explain_rule(&rule));
    alternatives(rule.into_iter().chain(member))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_asks_for_no_priority_that_the_helper_never_gives() {
        for (asked, requested) in [(1, 1), (98, 98), (99, 98)] {
            let request = ProgramRequest {
                cpus: ProgramCpus::One(None),
                policy: Some(SchedPolicy::Fifo { priority: asked }),
                own_priority: None,
                is_watched: true,
                user: None,
                lock_memory: false,
                command: Vec::new(),
            };
            assert_eq!(find_priority(&request).ok(), Some(Some(requested)));
        }
    }

    #[test]
    fn a_denied_user_learns_what_would_permit_it() {
        let group = OperatorName { name: "rt".to_owned(), id: 44 };
        let join = "as root, add the user to the group; this takes effect at the next login: \
                    usermod --append --groups rt USER";
        let policy = "root can permit this in the policy: [shield.mill.operators]";
        let (user, own) =
            (format!("{policy} users = [\"7\"]"), format!("{policy} group = \"GROUP\""));
        for (group, by, wanted) in [
            (None, PermittedBy::User, vec![user.clone()]),
            (None, PermittedBy::Group, vec![own]),
            (Some(&group), PermittedBy::User, vec![user, format!("or {join}")]),
            (Some(&group), PermittedBy::Group, vec![join.to_owned()]),
        ] {
            assert_eq!(list_rules("mill", group, by, 7), wanted);
        }
    }
}
