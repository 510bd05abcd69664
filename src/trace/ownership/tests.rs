//! Sequences of events and whose each of them is, in `cases.txt`.

use super::super::interruptions::tests::TrackerBench;
use super::super::relations::{RelationEvent, RelationKind, Relations};
use super::*;
use cpushield_linux::text::kallsyms::KernelSymbols;

/// The CPU of the cases.
const CPU: usize = 3;

struct OwnershipBench {
    tracker: TrackerBench,
    relations: Relations,
    processes: WorkloadProcesses,
    cpu: CpuOwnership,
    out: String,
}

impl OwnershipBench {
    fn new() -> OwnershipBench {
        let mut tracker = TrackerBench::new();
        tracker.tracker.keep_moments();
        OwnershipBench {
            tracker,
            relations: Relations::default(),
            processes: WorkloadProcesses::default(),
            cpu: CpuOwnership::new(CPU),
            out: String::new(),
        }
    }

    fn line(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["locked"] => self.processes.locked = true,
            ["relatives", tids @ ..] => {
                self.processes.relatives = tids.iter().map(|tid| tid.parse().unwrap()).collect();
            }
            ["r", at, cpu, by, what, values @ ..] => {
                let (cpu, hex) = (cpu.parse().unwrap(), |word: &str| u64::from_str_radix(word, 16));
                let number = |n: usize| values[n].parse().unwrap();
                let (kind, values) = match *what {
                    "arm" => (RelationKind::Armed, [hex(values[0]).unwrap(), number(1), 0]),
                    "expires" => {
                        let timer = hex(values[0]).unwrap();
                        (RelationKind::Expires, [timer, number(1), hex(values[2]).unwrap()])
                    }
                    "expired" => (RelationKind::Expired, [hex(values[0]).unwrap(), 0, 0]),
                    "wakes" => (RelationKind::Waking, [number(0), number(1), 0]),
                    "signal" => (RelationKind::Signal, [number(0), number(1), 0]),
                    "call" => (RelationKind::Call, [number(0), hex(values[1]).unwrap(), 0]),
                    "reschedule" => (RelationKind::Reschedule, [number(0), 0, 0]),
                    other => panic!("no such event: {other}"),
                };
                let by = match *by {
                    "irq" => SentBy::Interrupt(cpu),
                    pid => SentBy::Task(pid.parse().unwrap()),
                };
                self.relations.take(at.parse().unwrap(), RelationEvent { kind, cpu, by, values });
            }
            ["phase", at] => {
                let at = at.parse().unwrap();
                self.tracker.tracker.end_phase(at);
                self.cut(at);
                self.cpu.begin_phase(at);
            }
            ["cut", at] => {
                let at = at.parse().unwrap();
                self.tracker.tracker.finish(at);
                self.cut(at);
            }
            _ => self.tracker.line(line),
        }
    }

    fn cut(&mut self, at: u64) {
        let TrackerBench { context, tracker, symbols, tasks, .. } = &mut self.tracker;
        self.relations.timer_runs.sort_by_key(|run| run.at);
        let scale = TickScale { ns_per_tick: 1.0, error_ppm: 0.0 };
        let mut facts = OwnershipFacts {
            context,
            processes: &self.processes,
            relations: &mut self.relations,
            scale,
            tracked: false,
            cpu: CPU,
            activations: 0,
            pending: PendingRelations::default(),
        };
        self.cpu.add(tracker.take_history(), tracker.take_moments());
        self.cpu.judge(&mut facts, at);
        let symbols = KernelSymbols::parse(symbols);
        let names = CulpritNames { symbols: &symbols, tasks, stacks: None };
        let seen = self.cpu.evidence(&names, &scale, &self.processes);
        let counted: u64 = self.cpu.sums.values().map(|sum| sum.count).sum();
        assert!(counted <= seen.rows.iter().map(|row| row.count).sum::<u64>());
        for row in &seen.rows {
            let harmless = if row.harmless { ", harmless" } else { "" };
            let same = if row.same_process { ", same process" } else { "" };
            let by = row.by.as_ref().map(|by| format!(" by {by}{same}")).unwrap_or_default();
            let (owner, cause, culprit) = (row.owner, row.cause, &row.culprit);
            let (count, time) = (row.count, row.time_ns);
            self.out += &format!("{owner}{harmless} {cause} {culprit}{by}: {count} {time}\n");
        }
        let worst = seen.delays.worst.first().map(|worst| format!(", {worst}"));
        self.out += &format!("activations {}{}\n", seen.activations, worst.unwrap_or_default());
    }
}

#[test]
fn every_interruption_of_the_cases_has_its_owner() {
    let mut wrong = String::new();
    for case in include_str!("cases.txt").split("\n== ").skip(1) {
        let (name, body) = case.split_once('\n').unwrap();
        let (lines, wanted) = body.split_once("--\n").unwrap();
        let mut bench = OwnershipBench::new();
        lines.lines().for_each(|line| bench.line(line));
        if bench.out.trim() != wanted.trim() {
            wrong += &format!("== {name}\nfound:\n{}wanted:\n{wanted}\n", bench.out);
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}
