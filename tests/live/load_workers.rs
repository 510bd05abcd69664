//! Every worker of every load works. `load.rs` compares their counts with those of the kernel.

use cpushield::load::KINDS;
use cpushield::load::kinds::LoadEnvironment;
use cpushield_linux::shared_memory::progress_counter::{ProgressCounters, WorkerState};
use cpushield_linux::{Host, sys::sched};
use std::env;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[test]
fn every_worker_of_every_kind_works() {
    let _turn = crate::alone();
    let mut command = Command::new(env::current_exe().unwrap());
    let ended = command.args(["--ignored", "--exact", "load_workers::work"]).output().unwrap();
    let text = String::from_utf8_lossy(&ended.stdout);
    assert!(text.contains("test result: ok. 1 passed"), "{text}");
}

/// What the test runs in a separate process, because the workers end only with theirs.
#[test]
#[ignore = "the other test starts it"]
fn work() {
    let host = Host::live();
    let dir = std::env::temp_dir();
    for kind in KINDS.iter().filter(|kind| !kind.is_program) {
        let cpus = sched::affinity(0).unwrap();
        let environment =
            LoadEnvironment { host: &host, cpus, dir: dir.clone(), arguments: Vec::new() };
        if (kind.check_possible)(&environment).is_err() {
            continue;
        }
        let prepared = (kind.prepare)(&environment).unwrap();
        let counters = Arc::new(ProgressCounters::new(prepared.workers.len()).unwrap());
        for (i, (_, work)) in prepared.workers.into_iter().enumerate() {
            let counters = Arc::clone(&counters);
            std::thread::spawn(move || counters.get(i).unwrap().work(work));
        }
        let until = Instant::now() + Duration::from_secs(20);
        let idle =
            || counters.each().filter(|counter| counter.state() != WorkerState::Working).count();
        while (idle() > 0 || counters.total() < 50) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(idle() == 0 && counters.total() >= 50, "{kind:?}: {counters:?}");
    }
}
