//! Decodes raw records into [`TraceEvent`]s with the formats of the running kernel. Pure.

use super::stacks::StackForm;
use super::trace_events::{self, EventFields, EventKind, EventSpec};
use cpushield_linux::text::trace_format::{EventField, EventFormat};
use cpushield_linux::trace::ring_buffer::RawRecord;

/// Flags of `common_flags` that request a reschedule on the way back to user mode
/// (`TRACE_FLAG_NEED_RESCHED` and `_LAZY`, include/linux/trace_events.h; the lazy one is 0x02
/// on RT kernels from 6.1 and on all kernels from 6.13, and never set on other x86 kernels).
const NEED_RESCHED: u64 = 0x04 | 0x02;

/// Bits of `prev_state`; a task that was preempted has none of them
/// (`TASK_REPORT`, include/linux/sched.h, 4.14 to 6.18).
const BLOCKED: u64 = 0xff;

/// `TASK_UNINTERRUPTIBLE` in `prev_state` (the same file).
const UNINTERRUPTIBLE: u64 = 0x02;

/// Priorities of real-time tasks in events: 0 is the highest, and those of other tasks are higher
/// numbers. Tasks of SCHED_DEADLINE have -1 (include/linux/sched/prio.h, 4.17 to 6.18).
const REAL_TIME: std::ops::Range<i32> = 0..100;

/// A short name, stored without allocation; longer names are truncated.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ShortName([u8; 24]);

impl ShortName {
    /// From bytes up to the first NUL.
    #[must_use]
    pub fn new(bytes: &[u8]) -> ShortName {
        let mut name = [0; 24];
        for (place, byte) in name.iter_mut().zip(bytes.iter().take_while(|byte| **byte != 0)) {
            *place = *byte;
        }
        ShortName(name)
    }

    /// Whether it begins with these bytes.
    #[must_use]
    pub fn starts_with(&self, bytes: &[u8]) -> bool {
        self.0.starts_with(bytes)
    }

    /// As text; bytes that are not UTF-8 are replaced.
    #[must_use]
    pub fn text(&self) -> String {
        let used = self.0.split(|byte| *byte == 0).next().unwrap_or(&[]);
        String::from_utf8_lossy(used).into_owned()
    }
}

impl std::fmt::Debug for ShortName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.text())
    }
}

/// Why a task no longer runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskLeft {
    /// It waits for something, or it ended.
    Blocks,
    /// It waits and signals do not wake it, as for a page that is read.
    Waits,
    /// It was preempted.
    Preempted,
    /// It is a real-time task that could run, and one of lower priority runs: its CPU time was used
    /// up, or the kernel serves the others.
    Overtaken,
}

impl TaskLeft {
    /// Whether it runs again only when it is woken.
    #[must_use]
    pub fn sleeps(self) -> bool {
        matches!(self, TaskLeft::Blocks | TaskLeft::Waits)
    }

    /// From `prev_state`, `prev_prio` and `next_prio`.
    fn from_fields(state: u64, priority: i32, next_priority: i32) -> TaskLeft {
        if state & UNINTERRUPTIBLE != 0 {
            TaskLeft::Waits
        } else if state & BLOCKED != 0 {
            TaskLeft::Blocks
        } else if REAL_TIME.contains(&priority) && next_priority > priority {
            TaskLeft::Overtaken
        } else {
            TaskLeft::Preempted
        }
    }
}

/// An event on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceEvent {
    /// When, in ticks of the trace clock.
    pub at: u64,
    /// The running task (`common_pid`); for a switch, the previous task.
    pub pid: i32,
    /// Whether a reschedule is requested before the return to user mode.
    pub resched: bool,
    /// Its kind.
    pub kind: EventKind,
    /// Its values.
    pub values: EventValues,
}

/// The values of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventValues {
    /// None.
    Nothing,
    /// A function's address, a bit mask, or a number of something.
    Number(u64),
    /// A device interrupt.
    Irq {
        /// Its number.
        number: u32,
        /// The name it was requested with.
        name: ShortName,
    },
    /// A switch.
    Switch {
        /// Why the previous task no longer runs.
        left: TaskLeft,
        /// The next task.
        pid: i32,
        /// Its command name.
        comm: ShortName,
    },
    /// The tick.
    Tick {
        /// Whether it was stopped.
        stopped: bool,
        /// What it is needed for: bits of `enum tick_dep_bits` (include/linux/tick.h).
        needed: u8,
    },
    /// A signal.
    Signal {
        /// Its number.
        number: u8,
        /// `si_code`, which identifies the sender.
        code: i32,
    },
    /// A fork.
    Fork {
        /// The parent task.
        parent: i32,
        /// The new task.
        child: i32,
    },
    /// An NMI.
    Nmi {
        /// Address of the handler.
        handler: u64,
        /// How long it ran, in nanoseconds.
        took_ns: u64,
        /// Whether the NMI was for this handler.
        handled: bool,
    },
}

impl EventValues {
    /// The only value; `None` where there is none, or more than one.
    #[must_use]
    pub fn number(self) -> Option<u64> {
        match self {
            EventValues::Number(number) => Some(number),
            _ => None,
        }
    }
}

/// A decoded record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodedRecord {
    /// An event of the catalogue, with its place there.
    Event(usize, TraceEvent),
    /// A record of another event, by its number.
    Foreign(u16),
    /// A record of a known event that is too short for its fields.
    Short(usize),
}

/// Decodes the records of one kernel.
#[derive(Debug, Clone)]
pub struct EventDecoder {
    /// By `common_type`.
    slots: Vec<Option<FieldSlot>>,
    /// The form of stack records, which follow their event.
    stack: Option<StackForm>,
}

#[derive(Debug, Clone, Copy)]
struct FieldSlot {
    /// Place in the catalogue.
    index: usize,
    kind: EventKind,
    common: CommonFields,
    /// What the fields are decoded to.
    needed: EventFields,
    fields: [Option<EventField>; 5],
}

#[derive(Debug, Clone, Copy)]
struct CommonFields {
    flags: EventField,
    pid: EventField,
}

impl EventDecoder {
    /// A decoder for the events of this kernel. The second value names the events that lack a
    /// needed field and cannot be used.
    #[must_use]
    pub fn new(formats: &[(&'static EventSpec, EventFormat)]) -> (EventDecoder, Vec<String>) {
        let (mut slots, mut unusable) = (Vec::new(), Vec::new());
        for (index, spec) in trace_events::events().enumerate() {
            let Some((_, format)) = formats.iter().find(|(known, _)| *known == spec) else {
                continue;
            };
            match slot(index, spec, format) {
                Some(slot) => {
                    let id = usize::from(format.id);
                    if slots.len() <= id {
                        slots.resize(id + 1, None);
                    }
                    slots[id] = Some(slot);
                }
                None => unusable.push(format!("{}:{}", spec.system, spec.name)),
            }
        }
        (EventDecoder { slots, stack: None }, unusable)
    }

    /// Sets the form of the stack records that follow events.
    pub fn expect_stacks(&mut self, form: Option<StackForm>) {
        self.stack = form;
    }

    /// The callers in a stack record, innermost first; `None` for any other record.
    pub fn callers<'a>(&self, record: &'a [u8]) -> Option<impl Iterator<Item = u64> + 'a> {
        self.stack.as_ref()?.callers(record)
    }

    /// Decodes one record.
    #[must_use]
    pub fn decode(&self, record: &RawRecord<'_>) -> DecodedRecord {
        let bytes = record.bytes;
        let Some(id) = bytes.first_chunk().map(|chunk| u16::from_le_bytes(*chunk)) else {
            return DecodedRecord::Foreign(0);
        };
        let Some(Some(slot)) = self.slots.get(usize::from(id)) else {
            return DecodedRecord::Foreign(id);
        };
        match slot.event(record.timestamp, bytes) {
            Some(event) => DecodedRecord::Event(slot.index, event),
            None => DecodedRecord::Short(slot.index),
        }
    }
}

fn slot(index: usize, spec: &'static EventSpec, format: &EventFormat) -> Option<FieldSlot> {
    let common =
        CommonFields { flags: format.field("common_flags")?, pid: format.field("common_pid")? };
    // decode() takes the first two bytes for the event's number.
    let kind = format.field("common_type")?;
    if (kind.offset, kind.size) != (0, 2) {
        return None;
    }
    let mut fields = [None; 5];
    for (place, name) in fields.iter_mut().zip(spec.fields.names()) {
        *place = Some(format.field(name)?);
    }
    Some(FieldSlot { index, kind: spec.kind, common, needed: spec.fields, fields })
}

impl FieldSlot {
    fn event(&self, at: u64, bytes: &[u8]) -> Option<TraceEvent> {
        let pid = i32::try_from(self.common.pid.signed(bytes)?).ok()?;
        let resched = self.common.flags.unsigned(bytes)? & NEED_RESCHED != 0;
        Some(TraceEvent { at, pid, resched, kind: self.kind, values: self.values(bytes)? })
    }

    /// The value of the `n`th field as an unsigned number.
    fn number(&self, bytes: &[u8], n: usize) -> Option<u64> {
        self.fields.get(n)?.as_ref()?.unsigned(bytes)
    }

    /// The value of the `n`th field as a signed number of 32 bits: a task or a code.
    fn signed(&self, bytes: &[u8], n: usize) -> Option<i32> {
        i32::try_from(self.fields.get(n)?.as_ref()?.signed(bytes)?).ok()
    }

    /// The value of the `n`th field as a text.
    fn name(&self, bytes: &[u8], n: usize) -> Option<ShortName> {
        self.fields.get(n)?.as_ref()?.text(bytes).map(ShortName::new)
    }

    fn values(&self, bytes: &[u8]) -> Option<EventValues> {
        Some(match self.needed {
            EventFields::Irq(_) => EventValues::Irq {
                number: u32::try_from(self.number(bytes, 0)?).ok()?,
                name: self.name(bytes, 1)?,
            },
            EventFields::Switch(_) => EventValues::Switch {
                left: TaskLeft::from_fields(
                    self.number(bytes, 0)?,
                    self.signed(bytes, 3)?,
                    self.signed(bytes, 4)?,
                ),
                pid: self.signed(bytes, 1)?,
                comm: self.name(bytes, 2)?,
            },
            EventFields::Tick(_) => EventValues::Tick {
                stopped: self.number(bytes, 0)? != 0,
                needed: u8::try_from(self.number(bytes, 1)? & 0xff).ok()?,
            },
            EventFields::Signal(_) => EventValues::Signal {
                number: u8::try_from(self.number(bytes, 0)?).ok()?,
                code: self.signed(bytes, 1)?,
            },
            EventFields::Fork(_) => {
                EventValues::Fork { parent: self.signed(bytes, 0)?, child: self.signed(bytes, 1)? }
            }
            EventFields::Nmi(_) => EventValues::Nmi {
                handler: self.number(bytes, 0)?,
                took_ns: self.number(bytes, 1)?,
                handled: self.number(bytes, 2)? != 0,
            },
            EventFields::Number(_) => EventValues::Number(self.number(bytes, 0)?),
            EventFields::Nothing => EventValues::Nothing,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `sched_switch` of two kernels (`print fmt` left out): 6.1 RT has one more common field,
    /// which moves all others.
    const SWITCH_6_1_RT: &str = "name: sched_switch
ID: 319
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;
\tfield:unsigned char common_preempt_lazy_count;\toffset:8;\tsize:1;\tsigned:0;

\tfield:char prev_comm[16];\toffset:12;\tsize:16;\tsigned:1;
\tfield:pid_t prev_pid;\toffset:28;\tsize:4;\tsigned:1;
\tfield:int prev_prio;\toffset:32;\tsize:4;\tsigned:1;
\tfield:long prev_state;\toffset:40;\tsize:8;\tsigned:1;
\tfield:char next_comm[16];\toffset:48;\tsize:16;\tsigned:1;
\tfield:pid_t next_pid;\toffset:64;\tsize:4;\tsigned:1;
\tfield:int next_prio;\toffset:68;\tsize:4;\tsigned:1;
";
    const SWITCH_6_12: &str = "name: sched_switch
ID: 309
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;
\tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;
\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;
\tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;
\tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;
\tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;
";

    fn decoder(format: &str) -> (EventDecoder, Vec<String>) {
        let spec = trace_events::events().find(|spec| spec.name == "sched_switch").unwrap();
        EventDecoder::new(&[(spec, EventFormat::parse(format).unwrap())])
    }

    /// A record of `size` bytes with these pieces at these offsets.
    fn record(size: usize, pieces: &[(usize, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; size];
        for (at, piece) in pieces {
            bytes[*at..at + piece.len()].copy_from_slice(piece);
        }
        bytes
    }

    #[test]
    fn a_switch_decodes_the_same_wherever_the_kernel_put_its_fields() {
        let wanted = TraceEvent {
            at: 7,
            pid: 812,
            resched: true,
            kind: EventKind::Switch,
            values: EventValues::Switch {
                left: TaskLeft::Blocks,
                pid: 24,
                comm: ShortName::new(b"ksoftirqd/3"),
            },
        };
        let (pid, next) = (812i32.to_le_bytes(), 24i32.to_le_bytes());
        for (format, bytes) in [
            (
                SWITCH_6_1_RT,
                record(
                    72,
                    &[(0, &[63, 1, 2]), (4, &pid), (40, &[1]), (48, b"ksoftirqd/3"), (64, &next)],
                ),
            ),
            (
                SWITCH_6_12,
                record(
                    64,
                    &[(0, &[53, 1, 4]), (4, &pid), (32, &[1]), (40, b"ksoftirqd/3"), (56, &next)],
                ),
            ),
        ] {
            let (decoder, unusable) = decoder(format);
            assert!(unusable.is_empty());
            let short = RawRecord { timestamp: 7, bytes: &bytes[..40] };
            assert!(matches!(decoder.decode(&short), DecodedRecord::Short(_)));
            let decoded = decoder.decode(&RawRecord { timestamp: 7, bytes: &bytes });
            assert!(
                matches!(decoded, DecodedRecord::Event(_, event) if event == wanted),
                "{decoded:?}"
            );
        }
    }

    #[test]
    fn a_preempted_task_does_not_block() {
        // `R+` of 4.14 to 6.18: only the bit above TASK_REPORT.
        let left = |priority: u8, next: u8| {
            let switch = [(0, &[53, 1, 0][..]), (28, &[priority]), (32, &[0, 1]), (60, &[next])];
            let bytes = record(64, &switch);
            let decoded = decoder(SWITCH_6_12).0.decode(&RawRecord { timestamp: 0, bytes: &bytes });
            let DecodedRecord::Event(_, event) = decoded else { panic!("{decoded:?}") };
            let EventValues::Switch { left, .. } = event.values else { panic!("{event:?}") };
            left
        };
        assert_eq!((left(120, 120), left(49, 0)), (TaskLeft::Preempted, TaskLeft::Preempted));
        assert_eq!((left(49, 49), left(49, 120)), (TaskLeft::Preempted, TaskLeft::Overtaken));
    }

    #[test]
    fn a_format_without_a_needed_field_is_named_and_unknown_numbers_are_foreign() {
        let (decoder, unusable) = decoder(&SWITCH_6_12.replace("next_pid", "next_tid"));
        assert_eq!(unusable, ["sched:sched_switch"]);
        let bytes = record(64, &[(0, &[53, 1])]);
        assert_eq!(
            decoder.decode(&RawRecord { timestamp: 0, bytes: &bytes }),
            DecodedRecord::Foreign(309)
        );
        assert_eq!(
            decoder.decode(&RawRecord { timestamp: 0, bytes: &[1] }),
            DecodedRecord::Foreign(0)
        );
    }

    proptest! {
        #[test]
        fn no_record_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let (decoder, _) = decoder(SWITCH_6_12);
            let mut bytes = bytes;
            if let Some(id) = bytes.get_mut(..2) {
                id.copy_from_slice(&309u16.to_le_bytes());
            }
            let _ = decoder.decode(&RawRecord { timestamp: 0, bytes: &bytes });
        }
    }
}
