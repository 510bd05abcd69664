//! The processor's counter of system management interrupts as witness: firmware takes a CPU without
//! the kernel's knowledge, and only the processor tells. Intel's have a register (MSR 0x34); AMD's
//! have none, but count an event from Zen 2 on, for as long as somebody asks for it.

use crate::verify::{AbsenceReason, WitnessKind, WitnessReport};
use cpushield_linux::perf::{CpuEvent, PerfEvent};
use cpushield_linux::{CpuSet, Host};
use std::collections::BTreeMap;
use std::io;

/// The counters at one moment, or why there are none. Only their differences mean something.
pub type SmiCounts = Result<BTreeMap<usize, u64>, AbsenceReason>;

/// Whether this machine is a guest, by the processor's flag for it (x86); `None` elsewhere.
#[must_use]
pub fn guest(host: &Host) -> Option<bool> {
    let text = host.read("/proc/cpuinfo").ok()?;
    let flags = text.lines().find(|line| line.starts_with("flags"))?;
    Some(flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// How a processor counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SmiMethod {
    /// In a register, since power-on.
    Register,
    /// As an event of its performance counters.
    Event(PerfEvent),
}

/// `ls_smi_rx`, "SMIs received" (`PMCx02B` of AMD's manuals).
const LS_SMI_RX: PerfEvent = PerfEvent::raw(0x2b);

/// How the processor that `/proc/cpuinfo` is about counts them.
///
/// AMD's event is in the kernel's lists for Zen 2 to Zen 5, not for Zen 1
/// (tools/perf/pmu-events/arch/x86/amdzen2/memory.json, amdzen5/load-store.json), and mapfile.csv
/// there says which processors these are: family 17h from model 30h on, 19h and 1ah (6.10). What a
/// family without a list means by 2Bh is not known.
fn way(cpuinfo: &str) -> Result<SmiMethod, AbsenceReason> {
    let field = |name: &str| {
        let mut fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
    };
    let number = |name: &str| field(name).and_then(|value| value.parse::<u32>().ok());
    if field("vendor_id") != Some("AuthenticAMD") {
        return Ok(SmiMethod::Register);
    }
    match (number("cpu family"), number("model")) {
        (Some(0x17), Some(0x30..)) | (Some(0x19 | 0x1a), _) => Ok(SmiMethod::Event(LS_SMI_RX)),
        _ => Err(AbsenceReason::NoSmiEvent),
    }
}

/// What counts them on some CPUs, for as long as it exists.
#[derive(Debug)]
pub struct SmiCounter<'h> {
    host: &'h Host,
    cpus: CpuSet,
    /// The events of each CPU; `None` where there is a register.
    events: Result<Option<BTreeMap<usize, CpuEvent>>, AbsenceReason>,
}

impl<'h> SmiCounter<'h> {
    /// Begins to count, which may interrupt each of the CPUs; so do [`SmiCounter::take`] and the
    /// end: not while anything else counts.
    #[must_use]
    pub fn start(host: &'h Host, cpus: &CpuSet) -> SmiCounter<'h> {
        let events = match guest(host) {
            // KVM gives its guests a counter of their own, which is not that of the machine
            // (arch/x86/kvm/x86.c, kvm_get_msr_common(), 4.17 to 6.18).
            Some(true) => Err(AbsenceReason::Guest),
            _ => match way(&host.read("/proc/cpuinfo").unwrap_or_default()) {
                Ok(SmiMethod::Register) => Ok(None),
                Ok(SmiMethod::Event(event)) => opened(cpus, event).map(Some),
                Err(why) => Err(why),
            },
        };
        SmiCounter { host, cpus: cpus.clone(), events }
    }

    /// The counters now.
    pub fn take(&self) -> SmiCounts {
        match &self.events {
            Ok(None) => {
                let count = |cpu| self.host.smi_count(cpu).map(|n| (cpu, n)).map_err(|e| why(&e));
                self.cpus.iter().map(count).collect()
            }
            Ok(Some(events)) => {
                let count = |(cpu, event): (&usize, &CpuEvent)| {
                    event.read().map(|n| (*cpu, n)).map_err(|e| why_no_event(&e))
                };
                events.iter().map(count).collect()
            }
            Err(why) => Err(why.clone()),
        }
    }
}

fn opened(cpus: &CpuSet, event: PerfEvent) -> Result<BTreeMap<usize, CpuEvent>, AbsenceReason> {
    let open = |cpu| CpuEvent::open(cpu, event).map(|it| (cpu, it)).map_err(|e| why_no_event(&e));
    cpus.iter().map(open).collect()
}

fn why(error: &cpushield_linux::Error) -> AbsenceReason {
    match error.errno() {
        Some(2 | 6) => AbsenceReason::NoMsrDevice,
        Some(5) => AbsenceReason::NoSmiRegister,
        _ => AbsenceReason::failed(error),
    }
}

fn why_no_event(error: &io::Error) -> AbsenceReason {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => AbsenceReason::CountersInUse,
        // EOPNOTSUPP.
        io::ErrorKind::NotFound | io::ErrorKind::Unsupported => {
            AbsenceReason::NoPerformanceCounters
        }
        _ => AbsenceReason::failed(format_args!("perf_event_open(2): {error}")),
    }
}

/// How often firmware took this CPU between the two.
#[must_use]
pub fn between(before: &SmiCounts, after: &SmiCounts, cpu: usize) -> Option<u64> {
    let (before, after) = (before.as_ref().ok()?, after.as_ref().ok()?);
    after.get(&cpu)?.checked_sub(*before.get(&cpu)?)
}

/// Why nobody can say how often it was between the two; `None` when that is known.
#[must_use]
pub fn absent(before: &SmiCounts, after: &SmiCounts) -> Option<AbsenceReason> {
    before.as_ref().err().or(after.as_ref().err()).cloned()
}

/// The witness.
#[must_use]
pub fn witness(before: &SmiCounts, after: &SmiCounts) -> WitnessReport {
    WitnessReport { kind: WitnessKind::Firmware, absent: absent(before, after), blind: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_is_missing_or_goes_back_is_no_zero() {
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
    fn the_processor_says_how_it_counts_them() {
        let of = |vendor: &str, family: u32, model: u32| {
            way(&format!(
                "processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: \
                 {model}\nmodel name\t: x\n"
            ))
        };
        let event = Ok(SmiMethod::Event(LS_SMI_RX));
        assert_eq!(of("GenuineIntel", 6, 85), Ok(SmiMethod::Register));
        // EPYC 7451, 7702, 9654 and 9755: Zen 1, 2, 4 and 5.
        assert!(of("AuthenticAMD", 23, 1).is_err());
        assert_eq!(of("AuthenticAMD", 23, 49), event);
        assert_eq!(of("AuthenticAMD", 25, 17), event);
        assert_eq!(of("AuthenticAMD", 26, 2), event);
        // Before Zen, and what comes after what is listed.
        assert!(of("AuthenticAMD", 21, 2).is_err());
        assert!(of("AuthenticAMD", 27, 0).is_err());
        assert!(way("vendor_id\t: AuthenticAMD\n").is_err());
    }

    #[test]
    fn events_are_counted_between_two_looks_and_in_a_guest_nothing_is() {
        let host = Host::live();
        let cpus = CpuSet::one(host.online_cpus().unwrap().first().unwrap());
        // Any event does: the clock of the CPU goes on.
        match opened(&cpus, PerfEvent::CPU_CLOCK) {
            Ok(events) => {
                let meter =
                    SmiCounter { host: &host, cpus: cpus.clone(), events: Ok(Some(events)) };
                let (before, after) = (meter.take(), meter.take());
                let cpu = cpus.first().unwrap();
                assert!(between(&before, &after, cpu).unwrap() > 0, "{before:?} {after:?}");
            }
            Err(why) => println!("NOT RUN: {why}"),
        }
        if guest(&host) == Some(true) {
            let absent = SmiCounter::start(&host, &cpus).take().unwrap_err();
            assert_eq!(absent, AbsenceReason::Guest);
        }
    }
}
