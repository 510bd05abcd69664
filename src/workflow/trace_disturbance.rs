//! A trace interrupts other active shields, and the user must consent to that.

use super::WorkContext;
use super::active_shields::known_shields;
use crate::failure::Failure;
use crate::policy::DisturbanceConsent;
use cpushield_linux::CpuSet;

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
    let Some(other) = shields.iter().find(|shield| !shield.cpus.intersects(watched)) else {
        return Ok(());
    };
    let message = format!(
        "the trace would interrupt CPU {} of shield {}: starting a trace patches the kernel's \
         code, and this interrupts every CPU (900 to 1,400 times per verify on Linux 6.12)",
        other.cpus, other.name
    );
    Err(Failure::machine(message)
        .hint("accept the interruption: --disturb")
        .hint("or use counters alone, which interrupt no CPU: cpushield watch"))
}
