//! The helper: it answers one request of an operator, as root, and ends. It moves only the process
//! that asks, which the kernel names, and executes nothing. Whatever it does is in the record of
//! programs first, so `undo` takes it back.
//!
//! The number of a process that ends may belong to another one at once. So the process is checked
//! before the change and after it, by its start time and by a descriptor of the process itself. If
//! another process was moved, it is moved back.

use super::request::{EnteredShield, OperatorAnswer, OperatorRefusal, OperatorRequest};
use super::request::{OPERATOR_TIMEOUT, REQUEST_BYTES_MAX};
use crate::documents::plan::Plan;
use crate::documents::process_note::ProcessNote;
use crate::policy::{MemoryLimit, OperatorLimits};
use crate::run::added::{CpuAssignment, add};
use crate::run::order::order;
use crate::run::removed::{Destination, remove_to};
use crate::run::{RunError, ShieldPlacement, raise, record, shield};
use cpushield_linux::operator_socket::{OperatorConnection, ReceivedLine, SocketPeer};
use cpushield_linux::{Host, SchedPolicy, Store, TaskId};

/// Answers the request of one connection. Returns the answer.
#[must_use]
pub fn serve_operator(
    host: &Host,
    store: &Store,
    connection: &OperatorConnection,
    sudo_user: Option<u32>,
) -> OperatorAnswer {
    answer(host, store, connection, sudo_user).unwrap_or_else(OperatorAnswer::from)
}

fn answer(
    host: &Host,
    store: &Store,
    connection: &OperatorConnection,
    sudo_user: Option<u32>,
) -> Result<OperatorAnswer, OperatorRefusal> {
    let peer = connection.peer().map_err(|_| OperatorRefusal::Ended)?;
    let received = connection.receive(REQUEST_BYTES_MAX, OPERATOR_TIMEOUT);
    let line = match received.map_err(|error| machine(&RunError::call("recv", error)))? {
        ReceivedLine::Line(line) => line,
        ReceivedLine::TooLong => return Err(OperatorRefusal::TooLong),
        ReceivedLine::Incomplete => return Err(OperatorRefusal::Incomplete),
    };
    let request = OperatorRequest::parse(&line)?;
    let asker = Asker::find(host, peer, sudo_user)?;
    match request {
        OperatorRequest::Enter { shield, priority, lock_memory } => {
            let plan = find_shield(host, store, shield.as_deref(), &asker)?;
            // No process waits for the end of an operator's program.
            let lowered = record::open(host, store)
                .and_then(|mut open| raise::lower_unneeded(host, &mut open, None));
            drop(lowered.map_err(|error| machine(&error))?);
            let entry = ShieldEntry { host, store, plan: &plan, asker: &asker };
            entry.enter(priority, lock_memory).map(OperatorAnswer::Entered)
        }
        OperatorRequest::Leave { shield } => {
            let plan = find_shield(host, store, shield.as_deref(), &asker)?;
            ShieldEntry { host, store, plan: &plan, asker: &asker }.leave()
        }
    }
}

fn machine(error: &RunError) -> OperatorRefusal {
    OperatorRefusal::Machine { why: error.to_string() }
}

/// The process that asks.
struct Asker {
    peer: SocketPeer,
    task: TaskId,
}

impl Asker {
    /// Finds the process. With sudo, the user that called it must be the one that asks: its
    /// standard input may be any socket.
    fn find(
        host: &Host,
        peer: SocketPeer,
        sudo_user: Option<u32>,
    ) -> Result<Asker, OperatorRefusal> {
        let started = host.start_time(peer.pid).ok_or(OperatorRefusal::Ended)?;
        let asker = Asker { task: TaskId { tid: peer.pid, started }, peer };
        let is_caller = sudo_user.is_none_or(|uid| uid == asker.peer.uid);
        match is_caller && has_user(host, asker.peer.pid, asker.peer.uid) && asker.lives(host) {
            true => Ok(asker),
            false => Err(OperatorRefusal::Ended),
        }
    }

    /// Whether the number still belongs to the process that asked.
    fn lives(&self, host: &Host) -> bool {
        // The descriptor comes last: as long as it has not ended, the number is its own.
        host.is_same_task(self.task) && self.peer.has_ended().is_ok_and(|ended| !ended)
    }
}

/// Whether a process has this user as its real, effective and saved one.
fn has_user(host: &Host, pid: i32, uid: u32) -> bool {
    let text = host.read(&format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    let mut users = line.split_whitespace().take(3).map(str::parse);
    let all: Vec<u32> = users.by_ref().flatten().collect();
    all.len() == 3 && all.iter().all(|user| *user == uid)
}

/// The shield that the process asks for, of which its user is an operator.
fn find_shield(
    host: &Host,
    store: &Store,
    name: Option<&str>,
    asker: &Asker,
) -> Result<Plan, OperatorRefusal> {
    let plan = shield(host, store, name).map_err(|error| match error {
        RunError::NoShield | RunError::Several { .. } | RunError::NoSuchShield { .. } => {
            OperatorRefusal::NoShield { why: error.to_string() }
        }
        error => machine(&error),
    })?;
    let (uid, shield) = (asker.peer.uid, plan.shield.name.clone());
    match &plan.operators {
        Some(operators) if operators.permit(uid, &asker.peer.groups) => Ok(plan),
        _ => Err(OperatorRefusal::NotPermitted { shield, uid }),
    }
}

/// A request for one shield.
struct ShieldEntry<'a> {
    host: &'a Host,
    store: &'a Store,
    plan: &'a Plan,
    asker: &'a Asker,
}

impl ShieldEntry<'_> {
    fn limits(&self) -> OperatorLimits {
        self.plan.operators.as_ref().map(|it| it.limits.clone()).unwrap_or_default()
    }

    fn shield(&self) -> String {
        self.plan.shield.name.clone()
    }

    fn enter(
        &self,
        priority: Option<u32>,
        lock_memory: bool,
    ) -> Result<EnteredShield, OperatorRefusal> {
        let limits = self.limits();
        if let Some(priority) = priority
            && !limits.priority.is_some_and(|highest| (1..=highest).contains(&priority))
        {
            let (shield, highest) = (self.shield(), limits.priority);
            return Err(OperatorRefusal::Priority { shield, priority, highest });
        }
        let locked_memory = limits.locked_memory.filter(|_| lock_memory);
        if lock_memory && locked_memory.is_none() {
            return Err(OperatorRefusal::LockedMemory { shield: self.shield() });
        }
        let place = ShieldPlacement::new(self.host, self.plan);
        if place.group.is_none() {
            return Err(OperatorRefusal::NoGroup { shield: self.shield() });
        }
        let pid = self.asker.peer.pid;
        let members = place.members(self.host).map_err(|error| machine(&error))?;
        let was_in = members.contains(&pid);
        if !was_in {
            self.refuse_other_shield()?;
            add(self.host, self.store, &place, pid, CpuAssignment::All)
                .map_err(|error| machine(&error))?;
        }
        let given = self.give(&place, priority, locked_memory);
        if !self.asker.lives(self.host) {
            self.take_back(&place, was_in, priority);
            return Err(OperatorRefusal::Ended);
        }
        match given {
            Ok(notes) => {
                let (shield, cpus) = (self.shield(), place.cpus);
                Ok(EnteredShield { shield, cpus, priority, locked_memory, notes })
            }
            Err(error) => {
                self.take_back(&place, was_in, priority);
                Err(machine(&error))
            }
        }
    }

    /// Refuses a process that has a place in another shield: its way back leads out of that one.
    fn refuse_other_shield(&self) -> Result<(), OperatorRefusal> {
        let known = record::read(self.host, self.store).map_err(|error| machine(&error))?;
        match known.added.iter().any(|added| added.task == self.asker.task) {
            true => Err(OperatorRefusal::InOtherShield),
            false => Ok(()),
        }
    }

    /// Moves the process back that was moved in, whichever it was. The record says from where.
    fn take_back(&self, place: &ShieldPlacement, was_in: bool, priority: Option<u32>) {
        let pid = self.asker.peer.pid;
        // The first error is reported; what cannot be restored stays on record.
        if !was_in {
            drop(remove_to(self.host, self.store, place, pid, Destination::Above));
        } else if priority.is_some() && !self.asker.lives(self.host) {
            // Another process may have got the number, and the priority with it.
            drop(self.host.set_scheduling(pid, SchedPolicy::Other { nice: 0 }));
        }
    }

    /// Gives the process the priority and the limit.
    fn give(
        &self,
        place: &ShieldPlacement,
        priority: Option<u32>,
        locked_memory: Option<MemoryLimit>,
    ) -> Result<Vec<ProcessNote>, RunError> {
        let pid = self.asker.peer.pid;
        if let Some(limit) = locked_memory {
            let bytes = match limit {
                MemoryLimit::Unlimited => None,
                MemoryLimit::Bytes(bytes) => Some(bytes),
            };
            self.host.raise_lock_limit(pid, bytes)?;
        }
        let Some(priority) = priority else { return Ok(Vec::new()) };
        let wanted = SchedPolicy::Fifo { priority };
        let order = order(wanted, &place.cpus, &raise::threads(self.host, &place.cpus)?);
        let mut open = record::open(self.host, self.store)?;
        // The program moves between the CPUs of the shield as it likes, so all of them count.
        raise::raise(self.host, &mut open, &order, &place.cpus, self.asker.task)?;
        for added in open.record.added.iter_mut().filter(|added| added.pid == pid) {
            added.granted = true;
        }
        open.save()?;
        self.host.set_scheduling(pid, order.policy)?;
        Ok(order.notes(wanted))
    }

    fn leave(&self) -> Result<OperatorAnswer, OperatorRefusal> {
        let place = ShieldPlacement::new(self.host, self.plan);
        let pid = self.asker.peer.pid;
        let members = place.members(self.host).map_err(|error| machine(&error))?;
        if !members.contains(&pid) {
            return Err(OperatorRefusal::NotInShield { shield: self.shield() });
        }
        let moved = remove_to(self.host, self.store, &place, pid, Destination::Above);
        match moved {
            Ok(moved) => Ok(OperatorAnswer::Left { cpus: moved.cpus }),
            Err(_) if !self.asker.lives(self.host) => Err(OperatorRefusal::Ended),
            Err(error) => Err(machine(&error)),
        }
    }
}
