//! `timers`: threads that repeatedly sleep for a moment.

use super::{LoadEnvironment, LoadKind, LoadRefusal, LoadWork, PreparedLoad, prepare_own};
use cpushield_linux::sys::load_syscalls;
use std::time::Duration;

/// Threads on each CPU.
const THREADS: usize = 4;
/// How long each sleep takes.
const SLEEP: Duration = Duration::from_micros(100);

pub(super) const TIMERS: LoadKind = LoadKind {
    name: "timers",
    summary: "threads that repeatedly sleep for 100 µs: timer interrupts and short idle times",
    page: "Four threads on each CPU repeatedly sleep for 100 µs. Their timer slack is 1 ns, so that \
     the kernel does not merge their timers. Up to 40000 timers a second expire on each CPU. \
     Each causes an interrupt, unless several are due at once. The timers stay on the CPU that \
     armed them. Those of a nohz_full CPU may move to a CPU that is not nohz_full \
     (kernel.timer_migration), inside or outside of the load. So they do not affect a \
     nohz_full CPU outside of the load.\n\n\
     The count is the number of sleeps that ended.\n\n\
     Source: nanosleep(2); PR_SET_TIMERSLACK of prctl(2); get_nohz_timer_target() in \
     kernel/sched/core.c (6.12).",
    unit: "sleeps",
    prepare,
    ..LoadKind::PLAIN
};

fn prepare(environment: &LoadEnvironment<'_>) -> Result<PreparedLoad, LoadRefusal> {
    let mut workers = Vec::new();
    for cpu in environment.cpus.iter() {
        workers.extend((0..THREADS).map(|_| (Some(cpu), make_worker())));
    }
    let sleep_us = SLEEP.as_micros();
    let what = format!("on each CPU, {THREADS} threads that repeatedly sleep for {sleep_us} µs");
    Ok(prepare_own(what, workers))
}

fn make_worker() -> LoadWork {
    Box::new(|counter| {
        load_syscalls::minimize_timer_slack()?;
        loop {
            std::thread::sleep(SLEEP);
            counter.add(1);
        }
    })
}
