//! Raw pages through the whole trace witness: never a panic, and the interruptions listed are as
//! many as were counted.
#![no_main]

use cpushield::trace::replay::{PageReplay, RecordedTrace};
use cpushield_linux::sys::clock::{ClockTicks, TickScale};
use cpushield_linux::trace::ring_buffer::PageLayout;
use cpushield_linux::text::kallsyms::KernelSymbols;
use cpushield_linux::text::trace_format::EventFormat;
use libfuzzer_sys::fuzz_target;

/// Events of the catalogue with small numbers and all fields at the same place, so that few bytes
/// make an event.
const EVENTS: &[(&str, &str, &str)] = &[
    ("irq_vectors", "local_timer_entry", ""),
    ("irq_vectors", "local_timer_exit", ""),
    ("irq_vectors", "reschedule_entry", ""),
    ("irq_vectors", "reschedule_exit", ""),
    ("irq", "irq_handler_entry", "int irq;__data_loc char[] name"),
    ("irq", "irq_handler_exit", ""),
    ("irq", "softirq_entry", "unsigned int vec"),
    ("irq", "softirq_exit", ""),
    ("irq", "softirq_raise", "unsigned int vec"),
    ("timer", "hrtimer_expire_entry", "int function"),
    ("workqueue", "workqueue_execute_start", "int function"),
    ("sched", "sched_switch", "int prev_state;int next_pid;char next_comm[4]"),
    ("exceptions", "page_fault_user", ""),
    ("nmi", "nmi_handler", "int handler;int delta_ns;int handled"),
    ("raw_syscalls", "sys_enter", "int id"),
    ("raw_syscalls", "sys_exit", ""),
    ("context_tracking", "user_exit", ""),
    ("context_tracking", "user_enter", ""),
];

fn formats() -> Vec<(String, String, EventFormat)> {
    let format = |id: usize, fields: &str| {
        let mut text = format!("ID: {id}\n");
        for (field, offset) in [
            ("unsigned short common_type", "offset:0;size:2"),
            ("unsigned char common_flags", "offset:2;size:1"),
            ("int common_pid", "offset:0;size:4"),
        ] {
            text.push_str(&format!("field:{field};{offset};\n"));
        }
        for (n, field) in fields.split(';').filter(|field| !field.is_empty()).enumerate() {
            text.push_str(&format!("field:{field};offset:{};size:4;\n", 4 + 4 * n));
        }
        EventFormat::parse(&text).expect("a format written here")
    };
    let event = |(id, (system, name, fields)): (usize, &(&str, &str, &str))| {
        ((*system).to_owned(), (*name).to_owned(), format(id, fields))
    };
    EVENTS.iter().enumerate().map(event).collect()
}

fuzz_target!(|bytes: &[u8]| {
    let mut replay = PageReplay::new(RecordedTrace {
        cpu: 0,
        layout: PageLayout::COMMON,
        formats: &formats(),
        symbols: KernelSymbols::default(),
        scale: TickScale { ns_per_tick: 1.0, error_ppm: 0.0 },
        workload: &[0x0001_0000, 0x0001_0002],
    });
    for page in bytes.chunks(256) {
        replay.page(page);
    }
    let evidence = replay.end_phase(ClockTicks(u64::MAX));
    let listed: u64 = evidence.interruptions.iter().map(|row| row.count).sum();
    assert_eq!(evidence.interruption_count, listed);
});
