//! Makes the kernel record a stack behind each interrupt. The stack shows whether the interrupt hit
//! user mode or kernel code; see [`super::interruptions::EntryText`].

use super::TraceRecorder;
use super::interruptions::EntryText;
use super::stacks::StackForm;
use super::trace_events::{self, EventKind, X86Vector};
use crate::documents::evidence::{BlindReason, BlindSpot};
use cpushield_linux::Host;
use cpushield_linux::text::kernel_version::KernelVersion;
use cpushield_linux::text::trace_format::EventFormat;

/// The first kernel whose stack trigger writes to its own instance
/// (commit ce33c845b030, kernel/trace/trace_events_trigger.c).
const TRIGGER_SINCE: KernelVersion = KernelVersion::new(5, 18);

impl TraceRecorder<'_> {
    /// Records what each interrupt hit, from [`TraceRecorder::start`] on. Costs the watched CPUs a
    /// microsecond or two for each interrupt, and nothing otherwise.
    pub fn watch_privilege(&mut self) {
        if let Err(reason) = self.arm_privilege() {
            self.blind.push(BlindSpot::InterruptOrigin { reason });
        }
    }

    fn arm_privilege(&mut self) -> Result<(), BlindReason> {
        let entry_text = EntryText::find(&self.symbols).ok_or(BlindReason::EntryCodeHidden)?;
        if !self.stacks {
            let release = self.host.read_line("/proc/sys/kernel/osrelease").unwrap_or_default();
            if KernelVersion::from_release(&release) < Some(TRIGGER_SINCE) {
                return Err(BlindReason::SharedTrigger);
            }
            if has_hog(self.host) {
                return Err(BlindReason::CpuBusy);
            }
            let form = EventFormat::parse(&self.instance.format_text("ftrace", "kernel_stack"));
            let form = form.ok().and_then(|format| StackForm::from_format(&format));
            let form = form.ok_or(BlindReason::NoStackTrace)?;
            let interrupts = trace_events::events()
                .filter(|spec| is_frequent(spec.kind))
                .filter(|spec| self.events.contains(&(spec.system, spec.name)));
            for spec in interrupts {
                self.instance.add_stack_trigger(spec.system, spec.name)?;
            }
            self.decoder.expect_stacks(Some(form));
        }
        self.context.entry_text = Some(entry_text);
        Ok(())
    }
}

/// Whether an interrupt is worth a trigger. When a trigger is removed, the kernel waits for an RCU
/// grace period (`trigger_data_free()`, kernel/trace/trace_events_trigger.c, 6.12). For other
/// interrupts, what they hit is inferred.
fn is_frequent(kind: EventKind) -> bool {
    use X86Vector::{CallMany, CallOne, IrqWork, LocalTimer, Reschedule};
    matches!(
        kind,
        EventKind::Irq
            | EventKind::Nmi
            | EventKind::Vector(LocalTimer | Reschedule | CallMany | CallOne | IrqWork)
    )
}

/// Whether a real-time task never yields one of the CPUs.
fn has_hog(host: &Host) -> bool {
    host.hogs().is_ok_and(|hogs| !hogs.is_empty())
}
