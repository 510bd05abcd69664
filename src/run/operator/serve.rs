//! The helper: it answers one request of an operator, as root, and ends. It moves only the process
//! that asks, which the kernel names, or another one of the same user out of the shield. It
//! executes nothing. Whatever it does is in the record of programs first, so `undo` takes it back.
//!
//! The number of a process that ends may belong to another one at once. So the process is checked
//! before the change and after it, by its start time and by a descriptor of the process itself. If
//! another process was moved, it is moved back, and it loses what it was given.

use super::asker::{Asker, HeldProcess};
use super::request::{EnteredShield, OperatorAnswer, OperatorRefusal, OperatorRequest};
use super::request::{OPERATOR_TIMEOUT, REQUEST_BYTES_MAX};
use super::rights::ProcessRights;
use crate::documents::plan::Plan;
use crate::documents::process_note::ProcessNote;
use crate::policy::{MemoryLimit, OperatorLimits};
use crate::run::added::{CpuAssignment, add};
use crate::run::destination::Destination;
use crate::run::removed::{Removal, remove_to};
use crate::run::task_lookup::{cgroup_of, threads_of};
use crate::run::{RunError, ShieldPlacement, all_active, raise, record, shield};
use cpushield_linux::errno::ESRCH;
use cpushield_linux::processes::operator_socket::{OperatorConnection, ReceivedLine, SocketPeer};
use cpushield_linux::{AffinityGuard, Host, SchedPolicy, Store, TaskId};
use std::time::Duration;

/// How long the helper waits for the request of a user that is no operator. The client sends its
/// request at once, and an answer before that would be lost with it.
const STRANGER_TIMEOUT: Duration = Duration::from_millis(100);

/// What has started the helper.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HelperCaller {
    /// The user that called sudo; `None` without sudo.
    pub sudo_user: Option<u32>,
    /// The shield of the socket; `None` without one.
    pub socket_of: Option<String>,
}

/// Answers the request of one connection. Returns the answer.
#[must_use]
pub fn serve_operator(
    host: &Host,
    store: &Store,
    connection: &OperatorConnection,
    caller: &HelperCaller,
) -> OperatorAnswer {
    answer(host, store, connection, caller).unwrap_or_else(OperatorAnswer::from)
}

fn answer(
    host: &Host,
    store: &Store,
    connection: &OperatorConnection,
    caller: &HelperCaller,
) -> Result<OperatorAnswer, OperatorRefusal> {
    let peer = connection.peer().map_err(|error| match error.raw_os_error() {
        Some(ESRCH) => OperatorRefusal::Ended,
        _ => RunError::call("getsockopt", error).into(),
    })?;
    let stranger = find_stranger(host, store, caller, &peer);
    let timeout = if stranger.is_some() { STRANGER_TIMEOUT } else { OPERATOR_TIMEOUT };
    let received = connection.receive(REQUEST_BYTES_MAX, timeout);
    let line = match received.map_err(|error| RunError::call("recv", error))? {
        ReceivedLine::Line(line) => line,
        ReceivedLine::TooLong => return Err(OperatorRefusal::TooLong),
        ReceivedLine::Incomplete => return Err(stranger.unwrap_or(OperatorRefusal::Incomplete)),
    };
    let request = OperatorRequest::parse(&line)?;
    let asker = Asker::find(host, peer, caller.sudo_user)?;
    let shield = choose_shield(&request, caller)?;
    // A user that is no operator never holds the lock.
    let plan = find_shield(host, store, shield.as_deref(), &asker)?;
    leave_shielded_cpus(host, &plan)?;
    let other = match &request {
        OperatorRequest::Leave { pid: Some(pid), .. } => Some(asker.find_other(host, *pid)?),
        _ => None,
    };
    // Many may ask at once: none waits, so none delays root.
    let lock = store.lock_or_give_way().map_err(|error| match error.is_held() {
        true => OperatorRefusal::Busy { pid: error.holder() },
        false => RunError::from(error).into(),
    })?;
    let store = &store.clone().holding(lock);
    let plan = find_shield(host, store, shield.as_deref(), &asker)?;
    let entry = ShieldEntry { host, store, plan: &plan, asker: &asker };
    match (request, other) {
        (OperatorRequest::Enter { priority, own_priority, lock_memory, .. }, _) => {
            // No process waits for the end of an operator's program.
            let lowered = record::open(host, store)
                .and_then(|mut open| raise::lower_unneeded(host, &mut open, None));
            drop(lowered?);
            entry.enter(priority, own_priority, lock_memory).map(OperatorAnswer::Entered)
        }
        (OperatorRequest::Leave { .. }, None) => {
            entry.leave(&asker.process, || OperatorRefusal::Ended)
        }
        (OperatorRequest::Leave { .. }, Some(process)) => {
            entry.leave(&process, || OperatorRefusal::NoProcess { pid: process.pid() })
        }
    }
}

/// The refusal of a user that is no operator of the shield of the socket. It is known before the
/// request, so that such a user keeps no helper busy.
fn find_stranger(
    host: &Host,
    store: &Store,
    caller: &HelperCaller,
    peer: &SocketPeer,
) -> Option<OperatorRefusal> {
    let plan = shield(host, store, Some(caller.socket_of.as_deref()?)).ok()?;
    check_permitted(&plan, peer.uid, &peer.groups).err()
}

/// Moves the helper to housekeeping CPUs. sudo starts it where its caller runs, and a real-time
/// program there could keep it from running while it holds the lock.
fn leave_shielded_cpus(host: &Host, plan: &Plan) -> Result<(), RunError> {
    let step_aside = || host.step_aside(&plan.shield.housekeeping).map(AffinityGuard::stay);
    if step_aside().is_ok() {
        return Ok(());
    }
    // It is in the group of the shield, as its caller. 0 is the process that writes.
    let group = plan.cgroup_dir();
    if let Some((above, _)) = group.as_deref().and_then(|group| group.rsplit_once('/')) {
        host.write(&format!("{above}/cgroup.procs"), "0").map_err(RunError::Machine)?;
    }
    step_aside().map(drop).map_err(|error| RunError::call("sched_setaffinity", error))
}

impl From<RunError> for OperatorRefusal {
    fn from(error: RunError) -> OperatorRefusal {
        OperatorRefusal::Machine { why: error.to_string() }
    }
}

/// The name of the requested shield. A socket is for the operators of its shield only.
fn choose_shield(
    request: &OperatorRequest,
    caller: &HelperCaller,
) -> Result<Option<String>, OperatorRefusal> {
    let (OperatorRequest::Enter { shield, .. } | OperatorRequest::Leave { shield, .. }) = request;
    match (shield, &caller.socket_of) {
        (Some(shield), Some(socket_of)) if shield != socket_of => {
            let (shield, socket_of) = (shield.clone(), socket_of.clone());
            Err(OperatorRefusal::OtherSocket { shield, socket_of })
        }
        (shield, socket_of) => Ok(shield.clone().or_else(|| socket_of.clone())),
    }
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
        error => error.into(),
    })?;
    check_permitted(&plan, asker.uid, &asker.groups)?;
    Ok(plan)
}

/// Checks that a user with these groups is an operator of a shield.
fn check_permitted(plan: &Plan, uid: u32, groups: &[u32]) -> Result<(), OperatorRefusal> {
    match &plan.operators {
        Some(operators) if operators.permit(uid, groups) => Ok(()),
        _ => Err(OperatorRefusal::NotPermitted { shield: plan.shield.name.clone(), uid }),
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
        own_priority: Option<u32>,
        lock_memory: bool,
    ) -> Result<EnteredShield, OperatorRefusal> {
        let limits = self.limits();
        if let Some(priority) = priority.or(own_priority)
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
        let pid = self.asker.process.pid();
        let members = place.members(self.host)?;
        let moved = match members.contains(&pid) {
            true => None,
            false => {
                self.refuse_own_policy(limits.priority)?;
                self.refuse_other_shield()?;
                self.move_in(&place)?
            }
        };
        // It may have changed its policy before it was moved.
        if moved.is_some()
            && let Err(refusal) = self.refuse_own_policy(limits.priority)
        {
            self.take_back(&place, moved);
            return Err(refusal);
        }
        let (process, shield) = (&self.asker.process, &self.plan.shield.name);
        let mut rights = ProcessRights::new(self.host, self.store, process, shield);
        let given = self.give(&place, (priority, own_priority), locked_memory, &mut rights);
        let lives = self.asker.process.lives(self.host);
        match given {
            Ok(notes) if lives => {
                let (shield, cpus) = (self.shield(), place.cpus);
                Ok(EnteredShield { shield, cpus, priority, own_priority, locked_memory, notes })
            }
            given => {
                // The first error is reported.
                rights.take_back();
                self.take_back(&place, moved);
                let error = given.err().filter(|_| lives);
                Err(error.map_or(OperatorRefusal::Ended, OperatorRefusal::from))
            }
        }
    }

    /// Moves the process with the number in. Returns that process, which may be another one than
    /// the one that asks; `None` if it has ended since.
    fn move_in(&self, place: &ShieldPlacement) -> Result<Option<TaskId>, OperatorRefusal> {
        let pid = self.asker.process.pid();
        add(self.host, self.store, place, pid, CpuAssignment::All)?;
        let Ok(known) = record::read(self.host, self.store) else {
            return Ok(Some(self.asker.process.task));
        };
        let mut added = known.added.iter().map(|added| added.task);
        Ok(added.find(|task| task.tid == pid && self.host.is_same_task(*task)))
    }

    /// Refuses a process with a thread that already has a higher priority than the policy permits:
    /// the threads of the kernel would be raised above it.
    fn refuse_own_policy(&self, highest: Option<u32>) -> Result<(), OperatorRefusal> {
        let task = self.asker.process.task(self.host).ok_or(OperatorRefusal::Ended)?;
        let threads = threads_of(self.host, &task)?;
        for thread in threads {
            let Ok(policy) = self.host.scheduling(thread.id.tid) else { continue };
            let permitted = match policy {
                SchedPolicy::Deadline { .. } => false,
                policy => policy.rt_priority() <= highest.unwrap_or(0),
            };
            if !permitted {
                let shield = self.shield();
                return Err(OperatorRefusal::OwnPolicy { shield, policy, highest });
            }
        }
        Ok(())
    }

    /// Refuses a process that is in another shield, also as the child of one that entered it: its
    /// way back leads out of that one.
    fn refuse_other_shield(&self) -> Result<(), OperatorRefusal> {
        let plans = all_active(self.host, self.store)?;
        let others = plans.iter().filter(|plan| plan.shield.name != self.plan.shield.name);
        for plan in others {
            let place = ShieldPlacement::new(self.host, plan);
            let members = place.members(self.host)?;
            if members.contains(&self.asker.process.pid()) {
                return Err(OperatorRefusal::InOtherShield);
            }
        }
        Ok(())
    }

    /// Moves the process back that was moved in, whichever it was: the record says from where. What
    /// cannot be restored stays on record.
    fn take_back(&self, place: &ShieldPlacement, moved: Option<TaskId>) {
        if let Some(TaskId { tid, started }) = moved {
            let destination = Destination::OfUser { asker: self.asker.process.pid() };
            let removal = Removal { tid, started: Some(started), destination };
            drop(remove_to(self.host, self.store, place, removal));
        }
    }

    /// Gives the process the priority, or room below the kernel threads for its own one, and the
    /// limit. The program moves between the CPUs of the shield as it likes, so all of them count.
    fn give(
        &self,
        place: &ShieldPlacement,
        (priority, own_priority): (Option<u32>, Option<u32>),
        locked_memory: Option<MemoryLimit>,
        rights: &mut ProcessRights<'_>,
    ) -> Result<Vec<ProcessNote>, RunError> {
        if let Some(limit) = locked_memory {
            rights.raise_lock_limit(limit)?;
        }
        let (priority, order) = match (priority, own_priority) {
            (Some(priority), _) => (priority, rights.give_priority(priority, &place.cpus)?),
            (None, Some(own)) => (own, rights.raise_kernel_threads(own, &place.cpus)?),
            (None, None) => return Ok(Vec::new()),
        };
        Ok(order.notes(SchedPolicy::Fifo { priority }))
    }

    /// Moves a process out. `ended` is the refusal if it ends before.
    fn leave(
        &self,
        process: &HeldProcess,
        ended: impl Fn() -> OperatorRefusal,
    ) -> Result<OperatorAnswer, OperatorRefusal> {
        let place = ShieldPlacement::new(self.host, self.plan);
        let pid = process.pid();
        let members = place.members(self.host)?;
        if !members.contains(&pid) {
            return Err(OperatorRefusal::NotInShield { shield: self.shield() });
        }
        if let Some(group) = &place.group {
            let task = self.host.task(pid, pid).map_err(|_| ended())?;
            let dir = cgroup_of(self.host, group, place.v2, &task).map_err(|_| ended())?;
            if let Some(unit) = place.unit_of(&dir) {
                return Err(OperatorRefusal::InUnit { unit: unit.to_owned() });
            }
        }
        let started = Some(process.task.started);
        let destination = Destination::OfUser { asker: self.asker.process.pid() };
        let removal = Removal { tid: pid, started, destination };
        let moved = remove_to(self.host, self.store, &place, removal);
        match moved {
            Ok(moved) => Ok(OperatorAnswer::Left(moved)),
            Err(_) if !process.lives(self.host) => Err(ended()),
            Err(RunError::NoDestination { .. }) => Err(OperatorRefusal::NoDestination { pid }),
            Err(error) => Err(error.into()),
        }
    }
}
