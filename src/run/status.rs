//! [`Status`]: the shield in force, whether it still is as it was left, and everything that is on
//! its CPUs: threads and interrupts. It reads no more than that, and decides nothing; the one thing
//! it changes is a trace that a killed `verify` left recording, which it removes.

use super::record::{self, Raised};
use super::{Place, RunError, active};
use crate::apply::journal::Journal;
use crate::apply::{JOURNAL, LoadError};
use crate::change::{Change, Compare, Outcome};
use crate::plan::Plan;
use cpushield_linux::tracefs;
use cpushield_linux::{CpuSet, Host, Store, Task};
use serde::{Deserialize, Serialize};

/// The version of the document's form.
pub const SCHEMA: u32 = 1;

/// What is shielded now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The shield in force; `None` when there is none.
    pub shield: Option<Shielded>,
    /// CPUs that were isolated at boot (`/sys/devices/system/cpu/isolated`); `None` when the kernel
    /// does not say.
    pub isolated: Option<CpuSet>,
    /// CPUs whose tick stops while one thread runs (`/sys/devices/system/cpu/nohz_full`); `None`
    /// when the kernel cannot.
    pub nohz_full: Option<CpuSet>,
    /// Traces that a killed `verify` had left recording and that were removed by this look.
    #[serde(default)]
    pub swept: usize,
}

/// A shield in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shielded {
    /// Its name.
    pub name: String,
    /// Directory of its cgroup; `None` when affinity alone keeps its CPUs.
    pub group: Option<String>,
    /// Every other online CPU.
    pub housekeeping: CpuSet,
    /// Siblings that stay idle.
    pub idle_siblings: CpuSet,
    /// What is no longer as it was left.
    pub drift: Vec<Drift>,
    /// One entry for each shielded CPU.
    pub cpus: Vec<OnCpu>,
    /// Kernel threads that were raised above real-time programs.
    pub raised: Vec<Raised>,
}

/// Something that is no longer as it was left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drift {
    /// The file or the task.
    pub what: String,
    /// What was left there.
    pub left: String,
    /// What is there now; `None` when it is gone.
    pub now: Option<String>,
    /// The tunable that wanted it.
    pub tunable: String,
}

/// What protects one shielded CPU, and what is on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnCpu {
    /// The CPU.
    pub cpu: usize,
    /// What keeps other programs out.
    pub processes: Guard,
    /// Whether interrupts of devices are delivered here.
    pub interrupts: Guard,
    /// Whether the timer tick stops.
    pub tick: Guard,
    /// Threads whose last CPU this is, and programs of the shield whose next CPU it is.
    pub threads: Vec<OnThread>,
    /// Interrupts that are delivered here.
    pub irqs: Vec<OnIrq>,
}

/// One of the three protections of a CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guard {
    /// Whether it holds.
    pub holds: bool,
    /// How, or why not.
    pub how: String,
}

/// A thread whose last CPU is a shielded one, or whose next one is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnThread {
    /// The thread.
    #[serde(flatten)]
    pub task: Task,
    /// Why it is there.
    pub role: Role,
}

/// Why a thread is on a shielded CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// It may run there and does not belong there.
    Stranger,
    /// A program of the shield.
    Program,
    /// A program of the shield that has not run since it was added: its last CPU is another one.
    Waiting,
    /// A kernel thread that belongs to this CPU and cannot be moved.
    Kernel,
    /// It ran there last, before the shield, and cannot come back.
    Gone,
}

/// An interrupt that is delivered to a shielded CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnIrq {
    /// Its number.
    pub irq: u32,
    /// Who asked for it (`nvme0q3`), comma-separated.
    pub actions: String,
    /// Its mask names other CPUs already: many controllers follow at the next interrupt only.
    pub leaving: bool,
}

/// What is shielded now.
///
/// # Errors
/// The journal or `/proc` cannot be read.
pub fn status(host: &Host, store: &Store) -> Result<Status, RunError> {
    let list = |name: &str| host.read_line(&format!("/sys/devices/system/cpu/{name}")).ok();
    let set = |name: &str| list(name)?.parse().ok();
    let (isolated, nohz_full): (Option<CpuSet>, Option<CpuSet>) =
        (set("isolated"), set("nohz_full"));
    let shield = match active(host, store)? {
        Some(plan) => Some(shielded(host, store, &plan, nohz_full.as_ref())?),
        None => None,
    };
    // Nobody else would.
    let swept = if host.is_live() { tracefs::sweep(host) } else { 0 };
    Ok(Status { schema: SCHEMA, shield, isolated, nohz_full, swept })
}

fn shielded(
    host: &Host,
    store: &Store,
    plan: &Plan,
    nohz_full: Option<&CpuSet>,
) -> Result<Shielded, RunError> {
    let place = Place::of(host, plan);
    let shield = &plan.shield;
    let threads = threads_on(host, &shield.cpus, &place)?;
    let irqs = irqs_on(host, &shield.cpus)?;
    let closed = closed(host, &place);
    let on_cpu = |cpu: usize| {
        let threads: Vec<OnThread> =
            threads.iter().filter(|(at, _)| *at == cpu).map(|(_, it)| it.clone()).collect();
        let irqs: Vec<OnIrq> =
            irqs.iter().filter(|(_, at)| at.contains(cpu)).map(|(irq, _)| irq.clone()).collect();
        OnCpu {
            cpu,
            processes: processes(&closed, &threads),
            interrupts: interrupts(&irqs),
            tick: tick(cpu, nohz_full),
            threads,
            irqs,
        }
    };
    Ok(Shielded {
        name: shield.name.clone(),
        cpus: shield.cpus.iter().map(on_cpu).collect(),
        group: place.group,
        housekeeping: shield.housekeeping.clone(),
        idle_siblings: shield.idle_siblings.clone(),
        drift: drift(host, store)?,
        raised: record::read(host, store)?.raised,
    })
}

/// Every thread whose last CPU is one of `cpus`, each with that CPU; and every program of the
/// shield that still sleeps where it was before it was added, with the CPU on which it will wake.
fn threads_on(
    host: &Host,
    cpus: &CpuSet,
    place: &Place,
) -> Result<Vec<(usize, OnThread)>, RunError> {
    let members = place.members(host)?;
    let mut threads = Vec::new();
    for task in host.tasks()?.into_iter().filter(|task| !task.has_ended()) {
        let (here, member) = (cpus.contains(task.cpu), members.contains(&task.id.tid));
        if !here && !member {
            continue;
        }
        let mut at = task.cpu;
        let role = if here && member {
            Role::Program
        } else if here && task.kthread && task.bound {
            Role::Kernel
        } else {
            let affinity = match host.affinity(task.id.tid) {
                Err(error) if error.is_absent() => continue,
                answer => answer?,
            };
            match () {
                () if !here => {
                    at = affinity.and(cpus).first().or(cpus.first()).unwrap_or(at);
                    Role::Waiting
                }
                () if !affinity.intersects(cpus) => Role::Gone,
                () if place.group.is_none() && affinity.is_subset(cpus) => Role::Program,
                () => Role::Stranger,
            }
        };
        threads.push((at, OnThread { task, role }));
    }
    threads.sort_by_key(|(_, thread)| (thread.role, thread.task.id));
    Ok(threads)
}

/// Every requested interrupt that is delivered to one of `cpus`, with where it is delivered.
fn irqs_on(host: &Host, cpus: &CpuSet) -> Result<Vec<(OnIrq, CpuSet)>, RunError> {
    let mut irqs = Vec::new();
    let numbers = match host.list("/proc/irq") {
        Ok(names) => names,
        Err(error) if error.is_absent() => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    for irq in numbers.iter().filter_map(|name| name.parse::<u32>().ok()) {
        let dir = format!("/proc/irq/{irq}");
        let read = |name: &str| host.read_line(&format!("{dir}/{name}")).ok()?.parse().ok();
        let mask: Option<CpuSet> = read("smp_affinity_list");
        let Some(at) = read("effective_affinity_list").or(mask.clone()) else { continue };
        if !at.intersects(cpus) {
            continue;
        }
        // Each action of a requested interrupt has a directory (kernel/irq/proc.c, 6.12).
        let names = host.list(&dir).unwrap_or_default();
        let actions: Vec<String> =
            names.into_iter().filter(|name| host.list(&format!("{dir}/{name}")).is_ok()).collect();
        if !actions.is_empty() {
            let leaving = mask.is_some_and(|mask| !mask.intersects(cpus));
            irqs.push((OnIrq { irq, actions: actions.join(","), leaving }, at));
        }
    }
    Ok(irqs)
}

/// What keeps other programs out of the shield's CPUs.
fn closed(host: &Host, place: &Place) -> Guard {
    let guard = |holds, how: &str| Guard { holds, how: how.to_owned() };
    let Some(group) = &place.group else {
        return guard(false, "by affinity only: a program may still pin itself here");
    };
    if place.v2 {
        return match host.read_line(&format!("{group}/cpuset.cpus.partition")) {
            Ok(text) if text == "isolated" => guard(true, "isolated partition"),
            Ok(text) if text == "root" => guard(true, "partition, with load balancing"),
            Ok(text) => guard(false, &format!("the partition is {text}")),
            Err(error) => guard(false, &format!("the partition is unknown: {}", error.reason())),
        };
    }
    let exclusive = ["cpuset.cpu_exclusive", "cpu_exclusive"]
        .iter()
        .find_map(|name| host.read_line(&format!("{group}/{name}")).ok());
    match exclusive.as_deref() {
        Some("1") => guard(true, "exclusive cpuset"),
        _ => guard(false, "the cpuset is not exclusive"),
    }
}

fn processes(closed: &Guard, threads: &[OnThread]) -> Guard {
    match threads.iter().filter(|thread| thread.role == Role::Stranger).count() {
        0 => closed.clone(),
        n => Guard { holds: false, how: format!("{n} that do not belong here") },
    }
}

fn interrupts(irqs: &[OnIrq]) -> Guard {
    let leaving = irqs.iter().filter(|irq| irq.leaving).count();
    let how = match (irqs.len() - leaving, leaving) {
        (0, 0) => "none delivered here".to_owned(),
        (0, n) => format!("none but {n} that may come once more, and leave by it"),
        (n, _) => format!("{n} delivered here"),
    };
    Guard { holds: irqs.len() == leaving, how }
}

fn tick(cpu: usize, nohz_full: Option<&CpuSet>) -> Guard {
    let guard = |holds, how: &str| Guard { holds, how: how.to_owned() };
    match nohz_full {
        Some(cpus) if cpus.contains(cpu) => guard(true, "stops while one thread runs"),
        Some(_) => guard(false, "ticks; only nohz_full= at boot stops it"),
        None => guard(false, "ticks; this kernel has no nohz_full"),
    }
}

/// What is no longer as it was left: the files, directories and tasks of the journal.
fn drift(host: &Host, store: &Store) -> Result<Vec<Drift>, RunError> {
    let Some(bytes) = store.read(JOURNAL)? else { return Ok(Vec::new()) };
    let journal = Journal::parse(&bytes).map_err(|e| RunError::Journal(LoadError::Journal(e)))?;
    let mut drift = Vec::new();
    for intent in &journal.intents {
        let (Some(step), Some(done)) = (journal.step(intent), journal.outcomes.get(&intent.step))
        else {
            continue;
        };
        // Of several steps about one thing the last one left it.
        let last = journal.last_about(&step.change).is_none_or(|last| last == intent);
        if !last || !matches!(done.outcome, Outcome::Changed | Outcome::AlreadySo) {
            continue;
        }
        if let Some((what, left, now)) = drifted(host, &step.change, done.left.as_deref()) {
            drift.push(Drift { what, left, now, tunable: step.tunable.clone() });
        }
    }
    Ok(drift)
}

/// What a change is about, what was left, and what is there now, when these differ. What was not
/// noted or cannot be read now is no drift.
fn drifted(
    host: &Host,
    change: &Change,
    left: Option<&str>,
) -> Option<(String, String, Option<String>)> {
    let now = |path: &str| match host.read_line(path) {
        Ok(text) => Some(Some(text)),
        Err(error) if error.is_absent() => Some(None),
        Err(_) => None,
    };
    match change {
        Change::Write { path, compare, .. } => {
            let left = left?;
            let now = now(path)?;
            let same = now.as_deref().is_some_and(|now| same(*compare, now, left));
            (!same).then(|| (path.clone(), left.to_owned(), now))
        }
        Change::MakeDir { path } => {
            (!host.exists(path)).then(|| (path.clone(), "a directory".to_owned(), None))
        }
        Change::Affinity { task, comm, cpus } if host.is_same_task(*task) => {
            let now = host.affinity(task.tid).ok()?;
            let what = format!("affinity of {comm} ({})", task.tid);
            (now != *cpus).then(|| (what, cpus.to_string(), Some(now.to_string())))
        }
        Change::Scheduling { task, comm, policy } if host.is_same_task(*task) => {
            let now = host.scheduling(task.tid).ok()?;
            let what = format!("policy of {comm} ({})", task.tid);
            (now != *policy).then(|| (what, policy.to_string(), Some(now.to_string())))
        }
        _ => None,
    }
}

/// Whether the text now says what the text left said.
fn same(compare: Compare, now: &str, left: &str) -> bool {
    now.trim() == left.trim() || compare.same(now, left)
}
