//! `interrupts`: CPUs that interrupt each other.

use super::{CountSource, LoadEnvironment, LoadKind, LoadWork, PreparedLoad, own};
use cpushield_linux::text::interrupts::{self, InterruptTable as Rows};
use cpushield_linux::{CpuSet, Host, load_syscalls};
use std::time::{Duration, Instant};

/// How long a thread computes between two calls, for each CPU of the load.
const PAUSE: Duration = Duration::from_micros(2);

/// See the file.
#[derive(Debug)]
pub struct InterruptLoad;

impl LoadKind for InterruptLoad {
    fn name(&self) -> &'static str {
        "interrupts"
    }

    fn summary(&self) -> &'static str {
        "CPUs of the load that interrupt each other, as fast as they can (membarrier)"
    }

    fn page(&self) -> &'static str {
        "On each CPU a thread that calls membarrier(2), then computes for a moment, again and \
         again: the kernel interrupts every other CPU on which a thread of the same process runs \
         just then, and waits until all have answered. No other CPU is interrupted by it: the \
         threads are bound to the CPUs of the load, so it needs two of them. With other loads \
         the threads run together less often, and there are fewer interrupts.\n\n\
         Interrupts of devices come with `disk`, of the timer with `timers`; a program cannot \
         make others.\n\n\
         Function call interrupts of the CPUs of the load count, as /proc/interrupts has them; \
         the few that others send are among them.\n\n\
         Source: membarrier(2); membarrier_private_expedited() in kernel/sched/membarrier.c \
         (6.12)."
    }

    fn unit(&self) -> &'static str {
        "interrupts"
    }

    fn counted(&self, host: &Host, cpus: &CpuSet) -> CountSource {
        let text = host.read("/proc/interrupts").unwrap_or_default();
        CountSource::Kernel(interrupts::parse(&text).ok().and_then(|all| calls(&all, cpus)))
    }

    fn possible(&self, site: &LoadEnvironment<'_>) -> Result<(), String> {
        if site.cpus.len() < 2 {
            return Err(format!("it needs two CPUs, and the load has CPU {} alone", site.cpus));
        }
        Ok(())
    }

    fn prepare(&self, site: &LoadEnvironment<'_>) -> Result<PreparedLoad, String> {
        self.possible(site)?;
        load_syscalls::register_barriers()
            .map_err(|e| format!("no membarrier(2) of this form: {e}"))?;
        // So that the others are computing most of the time, not waiting for their own call.
        let pause = PAUSE * u32::try_from(site.cpus.len()).unwrap_or(u32::MAX);
        let worker = || -> LoadWork {
            Box::new(move |meter| {
                loop {
                    load_syscalls::barrier()?;
                    meter.add(1);
                    let until = Instant::now() + pause;
                    while Instant::now() < until {
                        std::hint::spin_loop();
                    }
                }
            })
        };
        let workers = site.cpus.iter().map(|cpu| (Some(cpu), worker())).collect();
        let what = "a thread on each CPU that interrupts the others".to_owned();
        Ok(own(what, workers))
    }
}

/// Function call interrupts of these CPUs: the row has this name on x86 (CAL) and arm64 (IPI1).
fn calls(all: &Rows, cpus: &CpuSet) -> Option<u64> {
    let row = all.rows.iter().find(|row| row.name.trim() == "Function call interrupts")?;
    let own = all.by_cpu(row).filter(|(cpu, _)| cpus.contains(*cpu));
    Some(own.map(|(_, count)| count).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_count_is_of_the_loads_cpus() {
        // Linux 6.12 on x86 and 6.1 on arm64, shortened.
        for text in [
            "      CPU0 CPU2 CPU3\nLOC: 9 9 9   Local timer interrupts\nCAL: 5 70 600   Function call \
             interrupts\n",
            "      CPU0 CPU2 CPU3\nIPI0: 1 1 1  Rescheduling interrupts\nIPI1: 5 70 600  Function \
             call interrupts\n",
        ] {
            let all = interrupts::parse(text).unwrap();
            assert_eq!(calls(&all, &"0,3".parse().unwrap()), Some(605));
        }
        let none = interrupts::parse("   CPU0\nLOC: 9   Local timer interrupts\n").unwrap();
        assert_eq!(calls(&none, &CpuSet::single(0)), None);
    }
}
