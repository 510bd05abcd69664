//! The senders of interrupts to the watched CPUs: each function call and each reschedule as the
//! sending CPU records it, in a separate trace instance whose filters pass only those. From Linux
//! 6.5 on (`csd:csd_queue_cpu`, `ipi:ipi_send_cpu`).
//!
//! The trace of the watched CPU counts what arrives. This module only finds the sender, the place
//! in the kernel and, from the stack, the timer or work item and the purpose (`causes/purpose.rs`).
//! It also records requests for modules, because the program that loads a module is started by the
//! kernel. Several calls may arrive with one interrupt.

use super::interruptions::EntryText;
use super::side_trace::{SideEvents, SideTrace, any_cpu};
use super::stacks::{self, SenderStacks, StackForm, StackTable};
use crate::causes::purpose::{
    InterruptPurpose, KernelOperation, ModuleRequest, purpose_of_call_path,
};
use crate::causes::{Cause, Culprit};
use crate::documents::evidence::{
    BlindReason, DeferredBy, DeferredFunction, GapAttribution, InterruptSender, InterruptionCount,
    IpiOrigin, SentIpi,
};
use cpushield_linux::text::kallsyms::KernelSymbols;
use cpushield_linux::text::trace_format::{EventField, EventFormat};
use cpushield_linux::trace::ring_buffer::{self, LostRecords, PageLayout};
use cpushield_linux::trace::tracefs::Tracefs;
use cpushield_linux::{CpuSet, Host};
use std::collections::HashMap;

/// Buffer of each sending CPU in KiB: some thousand sends between two polls.
const BUFFER_KIB: usize = 256;

/// The most senders that are counted separately.
const SENDERS_MAX: usize = 4096;

/// Flags of an event inside an interrupt handler (`TRACE_FLAG_HARDIRQ` and `_SOFTIRQ`,
/// `include/linux/ trace_events.h`, 4.17 to 6.18): the interrupted task is unrelated.
const IN_INTERRUPT: u64 = 0x08 | 0x10;

/// The fields of one kind of event.
#[derive(Debug, Clone, Copy)]
struct SenderEventForm {
    id: u16,
    flags: EventField,
    pid: EventField,
    cpu: EventField,
    site: EventField,
    /// The function; `None` for a reschedule.
    function: Option<EventField>,
}

impl SenderEventForm {
    fn from_format(format: &EventFormat, function: Option<&str>) -> Option<SenderEventForm> {
        Some(SenderEventForm {
            id: format.id,
            flags: format.field("common_flags")?,
            pid: format.field("common_pid")?,
            cpu: format.field("cpu")?,
            site: format.field("callsite")?,
            function: match function {
                Some(name) => Some(format.field(name)?),
                None => None,
            },
        })
    }
}

/// The kernel functions that run deferred functions, and the kind of each: a timer
/// (`call_timer_fn()`, kernel/time/timer.c), a high-resolution timer, a work item.
const RUNNERS: [(&str, DeferredBy); 3] = [
    ("call_timer_fn", DeferredBy::Timer),
    ("__hrtimer_run_queues", DeferredBy::Hrtimer),
    ("process_one_work", DeferredBy::Work),
];

/// `module:module_request`: a task requests a module, and the kernel starts modprobe.
#[derive(Debug, Clone, Copy)]
struct RequestForm {
    id: u16,
    pid: EventField,
    name: EventField,
}

impl RequestForm {
    fn from_format(format: &EventFormat) -> Option<RequestForm> {
        let (pid, name) = (format.field("common_pid")?, format.field("name")?);
        Some(RequestForm { id: format.id, pid, name })
    }

    fn request(&self, at: u64, bytes: &[u8]) -> Option<ModuleLoad> {
        let id = u16::from_le_bytes(*bytes.first_chunk()?);
        let by = i32::try_from(self.pid.signed(bytes)?).ok().filter(|_| id == self.id)?;
        let module = String::from_utf8_lossy(self.name.text(bytes)?).into_owned();
        Some(ModuleLoad { at, by, module })
    }
}

/// A request for a module.
#[derive(Debug, Clone)]
struct ModuleLoad {
    at: u64,
    by: i32,
    module: String,
}

/// The most requests for modules that are kept.
const REQUESTS_MAX: usize = 1024;

/// The origin of a sent interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SentBy {
    /// A task; 0 is an idle CPU.
    Task(i32),
    /// An interrupt on this CPU.
    Interrupt(usize),
}

impl SentBy {
    /// From the fields `common_flags` and `common_pid` of an event on this CPU.
    #[must_use]
    pub fn from_fields(flags: u64, pid: i32, cpu: usize) -> SentBy {
        if flags & IN_INTERRUPT != 0 { SentBy::Interrupt(cpu) } else { SentBy::Task(pid) }
    }

    /// The task; `None` for an interrupt.
    #[must_use]
    pub fn task(self) -> Option<i32> {
        match self {
            SentBy::Task(pid) => Some(pid),
            SentBy::Interrupt(_) => None,
        }
    }

    /// With the name of the task.
    #[must_use]
    pub fn origin(self, comm: &dyn Fn(i32) -> String) -> IpiOrigin {
        match self {
            SentBy::Interrupt(cpu) => IpiOrigin::Interrupt { cpu },
            SentBy::Task(0) => IpiOrigin::IdleCpu,
            SentBy::Task(pid) => IpiOrigin::Task { pid, comm: comm(pid) },
        }
    }
}

/// The key under which sent interrupts are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct SentInterrupts {
    /// The target CPU.
    to: u64,
    /// The function to call; `None` for a reschedule.
    function: Option<u64>,
    /// The origin.
    by: SentBy,
    /// The address in the kernel that sent it.
    site: u64,
    /// The number of its stack; `None` when it was not seen.
    stack: Option<u32>,
}

/// Counts the sent interrupts. Pure.
#[derive(Debug, Default)]
struct SenderCounts {
    forms: Vec<SenderEventForm>,
    stack_form: Option<StackForm>,
    stacks: StackTable,
    report_stacks: SenderStacks,
    request_form: Option<RequestForm>,
    requests: Vec<ModuleLoad>,
    /// When each task first sent something.
    first: HashMap<i32, u64>,
    counts: HashMap<SentInterrupts, u64>,
    /// The last interrupt of each sending CPU, whose stack may still arrive.
    pending: HashMap<usize, SentInterrupts>,
    others: u64,
    lost: bool,
}

impl SenderCounts {
    /// Adds a page of the buffer of one sending CPU.
    fn add_page(&mut self, from: usize, layout: &PageLayout, page: &[u8]) {
        let page = ring_buffer::decode(layout, page);
        self.lost |= !matches!(page.lost, LostRecords::Nothing);
        self.records(from, page.records().map(|record| (record.timestamp, record.bytes)));
    }

    /// Adds records of one sending CPU, in order, with their times.
    fn records<'a>(&mut self, from: usize, records: impl IntoIterator<Item = (u64, &'a [u8])>) {
        // The stack of an event is the next record, which may be on the next page.
        let mut before = self.pending.remove(&from);
        for (at, bytes) in records {
            let stack = self.stack(bytes);
            if let Some(sent) = before.take() {
                self.count(SentInterrupts { stack, ..sent });
            }
            before = self.sent(from, bytes);
            match (before.as_ref().map(|sent: &SentInterrupts| sent.by), self.request_form) {
                (Some(SentBy::Task(pid)), _) if self.first.len() < SENDERS_MAX => {
                    self.first.entry(pid).or_insert(at);
                }
                (None, Some(form)) if self.requests.len() < REQUESTS_MAX => {
                    self.requests.extend(form.request(at, bytes));
                }
                _ => {}
            }
        }
        self.pending.extend(before.map(|sent| (from, sent)));
    }

    /// Counts the pending interrupts at the end of a phase.
    fn count_pending(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        pending.into_values().for_each(|sent| self.count(sent));
    }

    /// The number of the stack in a stack record; `None` for any other record.
    fn stack(&mut self, bytes: &[u8]) -> Option<u32> {
        let callers = self.stack_form?.callers(bytes)?.collect();
        self.stacks.number(callers)
    }

    fn sent(&self, from: usize, bytes: &[u8]) -> Option<SentInterrupts> {
        let id = u16::from_le_bytes(*bytes.first_chunk()?);
        let form = self.forms.iter().find(|form| form.id == id)?;
        let flags = form.flags.unsigned(bytes)?;
        let pid = i32::try_from(form.pid.signed(bytes)?).ok()?;
        Some(SentInterrupts {
            to: form.cpu.unsigned(bytes)?,
            function: match form.function {
                Some(field) => Some(field.unsigned(bytes)?),
                None => None,
            },
            by: SentBy::from_fields(flags, pid, from),
            site: form.site.unsigned(bytes)?,
            stack: None,
        })
    }

    fn count(&mut self, sent: SentInterrupts) {
        if self.counts.len() < SENDERS_MAX || self.counts.contains_key(&sent) {
            *self.counts.entry(sent).or_default() += 1;
        } else {
            self.others += 1;
        }
    }

    /// The senders of interrupts to this CPU, most frequent first.
    fn to(
        &self,
        cpu: usize,
        symbols: &KernelSymbols,
        comms: &HashMap<i32, String>,
    ) -> Vec<InterruptSender> {
        let by_number = self.stacks.by_number();
        let entry_text = EntryText::find(symbols);
        // Each sender with its count, the count of its most frequent stack, and that stack.
        let mut merged: HashMap<InterruptSender, (u64, u64, &[u64])> = HashMap::new();
        for (sent, count) in self.counts.iter().filter(|(sent, _)| sent.to == cpu as u64) {
            let stack = sent.stack.and_then(|n| by_number.get(&n)).copied().unwrap_or_default();
            // An interrupt does not send for the task that it hit.
            let own = match (sent.by, &entry_text) {
                (SentBy::Interrupt(_), Some(entry_text)) => entry_text.innermost(stack),
                _ => stack,
            };
            let call_path: Vec<&str> =
                own.iter().map(|at| symbols.containing(*at).unwrap_or("")).collect();
            let known = merged.entry(self.describe(sent, &call_path, symbols, comms)).or_default();
            known.0 += count;
            if *count > known.1 && self.report_stacks == SenderStacks::Reported {
                (known.1, known.2) = (*count, stack);
            }
        }
        let counted = merged.into_iter().map(|(sender, (count, _, stack))| InterruptSender {
            count,
            stack: stacks::name_functions(stack, symbols),
            ..sender
        });
        let mut senders: Vec<InterruptSender> = counted.collect();
        senders.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.cmp(b)));
        senders
    }

    /// Describes a sender; `call_path` are the functions of its stack, innermost first.
    fn describe(
        &self,
        sent: &SentInterrupts,
        call_path: &[&str],
        symbols: &KernelSymbols,
        comms: &HashMap<i32, String>,
    ) -> InterruptSender {
        let known = purpose_of_call_path(call_path);
        let remedy = known.as_ref().map(|known| known.remedy).unwrap_or_default().to_owned();
        let mut purpose = known.map(|known| known.purpose);
        if let Some(InterruptPurpose::Operation { operation, module }) = &mut purpose
            && *operation == KernelOperation::ModuleLoad
            && let Some(request) = sent.by.task().and_then(|pid| self.request_of(pid))
        {
            *module = Some(ModuleRequest {
                module: request.module.clone(),
                by: task_origin(request.by, comms).to_string(),
            });
        }
        InterruptSender {
            what: sent
                .function
                .map_or(SentIpi::Reschedule, |at| SentIpi::Call { function: symbols.name(at) }),
            by: sent.by.origin(&|pid| comms.get(&pid).cloned().unwrap_or_default()),
            site: symbols.containing(sent.site).unwrap_or_default().to_owned(),
            within: find_deferred(call_path),
            purpose,
            remedy,
            count: 0,
            stack: Vec::new(),
        }
    }

    /// The request for which a task loads a module: the last one before the task sent anything.
    /// Each request waits until its modprobe has ended (`__request_module()`, kernel/module/kmod.c,
    /// 6.12).
    fn request_of(&self, pid: i32) -> Option<&ModuleLoad> {
        let first = self.first.get(&pid)?;
        let before = self.requests.iter().filter(|request| request.at < *first);
        before.max_by_key(|request| request.at).filter(|request| request.by != pid)
    }
}

fn task_origin(pid: i32, comms: &HashMap<i32, String>) -> IpiOrigin {
    let comm = comms.get(&pid).map_or("", String::as_str);
    IpiOrigin::Task { pid, comm: comm.to_owned() }
}

/// The timer or work item whose function is on a stack; `None` when there is none.
fn find_deferred(call_path: &[&str]) -> Option<DeferredFunction> {
    call_path.windows(2).find_map(|pair| {
        let [function, caller] = pair else { return None };
        let (_, by) = RUNNERS.iter().find(|(runner, _)| runner == caller)?;
        Some(DeferredFunction { by: *by, function: (*function).to_owned() })
    })
}

/// Names the calls for which the watched CPU saw no function. `irq_work` that arrives with a
/// function call runs without an event (`__flush_smp_call_function_queue()`, kernel/smp.c, 6.12).
/// When exactly one sent function was not seen there, the call is that function.
pub fn name_calls(
    rows: &mut [InterruptionCount],
    joined: &mut Option<GapAttribution>,
    senders: &[InterruptSender],
) {
    let calls = senders.iter().filter_map(|sender| match &sender.what {
        SentIpi::Call { function } => Some(Culprit::function(function)),
        SentIpi::Reschedule => None,
    });
    let mut unseen: Vec<Culprit> = calls.collect();
    unseen
        .retain(|call| !rows.iter().any(|row| row.cause == Cause::IpiCall && row.culprit == *call));
    unseen.sort_unstable();
    unseen.dedup();
    let [only] = unseen.as_slice() else { return };
    for row in rows.iter_mut() {
        if row.cause == Cause::IpiCall && row.culprit.is_unknown() {
            row.culprit.clone_from(only);
        }
    }
    for made in joined.iter_mut().flat_map(|joined| &mut joined.by) {
        if made.cause == Cause::IpiCall && made.culprit.is_unknown() {
            made.culprit.clone_from(only);
        }
    }
}

/// Records the senders of interrupts between CPUs.
#[derive(Debug)]
pub struct IpiSenders<'h> {
    host: &'h Host,
    pub(super) trace: SideTrace<'h>,
    counts_so_far: SenderCounts,
    comms: HashMap<i32, String>,
    root: String,
}

impl<'h> IpiSenders<'h> {
    /// Arms the trace of the senders and starts it.
    ///
    /// # Errors
    /// The reason why the senders cannot be seen.
    pub fn arm(
        host: &'h Host,
        to: &CpuSet,
        clock: &str,
        stacks: SenderStacks,
    ) -> Result<IpiSenders<'h>, BlindReason> {
        let tracefs = Tracefs::find(host)?;
        let call = tracefs.format(host, "csd", "csd_queue_cpu")?;
        let call = call.and_then(|format| SenderEventForm::from_format(&format, Some("func")));
        let reschedule = tracefs.format(host, "ipi", "ipi_send_cpu")?;
        let reschedule = reschedule.and_then(|format| SenderEventForm::from_format(&format, None));
        let (Some(call), Some(reschedule)) = (call, reschedule) else {
            return Err(BlindReason::NoIpiEvents);
        };
        let stack = tracefs.format(host, "ftrace", "kernel_stack").ok().flatten();
        let stack = stack.and_then(|format| StackForm::from_format(&format));
        let request = tracefs.format(host, "module", "module_request").ok().flatten();
        let request_form = request.and_then(|format| RequestForm::from_format(&format));
        let any = any_cpu("cpu", to);
        // The other event reports function calls, with the function.
        let alone = format!("callback == 0 && ({any})");
        let filters =
            [("csd", "csd_queue_cpu", any.as_str()), ("ipi", "ipi_send_cpu", alone.as_str())];
        let events =
            [("csd", "csd_queue_cpu"), ("ipi", "ipi_send_cpu"), ("module", "module_request")];
        let events = &events[..if request_form.is_some() { 3 } else { 2 }];
        let wanted = SideEvents { events, filters: &filters, buffer_kib: BUFFER_KIB };
        let root = tracefs.root().to_owned();
        let mut trace = SideTrace::prepare(host, tracefs, clock, &wanted)?;
        // Without stacks, only names are missing.
        let stack_form = stack.filter(|_| trace.enable_stacks());
        trace.start(events)?;
        let forms = vec![call, reschedule];
        let counts_so_far = SenderCounts {
            forms,
            stack_form,
            request_form,
            report_stacks: stacks,
            ..SenderCounts::default()
        };
        Ok(IpiSenders { host, trace, counts_so_far, comms: HashMap::new(), root })
    }

    /// Counts what was sent since the last call. Never waits.
    pub fn poll(&mut self) {
        let counts = &mut self.counts_so_far;
        self.trace.poll(|cpu, layout, page| counts.add_page(cpu, layout, page));
        // Look tasks up while they are alive.
        let senders = self.counts_so_far.counts.keys().filter_map(|sent| sent.by.task());
        for pid in senders.chain(self.counts_so_far.requests.iter().map(|request| request.by)) {
            if !self.comms.contains_key(&pid)
                && let Ok(task) = self.host.task(pid, pid)
            {
                self.comms.insert(pid, task.comm);
            }
        }
    }

    /// Reads the names of tasks that have ended: the kernel saves those of some traced tasks.
    pub fn read_saved_names(&mut self) {
        self.counts_so_far.count_pending();
        let text = self.host.read(&format!("{}/saved_cmdlines", self.root)).unwrap_or_default();
        for (pid, comm) in text.lines().filter_map(|line| line.trim_start().split_once(' ')) {
            if let Ok(pid) = pid.parse() {
                self.comms.entry(pid).or_insert_with(|| comm.trim().to_owned());
            }
        }
    }

    /// The senders of interrupts to this CPU.
    #[must_use]
    pub fn to(&self, cpu: usize, symbols: &KernelSymbols) -> Vec<InterruptSender> {
        let mut senders = self.counts_so_far.to(cpu, symbols, &self.comms);
        let own = self.host.own_pid().map(|pid| self.host.thread_ids(pid).unwrap_or_default());
        for sender in &mut senders {
            if let IpiOrigin::Task { pid, .. } = sender.by
                && own.as_ref().is_some_and(|own| own.contains(&pid))
            {
                sender.by = IpiOrigin::Watcher;
            }
        }
        senders
    }

    /// Begins a phase. Keeps the requests for modules, whose loading may still be under way.
    pub fn begin_phase(&mut self) {
        self.counts_so_far.count_pending();
        self.counts_so_far.counts.clear();
        (self.counts_so_far.others, self.counts_so_far.lost) = (0, false);
    }

    /// Whether some senders are missing.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.trace.disturbed || self.counts_so_far.lost || self.counts_so_far.others > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::evidence::WitnessKind;

    /// Linux 6.18.
    const CALL: &str = "name: csd_queue_cpu\nID: 40\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:unsigned int cpu;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:void * callsite;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:void * func;\toffset:24;\tsize:8;\tsigned:0;\n\
        \tfield:void * csd;\toffset:32;\tsize:8;\tsigned:0;\n\nprint fmt: \"\"\n";

    fn record(id: u16, flags: u8, pid: i32, cpu: u32, site: u64, function: u64) -> Vec<u8> {
        let mut bytes = vec![0; 40];
        let mut put = |at: usize, piece: &[u8]| {
            bytes[at..at + piece.len()].copy_from_slice(piece);
        };
        put(0, &id.to_le_bytes());
        put(2, &[flags]);
        put(4, &pid.to_le_bytes());
        put(8, &cpu.to_le_bytes());
        put(16, &site.to_le_bytes());
        put(24, &function.to_le_bytes());
        bytes
    }

    /// Counts of function calls with their stacks.
    fn counts_with_stacks() -> SenderCounts {
        let call = EventFormat::parse(CALL).unwrap();
        let forms = vec![SenderEventForm::from_format(&call, Some("func")).unwrap()];
        let stack_form = Some(StackForm { id: 4, callers: 16 });
        SenderCounts { forms, stack_form, ..SenderCounts::default() }
    }

    /// The record of a stack, whose event has the number 4.
    fn stack(callers: &[u64]) -> Vec<u8> {
        let mut bytes = vec![0; 16];
        bytes[..2].copy_from_slice(&4u16.to_le_bytes());
        callers.iter().for_each(|at| bytes.extend(at.to_le_bytes()));
        bytes
    }

    #[test]
    fn senders_are_named_with_what_they_sent_and_where() {
        let call = EventFormat::parse(CALL).unwrap();
        let reschedule = EventFormat::parse(&CALL.replace("ID: 40", "ID: 41")).unwrap();
        let forms = vec![
            SenderEventForm::from_format(&call, Some("func")).unwrap(),
            SenderEventForm::from_format(&reschedule, None).unwrap(),
        ];
        assert!(SenderEventForm::from_format(&call, Some("callback")).is_none());
        let mut counts_so_far = SenderCounts { forms, ..SenderCounts::default() };
        for bytes in [
            record(40, 0, 812, 3, 0x1010, 0x2000),
            record(40, 0, 812, 3, 0x1020, 0x2000),
            record(40, 8, 812, 3, 0x1010, 0x2000),
            record(41, 0, 7, 3, 0x3008, 0),
            record(40, 0, 812, 2, 0x1010, 0x2000),
            record(99, 0, 812, 3, 0x1010, 0x2000),
        ] {
            if let Some(sent) = counts_so_far.sent(1, &bytes) {
                counts_so_far.count(sent);
            }
        }
        assert_eq!(counts_so_far.sent(1, &[40, 0, 0]), None);
        let symbols = KernelSymbols::parse(
            "1000 t text_poke_bp_batch\n2000 t do_sync_core\n3000 t resched_curr\n",
        );
        let comms = [(812, "modprobe".to_owned())].into_iter().collect();
        let sender = |what: &SentIpi, by: IpiOrigin, site: &str, count| InterruptSender {
            what: what.clone(),
            by,
            site: site.to_owned(),
            within: None,
            purpose: None,
            remedy: String::new(),
            count,
            stack: Vec::new(),
        };
        let call = SentIpi::Call { function: "do_sync_core".to_owned() };
        let task = |pid, comm: &str| IpiOrigin::Task { pid, comm: comm.to_owned() };
        assert_eq!(
            counts_so_far.to(3, &symbols, &comms),
            [
                sender(&call, task(812, "modprobe"), "text_poke_bp_batch", 2),
                sender(&call, IpiOrigin::Interrupt { cpu: 1 }, "text_poke_bp_batch", 1),
                sender(&SentIpi::Reschedule, task(7, ""), "resched_curr", 1),
            ]
        );
    }

    #[test]
    fn the_stack_behind_a_send_names_the_timer_it_was_for() {
        let mut counts_so_far = counts_with_stacks();
        let send = record(40, 8, 21, 3, 0x1010, 0x2000);
        let (timer, work) = ([0x1010, 0x3008, 0x4008, 0x5004], [0x1010, 0x6004, 0x7004]);
        counts_so_far.records(
            0,
            [&send, &stack(&timer), &send, &stack(&timer), &send, &stack(&work), &send, &send]
                .map(|bytes| (0, bytes.as_slice())),
        );
        // A page ends between a send and its stack.
        counts_so_far.records(0, [(0, send.as_slice())]);
        counts_so_far.records(0, [(0, stack(&work).as_slice()), (0, &send)]);
        counts_so_far.count_pending();
        let symbols = KernelSymbols::parse(
            "1000 t irq_work_queue_on\n2000 t nohz_full_kick_func\n3000 t __mod_timer\n\
             4000 t tcp_orphan_update\n5000 t call_timer_fn\n6000 t vmstat_update\n\
             7000 t process_one_work\n",
        );
        let sent = counts_so_far.to(3, &symbols, &HashMap::new());
        let within = |sender: &InterruptSender| sender.within.as_ref().map(ToString::to_string);
        let counted: Vec<_> =
            sent.iter().map(|s| (within(s).unwrap_or_default(), s.count)).collect();
        let expected = [("", 3), ("timer tcp_orphan_update", 2), ("work vmstat_update", 2)];
        assert_eq!(counted, expected.map(|(text, count)| (text.to_owned(), count)));
    }

    #[test]
    fn an_interrupt_does_not_send_for_the_task_that_it_hit() {
        let mut counts_so_far = counts_with_stacks();
        let [by_task, by_interrupt] = [0, 8].map(|flags| record(40, flags, 21, 3, 0x1010, 0x2000));
        // Of 6.12: a work item loads a module; then a timer interrupt hits it.
        let hit = [0x1010, 0x3004, 0x4004];
        let interrupted = [0x1010, 0x8004, 0x3004, 0x4004];
        counts_so_far.records(
            0,
            [&by_task, &stack(&hit), &by_interrupt, &stack(&interrupted)]
                .map(|bytes| (0, bytes.as_slice())),
        );
        counts_so_far.count_pending();
        let symbols = KernelSymbols::parse(
            "1000 t irq_work_queue_on\n2000 t nohz_full_kick_func\n3000 t load_module\n\
             4000 t process_one_work\n8000 T __irqentry_text_start\n\
             8000 t asm_sysvec_apic_timer_interrupt\n8100 T __irqentry_text_end\n",
        );
        let sent = counts_so_far.to(3, &symbols, &HashMap::new());
        let facts = |by: &IpiOrigin| {
            let of = sent.iter().find(|sender| sender.by == *by).unwrap();
            (of.purpose.is_some(), of.within.is_some(), of.remedy.is_empty())
        };
        let task = IpiOrigin::Task { pid: 21, comm: String::new() };
        assert_eq!(facts(&task), (true, true, false));
        assert_eq!(facts(&IpiOrigin::Interrupt { cpu: 0 }), (false, false, true));
    }

    #[test]
    fn a_task_that_loads_a_module_is_named_with_the_task_that_requested_it() {
        const REQUEST: &str = "name: module_request\nID: 50\nformat:\n\
            \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
            \tfield:__data_loc char[] name;\toffset:20;\tsize:4;\tsigned:0;\n\nprint fmt: \"\"\n";
        let forms = vec![
            SenderEventForm::from_format(&EventFormat::parse(CALL).unwrap(), Some("func")).unwrap(),
        ];
        let stack_form = Some(StackForm { id: 4, callers: 16 });
        let request_form = RequestForm::from_format(&EventFormat::parse(REQUEST).unwrap());
        assert!(request_form.is_some());
        let mut counts_so_far =
            SenderCounts { forms, stack_form, request_form, ..SenderCounts::default() };
        let mut request = record(50, 0, 800, 0, 0, 0);
        request[20..24].copy_from_slice(&((6u32 << 16) | 24).to_le_bytes());
        request[24..30].copy_from_slice(b"dummy\0");
        let mut stack = vec![0; 16];
        stack[..2].copy_from_slice(&4u16.to_le_bytes());
        [0x1010u64, 0x3008].iter().for_each(|at| stack.extend(at.to_le_bytes()));
        let send = record(40, 0, 812, 3, 0x1010, 0x2000);
        // CPU 0 is read first, although the request on CPU 1 was earlier.
        counts_so_far.records(0, [(20, send.as_slice()), (21, &stack)]);
        counts_so_far.records(1, [(10, request.as_slice()), (30, &request)]);
        counts_so_far.count_pending();
        let symbols = KernelSymbols::parse(
            "1000 t text_poke_bp_batch\n2000 t do_sync_core\n3000 t load_module\n",
        );
        let comms = [(812, "modprobe".to_owned()), (800, "ip".to_owned())].into_iter().collect();
        let sent = counts_so_far.to(3, &symbols, &comms);
        assert_eq!(sent.len(), 1);
        assert_eq!(
            sent[0].purpose.as_ref().unwrap().to_string(),
            "module load (dummy), requested by ip (800)"
        );
        assert!(sent[0].remedy.contains("modules_disabled"), "{sent:?}");
    }

    #[test]
    fn a_call_without_a_name_gets_the_only_sent_function_that_was_not_seen() {
        let call = |function: &str| match function {
            "" => Culprit::Unknown,
            function => Culprit::function(function),
        };
        let row = |cause, function: &str| {
            InterruptionCount::counted(cause, call(function), 1, WitnessKind::Trace)
        };
        let sender = |what: &str| InterruptSender {
            what: match what {
                "reschedule" => SentIpi::Reschedule,
                function => SentIpi::Call { function: function.to_owned() },
            },
            by: IpiOrigin::IdleCpu,
            site: String::new(),
            within: None,
            purpose: None,
            remedy: String::new(),
            count: 1,
            stack: Vec::new(),
        };
        let named = |sent: &[&str]| {
            let mut rows =
                [row(Cause::IpiCall, "do_sync_core"), row(Cause::IpiCall, ""), row(Cause::Irq, "")];
            let mut joined = None;
            let senders: Vec<InterruptSender> = sent.iter().map(|what| sender(what)).collect();
            name_calls(&mut rows, &mut joined, &senders);
            rows.map(|row| row.culprit.to_string())
        };
        let kick = "nohz_full_kick_func";
        assert_eq!(named(&["do_sync_core", kick, "reschedule", kick]), ["do_sync_core", kick, ""]);
        assert_eq!(named(&[kick, "sched_ttwu_pending"]), ["do_sync_core", "", ""]);
        assert_eq!(named(&["do_sync_core", "reschedule"]), ["do_sync_core", "", ""]);
    }
}
