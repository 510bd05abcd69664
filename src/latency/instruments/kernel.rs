//! `kernel`: the timerlat tracer. The kernel itself records how late its timer's interrupt, the
//! woken thread and that thread's return to user mode were.

use super::{Instrument, InstrumentRefusal, ThreadRefusal, ThreadTask};
use crate::latency::tracer::{
    self, LatencyTracer, MeasuredThreads, TracerJob, TracerSample, TracerUse,
};
use crate::latency::{LatencyNote, TracerRefusal, WakeupStage};
use cpushield_linux::shared_memory::latency_stats::{
    EventSource, LatencyStats, WakeEvent, measure,
};
use cpushield_linux::sys::clock::sleep_until;
use cpushield_linux::trace::tracefs::{TimerlatFile, Tracefs, list_for_tracer};
use cpushield_linux::{Host, sys::clock};
use std::io;

/// The range of `osnoise/timerlat_period_us` (`timerlat_min_period` and `_max_period`).
const PERIODS_NS: std::ops::RangeInclusive<u64> = 100_000..=1_000_000_000;

/// Its tracer.
#[derive(Debug)]
pub struct KernelTracer;

pub(super) const KERNEL: Instrument = Instrument {
    name: "kernel",
    summary: "the kernel's own measurement (timerlat): interrupt, thread and return to user mode separately",
    page: "The kernel's timerlat tracer, which rtla uses too, arms a timer on each measured CPU. It \
     records how late each stage of a wakeup was. All stages count from the moment when the \
     timer was due. `irq`: its handler ran. This includes code with interrupts disabled, other \
     interrupts, an idle state of the CPU, and everything below the kernel. `thread`: the \
     thread that it woke ran. This adds the scheduler, later interrupts, softirqs, threads of \
     higher priority, and code that cannot be preempted. `user`: that thread was back in user \
     mode and made its next system call. Each stage includes the stages before it. The result \
     shows the stages separately and never adds them up.\n\n\
     From 6.5 on, cpushield provides the threads. They run in the shield's cgroup, with the \
     requested policy, as with `timer`. Older kernels have no `user` stage and use kernel \
     threads, timerlat/N, which start as SCHED_FIFO 95. They get the requested policy, are not \
     part of a shield, and are bound to their CPU, shielded or not. The timer is pinned to its \
     CPU, so the figures include no other CPU, even with nohz_full. All CPUs have the same \
     period, between 100us and 1s.\n\n\
     The tracer does more than measure: while it runs, the kernel calls it in every interrupt, \
     softirq and context switch of every CPU, which adds a little time to each. Its settings \
     affect the whole machine. They are restored at the end; if this process is killed, \
     `undo`, `status` or the next measurement by a tracer restores them. The instrument \
     refuses to run while another process uses this tracer or osnoise. A housekeeping CPU \
     reads the records as raw pages from a private trace instance. A missing record makes its \
     series doubtful.\n\n\
     Source: Documentation/trace/timerlat-tracer.rst; timerlat_irq(), timerlat_main(), \
     timerlat_fd_read() and wait_next_period() in kernel/trace/trace_osnoise.c (6.12); \
     instances since commit dae181349f1e (5.17), timerlat_fd since e88ed227f639 (6.5).",
    possible,
    check_period,
    has_one_period: true,
    tracer: Some(&KernelTracer),
    run,
    ..Instrument::PLAIN
};

fn possible(host: &Host) -> Result<(), InstrumentRefusal> {
    Ok(tracer::possible(&KernelTracer, host)?)
}

fn check_period(period_ns: u64) -> Result<(), ThreadRefusal> {
    if !PERIODS_NS.contains(&period_ns) || !period_ns.is_multiple_of(1_000) {
        return Err(ThreadRefusal::NotTracerPeriod);
    }
    Ok(())
}

fn run(host: &Host, task: &ThreadTask, tally: &LatencyStats) {
    // The first read starts the first period.
    let file =
        sleep_until(task.begin_ns).and_then(|()| TimerlatFile::open(host, task.settings.cpu));
    match file {
        Ok(file) => measure(&mut KernelCaller { file }, tally, task.settings),
        Err(error) => tally.fail(&error),
    }
}

struct KernelCaller {
    file: TimerlatFile,
}

fn has_option(options: &str, wanted: &str) -> bool {
    options.split_whitespace().any(|option| option == wanted)
}

impl EventSource for KernelCaller {
    #[inline]
    fn wait(&mut self) -> io::Result<WakeEvent> {
        self.file.wait()?;
        // The kernel's records have the latency; this tally only shows that the thread runs.
        let now = clock::monotonic_ns();
        Ok(WakeEvent { due_ns: now, woke_ns: now, missed: 0 })
    }
}

impl LatencyTracer for KernelTracer {
    fn name(&self) -> &'static str {
        "timerlat"
    }

    fn config(&self) -> &'static str {
        "CONFIG_TIMERLAT_TRACER"
    }

    fn conflicting_tracers(&self) -> &'static [&'static str] {
        &["osnoise", "timerlat"]
    }

    fn fields(&self) -> &'static [&'static str] {
        &["context", "timer_latency", "seqnum"]
    }

    fn plan_use(
        &self,
        host: &Host,
        tracefs: &Tracefs,
        job: &TracerJob<'_>,
    ) -> Result<TracerUse, TracerRefusal> {
        let root = tracefs.root();
        let options = host.read_line(&format!("{root}/osnoise/options")).unwrap_or_default();
        let workload = has_option(&options, "OSNOISE_WORKLOAD");
        let first = job.cpus.iter().next().unwrap_or(0);
        let has_file = host.exists(&format!("{root}/{}", TimerlatFile::path(first)));
        let ours = has_file && (workload || has_option(&options, "NO_OSNOISE_WORKLOAD"));
        let set = |file: &str, wanted: &str| tracer::setting(host, tracefs, file, wanted);
        let mut settings = vec![
            set("osnoise/cpus", &list_for_tracer(job.cpus))?,
            set("osnoise/timerlat_period_us", &(job.period_ns / 1000).to_string())?,
            // A limit that another program left there would end the trace.
            set("osnoise/stop_tracing_us", "0")?,
            set("osnoise/stop_tracing_total_us", "0")?,
        ];
        // Only with CONFIG_STACKTRACE.
        settings.extend(set("osnoise/print_stack", "0"));
        if ours && workload {
            let mut option = set("osnoise/options", "NO_OSNOISE_WORKLOAD")?;
            option.was = "OSNOISE_WORKLOAD".to_owned();
            settings.push(option);
        }
        let mut stages = vec![Some(WakeupStage::Irq), Some(WakeupStage::Thread)];
        let mut notes = Vec::new();
        if ours {
            stages.push(Some(WakeupStage::User));
        } else {
            notes.push(LatencyNote::UserReturnNotMeasured);
        }
        let threads =
            if ours { MeasuredThreads::Ours } else { MeasuredThreads::Kernels("timerlat/") };
        Ok(TracerUse { settings, threads, stages, threshold_ns: 0, counts_smis: false, notes })
    }

    fn sample(&self, values: &[u64], at_ns: u64, job: &TracerJob<'_>) -> Option<TracerSample> {
        let [context, late_ns, number, ..] = values else { return None };
        // IRQ_CONTEXT, THREAD_CONTEXT, THREAD_URET.
        let stage = usize::try_from(*context).ok().filter(|stage| *stage <= 2)?;
        // A larger value is a negative difference.
        let late_ns = Some(*late_ns).filter(|late| i64::try_from(*late).is_ok())?;
        // The record was made shortly after the clock was read.
        let due_ns = at_ns.saturating_sub(late_ns);
        let missed = late_ns.checked_div(job.period_ns).unwrap_or(0);
        let wake = WakeEvent { due_ns, woke_ns: at_ns, missed };
        Some(TracerSample { stage, wake, number: u32::try_from(*number).ok() })
    }
}
