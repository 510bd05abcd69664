//! Options of the running kernel that cost latency even when nothing uses them. The severity is
//! that of Documentation/core-api/real-time/kernel-configuration.rst (Linux, 3160c8de3ae5).

use super::{AdviceSource, SubjectReading, SurveyFinding};

/// An option, the name of its finding, and why it should be off. All of them have the severity
/// "high" in the kernel's document.
const OPTIONS: &[(&str, &str, &str)] = &[
    (
        "CONFIG_PROVE_LOCKING",
        "prove-locking",
        "the kernel checks every lock, which makes worst-case latencies much longer",
    ),
    (
        "CONFIG_LOCKUP_DETECTOR",
        "lockup-detector",
        "every few seconds, timers of the lockup detector interrupt each watched CPU; a shield \
         takes its CPUs out (tunable watchdog), and nowatchdog on the kernel command line \
         disables the detector",
    ),
    ("CONFIG_IRQSOFF_TRACER", "irqsoff-tracer", "it adds latency even when nothing is traced"),
    ("CONFIG_PREEMPT_TRACER", "preempt-tracer", "it adds latency even when nothing is traced"),
];

pub(super) fn read(source: &AdviceSource<'_>) -> SubjectReading {
    let config = &source.machine.kernel.config;
    if config.is_empty() {
        return None;
    }
    // Without the detectors running, their option costs nothing.
    let unwatched = source.r.line("/proc/sys/kernel/watchdog").is_some_and(|text| text == "0");
    let is_on = |option: &str| {
        let set = config.get(option).is_some_and(|value| value == "y");
        set && !(unwatched && option == "CONFIG_LOCKUP_DETECTOR")
    };
    let found = OPTIONS.iter().filter(|(option, ..)| is_on(option));
    Some(found.map(|(option, name, why)| advise(option, name, why)).collect())
}

fn advise(option: &str, name: &str, why: &str) -> SurveyFinding {
    let advice = format!(
        "{why}; the kernel's documentation on real-time options gives it the severity high"
    );
    SurveyFinding::new(name, format!("the kernel was built with {option}"), &advice)
}
