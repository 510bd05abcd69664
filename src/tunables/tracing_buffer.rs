//! `tracing-buffer`: lets `verify` start a trace without waiting for a busy CPU. Pure.

use super::want::setting;
use super::{Tunable, WantedChange, WantedChanges};
use crate::change::{Risk, ValueComparison};
use crate::documents::inapplicable::InapplicableReason;
use crate::documents::machine::{Machine, TunableReading};
use crate::documents::plan::{MachineWideEffect, Shield};
use cpushield_linux::text::size::will_grow;

const PAGE: &str = "\
`cpushield verify` reads the kernel's trace events. Before 6.7, the kernel enlarges its main trace
buffer when a program enables the first event after boot. It does so with a work item on every CPU.
If a real-time task never leaves its CPU, the work item never runs there, and the program that
enabled the event hangs. So apply makes the kernel enlarge the buffer while the shield is still
empty: it writes 0 to the `enable` file of an event that is already off. This traces nothing.

Since 6.7 (commit a1f157c7a3bb) the trace instance of `verify` has its own full-size buffers from
the start. cpushield recognizes such kernels by `buffer_subbuf_size_kb` (6.8 and later), and changes
nothing there.

Cost: 1.4 MiB per CPU until reboot (unless `trace_buf_size=` sets another size), as with any use of
tracing. This tunable removes no interruption. The work items also run on the CPUs of other shields.
So apply does not enlarge the buffer while another shield is active, unless you pass `--disturb`.

Source: tracing_update_buffers() in kernel/trace/trace.c, event_enable_write() in
kernel/trace/trace_events.c, ring_buffer_resize() in kernel/trace/ring_buffer.c (6.1);
buffer_subbuf_size_kb in Documentation/trace/ftrace.rst (6.8).";

/// Files below tracefs.
const SIZE: &str = "buffer_size_kb";
const SUBBUF_SIZE: &str = "buffer_subbuf_size_kb";
const SWITCH: &str = "events/sched/sched_switch/enable";

pub(super) const TRACING_BUFFER: Tunable = Tunable {
    name: "tracing-buffer",
    summary: "enlarge the kernel's trace buffer early, so that `verify` can trace a busy shield",
    page: PAGE,
    reads: &[
        "/sys/kernel/tracing/buffer_size_kb",
        "/sys/kernel/tracing/buffer_subbuf_size_kb",
        "/sys/kernel/tracing/events/sched/sched_switch/enable",
    ],
    risk: Risk::None,
    disturbs_others: Some(MachineWideEffect::QueuesWork),
    wants,
    ..Tunable::PLAIN
};

fn wants(machine: &Machine, _: &Shield) -> WantedChanges {
    let Some(tracefs) = &machine.tracing.tracefs else {
        return WantedChanges::Nothing(match machine.tracing.supported {
            Some(false) => InapplicableReason::NoTraceInstances,
            _ => InapplicableReason::TracefsUnmounted,
        });
    };
    if setting(machine, &format!("{tracefs}/{SUBBUF_SIZE}")).is_some() {
        return WantedChanges::Nothing(InapplicableReason::OwnTraceBuffers);
    }
    let (size_path, path) = (format!("{tracefs}/{SIZE}"), format!("{tracefs}/{SWITCH}"));
    let (Some(size), Some(switch)) = (setting(machine, &size_path), setting(machine, &path)) else {
        let why = why_unreadable(machine, &size_path);
        let why = why.or_else(|| why_unreadable(machine, &path));
        return WantedChanges::Nothing(why.unwrap_or(InapplicableReason::PathAbsent { path }));
    };
    let reason = "the kernel then enlarges its main trace buffer now, not when a trace starts";
    let switch = Some(switch.to_owned());
    let wanted = WantedChange::write(switch, &path, "0", ValueComparison::Again, reason);
    WantedChanges::Changes(vec![wanted.already_if(!will_grow(size))])
}

/// Why a file has no text; `None` when it has one.
fn why_unreadable(machine: &Machine, path: &str) -> Option<InapplicableReason> {
    let path_text = path.to_owned();
    match machine.settings.get(path) {
        Some(TunableReading::Value(_)) => None,
        Some(TunableReading::Unreadable(answer)) => {
            let answer = answer.clone();
            Some(InapplicableReason::PathUnreadable { path: path_text, answer })
        }
        Some(TunableReading::Absent) => Some(InapplicableReason::PathAbsent { path: path_text }),
        // The survey reads no files below debugfs.
        None => Some(InapplicableReason::SettingUnknown { file: path_text }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{choose, fake::plain};
    use crate::policy::ShieldRequest;

    #[test]
    fn an_unreadable_file_is_reported_as_unreadable_and_not_as_absent() {
        let mut m = plain(2);
        let shield = choose(&m, &ShieldRequest::default()).unwrap().shield;
        let why = |m: &Machine| match wants(m, &shield) {
            WantedChanges::Nothing(why) => why.to_string(),
            WantedChanges::Changes(wanted) => format!("{} changes", wanted.len()),
        };
        assert_eq!(why(&m), "tracefs is not mounted");
        m.tracing.supported = Some(false);
        assert!(why(&m).starts_with("this kernel has no trace instances"));
        m.tracing.tracefs = Some("/t".to_owned());
        m.settings
            .insert(format!("/t/{SIZE}"), TunableReading::Value("7 (expanded: 1408)".to_owned()));
        let unread = format!("it is unknown whether this kernel has /t/{SWITCH}");
        assert_eq!(why(&m), unread);
        m.settings.insert(format!("/t/{SWITCH}"), TunableReading::Absent);
        assert_eq!(why(&m), format!("/t/{SWITCH} does not exist"));
        let now = TunableReading::Unreadable("EACCES: Permission denied".to_owned());
        m.settings.insert(format!("/t/{SWITCH}"), now);
        assert_eq!(why(&m), format!("/t/{SWITCH} cannot be read: EACCES: Permission denied"));
        let now = TunableReading::Value("0".to_owned());
        m.settings.insert(format!("/t/{SWITCH}"), now);
        assert_eq!(why(&m), "1 changes");
    }
}
