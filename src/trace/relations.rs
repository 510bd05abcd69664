//! [`Relations`]: who armed a timer, woke a thread, or sent a signal or an interrupt, on all CPUs.
//! The evidence for whose an interruption is (`ownership.rs`). Pure.
//!
//! Pages of different CPUs are read one after the other, so records wait in [`Relations::add_page`]
//! until [`Relations::resolve`] takes them in the order of time.

use super::ipi_senders::SentBy;
use cpushield_linux::text::trace_format::{EventField, EventFormat};
use cpushield_linux::trace::ring_buffer::{self, LostRecords, PageLayout};
use std::collections::{HashMap, HashSet};

/// What an event says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelationKind {
    /// A timer was armed: the timer, and when it expires.
    Armed,
    /// The function of a timer begins: the timer, now, and the function.
    Expires,
    /// The function of a timer has ended: the timer.
    Expired,
    /// A task is woken: the task, and its CPU.
    Waking,
    /// A signal is sent: the task, and the number.
    Signal,
    /// A function call is sent to a CPU: the CPU, and the function.
    Call,
    /// A reschedule IPI is sent to a CPU: the CPU.
    Reschedule,
}

/// The events, with their fields. Those of IPIs exist from Linux 6.5 on.
pub const EVENTS: [(&str, &str, RelationKind, &[&str]); 7] = [
    ("timer", "hrtimer_start", RelationKind::Armed, &["hrtimer", "expires"]),
    ("timer", "hrtimer_expire_entry", RelationKind::Expires, &["hrtimer", "now", "function"]),
    ("timer", "hrtimer_expire_exit", RelationKind::Expired, &["hrtimer"]),
    ("sched", "sched_waking", RelationKind::Waking, &["pid", "target_cpu"]),
    ("signal", "signal_generate", RelationKind::Signal, &["pid", "sig"]),
    ("csd", "csd_queue_cpu", RelationKind::Call, &["cpu", "func"]),
    ("ipi", "ipi_send_cpu", RelationKind::Reschedule, &["cpu"]),
];

/// The fields of one kind of event.
#[derive(Debug, Clone)]
pub struct RelationForm {
    id: u16,
    kind: RelationKind,
    flags: EventField,
    pid: EventField,
    fields: Vec<EventField>,
}

impl RelationForm {
    /// The fields with these names; `None` if one is missing.
    #[must_use]
    pub fn new(kind: RelationKind, names: &[&str], format: &EventFormat) -> Option<RelationForm> {
        let fields = names.iter().map(|name| format.field(name)).collect::<Option<_>>()?;
        let (flags, pid) = (format.field("common_flags")?, format.field("common_pid")?);
        Some(RelationForm { id: format.id, kind, flags, pid, fields })
    }

    fn decode(&self, cpu: usize, bytes: &[u8]) -> Option<RelationEvent> {
        let pid = i32::try_from(self.pid.signed(bytes)?).ok()?;
        let by = SentBy::from_fields(self.flags.unsigned(bytes)?, pid, cpu);
        let mut values = [0; 3];
        for (value, field) in values.iter_mut().zip(&self.fields) {
            *value = field.unsigned(bytes)?;
        }
        Some(RelationEvent { kind: self.kind, cpu, by, values })
    }
}

/// A decoded event.
#[derive(Debug, Clone, Copy)]
pub struct RelationEvent {
    /// What it says.
    pub kind: RelationKind,
    /// The CPU that recorded it.
    pub cpu: usize,
    /// What ran there.
    pub by: SentBy,
    /// The values of its fields.
    pub values: [u64; 3],
}

/// How a timer was last armed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArmedTimer {
    /// When it was armed, in ticks.
    pub at: u64,
    /// When it is due, in nanoseconds of its own clock.
    pub expires_ns: u64,
    /// The task that armed it; `None` for the kernel itself.
    pub by: Option<i32>,
}

/// One run of the function of a timer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimerRun {
    /// The CPU.
    pub cpu: usize,
    /// When it began, in ticks.
    pub at: u64,
    /// The timer.
    pub timer: u64,
    /// Its function.
    pub function: u64,
    /// How it was armed; `None` if that was before the trace.
    pub armed: Option<ArmedTimer>,
    /// When the kernel read the clock of the timer, in ticks and in nanoseconds of that clock. It
    /// reads it once for all timers that are due (`hrtimer_interrupt()`, kernel/time/hrtimer.c,
    /// 6.12).
    pub read: (u64, u64),
    /// The tasks that it woke (`true`) or sent a signal to.
    pub targets: Vec<(i32, bool)>,
    by: SentBy,
}

/// A wake-up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WakeUp {
    /// When, in ticks.
    pub at: u64,
    /// The CPU on which the waker ran.
    pub cpu: usize,
    /// The CPU of the task.
    pub to: usize,
    /// The task.
    pub pid: i32,
    /// The waker.
    pub by: SentBy,
    /// The timer whose function woke it, without its targets.
    pub timer: Option<TimerRun>,
    /// Whether an interrupt is already known to have carried it.
    pub carried: bool,
    /// Whether the task has run since, or sleeps again.
    pub over: bool,
}

/// A signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentSignal {
    /// When, in ticks.
    pub at: u64,
    /// The task.
    pub pid: i32,
    /// Its number.
    pub number: u64,
    /// The sender; for the signal of a timer, the task that armed it.
    pub by: Option<SentBy>,
}

/// An interrupt that was sent to a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentCall {
    /// When, in ticks.
    pub at: u64,
    /// The CPU.
    pub to: usize,
    /// The function; `None` for a reschedule.
    pub function: Option<u64>,
    /// The sender.
    pub by: SentBy,
    /// Whether its arrival is already known.
    pub arrived: bool,
}

/// Everything that is known, in the order of time.
#[derive(Debug, Default)]
pub struct Relations {
    forms: Vec<RelationForm>,
    waiting: Vec<(u64, RelationEvent)>,
    timers: HashMap<u64, ArmedTimer>,
    /// The timer functions that run now, on each CPU; the outer before the inner.
    running: HashMap<usize, Vec<TimerRun>>,
    /// The timer that each CPU ran last, and who had armed it: its function may arm it again.
    ran_last: HashMap<usize, (u64, Option<i32>)>,
    /// When each CPU last read the clock of its timers.
    read: HashMap<usize, (u64, u64)>,
    /// Timer functions that have ended.
    pub timer_runs: Vec<TimerRun>,
    /// Wake-ups.
    pub wakes: Vec<WakeUp>,
    /// Signals.
    pub signals: Vec<SentSignal>,
    /// Interrupts between CPUs.
    pub sent: Vec<SentCall>,
    /// Whether records are missing.
    pub lost: bool,
}

impl Relations {
    /// Knows nothing yet.
    #[must_use]
    pub fn new(forms: Vec<RelationForm>) -> Relations {
        Relations { forms, ..Relations::default() }
    }

    /// Adds a page of the buffer of one CPU.
    pub fn add_page(&mut self, cpu: usize, layout: &PageLayout, page: &[u8]) {
        let page = ring_buffer::decode(layout, page);
        self.lost |= !matches!(page.lost, LostRecords::Nothing);
        let mut records = page.records();
        for record in records.by_ref() {
            let id = record.bytes.first_chunk().map(|id| u16::from_le_bytes(*id));
            let form = self.forms.iter().find(|form| Some(form.id) == id);
            match form.and_then(|form| form.decode(cpu, record.bytes)) {
                Some(event) => self.waiting.push((record.timestamp, event)),
                None => self.lost = true,
            }
        }
        self.lost |= records.skipped() > 0;
    }

    /// Takes all records up to this moment, before which nothing is unread.
    pub fn resolve(&mut self, until: u64) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.sort_by_key(|(at, _)| *at);
        let later = waiting.split_off(waiting.partition_point(|(at, _)| *at <= until));
        waiting.into_iter().for_each(|(at, event)| self.take(at, event));
        self.waiting = later;
        self.timer_runs.sort_by_key(|run| run.at);
    }

    /// Takes the next event.
    pub fn take(&mut self, at: u64, event: RelationEvent) {
        let RelationEvent { kind, cpu, by, values: [first, second, third] } = event;
        let task = i32::try_from(first).unwrap_or(-1);
        let to = usize::try_from(first).unwrap_or(usize::MAX);
        match kind {
            RelationKind::Armed => self.armed(at, &event),
            RelationKind::Expires => {
                let armed = self.timers.remove(&first);
                let read = self.read.get(&cpu).copied().filter(|(_, now_ns)| *now_ns == second);
                let read = read.unwrap_or((at, second));
                self.read.insert(cpu, read);
                self.ran_last.insert(cpu, (first, armed.and_then(|armed| armed.by)));
                let (timer, function, targets) = (first, third, Vec::new());
                // At most a softirq and an interrupt in it run timers; the end of others is lost.
                let running = self.running.entry(cpu).or_default();
                running.drain(..running.len().saturating_sub(1));
                running.push(TimerRun { cpu, at, timer, function, armed, read, targets, by });
            }
            RelationKind::Expired => {
                let running = self.running.entry(cpu).or_default();
                if let Some(depth) = running.iter().rposition(|run| run.timer == first) {
                    self.timer_runs.extend(running.drain(depth..));
                }
            }
            RelationKind::Waking => {
                let timer = self.add_target(cpu, by, (task, true));
                let to = usize::try_from(second).unwrap_or(usize::MAX);
                let (pid, carried, over) = (task, false, false);
                self.wakes.push(WakeUp { at, cpu, to, pid, by, timer, carried, over });
            }
            RelationKind::Signal => {
                let by = match self.add_target(cpu, by, (task, false)) {
                    Some(run) => run.armed.and_then(|armed| armed.by).map(SentBy::Task),
                    None => Some(by),
                };
                self.signals.push(SentSignal { at, pid: task, number: second, by });
            }
            RelationKind::Call | RelationKind::Reschedule => {
                let function = (kind == RelationKind::Call).then_some(second);
                self.sent.push(SentCall { at, to, function, by, arrived: false });
            }
        }
    }

    /// A timer is armed. In an interrupt, the running task did not arm it. A function that arms its
    /// own timer again does so for the task that armed it first.
    fn armed(&mut self, at: u64, event: &RelationEvent) {
        let [timer, expires_ns, _] = event.values;
        let ran_last = self.ran_last.get(&event.cpu).filter(|(ran, _)| *ran == timer);
        let by = event.by.task().or(ran_last.and_then(|(_, by)| *by));
        self.timers.insert(timer, ArmedTimer { at, expires_ns, by });
    }

    /// The timer function that runs here wakes this task, or sends it a signal. Returns it.
    fn add_target(&mut self, cpu: usize, by: SentBy, target: (i32, bool)) -> Option<TimerRun> {
        let run = self.running.get_mut(&cpu)?.last_mut().filter(|run| run.by == by)?;
        run.targets.push(target);
        Some(TimerRun { targets: Vec::new(), ..run.clone() })
    }

    /// The run of a timer function on this CPU that began in this time.
    #[must_use]
    pub fn timer_run(&self, cpu: usize, from: u64, to: u64) -> Option<&TimerRun> {
        let first = self.timer_runs.partition_point(|run| run.at < from);
        let mut runs = self.timer_runs.iter().skip(first).take_while(|run| run.at <= to);
        runs.find(|run| run.cpu == cpu)
    }

    /// The last wake-up of this task until this moment.
    #[must_use]
    pub fn wake_of(&self, pid: i32, until: u64) -> Option<&WakeUp> {
        let known = self.wakes.partition_point(|wake| wake.at <= until);
        self.wakes[..known].iter().rev().find(|wake| wake.pid == pid)
    }

    /// The wake-ups in this time.
    pub fn wakes_during(&self, from: u64, to: u64) -> impl Iterator<Item = &WakeUp> {
        let first = self.wakes.partition_point(|wake| wake.at < from);
        self.wakes[first..].iter().take_while(move |wake| wake.at <= to)
    }

    /// Forgets what was before this moment, but not the last wake-up of each task.
    pub fn forget(&mut self, before: u64) {
        let mut known = HashSet::new();
        let mut kept: Vec<WakeUp> = std::mem::take(&mut self.wakes);
        kept.reverse();
        kept.retain(|wake| known.insert(wake.pid) || wake.at >= before);
        kept.reverse();
        self.wakes = kept;
        self.timer_runs.retain(|run| run.at >= before);
        self.signals.retain(|signal| signal.at >= before);
        self.sent.retain(|sent| sent.at >= before);
    }
}
