//! A kernel tracer as an instrument: its settings and the meaning of its records. Pure, except for
//! the check of what this kernel supports.

use super::refusal::TracerRefusal;
use super::settings::{SettingTime, TemporarySetting};
use super::{LatencyNote, WakeupStage};
use cpushield_linux::errno::{EACCES, ENODEV, ENOSYS, EPERM};
use cpushield_linux::shared_memory::latency_stats::WakeEvent;
use cpushield_linux::text::trace_format::{EventField, EventFormat};
use cpushield_linux::trace::tracefs::Tracefs;
use cpushield_linux::{CpuSet, Error, Host};
use std::fmt;

/// The threads that a tracer measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasuredThreads {
    /// Threads of cpushield, which call the tracer; see
    /// [`Instrument::run`](super::Instrument).
    Ours,
    /// Kernel threads, one for each CPU, named by this prefix and the CPU's number. They get the
    /// requested policy.
    Kernels(&'static str),
    /// Kernel threads, named by this prefix and the CPU's number, which start when recording does.
    /// Nothing can interrupt them, so their policy does not matter.
    Uninterruptible(&'static str),
}

/// How a tracer is used on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracerUse {
    /// The settings it needs.
    pub settings: Vec<TemporarySetting>,
    /// The threads it measures.
    pub threads: MeasuredThreads,
    /// The stages that it measures separately, one series each for every CPU. `None` for a tracer
    /// that measures one thing only.
    pub stages: Vec<Option<WakeupStage>>,
    /// Shorter latencies are not recorded; 0 when all are.
    pub threshold_ns: u64,
    /// SMIs of each CPU are counted, too.
    pub counts_smis: bool,
    /// Notes for the document.
    pub notes: Vec<LatencyNote>,
}

/// The content of one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TracerSample {
    /// The index of the stage.
    pub stage: usize,
    /// The event.
    pub wake: WakeEvent,
    /// Its sequence number for its stage and CPU, where the tracer has one; gaps are lost records.
    pub number: Option<u32>,
}

/// The task of a tracer.
#[derive(Debug, Clone, Copy)]
pub struct TracerJob<'a> {
    /// The measured CPUs.
    pub cpus: &'a CpuSet,
    /// The period in nanoseconds; 0 where there is none.
    pub period_ns: u64,
}

/// A kernel tracer that measures latency.
pub trait LatencyTracer: Sync {
    /// Its name, which is also that of its records.
    fn name(&self) -> &'static str;

    /// The kernel's configuration option.
    fn config(&self) -> &'static str;

    /// Tracers that cannot run at the same time, or would change what it measures.
    fn conflicting_tracers(&self) -> &'static [&'static str];

    /// The fields of its records that [`LatencyTracer::sample`] needs, in that order.
    fn fields(&self) -> &'static [&'static str];

    /// Decides how to use it on this machine.
    ///
    /// # Errors
    /// Why it cannot be used: a setting cannot be read.
    fn plan_use(
        &self,
        host: &Host,
        tracefs: &Tracefs,
        job: &TracerJob<'_>,
    ) -> Result<TracerUse, TracerRefusal>;

    /// Reads a record from the values of its fields and its time; `None` when it makes no sense.
    fn sample(&self, values: &[u64], at_ns: u64, job: &TracerJob<'_>) -> Option<TracerSample>;
}

impl fmt::Debug for dyn LatencyTracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The layout of a tracer's records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RecordLayout {
    id: u16,
    fields: Vec<EventField>,
}

/// A record of a trace instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TracerRecord {
    /// A sample of the tracer.
    Sample(TracerSample),
    /// A record of another event.
    Foreign,
    /// A record of the tracer that makes no sense.
    Odd,
}

impl RecordLayout {
    /// Makes the layout from this kernel's format. The error names a missing field.
    pub(super) fn new(
        tracer: &dyn LatencyTracer,
        format: &EventFormat,
    ) -> Result<RecordLayout, &'static str> {
        let fields = tracer.fields().iter().map(|name| format.field(name).ok_or(*name));
        let fields = fields.collect::<Result<_, _>>()?;
        Ok(RecordLayout { id: format.id, fields })
    }

    /// Reads a record.
    pub(super) fn read(
        &self,
        tracer: &dyn LatencyTracer,
        bytes: &[u8],
        at_ns: u64,
        job: &TracerJob<'_>,
    ) -> TracerRecord {
        if bytes.first_chunk().map(|chunk| u16::from_le_bytes(*chunk)) != Some(self.id) {
            return TracerRecord::Foreign;
        }
        let mut values = [0; 8];
        for (value, field) in values.iter_mut().zip(&self.fields) {
            match field.unsigned(bytes) {
                Some(found) => *value = found,
                None => return TracerRecord::Odd,
            }
        }
        tracer.sample(&values, at_ns, job).map_or(TracerRecord::Odd, TracerRecord::Sample)
    }
}

/// Checks that a tracer can be used on this machine.
///
/// # Errors
/// Why it cannot.
pub(super) fn possible(tracer: &dyn LatencyTracer, host: &Host) -> Result<(), TracerRefusal> {
    if cfg!(target_endian = "big") {
        return Err(TracerRefusal::BigEndian);
    }
    let missing = || TracerRefusal::NoTracer { tracer: tracer.name(), config: tracer.config() };
    let tracefs = Tracefs::find(host).map_err(|error| match error.errno() {
        Some(EPERM | EACCES) => TracerRefusal::TracefsDenied { error },
        // ENOSYS before 5.2, which has none of these tracers for instances.
        Some(ENODEV | ENOSYS) => missing(),
        _ => TracerRefusal::Linux(error),
    })?;
    match tracefs.has_tracer(host, tracer.name()) {
        Ok(true) => Ok(()),
        Ok(false) => Err(missing()),
        Err(error) => Err(TracerRefusal::Linux(error)),
    }
}

/// Reads the current value of a setting that is to change.
///
/// # Errors
/// The setting cannot be read.
pub(super) fn setting(
    host: &Host,
    tracefs: &Tracefs,
    file: &str,
    wanted: &str,
) -> Result<TemporarySetting, Error> {
    let path = format!("{}/{file}", tracefs.root());
    let was = host.read_line(&path)?;
    let (file, wanted) = (file.to_owned(), wanted.to_owned());
    Ok(TemporarySetting { file, was, wanted, when: SettingTime::Outside })
}
