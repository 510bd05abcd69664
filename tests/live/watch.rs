//! `cpushield watch` on the machine that runs the tests: what it prints, where it runs, and that it
//! gives the terminal back.

use cpushield::live::{CpuRole, LiveFrame};
use cpushield_linux::{CpuSet, Host, ProcessHandle, processes::process, sys::sched};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::not_run::not_run;

/// A CPU to take for shielded, when there is another.
fn cpu() -> Option<usize> {
    let allowed = sched::affinity(0).unwrap();
    if allowed.len() < 2 {
        not_run("one CPU is too few to watch from another");
        return None;
    }
    allowed.last()
}

fn watch(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cpushield"));
    command.arg("watch").args(words).args(["--state", "/nonexistent/cpushield"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Its exit code, when it ends within ten seconds.
fn ends(child: &mut Child) -> Option<i32> {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(10) {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

#[test]
fn every_interval_is_a_line_and_watch_never_runs_on_a_shielded_cpu() {
    let _turn = crate::alone();
    let Some(cpu) = cpu() else { return };
    let list = cpu.to_string();
    let args = ["--json", "--interval", "100ms", "--cpus", &list];
    let mut child = watch(&args).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let frames: Vec<LiveFrame> =
        (0..3).map(|_| serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap()).collect();
    let pid = i32::try_from(child.id()).unwrap();
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    for thread in threads {
        let tid: i32 = thread.unwrap().file_name().to_str().unwrap().parse().unwrap();
        let may = Host::live().affinity(tid).unwrap();
        assert!(!may.contains(cpu), "thread {tid} may run on {may}");
        assert_eq!(frames[2].from.as_ref(), Some(&may));
    }
    assert!(frames.windows(2).all(|pair| pair[0].at_ms < pair[1].at_ms));
    for frame in &frames {
        assert!(frame.interval_ms >= 100, "{}", frame.interval_ms);
        let shielded: CpuSet =
            frame.cpus.iter().filter(|l| l.role == CpuRole::Shielded).map(|l| l.cpu).collect();
        assert_eq!(shielded, CpuSet::single(cpu));
        let online = Host::live().read_line("/sys/devices/system/cpu/online").unwrap();
        let all: CpuSet = frame.cpus.iter().map(|line| line.cpu).collect();
        assert_eq!(all, online.parse().unwrap());
        assert!(frame.cpus.iter().all(|line| line.entries_per_s.is_some()), "{frame:?}");
    }
    // The reader has seen enough.
    drop(lines);
    assert_eq!(ends(&mut child), Some(0));
}

#[test]
fn the_program_may_open_as_many_files_as_the_hard_limit_allows() {
    let _turn = crate::alone();
    let line = "ulimit -Sn 100; exec \"$0\" watch --json --state /nonexistent/cpushield";
    let mut child = Command::new("sh")
        .args(["-c", line, env!("CARGO_BIN_EXE_cpushield")])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", child.id())).unwrap();
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let [soft, hard, _] = files.split_whitespace().collect::<Vec<_>>()[..] else { panic!() };
    assert_eq!(soft, hard);
    drop(lines);
    assert_eq!(ends(&mut child), Some(0));
}

#[test]
fn in_a_pipe_it_prints_one_frame() {
    let _turn = crate::alone();
    let output = watch(&["--interval", "100ms"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains(" CPUs, ") && lines[1].contains("entries/s"), "{text}");
    assert!(!text.contains('\x1b'), "escapes in a pipe: {text:?}");
    let online: CpuSet =
        Host::live().read_line("/sys/devices/system/cpu/online").unwrap().parse().unwrap();
    for cpu in online.iter() {
        // After two characters.
        let number = |line: &str| -> String { line.chars().skip(2).take(5).collect() };
        let named = |line: &&str| number(line).trim() == cpu.to_string();
        assert!(lines[2..].iter().any(named), "CPU {cpu} is missing: {text}");
    }
}

/// `cpushield watch` in a separate terminal, which `script` makes and shows here.
struct Terminal {
    script: Child,
    keys: ChildStdin,
    out: ChildStdout,
    seen: Vec<u8>,
}

impl Terminal {
    /// Waits until the first frame is drawn; `None` where `script` is missing. `before`: what the
    /// shell does before it becomes the program.
    fn start(before: &str) -> Option<Terminal> {
        if Command::new("script").arg("--version").output().is_err() {
            not_run("no script(1) to make a terminal");
            return None;
        }
        let program = env!("CARGO_BIN_EXE_cpushield");
        // The modes of the terminal before and after, and the number of the process.
        let line = format!(
            "stty rows 24 cols 80; stty -a; sh -c '{before} echo pid=$$.; exec {program} watch \
             --interval 100ms --state /nonexistent/cpushield'; echo code=$?; stty -a"
        );
        let mut script = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let keys = script.stdin.take().unwrap();
        let out = script.stdout.take().unwrap();
        let mut terminal = Terminal { script, keys, out, seen: Vec::new() };
        terminal.read_until("entries/s");
        Some(terminal)
    }

    fn read_until(&mut self, text: &str) {
        let mut buffer = [0; 4096];
        while !self.text().contains(text) {
            let n = self.out.read(&mut buffer).unwrap();
            assert!(n > 0, "{}", self.text());
            self.seen.extend_from_slice(&buffer[..n]);
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.seen).into_owned()
    }

    fn pid(&self) -> i32 {
        let text = self.text();
        let (_, rest) = text.split_once("pid=").unwrap();
        rest.split('.').next().unwrap().parse().unwrap()
    }
}

/// The process must end within ten seconds; it is not left behind in any case.
fn ends_by_itself(pid: i32) {
    // Without a process of this number, it has ended already.
    let ended = ProcessHandle::open(pid)
        .map_or(true, |watch| watch.wait_for_end(Duration::from_secs(10)).unwrap());
    if !ended {
        process::kill(pid, 9).unwrap();
    }
    assert!(ended, "the watch goes on");
}

/// How a watch is ended, and what is typed before.
enum End {
    Key(&'static str),
    Signal { typed: &'static str },
}

#[test]
fn the_terminal_is_restored_after_a_key_and_after_a_signal() {
    let _turn = crate::alone();
    // The terminal sends the first bytes of a key that has more of them, and then nothing.
    let half_a_key = End::Signal { typed: "\x1b[" };
    for end in [End::Key("q"), End::Key("\x03"), End::Signal { typed: "" }, half_a_key] {
        let Some(mut terminal) = Terminal::start("") else { return };
        match end {
            End::Key(key) => terminal.keys.write_all(key.as_bytes()).unwrap(),
            End::Signal { typed } => {
                terminal.keys.write_all(typed.as_bytes()).unwrap();
                std::thread::sleep(Duration::from_millis(300));
                process::kill(terminal.pid(), 15).unwrap();
            }
        }
        ends_by_itself(terminal.pid());
        terminal.out.read_to_end(&mut terminal.seen).unwrap();
        assert_eq!(ends(&mut terminal.script), Some(0));
        let text = terminal.text();
        let (on, off) = (text.find("\x1b[?1049h").unwrap(), text.rfind("\x1b[?1049l").unwrap());
        assert!(on < off, "{text:?}");
        assert!(text.contains("code=0"), "{text:?}");
        // Line by line: the same modes.
        let modes: Vec<&str> =
            text.lines().map(str::trim_end).filter(|line| line.contains("icanon")).collect();
        assert_eq!(modes.len(), 2, "{text:?}");
        assert_eq!(modes[0], modes[1]);
    }
}

#[test]
fn a_watch_ends_when_its_terminal_closes() {
    let _turn = crate::alone();
    // With and without the signal that the kernel sends then: nohup(1) ignores it.
    for before in ["", "trap \"\" HUP;"] {
        let Some(mut terminal) = Terminal::start(before) else { return };
        let pid = terminal.pid();
        // The master side closes with its only owner.
        terminal.script.kill().unwrap();
        terminal.script.wait().unwrap();
        ends_by_itself(pid);
    }
}
