//! A program that forks twice and ends, like one that `verify -- CMD` starts: the process that it
//! leaves behind is ended and named. This process becomes the orphan's parent, so it runs no other
//! test.

use cpushield_linux::Host;
use cpushield_linux::processes::worker_process::ChildCommand;
use std::ffi::OsString;
use std::process::Command;
use std::time::{Duration, Instant};

/// What the started program does: this test, run in a separate process.
#[test]
#[ignore = "the other test starts it"]
fn forks_twice() {
    let spin = "trap '' TERM; while :; do sleep 0.05; done";
    let twice = format!("setsid sh -c \"{spin}\" >/dev/null 2>&1 & sleep 0 & exit 0");
    assert!(Command::new("sh").args(["-c", &twice]).status().unwrap().success());
}

#[test]
fn a_process_that_a_program_left_behind_is_ended_and_named() {
    let words = ["--ignored", "--exact", "forks_twice"].map(OsString::from);
    let mut command = ChildCommand::start(&Host::live(), &words).unwrap();
    let began = Instant::now();
    while command.ended().is_none() {
        assert!(began.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(10));
    }
    // The shell ignores SIGTERM a moment later.
    std::thread::sleep(Duration::from_millis(300));
    let left = command.end();
    assert_eq!(left.running, []);
    let names: Vec<&str> = left.ended.iter().map(|(_, name)| name.as_str()).collect();
    assert!(names.contains(&"sh"), "{left:?}");
    for (pid, _) in &left.ended {
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "{pid} is still there");
    }
    // No other process is ended.
    assert_eq!(command.end(), cpushield_linux::processes::orphans::LeftBehind::default());
}
