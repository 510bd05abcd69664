//! `timers`: threads that sleep for a moment, again and again.

use super::{LoadEnvironment, LoadKind, LoadWork, PreparedLoad, own};
use cpushield_linux::load_syscalls;
use std::time::Duration;

/// Threads of each CPU.
const THREADS: usize = 4;
/// How long they sleep.
const SLEEP: Duration = Duration::from_micros(100);

/// See the file.
#[derive(Debug)]
pub struct TimerLoad;

impl LoadKind for TimerLoad {
    fn name(&self) -> &'static str {
        "timers"
    }

    fn summary(&self) -> &'static str {
        "threads that sleep 100 us, again and again: timer interrupts and short idle times"
    }

    fn page(&self) -> &'static str {
        "On each CPU four threads that sleep for 100 us again and again, with a timer slack of \
         1 ns, so that the kernel does not put their timers together: up to 40000 expirations a \
         second on each CPU, each with its interrupt unless several are due at once. On a \
         nohz_full CPU outside of the load they have no effect; the timers stay on the CPU that \
         armed them or go to a busy one (kernel.timer_migration).\n\n\
         Sleeps that ended count.\n\n\
         Source: nanosleep(2); PR_SET_TIMERSLACK of prctl(2)."
    }

    fn unit(&self) -> &'static str {
        "sleeps"
    }

    fn prepare(&self, site: &LoadEnvironment<'_>) -> Result<PreparedLoad, String> {
        let worker = || -> LoadWork {
            Box::new(|meter| {
                load_syscalls::minimize_timer_slack()?;
                loop {
                    std::thread::sleep(SLEEP);
                    meter.add(1);
                }
            })
        };
        let on = |cpu| (0..THREADS).map(move |_| (Some(cpu), worker()));
        let what = format!("{THREADS} threads on each CPU that sleep for {} us", SLEEP.as_micros());
        Ok(own(what, site.cpus.iter().flat_map(on).collect()))
    }
}
