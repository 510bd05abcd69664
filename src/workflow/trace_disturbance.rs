//! A trace interrupts other active shields, and the user must consent to that.

use super::WorkContext;
use super::active_shields::known_shields;
use crate::documents::plan::{NamedShield, list_shields};
use crate::failure::Failure;
use crate::policy::DisturbanceConsent;
use cpushield_linux::text::kernel_version::KernelVersion;
use cpushield_linux::{CpuSet, Host};

/// The kernel on which the interruptions were counted (docs/measurements/neighbours.md).
const MEASURED: KernelVersion = KernelVersion::new(6, 12);

/// Checks that a trace on these CPUs interrupts no other active shield, or that the user consents.
/// Arming and disarming tracepoints patches the kernel's code, which interrupts every online CPU
/// (`text_poke_sync()`, arch/x86/kernel/alternative.c, 6.12). On 6.12 in guests with 4 CPUs, a
/// `verify` of one second made 917 to 928 entries on the CPU of the other shield
/// (docs/measurements/neighbours.md), and once 1,386 function-call interrupts. Other kernels and
/// traces patch more or fewer places.
///
/// # Errors
/// It interrupts another shield, or the journal cannot be read.
pub fn check_disturbance(
    work: &WorkContext<'_>,
    watched: &CpuSet,
    consent: DisturbanceConsent,
) -> Result<(), Failure> {
    if consent == DisturbanceConsent::Given {
        return Ok(());
    }
    let shields = known_shields(&work.host, &work.store)?;
    let others = shields.iter().filter(|shield| !shield.cpus.intersects(watched));
    let others: Vec<NamedShield> = others.map(NamedShield::from).collect();
    if others.is_empty() {
        return Ok(());
    }
    let message = format!(
        "the trace would interrupt {}: starting a trace patches the kernel's code, and this \
         interrupts every CPU ({})",
        list_shields(&others),
        describe_measured(&work.host)
    );
    Err(Failure::machine(message)
        .hint("accept the interruption: --disturb")
        .hint("or use counters alone, which interrupt no CPU: cpushield watch"))
}

/// How often a trace interrupts a CPU, as far as that was measured.
fn describe_measured(host: &Host) -> String {
    let release = host.read_line("/proc/sys/kernel/osrelease").unwrap_or_default();
    let counts = format!("900 to 1,400 times per verify on Linux {MEASURED}");
    match KernelVersion::from_release(&release) {
        Some(MEASURED) => counts,
        Some(other) => format!("{counts}; not measured on Linux {other}"),
        None => format!("{counts}; not measured on other kernels"),
    }
}
