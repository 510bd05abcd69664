//! Judges a measurement by its limits. Pure. Doubts never excuse a figure over a limit.

use super::{LatencyDoubt, LatencyMeasurement};
use crate::documents::evidence::{Gate, GateFinding, GateLimit};
use crate::policy::{LatencyLimit, LatencyLimits, LinuxCncGrade};

/// Judges the limits, in the order of [`LatencyLimits::list`].
pub(super) fn judge_limits(
    latency: &LatencyMeasurement,
    limits: LatencyLimits,
) -> Vec<Gate<LatencyDoubt>> {
    let judged = limits.list().map(|limit| match limit {
        LatencyLimit::Max(most_ns) => judge_worst(latency, most_ns),
        LatencyLimit::LinuxCnc(grade) => judge_jitter(latency, grade),
    });
    judged.collect()
}

/// Checks the worst latency.
fn judge_worst(latency: &LatencyMeasurement, most_ns: u64) -> Gate<LatencyDoubt> {
    let worst = latency.worst().map(|(_, worst)| worst.late_ns);
    let mut why = latency.every_doubt();
    let least = latency.silent_below_ns();
    let held = match worst {
        Some(worst) if worst > most_ns => Some(false),
        Some(_) if why.is_empty() => Some(true),
        None if why.is_empty() && least.is_some_and(|least| least <= most_ns) => Some(true),
        _ => None,
    };
    if held == Some(false) {
        why.clear();
    }
    Gate {
        limit: GateLimit::Latency { most_ns },
        found: match (worst, least) {
            (Some(longest_ns), _) => GateFinding::Latency { longest_ns },
            (None, Some(threshold_ns)) => GateFinding::BelowThreshold { threshold_ns },
            (None, None) => GateFinding::NoLatency,
        },
        held,
        why,
    }
}

/// Checks the max jitter of every thread, in nanoseconds as LinuxCNC shows it.
fn judge_jitter(latency: &LatencyMeasurement, grade: LinuxCncGrade) -> Gate<LatencyDoubt> {
    let worst = latency.worst_jitter();
    let most_ns = grade.max_jitter_ns();
    let mut why = latency.every_doubt();
    let all_known = latency.series.iter().all(|series| series.jitter_ns.is_some());
    if worst.is_none() || !all_known {
        why.push(LatencyDoubt::JitterUnknown);
    }
    let held = match worst {
        Some((_, jitter_ns)) if jitter_ns > most_ns => Some(false),
        _ if why.is_empty() => Some(true),
        _ => None,
    };
    if held == Some(false) {
        why.clear();
    }
    Gate {
        limit: GateLimit::LinuxCnc { grade },
        found: worst.map_or(GateFinding::NoJitter, |(series, jitter_ns)| GateFinding::Jitter {
            jitter_ns,
            thread: series.thread(),
        }),
        held,
        why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::latency_of;
    use cpushield_linux::CpuSet;

    /// A measurement of one thread with this max jitter.
    fn with_jitter(jitter_ns: Option<u64>) -> LatencyMeasurement {
        let mut latency = latency_of(&[(2_000, 3)]);
        latency.series[0].jitter_ns = jitter_ns;
        latency
    }

    fn judge(latency: &LatencyMeasurement, grade: LinuxCncGrade) -> Gate<LatencyDoubt> {
        let limits = LatencyLimits { max_ns: None, linuxcnc: Some(grade) };
        judge_limits(latency, limits).remove(0)
    }

    #[test]
    fn a_grade_of_linuxcnc_holds_up_to_its_jitter() {
        for (jitter_ns, grade, held) in [
            (20_000, LinuxCncGrade::VeryGood, true),
            (20_001, LinuxCncGrade::VeryGood, false),
            (50_000, LinuxCncGrade::Good, true),
            (50_001, LinuxCncGrade::Good, false),
            (500_000, LinuxCncGrade::Hardware, true),
            (500_001, LinuxCncGrade::Hardware, false),
        ] {
            let gate = judge(&with_jitter(Some(jitter_ns)), grade);
            assert_eq!(gate.held, Some(held), "{jitter_ns} {grade}");
        }
        let gate = judge(&with_jitter(Some(20_001)), LinuxCncGrade::Good);
        assert_eq!(gate.limit.to_string(), "--linuxcnc good (50000 ns)");
        assert!(matches!(gate.found, GateFinding::Jitter { jitter_ns: 20_001, .. }));
    }

    #[test]
    fn without_a_jitter_or_with_a_doubt_a_grade_is_unknown() {
        let gate = judge(&with_jitter(None), LinuxCncGrade::Hardware);
        assert_eq!((gate.held, gate.why), (None, vec![LatencyDoubt::JitterUnknown]));
        let mut doubtful = with_jitter(Some(1));
        doubtful.doubts.push(LatencyDoubt::CpusOffline { cpus: CpuSet::single(3) });
        assert_eq!(judge(&doubtful, LinuxCncGrade::Good).held, None);
        doubtful.series[0].jitter_ns = Some(60_000);
        assert_eq!(judge(&doubtful, LinuxCncGrade::Good).held, Some(false));
    }
}
