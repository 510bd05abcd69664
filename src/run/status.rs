//! [`ShieldStatus`]: the active shield, its changes since apply, and the threads and interrupts on
//! its CPUs. It only reads, with one exception: it removes a trace that a killed `verify` left
//! recording.

use super::drift::{Drift, find_drift};
use super::record::{self, RaisedThread};
use super::shield_state::{ShieldState, StateReport};
use super::{RunError, ShieldPlacement, UncheckedPart};
use crate::apply::journal::ApplyJournal;
use crate::apply::{
    JournalLoadError, PublicState, ShieldPresence, UnfinishedWork, find_shield, read_public_state,
    slice_dir,
};
use crate::change::{Change, Outcome};
use crate::documents::plan::Shield;
use crate::policy::ShieldOperators;
use cpushield_linux::tracefs;
use cpushield_linux::{CpuSet, Error, Host, Store, Task};
use serde::{Deserialize, Serialize};

/// The version of the document's schema.
pub const SCHEMA: u32 = 1;

/// The state of the shield.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShieldStatus {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The state of all shields: in force only if each of them is.
    pub state: StateReport,
    /// The shields, in the order in which they were applied; empty without one, or when the state
    /// is unknown.
    pub shields: Vec<ShieldSummary>,
    /// CPUs that were isolated at boot (`/sys/devices/system/cpu/isolated`); `None` when unknown.
    pub isolated: Option<CpuSet>,
    /// CPUs whose tick stops while one thread runs (`/sys/devices/system/cpu/nohz_full`); `None`
    /// when the kernel cannot.
    pub nohz_full: Option<CpuSet>,
    /// Traces that a killed `verify` left recording and that were removed now.
    #[serde(default)]
    pub swept: usize,
    /// What this user could not check; empty for root.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unchecked: Vec<UncheckedPart>,
}

/// A shield, perhaps an incomplete one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShieldSummary {
    /// Its name.
    pub name: String,
    /// Its state, as a tag and as a sentence.
    pub state: StateReport,
    /// Directory of its cgroup; `None` for a shield that consists of affinities only.
    pub group: Option<String>,
    /// Every other online CPU.
    pub housekeeping: CpuSet,
    /// Siblings that stay idle.
    pub idle_siblings: CpuSet,
    /// Those among them that the shield has taken offline.
    #[serde(default, skip_serializing_if = "CpuSet::is_empty")]
    pub offline_siblings: CpuSet,
    /// Settings that changed since apply.
    pub drift: Vec<Drift>,
    /// One entry for each shielded CPU.
    pub cpus: Vec<OnCpu>,
    /// Kernel threads that were raised above real-time programs.
    pub raised: Vec<RaisedThread>,
    /// Users other than root that may enter it; `None` if only root may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operators: Option<ShieldOperators>,
}

/// The protections of a shielded CPU, and what is on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OnCpu {
    /// The CPU.
    pub cpu: usize,
    /// Whether other programs are kept out.
    pub processes: CpuProtection,
    /// Whether device interrupts are delivered here.
    pub interrupts: CpuProtection,
    /// Whether the timer tick stops.
    pub tick: CpuProtection,
    /// Threads whose last CPU this is, and programs of the shield whose next CPU it is.
    pub threads: Vec<OnThread>,
    /// Interrupts that are delivered here.
    pub irqs: Vec<OnIrq>,
}

/// One of the three protections of a CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuProtection {
    /// Whether it holds.
    pub holds: bool,
    /// How, or why not.
    pub how: String,
}

/// A thread whose last CPU is a shielded one, or whose next one is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OnThread {
    /// The thread.
    #[serde(flatten)]
    pub task: Task,
    /// The reason.
    pub role: ThreadRole,
}

/// Why a thread is on a shielded CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ThreadRole {
    /// A foreign task, which may run there.
    Stranger,
    /// A program of the shield.
    Program,
    /// A program of the shield that has not run since it was added: its last CPU is another one.
    Waiting,
    /// A kernel thread that belongs to this CPU and cannot be moved.
    Kernel,
    /// It last ran there before the shield, and cannot return.
    Gone,
}

/// An interrupt that is delivered to a shielded CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OnIrq {
    /// Its number.
    pub irq: u32,
    /// Its actions (`nvme0q3`), comma-separated.
    pub actions: String,
    /// Its mask has other CPUs already: many controllers move it only at the next interrupt.
    pub leaving: bool,
}

/// Reads the status of all shields, or of the named one.
///
/// # Errors
/// The journal or `/proc` cannot be read, or no shield has this name.
pub fn status(host: &Host, store: &Store, name: Option<&str>) -> Result<ShieldStatus, RunError> {
    let isolated = read_cpus(host, "/sys/devices/system/cpu/isolated");
    let nohz_full = read_cpus(host, "/sys/devices/system/cpu/nohz_full");
    let reader = StatusReader { host, store, nohz_full: nohz_full.as_ref(), name };
    let mut unchecked = Vec::new();
    let (state, shields) = match find_shield(host, store) {
        Ok(ShieldPresence::Absent) => (ShieldState::NoShield, Vec::new()),
        Ok(ShieldPresence::Whole(journal)) => {
            with_worst_state(reader.summarize_all(&journal, None)?)
        }
        Ok(ShieldPresence::Part(Some(journal), unfinished)) => {
            let shields = reader.summarize_all(&journal, Some(&unfinished))?;
            (ShieldState::Part(unfinished), shields)
        }
        Ok(ShieldPresence::Part(None, unfinished)) => (ShieldState::Part(unfinished), Vec::new()),
        Err(JournalLoadError::Access(error)) if error.is_denied() => {
            unchecked = find_unchecked(host);
            reader.summarize_public(&error)?
        }
        Err(error) => (ShieldState::Unknown { reason: error.to_string() }, Vec::new()),
    };
    // No other process would remove it.
    let swept = if host.is_live() { tracefs::remove_stale_instances(host) } else { 0 };
    let (schema, state) = (SCHEMA, state.into());
    Ok(ShieldStatus { schema, state, shields, isolated, nohz_full, swept, unchecked })
}

/// The shields with the first state that is not in force, if any.
fn with_worst_state(shields: Vec<ShieldSummary>) -> (ShieldState, Vec<ShieldSummary>) {
    let mut states = shields.iter().map(|shield| &shield.state.state);
    let first = states.next().cloned().unwrap_or(ShieldState::NoShield);
    let worst = shields.iter().map(|shield| &shield.state.state).find(|state| !state.is_active());
    (worst.cloned().unwrap_or(first), shields)
}

/// What a user other than root cannot check.
fn find_unchecked(host: &Host) -> Vec<UncheckedPart> {
    let mut unchecked = vec![UncheckedPart::Settings, UncheckedPart::RaisedThreads];
    // The mount option hidepid= hides the processes of other users (proc(5)).
    if !host.exists("/proc/1/stat") {
        unchecked.push(UncheckedPart::Processes);
    }
    unchecked
}

/// Returns the directory of the shield's control group, if the shield made one and it is gone.
pub(super) fn missing_group(journal: &ApplyJournal, shield: &ShieldSummary) -> Option<String> {
    if shield.group.is_some() {
        return None;
    }
    let live = journal.find_shield(&shield.name)?;
    let names = live.plan.shield.cgroup_names();
    let own = journal.intents.iter().filter(|intent| live.steps.contains(&intent.step));
    let made = own.filter(|intent| {
        let done = journal.outcomes.get(&intent.step).map(|done| &done.outcome);
        matches!(done, Some(Outcome::Changed | Outcome::AlreadySo))
    });
    made.filter_map(|intent| journal.step(intent)).find_map(|step| match &step.change {
        Change::MakeDir { path }
            if names.iter().any(|name| path.ends_with(&format!("/{name}"))) =>
        {
            Some(path.clone())
        }
        Change::Slice { unit, .. } => Some(slice_dir(unit)),
        _ => None,
    })
}

/// What is needed to read the status of a shield.
struct StatusReader<'a> {
    host: &'a Host,
    store: &'a Store,
    nohz_full: Option<&'a CpuSet>,
    /// The only shield to read; `None` for all.
    name: Option<&'a str>,
}

impl StatusReader<'_> {
    /// Reads the status of each shield. During an apply or undo, differences are no drift.
    fn summarize_all(
        &self,
        journal: &ApplyJournal,
        unfinished: Option<&UnfinishedWork>,
    ) -> Result<Vec<ShieldSummary>, RunError> {
        let names = journal.shield_names();
        let plans = journal.plans().into_iter();
        let wanted = plans.filter(|plan| self.name.is_none_or(|name| plan.shield.name == name));
        let shields: Vec<ShieldSummary> = wanted
            .map(|plan| {
                let place = ShieldPlacement::new(self.host, &plan);
                let mut shield = self.summarize(&plan.shield, place)?;
                shield.operators.clone_from(&plan.operators);
                shield.state = match unfinished {
                    Some(unfinished) => ShieldState::Part(unfinished.clone()),
                    None => {
                        shield.drift = find_drift(self.host, journal, &shield.name);
                        ShieldState::new(journal, &shield)
                    }
                }
                .into();
                Ok(shield)
            })
            .collect::<Result<_, RunError>>()?;
        match self.name {
            Some(name) if shields.is_empty() => {
                Err(RunError::NoSuchShield { name: name.to_owned(), names })
            }
            _ => Ok(shields),
        }
    }

    /// Reads the status of each shield of the public summary. `denied` is the answer to reading the
    /// journal.
    fn summarize_public(
        &self,
        denied: &Error,
    ) -> Result<(ShieldState, Vec<ShieldSummary>), RunError> {
        let unknown = |reason| (ShieldState::Unknown { reason }, Vec::new());
        let public = match read_public_state(self.host, self.store) {
            PublicState::Unknown => {
                return Ok(unknown(format!("only root can read {}", denied.path)));
            }
            PublicState::Unfinished => {
                return Ok(unknown(
                    "a shield is being changed, or that was interrupted".to_owned(),
                ));
            }
            PublicState::Active(public) => public,
        };
        let names = || public.iter().map(|it| it.shield.name.clone()).collect();
        let wanted = public.iter().filter(|it| self.name.is_none_or(|name| it.shield.name == name));
        let shields = wanted.map(|public| {
            let place = ShieldPlacement::of_group(self.host, &public.shield, public.group.clone());
            let exclusion = find_exclusion(self.host, &place);
            let mut shield = self.summarize(&public.shield, place)?;
            shield.operators.clone_from(&public.operators);
            shield.state = ShieldState::as_seen(public, &shield, exclusion.holds).into();
            Ok(shield)
        });
        let shields = shields.collect::<Result<Vec<ShieldSummary>, RunError>>()?;
        match self.name {
            Some(name) if shields.is_empty() => {
                Err(RunError::NoSuchShield { name: name.to_owned(), names: names() })
            }
            _ => Ok(with_worst_state(shields)),
        }
    }

    fn summarize(
        &self,
        shield: &Shield,
        place: ShieldPlacement,
    ) -> Result<ShieldSummary, RunError> {
        let host = self.host;
        let threads = threads_on(host, &shield.cpus, &place)?;
        let irqs = irqs_on(host, &shield.cpus)?;
        let exclusion = find_exclusion(host, &place);
        let cpus = shield.cpus.iter();
        let raised = match record::read(host, self.store) {
            Err(RunError::Machine(error)) if error.is_denied() => Vec::new(),
            record => record?.raised,
        };
        Ok(ShieldSummary {
            name: shield.name.clone(),
            state: ShieldState::InForce.into(),
            cpus: cpus
                .map(|cpu| describe_cpu(cpu, &exclusion, &threads, &irqs, self.nohz_full))
                .collect(),
            group: place.group,
            housekeeping: shield.housekeeping.clone(),
            idle_siblings: shield.idle_siblings.clone(),
            offline_siblings: shield.offline_siblings.clone(),
            drift: Vec::new(),
            raised: raised.into_iter().filter(|it| it.cpus.intersects(&shield.cpus)).collect(),
            operators: None,
        })
    }
}

/// Describes one shielded CPU. `threads` and `irqs` are those of all shielded CPUs.
fn describe_cpu(
    cpu: usize,
    exclusion: &CpuProtection,
    threads: &[(usize, OnThread)],
    irqs: &[(OnIrq, CpuSet)],
    nohz_full: Option<&CpuSet>,
) -> OnCpu {
    let threads: Vec<OnThread> =
        threads.iter().filter(|(at, _)| *at == cpu).map(|(_, thread)| thread.clone()).collect();
    let irqs: Vec<OnIrq> =
        irqs.iter().filter(|(_, at)| at.contains(cpu)).map(|(irq, _)| irq.clone()).collect();
    OnCpu {
        cpu,
        processes: describe_processes(exclusion, &threads),
        interrupts: describe_interrupts(&irqs),
        tick: describe_tick(cpu, nohz_full),
        threads,
        irqs,
    }
}

/// Finds every thread whose last CPU is one of `cpus`, with that CPU; and every program of the
/// shield that has slept since before it was added, with the CPU on which it will wake.
fn threads_on(
    host: &Host,
    cpus: &CpuSet,
    place: &ShieldPlacement,
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
            ThreadRole::Program
        } else if here && task.kthread && task.bound {
            ThreadRole::Kernel
        } else {
            let affinity = match host.affinity(task.id.tid) {
                Err(error) if error.is_absent() => continue,
                answer => answer?,
            };
            match () {
                () if !here => {
                    at = affinity.intersection(cpus).first().or(cpus.first()).unwrap_or(at);
                    ThreadRole::Waiting
                }
                () if !affinity.intersects(cpus) => ThreadRole::Gone,
                () if place.group.is_none() && affinity.is_subset(cpus) => ThreadRole::Program,
                () => ThreadRole::Stranger,
            }
        };
        threads.push((at, OnThread { task, role }));
    }
    threads.sort_by_key(|(_, thread)| (thread.role, thread.task.id));
    Ok(threads)
}

/// Finds every requested interrupt that is delivered to one of `cpus`, with its CPUs.
fn irqs_on(host: &Host, cpus: &CpuSet) -> Result<Vec<(OnIrq, CpuSet)>, RunError> {
    let mut irqs = Vec::new();
    let numbers = match host.list("/proc/irq") {
        Ok(names) => names,
        Err(error) if error.is_absent() => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    for irq in numbers.iter().filter_map(|name| name.parse::<u32>().ok()) {
        let dir = format!("/proc/irq/{irq}");
        let mask = read_cpus(host, &format!("{dir}/smp_affinity_list"));
        let effective = read_cpus(host, &format!("{dir}/effective_affinity_list"));
        let Some(at) = effective.or(mask.clone()) else { continue };
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

fn read_cpus(host: &Host, path: &str) -> Option<CpuSet> {
    host.read_line(path).ok()?.parse().ok()
}

pub(super) fn count_foreign(threads: &[OnThread]) -> usize {
    threads.iter().filter(|thread| thread.role == ThreadRole::Stranger).count()
}

fn protected(how: &str) -> CpuProtection {
    CpuProtection { holds: true, how: how.to_owned() }
}

fn unprotected(how: &str) -> CpuProtection {
    CpuProtection { holds: false, how: how.to_owned() }
}

/// Checks what keeps other programs out of the shield's CPUs.
fn find_exclusion(host: &Host, place: &ShieldPlacement) -> CpuProtection {
    let Some(group) = &place.group else {
        return unprotected("by affinity only: a program may still pin itself here");
    };
    if place.v2 {
        return match host.read_line(&format!("{group}/cpuset.cpus.partition")) {
            Ok(text) if text == "isolated" => protected("isolated partition"),
            Ok(text) if text == "root" => protected("partition, with load balancing"),
            Ok(text) => unprotected(&format!("the partition is {text}")),
            Err(error) => unprotected(&format!("the partition is unknown: {}", error.reason())),
        };
    }
    let exclusive = ["cpuset.cpu_exclusive", "cpu_exclusive"]
        .iter()
        .find_map(|name| host.read_line(&format!("{group}/{name}")).ok());
    match exclusive.as_deref() {
        Some("1") => protected("exclusive cpuset"),
        _ => unprotected("the cpuset is not exclusive"),
    }
}

fn describe_processes(exclusion: &CpuProtection, threads: &[OnThread]) -> CpuProtection {
    match count_foreign(threads) {
        0 => exclusion.clone(),
        n => CpuProtection { holds: false, how: format!("{n} foreign tasks") },
    }
}

fn describe_interrupts(irqs: &[OnIrq]) -> CpuProtection {
    let leaving = irqs.iter().filter(|irq| irq.leaving).count();
    let how = match (irqs.len() - leaving, leaving) {
        (0, 0) => "none delivered here".to_owned(),
        (0, n) => format!("none, except {n} that move away at their next interrupt"),
        (n, _) => format!("{n} delivered here"),
    };
    CpuProtection { holds: irqs.len() == leaving, how }
}

fn describe_tick(cpu: usize, nohz_full: Option<&CpuSet>) -> CpuProtection {
    match nohz_full {
        Some(cpus) if cpus.contains(cpu) => protected("stops while one thread runs"),
        Some(_) => unprotected("ticks; only nohz_full= at boot stops it"),
        None => unprotected("ticks; this kernel has no nohz_full"),
    }
}
