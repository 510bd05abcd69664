//! The trace witness as a whole: from binary pages, live or recorded, to interruptions by culprit.

use crate::not_run::not_run;
use crate::trace_dat::TraceDat;
use cpushield::causes::Cause;
use cpushield::trace::replay::{PageReplay, RecordedTrace};
use cpushield::trace::{RecordRequest, TraceEvidence, TraceRecorder};
use cpushield_linux::sys::clock::{ClockTicks, TickScale};
use cpushield_linux::text::kallsyms::KernelSymbols;
use cpushield_linux::text::trace_format::EventFormat;
use cpushield_linux::trace::ring_buffer::{self, PageLayout};
use cpushield_linux::{CpuSet, Host, sys::sched};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};
use std::{env, fs};

/// System calls that the thread makes.
const CALLS: u64 = 1000;

/// A busy machine may take the CPU away during a task switch that the trace saw only half of. That
/// is a doubt, so the test tries again.
#[test]
fn a_live_trace_counts_the_workloads_system_calls_one_by_one() {
    let _turn = crate::alone();
    let mut doubts = Vec::new();
    for _ in 0..5 {
        let Some(seen) = traced_calls() else { return };
        if !seen.doubts.is_empty() {
            doubts.push(seen.doubts);
            continue;
        }
        assert_eq!((seen.lost, seen.skipped_bytes), (0, 0));
        let calls = seen.interruptions.iter().filter(|row| row.culprit.to_string() == SCHED_YIELD);
        assert_eq!(calls.map(|row| row.count + row.nested).sum::<u64>(), CALLS, "{seen:#?}");
        let unnamed = seen.interruptions.iter().any(|row| row.cause == Cause::Unattributed);
        return assert!(!unnamed, "{seen:#?}");
    }
    panic!("each of 5 traces is doubtful: {doubts:?}");
}

/// Runs a thread on a CPU of this machine that makes system calls. `None` without a trace.
fn traced_calls() -> Option<TraceEvidence> {
    let host = Host::live();
    let cpu = sched::affinity(0).unwrap().last().unwrap();
    let cpus = CpuSet::single(cpu);
    let order = RecordRequest { cpus, syscalls: true, ..RecordRequest::default() };
    let mut recorder = match TraceRecorder::arm(&host, &order) {
        Ok(recorder) => recorder,
        Err(absent) => {
            not_run(&format!("no trace here: {absent}"));
            return None;
        }
    };
    let step = AtomicU32::new(0);
    let wait_for = |wanted| while step.load(SeqCst) != wanted {};
    let evidence = std::thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let (wait_for, step) = (&wait_for, &step);
        scope.spawn(move || {
            sched::set_affinity(0, &CpuSet::single(cpu)).unwrap();
            sender.send(gettid()).unwrap();
            wait_for(1);
            for _ in 0..CALLS {
                std::thread::yield_now();
            }
            step.store(2, SeqCst);
            wait_for(3);
        });
        recorder.set_workload(&[receiver.recv().unwrap()]);
        recorder.start().unwrap();
        step.store(1, SeqCst);
        while step.load(SeqCst) != 2 {
            recorder.poll().unwrap();
            std::thread::sleep(Duration::from_millis(20));
        }
        let evidence = recorder.end_phase().unwrap();
        step.store(3, SeqCst);
        evidence
    });
    recorder.close().unwrap();
    let seen = evidence.into_iter().next().unwrap();
    assert_eq!(seen.cpu, cpu);
    Some(seen)
}

/// The number of the calling thread.
fn gettid() -> i32 {
    let link = fs::read_link("/proc/thread-self").unwrap();
    link.file_name().unwrap().to_str().unwrap().parse().unwrap()
}

/// Its name in the trace: other architectures have no names yet, and other numbers.
const SCHED_YIELD: &str =
    if cfg!(target_arch = "x86_64") { "sched_yield" } else { "system call 124" };

/// Not a test of speed (no time is asserted) but the figure for it: give a trace.dat in
/// `CPUSHIELD_TRACE` and run this one with `--release -- --ignored --nocapture`; `vm/bench/decode`
/// does this, and compares other programs.
#[test]
#[ignore = "prints how fast a given trace is decoded"]
fn speed_of_decoding() {
    let path = env::var("CPUSHIELD_TRACE").expect("CPUSHIELD_TRACE names a trace.dat");
    let (trace, ..) = TraceDat::read(&fs::read(path).unwrap());
    let symbols = KernelSymbols::parse(&trace.kallsyms);
    let count = |pages: &Vec<u8>| -> usize {
        let pages = pages.chunks(trace.layout.page_size());
        pages.map(|page| ring_buffer::decode(&trace.layout, page).records().count()).sum()
    };
    let events: usize = trace.pages.iter().map(count).sum();
    for round in 0..3 {
        let mut rows = 0;
        let begun = Instant::now();
        for (cpu, pages) in trace.pages.iter().enumerate() {
            let mut replay = PageReplay::new(RecordedTrace {
                cpu,
                layout: trace.layout,
                formats: &trace.events,
                symbols: symbols.clone(),
                scale: TickScale { ns_per_tick: 1.0, error_ppm: 0.0 },
                workload: &[],
            });
            for page in pages.chunks(trace.layout.page_size()) {
                replay.page(page);
            }
            let evidence = replay.end_phase(ClockTicks(0));
            rows += evidence.interruptions.len();
        }
        let took = begun.elapsed().as_secs_f64();
        println!(
            "round {round}: {events} events, {rows} rows, {:.0} events/s",
            events as f64 / took
        );
    }
}

/// The benchmark's judge (text of a trace) and the decoder (its raw pages) must agree: give the
/// directory of a run in `CPUSHIELD_RUN` (`pages`, `header_page`, `events/`, `kallsyms`, `meta`).
#[test]
#[ignore = "prints what is counted in the pages of a given run"]
fn counts_of_a_run() {
    let dir = env::var("CPUSHIELD_RUN").expect("CPUSHIELD_RUN names a directory");
    let text = |name: &str| fs::read_to_string(format!("{dir}/{name}")).unwrap();
    let meta = text("meta");
    let value = |key: &str| -> &str {
        meta.split_whitespace().find_map(|word| word.strip_prefix(key)).unwrap()
    };
    let mut formats = Vec::new();
    for system in fs::read_dir(format!("{dir}/events")).unwrap() {
        let system = system.unwrap().file_name().into_string().unwrap();
        for name in fs::read_dir(format!("{dir}/events/{system}")).unwrap() {
            let name = name.unwrap().file_name().into_string().unwrap();
            let format = text(&format!("events/{system}/{name}/format"));
            formats.push((system.clone(), name, EventFormat::parse(&format).unwrap()));
        }
    }
    let mhz: f64 = value("mhz=").parse().unwrap();
    let (begin, end) = (value("tsc0=").parse().unwrap(), value("tsc1=").parse().unwrap());
    let layout = PageLayout::parse(&text("header_page")).unwrap();
    let mut replay = PageReplay::new(RecordedTrace {
        cpu: value("cpu=").parse().unwrap(),
        layout,
        formats: &formats,
        symbols: KernelSymbols::parse(&text("kallsyms")),
        scale: TickScale { ns_per_tick: 1000.0 / mhz, error_ppm: 0.0 },
        workload: &[value("busy=").parse().unwrap()],
    });
    let mut before = None;
    for page in fs::read(format!("{dir}/pages")).unwrap().chunks(layout.page_size()) {
        match before {
            None => before = replay.page_until(page, ClockTicks(begin)),
            Some(_) => replay.page(page),
        }
    }
    println!("{}", serde_json::to_string_pretty(&replay.end_phase(ClockTicks(end))).unwrap());
}

/// `sched_switch` of 6.12, as far as it is needed.
const SWITCH: &str = "name: sched_switch\nID: 309\nformat:\n\
    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
    \tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n\
    \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
    \tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n\
    \tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n\
    \tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n";

/// A page full of switches between the workload (100) and tasks that always differ.
fn page_of_switches(n: u64) -> Vec<u8> {
    const RECORDS: u64 = 60;
    let mut page = (n * RECORDS * 1000).to_le_bytes().to_vec();
    page.extend((RECORDS * 68).to_le_bytes());
    for record in 0..RECORDS {
        let other = i32::try_from(1000 + (n * RECORDS + record) / 2 % 60_000).unwrap();
        let (from, to) = if record % 2 == 0 { (100, other) } else { (other, 100) };
        // 64 bytes, and 1000 ticks after the one before.
        page.extend(((1000_u32 << 5) | 16).to_le_bytes());
        let mut bytes = [0; 64];
        bytes[..2].copy_from_slice(&309_u16.to_le_bytes());
        bytes[4..8].copy_from_slice(&i32::to_le_bytes(from));
        bytes[40..44].copy_from_slice(b"some");
        bytes[56..60].copy_from_slice(&i32::to_le_bytes(to));
        page.extend(bytes);
    }
    page.resize(4096, 0);
    page
}

/// Part of the next test, in a separate process: decodes `CPUSHIELD_PAGES` pages.
#[test]
#[ignore = "the next test starts it"]
fn memory_of_decoding() {
    let pages: u64 = env::var("CPUSHIELD_PAGES").unwrap().parse().unwrap();
    let form = EventFormat::parse(SWITCH).unwrap();
    let mut replay = PageReplay::new(RecordedTrace {
        cpu: 3,
        layout: PageLayout::COMMON,
        formats: &[("sched".to_owned(), "sched_switch".to_owned(), form)],
        symbols: KernelSymbols::default(),
        scale: TickScale { ns_per_tick: 1.0, error_ppm: 0.0 },
        workload: &[100],
    });
    for n in 0..pages {
        replay.page(&page_of_switches(n));
    }
    let seen = replay.end_phase(ClockTicks(pages * 60_000));
    assert_eq!(
        (seen.switches, seen.interruption_count, seen.skipped_bytes),
        (pages * 60, pages * 30, 0)
    );
    let status = fs::read_to_string("/proc/self/status").unwrap();
    println!("{}", status.lines().find(|line| line.starts_with("VmHWM:")).unwrap());
}

#[test]
fn ten_times_as_many_events_take_no_more_memory() {
    let most_kib = |pages: u64| -> u64 {
        let mut child = std::process::Command::new(env::current_exe().unwrap());
        child.args(["--ignored", "--exact", "--nocapture", "trace::memory_of_decoding"]);
        let output = child.env("CPUSHIELD_PAGES", pages.to_string()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let found = text.lines().find_map(|line| line.split("VmHWM:").nth(1));
        let found = found.unwrap_or_else(|| panic!("{text}{:?}", output.stderr));
        found.split_whitespace().next().unwrap().parse().unwrap()
    };
    // Each task of the first is new; they are more than the rows that are kept.
    let (few, many) = (most_kib(2_000), most_kib(20_000));
    assert!(many <= few + 2048, "{few} KiB for 120 000 events, {many} KiB for 1 200 000");
}
