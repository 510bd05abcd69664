//! The program and its state directory: its contents, processes that write there, and what each
//! command says about it. The machine is not changed.

use cpushield_linux::{EventLog, Host, Store, UserFiles};
use cpushield_simulator::{InjectedFault, Simulated};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A state directory of one test, removed at its end.
struct StateDir(PathBuf);

impl StateDir {
    fn new(name: &str) -> StateDir {
        let dir = std::env::temp_dir().join(format!("cpushield-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        StateDir(dir)
    }
}

impl Drop for StateDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The result of a command.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

/// Runs the program with this state directory; it must end within twenty seconds.
fn run(state: &Path, words: &[&str]) -> Ended {
    let mut child = Command::new(env!("CARGO_BIN_EXE_cpushield"))
        .arg("--state")
        .arg(state)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let began = Instant::now();
    // No output here fills a pipe.
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > Duration::from_secs(20) {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{words:?} does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ended { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

#[test]
fn a_fifo_in_place_of_the_journal_is_reported_and_blocks_nothing() {
    let state = StateDir::new("state-fifo");
    for (file, commands) in [
        ("journal.jsonl", &["undo", "run true", "remove 1"][..]),
        ("boot.json", &["boot status", "boot undo"]),
    ] {
        let path = state.0.join(file);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        for command in commands {
            let words: Vec<&str> = command.split(' ').collect();
            let ended = run(&state.0, &words);
            // A failure before the start is not an exit code of the program.
            let code = if command.starts_with("run ") { 125 } else { 3 };
            assert_eq!(ended.code, Some(code), "{command}: {ended:?}");
            let expected = format!("cannot read {}\n  cause: it is a FIFO", path.display());
            assert!(ended.err.contains(&expected), "{command}: {ended:?}");
            assert!(ended.err.contains("inspect it, then move it away"), "{command}: {ended:?}");
            assert_eq!(ended.out, "", "{command}");
        }
        if file == "journal.jsonl" {
            let expected = format!("{}: it is a FIFO, not a regular file", path.display());
            let status = run(&state.0, &["status"]);
            assert_eq!(status.code, Some(1), "{status:?}");
            assert!(status.out.contains(&expected), "{status:?}");
            let watch = run(&state.0, &["watch", "--once"]);
            assert_eq!(watch.code, Some(0), "{watch:?}");
            assert!(watch.err.contains("it is a FIFO, not a regular file"), "{watch:?}");
        }
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn the_processes_that_measure_and_make_load_write_to_the_same_log() {
    let state = StateDir::new("state-worker-log");
    let log = state.0.join("log").display().to_string();
    let words =
        ["--log", &log, "latency", "timer", "--cpus", "0", "--for", "1s", "--load", "messages"];
    let ended = run(&state.0, &words);
    let text = std::fs::read_to_string(&log).unwrap();
    for worker in ["__measure", "__work"] {
        let started = text.lines().find(|line| line.contains(&format!(" call cpushield {worker}")));
        let started = started.unwrap_or_else(|| panic!("{worker}: {ended:?}\n{text}"));
        let pid = started.split(' ').nth(1).unwrap();
        // The line of the worker's own start has another process number.
        let own = text.lines().find(|line| line.contains(" start ") && line.contains(worker));
        assert_ne!(own.and_then(|line| line.split(' ').nth(1)), Some(pid), "{text}");
        assert!(own.is_some(), "{worker}: {text}");
    }
}

#[test]
fn the_log_has_a_line_for_each_access_and_goes_only_to_a_regular_file() {
    let state = StateDir::new("state-log");
    let log = state.0.join("log");
    let name = log.display().to_string();
    let ended = run(&state.0, &["--log", &name, "status"]);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    let text = std::fs::read_to_string(&log).unwrap();
    let journal = format!(" read {}: ENOENT", state.0.join("journal.jsonl").display());
    for part in [" start ", "--log", &journal, " read /sys/devices/system/cpu/isolated: ", " end "]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let whole = |line: &str| {
        let mut words = line.split(' ');
        let time = words.next().and_then(|time| time.parse::<f64>().ok());
        time.is_some() && words.next().is_some_and(|pid| pid.parse::<u32>().is_ok())
    };
    assert!(text.lines().all(whole), "{text}");
    // It is appended to, never overwritten.
    run(&state.0, &["--log", &name, "mask", "0"]);
    let more = std::fs::read_to_string(&log).unwrap();
    assert!(more.starts_with(&text) && more.len() > text.len(), "{more}");
    std::os::unix::fs::symlink(&log, state.0.join("link")).unwrap();
    for other in ["/dev/null", &state.0.join("link").display().to_string()] {
        let refused = run(&state.0, &["--log", other, "status"]);
        assert_eq!(refused.code, Some(3), "{refused:?}");
        assert!(refused.err.contains("not a regular file"), "{refused:?}");
    }
    assert_eq!(std::fs::read_to_string(&log).unwrap(), more);
}

/// The accesses in the log of a run: its lines without time and process.
fn accesses(log: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(log).unwrap();
    let _ = std::fs::remove_file(log);
    let events = text.lines().filter_map(|line| line.splitn(3, ' ').nth(2));
    events.map(str::to_owned).collect()
}

#[test]
fn the_log_has_reads_writes_and_commands_with_their_errno() {
    let state = StateDir::new("state-accesses");
    let (log, kernel) = (state.0.join("log"), state.0.join("machine"));
    std::fs::create_dir_all(kernel.join("sys/kernel")).unwrap();
    std::fs::write(kernel.join("sys/kernel/profiling"), "0\n").unwrap();
    let opened = || Some(EventLog::open(&log).unwrap());
    let host = Host::recorded(&kernel).unwrap().logging(opened()).simulated();
    host.read("/sys/kernel/profiling").unwrap();
    host.list_directories("/sys/none").unwrap_err();
    host.write("/sys/kernel/profiling", "1").unwrap();
    let full = InjectedFault::Refuse { at: 0, errno: 28 };
    let full = Host::recorded(&kernel).unwrap().logging(opened()).failing(full);
    full.write("/sys/kernel/profiling", "2").unwrap_err();
    let live = Host::live().logging(opened());
    live.query_program(&["true"], b"").unwrap();
    live.query_program(&["cpushield-none"], b"").unwrap_err();
    let _ = live.exec(&["/nowhere/program", "word"], &[]);
    assert_eq!(
        accesses(&log),
        [
            "read /sys/kernel/profiling: ok",
            "read /sys/none: ENOENT",
            "write /sys/kernel/profiling \"1\": ok",
            "write /sys/kernel/profiling: ENOSPC",
            "call true: ok",
            "call cpushield-none: ENOENT",
            "exec /nowhere/program word",
            "call /nowhere/program word: ENOENT",
        ]
    );
    let files = UserFiles::new(opened());
    let (file, absent) = (state.0.join("file"), state.0.join("none/file"));
    files.keep(&file, "text").unwrap();
    files.write(&absent, "text").unwrap_err();
    let (file, absent) = (file.display(), absent.display());
    assert_eq!(accesses(&log), [format!("write {file}: ok"), format!("write {absent}: ENOENT")]);
}

#[test]
fn the_log_has_the_files_that_the_user_names() {
    let state = StateDir::new("state-named");
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    let recording = repository.join("machines/6.12-rt-4/root").display().to_string();
    let file = |name: &str| state.0.join(name).display().to_string();
    let (log, policy, saved, page) =
        (file("log"), file("policy.toml"), file("plan.json"), file("report.html"));
    std::fs::write(&policy, "[shield.one]\ncpus = \"3\"\n").unwrap();
    let runs = [
        (
            vec!["plan", "--policy", &policy, "-o", &saved],
            vec![format!("read {policy}: ok"), format!("write {saved}: ok")],
        ),
        (vec!["apply", &saved, "--dry-run"], vec![format!("read {saved}: ok")]),
        (
            vec!["report", &saved, "-o", &page],
            vec![format!("read {saved}: ok"), format!("write {page}: ok")],
        ),
        (vec!["report", &saved, "-o", "/none/r.html"], vec!["write /none/r.html: ENOENT".into()]),
        (vec!["compare", &saved, "/none.json"], vec![format!("read {saved}: ok")]),
        (vec!["compare", "/none.json", &saved], vec!["read /none.json: ENOENT".into()]),
    ];
    for (words, expected) in runs {
        run(&state.0, &[&["--log", &log, "--root", &recording], &words[..]].concat());
        let found = accesses(Path::new(&log));
        let missing: Vec<&String> = expected.iter().filter(|it| !found.contains(it)).collect();
        assert_eq!(missing, [""; 0], "{words:?}: {found:#?}");
    }
}

/// The journal of a first apply is empty for a moment.
#[test]
fn while_another_process_applies_no_reader_takes_its_journal_for_damaged() {
    let state = StateDir::new("state-applying");
    let store = Store::new(&state.0);
    let lock = store.lock().unwrap();
    std::fs::write(state.0.join("journal.jsonl"), "").unwrap();
    let recording = Path::new(env!("CARGO_MANIFEST_DIR")).join("machines/6.12-rt-4/root");
    let root = recording.display().to_string();
    let under_way = format!("apply by process {} is under way", std::process::id());
    let plan = run(&state.0, &["--root", &root, "plan"]);
    assert_eq!(plan.code, Some(3), "{plan:?}");
    assert!(plan.err.contains(&under_way) && !plan.err.contains("--forget"), "{plan:?}");
    let survey = run(&state.0, &["--root", &root, "survey"]);
    assert!(survey.out.contains(&under_way), "{survey:?}");
    drop(lock);
    let plan = run(&state.0, &["--root", &root, "plan"]);
    assert!(plan.err.contains("--forget"), "{plan:?}");
}

#[test]
fn no_program_is_started_to_find_the_width_of_the_output() {
    let dir = StateDir::new("state-width");
    let (program, mark) = (dir.0.join("tput"), dir.0.join("started"));
    std::fs::write(&program, format!("#!/bin/sh\n: > {}\necho 80\n", mark.display())).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_cpushield"));
    let output = command.args(["mask", "0x3"]).env("PATH", &dir.0).output().unwrap();
    assert!(output.status.success() && !mark.exists(), "{output:?}");
}
