//! The document before anything was seen: what was asked for, what keeps others away, and what is
//! measured on.

use super::measure::nanos;
use super::order::MeasureRequest;
use super::{LatencyMeasurement, MeasuredIsolation, MeasuredSetting, SCHEMA, TraceUse};
use crate::survey::Machine;
use cpushield_linux::clock::monotonic_ns;

/// Looks at the clock that its price is taken from.
const LOOKS: u64 = 1000;

/// The document before anything was seen.
pub(super) fn blank(
    order: &MeasureRequest<'_>,
    machine: Machine,
    migration: Option<bool>,
) -> LatencyMeasurement {
    LatencyMeasurement {
        schema: SCHEMA,
        instrument: order.instrument.name().to_owned(),
        asked_ns: nanos(order.span),
        span_ns: 0,
        warmup_ns: nanos(order.warmup),
        stopped: false,
        unfinished: false,
        began_s: 0,
        began_ns: 0,
        parts: Vec::new(),
        series: Vec::new(),
        loads: Vec::new(),
        gates: Vec::new(),
        tracing: TraceUse { asked: order.why, ..TraceUse::default() },
        isolation: isolation(&machine, order),
        setting: setting(machine, migration),
        doubts: Vec::new(),
        notes: Vec::new(),
    }
}

fn isolation(machine: &Machine, order: &MeasureRequest<'_>) -> MeasuredIsolation {
    let guard = order.guard.as_ref();
    MeasuredIsolation {
        shield: guard.map(|guard| guard.name.clone()),
        held: guard.filter(|guard| guard.group.is_some()).map(|_| true),
        broken: Vec::new(),
        isolated: machine.isolation.isolated.clone(),
        nohz_full: machine.isolation.nohz_full.clone(),
    }
}

fn setting(machine: Machine, migration: Option<bool>) -> MeasuredSetting {
    let before = monotonic_ns();
    let last = (0..LOOKS).fold(before, |_, _| monotonic_ns());
    let guest = machine.virt.guest == Some(true);
    MeasuredSetting {
        kernel: machine.kernel.release,
        realtime: machine.kernel.realtime,
        timer_migration: migration,
        cmdline: machine.kernel.cmdline,
        boot: machine.boot_id,
        processor: machine.topology.model,
        online: machine.topology.online,
        hypervisor: machine.virt.hypervisor.or_else(|| guest.then(|| "unknown".to_owned())),
        clock: "CLOCK_MONOTONIC".to_owned(),
        clocksource: machine.kernel.clocksource,
        clock_read_ns: last.saturating_sub(before) / LOOKS,
    }
}
