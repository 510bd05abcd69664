//! External traces: the decoded raw pages must match the output of `trace-cmd report`.

use cpushield_linux::text::kallsyms::KernelSymbols;
use cpushield_linux::trace::ring_buffer::{self, LostRecords};
use shared_data::shared_data;
use std::fs;
use std::path::PathBuf;
use trace_dat::TraceDat;

#[path = "../../../tests/support/not_run.rs"]
mod not_run;
#[path = "../../../tests/support/shared_data.rs"]
mod shared_data;
#[path = "support/trace_dat.rs"]
mod trace_dat;

/// The directory of the traces, which are not part of the project.
fn traces() -> Option<PathBuf> {
    shared_data("traces/trace.dat")
}

/// The time, event and task of every record of a CPU.
fn records(trace: &TraceDat, cpu: usize) -> Vec<(u64, &str, i64)> {
    let mut list = Vec::new();
    for page in trace.pages[cpu].chunks(trace.layout.page_size()) {
        let page = ring_buffer::decode(&trace.layout, page);
        assert_eq!(page.lost, LostRecords::Nothing);
        let mut records = page.records();
        for record in records.by_ref() {
            let id = u16::from_le_bytes([record.bytes[0], record.bytes[1]]);
            let (_, name, format) = trace.events.iter().find(|event| event.2.id == id).unwrap();
            let pid = format.field("common_pid").unwrap().signed(record.bytes).unwrap();
            list.push((record.timestamp, name.as_str(), pid));
        }
        assert_eq!(records.skipped(), 0);
    }
    list
}

/// Parses `comm-pid [cpu] seconds.micros: event: …` of `trace-cmd report` into CPU, microseconds,
/// event and task.
fn parse_report_line(line: &str) -> Option<(usize, u64, &str, i64)> {
    let (task, rest) = line.split_once('[')?;
    let (cpu, rest) = rest.split_once(']')?;
    let mut words = rest.split_whitespace();
    let (seconds, micros) = words.next()?.trim_end_matches(':').split_once('.')?;
    let time = seconds.parse::<u64>().ok()? * 1_000_000 + micros.parse::<u64>().ok()?;
    let event = words.next()?.trim_end_matches(':');
    let pid = task.trim_end().rsplit_once('-')?.1.parse().ok()?;
    Some((cpu.parse().ok()?, time, event, pid))
}

#[test]
fn raw_pages_match_the_report_of_trace_cmd() {
    let Some(traces) = traces() else { return };
    for (name, count) in [("lisa_sched_load_arm64", 3724), ("trappy_idle_arm64", 43)] {
        let file = fs::read(traces.join(name).join("trace.dat")).unwrap();
        let report = traces.join(name).join("trace-cmd-3.1.6-report-raw.txt");
        let report = fs::read_to_string(report).unwrap();
        let (trace, ..) = TraceDat::read(&file);
        let symbols = KernelSymbols::parse(&trace.kallsyms);
        assert!(!symbols.is_empty(), "{name}");
        let mut seen = 0;
        for cpu in 0..trace.pages.len() {
            let decoded = records(&trace, cpu);
            let reported: Vec<_> =
                report.lines().filter_map(parse_report_line).filter(|line| line.0 == cpu).collect();
            assert_eq!(decoded.len(), reported.len(), "{name}, CPU {cpu}");
            for ((ns, event, pid), reported) in decoded.iter().zip(reported) {
                // trace-cmd rounds to microseconds.
                assert_eq!((cpu, (ns + 500) / 1000, *event, *pid), reported, "{name}");
            }
            seen += decoded.len();
        }
        assert_eq!(seen, count, "{name}");
    }
}
