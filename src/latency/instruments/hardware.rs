//! `hardware`: the hwlat tracer. A kernel thread polls the clock with interrupts disabled; time
//! that is missing then was lost to firmware, hypervisor or hardware.

use super::{Instrument, InstrumentRefusal};
use crate::documents::count_text::joined;
use crate::latency::settings::SettingTime;
use crate::latency::tracer::{
    self, LatencyTracer, MeasuredThreads, TracerJob, TracerSample, TracerUse,
};
use crate::latency::{LatencyNote, TracerRefusal};
use cpushield_linux::Host;
use cpushield_linux::shared_memory::latency_stats::WakeEvent;
use cpushield_linux::trace::tracefs::Tracefs;

/// How long interrupts are off in each window, in microseconds.
const WIDTH_US: u64 = 10_000;
/// The length of a window in microseconds. With the kernel's default of 500 ms in each second,
/// other CPUs would wait for as long.
const WINDOW_US: u64 = 20_000;
/// The tracer records gaps of more than this many whole microseconds.
const THRESHOLD_US: u64 = 1;

/// Its tracer.
#[derive(Debug)]
pub struct HardwareTracer;

pub(super) const HARDWARE: Instrument = Instrument {
    name: "hardware",
    summary: "time lost to firmware, hypervisor or hardware (hwlat tracer), and the number of SMIs",
    page: "The kernel's hwlat tracer has a thread on each measured CPU. It disables interrupts for \
     10 ms and polls the clock during that time. Then it sleeps for 10 ms, rounded up to whole \
     ticks of CONFIG_HZ. While interrupts are disabled, only an NMI or a machine check can \
     run. So a gap between two reads of the clock comes from one of those or from below the \
     kernel: firmware (system management mode), a hypervisor, the memory, the bus. No other \
     instrument disturbs the CPU as much: everything else on it stops for 10 ms, and so does \
     any CPU that waits for it. The instrument is refused while a program runs in the shield; \
     never use it on a production machine.\n\n\
     A sample is the longest gap of one such window, if that gap is 2 µs or longer. The tracer \
     rounds down to whole microseconds; the result shows the next higher microsecond, which \
     the gap did not reach. The time of a sample is the end of its window, up to 10 ms later. \
     At least half of the time is not observed, so rare events need long runs. A run without a \
     gap is a result, too.\n\n\
     The result also shows the number of SMIs that the processor counted on each CPU (Intel: \
     MSR 0x34, through the msr module; AMD: an event from Zen 2 on; `cpushield explain smi`). \
     A gap without an SMI was not caused by the firmware, or the processor does not count \
     SMIs. `latency spin` sees the same gaps without disabling anything, but cannot \
     distinguish them from gaps that the kernel causes.\n\n\
     The tracer's settings and tracing_thresh affect the whole machine. They are restored like \
     those of `kernel`.\n\n\
     Source: Documentation/trace/hwlat_detector.rst; get_sample(), kthread_fn() and \
     hwlat_tracer_reset() in kernel/trace/trace_hwlat.c (6.12); per-cpu mode since 5.14; Intel \
     SDM volume 4, MSR_SMI_COUNT.",
    possible,
    is_endless: true,
    tracer: Some(&HardwareTracer),
    ..Instrument::PLAIN
};

fn possible(host: &Host) -> Result<(), InstrumentRefusal> {
    tracer::possible(&HardwareTracer, host).map_err(InstrumentRefusal::GapTracer)
}

impl LatencyTracer for HardwareTracer {
    fn name(&self) -> &'static str {
        "hwlat"
    }

    fn config(&self) -> &'static str {
        "CONFIG_HWLAT_TRACER"
    }

    fn conflicting_tracers(&self) -> &'static [&'static str] {
        // It would distort the figures of the first two. All others also use tracing_thresh.
        &[
            "osnoise",
            "timerlat",
            "hwlat",
            "irqsoff",
            "preemptoff",
            "preemptirqsoff",
            "wakeup",
            "wakeup_rt",
            "wakeup_dl",
            "function_graph",
        ]
    }

    fn fields(&self) -> &'static [&'static str] {
        &["duration", "outer_duration"]
    }

    fn plan_use(
        &self,
        host: &Host,
        tracefs: &Tracefs,
        job: &TracerJob<'_>,
    ) -> Result<TracerUse, TracerRefusal> {
        let mut mode = tracer::setting(host, tracefs, "hwlat_detector/mode", "per-cpu")
            .map_err(|error| TracerRefusal::NoPerCpuMode { error })?;
        let chosen = mode.was.split_whitespace();
        let chosen = chosen.filter_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
        mode.was = joined(chosen, " ");
        let (width_us, window_us) = (WIDTH_US.to_string(), WINDOW_US.to_string());
        let width = tracer::setting(host, tracefs, "hwlat_detector/width", &width_us)?;
        let window = tracer::setting(host, tracefs, "hwlat_detector/window", &window_us)?;
        // The width must be less than the window after each write.
        let window_first_fits = window.was.parse().is_ok_and(|was: u64| was > WIDTH_US);
        let [first, second] = if window_first_fits { [width, window] } else { [window, width] };
        let threshold_us = THRESHOLD_US.to_string();
        let mut threshold = tracer::setting(host, tracefs, "tracing_thresh", &threshold_us)?;
        threshold.when = SettingTime::Running;
        Ok(TracerUse {
            settings: vec![mode, first, second, threshold],
            threads: MeasuredThreads::Uninterruptible("hwlatd/"),
            stages: vec![None],
            threshold_ns: (THRESHOLD_US + 1) * 1000,
            counts_smis: true,
            notes: vec![LatencyNote::InterruptsDisabled {
                cpus: job.cpus.clone(),
                width_ns: WIDTH_US * 1000,
                window_ns: WINDOW_US * 1000,
            }],
        })
    }

    fn sample(&self, values: &[u64], at_ns: u64, _job: &TracerJob<'_>) -> Option<TracerSample> {
        let [inner_us, outer_us, ..] = values else { return None };
        let late_ns = inner_us.max(outer_us).checked_add(1)?.checked_mul(1000)?;
        let wake = WakeEvent { due_ns: at_ns.checked_sub(late_ns)?, woke_ns: at_ns, missed: 0 };
        Some(TracerSample { stage: 0, wake, number: None })
    }
}
