//! Watch: `Host` → [`Evidence`]. Arms the witnesses, provokes the positive control, waits for the
//! span to pass and combines what each witness saw. Decides nothing.
//!
//! Order matters: everything that touches the watched CPUs (arming, placing the sampler, the
//! control, both reads of the second witness, reading the result of the sampler) lies outside the
//! span that counts. The spans enclose each other: that of the second witness encloses that of the
//! trace, which encloses those of the counters and of the sampler.

use crate::documents::evidence::{ControlAt, CpuDoubt, Evidence, SCHEMA};
use crate::observe::{counters, environment, firmware, read_machine};
use crate::verify::instruments::{ActiveInstruments, WaitEnd};
use crate::verify::observations::CombinedObservations;
use crate::verify::order::{WatchError, WatchOrder, WatchProgress};
use cpushield_linux::sys::clock::{TickScale, epoch_seconds, nanos};
use cpushield_linux::{CpuSet, Host};
use std::time::Instant;

/// Watches the CPUs.
///
/// # Errors
/// The order cannot be followed on this machine, or the workload does not start. A missing witness
/// is not an error: the evidence records it.
pub fn watch(host: &Host, order: &WatchOrder) -> Result<Evidence, WatchError> {
    let online = check_order(host, order)?;
    // Where the kernel refuses, this thread stays and appears among the interruptions.
    let _aside = host.step_aside(&online.difference(&order.cpus)).ok();
    (order.progress)(WatchProgress::Arming);
    let began = Instant::now();
    let mut instruments = ActiveInstruments::arm(host, order);
    match &order.workload {
        Some(given) => (given.start)().map_err(|why| WatchError::Workload { why })?,
        None => instruments.start_sampler(order),
    }
    instruments.start();
    // Both wait for grace periods of RCU: 46 to 57 against 4 to 9 (6.12-rt in the emulator).
    let about = began.elapsed() / 8;
    let first = environment::read(host);
    (order.progress)(WatchProgress::Settling);
    let mut end = instruments.wait(order, order.warmup, &|_, _| ()).before_the_span();
    let mut threads = instruments.update_workload(order);
    let control = instruments.run_control(order, ControlAt::BeforeSpan);
    let smi_counter = firmware::SmiCounter::start(host, &order.cpus);
    let (smis, warmed_up) = (smi_counter.read(), environment::read(host));
    instruments.doubts.clear();
    let began = Instant::now();
    let (began_s, began_ns) = (epoch_seconds(), instruments.begin_span(order));
    let before = counters::read(host);
    if end == WaitEnd::TimeOver {
        instruments.tick_scale = TickScale::between(first.at, warmed_up.at);
        end = instruments.wait(order, order.span, &|done, worst| {
            (order.progress)(WatchProgress::Watching { done, of: order.span, worst });
        });
    }
    (order.progress)(WatchProgress::Gathering { about });
    let mut after = counters::read(host);
    let seen = instruments.end_span(order);
    // The end of the span has interrupted each watched CPU.
    after.read_booked_steal(host);
    let span = began.elapsed();
    // Not before the end of the span: reading it interrupts the watched CPU.
    let smis = (smis, smi_counter.read());
    let breach = instruments.deliver_recording(order);
    let control = control.combine(instruments.run_control(order, ControlAt::AfterSpan));
    let interference = instruments.interference();
    let changes = environment::changed(&first, &warmed_up, &environment::read(host)).into_iter();
    instruments.doubts.extend(changes.map(|change| CpuDoubt::CircumstanceChanged { change }));
    threads.extend(instruments.update_workload(order));
    // The span of the trace encloses the reads of the counters, which are slow on a slow machine,
    // and the span of the sampler, which gets messages late on a busy host. With a trace, entries
    // and the longest stretch refer to the span of the trace.
    let traced = seen.trace.iter().flatten().map(|cpu| cpu.span_ns).max();
    let (span_ns, doubts) =
        (traced.unwrap_or(nanos(span)), std::mem::take(&mut instruments.doubts));
    let witnesses = instruments.witnesses(&before, &after, &smis);
    let (workload, traced) = (instruments.watched, instruments.traced.take());
    let compared = instruments.end();
    let all =
        CombinedObservations { before, after, smis, seen, compared, threads, doubts, span_ns };
    Ok(Evidence {
        shield: None,
        open_to: None,
        options: None,
        schema: SCHEMA,
        began_s,
        began_ns,
        span_ns,
        asked_ns: nanos(order.span),
        stopped: end == WaitEnd::Stopped,
        ended: end.workload_end(),
        workload,
        guest: firmware::is_guest(host),
        machine: Some(read_machine(host, &online)),
        cpus: order.cpus.iter().map(|cpu| all.cpu_evidence(cpu, workload)).collect(),
        witnesses,
        interference,
        control,
        traced,
        breach,
    })
}

/// Checks that the order can be followed. Returns the online CPUs.
fn check_order(host: &Host, order: &WatchOrder) -> Result<CpuSet, WatchError> {
    if !host.is_live() {
        return Err(WatchError::Recorded);
    }
    if order.cpus.is_empty() {
        return Err(WatchError::NoCpus);
    }
    let online = host.online_cpus()?;
    let offline = order.cpus.difference(&online);
    if !offline.is_empty() {
        return Err(WatchError::Offline { cpus: offline, online });
    }
    if online.difference(&order.cpus).is_empty() {
        return Err(WatchError::NoneLeft { online });
    }
    Ok(online)
}
