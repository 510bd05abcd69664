//! `tracing-instance`: a trace buffer of its own is ready before the workload starts. Pure.

use super::want::setting;
use super::{Tunable, Wanted, Wants};
use crate::causes::Cause;
use crate::change::{Change, Compare, Risk};
use crate::plan::Shield;
use crate::survey::Machine;

/// Buffer of each shielded CPU in KiB: a million events, more than any shield makes in an hour.
const BUFFER_KIB: &str = "8192";

#[derive(Debug)]
pub(super) struct TracingInstance;

const PAGE: &str = "\
`cpushield verify` reads the kernel's own trace. The first event that is enabled in an instance
makes the kernel enlarge its buffers, by work on every CPU; on a CPU that a real-time task never
leaves, that work never runs, and whoever enabled the event hangs. So the instance `cpushield`
is made and its buffers are given their size while the shield is still empty. Nothing is traced
until `verify` looks.

Below 6.7 whoever gives a buffer a size first makes the kernel believe that its main buffer was
enlarged too: that one would stay tiny for whoever traces next. So before any size a 0 is written
where 0 stands, to the switch of an event: the kernel then enlarges the main buffer as the first
event that anybody enables does (1.4 MiB for each CPU, for good).

Cost: 8 MiB of memory for each shielded CPU. It removes no interruption.

Source: tracing_resize_ring_buffer() in kernel/trace/trace.c, ring_buffer_resize() in
kernel/trace/ring_buffer.c (6.12); tracing_update_buffers() in kernel/trace/trace.c and
event_enable_write() in kernel/trace/trace_events.c (6.1).";

impl Tunable for TracingInstance {
    fn name(&self) -> &'static str {
        "tracing-instance"
    }

    fn summary(&self) -> &'static str {
        "prepare a trace buffer, so that a busy shield can be watched without touching it"
    }

    fn page(&self) -> &'static str {
        PAGE
    }

    fn reads(&self) -> &'static [&'static str] {
        &[
            "/sys/kernel/tracing/instances/cpushield/tracing_on",
            "/sys/kernel/tracing/instances/cpushield/events/sched/sched_switch/enable",
            "/sys/kernel/tracing/instances/cpushield/per_cpu/*/buffer_size_kb",
        ]
    }

    fn removes(&self) -> &'static [Cause] {
        &[]
    }

    fn risk(&self) -> Risk {
        Risk::None
    }

    fn wants(&self, machine: &Machine, shield: &Shield) -> Wants {
        let Some(tracefs) = &machine.tracing.tracefs else {
            return Wants::Nothing("tracefs is not mounted".to_owned());
        };
        let dir = format!("{tracefs}/instances/cpushield");
        let made = setting(machine, &format!("{dir}/tracing_on")).is_some();
        let now = |file: &str| setting(machine, &format!("{dir}/{file}")).map(str::to_owned);
        let write = |file: &str, value: &str, compare, reason: &str| {
            Wanted::over(now(file), &format!("{dir}/{file}"), value, compare, reason)
        };
        let reason = "an instance of its own does not disturb other traces";
        let make = Wanted::new(Change::MakeDir { path: dir.clone() }, reason).already(made);
        let off = write("tracing_on", "0", Compare::Text, "nothing is recorded until asked for");
        let reason = "the kernel enlarges its main buffer now, not for whoever traces next";
        let main =
            write("events/sched/sched_switch/enable", "0", Compare::Again, reason).already(made);
        let sizes = shield.cpus.iter().map(|cpu| {
            let reason = "a buffer that has its size needs no work on the shield later";
            let file = format!("per_cpu/cpu{cpu}/buffer_size_kb");
            write(&file, BUFFER_KIB, Compare::AtLeast, reason)
        });
        Wants::Changes([make, off, main].into_iter().chain(sizes).collect())
    }
}
