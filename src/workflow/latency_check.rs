//! Whether a measurement makes `cpushield latency` succeed, and the reason if it does not.

use crate::documents::count_text::joined;
use crate::documents::evidence::Gate;
use crate::documents::latency::{LatencyDoubt, LatencyMeasurement, ThreadDoubt};
use crate::failure::{Failure, FailureKind};
use crate::report::latency::measured_value;

/// Succeeds if something was measured and every limit holds.
///
/// # Errors
/// Nothing was measured, or a limit does not hold or is unknown.
pub fn check(latency: &LatencyMeasurement) -> Result<(), Failure> {
    let is_silent = latency.silent_below_ns().is_some();
    if latency.worst().is_none() && !latency.stopped && !is_silent {
        let mut thread_doubts = latency.series.iter().flat_map(|series| series.doubts.first());
        let why = match (thread_doubts.next(), latency.doubts.first()) {
            (Some(doubt), _) => doubt.to_string(),
            (None, Some(doubt)) => doubt.to_string(),
            (None, None) => ThreadDoubt::NoEvent.to_string(),
        };
        return Err(Failure::machine(format!("nothing was measured: {why}")));
    }
    if latency.holds() {
        return Ok(());
    }
    let broken = latency.gates.iter().filter(|gate| gate.held != Some(true));
    let reasons = broken.map(describe_broken_gate);
    Err(Failure::new(FailureKind::DoesNotHold, joined(reasons, "; ")))
}

fn describe_broken_gate(gate: &Gate<LatencyDoubt>) -> String {
    if gate.held.is_none() {
        let why = gate.why.first().map_or_else(String::new, |why| format!(": {why}"));
        return format!("it is unknown whether {} holds{why}", gate.limit);
    }
    format!("{} does not hold: found {}", gate.limit, measured_value(gate))
}
