//! `hardware`: the hwlat tracer. A thread of the kernel looks at the clock without end while
//! interrupts are off; what is missing then was taken by something below the kernel.

use super::{Instrument, ThreadTask};
use crate::latency::tracer::{
    self, LatencyTracer, MeasuredThreads, TracerJob, TracerSample, TracerUse,
};
use cpushield_linux::Host;
use cpushield_linux::latency_stats::{LatencyStats, WakeEvent};
use cpushield_linux::tracefs::Tracefs;

/// Interrupts are off for so many microseconds
const WIDTH_US: u64 = 10_000;
/// of every so many. The kernel's own 500 ms in a second would make other CPUs wait for as long.
const WINDOW_US: u64 = 20_000;
/// The least that the tracer tells apart, in microseconds.
const THRESHOLD_US: u64 = 1;

/// See the file.
#[derive(Debug)]
pub struct HardwareInstrument;

impl Instrument for HardwareInstrument {
    fn name(&self) -> &'static str {
        "hardware"
    }

    fn summary(&self) -> &'static str {
        "time that is taken below the kernel: hwlat, and the count of SMIs"
    }

    fn page(&self) -> &'static str {
        "The hwlat tracer of the kernel has a thread on each CPU that turns interrupts off for 10 \
         ms of every 20 ms, and looks at the clock without end meanwhile. Nothing of the kernel \
         can run then but an NMI, so time between two looks was taken by the firmware (system \
         management mode), by a hypervisor, by the memory or the bus. It disturbs the CPU as \
         nothing else does: whatever else runs there stands still for 10 ms, and a CPU that waits \
         for it waits too. So it is refused while a program of the shield is running there; never \
         use it on a machine at work.\n\n\
         A sample is the longest gap of one such look, when that is longer than a microsecond; the \
         tracer tells whole microseconds. Its time is that of the end of the look, up to 10 ms \
         later. What happens in the other half of the time is not seen: rare events need long \
         runs. That nothing was seen is a result.\n\n\
         It also shows how many SMIs the processor counted on each CPU (MSR 0x34 of Intel's, by \
         the msr module; an event of AMD's from Zen 2 on; `cpushield explain smi`). Gaps without \
         an SMI are not the firmware's, or are those of a processor that does not count them. \
         `latency spin` sees the same gaps without turning anything off, but cannot tell them \
         from the kernel's.\n\n\
         The tracer's settings and tracing_thresh are for the whole machine, and are put back as \
         those of `kernel` are.\n\n\
         Source: Documentation/trace/hwlat_detector.rst; get_sample(), kthread_cpu_fn() and \
         hwlat_tracer_reset() in kernel/trace/trace_hwlat.c (6.12); per-cpu mode since 5.14; \
         Intel SDM volume 4, MSR_SMI_COUNT."
    }

    fn possible(&self, host: &Host) -> Result<(), String> {
        tracer::possible(self, host).map_err(|why| {
            format!(
                "{why}; `cpushield latency spin` sees such gaps too, but cannot tell them from \
                 those of the kernel"
            )
        })
    }

    fn is_endless(&self) -> bool {
        true
    }

    fn tracer(&self) -> Option<&'static dyn LatencyTracer> {
        Some(&HardwareInstrument)
    }

    fn run(&self, _task: &ThreadTask, _tally: &LatencyStats) {
        // Threads of the kernel measure.
    }
}

impl LatencyTracer for HardwareInstrument {
    fn name(&self) -> &'static str {
        "hwlat"
    }

    fn config(&self) -> &'static str {
        "CONFIG_HWLAT_TRACER"
    }

    fn rivals(&self) -> &'static [&'static str] {
        // It would be late in the figures of the first two, all others go by tracing_thresh too.
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

    fn uses(
        &self,
        host: &Host,
        tracefs: &Tracefs,
        job: &TracerJob<'_>,
    ) -> Result<TracerUse, String> {
        let set = |file: &str, wanted: &str| tracer::setting(host, tracefs, file, wanted);
        let mut mode = set("hwlat_detector/mode", "per-cpu")
            .map_err(|why| format!("this kernel's hwlat has no mode per-cpu (5.14): {why}"))?;
        let chosen = mode.was.split_whitespace();
        mode.was = chosen
            .filter_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
            .collect::<Vec<_>>()
            .join(" ");
        let width = set("hwlat_detector/width", &WIDTH_US.to_string())?;
        let window = set("hwlat_detector/window", &WINDOW_US.to_string())?;
        // The width is less than the window after each write.
        let wide = window.was.parse().is_ok_and(|was: u64| was > WIDTH_US);
        let [first, second] = if wide { [width, window] } else { [window, width] };
        let mut threshold = set("tracing_thresh", &THRESHOLD_US.to_string())?;
        threshold.at_work = true;
        let (width_ms, window_ms) = (WIDTH_US / 1000, WINDOW_US / 1000);
        Ok(TracerUse {
            settings: vec![mode, first, second, threshold],
            threads: MeasuredThreads::Uninterruptible("hwlatd/"),
            stages: vec![None],
            threshold_ns: THRESHOLD_US * 1000,
            counts_smis: true,
            notes: vec![format!(
                "interrupts were off on CPU {} for {width_ms} ms of every {window_ms} ms: whatever \
                 else was to run there stood still, and what happened in between was not seen",
                job.cpus
            )],
        })
    }

    fn sample(&self, values: &[u64], at_ns: u64, _job: &TracerJob<'_>) -> Option<TracerSample> {
        let [inner_us, outer_us, ..] = values else { return None };
        let late_ns = inner_us.max(outer_us).checked_mul(1000)?;
        let wake = WakeEvent { due_ns: at_ns.checked_sub(late_ns)?, woke_ns: at_ns, missed: 0 };
        Some(TracerSample { stage: 0, wake, number: None })
    }
}
