//! Exported files are read by the programs that they are for.

use crate::not_run::not_run;
use crate::python;
use crate::shared_data::shared_data;
use crate::trace_dat::TraceDat;
use cpushield::causes::{Cause, Culprit};
use cpushield::documents::evidence::{Evidence, WitnessKind};
use cpushield::export::perfetto::{self, ExportContext};
use cpushield::export::trace_dat;
use cpushield::trace::recording::TraceRecording;
use cpushield::trace::replay::{PageReplay, RecordedTrace};
use cpushield::trace::timeline::{TimelineKind, story};
use cpushield::trace::{RecordRequest, TraceRecorder};
use cpushield_linux::shared_memory::sampler::Gap;
use cpushield_linux::sys::clock::{ClockTicks, TickScale};
use cpushield_linux::text::kallsyms::KernelSymbols;
use cpushield_linux::trace::page_buffer::PageBuffer;
use cpushield_linux::trace::tracefs::TraceTexts;
use cpushield_linux::{CpuSet, Host, sys::sched};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, fs};

/// The directory of foreign traces; they are not part of the project.
fn traces() -> Option<PathBuf> {
    shared_data("traces/trace.dat")
}

fn trace_cmd() -> bool {
    let there = Command::new("trace-cmd").arg("-h").output().is_ok();
    if !there {
        not_run("trace-cmd is not installed (scripts/need rust tests)");
    }
    there
}

/// A Python with Perfetto's definitions.
fn python() -> Option<PathBuf> {
    python::with("perfetto.protos.perfetto.trace.perfetto_trace_pb2", "perfetto")
}

/// A track as Perfetto's definitions read it; see the script.
#[derive(Debug, serde::Deserialize)]
struct Track {
    name: String,
    slices: Vec<Slice>,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
struct Slice {
    begin: u64,
    end: u64,
    depth: usize,
    name: String,
    args: BTreeMap<String, serde_json::Value>,
}

fn tracks(python: &Path, file: &Path) -> Vec<Track> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/read_perfetto.py");
    let output = Command::new(python).arg(script).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The output of `trace-cmd report`, line by line.
fn report(file: &Path, words: &[&str]) -> Vec<String> {
    let output = Command::new("trace-cmd").args(["report", "-i"]).arg(file).args(words).output();
    let output = output.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{errors}");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// How many entries of each event KernelShark has when it opens a file.
fn kernelshark(file: &Path) -> Option<BTreeMap<String, u64>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/read_kshark.py");
    let output = Command::new("python3").arg(script).arg(file).output().ok()?;
    if output.status.code() == Some(3) {
        not_run("no library of KernelShark (libkshark2; scripts/need rust tests)");
        return None;
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let by_event: BTreeMap<String, u64> = serde_json::from_slice(&output.stdout).unwrap();
    let name = |event: String| event.rsplit_once('/').map_or("", |(_, name)| name).to_owned();
    Some(by_event.into_iter().map(|(event, n)| (name(event), n)).collect())
}

/// A separate file for each test.
fn scratch(name: &str) -> PathBuf {
    env::temp_dir().join(format!("cpushield-export-{}-{name}", std::process::id()))
}

fn write(path: &Path, mut recording: TraceRecording) {
    let mut file = fs::File::create(path).unwrap();
    trace_dat::write(&mut recording, &mut file).unwrap();
}

/// A foreign trace as a recording; every CPU has a track.
fn recording(
    (trace, texts, events): (TraceDat, TraceTexts, Vec<(String, String)>),
) -> TraceRecording {
    assert_eq!(trace.events.len(), events.len() + texts.ftrace.len());
    let mut spool = PageBuffer::spilling_next_to(Path::new("x"));
    for (cpu, pages) in trace.pages.iter().enumerate() {
        for page in pages.chunks(trace.layout.page_size()) {
            spool.add(cpu, page, trace.layout.page_size());
        }
    }
    TraceRecording {
        layout: trace.layout,
        texts,
        events,
        kallsyms: trace.kallsyms,
        clock: "local",
        scale: TickScale { ns_per_tick: 1.0, error_ppm: 0.0 },
        kernel: String::new(),
        cpus: (0..trace.pages.len()).map(|cpu| (cpu, String::new())).collect(),
        phases: Vec::new(),
        workload: Vec::new(),
        tasks: HashMap::new(),
        gaps: Vec::new(),
        stacks: true,
        spool,
    }
}

#[test]
fn trace_cmd_reads_an_exported_file_like_its_own() {
    let Some(traces) = traces() else { return };
    if !trace_cmd() {
        return;
    }
    for name in ["lisa_sched_load_arm64", "trappy_idle_arm64"] {
        let theirs = traces.join(name).join("trace.dat");
        let ours = scratch(name);
        write(&ours, recording(TraceDat::read(&fs::read(&theirs).unwrap())));
        let (ours, theirs) = (report(&ours, &[]), report(&theirs, &[]));
        assert!(theirs.len() > 40, "{name}");
        assert_eq!(ours, theirs, "{name}");
        fs::remove_file(scratch(name)).unwrap();
    }
}

#[test]
fn trace_cmd_reports_events_that_the_kernel_lost() {
    let Some(traces) = traces() else { return };
    if !trace_cmd() {
        return;
    }
    let file = fs::read(traces.join("lisa_sched_load_arm64/trace.dat")).unwrap();
    let (mut trace, texts, events) = TraceDat::read(&file);
    let size = trace.layout.page_size();
    let length = |page: &[u8]| u32::from_le_bytes(*page[8..].first_chunk().unwrap()) as usize;
    let room = |page: &[u8]| 16 + length(page) + 8 <= size;
    let found = trace.pages.iter_mut().enumerate().find_map(|(cpu, pages)| {
        let page = pages.chunks_mut(size).skip(1).find(|page| room(page))?;
        Some((cpu, page))
    });
    // As the kernel does: two flags in the length, the number after the data.
    let (cpu, page) = found.expect("a page with room for the number");
    let (flags, behind) = (3 << 30, 16 + length(page));
    let length = u32::try_from(length(page)).unwrap();
    page[8..12].copy_from_slice(&(length | flags).to_le_bytes());
    page[behind..behind + 8].copy_from_slice(&77_u64.to_le_bytes());
    let ours = scratch("lost");
    write(&ours, recording((trace, texts, events)));
    let lines = report(&ours, &[]);
    let dropped: Vec<&String> = lines.iter().filter(|line| line.contains("DROPPED")).collect();
    assert_eq!(dropped, [&format!("CPU:{cpu} [77 EVENTS DROPPED]")]);
    fs::remove_file(ours).unwrap();
}

#[test]
fn a_timeline_has_each_counted_interruption_with_its_nested_parts() {
    let Some(traces) = traces() else { return };
    let file = fs::read(traces.join("lisa_sched_load_arm64/trace.dat")).unwrap();
    let (trace, texts, events) = TraceDat::read(&file);
    let (layout, formats, pages) = (trace.layout, trace.events.clone(), trace.pages.clone());
    let symbols = KernelSymbols::parse(&trace.kallsyms);
    let mut recording = recording((trace, texts, events));
    let mut total = 0;
    for (cpu, pages) in pages.iter().enumerate() {
        let mut replay = PageReplay::new(RecordedTrace {
            cpu,
            layout,
            formats: &formats,
            symbols: symbols.clone(),
            scale: TickScale { ns_per_tick: 1.0, error_ppm: 0.0 },
            workload: &[],
        });
        pages.chunks(layout.page_size()).for_each(|page| replay.page(page));
        // Everything ends at the last event, as in a timeline.
        let counted: BTreeMap<_, _> = replay
            .end_phase(ClockTicks(0))
            .interruptions
            .into_iter()
            .filter(|row| row.count > 0)
            .map(|row| ((row.cause, row.culprit), (row.count, row.max_ns)))
            .collect();
        let mut expected: BTreeMap<_, (u64, Option<u64>)> = BTreeMap::new();
        // The ends of the slices that are open around the next one.
        let mut around: Vec<u64> = Vec::new();
        let mut last = 0;
        story(&mut recording, cpu, &mut |piece| {
            assert!(piece.begun_ns >= last && piece.end_ns >= piece.begun_ns, "{piece:?}");
            last = piece.begun_ns;
            around.truncate(piece.depth);
            assert_eq!(around.len(), piece.depth, "a level is missing around {piece:?}");
            assert!(around.iter().all(|end| piece.end_ns <= *end), "{piece:?} sticks out");
            around.push(piece.end_ns);
            if let TimelineKind::Interruption(cause, culprit) = &piece.what {
                let row = expected.entry((*cause, culprit.clone())).or_default();
                row.0 += 1;
                row.1 = row.1.max(Some(piece.end_ns - piece.begun_ns));
            }
            total += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(expected, counted, "CPU {cpu}");
    }
    assert!(total > 400, "{total}");
}

/// `comm-pid [cpu] ticks: event: …` with raw time stamps.
fn event(line: &str) -> Option<(usize, u64, &str)> {
    let (_, rest) = line.split_once('[')?;
    let (cpu, rest) = rest.split_once(']')?;
    let mut words = rest.split_whitespace();
    let at = words.next()?.trim_end_matches(':').parse().ok()?;
    Some((cpu.parse().ok()?, at, words.next()?.trim_end_matches(':')))
}

#[test]
fn trace_cmd_and_the_evidence_agree_on_a_live_recording() {
    if !trace_cmd() {
        return;
    }
    let host = Host::live();
    let cpus: CpuSet = sched::affinity(0).unwrap().last().into_iter().collect();
    let mut recorder = match TraceRecorder::arm(
        &host,
        &RecordRequest { cpus: cpus.clone(), ..RecordRequest::default() },
    ) {
        Ok(recorder) => recorder,
        Err(absent) => return not_run(&format!("no trace here: {}", absent)),
    };
    let ours = scratch("live.dat");
    // So little memory that most pages go through files.
    recorder.keep_pages(PageBuffer::spilling_next_to(&ours).with_memory(20_000), None);
    recorder.start().unwrap();
    let mut evidence = Vec::new();
    for _ in 0..2 {
        std::thread::sleep(Duration::from_millis(150));
        recorder.poll().unwrap();
        std::thread::sleep(Duration::from_millis(150));
        evidence = recorder.end_phase().unwrap();
    }
    let recording = recorder.take_recording().unwrap();
    recorder.close().unwrap();
    // The second phase: from its beginning to its end.
    let (begun, end) = (recording.phases[1].0, recording.phases[2].0);
    let tsc = recording.clock == "x86-tsc";
    write(&ours, recording);
    let lines = report(&ours, if tsc { &["--raw-ts"] } else { &["-t"] });
    if let Some(opened) = kernelshark(&ours) {
        let mut expected: BTreeMap<String, u64> = BTreeMap::new();
        for (.., name) in lines.iter().filter_map(|line| event(line)) {
            *expected.entry(name.to_owned()).or_default() += 1;
        }
        assert_eq!(opened, expected, "KernelShark opens it and has what trace-cmd has");
    }
    let mut counted: BTreeMap<(usize, &str), u64> = BTreeMap::new();
    for (cpu, at, name) in lines.iter().filter_map(|line| event(line)) {
        *counted.entry((cpu, name)).or_default() += u64::from(at > begun && at <= end);
    }
    counted.retain(|_, count| *count > 0);
    let mut expected = BTreeMap::new();
    for cpu in &evidence {
        assert_eq!(cpu.lost, 0);
        expected.extend(cpu.events.iter().map(|(name, n)| ((cpu.cpu, name.as_str()), *n)));
    }
    assert!(!expected.is_empty(), "nothing happened in 300 ms");
    assert_eq!(counted, expected);
    assert!(!lines.iter().any(|line| line.contains("DROPPED")));
    let entries: Vec<String> =
        report(&ours, &["--stat"]).into_iter().filter(|line| line.starts_with("entries")).collect();
    assert_eq!(entries.len(), cpus.len(), "the kernel's figures of each buffer are in the file");
    fs::remove_file(ours).unwrap();
}

#[test]
fn perfetto_reads_every_slice_of_the_timeline_at_its_time() {
    let (Some(traces), Some(python)) = (traces(), python()) else { return };
    let file = fs::read(traces.join("lisa_sched_load_arm64/trace.dat")).unwrap();
    let mut recording = recording(TraceDat::read(&file));
    recording.phases = vec![(0, "warm-up"), (5, ""), (5, "watched"), (1 << 60, "over")];
    recording.gaps = vec![(1, Gap { start: 7, end: 9 }), (1, Gap { start: 9, end: 12 })];
    let path = scratch("perfetto");
    let remedy = |cause: Cause, culprit: &Culprit| {
        (cause == Cause::EndedTask).then(|| format!("keep {culprit} away"))
    };
    let words = ExportContext { workload: None, remedy: &remedy };
    perfetto::write(&mut recording, &words, &mut fs::File::create(&path).unwrap()).unwrap();
    let tracks = tracks(&python, &path);
    fs::remove_file(&path).unwrap();
    let of = |name: &str| -> &Track { tracks.iter().find(|track| track.name == name).unwrap() };
    let spans = |track: &Track| -> Vec<(String, u64, u64)> {
        track.slices.iter().map(|s| (s.name.clone(), s.begin, s.end)).collect()
    };
    assert_eq!(
        spans(of("phases of the watch")),
        [("warm-up".to_owned(), 0, 5), ("watched".to_owned(), 5, 1 << 60)]
    );
    let gap = || "gap".to_owned();
    assert_eq!(spans(of("CPU 1: gaps in user space")), [(gap(), 7, 9), (gap(), 9, 12)]);
    let mut removable = 0;
    let cpus: Vec<usize> = recording.cpus.iter().map(|(cpu, _)| *cpu).collect();
    for cpu in cpus {
        let mut expected = Vec::new();
        story(&mut recording, cpu, &mut |piece| {
            expected.push((piece.begun_ns, piece.end_ns, piece.depth));
            Ok(())
        })
        .unwrap();
        let track = of(&format!("CPU {cpu}: workload and interruptions"));
        let read: Vec<_> = track.slices.iter().map(|s| (s.begin, s.end, s.depth)).collect();
        assert_eq!(read, expected, "CPU {cpu}");
        let with = track.slices.iter().filter_map(|slice| slice.args.get("removed by"));
        removable += with.filter(|words| words.as_str().unwrap().starts_with("keep ")).count();
    }
    assert!(removable > 10, "{removable}");
}

#[test]
fn verify_writes_files_that_agree_with_its_evidence() {
    let Some(python) = python() else { return };
    let allowed = sched::affinity(0).unwrap();
    if allowed.len() < 2 || !trace_cmd() {
        return not_run("one CPU is too few to watch one from another, or no trace-cmd");
    }
    let (dat, picture) = (scratch("verify.dat"), scratch("verify.pftrace"));
    let output = Command::new(env!("CARGO_BIN_EXE_cpushield"))
        .args(["verify", "--for", "500ms", "--warmup", "100ms", "--json", "--cpus"])
        .arg(allowed.last().unwrap().to_string())
        .args(["--state", "/nonexistent/cpushield", "--trace-dat"])
        .arg(&dat)
        .arg("--perfetto")
        .arg(&picture)
        .output()
        .unwrap();
    if !dat.exists() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("not written, because there is no trace"), "{said}");
        return not_run("no trace here");
    }
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let evidence: Evidence = serde_json::from_value(shown["evidence"].clone()).unwrap();
    assert!(report(&dat, &[]).len() > 10);
    let tracks = tracks(&python, &picture);
    let phases = tracks.iter().find(|track| track.name == "phases of the watch").unwrap();
    let watched = phases.slices.iter().find(|slice| slice.name == "watched").unwrap();
    let cpu = tracks.iter().find(|track| track.name.ends_with("interruptions")).unwrap();
    let inside = |slice: &&Slice| slice.begin < watched.end && slice.end > watched.begin;
    let drawn = cpu.slices.iter().filter(inside).filter(|slice| slice.args.contains_key("culprit"));
    let rows = evidence.cpus[0].interruptions.iter();
    let counted: u64 =
        rows.filter(|row| row.witness == WitnessKind::Trace).map(|row| row.count).sum();
    // One may be cut in two by the beginning or the end.
    let drawn = drawn.count() as u64;
    assert!(drawn.abs_diff(counted) <= 2, "{drawn} drawn, {counted} counted");
    assert!(counted > 0);
    fs::remove_file(dat).unwrap();
    fs::remove_file(picture).unwrap();
}
