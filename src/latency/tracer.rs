//! A tracer of the kernel as an instrument: what it must be told, and what its records say. Pure
//! but for looking at what this kernel has.

use super::settings::TemporarySetting;
use cpushield_linux::latency_stats::WakeEvent;
use cpushield_linux::text::trace_format::{EventField, EventFormat};
use cpushield_linux::tracefs::Tracefs;
use cpushield_linux::{CpuSet, Host};
use std::fmt;

/// Whose threads the tracer measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasuredThreads {
    /// Ours, which call it; see [`Instrument::run`](super::Instrument::run).
    Ours,
    /// The kernel's, one for each CPU, of this name before the CPU's number. They get the policy
    /// that was asked for.
    Kernels(&'static str),
    /// The kernel's, of this name before the CPU's number, which begin when recording does. Nothing
    /// can interrupt them, so that their policy is of no matter.
    Uninterruptible(&'static str),
}

/// How a tracer is used on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracerUse {
    /// What it must be told.
    pub settings: Vec<TemporarySetting>,
    /// Whose threads.
    pub threads: MeasuredThreads,
    /// What it measures apart from each other; one series each for every CPU. `None` where it is
    /// one thing only.
    pub stages: Vec<Option<&'static str>>,
    /// Shorter latencies are not recorded; 0 when all are.
    pub threshold_ns: u64,
    /// SMIs of each CPU are counted beside it.
    pub counts_smis: bool,
    /// What is good to know.
    pub notes: Vec<String>,
}

/// What one record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TracerSample {
    /// Which of the stages.
    pub stage: usize,
    /// An event.
    pub wake: WakeEvent,
    /// Its number among those of its stage and CPU, where the tracer counts them; then none may be
    /// missing.
    pub number: Option<u32>,
}

/// What a tracer is asked to do.
#[derive(Debug, Clone, Copy)]
pub struct TracerJob<'a> {
    /// Where.
    pub cpus: &'a CpuSet,
    /// How often, in nanoseconds; 0 where there is no period.
    pub period_ns: u64,
}

/// A tracer of the kernel.
pub trait LatencyTracer: Sync {
    /// Its name, which is also that of its records.
    fn name(&self) -> &'static str;

    /// The kernel's option.
    fn config(&self) -> &'static str;

    /// Tracers that cannot be at work beside it, or would change what it measures.
    fn rivals(&self) -> &'static [&'static str];

    /// The fields of its records that [`LatencyTracer::sample`] needs, in that order.
    fn fields(&self) -> &'static [&'static str];

    /// How it is used here.
    ///
    /// # Errors
    /// One sentence: a setting cannot be read.
    fn uses(
        &self,
        host: &Host,
        tracefs: &Tracefs,
        job: &TracerJob<'_>,
    ) -> Result<TracerUse, String>;

    /// What a record says, by the values of its fields and its time; `None` for one that makes no
    /// sense.
    fn sample(&self, values: &[u64], at_ns: u64, job: &TracerJob<'_>) -> Option<TracerSample>;
}

impl fmt::Debug for dyn LatencyTracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where the fields of a tracer's records lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RecordLayout {
    id: u16,
    fields: Vec<EventField>,
}

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TracerRecord {
    /// One of the tracer.
    Sample(TracerSample),
    /// One of something else.
    Foreign,
    /// One of the tracer that is not understood.
    Odd,
}

impl RecordLayout {
    /// From the format of this kernel; names the field that it lacks.
    pub(super) fn new(
        tracer: &dyn LatencyTracer,
        format: &EventFormat,
    ) -> Result<RecordLayout, &'static str> {
        let field = |name: &&'static str| format.field(name).ok_or(*name);
        let fields = tracer.fields().iter().map(field).collect::<Result<_, _>>()?;
        Ok(RecordLayout { id: format.id, fields })
    }

    /// Takes a record apart.
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

/// Why a tracer cannot be used on this machine.
///
/// # Errors
/// One sentence.
pub(super) fn possible(tracer: &dyn LatencyTracer, host: &Host) -> Result<(), String> {
    if cfg!(target_endian = "big") {
        return Err("traces of big-endian machines are not understood".to_owned());
    }
    let lacks = || format!("this kernel has no {} tracer ({})", tracer.name(), tracer.config());
    let tracefs = Tracefs::find(host).map_err(|error| match error.errno() {
        Some(1 | 13) => format!(
            "not allowed to use tracefs ({}): it needs root, and a kernel that is not locked down",
            error.reason()
        ),
        // ENODEV, or ENOSYS before 5.2, which has none of these tracers for instances.
        Some(19 | 38) => lacks(),
        _ => error.to_string(),
    })?;
    match tracefs.has_tracer(host, tracer.name()) {
        Ok(true) => Ok(()),
        Ok(false) => Err(lacks()),
        Err(error) => Err(error.to_string()),
    }
}

/// A setting as it is now, to be changed.
///
/// # Errors
/// It cannot be read.
pub(super) fn setting(
    host: &Host,
    tracefs: &Tracefs,
    file: &str,
    wanted: &str,
) -> Result<TemporarySetting, String> {
    let path = format!("{}/{file}", tracefs.root());
    let was = host.read_line(&path).map_err(|error| error.to_string())?;
    let (file, wanted) = (file.to_owned(), wanted.to_owned());
    Ok(TemporarySetting { file, was, wanted, at_work: false })
}
