//! Whose each part of an interruption is. Pure.

use super::super::culprit_stats::{CulpritKey, SoftirqOrigin, TracedCulprit};
use super::super::interruptions::{HRTIMER_SOFTIRQ, TraceContext, ns_to_ticks};
use super::super::ipi_senders::SentBy;
use super::super::relations::{Relations, TimerRun};
use crate::causes::Cause;
use crate::causes::culprit::KernelEvent;
use crate::documents::evidence::{KernelWork, Owner};
use cpushield_linux::sys::clock::TickScale;
use std::collections::HashSet;

/// After this many activations, a page fault of a program with locked memory is not expected.
const WARM: u64 = 100;

/// Signals and calls arrive within this time.
pub const IN_FLIGHT_NS: u64 = 100_000_000;

/// An interrupt arrives within this time after the wake-up that it is for. The scheduler may also
/// put a task on another CPU than the one it slept on; such a wake-up never arrives.
const CARRIED_NS: u64 = 10_000_000;

/// The softirqs of the timer wheel and of the scheduler (include/linux/interrupt.h).
const TIMER_SOFTIRQ: u8 = 1;
const SCHED_SOFTIRQ: u8 = 7;

/// Error code bits of a page fault: the page was mapped, and the access was a write
/// (arch/x86/include/asm/trap_pf.h). Together, the page was copied on write.
const COPY_ON_WRITE: u8 = 0b11;

/// The processes of the workload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkloadProcesses {
    /// All threads of its processes.
    pub relatives: HashSet<i32>,
    /// Whether one of them has locked its memory.
    pub locked: bool,
}

/// Who is behind a part: its owner, and the sender, the waker or the armer.
pub(super) type OwnedBy = (Owner, Option<SentBy>);

/// A part of an interruption.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) begun: u64,
    pub(super) end: u64,
    pub(super) depth: usize,
    pub(super) work: Option<KernelWork>,
    pub(super) key: CulpritKey,
    pub(super) owned: Option<OwnedBy>,
}

/// What an interruption is judged with.
#[derive(Debug)]
pub struct OwnershipFacts<'a> {
    /// The threads of the workload, and functions of this kernel.
    pub context: &'a TraceContext,
    /// The processes of the workload.
    pub processes: &'a WorkloadProcesses,
    /// Who armed, woke and sent what.
    pub relations: &'a mut Relations,
    /// Converts ticks to nanoseconds.
    pub scale: TickScale,
    /// Whether context tracking reports entries on this CPU.
    pub tracked: bool,
    /// The CPU.
    pub cpu: usize,
    /// Activations since the watch began.
    pub activations: u64,
    /// What has not arrived yet at the moment that is judged.
    pub pending: PendingRelations,
}

/// Wake-ups for a CPU whose tasks have not run yet: few at any moment, however much is judged at
/// once.
#[derive(Debug, Default)]
pub struct PendingRelations {
    /// Their places.
    pub(super) wakes: Vec<usize>,
    next: usize,
}

impl OwnershipFacts<'_> {
    pub(super) fn is_own(&self, pid: i32) -> bool {
        self.context.workload.contains(&pid)
    }

    /// Goes on to this moment.
    pub(super) fn advance(&mut self, at: u64) {
        let (relations, pending) = (&*self.relations, &mut self.pending);
        let wakes = relations.wakes.iter().enumerate().skip(pending.next);
        for (i, wake) in wakes.take_while(|(_, wake)| wake.at <= at) {
            pending.next = i + 1;
            if wake.to == self.cpu || self.context.workload.contains(&wake.pid) {
                // It has slept again since an earlier wake-up.
                pending.wakes.retain(|known| relations.wakes[*known].pid != wake.pid);
                pending.wakes.extend((!wake.over).then_some(i));
            }
        }
    }

    /// These tasks run, or sleep again.
    pub(super) fn end_wakes(&mut self, at: u64, has_run: impl Fn(i32) -> bool) {
        self.advance(at);
        let wakes = &mut self.relations.wakes;
        self.pending.wakes.retain(|i| {
            let over = has_run(wakes[*i].pid);
            wakes[*i].over |= over;
            !over
        });
    }

    /// The owner of a timer's function. Waking a thread that sleeps is the workload's own, even
    /// if another task armed the timer; a signal only if it did so itself.
    fn owner_of_run(&self, run: Option<&TimerRun>) -> OwnedBy {
        let Some(run) = run else { return (Owner::Unassigned, None) };
        let armed_by = run.armed.and_then(|armed| armed.by);
        let own_armer = armed_by.is_some_and(|pid| self.is_own(pid));
        // A signal for the process goes to any of its threads.
        let served = |(pid, woken): &&(i32, bool)| {
            *woken || self.is_own(*pid) || !self.processes.relatives.contains(pid)
        };
        let targets: Vec<_> = run.targets.iter().filter(served).collect();
        let own = targets.iter().filter(|(pid, _)| self.is_own(*pid)).count();
        let woke_own = targets.iter().any(|(pid, woken)| *woken && self.is_own(*pid));
        let owner = match (own_armer, own == targets.len()) {
            // It served no other task.
            (true, true) => Owner::Own,
            (false, true) if woke_own => Owner::Own,
            (true, false) if own == 0 => Owner::Unassigned,
            (false, true) if own > 0 => Owner::Unassigned,
            _ => Owner::Foreign,
        };
        (owner, armed_by.filter(|_| owner != Owner::Own).map(SentBy::Task))
    }

    /// The owner of an interrupt that carries wake-ups or a function from other CPUs.
    fn owner_of_carrier(&mut self, at: u64, function: Option<u64>) -> OwnedBy {
        self.advance(at);
        let (context, relations) = (self.context, &mut *self.relations);
        let is_own = |pid: i32| context.workload.contains(&pid);
        let wakes = function.is_none() || function == context.wake_function;
        let mut senders: Vec<(bool, SentBy)> = Vec::new();
        let recent = at.saturating_sub(ns_to_ticks(IN_FLIGHT_NS, context.ticks_per_ns));
        let first = relations.sent.partition_point(|sent| sent.at < recent);
        for sent in relations.sent[first..].iter_mut().take_while(|sent| sent.at <= at) {
            // Functions run in the order of their requests.
            if sent.to == self.cpu
                && !sent.arrived
                && sent.function == function
                && (wakes || senders.is_empty())
            {
                sent.arrived = true;
                senders.push((sent.by.task().is_some_and(is_own), sent.by));
            }
        }
        let mut wakers: Vec<(bool, SentBy)> = Vec::new();
        let old = at.saturating_sub(ns_to_ticks(CARRIED_NS, context.ticks_per_ns));
        for i in self.pending.wakes.iter().filter(|_| wakes) {
            let wake = &mut relations.wakes[*i];
            if wake.cpu == self.cpu || wake.carried {
                continue;
            }
            let own = is_own(wake.pid);
            // The scheduler may have moved a thread of the workload to this CPU.
            let here = wake.to == self.cpu || (own && !senders.is_empty());
            let sent = senders.is_empty() || senders.iter().any(|(_, by)| *by == wake.by);
            if here && sent {
                wake.carried = true;
                wakers.extend((own || wake.at >= old).then_some((own, wake.by)));
            }
        }
        let carried = if wakers.is_empty() { senders } else { wakers };
        match carried.into_iter().min_by_key(|(own, _)| *own) {
            Some((true, by)) => (Owner::Own, Some(by)),
            other => (Owner::Foreign, other.map(|(_, by)| by)),
        }
    }

    /// The owner of a wheel timer: it may only have woken the workload.
    fn owner_of_wheel_timer(&self, part: &Part) -> OwnedBy {
        let during = self.relations.wakes_during(part.begun, part.end);
        let mut woken = during.filter(|wake| wake.cpu == self.cpu).peekable();
        let only_own = woken.peek().is_some() && woken.all(|wake| self.is_own(wake.pid));
        (if only_own { Owner::Own } else { Owner::Foreign }, None)
    }

    /// The owner of a signal: its sender must be the workload too.
    pub(super) fn owner_of_signal(&self, at: u64, pid: i32, number: u8) -> OwnedBy {
        let sent_to = |is_target: &dyn Fn(i32) -> bool| {
            let signals = &self.relations.signals;
            let known = &signals[..signals.partition_point(|signal| signal.at <= at)];
            let mut same = known.iter().rev().filter(|it| it.number == u64::from(number));
            same.find(|signal| is_target(signal.pid))
        };
        let of_process = || sent_to(&|to| self.processes.relatives.contains(&to));
        let sent = sent_to(&|to| to == pid).or_else(of_process);
        match sent.and_then(|signal| signal.by) {
            Some(SentBy::Task(pid)) => {
                let owner = if self.is_own(pid) { Owner::Own } else { Owner::Foreign };
                (owner, Some(SentBy::Task(pid)))
            }
            by => (Owner::Unassigned, by),
        }
    }

    fn raised_by_tick(&self, by: SoftirqOrigin) -> bool {
        matches!(by, SoftirqOrigin::Function(at) if self.context.tick.contains(&at))
    }

    fn is_own_origin(&self, by: SoftirqOrigin) -> bool {
        matches!(by, SoftirqOrigin::Task(pid) if self.is_own(pid))
    }

    /// The owner of a part that does not depend on what ran inside it.
    pub(super) fn owner_of_leaf(&mut self, parts: &[Part], i: usize) -> Option<OwnedBy> {
        let part = &parts[i];
        let has_parts = inside(parts, i).next().is_some();
        Some(match part.work? {
            KernelWork::Hrtimer if part.key.cause == Cause::Tick => (Owner::Tick, None),
            KernelWork::Hrtimer => {
                let run = self.relations.timer_run(self.cpu, part.begun, part.end);
                self.owner_of_run(run)
            }
            KernelWork::Timer => self.owner_of_wheel_timer(part),
            KernelWork::CalledFunction => {
                let TracedCulprit::Function(at) = part.key.culprit else { return None };
                self.owner_of_carrier(part.begun, Some(at))
            }
            KernelWork::RescheduleIpi => self.owner_of_carrier(part.begun, None),
            KernelWork::FunctionCallIpi if !has_parts => self.owner_of_carrier(part.begun, None),
            KernelWork::IrqWork => match part.key.culprit {
                TracedCulprit::Raised(by) if self.is_own_origin(by) => (Owner::Unassigned, None),
                _ => (Owner::Foreign, None),
            },
            KernelWork::SystemCall => (Owner::Own, None),
            KernelWork::PageFault => (self.owner_of_fault(part), None),
            KernelWork::LocalTimer
            | KernelWork::FunctionCallIpi
            | KernelWork::Softirq
            | KernelWork::Task => return None,
            _ => (Owner::Foreign, None),
        })
    }

    /// A fault is the workload's own, unless memory that should have been ready was not.
    pub(super) fn owner_of_fault(&self, part: &Part) -> Owner {
        let bits = match part.key.culprit {
            TracedCulprit::Fault(bits) | TracedCulprit::KernelFault(bits) => bits,
            _ => 0,
        };
        let late = self.processes.locked && self.activations >= WARM;
        match bits & COPY_ON_WRITE == COPY_ON_WRITE || late {
            true => Owner::Unassigned,
            false => Owner::Own,
        }
    }

    /// The owner of a part by what ran inside it: that of the first timer or function, and for a
    /// softirq and its thread, all of them.
    pub(super) fn owner_of_container(&self, parts: &[Part], i: usize) -> OwnedBy {
        let part = &parts[i];
        let served = |wanted: &[KernelWork]| -> Vec<OwnedBy> {
            let inner = inside(parts, i).map(|j| &parts[j]);
            let inner = inner.filter(|inner| inner.work.is_some_and(|work| wanted.contains(&work)));
            inner.filter_map(|inner| inner.owned).collect()
        };
        let all = |owneds: Vec<OwnedBy>| owneds.into_iter().max_by_key(|(owner, _)| *owner);
        let foreign = (Owner::Foreign, None);
        match (part.work, part.key.culprit) {
            (Some(KernelWork::LocalTimer), culprit) => {
                let first = served(&[KernelWork::Hrtimer]).first().copied();
                let later = parts.iter().skip(i).find(|part| is_softirq(part, HRTIMER_SOFTIRQ));
                let later = later
                    .and_then(|softirq| softirq.owned)
                    .filter(|_| culprit == TracedCulprit::Event(KernelEvent::HrtimersInSoftirq));
                first.or(later).unwrap_or((Owner::Unassigned, None))
            }
            (Some(KernelWork::FunctionCallIpi), _) => {
                served(&[KernelWork::CalledFunction]).first().copied().unwrap_or(foreign)
            }
            (Some(KernelWork::Softirq), TracedCulprit::Softirq { number, by }) => match number {
                TIMER_SOFTIRQ | HRTIMER_SOFTIRQ => {
                    let ran = all(served(&[KernelWork::Hrtimer, KernelWork::Timer]));
                    let empty = match self.raised_by_tick(by) {
                        true => Owner::Tick,
                        false if number == HRTIMER_SOFTIRQ => Owner::Unassigned,
                        false => Owner::Foreign,
                    };
                    ran.unwrap_or((empty, None))
                }
                SCHED_SOFTIRQ if self.raised_by_tick(by) => (Owner::Tick, None),
                _ => foreign,
            },
            (Some(KernelWork::Task), thread) if thread.is_softirq_thread() => {
                all(served(&[KernelWork::Softirq])).unwrap_or(foreign)
            }
            _ => foreign,
        }
    }
}

/// The parts directly inside a part.
pub(super) fn inside(parts: &[Part], i: usize) -> impl Iterator<Item = usize> + '_ {
    let depth = parts[i].depth;
    let deeper = (i + 1..parts.len()).take_while(move |j| parts[*j].depth > depth);
    deeper.filter(move |j| parts[*j].depth == depth + 1)
}

pub(super) fn is_softirq(part: &Part, wanted: u8) -> bool {
    matches!(part.key.culprit, TracedCulprit::Softirq { number, .. } if number == wanted)
}

/// The owner of an interruption in which nothing else was seen.
pub(super) fn owner_of_entry(key: CulpritKey) -> Owner {
    match (key.cause, key.culprit) {
        (Cause::Syscall | Cause::Exception, _)
        | (_, TracedCulprit::Event(KernelEvent::SyscallOrException)) => Owner::Own,
        (Cause::Unattributed, _) => Owner::Unassigned,
        _ => Owner::Foreign,
    }
}
