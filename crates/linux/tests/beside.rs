//! A program that forks twice and ends, as `verify -- CMD` starts it: what it left behind is ended
//! and named. This process is whom the orphan gets as its parent, so nothing else runs here.

use cpushield_linux::worker_process::ChildCommand;
use std::ffi::OsString;
use std::process::Command;
use std::time::{Duration, Instant};

/// What the started program does: this very test, in a process of its own.
#[test]
#[ignore = "the other test starts it"]
fn forks_twice() {
    let spin = "trap '' TERM; while :; do sleep 0.05; done";
    let twice = format!("setsid sh -c \"{spin}\" >/dev/null 2>&1 & sleep 0 & exit 0");
    assert!(Command::new("sh").args(["-c", &twice]).status().unwrap().success());
}

#[test]
fn what_a_program_left_behind_ends_with_it_and_is_named() {
    let words = ["--ignored", "--exact", "forks_twice"].map(OsString::from);
    let mut beside = ChildCommand::start(&words).unwrap();
    let began = Instant::now();
    while beside.ended().is_none() {
        assert!(began.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(10));
    }
    // The shell becomes deaf to SIGTERM a moment later.
    std::thread::sleep(Duration::from_millis(300));
    let left = beside.end();
    assert_eq!(left.running, []);
    let names: Vec<&str> = left.ended.iter().map(|(_, name)| name.as_str()).collect();
    assert!(names.contains(&"sh"), "{left:?}");
    for (pid, _) in &left.ended {
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "{pid} is still there");
    }
    // Nobody else is ended.
    assert_eq!(beside.end(), cpushield_linux::orphans::LeftBehind::default());
}
