//! Reads the [`ShieldStatus`]. It changes nothing, with one exception: it removes a trace that a
//! killed `verify` left recording.

use super::drift::find_drift;
use super::record;
use super::{RunError, ShieldPlacement, UncheckedPart, find_risks};
use crate::apply::journal::ApplyJournal;
use crate::apply::{
    JournalLoadError, PublicShield, PublicState, ShieldPresence, find_shield, read_public_state,
    slice_dir,
};
use crate::change::{Change, Outcome};
use crate::documents::plan::Shield;
use crate::documents::shield_status::{
    CpuProtection, OnCpu, OnIrq, OnThread, RaisedThread, SCHEMA, ShieldState, ShieldStatus,
    ShieldSummary, ThreadRole, UnfinishedWork,
};
use cpushield_linux::error::present;
use cpushield_linux::text::partition::PartitionState;
use cpushield_linux::trace::tracefs;
use cpushield_linux::{CpuSet, Error, Host, Store, Task};

/// Reads the status of all shields, or of the named one.
///
/// # Errors
/// The journal or `/proc` cannot be read, or no shield has this name.
pub fn status(host: &Host, store: &Store, name: Option<&str>) -> Result<ShieldStatus, RunError> {
    let isolated = host.read_value("/sys/devices/system/cpu/isolated");
    let nohz_full = read_nohz_full(host);
    let reader = StatusReader { host, store, nohz_full: nohz_full.as_ref(), name };
    let mut unchecked = Vec::new();
    let (state, shields) = match find_shield(host, store) {
        Ok(ShieldPresence::Absent) => (ShieldState::NoShield, Vec::new()),
        Ok(ShieldPresence::Whole(journal)) => {
            with_state_of_all(reader.summarize_all(&journal, None)?)
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
fn with_state_of_all(shields: Vec<ShieldSummary>) -> (ShieldState, Vec<ShieldSummary>) {
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

/// The state of a complete shield.
fn find_state(journal: &ApplyJournal, shield: &ShieldSummary) -> ShieldState {
    let settings = shield.drift.len();
    let foreign = shield.cpus.iter().map(|cpu| count_foreign(&cpu.threads)).sum();
    match (missing_group(journal, shield), lost_cpus(shield)) {
        (Some(path), _) => ShieldState::GroupGone { path },
        (None, Some(cpus)) => ShieldState::Offline { cpus },
        (None, None) if settings + foreign == 0 => ShieldState::InForce,
        (None, None) => ShieldState::Drifted { settings, foreign },
    }
}

/// The CPUs of a shield that are offline, although the shield has not taken them offline.
fn lost_cpus(shield: &ShieldSummary) -> Option<CpuSet> {
    let offline: CpuSet = shield.cpus.iter().filter(|on| on.offline).map(|on| on.cpu).collect();
    Some(offline.difference(&shield.offline_siblings)).filter(|lost| !lost.is_empty())
}

/// The state of a shield that this user knows by its public summary only. `is_closed`: the
/// kernel keeps other programs out.
fn state_as_seen(public: &PublicShield, shield: &ShieldSummary, is_closed: bool) -> ShieldState {
    let foreign = shield.cpus.iter().map(|cpu| count_foreign(&cpu.threads)).sum();
    let open = public.group.is_some() && !is_closed;
    match (&public.group, &shield.group, lost_cpus(shield)) {
        (Some(path), None, _) => ShieldState::GroupGone { path: path.clone() },
        (_, _, Some(cpus)) => ShieldState::Offline { cpus },
        _ if open || foreign > 0 => ShieldState::Drifted { settings: usize::from(open), foreign },
        _ => ShieldState::InForceAsSeen,
    }
}

/// Returns the directory of the shield's cgroup, if the shield made one and it is gone.
fn missing_group(journal: &ApplyJournal, shield: &ShieldSummary) -> Option<String> {
    if shield.group.is_some() {
        return None;
    }
    let live = journal.find_shield(&shield.name)?;
    let names = live.plan.shield.cgroup_names();
    let made = journal.intents_of(&shield.name).filter(|intent| {
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

/// What concerns all shields.
struct MachineReadings {
    tasks: Vec<Task>,
    /// The interrupts on the CPUs of all shields.
    irqs: DeliveredIrqs,
    /// `None` when unknown.
    online: Option<CpuSet>,
    /// Kernel threads that were raised.
    raised: Vec<RaisedThread>,
}

impl StatusReader<'_> {
    /// Reads the status of each shield. During an apply or undo, differences are no drift.
    fn summarize_all(
        &self,
        journal: &ApplyJournal,
        unfinished: Option<&UnfinishedWork>,
    ) -> Result<Vec<ShieldSummary>, RunError> {
        let names = journal.shield_names();
        let mut plans = journal.plans();
        plans.retain(|plan| self.name.is_none_or(|name| plan.shield.name == name));
        if let (Some(name), true) = (self.name, plans.is_empty()) {
            return Err(RunError::NoSuchShield { name: name.to_owned(), names });
        }
        let readings = self.read_all(plans.iter().map(|plan| &plan.shield.cpus))?;
        plans
            .into_iter()
            .map(|plan| {
                let place = ShieldPlacement::new(self.host, &plan);
                let mut shield = self.summarize(&plan.shield, place, &readings)?;
                shield.operators.clone_from(&plan.operators);
                shield.state = match unfinished {
                    Some(unfinished) => ShieldState::Part(unfinished.clone()),
                    None => {
                        shield.drift = find_drift(self.host, journal, &shield.name);
                        find_state(journal, &shield)
                    }
                }
                .into();
                Ok(shield)
            })
            .collect()
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
                    "a shield is being changed, or a change was interrupted".to_owned(),
                ));
            }
            PublicState::Active(public) => public,
        };
        let names = || public.iter().map(|it| it.shield.name.clone()).collect();
        let wanted = public.iter().filter(|it| self.name.is_none_or(|name| it.shield.name == name));
        let readings = self.read_all(wanted.clone().map(|public| &public.shield.cpus))?;
        let shields = wanted.map(|public| {
            let place = ShieldPlacement::of_group(self.host, &public.shield, public.group.clone());
            let exclusion = find_exclusion(self.host, &place);
            let mut shield = self.summarize(&public.shield, place, &readings)?;
            shield.operators.clone_from(&public.operators);
            shield.state = state_as_seen(public, &shield, exclusion.holds).into();
            Ok(shield)
        });
        let shields = shields.collect::<Result<Vec<ShieldSummary>, RunError>>()?;
        match self.name {
            Some(name) if shields.is_empty() => {
                Err(RunError::NoSuchShield { name: name.to_owned(), names: names() })
            }
            _ => Ok(with_state_of_all(shields)),
        }
    }

    /// Reads once what concerns all shields. `cpus` are those of each.
    fn read_all<'a>(
        &self,
        cpus: impl Iterator<Item = &'a CpuSet>,
    ) -> Result<MachineReadings, RunError> {
        let cpus: CpuSet = cpus.flat_map(CpuSet::iter).collect();
        let raised = match record::read(self.host, self.store) {
            Err(RunError::Machine(error)) if error.is_denied() => Vec::new(),
            record => record?.raised,
        };
        Ok(MachineReadings {
            tasks: self.host.tasks()?,
            irqs: irqs_on(self.host, &cpus),
            online: self.host.online_cpus().ok(),
            raised,
        })
    }

    fn summarize(
        &self,
        shield: &Shield,
        place: ShieldPlacement,
        readings: &MachineReadings,
    ) -> Result<ShieldSummary, RunError> {
        let threads = threads_on(self.host, &readings.tasks, &shield.cpus, &place)?;
        let exclusion = find_exclusion(self.host, &place);
        let offline = readings.online.as_ref().map(|online| shield.cpus.difference(online));
        let offline = offline.unwrap_or_default();
        let describe = |cpu| OnCpu {
            offline: offline.contains(cpu),
            ..describe_cpu(cpu, &shield.cpus, &exclusion, &threads, &readings.irqs, self.nohz_full)
        };
        // Only root can read the policies of all threads.
        let risks = find_risks(self.host, &place).unwrap_or_default();
        let raised = readings.raised.iter().filter(|it| it.cpus.intersects(&shield.cpus));
        Ok(ShieldSummary {
            name: shield.name.clone(),
            state: ShieldState::InForce.into(),
            cpus: shield.cpus.iter().map(describe).collect(),
            group: place.group,
            housekeeping: shield.housekeeping.clone(),
            closed: shield.closed.clone(),
            idle_siblings: shield.idle_siblings.clone(),
            offline_siblings: shield.offline_siblings.clone(),
            drift: Vec::new(),
            raised: raised.cloned().collect(),
            risks,
            operators: None,
        })
    }
}

/// Describes one CPU of the shield that has the CPUs `shielded`. `threads` are those of the shield,
/// `irqs` those of all shields.
fn describe_cpu(
    cpu: usize,
    shielded: &CpuSet,
    exclusion: &CpuProtection,
    threads: &[(usize, OnThread)],
    irqs: &DeliveredIrqs,
    nohz_full: Option<&CpuSet>,
) -> OnCpu {
    let threads: Vec<OnThread> =
        threads.iter().filter(|(at, _)| *at == cpu).map(|(_, thread)| thread.clone()).collect();
    let here = irqs.found.iter().filter(|irq| irq.at.contains(cpu));
    let here: Vec<OnIrq> = here.map(|irq| irq.on(shielded)).collect();
    OnCpu {
        cpu,
        offline: false,
        processes: describe_processes(exclusion, &threads),
        interrupts: describe_interrupts(&here, irqs.unread.as_deref()),
        tick: describe_tick(cpu, nohz_full),
        threads,
        irqs: here,
    }
}

/// Finds every thread whose last CPU is one of `cpus`, with that CPU; and every program of the
/// shield that has slept since before it was added, with the CPU on which it will wake.
fn threads_on(
    host: &Host,
    tasks: &[Task],
    cpus: &CpuSet,
    place: &ShieldPlacement,
) -> Result<Vec<(usize, OnThread)>, RunError> {
    let members = place.members(host)?;
    let mut threads = Vec::new();
    for task in tasks.iter().filter(|task| !task.has_ended()) {
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
            let Some(affinity) = present(host.affinity(task.id.tid))? else { continue };
            match () {
                () if !here => {
                    at = affinity.intersection(cpus).first().or(cpus.first()).unwrap_or(at);
                    ThreadRole::Waiting
                }
                () if !affinity.intersects(cpus) => ThreadRole::Gone,
                () if place.group.is_none() && affinity.is_subset(cpus) => ThreadRole::Program,
                () => ThreadRole::Foreign,
            }
        };
        threads.push((at, OnThread { task: task.clone(), role }));
    }
    threads.sort_by_key(|(_, thread)| (thread.role, thread.task.id));
    Ok(threads)
}

/// The requested interrupts that are delivered to shielded CPUs.
#[derive(Default)]
struct DeliveredIrqs {
    found: Vec<DeliveredIrq>,
    /// What could not be read; `None` if everything was.
    unread: Option<String>,
}

/// A requested interrupt.
struct DeliveredIrq {
    number: u32,
    /// Comma-separated.
    actions: String,
    /// The CPUs on which it arrives.
    at: CpuSet,
    /// Its mask; `None` when unknown.
    mask: Option<CpuSet>,
}

impl DeliveredIrq {
    /// This interrupt on a CPU of the shield that has these CPUs.
    fn on(&self, shielded: &CpuSet) -> OnIrq {
        let leaving = self.mask.as_ref().is_some_and(|mask| !mask.intersects(shielded));
        OnIrq { irq: self.number, actions: self.actions.clone(), leaving }
    }
}

/// Finds every requested interrupt that is delivered to one of `cpus`.
fn irqs_on(host: &Host, cpus: &CpuSet) -> DeliveredIrqs {
    let mut irqs = DeliveredIrqs::default();
    let Ok(numbers) = host.list("/proc/irq") else {
        irqs.unread = Some("/proc/irq".to_owned());
        return irqs;
    };
    for irq in numbers.iter().filter_map(|name| name.parse::<u32>().ok()) {
        let dir = format!("/proc/irq/{irq}");
        let mask = read_irq_cpus(host, &dir, "smp_affinity");
        let effective = read_irq_cpus(host, &dir, "effective_affinity");
        let at = effective.or(mask.clone());
        if at.as_ref().is_some_and(|at| !at.intersects(cpus)) {
            continue;
        }
        // Each action of a requested interrupt has a directory (kernel/irq/proc.c, 6.12).
        let names = host.list(&dir).unwrap_or_default();
        let actions: Vec<String> =
            names.into_iter().filter(|name| host.list(&format!("{dir}/{name}")).is_ok()).collect();
        match at {
            _ if actions.is_empty() => {}
            None => irqs.unread = Some(format!("{dir}/smp_affinity")),
            Some(at) => {
                let actions = actions.join(",");
                irqs.found.push(DeliveredIrq { number: irq, actions, at, mask });
            }
        }
    }
    irqs
}

/// Reads the CPUs of an interrupt from its list, or from its mask: kernels before 3.0 have no list.
fn read_irq_cpus(host: &Host, dir: &str, name: &str) -> Option<CpuSet> {
    host.read_value(&format!("{dir}/{name}_list")).or_else(|| {
        let mask = host.read_line(&format!("{dir}/{name}")).ok()?;
        CpuSet::parse_mask(&mask).ok()
    })
}

/// Kernels with `CONFIG_NO_HZ_FULL` but no `nohz_full=` show `  (null)`, or nothing (7.2).
fn read_nohz_full(host: &Host) -> Option<CpuSet> {
    let text = host.read_line("/sys/devices/system/cpu/nohz_full").ok()?;
    if text.trim() == "(null)" { Some(CpuSet::new()) } else { text.parse().ok() }
}

fn count_foreign(threads: &[OnThread]) -> usize {
    threads.iter().filter(|thread| thread.role == ThreadRole::Foreign).count()
}

fn protected(how: &str) -> CpuProtection {
    CpuProtection { holds: true, unknown: false, how: how.to_owned() }
}

fn unprotected(how: &str) -> CpuProtection {
    CpuProtection { holds: false, unknown: false, how: how.to_owned() }
}

/// What could not be read decides whether the CPU is protected.
fn unknown(unread: &str) -> CpuProtection {
    CpuProtection { holds: false, unknown: true, how: format!("{unread} cannot be read") }
}

/// Checks what keeps other programs out of the shield's CPUs.
fn find_exclusion(host: &Host, place: &ShieldPlacement) -> CpuProtection {
    let Some(group) = &place.group else {
        return unprotected("open: others may enter, by affinity only");
    };
    if place.v2 {
        return match host.read_line(&format!("{group}/cpuset.cpus.partition")) {
            Ok(text) => match PartitionState::from_text(&text) {
                PartitionState::Isolated => protected("isolated partition"),
                PartitionState::Root => protected("partition, with load balancing"),
                PartitionState::Member => unprotected("open: others may enter, no partition"),
                _ => unprotected(&format!("the partition is {text}")),
            },
            Err(error) => unprotected(&format!("the partition is unknown: {}", error.reason())),
        };
    }
    match host.read_cpuset_file(group, "cpu_exclusive").as_deref() {
        Ok("1") => protected("exclusive cpuset"),
        _ => unprotected("the cpuset is not exclusive"),
    }
}

/// The threads outside of an open shield that may run on its CPUs alone, `name (number)` each;
/// `None` for a closed one.
#[must_use]
pub fn open_to(host: &Host, place: &ShieldPlacement) -> Option<Vec<String>> {
    let cpus = place.cpus.union(&place.idle);
    let inside = place.members(host).unwrap_or_default();
    let is_pinned = |task: &Task| {
        let affinity = host.affinity(task.id.tid).unwrap_or_default();
        let is_here = !affinity.is_empty() && affinity.is_subset(&cpus);
        !task.kthread && is_here && !inside.contains(&task.id.tid)
    };
    let tasks = || host.tasks().unwrap_or_default().into_iter();
    (!find_exclusion(host, place).holds).then(|| {
        tasks().filter(is_pinned).map(|task| format!("{} ({})", task.comm, task.id.tid)).collect()
    })
}

fn describe_processes(exclusion: &CpuProtection, threads: &[OnThread]) -> CpuProtection {
    match count_foreign(threads) {
        0 => exclusion.clone(),
        1 => unprotected("1 foreign task"),
        n => unprotected(&format!("{n} foreign tasks")),
    }
}

fn describe_interrupts(irqs: &[OnIrq], unread: Option<&str>) -> CpuProtection {
    let leaving = irqs.iter().filter(|irq| irq.leaving).count();
    let how = match (irqs.len() - leaving, leaving) {
        (0, 0) => "none delivered here".to_owned(),
        (0, n) => format!("none, except {n} that move away at their next interrupt"),
        (n, _) => format!("{n} delivered here"),
    };
    match unread {
        Some(unread) if irqs.len() == leaving => unknown(unread),
        _ => CpuProtection { holds: irqs.len() == leaving, unknown: false, how },
    }
}

fn describe_tick(cpu: usize, nohz_full: Option<&CpuSet>) -> CpuProtection {
    match nohz_full {
        Some(cpus) if cpus.contains(cpu) => protected("stops while the scheduler does not need it"),
        Some(_) => unprotected("ticks; only nohz_full= at boot stops it"),
        None => unprotected("ticks; this kernel has no nohz_full"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_kernel_that_was_booted_without_nohz_full_is_not_one_without_it() {
        let machines = Path::new(env!("CARGO_MANIFEST_DIR")).join("machines");
        let host = Host::recorded(&machines.join("6.12-nvme/root")).unwrap();
        let cpus = read_nohz_full(&host);
        assert_eq!(cpus, Some(CpuSet::new()));
        let tick = describe_tick(1, cpus.as_ref());
        assert_eq!(tick, unprotected("ticks; only nohz_full= at boot stops it"));
    }
}
