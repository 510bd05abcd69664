//! LinuxCNC's assessment of the max jitter of a base and a servo thread. Pure.
//!
//! Source of the thresholds: docs/src/install/latency-test.adoc of LinuxCNC (0786cc1d8452), "what
//! do the results mean". It does not mention 50 to 100 µs, nor what 100 µs to 1 ms are good for.
//! That a machine with hardware stepping tolerates up to 500 µs is not LinuxCNC's statement but its
//! users' (`LinuxCncGrade` has the source).

use super::table::span;
use crate::documents::latency::{LatencyMeasurement, ThreadSeries};
use crate::policy::LinuxCncGrade;

/// The longest period of a base thread: each period is a step pulse, thousands per second.
const BASE_NS_MAX: u64 = 100_000;
/// The shortest period of a servo thread.
const SERVO_NS_MIN: u64 = 500_000;
/// Upper limits of the max jitter, in nanoseconds, with LinuxCNC's assessment.
const LIMITS: [(u64, &str); 4] = [
    (20_000, "very good for software stepping (20 µs or less)"),
    (50_000, "good for software stepping, at a lower step rate (50 µs or less)"),
    (
        99_999,
        "doubtful for software stepping: LinuxCNC calls 50 µs good and 100 µs or more unsuitable",
    ),
    (
        1_000_000,
        "not suitable for software stepping (100 µs or more); only for hardware step generation",
    ),
];
const BEYOND: &str = "not suitable for LinuxCNC at all (more than 1 ms)";
/// LinuxCNC asks for a test of several minutes.
const SPAN_NS_MIN: u64 = 180_000_000_000;

/// A line for each CPU with a base and a servo thread, and what the measurement lacks as a LinuxCNC
/// test; empty for other measurements.
#[must_use]
pub fn lines(latency: &LatencyMeasurement) -> Vec<String> {
    let mut lines: Vec<String> =
        latency.series.iter().filter_map(|base| assess_cpu(latency, base)).collect();
    if lines.is_empty() {
        return lines;
    }
    let mut lacks = Vec::new();
    if latency.span_ns < SPAN_NS_MIN {
        lacks.push(format!("several minutes (this was {}; --for 10m)", span(latency.span_ns)));
    }
    if latency.loads.is_empty() {
        lacks.push("a load during the measurement (--load all)".to_owned());
    }
    if !lacks.is_empty() {
        lines.push(format!("LinuxCNC's test asks for {}", lacks.join(" and ")));
    }
    lines
}

/// The assessment of the CPU of this base thread.
fn assess_cpu(latency: &LatencyMeasurement, base: &ThreadSeries) -> Option<String> {
    let is_base = latency.instrument == "timer" && (1..=BASE_NS_MAX).contains(&base.period_ns);
    let mut servos = latency.series.iter().filter(|series| series.cpu == base.cpu);
    let servo = servos.find(|series| series.period_ns >= SERVO_NS_MIN).filter(|_| is_base)?;
    let (base_jitter_ns, servo_jitter_ns) = (base.jitter_ns?, servo.jitter_ns?);
    let assessment = match servo_jitter_ns > 1_000_000 {
        true => BEYOND,
        false => assess_jitter(base_jitter_ns),
    };
    let worst_ns = base_jitter_ns.max(servo_jitter_ns);
    let range = describe_range(worst_ns);
    let certain = latency.every_doubt().is_empty() && !latency.stopped;
    let doubt = if certain { "" } else { "; the figures are doubtful" };
    Some(format!(
        "LinuxCNC, CPU {}: max jitter {} (base), {} (servo): {assessment}; {range}{doubt}",
        base.cpu,
        span(base_jitter_ns),
        span(servo_jitter_ns)
    ))
}

/// The range of the limits named `linuxcnc`, in nanoseconds as LinuxCNC's own test shows them.
fn describe_range(jitter_ns: u64) -> String {
    match LinuxCncGrade::of_jitter(jitter_ns) {
        Some(grade) => {
            format!("{jitter_ns} ns meets --linuxcnc {grade} (up to {} ns)", grade.max_jitter_ns())
        }
        None => {
            let last = LinuxCncGrade::Hardware;
            format!("{jitter_ns} ns exceeds --linuxcnc {last} ({} ns)", last.max_jitter_ns())
        }
    }
}

fn assess_jitter(jitter_ns: u64) -> &'static str {
    LIMITS.iter().find(|(limit, _)| jitter_ns <= *limit).map_or(BEYOND, |(_, words)| words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::latency::LatencyDoubt;
    use crate::latency::latency_of;
    use cpushield_linux::CpuSet;

    /// A base thread of 25 µs and a servo thread of 1 ms with these max jitters.
    fn pair(base_ns: u64, servo_ns: u64) -> LatencyMeasurement {
        let mut latency = latency_of(&[(2_000, 3)]);
        let mut base = latency.series[0].clone();
        (base.period_ns, base.jitter_ns) = (25_000, Some(base_ns));
        latency.series[0].period_ns = 1_000_000;
        latency.series[0].jitter_ns = Some(servo_ns);
        latency.series.push(base);
        latency
    }

    #[test]
    fn the_assessment_follows_the_documentation() {
        for (base, servo, wanted) in [
            (20_000, 30_000, "very good"),
            (20_001, 30_000, "lower step rate"),
            (50_000, 900_000, "lower step rate"),
            (50_001, 30_000, "doubtful for software stepping"),
            (100_000, 30_000, "only for hardware"),
            (1_000_000, 30_000, "1000000 ns exceeds --linuxcnc hardware (500000 ns)"),
            (400_000, 30_000, "400000 ns meets --linuxcnc hardware (up to 500000 ns)"),
            (1_000_001, 30_000, "at all"),
            (20_000, 1_000_001, "at all"),
        ] {
            let text = lines(&pair(base, servo)).join("\n");
            assert!(text.contains(wanted), "{base} {servo}: {text}");
            assert!(text.contains("several minutes") && text.contains("--load all"), "{text}");
        }
    }

    #[test]
    fn other_measurements_are_not_assessed_and_doubts_are_shown() {
        let mut latency = pair(5_000, 5_000);
        latency.series[0].period_ns = 200_000;
        assert_eq!(lines(&latency), Vec::<String>::new());
        let mut spin = pair(5_000, 5_000);
        spin.instrument = "timerfd".to_owned();
        assert_eq!(lines(&spin), Vec::<String>::new());
        let mut doubtful = pair(5_000, 5_000);
        doubtful.doubts.push(LatencyDoubt::CpusOffline { cpus: CpuSet::single(3) });
        assert!(lines(&doubtful)[0].ends_with("the figures are doubtful"));
    }
}
