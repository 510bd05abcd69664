//! The counts of one CPU, by cause and culprit, at constant memory. Pure.

use super::decode::ShortName;
use super::ipi_senders::SentBy;
use super::stacks::StackTable;
use crate::causes::Cause;
use crate::causes::culprit::{
    self, Culprit, KernelEvent, PageAccess, RaisedBy, SignalSender, TickDependency,
};
use crate::documents::evidence::{InterruptionCount, IpiOrigin, WitnessKind};
use cpushield_linux::sys::clock::TickScale;
use cpushield_linux::sys::syscalls;
use cpushield_linux::text::kallsyms::KernelSymbols;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

/// The most culprits that are counted separately on one CPU.
const ROWS_MAX: usize = 4096;

/// The functions of the tick's hrtimer (kernel/time/tick-sched.c): up to 6.6, in 6.7 and 6.8 (since
/// commit dba428a678c7), and from 6.9 on.
pub const TICK: &[&str] = &["tick_sched_timer", "tick_nohz_highres_handler", "tick_nohz_handler"];

/// A culprit, as the trace identifies it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TracedCulprit {
    /// Unknown.
    Unknown,
    /// Something that the kernel reports without naming it.
    Event(KernelEvent),
    /// A function of the kernel, by address.
    Function(u64),
    /// A device interrupt.
    Irq {
        /// Its number.
        number: u32,
        /// The name it was requested with.
        name: ShortName,
    },
    /// A task.
    Task {
        /// Its number.
        pid: i32,
        /// Its command name; empty when it was running before the trace began.
        comm: ShortName,
    },
    /// The tick.
    Tick {
        /// The function of its timer.
        function: u64,
        /// What kept it, as the kernel last reported: bits of `enum tick_dep_bits`.
        needed: u8,
    },
    /// A work item.
    Work {
        /// Its function.
        function: u64,
        /// Whether its kworker is unbound.
        unbound: bool,
    },
    /// A softirq.
    Softirq {
        /// Its number.
        number: u8,
        /// What raised it.
        by: SoftirqOrigin,
    },
    /// A page fault, by the bits of its error code (arch/x86/include/asm/trap_pf.h).
    Fault(u8),
    /// A page fault of the kernel on behalf of the task, by the same bits.
    KernelFault(u8),
    /// A signal.
    Signal {
        /// Its number.
        number: u8,
        /// `si_code`, as far as it identifies the sender.
        code: i8,
    },
    /// `irq_work` that this CPU sent to itself, by what queued it; no event names its function.
    Raised(SoftirqOrigin),
    /// A bank of machine checks.
    Bank(u8),
    /// A system call by number.
    Syscall(u64),
    /// A record of an event that was not enabled, by the event's number.
    Foreign(u16),
    /// A record of this event that is too short for its fields.
    Short(&'static str),
    /// All culprits beyond the first [`ROWS_MAX`].
    Others,
}

impl TracedCulprit {
    /// Whether it is a thread that runs softirqs.
    #[must_use]
    pub fn is_softirq_thread(self) -> bool {
        let TracedCulprit::Task { comm, .. } = self else { return false };
        comm.starts_with(b"ktimers/") || comm.starts_with(b"ksoftirqd/")
    }
}

/// What raised a softirq or queued `irq_work`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum SoftirqOrigin {
    /// Not seen.
    #[default]
    Unknown,
    /// A task that was running.
    Task(i32),
    /// A device interrupt, by number.
    Irq(u32),
    /// A kernel function: of a timer, of a work item, of a function call.
    Function(u64),
    /// Another softirq, by number.
    Softirq(u8),
}

impl SoftirqOrigin {
    /// From the culprit that was running at that moment.
    #[must_use]
    pub fn from_culprit(culprit: TracedCulprit) -> SoftirqOrigin {
        match culprit {
            TracedCulprit::Irq { number, .. } => SoftirqOrigin::Irq(number),
            TracedCulprit::Function(at) | TracedCulprit::Tick { function: at, .. } => {
                SoftirqOrigin::Function(at)
            }
            TracedCulprit::Work { function, .. } => SoftirqOrigin::Function(function),
            TracedCulprit::Task { pid, .. } => SoftirqOrigin::Task(pid),
            TracedCulprit::Softirq { number, .. } => SoftirqOrigin::Softirq(number),
            _ => SoftirqOrigin::Unknown,
        }
    }
}

/// The key of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CulpritKey {
    /// The cause.
    pub cause: Cause,
    /// The culprit.
    pub culprit: TracedCulprit,
}

impl std::hash::Hash for CulpritKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.culprit.hash(state);
    }
}

/// Counts of one culprit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CulpritStats {
    /// The number of interruptions that began with it.
    pub count: u64,
    /// How often it ran inside another interruption.
    pub nested: u64,
    /// Its own time in ticks.
    pub ticks: u64,
    /// The longest interruption that began with it, in ticks.
    pub max: u64,
    /// How many of `count` and `nested` have no known end, and so no time.
    pub untimed: u64,
    /// The number of the first stack that was seen.
    pub stack: Option<u32>,
}

/// A fast hash for keys that come from the kernel, so collision attacks do not matter.
#[derive(Debug, Default, Clone, Copy)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, n: u8) {
        self.write_u64(n.into());
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(n.into());
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }
}

/// The rows of one CPU.
#[derive(Debug, Clone, Default)]
pub struct CpuCulprits {
    rows: HashMap<CulpritKey, CulpritStats, BuildHasherDefault<KeyHasher>>,
}

impl CpuCulprits {
    /// The row of a culprit.
    pub fn row(&mut self, key: CulpritKey) -> &mut CulpritStats {
        let full = self.rows.len() >= ROWS_MAX && !self.rows.contains_key(&key);
        let key = if full { CulpritKey { culprit: TracedCulprit::Others, ..key } } else { key };
        self.rows.entry(key).or_default()
    }

    /// The process numbers of all tasks among the culprits.
    pub fn tasks(&self) -> impl Iterator<Item = i32> + '_ {
        self.rows.keys().filter_map(|key| match key.culprit {
            TracedCulprit::Task { pid, .. }
            | TracedCulprit::Softirq { by: SoftirqOrigin::Task(pid), .. }
            | TracedCulprit::Raised(SoftirqOrigin::Task(pid)) => Some(pid),
            _ => None,
        })
    }

    /// All rows with names, most frequent first.
    #[must_use]
    pub fn interruptions(
        &self,
        names: &CulpritNames<'_>,
        scale: &TickScale,
    ) -> Vec<InterruptionCount> {
        let mut merged: BTreeMap<(Cause, Culprit), CulpritStats> = BTreeMap::new();
        for (key, row) in &self.rows {
            let into = merged.entry(names.describe(*key)).or_default();
            into.count += row.count;
            into.nested += row.nested;
            into.ticks += row.ticks;
            into.max = into.max.max(row.max);
            into.untimed += row.untimed;
            into.stack = into.stack.or(row.stack);
        }
        let mut list: Vec<InterruptionCount> = merged
            .into_iter()
            .map(|((cause, culprit), row)| {
                let timed = row.untimed < row.count + row.nested;
                InterruptionCount {
                    cause,
                    culprit,
                    count: row.count,
                    nested: row.nested,
                    time_ns: timed.then(|| scale.ns(row.ticks)),
                    max_ns: (timed && row.count > 0).then(|| scale.ns(row.max)),
                    witness: WitnessKind::Trace,
                    stack: names.function_names(row.stack),
                }
            })
            .collect();
        list.sort_by_cached_key(|row| {
            (std::cmp::Reverse((row.count, row.nested)), row.cause, row.culprit.to_string())
        });
        list
    }
}

/// The tasks that were looked up; `None` for one that had ended by then.
pub type TaskNames = HashMap<i32, Option<TaskName>>;

/// The name of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskName {
    /// Its command name.
    pub comm: String,
    /// Whether it is a kernel thread.
    pub kthread: bool,
}

/// Turns keys into named culprits.
#[derive(Debug, Clone, Copy)]
pub struct CulpritNames<'a> {
    /// The functions of the kernel.
    pub symbols: &'a KernelSymbols,
    /// Tasks that were looked up while they were alive.
    pub tasks: &'a TaskNames,
    /// The stacks by number, where they were recorded.
    pub stacks: Option<&'a StackTable>,
}

impl CulpritNames<'_> {
    /// The cause and the named culprit of a key.
    pub(super) fn describe(&self, key: CulpritKey) -> (Cause, Culprit) {
        match (key.cause, key.culprit) {
            (Cause::Hrtimer, TracedCulprit::Function(address)) => {
                let name = self.symbols.name(address);
                match TICK.contains(&name.as_str()) {
                    true => (Cause::Tick, Culprit::Tick { function: name, kept_by: Vec::new() }),
                    false => (Cause::Hrtimer, Culprit::Function { name }),
                }
            }
            (_, TracedCulprit::Task { pid, comm }) => self.task(pid, &comm.text()),
            (cause, culprit) => (cause, self.culprit(culprit)),
        }
    }

    fn culprit(&self, culprit: TracedCulprit) -> Culprit {
        match culprit {
            TracedCulprit::Unknown => Culprit::Unknown,
            TracedCulprit::Event(event) => event.into(),
            TracedCulprit::Function(address) => Culprit::function(self.symbols.name(address)),
            TracedCulprit::Irq { number, name } => Culprit::irq(number, name.text()),
            TracedCulprit::Task { pid, comm } => self.task(pid, &comm.text()).1,
            TracedCulprit::Tick { function, needed } => Culprit::Tick {
                function: self.symbols.name(function),
                kept_by: TickDependency::from_bits(needed),
            },
            TracedCulprit::Work { function, unbound } => {
                Culprit::Work { function: self.symbols.name(function), unbound }
            }
            TracedCulprit::Softirq { number, by } => {
                let name = culprit::softirq_name(number);
                Culprit::Softirq { name, raised_by: self.raised_by(by) }
            }
            TracedCulprit::Raised(by) => Culprit::IrqWork { raised_by: self.raised_by(by) },
            TracedCulprit::Fault(bits) => user_page_fault(bits),
            TracedCulprit::KernelFault(bits) => kernel_page_fault(bits),
            TracedCulprit::Signal { number, code } => Culprit::Signal {
                name: culprit::signal_name(number),
                sent_by: SignalSender::from_code(code),
            },
            TracedCulprit::Bank(bank) => Culprit::MachineCheckBank { bank },
            TracedCulprit::Syscall(number) => {
                let name = syscalls::name(number).map(str::to_owned);
                let name = name.unwrap_or_else(|| format!("system call {number}"));
                Culprit::Syscall { name }
            }
            TracedCulprit::Foreign(id) => Culprit::UnexpectedRecord { id },
            TracedCulprit::Short(event) => Culprit::TruncatedRecord { event: event.to_owned() },
            TracedCulprit::Others => Culprit::Others,
        }
    }

    /// The functions of a stack; empty where stacks were not recorded.
    fn function_names(&self, stack: Option<u32>) -> Vec<String> {
        let names = self.stacks.map(|stacks| stacks.function_names(stack, self.symbols));
        names.unwrap_or_default()
    }

    /// A thread of the workload, as tables show it.
    pub(super) fn thread(&self, pid: i32) -> String {
        Culprit::task(pid, self.comm(pid)).to_string()
    }

    fn comm(&self, pid: i32) -> &str {
        self.tasks.get(&pid).and_then(Option::as_ref).map_or("", |task| &task.comm)
    }

    /// A sender, with the name of the task.
    pub(super) fn origin(&self, by: SentBy) -> IpiOrigin {
        by.origin(&|pid| self.comm(pid).to_owned())
    }

    fn raised_by(&self, by: SoftirqOrigin) -> RaisedBy {
        match by {
            SoftirqOrigin::Unknown => RaisedBy::Unknown,
            SoftirqOrigin::Task(pid) => match self.task(pid, "").1 {
                Culprit::Kthread { comm } => RaisedBy::Kthread { comm },
                Culprit::Task { pid, comm } => RaisedBy::Task { pid, comm },
                _ => RaisedBy::Unknown,
            },
            SoftirqOrigin::Irq(irq) => RaisedBy::Irq { irq },
            SoftirqOrigin::Function(at) => RaisedBy::Function { name: self.symbols.name(at) },
            SoftirqOrigin::Softirq(number) => {
                RaisedBy::Softirq { name: culprit::softirq_name(number) }
            }
        }
    }

    fn task(&self, pid: i32, comm: &str) -> (Cause, Culprit) {
        // /proc has a longer name of a kernel thread: `kworker/3:1-events`. Any other name belongs
        // to another task with the same number; a program may have changed its own.
        let known = self.tasks.get(&pid).and_then(Option::as_ref);
        let known = known.filter(|task| !task.kthread || task.comm.starts_with(comm));
        let comm = if comm.is_empty() { known.map_or("", |task| &task.comm) } else { comm };
        match known {
            Some(TaskName { kthread: true, .. }) => {
                let kworker = comm.starts_with("kworker/");
                let cause = if kworker { Cause::Workqueue } else { Cause::Kthread };
                (cause, Culprit::kthread(comm))
            }
            Some(_) => (Cause::UserTask, Culprit::task(pid, comm)),
            None => (Cause::EndedTask, Culprit::task(pid, comm)),
        }
    }
}

fn user_page_fault(bits: u8) -> Culprit {
    Culprit::PageFault { access: PageAccess::from_error_code(bits), in_kernel: false }
}

fn kernel_page_fault(bits: u8) -> Culprit {
    Culprit::PageFault { access: PageAccess::from_error_code(bits), in_kernel: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_rows_is_limited_and_no_count_is_lost() {
        let mut rows = CpuCulprits::default();
        for n in 0..10_000 {
            let culprit = TracedCulprit::Task { pid: n, comm: ShortName::new(b"sh") };
            rows.row(CulpritKey { cause: Cause::Kthread, culprit }).count += 1;
        }
        assert_eq!(rows.rows.len(), ROWS_MAX + 1);
        assert_eq!(rows.rows.values().map(|row| row.count).sum::<u64>(), 10_000);
    }
}
