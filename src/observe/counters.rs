//! The counters witness: what the kernel counts anyway. [`read`] reads a [`CounterSnapshot`] from a
//! housekeeping CPU; reading these files interrupts no other CPU. [`compare`] turns two snapshots
//! into [`CpuCounts`]. Counters show how often something ran, rarely what it was, never how long.

use crate::causes::culprit::{KernelEvent, RaisedBy};
use crate::causes::{Cause, Culprit};
use crate::documents::evidence::{CpuDoubt, InterruptionCount, WitnessKind};
use crate::observe::rows::{self, RowMeaning, Tracepoint};
use cpushield_linux::sys::clock::monotonic_ns;
use cpushield_linux::text::stat::{self, CpuTime, UserTicks};
use cpushield_linux::text::{TextError, interrupts, schedstat, softirqs};
use cpushield_linux::{Host, TaskId};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The counters at one moment; `Err` is the reason why one could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterSnapshot {
    /// `/proc/interrupts`.
    pub interrupts: Result<interrupts::InterruptTable, String>,
    /// `/proc/softirqs`.
    pub softirqs: Result<softirqs::SoftirqTable, String>,
    /// `/proc/stat`.
    pub times: Result<BTreeMap<usize, CpuTime>, String>,
    /// When those were read, in nanoseconds of `CLOCK_MONOTONIC`.
    pub times_at_ns: u64,
    /// `/proc/schedstat`.
    pub sched: Result<BTreeMap<usize, schedstat::CpuSched>, String>,
    /// Every task: one that moves to a watched CPU later has run elsewhere before.
    pub tasks: Result<BTreeMap<TaskId, TaskRuntime>, String>,
}

/// The run time of a task so far, from its `stat` and `schedstat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRuntime {
    /// Its command name.
    pub comm: String,
    /// Whether it is a kernel thread.
    pub kthread: bool,
    /// The CPU on which it last ran.
    pub cpu: usize,
    /// Its run time in nanoseconds.
    pub ns: u64,
    /// How often it was put on a CPU.
    pub times: u64,
}

/// What the counters show about one CPU between two snapshots.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CpuCounts {
    /// Interrupts of all kinds: all entries except the workload's own; `None` when unknown.
    pub entries: Option<u64>,
    /// Interruptions by cause and culprit.
    pub rows: Vec<CountedRow>,
    /// Time the hypervisor took, as far as it reports that, in nanoseconds.
    pub steal_ns: Option<u64>,
    /// Idle time in nanoseconds.
    pub idle_ns: Option<u64>,
    /// How often a task other than the workload was put on the CPU.
    pub switches: Option<u64>,
    /// What makes these figures doubtful.
    pub doubts: Vec<CpuDoubt>,
}

/// What the counters saw of one cause and culprit.
#[derive(Debug, Clone, PartialEq)]
pub struct CountedRow {
    /// The interruptions.
    pub interruptions: InterruptionCount,
    /// Whether a trace reports them too.
    pub tracepoint: Tracepoint,
}

impl CpuCounts {
    /// The interruptions alone.
    pub fn interruptions(&self) -> impl Iterator<Item = &InterruptionCount> {
        self.rows.iter().map(|row| &row.interruptions)
    }
}

/// Reads the counters, and the run time of every task (two small files each).
#[must_use]
pub fn read(host: &Host) -> CounterSnapshot {
    CounterSnapshot {
        interrupts: read_file(host, "/proc/interrupts", interrupts::parse),
        softirqs: read_file(host, "/proc/softirqs", softirqs::parse),
        times: read_file(host, "/proc/stat", stat::parse),
        times_at_ns: monotonic_ns(),
        sched: read_file(host, "/proc/schedstat", schedstat::parse),
        tasks: read_tasks(host),
    }
}

impl CounterSnapshot {
    /// Reads again how much time the hypervisor took. A CPU of `nohz_full=` books it only when it
    /// enters the kernel (`get_vtime_delta()`, kernel/sched/cputime.c, 6.12), so the time that it
    /// took during an undisturbed span appears after the end of the span.
    pub fn read_booked_steal(&mut self, host: &Host) {
        if let Ok(later) = read_file(host, "/proc/stat", stat::parse) {
            self.book_steal(&later);
        }
    }

    fn book_steal(&mut self, later: &BTreeMap<usize, CpuTime>) {
        for (cpu, time) in self.times.iter_mut().flatten() {
            if let Some(later) = later.get(cpu) {
                time.steal = later.steal;
            }
        }
    }
}

fn read_file<T>(
    host: &Host,
    path: &str,
    parse: fn(&str) -> Result<T, TextError>,
) -> Result<T, String> {
    let text = host.read(path).map_err(|error| error.to_string())?;
    parse(&text).map_err(|error| error.at(path).to_string())
}

/// The rows of one CPU with their counts; `None` when it has no column. Rows with fewer numbers
/// than columns (`ERR`, `MIS`) belong to no CPU.
fn rows_of(
    table: &interrupts::InterruptTable,
    cpu: usize,
) -> Option<Vec<(&interrupts::InterruptRow, u64)>> {
    let index = table.cpus.iter().position(|column| *column == cpu)?;
    let per_cpu = table.rows.iter().filter(|row| row.counts.len() == table.cpus.len());
    Some(per_cpu.filter_map(|row| Some((row, *row.counts.get(index)?))).collect())
}

/// Reads all tasks. Leaves out a task that ends during the read. This task has run, so the kernel
/// does not count runs where it counts none of any task: without `CONFIG_SCHED_INFO` there is no
/// `schedstat`, and without `CONFIG_SCHEDSTATS` it may be `0 0 0` (`proc_pid_schedstat()`,
/// fs/proc/base.c, 6.12).
fn read_tasks(host: &Host) -> Result<BTreeMap<TaskId, TaskRuntime>, String> {
    let mut found = BTreeMap::new();
    let mut unread = None;
    for task in host.tasks().map_err(|error| error.to_string())? {
        let path = format!("/proc/{}/task/{}/schedstat", task.pid, task.id.tid);
        let text = match host.read(&path) {
            Ok(text) => text,
            Err(error) => {
                unread = Some(error.to_string());
                continue;
            }
        };
        let Some((ns, times)) = parse_runtime(&text) else { continue };
        let (comm, kthread, cpu) = (task.comm, task.kthread, task.cpu);
        found.insert(task.id, TaskRuntime { comm, kthread, cpu, ns, times });
    }
    match found.values().any(|task| task.times > 0) {
        true => Ok(found),
        false => Err(unread.unwrap_or_else(|| "the kernel does not count runs".to_owned())),
    }
}

/// Parses the first and the third number of `/proc/<pid>/schedstat`: run time in nanoseconds and
/// number of runs (Documentation/scheduler/sched-stats.rst).
fn parse_runtime(text: &str) -> Option<(u64, u64)> {
    let mut words = text.split_whitespace();
    let ns = words.next()?.parse().ok()?;
    Some((ns, words.nth(1)?.parse().ok()?))
}

/// What happened on `cpu` between the snapshots. `workload` are the threads of the workload.
#[must_use]
pub fn compare(
    before: &CounterSnapshot,
    after: &CounterSnapshot,
    cpu: usize,
    workload: &[i32],
) -> CpuCounts {
    let mut counts = CpuCounts::default();
    compare_interrupts(before, after, cpu, &mut counts);
    compare_softirqs(before, after, cpu, &mut counts);
    compare_tasks(before, after, cpu, workload, &mut counts);
    if let (Ok(a), Ok(b)) = (&before.times, &after.times)
        && let (Some(a), Some(b)) = (a.get(&cpu), b.get(&cpu))
    {
        // Steal is an estimate and may decrease a little; that counts as no time.
        counts.steal_ns = Some(b.steal.saturating_sub(a.steal).ns());
        counts.idle_ns = Some(idle_time(b).saturating_sub(idle_time(a)).ns());
    }
    if let (Ok(a), Ok(b)) = (&before.sched, &after.sched)
        && let (Some(a), Some(b)) = (a.get(&cpu), b.get(&cpu))
    {
        counts.switches = b.switches.checked_sub(a.switches);
    }
    if let Some(ns) = counts.steal_ns.filter(|ns| *ns > 0) {
        // The kernel counts only the time. The number is unknown, but at least one.
        let mut steal = counted(Cause::Steal, Culprit::Hypervisor, 1);
        steal.time_ns = Some(ns);
        counts.rows.push(CountedRow { interruptions: steal, tracepoint: Tracepoint::Absent });
    }
    counts.rows.sort_by_cached_key(|CountedRow { interruptions: row, .. }| {
        (Reverse((row.count, row.nested)), row.cause, row.culprit.to_string())
    });
    counts
}

fn idle_time(times: &CpuTime) -> UserTicks {
    times.idle.saturating_add(times.iowait)
}

/// A softirq of unknown origin: the counters do not show what raised it.
fn softirq(name: &str) -> Culprit {
    Culprit::Softirq { name: name.to_owned(), raised_by: RaisedBy::Unknown }
}

fn counted(cause: Cause, culprit: Culprit, count: u64) -> InterruptionCount {
    InterruptionCount::counted(cause, culprit, count, WitnessKind::Counters)
}

/// Something that ran inside interruptions that are counted on their own.
fn inside(cause: Cause, culprit: Culprit, times: u64) -> InterruptionCount {
    InterruptionCount { nested: times, ..counted(cause, culprit, 0) }
}

/// Something that a trace reports too.
fn traced(interruptions: InterruptionCount) -> CountedRow {
    CountedRow { interruptions, tracepoint: Tracepoint::Present }
}

fn went_back(counter: &str, file: &str) -> CpuDoubt {
    CpuDoubt::CounterWentBack { counter: counter.to_owned(), file: file.to_owned() }
}

fn compare_interrupts(
    before: &CounterSnapshot,
    after: &CounterSnapshot,
    cpu: usize,
    counts: &mut CpuCounts,
) {
    let (old_table, table) = match (&before.interrupts, &after.interrupts) {
        (Ok(old), Ok(new)) => (old, new),
        (Err(why), _) | (_, Err(why)) => {
            return counts.doubts.push(CpuDoubt::CountersUnreadable { answer: why.clone() });
        }
    };
    let (Some(old_rows), Some(rows)) = (rows_of(old_table, cpu), rows_of(table, cpu)) else {
        return counts.doubts.push(CpuDoubt::NoColumn { cpu });
    };
    let mut entries = 0_u64;
    let mut calls: Option<(usize, u64)> = None;
    let mut shootdowns = 0;
    for (row, now) in &rows {
        // A new row has counted from zero.
        let past = old_rows.iter().find(|(old, _)| old.label == row.label).map_or(0, |(_, n)| *n);
        let Some(delta) = now.checked_sub(past) else {
            counts.doubts.push(went_back(&row.label, "/proc/interrupts"));
            continue;
        };
        if delta == 0 {
            continue;
        }
        match rows::meaning(row, table) {
            RowMeaning::Entry { cause, culprit, tracepoint } => {
                entries += delta;
                if cause == Cause::IpiCall && calls.is_none() {
                    calls = Some((counts.rows.len(), delta));
                }
                let interruptions = counted(cause, culprit, delta);
                counts.rows.push(CountedRow { interruptions, tracepoint });
            }
            RowMeaning::Shootdown => shootdowns = delta,
            RowMeaning::Detail => {}
        }
    }
    split_shootdowns(counts, calls, shootdowns);
    counts.entries = Some(entries);
}

/// Splits TLB shootdowns off the function-call interrupts, which include them
/// (arch/x86/kernel/irq.c since 4.8). One interrupt may carry several flushes, so flushes can
/// outnumber interrupts.
fn split_shootdowns(counts: &mut CpuCounts, calls: Option<(usize, u64)>, shootdowns: u64) {
    let Some((index, all)) = calls.filter(|_| shootdowns > 0) else { return };
    let flushes = shootdowns.min(all);
    match counts.rows.get_mut(index) {
        Some(row) if flushes < all => row.interruptions.count = all - flushes,
        Some(_) => drop(counts.rows.remove(index)),
        None => {}
    }
    counts.rows.push(traced(counted(Cause::IpiCall, KernelEvent::TlbShootdown.into(), flushes)));
}

fn compare_softirqs(
    before: &CounterSnapshot,
    after: &CounterSnapshot,
    cpu: usize,
    counts: &mut CpuCounts,
) {
    let (Ok(a), Ok(b)) = (&before.softirqs, &after.softirqs) else { return };
    let (Some(a), Some(b)) = (a.counts_for(cpu), b.counts_for(cpu)) else { return };
    for (name, now) in b {
        let past = a.iter().find(|(old, _)| *old == name).map_or(0, |(_, n)| *n);
        match now.checked_sub(past) {
            Some(0) => {}
            Some(delta) => {
                counts.rows.push(traced(inside(Cause::Softirq, softirq(name), delta)));
            }
            None => counts.doubts.push(went_back(name, "/proc/softirqs")),
        }
    }
}

/// Adds the tasks that ran on the CPU: those whose last CPU it was and that were put on a CPU
/// since.
fn compare_tasks(
    before: &CounterSnapshot,
    after: &CounterSnapshot,
    cpu: usize,
    workload: &[i32],
    counts: &mut CpuCounts,
) {
    let (Ok(before), Ok(after)) = (&before.tasks, &after.tasks) else { return };
    for (id, now) in after {
        if now.cpu != cpu || workload.contains(&id.tid) {
            continue;
        }
        let (ns, times) = before.get(id).map_or((0, 0), |past| (past.ns, past.times));
        let times = now.times.saturating_sub(times);
        if times == 0 {
            continue;
        }
        let (cause, culprit) = if now.kthread {
            let kworker = now.comm.starts_with("kworker/");
            let cause = if kworker { Cause::Workqueue } else { Cause::Kthread };
            (cause, Culprit::kthread(now.comm.clone()))
        } else {
            (Cause::UserTask, Culprit::task(id.tid, now.comm.clone()))
        };
        // The interrupt that put it on the CPU is counted already.
        let mut row = inside(cause, culprit, times);
        row.time_ns = Some(now.ns.saturating_sub(ns));
        counts.rows.push(traced(row));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux 6.18, two CPUs, shortened.
    const INTERRUPTS: &str = "           CPU0       CPU1
 24:          1          0  IO-APIC   5-edge      ACPI:Ged
 36:          0     112003 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0
NMI:          0          2   Non-maskable interrupts
LOC:      43708      50344   Local timer interrupts
PMI:          0          2   Performance monitoring interrupts
IWI:          1          1   IRQ work interrupts
RTR:          0          0   APIC ICR read retries
RES:      29399      19412   Rescheduling interrupts
CAL:      56141      45475   Function call interrupts
TLB:       6274       4798   TLB shootdowns
MCP:          7          7   Machine check polls
ERR:          0
";

    fn snapshot(text: &str) -> CounterSnapshot {
        let absent = || "not there".to_owned();
        CounterSnapshot {
            interrupts: interrupts::parse(text).map_err(|e| e.to_string()),
            softirqs: Err(absent()),
            times: Err(absent()),
            times_at_ns: 0,
            sched: Err(absent()),
            tasks: Ok(BTreeMap::new()),
        }
    }

    fn between(changes: &[(&str, &str)]) -> CpuCounts {
        let after = changes.iter().fold(INTERRUPTS.to_owned(), |text, (from, to)| {
            assert!(text.contains(from), "{from}");
            text.replace(from, to)
        });
        compare(&snapshot(INTERRUPTS), &snapshot(&after), 1, &[])
    }

    #[test]
    fn interrupts_have_a_cause_and_details_are_not_counted_twice() {
        let counts = between(&[
            ("112003", "112005"),
            ("50344", "50594"),
            ("         2   Non", "         3   Non"),
            ("         2   Perf", "         3   Perf"),
            ("45475", "45485"),
            ("4798", "4801"),
            ("         7   Machine", "         8   Machine"),
        ]);
        let expected = CpuCounts {
            entries: Some(250 + 10 + 2 + 1),
            rows: vec![
                traced(counted(Cause::Tick, KernelEvent::LocalTimer.into(), 250)),
                traced(counted(Cause::IpiCall, Culprit::Unknown, 7)),
                traced(counted(Cause::IpiCall, KernelEvent::TlbShootdown.into(), 3)),
                traced(counted(Cause::Irq, Culprit::irq(36, "virtio1-req.0"), 2)),
                CountedRow {
                    interruptions: counted(Cause::Nmi, Culprit::Unknown, 1),
                    tracepoint: Tracepoint::Uncertain,
                },
            ],
            ..CpuCounts::default()
        };
        assert_eq!(counts, expected);
    }

    #[test]
    fn shootdowns_are_limited_to_the_number_of_interrupts() {
        let counts = between(&[("45475", "45477"), ("4798", "4803")]);
        let expected = [traced(counted(Cause::IpiCall, KernelEvent::TlbShootdown.into(), 2))];
        assert_eq!((counts.entries, counts.rows.as_slice()), (Some(2), &expected[..]));
    }

    #[test]
    fn an_idle_cpu_has_no_interruptions_and_no_doubts() {
        assert_eq!(between(&[]), CpuCounts { entries: Some(0), ..CpuCounts::default() });
    }

    #[test]
    fn counters_that_go_backwards_and_cpus_that_vanish_are_doubts() {
        let counts = between(&[("50344", "50343")]);
        assert_eq!(counts.doubts, [went_back("LOC", "/proc/interrupts")]);
        let one = "           CPU0\nLOC:      43708   Local timer interrupts\n";
        let counts = compare(&snapshot(INTERRUPTS), &snapshot(one), 1, &[]);
        assert_eq!(counts.entries, None);
        assert_eq!(counts.doubts, [CpuDoubt::NoColumn { cpu: 1 }]);
        let counts = compare(&snapshot(""), &snapshot(INTERRUPTS), 1, &[]);
        assert_eq!((counts.entries, counts.doubts.len()), (None, 1));
    }

    #[test]
    fn a_task_that_moved_to_the_cpu_counts_from_when_it_was_elsewhere() {
        let root = std::env::temp_dir().join(format!("cpushield-counters-{}", std::process::id()));
        let task = root.join("proc/77");
        std::fs::create_dir_all(task.join("task/77")).unwrap();
        let reading = |cpu: usize, runtime: &str| {
            let fields = ["0"; 35].join(" ");
            std::fs::write(task.join("stat"), format!("77 (ls) S {fields} {cpu} 0 0\n")).unwrap();
            std::fs::write(task.join("task/77/schedstat"), runtime).unwrap();
            read(&Host::recorded(&root).unwrap())
        };
        let (before, after) = (reading(0, "9000 7 800\n"), reading(1, "9060 7 804\n"));
        // A kernel that does not count.
        assert!(reading(1, "0 0 0\n").tasks.unwrap_err().contains("does not count"));
        std::fs::remove_file(task.join("task/77/schedstat")).unwrap();
        let unread = read(&Host::recorded(&root).unwrap()).tasks.unwrap_err();
        assert!(unread.contains("schedstat"), "{unread}");
        std::fs::remove_dir_all(&root).unwrap();
        let counts = compare(&before, &after, 1, &[]);
        let found: Vec<_> = counts.interruptions().map(|row| (row.nested, row.time_ns)).collect();
        assert_eq!(found, [(4, Some(60))]);
    }

    #[test]
    fn stolen_time_that_is_booked_after_the_span_counts() {
        let times = |steal| stat::parse(&format!("cpu1 5 0 0 0 0 0 0 {steal}\n")).unwrap();
        let at = |steal| CounterSnapshot {
            interrupts: Err(String::new()),
            softirqs: Err(String::new()),
            times: Ok(times(steal)),
            times_at_ns: 0,
            sched: Err(String::new()),
            tasks: Ok(BTreeMap::new()),
        };
        let (before, mut after) = (at(3), at(3));
        after.book_steal(&times(303));
        let counts = compare(&before, &after, 1, &[]);
        assert_eq!(counts.steal_ns, Some(3_000_000_000));
        assert_eq!(counts.rows.len(), 1);
    }

    #[test]
    fn tasks_softirqs_and_steal_are_named() {
        let id = |tid| TaskId { tid, started: 1 };
        let ran = |comm: &str, kthread, cpu, ns, times| TaskRuntime {
            comm: comm.to_owned(),
            kthread,
            cpu,
            ns,
            times,
        };
        let soft = |n| softirqs::parse(&format!(" CPU0 CPU1\n TIMER: 5 {n}\n RCU: 1 1\n"));
        let time = |steal| stat::parse(&format!("cpu1 0 0 0 0 0 0 0 {steal}\n"));
        let at = |soft_n, steal, tasks: Vec<(TaskId, TaskRuntime)>| CounterSnapshot {
            softirqs: soft(soft_n).map_err(|e| e.to_string()),
            times: time(steal).map_err(|e| e.to_string()),
            tasks: Ok(tasks.into_iter().collect()),
            ..snapshot(INTERRUPTS)
        };
        let before = at(
            7,
            3,
            vec![
                (id(15), ran("ksoftirqd/1", true, 1, 100, 5)),
                (id(99), ran("cpushield", false, 1, 0, 1)),
            ],
        );
        let after = at(
            9,
            5,
            vec![
                (id(15), ran("ksoftirqd/1", true, 1, 900, 7)),
                (id(16), ran("kworker/1:0-events", true, 1, 50, 1)),
                (id(20), ran("bash", false, 0, 50, 1)),
                (id(99), ran("cpushield", false, 1, 500, 3)),
                (id(77), ran("ls", false, 1, 60, 4)),
            ],
        );
        let task = |cause, culprit: &str, times, ns| InterruptionCount {
            time_ns: Some(ns),
            ..inside(cause, Culprit::shown(cause, culprit), times)
        };
        let mut steal = counted(Cause::Steal, Culprit::Hypervisor, 1);
        steal.time_ns = Some(20_000_000);
        let expected = vec![
            steal,
            task(Cause::UserTask, "ls (77)", 4, 60),
            inside(Cause::Softirq, softirq("TIMER"), 2),
            task(Cause::Kthread, "ksoftirqd/1", 2, 800),
            task(Cause::Workqueue, "kworker/1:0-events", 1, 50),
        ];
        let counts = compare(&before, &after, 1, &[99]);
        assert!(counts.interruptions().eq(&expected), "{counts:#?}");
        assert_eq!((counts.entries, counts.steal_ns), (Some(0), Some(20_000_000)));
    }
}
