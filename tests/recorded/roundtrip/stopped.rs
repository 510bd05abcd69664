//! Undo as a process that is stopped at any moment: it has not begun, or it completes.

use super::bench::{Bench, same};
use super::planned;
use crate::program;
use crate::recordings;
use cpushield_linux::processes::process;
use std::process::Stdio;
use std::time::{Duration, Instant};

const SIGHUP: i32 = 1;
const SIGTERM: i32 = 15;

#[test]
fn an_undo_that_is_stopped_leaves_no_partial_shield() {
    let root = recordings::root("6.12-rt-4");
    let (mut none, mut long) = (0, Duration::ZERO);
    // The first one is not stopped, to show how long it takes; most of the others are stopped
    // within that time.
    for n in 0..=24_u32 {
        let bench = Bench::of_recording(&root).into_files();
        let (before, plan) = (bench.tree(), planned(&bench.host(), None));
        bench.apply(&bench.host(), &plan).unwrap();
        let applied = bench.tree();
        let began = Instant::now();
        let mut undo = program::command()
            .arg("undo")
            .arg("--root")
            .arg(bench.scratch.0.join("root"))
            .arg("--state")
            .arg(bench.scratch.0.join("state"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let after = long * n / 18;
        if n > 0 {
            std::thread::sleep(after);
            let signal = if n % 2 == 0 { SIGTERM } else { SIGHUP };
            let _ = process::kill(i32::try_from(undo.id()).unwrap(), signal);
        }
        let when = format!("stopped after {after:?} of {long:?}");
        match undo.wait().unwrap().code() {
            Some(0) => {
                same(&before, &bench.tree(), &when);
                none += 1;
            }
            Some(code) => panic!("{when}: exit code {code}"),
            None => same(&applied, &bench.tree(), &when),
        }
        if n == 0 {
            long = began.elapsed();
        }
    }
    assert!(none > 1, "none came to its end");
}
