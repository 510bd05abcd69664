//! Firmware and hardware settings that affect isolation, as far as the running system shows them.

use super::reader::SurveyReader;
use super::{Machine, SurveyFinding};
use cpushield_linux::CpuSet;

/// An exit latency above this shows in every latency measurement.
const DEEP_US: u64 = 20;

pub(super) fn check_firmware(r: &SurveyReader, machine: &Machine) -> Vec<SurveyFinding> {
    let found = [
        check_smt(machine),
        check_turbo(machine),
        check_idle(machine),
        check_smi(r, machine),
        check_clock(machine),
        check_hypervisor(machine),
    ];
    found.into_iter().flatten().collect()
}

fn check_smt(machine: &Machine) -> Option<SurveyFinding> {
    let threads = machine.topology.threads_per_core();
    (threads > 1).then(|| {
        SurveyFinding::new(
            "smt",
            format!("cores have {threads} threads (SMT)"),
            "a task on the SMT sibling of a shielded CPU slows that CPU down, so the shield takes \
             whole cores; disabling SMT in the firmware is more effective",
        )
    })
}

fn check_turbo(machine: &Machine) -> Option<SurveyFinding> {
    machine.power.turbo?.then(|| {
        SurveyFinding::new(
            "turbo",
            "turbo (boost) is allowed",
            "with turbo, the frequency of a CPU depends on the load of the other CPUs; if constant \
             run times matter more than short ones, disable it: --on no-turbo",
        )
    })
}

fn check_idle(machine: &Machine) -> Option<SurveyFinding> {
    let deepest = machine
        .power
        .idle_states
        .iter()
        .flat_map(|cpus| &cpus.states)
        .filter(|state| !state.disabled && state.latency_us > DEEP_US)
        .max_by_key(|state| state.latency_us)?;
    Some(SurveyFinding::new(
        "deep-idle",
        format!("waking from idle state {} takes {} µs", deepest.name, deepest.latency_us),
        "a workload that sleeps between its cycles has this latency at each wake-up; a workload \
         that never sleeps does not",
    ))
}

/// System management interrupts since boot, which the kernel cannot see. Each one stops every CPU,
/// so one counter is enough; it is read on a CPU that is not isolated.
fn check_smi(r: &SurveyReader, machine: &Machine) -> Option<SurveyFinding> {
    let isolation = &machine.isolation;
    let mut isolated = isolation.isolcpus_domain.clone();
    for cpus in [&isolation.isolated, &isolation.nohz_full, &isolation.partitions] {
        isolated = isolated.union(cpus.as_ref().unwrap_or(&CpuSet::new()));
    }
    let cpu = machine.topology.online.difference(&isolated).first()?;
    let count = match r.host.smi_count(cpu) {
        Ok(count) => count,
        Err(error) if error.is_absent() => {
            let x86 = machine.kernel.arch.as_deref().is_some_and(|arch| arch == "x86_64");
            if x86 && machine.virt.guest != Some(true) {
                r.note(
                    &error.path,
                    "SMIs cannot be counted, because there is no MSR device; to load its driver: \
                     modprobe msr",
                );
            }
            return None;
        }
        // Reading this register fails in guests and on processors of other vendors than Intel.
        Err(error) => {
            r.note(&error.path, format!("SMIs cannot be counted ({})", error.reason()));
            return None;
        }
    };
    (count > 0).then(|| {
        SurveyFinding::new(
            "smi",
            format!("{count} system management interrupts since power-on"),
            "the firmware stops all CPUs for each of them; check USB legacy support, power capping \
             and hardware monitoring in the firmware's setup. A count that does not grow is \
             harmless",
        )
    })
}

fn check_clock(machine: &Machine) -> Option<SurveyFinding> {
    let current = machine.kernel.clocksource.as_deref()?;
    let slow = ["hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"];
    slow.contains(&current).then(|| {
        SurveyFinding::new(
            "clocksource",
            format!("the kernel's clock source is {current}"),
            "reading the time from it is slow; the kernel probably found the TSC unstable (see \
             dmesg)",
        )
    })
}

fn check_hypervisor(machine: &Machine) -> Option<SurveyFinding> {
    machine.virt.guest?.then(|| {
        let name = machine.virt.hypervisor.as_deref().unwrap_or("a hypervisor");
        SurveyFinding::new(
            "guest",
            format!("this is a guest of {name}"),
            "the host can preempt a vCPU at any time; shield and pin the vCPUs on the host too",
        )
    })
}
