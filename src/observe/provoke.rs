//! Provokes interruptions, for the positive control.

use crate::documents::evidence::{ProvokeFailure, ProvokeMethod};
use cpushield_linux::sys::perf::{CpuEvent, PerfEvent};
use cpushield_linux::trace::tracefs::Tracefs;
use cpushield_linux::{CpuSet, Host, sys::sched};
use std::time::{Duration, Instant};

/// The number of interruptions provoked on each CPU.
pub const TIMES: usize = 10;

/// How long idle CPUs are tried again.
const RETRY_MAX: Duration = Duration::from_secs(1);
/// How long a try waits for the next one. It is no fraction of a usual period, so that a program
/// that runs for a short time in each period is met sooner or later.
const RETRY_INTERVAL: Duration = Duration::from_micros(137);

/// The interruptions that were provoked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvokedInterrupt {
    /// How.
    pub by: ProvokeMethod,
    /// Each CPU, and how many of them the sampler saw; empty without a sampler.
    pub seen: Vec<(usize, usize)>,
    /// CPUs that were idle, and the number of IPIs that the kernel has sent to each of them. Other
    /// CPUs got [`TIMES`].
    pub idle: Vec<(usize, usize)>,
}

/// Interrupts each CPU [`TIMES`] times from this thread, no matter what runs on it. A CPU that is
/// idle may not be interrupted ([`retry_idle`]).
///
/// # Errors
/// The reason why that is not possible.
pub fn provoke(host: &Host, cpus: &CpuSet) -> Result<ProvokedInterrupt, ProvokeFailure> {
    for cpu in cpus.iter() {
        let clock = CpuEvent::open(host, cpu, PerfEvent::CPU_CLOCK).map_err(refused)?;
        for _ in 0..TIMES {
            clock.read().map_err(refused)?;
        }
    }
    let (seen, idle) = (Vec::new(), Vec::new());
    Ok(ProvokedInterrupt { by: ProvokeMethod::PerfEvent, seen, idle })
}

/// Interrupts CPUs again that saw too few IPIs, until each was interrupted [`TIMES`] times while it
/// was not idle, or until a second has passed. To a CPU that is idle and polls, as with `mwait` or
/// `idle=poll`, the kernel sends no IPI since 5.8; it counts that in the tracepoint
/// `sched_wake_idle_without_ipi` (`call_function_single_prep_ipi()`, kernel/sched/core.c, 6.12).
/// Returns each CPU that was idle at some time, and the number of IPIs that were sent to it. Where
/// the tracepoint cannot be counted, it returns nothing.
#[must_use]
pub fn retry_idle(host: &Host, cpus: &CpuSet) -> Vec<(usize, usize)> {
    // The tracepoint counts on the CPU that sends, so this thread stays there. An event of a thread
    // would make the kernel patch its code again a second later, in the middle of the span
    // (`perf_sched_delayed()`, kernel/events/core.c, 6.12).
    let here = sched::current_cpu();
    let Ok(_stays) = host.step_aside(&CpuSet::single(here)) else { return Vec::new() };
    let Some(unsent) = count_unsent_ipis(host, here) else { return Vec::new() };
    let until = Instant::now() + RETRY_MAX;
    cpus.iter().filter_map(|cpu| Some((cpu, interrupt_busy(host, cpu, &unsent, until)?))).collect()
}

/// Counts the IPIs that this CPU does not send because the other one is idle.
fn count_unsent_ipis(host: &Host, here: usize) -> Option<CpuEvent> {
    let tracefs = Tracefs::find(host).ok()?;
    let format = tracefs.format(host, "sched", "sched_wake_idle_without_ipi").ok()??;
    CpuEvent::open(host, here, PerfEvent::tracepoint(format.id)).ok()
}

/// Interrupts one CPU. Returns the number of IPIs that were sent to it; `None` if it was never idle
/// or cannot be interrupted.
fn interrupt_busy(host: &Host, cpu: usize, unsent: &CpuEvent, until: Instant) -> Option<usize> {
    let clock = CpuEvent::open(host, cpu, PerfEvent::CPU_CLOCK).ok()?;
    let (mut tries, mut sent, mut was_idle) = (0, 0, false);
    while sent < TIMES && (tries < TIMES || Instant::now() < until) {
        let before = unsent.read().ok()?;
        clock.read().ok()?;
        match unsent.read().ok()? == before {
            true => sent += 1,
            false => {
                was_idle = true;
                std::thread::sleep(RETRY_INTERVAL);
            }
        }
        tries += 1;
    }
    was_idle.then_some(sent)
}

#[expect(clippy::needless_pass_by_value, reason = "an argument of map_err")]
fn refused(error: impl ToString) -> ProvokeFailure {
    ProvokeFailure::PerfEventRefused { answer: error.to_string() }
}
