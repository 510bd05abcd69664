//! `interrupts`: CPUs that interrupt each other.

use super::{LoadEnvironment, LoadKind, LoadRefusal, LoadWork, PreparedLoad, prepare_own};
use cpushield_linux::text::interrupts::{self, InterruptTable};
use cpushield_linux::{CpuSet, Host, sys::membarrier};
use std::time::{Duration, Instant};

/// How long a thread computes between two calls, multiplied by the number of CPUs.
const PAUSE: Duration = Duration::from_micros(2);

pub(super) const INTERRUPTS: LoadKind = LoadKind {
    name: "interrupts",
    summary: "CPUs of the load that interrupt each other all the time (membarrier)",
    page: "A thread on each CPU repeatedly calls membarrier(2) and then computes for a moment. At \
     each call, the kernel interrupts every other CPU that currently runs a thread of the same \
     process. It waits until all of them have answered. The threads are bound to the CPUs of \
     the load, so no other CPU is interrupted, and the load needs two CPUs. If other loads run \
     too, fewer of the threads run at the same time, so there are fewer interrupts.\n\n\
     `disk` causes interrupts of devices, `timers` those of the timer, and `messages` those \
     that wake other CPUs.\n\n\
     The count is the number of function call interrupts (/proc/interrupts) on the CPUs of the \
     load. It includes those that other programs and loads cause.\n\n\
     Source: membarrier(2); membarrier_private_expedited() in kernel/sched/membarrier.c \
     (6.12).",
    unit: "interrupts",
    read_count: Some(read_count),
    check_possible,
    prepare,
    ..LoadKind::PLAIN
};

fn read_count(host: &Host, cpus: &CpuSet) -> Option<u64> {
    let text = host.read("/proc/interrupts").unwrap_or_default();
    interrupts::parse(&text).ok().and_then(|all| sum_calls(&all, cpus))
}

fn check_possible(environment: &LoadEnvironment<'_>) -> Result<(), LoadRefusal> {
    if environment.cpus.len() < 2 {
        return Err(LoadRefusal::NeedsTwoCpus { cpus: environment.cpus.clone() });
    }
    Ok(())
}

fn prepare(environment: &LoadEnvironment<'_>) -> Result<PreparedLoad, LoadRefusal> {
    check_possible(environment)?;
    membarrier::register_barrier()
        .map_err(|e| LoadRefusal::NoMembarrier { answer: e.to_string() })?;
    // So the other threads mostly compute and do not wait for their own call.
    let pause = PAUSE * u32::try_from(environment.cpus.len()).unwrap_or(u32::MAX);
    let workers = environment.cpus.iter().map(|cpu| (Some(cpu), make_worker(pause))).collect();
    let what = "on each CPU, a thread that interrupts the others".to_owned();
    Ok(prepare_own(what, workers))
}

fn make_worker(pause: Duration) -> LoadWork {
    Box::new(move |counter| {
        loop {
            membarrier::barrier()?;
            counter.add(1);
            let until = Instant::now() + pause;
            while Instant::now() < until {
                std::hint::spin_loop();
            }
        }
    })
}

/// Adds up the function call interrupts of these CPUs. The row has this name on x86 (CAL) and arm64
/// (IPI1).
fn sum_calls(all: &InterruptTable, cpus: &CpuSet) -> Option<u64> {
    let row = all.rows.iter().find(|row| row.name.trim() == "Function call interrupts")?;
    let on_cpus = all.by_cpu(row).filter(|(cpu, _)| cpus.contains(*cpu));
    Some(on_cpus.map(|(_, count)| count).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_function_calls_on_the_cpus_of_the_load_count() {
        // Linux 6.12 on x86 and 6.1 on arm64, shortened.
        for text in [
            "      CPU0 CPU2 CPU3\nLOC: 9 9 9   Local timer interrupts\nCAL: 5 70 600   Function \
             call interrupts\n",
            "      CPU0 CPU2 CPU3\nIPI0: 1 1 1  Rescheduling interrupts\nIPI1: 5 70 600  Function \
             call interrupts\n",
        ] {
            let all = interrupts::parse(text).unwrap();
            assert_eq!(sum_calls(&all, &"0,3".parse().unwrap()), Some(605));
        }
        let none = interrupts::parse("   CPU0\nLOC: 9   Local timer interrupts\n").unwrap();
        assert_eq!(sum_calls(&none, &CpuSet::single(0)), None);
    }
}
