//! [`OwnershipWatch`]: records who armed, woke and sent what, and follows the ownership of the
//! interruptions of each watched CPU.

use super::channel::CpuChannel;
use super::culprit_stats::CulpritNames;
use super::interruptions::{TraceContext, ns_to_ticks};
use super::ownership::{
    CpuOwnership, IN_FLIGHT_NS, OwnershipFacts, PendingRelations, WorkloadProcesses,
};
use super::relations::{EVENTS, RelationForm, RelationKind, Relations};
use super::side_trace::{SideEvents, SideTrace, any_cpu};
use crate::documents::evidence::{BlindReason, OwnershipEvidence};
use cpushield_linux::sys::clock::{ClockTicks, TickScale};
use cpushield_linux::trace::tracefs::Tracefs;
use cpushield_linux::{CpuSet, Host};

/// Of an interruption that goes on, what is older than this is not kept.
const KEPT_NS: u64 = 1_000_000_000;

/// Buffer of each CPU in KiB: a loop of 25 us has about 600 KiB of records between two polls.
const BUFFER_KIB: usize = 1 << 10;

/// A running watch.
#[derive(Debug)]
pub struct OwnershipWatch<'h> {
    host: &'h Host,
    pub(super) trace: SideTrace<'h>,
    events: Vec<(&'static str, &'static str)>,
    relations: Relations,
    processes: WorkloadProcesses,
    cpus: Vec<CpuOwnership>,
}

impl<'h> OwnershipWatch<'h> {
    /// Prepares it; nothing is recorded yet.
    ///
    /// # Errors
    /// The reason why ownership cannot be seen.
    pub fn prepare(
        host: &'h Host,
        cpus: &CpuSet,
        clock: &str,
    ) -> Result<OwnershipWatch<'h>, BlindReason> {
        let tracefs = Tracefs::find(host)?;
        let (mut forms, mut events) = (Vec::new(), Vec::new());
        for (system, name, kind, fields) in EVENTS {
            let format = tracefs.format(host, system, name)?;
            match format.and_then(|format| RelationForm::new(kind, fields, &format)) {
                Some(form) => {
                    forms.push(form);
                    events.push((system, name));
                }
                // Linux before 6.5: their senders stay unknown.
                None if matches!(kind, RelationKind::Call | RelationKind::Reschedule) => {}
                None => return Err(BlindReason::NoEvent { event: format!("{system}:{name}") }),
            }
        }
        let to = any_cpu("cpu", cpus);
        let (woken, alone) = (any_cpu("target_cpu", cpus), format!("callback == 0 && ({to})"));
        let mut filters = vec![
            // The CPU that records the event: the workload arms its timers on its own CPUs.
            ("timer", "hrtimer_start", to.as_str()),
            ("sched", "sched_waking", woken.as_str()),
            ("csd", "csd_queue_cpu", to.as_str()),
            ("ipi", "ipi_send_cpu", alone.as_str()),
        ];
        filters.retain(|(system, name, _)| events.contains(&(*system, *name)));
        let wanted = SideEvents { events: &events, filters: &filters, buffer_kib: BUFFER_KIB };
        let trace = SideTrace::prepare(host, tracefs, clock, &wanted)?;
        Ok(OwnershipWatch {
            host,
            trace,
            events,
            relations: Relations::new(forms),
            processes: WorkloadProcesses::default(),
            cpus: cpus.iter().map(CpuOwnership::new).collect(),
        })
    }

    /// Starts recording.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn start(&mut self) -> Result<(), BlindReason> {
        self.trace.start(&self.events)
    }

    /// Sets the threads of the workload. Their processes are kept after they end.
    pub fn set_workload(&mut self, tids: &[i32]) {
        for tid in tids {
            if self.processes.relatives.contains(tid) {
                continue;
            }
            self.processes.relatives.extend(self.host.thread_ids(*tid).unwrap_or_default());
            let memory = self.host.memory_use(*tid);
            self.processes.locked |= memory.is_ok_and(|memory| memory.locked_kib > 0);
        }
    }

    /// Judges what the channels have read up to this moment; they have read nothing since `known`.
    pub fn poll(
        &mut self,
        channels: &mut [CpuChannel],
        context: &TraceContext,
        scale: TickScale,
        (ClockTicks(until), ClockTicks(known)): (ClockTicks, ClockTicks),
    ) {
        let relations = &mut self.relations;
        self.trace.poll(|cpu, layout, page| relations.add_page(cpu, layout, page));
        relations.resolve(known);
        let mut open = until;
        for (channel, cpu) in channels.iter_mut().zip(&mut self.cpus) {
            let mut facts = OwnershipFacts {
                context,
                processes: &self.processes,
                relations,
                scale,
                tracked: channel.tracker.is_tracked(),
                cpu: channel.cpu,
                activations: 0,
                pending: PendingRelations::default(),
            };
            cpu.add(channel.tracker.take_history(), channel.tracker.take_moments());
            cpu.judge(&mut facts, until);
            open = channel.tracker.unfinished().map_or(open, |(begun, _)| open.min(begun));
        }
        // What is in flight may arrive later, and a long interruption must not keep everything.
        let [recent, old] = [IN_FLIGHT_NS, KEPT_NS].map(|ns| ns_to_ticks(ns, context.ticks_per_ns));
        relations.forget(open.max(until.saturating_sub(old)).saturating_sub(recent));
    }

    /// Begins a phase.
    pub fn begin_phase(&mut self, ClockTicks(at): ClockTicks) {
        self.relations.lost = false;
        self.cpus.iter_mut().for_each(|cpu| cpu.begin_phase(at));
    }

    /// The tasks to name.
    pub fn tasks(&self) -> Vec<i32> {
        self.cpus.iter().flat_map(CpuOwnership::tasks).collect()
    }

    /// The evidence about the CPU at this place in the list of watched ones.
    pub fn evidence(
        &mut self,
        place: usize,
        names: &CulpritNames<'_>,
        scale: &TickScale,
    ) -> Option<OwnershipEvidence> {
        let found = self.cpus.get_mut(place)?.evidence(names, scale, &self.processes);
        Some(OwnershipEvidence { partial: self.relations.lost || self.trace.disturbed, ..found })
    }
}
