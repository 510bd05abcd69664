//! The document before the first event: the request, the isolation and the machine.

use super::isolation_check::check_isolation;
use super::order::{IsolationChecking, MeasureRequest};
use super::power::{read_memory_kib, read_power};
use super::{
    IsolationCheck, LatencyMeasurement, MeasuredIsolation, MeasuredSetting, SCHEMA, TraceUse,
};
use crate::documents::machine::Machine;
use cpushield_linux::sys::clock::{monotonic_ns, nanos};
use cpushield_linux::{CpuSet, Host};

/// Clock reads that are averaged to get the cost of one.
const CLOCK_READS: u64 = 1000;

/// Makes the document before the first event.
pub(super) fn empty_document(
    host: &Host,
    request: &MeasureRequest<'_>,
    machine: Machine,
    migration: Option<bool>,
) -> LatencyMeasurement {
    let check = match request.isolation {
        IsolationChecking::Unchecked => None,
        IsolationChecking::Checked => {
            Some(check_isolation(host, &machine, request.guard.as_ref(), &request.cpus))
        }
    };
    LatencyMeasurement {
        schema: SCHEMA,
        instrument: request.instrument.name.to_owned(),
        asked_ns: nanos(request.span),
        span_ns: 0,
        warmup_ns: nanos(request.warmup),
        stopped: false,
        unfinished: false,
        began_s: 0,
        began_ns: 0,
        series: Vec::new(),
        loads: Vec::new(),
        limits: request.limits,
        gates: Vec::new(),
        tracing: TraceUse { asked: request.why, ..TraceUse::default() },
        isolation: isolation(&machine, request, check),
        setting: setting(host, machine, &request.cpus, migration),
        doubts: Vec::new(),
        notes: Vec::new(),
    }
}

fn isolation(
    machine: &Machine,
    request: &MeasureRequest<'_>,
    check: Option<IsolationCheck>,
) -> MeasuredIsolation {
    let guard = request.guard.as_ref();
    MeasuredIsolation {
        shield: guard.map(|guard| guard.name.clone()),
        held: guard.filter(|guard| guard.group.is_some()).map(|_| true),
        broken: Vec::new(),
        isolated: machine.isolation.isolated.clone(),
        nohz_full: machine.isolation.nohz_full.clone(),
        check,
    }
}

fn setting(
    host: &Host,
    machine: Machine,
    cpus: &CpuSet,
    migration: Option<bool>,
) -> MeasuredSetting {
    let before = monotonic_ns();
    let last = (0..CLOCK_READS).fold(before, |_, _| monotonic_ns());
    let guest = machine.virt.guest == Some(true);
    MeasuredSetting {
        memory_kib: read_memory_kib(host),
        power: Some(read_power(host, &machine, cpus)),
        steal_ns: None,
        realtime: machine.kernel.is_preempt_rt(),
        kernel: machine.kernel.release,
        timer_migration: migration,
        cmdline: machine.kernel.cmdline,
        boot: machine.boot_id,
        processor: machine.topology.model,
        online: machine.topology.online,
        hypervisor: machine.virt.hypervisor.or_else(|| guest.then(|| "unknown".to_owned())),
        clock: "CLOCK_MONOTONIC".to_owned(),
        clocksource: machine.kernel.clocksource,
        clock_read_ns: last.saturating_sub(before) / CLOCK_READS,
    }
}
