//! Sequences of events and the complete result of each, in `cases.txt`.

use super::*;
use crate::trace::culprit_stats::{CulpritNames, TICK, TaskName, TaskNames};
use crate::trace::decode::{DecodedRecord, EventDecoder, EventValues, TaskLeft};
use crate::trace::trace_events::{self, EventFields, X86Vector};
use cpushield_linux::sys::clock::TickScale;
use cpushield_linux::text::kallsyms::KernelSymbols;
use cpushield_linux::text::trace_format::EventFormat;
use cpushield_linux::trace::ring_buffer::RawRecord;
use proptest::prelude::*;

/// One tick is one nanosecond.
const SCALE: TickScale = TickScale { ns_per_tick: 1.0, error_ppm: 0.0 };

/// One CPU, and what is known about its machine.
#[derive(Default)]
pub struct TrackerBench {
    pub context: TraceContext,
    pub tracker: InterruptionTracker,
    pub symbols: String,
    pub tasks: TaskNames,
    out: String,
}

impl TrackerBench {
    pub fn new() -> TrackerBench {
        let mut bench = TrackerBench::default();
        bench.context.ticks_per_ns = 1.0;
        bench
    }

    /// One line of a case.
    pub fn line(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["workload", pids @ ..] => {
                self.context.workload = pids.iter().map(|pid| pid.parse().unwrap()).collect();
                self.tracker.workload_changed(&self.context);
            }
            ["since", at] => self.tracker.recording_started(at.parse().unwrap()),
            [kind @ ("kthread" | "program"), pid, comm] => {
                let kthread = *kind == "kthread";
                let task = TaskName { comm: (*comm).to_owned(), kthread };
                self.tasks.insert(pid.parse().unwrap(), Some(task));
            }
            ["symbol", address, name] => {
                self.symbols.push_str(&format!("{address} t {name}\n"));
                if *name == "sched_ttwu_pending" {
                    self.context.wake_function = Some(hex(address));
                }
                if TICK.contains(name) {
                    self.context.tick.push(hex(address));
                }
                self.context.entry_text = EntryText::find(&KernelSymbols::parse(&self.symbols));
            }
            ["gap"] => self.tracker.events_lost(),
            ["stack", callers @ ..] => {
                let callers = callers.iter().map(|caller| hex(caller));
                self.tracker.handle_stack(&mut self.context, callers);
            }
            ["cut", at] => {
                self.tracker.release_held(&mut self.context);
                self.cut(at.parse().unwrap());
            }
            _ => {
                let event = event(&words).unwrap_or_else(|| panic!("no event: {line}"));
                self.tracker.handle_event(&mut self.context, &event);
            }
        }
    }

    fn cut(&mut self, at: u64) {
        let stats = self.tracker.end_phase(at);
        let symbols = KernelSymbols::parse(&self.symbols);
        let names = CulpritNames { symbols: &symbols, tasks: &self.tasks, stacks: None };
        let rows = stats.rows.interruptions(&names, &SCALE);
        assert_eq!(stats.interruptions, rows.iter().map(|row| row.count).sum::<u64>());
        let number = |n: Option<u64>| n.map_or("-".to_owned(), |n| n.to_string());
        for row in rows {
            self.out.push_str(
                format!(
                    "{}+{} {} {} {} {}",
                    row.count,
                    row.nested,
                    number(row.time_ns),
                    number(row.max_ns),
                    row.cause,
                    row.culprit
                )
                .trim_end(),
            );
            self.out.push('\n');
        }
        let longest = number(stats.longest);
        self.out.push_str(&format!("entries {}", stats.entries));
        if stats.kernel_interrupts > 0 {
            self.out.push_str(&format!(" kernel {}", stats.kernel_interrupts));
        }
        self.out.push_str(&format!(" switches {} longest {longest}", stats.switches));
        for (n, what) in [(stats.backwards, "backwards"), (stats.resyncs, "resyncs")] {
            if n > 0 {
                self.out.push_str(&format!(" {what} {n}"));
            }
        }
        self.out.push('\n');
    }
}

fn hex(word: &str) -> u64 {
    u64::from_str_radix(word, 16).unwrap()
}

fn task_left(letter: &str) -> Option<TaskLeft> {
    match letter {
        "S" => Some(TaskLeft::Blocks),
        "D" => Some(TaskLeft::Waits),
        "R" => Some(TaskLeft::Preempted),
        "O" => Some(TaskLeft::Overtaken),
        _ => None,
    }
}

/// `AT PID NAME VALUES… [!]`; `!` sets the reschedule flag. The name is a word of this list, or the
/// name of an event with at most one field.
fn event(words: &[&str]) -> Option<TraceEvent> {
    let (words, resched) = match words {
        [words @ .., "!"] => (words, true),
        words => (words, false),
    };
    let [at, pid, name, values @ ..] = words else { return None };
    let number = |n: usize| values.get(n)?.parse::<u64>().ok();
    let address = |n: usize| Some(EventValues::Number(hex(values.get(n)?)));
    let small = |n: usize| values.get(n)?.parse::<i32>().ok();
    let (kind, values) = match *name {
        "+timer" => (EventKind::Vector(X86Vector::LocalTimer), EventValues::Nothing),
        "-timer" => (EventKind::VectorEnd(X86Vector::LocalTimer), EventValues::Nothing),
        "+resched" => (EventKind::Vector(X86Vector::Reschedule), EventValues::Nothing),
        "-resched" => (EventKind::VectorEnd(X86Vector::Reschedule), EventValues::Nothing),
        "+iwi" => (EventKind::Vector(X86Vector::IrqWork), EventValues::Nothing),
        "-iwi" => (EventKind::VectorEnd(X86Vector::IrqWork), EventValues::Nothing),
        "+one" => (EventKind::Vector(X86Vector::CallOne), EventValues::Nothing),
        "-one" => (EventKind::VectorEnd(X86Vector::CallOne), EventValues::Nothing),
        "+many" => (EventKind::Vector(X86Vector::CallMany), EventValues::Nothing),
        "-many" => (EventKind::VectorEnd(X86Vector::CallMany), EventValues::Nothing),
        "+irq" => {
            let name = ShortName::new(values.get(1)?.as_bytes());
            (EventKind::Irq, EventValues::Irq { number: values.first()?.parse().ok()?, name })
        }
        "-irq" => (EventKind::IrqEnd, EventValues::Nothing),
        "+soft" => (EventKind::Softirq, EventValues::Number(number(0)?)),
        "-soft" => (EventKind::SoftirqEnd, EventValues::Nothing),
        "raise" => (EventKind::SoftirqRaise, EventValues::Number(number(0)?)),
        "+hr" => (EventKind::Hrtimer, address(0)?),
        "-hr" => (EventKind::HrtimerEnd, EventValues::Nothing),
        "+wheel" => (EventKind::Timer, address(0)?),
        "-wheel" => (EventKind::TimerEnd, EventValues::Nothing),
        "+func" => (EventKind::Call, address(0)?),
        "-func" => (EventKind::CallEnd, EventValues::Nothing),
        "+work" => (EventKind::Work, address(0)?),
        "-work" => (EventKind::WorkEnd, EventValues::Nothing),
        "switch" => {
            let comm = ShortName::new(values.get(2)?.as_bytes());
            let left = task_left(values.first()?)?;
            (EventKind::Switch, EventValues::Switch { left, pid: small(1)?, comm })
        }
        "fork" => (EventKind::Fork, EventValues::Fork { parent: small(0)?, child: small(1)? }),
        "fault" => (EventKind::PageFault, EventValues::Number(number(0).unwrap_or(4))),
        "kept" => (
            EventKind::TickStop,
            EventValues::Tick { stopped: false, needed: number(0)?.try_into().ok()? },
        ),
        "stopped" => (EventKind::TickStop, EventValues::Tick { stopped: true, needed: 0 }),
        "signal" => {
            let code = small(1)?;
            (EventKind::Signal, EventValues::Signal { number: number(0)?.try_into().ok()?, code })
        }
        "tlb" => (EventKind::TlbFlush, EventValues::Number(number(0)?)),
        "kfault" => (EventKind::KernelFault, EventValues::Number(number(0)?)),
        "nmi" => {
            let EventValues::Number(handler) = address(0)? else { return None };
            let handled = number(2)? != 0;
            (EventKind::Nmi, EventValues::Nmi { handler, took_ns: number(1)?, handled })
        }
        "+sys" => (EventKind::Syscall, EventValues::Number(number(0)?)),
        "-sys" => (EventKind::SyscallEnd, EventValues::Nothing),
        name => {
            let spec = trace_events::events().find(|spec| spec.name == name)?;
            match spec.fields {
                EventFields::Nothing => (spec.kind, EventValues::Nothing),
                EventFields::Number(_) => (spec.kind, EventValues::Number(number(0)?)),
                _ => return None,
            }
        }
    };
    Some(TraceEvent { at: at.parse().ok()?, pid: pid.parse().ok()?, resched, kind, values })
}

#[test]
fn every_sequence_in_the_cases_is_counted_as_expected() {
    let text = include_str!("cases.txt");
    let mut wrong = String::new();
    let mut cases = 0;
    for case in text.split("\n== ").skip(1) {
        let (name, body) = case.split_once('\n').unwrap();
        let (lines, wanted) = body.split_once("--\n").unwrap();
        let mut bench = TrackerBench::new();
        for line in lines.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            bench.line(line);
        }
        if bench.out.trim() != wanted.trim() {
            wrong.push_str(&format!("== {name}\nfound:\n{}wanted:\n{}\n", bench.out, wanted));
        }
        cases += 1;
    }
    assert!(cases > 10, "only {cases} cases");
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// The handler accepts the values that the fields in the table are decoded to.
#[test]
fn every_event_of_the_table_is_decoded_and_handled() {
    const COMMON: &[(&str, usize, usize)] =
        &[("common_type", 0, 2), ("common_flags", 2, 1), ("common_pid", 4, 4)];
    let mut count = 0;
    for spec in trace_events::events() {
        let own = spec.fields.names().iter().zip(1..).map(|(name, n)| (*name, 8 * n, 4));
        let fields = COMMON.iter().copied().chain(own).map(|(name, offset, size)| {
            format!("\tfield:int {name};\toffset:{offset};\tsize:{size};\tsigned:1;\n")
        });
        let format = format!("name: {}\nID: 0\nformat:\n{}", spec.name, fields.collect::<String>());
        let (decoder, unusable) =
            EventDecoder::new(&[(spec, EventFormat::parse(&format).unwrap())]);
        assert!(unusable.is_empty(), "{unusable:?}");
        let decoded = decoder.decode(&RawRecord { timestamp: 1, bytes: &[0; 48] });
        let DecodedRecord::Event(_, event) = decoded else { panic!("{decoded:?}") };
        let mut bench = TrackerBench::new();
        assert!(bench.tracker.dispatch(&mut bench.context, &event).is_some(), "{}", spec.name);
        count += 1;
    }
    assert!(count > 40, "only {count} events");
}

/// Any event, in any order and with times that jump.
fn any_event() -> impl Strategy<Value = TraceEvent> {
    let vector = prop::sample::select(vec![
        X86Vector::LocalTimer,
        X86Vector::Reschedule,
        X86Vector::CallOne,
        X86Vector::CallMany,
        X86Vector::IrqWork,
    ]);
    let values = (0..20u64, vector, 0..4i32, any::<bool>()).prop_map(|(n, vector, pid, blocks)| {
        let comm = ShortName::new(if n % 2 == 0 { b"kworker/1:1" } else { b"sh" });
        let name = comm;
        let left = match pid {
            _ if blocks => TaskLeft::Blocks,
            0 | 1 => TaskLeft::Preempted,
            _ => TaskLeft::Overtaken,
        };
        match n {
            0..4 => (EventKind::Vector(vector), EventValues::Nothing),
            4..7 => (EventKind::VectorEnd(vector), EventValues::Nothing),
            7 => (EventKind::Irq, EventValues::Irq { number: 1, name }),
            8 => (EventKind::IrqEnd, EventValues::Nothing),
            9 => (EventKind::Softirq, EventValues::Number(1)),
            10 => (EventKind::SoftirqEnd, EventValues::Nothing),
            11 => (EventKind::Hrtimer, EventValues::Number(10)),
            12 => (EventKind::Work, EventValues::Number(11)),
            13 => (EventKind::Nmi, EventValues::Nmi { handler: 12, took_ns: 3, handled: blocks }),
            14 if blocks => (EventKind::PageFault, EventValues::Number(6)),
            14 => (EventKind::Signal, EventValues::Signal { number: 11, code: 1 - pid }),
            15 => (EventKind::Syscall, EventValues::Number(1)),
            16 => (EventKind::SyscallEnd, EventValues::Nothing),
            17 => (EventKind::UserExit, EventValues::Nothing),
            18 => (EventKind::UserEnter, EventValues::Nothing),
            _ => (EventKind::Switch, EventValues::Switch { left, pid, comm }),
        }
    });
    (0..9u64, 0..4i32, any::<bool>(), values).prop_map(|(at, pid, resched, (kind, values))| {
        TraceEvent { at, pid, resched, kind, values }
    })
}

proptest! {
    /// Interruptions are the sum of the rows, and no more time is attributed than passed.
    #[test]
    fn sums_agree_for_any_events(
        events in prop::collection::vec(any_event(), 0..200),
        cut in 0usize..200,
    ) {
        let mut bench = TrackerBench::new();
        bench.context.workload = [1, 2].into_iter().collect();
        let (mut now, mut given, mut stretch) = (0, 0, 0);
        let add = |seen: &PhaseStats, given: &mut u64, stretch: &mut u64| {
            let (symbols, tasks) = (KernelSymbols::default(), HashMap::new());
            let names = CulpritNames { symbols: &symbols, tasks: &tasks, stacks: None };
            let rows = seen.rows.interruptions(&names, &SCALE);
            assert_eq!(seen.interruptions, rows.iter().map(|row| row.count).sum::<u64>());
            *given += rows.iter().filter_map(|row| row.time_ns).sum::<u64>();
            *stretch = seen.longest.unwrap_or(0).max(*stretch);
        };
        for (i, event) in events.iter().enumerate() {
            now += event.at;
            let event = TraceEvent { at: now, ..*event };
            bench.tracker.handle_event(&mut bench.context, &event);
            if i == cut {
                add(&bench.tracker.end_phase(now), &mut given, &mut stretch);
            }
        }
        add(&bench.tracker.end_phase(now), &mut given, &mut stretch);
        prop_assert!(given <= now, "{given} of {now}");
        prop_assert!(stretch <= now);
        prop_assert!(bench.tracker.frames.len() <= FRAMES_MAX);
    }
}
