//! The processor's counter of system management interrupts (SMIs) as witness. Firmware takes a CPU
//! without the kernel's knowledge, and only the processor counts it. Intel processors have a
//! register (MSR 0x34). AMD processors have none, but from Zen 2 on can count SMIs as a performance
//! event.

use crate::documents::evidence::{AbsenceReason, WitnessKind, WitnessReport};
use cpushield_linux::errno::{EIO, ENOENT, ENXIO};
use cpushield_linux::sys::perf::{CpuEvent, PerfEvent};
use cpushield_linux::{CpuSet, Host};
use std::collections::BTreeMap;
use std::io;

/// The counters at one moment, or why there are none. Only differences are meaningful.
pub type SmiCounts = Result<BTreeMap<usize, u64>, AbsenceReason>;

/// Whether this machine is a guest, according to the processor's flag (x86); `None` elsewhere.
#[must_use]
pub fn is_guest(host: &Host) -> Option<bool> {
    let text = host.read("/proc/cpuinfo").ok()?;
    let flags = text.lines().find(|line| line.starts_with("flags"))?;
    Some(flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// How a processor counts SMIs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SmiMethod {
    /// In a register, since power-on.
    Register,
    /// As an event of its performance counters.
    Event(PerfEvent),
}

/// `ls_smi_rx`, "SMIs received" (`PMCx02B` of AMD's manuals).
const LS_SMI_RX: PerfEvent = PerfEvent::raw(0x2b);

/// How the processor in `/proc/cpuinfo` counts SMIs.
///
/// AMD's event is in the kernel's lists for Zen 2 to Zen 5, not for Zen 1
/// (tools/perf/pmu-events/arch/x86/amdzen2/memory.json, amdzen5/load-store.json), and mapfile.csv
/// there says which processors these are: family 17h from model 30h on, 19h and 1ah (6.10). The
/// meaning of 2Bh in a family without a list is unknown.
fn smi_method(cpuinfo: &str) -> Result<SmiMethod, AbsenceReason> {
    if cpuinfo_field(cpuinfo, "vendor_id") != Some("AuthenticAMD") {
        return Ok(SmiMethod::Register);
    }
    let family = cpuinfo_field(cpuinfo, "cpu family").and_then(|value| value.parse::<u32>().ok());
    let model = cpuinfo_field(cpuinfo, "model").and_then(|value| value.parse::<u32>().ok());
    match (family, model) {
        (Some(0x17), Some(0x30..)) | (Some(0x19 | 0x1a), _) => Ok(SmiMethod::Event(LS_SMI_RX)),
        _ => Err(AbsenceReason::NoSmiEvent),
    }
}

/// The value of a field of the first processor.
pub(super) fn cpuinfo_field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

/// Counts SMIs on some CPUs until it is dropped.
#[derive(Debug)]
pub struct SmiCounter<'h> {
    host: &'h Host,
    cpus: CpuSet,
    /// The events of each CPU; `None` where there is a register.
    events: Result<Option<BTreeMap<usize, CpuEvent>>, AbsenceReason>,
}

impl<'h> SmiCounter<'h> {
    /// Starts counting. This, [`SmiCounter::read`] and dropping may interrupt each of the CPUs, so
    /// they must not run while anything else counts.
    #[must_use]
    pub fn start(host: &'h Host, cpus: &CpuSet) -> SmiCounter<'h> {
        let events = match is_guest(host) {
            // KVM emulates a counter for its guests, which is not that of the machine
            // (arch/x86/kvm/x86.c, kvm_get_msr_common(), 4.17 to 6.18).
            Some(true) => Err(AbsenceReason::Guest),
            _ => match smi_method(&host.read("/proc/cpuinfo").unwrap_or_default()) {
                Ok(SmiMethod::Register) => Ok(None),
                Ok(SmiMethod::Event(event)) => open_events(host, cpus, event).map(Some),
                Err(why) => Err(why),
            },
        };
        SmiCounter { host, cpus: cpus.clone(), events }
    }

    /// Reads the counters.
    pub fn read(&self) -> SmiCounts {
        match &self.events {
            Ok(None) => {
                let cpus = self.cpus.iter();
                cpus.map(|cpu| Ok((cpu, self.host.smi_count(cpu).map_err(|e| explain(&e))?)))
                    .collect()
            }
            Ok(Some(events)) => {
                let events = events.iter();
                events
                    .map(|(cpu, event)| Ok((*cpu, event.read().map_err(|e| explain_perf(&e))?)))
                    .collect()
            }
            Err(why) => Err(why.clone()),
        }
    }
}

fn open_events(
    host: &Host,
    cpus: &CpuSet,
    event: PerfEvent,
) -> Result<BTreeMap<usize, CpuEvent>, AbsenceReason> {
    let mut events = BTreeMap::new();
    for cpu in cpus.iter() {
        events.insert(cpu, CpuEvent::open(host, cpu, event).map_err(|e| explain_perf(&e))?);
    }
    Ok(events)
}

/// Why the register cannot be read.
fn explain(error: &cpushield_linux::Error) -> AbsenceReason {
    match error.errno() {
        Some(ENOENT | ENXIO) => AbsenceReason::NoMsrDevice,
        Some(EIO) => AbsenceReason::NoSmiRegister,
        _ => AbsenceReason::failed(error),
    }
}

/// Why the event cannot be counted.
fn explain_perf(error: &io::Error) -> AbsenceReason {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => AbsenceReason::CountersInUse,
        // EOPNOTSUPP.
        io::ErrorKind::NotFound | io::ErrorKind::Unsupported => {
            AbsenceReason::NoPerformanceCounters
        }
        _ => AbsenceReason::failed(format_args!("perf_event_open(2): {error}")),
    }
}

/// How often firmware took this CPU between two reads; `None` when it is unknown.
#[must_use]
pub fn between(before: &SmiCounts, after: &SmiCounts, cpu: usize) -> Option<u64> {
    let (before, after) = (before.as_ref().ok()?, after.as_ref().ok()?);
    after.get(&cpu)?.checked_sub(*before.get(&cpu)?)
}

/// Why the number of SMIs between two reads is unknown; `None` when it is known.
#[must_use]
pub fn absent(before: &SmiCounts, after: &SmiCounts) -> Option<AbsenceReason> {
    before.as_ref().err().or(after.as_ref().err()).cloned()
}

/// The report of this witness.
#[must_use]
pub fn witness(before: &SmiCounts, after: &SmiCounts) -> WitnessReport {
    WitnessReport { kind: WitnessKind::Firmware, absent: absent(before, after), blind: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::not_run::not_run;

    #[test]
    fn a_counter_that_is_missing_or_goes_back_is_not_zero() {
        let counts = |n: u64| -> SmiCounts { Ok([(3, n)].into_iter().collect()) };
        assert_eq!(between(&counts(7), &counts(9), 3), Some(2));
        assert_eq!(between(&counts(7), &counts(7), 3), Some(0));
        assert_eq!(between(&counts(7), &counts(6), 3), None);
        assert_eq!(between(&counts(7), &counts(7), 2), None);
        let unread = Err(AbsenceReason::NoMsrDevice);
        assert_eq!(between(&counts(7), &unread, 3), None);
        assert_eq!(witness(&counts(7), &unread).absent, unread.err());
    }

    #[test]
    fn the_processor_family_decides_how_smis_are_counted() {
        let method = |vendor: &str, family: u32, model: u32| {
            smi_method(&format!(
                "processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: \
                 {model}\nmodel name\t: x\n"
            ))
        };
        let event = Ok(SmiMethod::Event(LS_SMI_RX));
        assert_eq!(method("GenuineIntel", 6, 85), Ok(SmiMethod::Register));
        // EPYC 7451, 7702, 9654 and 9755: Zen 1, 2, 4 and 5.
        assert!(method("AuthenticAMD", 23, 1).is_err());
        assert_eq!(method("AuthenticAMD", 23, 49), event);
        assert_eq!(method("AuthenticAMD", 25, 17), event);
        assert_eq!(method("AuthenticAMD", 26, 2), event);
        // Before Zen, and after the newest listed family.
        assert!(method("AuthenticAMD", 21, 2).is_err());
        assert!(method("AuthenticAMD", 27, 0).is_err());
        assert!(smi_method("vendor_id\t: AuthenticAMD\n").is_err());
    }

    #[test]
    fn events_are_counted_between_two_reads_and_in_a_guest_nothing_is() {
        let host = Host::live();
        let cpus = CpuSet::single(host.online_cpus().unwrap().first().unwrap());
        // Any event will do; the CPU clock always advances.
        match open_events(&host, &cpus, PerfEvent::CPU_CLOCK) {
            Ok(events) => {
                let counter =
                    SmiCounter { host: &host, cpus: cpus.clone(), events: Ok(Some(events)) };
                let (before, after) = (counter.read(), counter.read());
                let cpu = cpus.first().unwrap();
                assert!(between(&before, &after, cpu).unwrap() > 0, "{before:?} {after:?}");
            }
            Err(why) => not_run(&why.to_string()),
        }
        if is_guest(&host) == Some(true) {
            let absent = SmiCounter::start(&host, &cpus).read().unwrap_err();
            assert_eq!(absent, AbsenceReason::Guest);
        }
    }
}
