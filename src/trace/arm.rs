//! Prepares a trace, or finds out why there is none: which events this kernel has, and whether
//! arming now would hang.

use super::stacks::StackForm;
use super::trace_events::{self, EventSpec};
use super::{RecordRequest, clock_name};
use crate::documents::evidence::{AbsenceReason, BlindSpot};
use cpushield_linux::errno::{EACCES, ENODEV, ENOSYS, EPERM};
use cpushield_linux::text::trace_format::EventFormat;
use cpushield_linux::trace::tracefs::{InstanceSettings, TraceInstance, Tracefs, needs_debugfs};
use cpushield_linux::{Error, Host, RtHog, processes::namespaces};

/// Buffer of a watched CPU in KiB: enough for seconds of nothing but task switches, so that a late
/// reader loses nothing.
const BUFFER_KIB: usize = 8 << 10;

/// Buffers of all watched CPUs together, in KiB.
const BUFFERS_KIB: usize = 128 << 10;

/// A trace that is ready to record.
#[derive(Debug)]
pub struct ArmedTrace<'h> {
    /// The instance, not yet started.
    pub instance: TraceInstance<'h>,
    /// The events that this kernel has.
    pub formats: Vec<(&'static EventSpec, EventFormat)>,
    /// Whether time stamps are ticks of the TSC; otherwise nanoseconds.
    pub tsc: bool,
    /// Whether a real-time task never yields one of the CPUs: nothing more may be armed then.
    pub busy: bool,
    /// The form of stack records, when stacks are recorded.
    pub stack: Option<StackForm>,
    /// What the trace cannot see on this machine.
    pub blind: Vec<BlindSpot>,
}

/// Prepares the trace.
///
/// # Errors
/// The reason why there is no trace.
pub fn arm<'h>(host: &'h Host, order: &RecordRequest) -> Result<ArmedTrace<'h>, AbsenceReason> {
    if !host.is_live() {
        return Err(AbsenceReason::RecordedMachine);
    }
    if cfg!(target_endian = "big") {
        return Err(AbsenceReason::BigEndian);
    }
    // The kernel records `task->pid` (`tracing_gen_ctx()`, kernel/trace/trace.c; sched_switch,
    // 6.12), the number in the initial namespace. Here it may be the number of another task.
    if namespaces::in_pid_namespace(host) {
        return Err(AbsenceReason::PidNamespace);
    }
    let tracefs = Tracefs::find(host).map_err(|error| no_tracefs(host, &error))?;
    if !tracefs.has_instances(host) {
        return Err(AbsenceReason::NoTraceInstances);
    }
    let mut blind = Vec::new();
    let formats = formats(host, &tracefs, order, &mut blind).map_err(|e| refused(&e))?;
    let events: Vec<_> = formats.iter().map(|(spec, _)| (spec.system, spec.name)).collect();
    if !formats.iter().any(|(spec, _)| spec.kind == trace_events::EventKind::Switch) {
        return Err(no_events(host));
    }
    let tsc = tsc_counts(host);
    let online = host.online_cpus().unwrap_or_default();
    // No kworker will ever run on its CPU, so nothing may wait for one.
    let hog = host.hogs().unwrap_or_default().into_iter().next();
    let share = BUFFERS_KIB / order.cpus.len().max(1);
    let wanted = InstanceSettings {
        cpus: &order.cpus,
        clock: clock_name(tsc),
        events: &events,
        buffer_kib: Some(BUFFER_KIB.min(share)),
        shrink: &online.difference(&order.cpus),
        no_work: hog.is_some(),
    };
    let busy = hog.is_some();
    let stack = tracefs.format(host, "ftrace", "kernel_stack").ok().flatten();
    let stack = stack.and_then(|format| StackForm::from_format(&format)).filter(|_| order.stacks);
    let mut instance = TraceInstance::prepare(host, tracefs, &wanted).map_err(|error| {
        match &hog {
            // It would have to wait.
            Some(hog) if error.is_busy() => would_hang(hog),
            _ => refused(&error),
        }
    })?;
    let stack = stack.filter(|_| instance.enable_stacks().is_ok());
    if order.stacks && stack.is_none() {
        blind.push(BlindSpot::Stacks);
    }
    if let Some(hog) = hog {
        blind.push(BlindSpot::SmallBuffer { cpu: hog.task.cpu, task: hog.to_string() });
    }
    Ok(ArmedTrace { instance, formats, tsc, busy, stack, blind })
}

/// The events of the catalogue that this kernel has. Adds what the missing ones hide to `blind`.
fn formats(
    host: &Host,
    tracefs: &Tracefs,
    order: &RecordRequest,
    blind: &mut Vec<BlindSpot>,
) -> cpushield_linux::Result<Vec<(&'static EventSpec, EventFormat)>> {
    let mut formats = Vec::new();
    for spec in trace_events::events() {
        if spec.syscalls_only && !order.syscalls {
            continue;
        }
        if let Some(better) = spec.instead_of
            && formats.iter().any(|(known, _): &(&EventSpec, _)| known.name == better)
        {
            continue;
        }
        match (tracefs.format(host, spec.system, spec.name)?, spec.blind) {
            (Some(format), _) => formats.push((spec, format)),
            (None, Some(what)) => blind.push(what.clone()),
            (None, None) => {}
        }
    }
    if !order.syscalls {
        blind.push(BlindSpot::SystemCalls);
    }
    Ok(formats)
}

/// Whether the TSC can be the trace clock. The kernel removes it from this list when it finds it
/// unstable (kernel/time/clocksource.c).
fn tsc_counts(host: &Host) -> bool {
    let list = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
    cfg!(target_arch = "x86_64")
        && host.read(list).is_ok_and(|text| text.split_whitespace().any(|word| word == "tsc"))
}

fn would_hang(hog: &RtHog) -> AbsenceReason {
    AbsenceReason::WouldHang { cpu: hog.task.cpu, task: hog.to_string() }
}

/// What a locked-down kernel logs instead of creating files in tracefs (`tracing_init_dentry()`,
/// kernel/trace/trace.c, 6.12).
const LOCKED: &str = "due to lockdown";

fn no_events(host: &Host) -> AbsenceReason {
    let log = host.kernel_log().unwrap_or_default();
    let said = log.into_iter().find(|line| line.starts_with("Trac") && line.ends_with(LOCKED));
    said.map_or(AbsenceReason::NoSwitchEvent, |said| AbsenceReason::LockedDown { said })
}

fn no_tracefs(host: &Host, error: &Error) -> AbsenceReason {
    match error.errno() {
        Some(ENODEV) if needs_debugfs(host) => AbsenceReason::DebugfsNotMounted,
        Some(EPERM | EACCES) => AbsenceReason::TracefsDenied { answer: error.reason().to_string() },
        Some(ENODEV) => AbsenceReason::NoTraceInstances,
        Some(ENOSYS) => AbsenceReason::TracefsNotMounted,
        _ => AbsenceReason::failed(error),
    }
}

fn refused(error: &Error) -> AbsenceReason {
    AbsenceReason::TraceRefused { answer: error.to_string() }
}
