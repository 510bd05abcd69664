//! The processor's counter of system management interrupts as witness: firmware takes a CPU without
//! the kernel's knowledge, and only this register tells.

use crate::verify::{Witness, WitnessKind};
use cpushield_linux::{CpuSet, Host};
use std::collections::BTreeMap;

/// The counters at one moment, or why there are none.
pub type Smis = Result<BTreeMap<usize, u64>, String>;

/// Whether this machine is a guest, by the processor's flag for it (x86); `None` elsewhere.
#[must_use]
pub fn guest(host: &Host) -> Option<bool> {
    let text = host.read("/proc/cpuinfo").ok()?;
    let flags = text.lines().find(|line| line.starts_with("flags"))?;
    Some(flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// Reads them, which interrupts each of the CPUs: not while anything counts.
pub fn take(host: &Host, cpus: &CpuSet, guest: Option<bool>) -> Smis {
    if guest == Some(true) {
        // KVM gives its guests a counter of their own, which is not that of the machine
        // (arch/x86/kvm/x86.c, kvm_get_msr_common(), 4.17 to 6.18).
        return Err("this is a guest, and the firmware is its host's".to_owned());
    }
    cpus.iter().map(|cpu| host.smi_count(cpu).map(|n| (cpu, n)).map_err(|e| why(&e))).collect()
}

fn why(error: &cpushield_linux::Error) -> String {
    match error.errno() {
        Some(2 | 6) => "no MSR device: modprobe msr".to_owned(),
        Some(5) => "this processor has no counter of them (Intel's have)".to_owned(),
        _ => error.to_string(),
    }
}

/// How often firmware took this CPU between the two.
#[must_use]
pub fn between(before: &Smis, after: &Smis, cpu: usize) -> Option<u64> {
    let (before, after) = (before.as_ref().ok()?, after.as_ref().ok()?);
    after.get(&cpu)?.checked_sub(*before.get(&cpu)?)
}

/// The witness.
#[must_use]
pub fn witness(before: &Smis, after: &Smis) -> Witness {
    let absent = before.as_ref().err().or(after.as_ref().err()).cloned();
    Witness { kind: WitnessKind::Firmware, absent, blind: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_is_missing_or_goes_back_is_no_zero() {
        let counts = |n: u64| -> Smis { Ok([(3, n)].into_iter().collect()) };
        assert_eq!(between(&counts(7), &counts(9), 3), Some(2));
        assert_eq!(between(&counts(7), &counts(7), 3), Some(0));
        assert_eq!(between(&counts(7), &counts(6), 3), None);
        assert_eq!(between(&counts(7), &counts(7), 2), None);
        assert_eq!(between(&counts(7), &Err("gone".to_owned()), 3), None);
        assert_eq!(witness(&counts(7), &Err("gone".to_owned())).absent.as_deref(), Some("gone"));
    }
}
