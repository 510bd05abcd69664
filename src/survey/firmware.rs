//! What firmware and hardware settings mean for isolation, as far as the running system shows it.

use super::reader::SurveyReader;
use super::{Machine, SurveyFinding};

/// Waking from a state that takes longer than this shows in every latency figure.
const DEEP_US: u64 = 20;

pub(super) fn firmware(r: &SurveyReader, machine: &Machine) -> Vec<SurveyFinding> {
    let mut found = Vec::new();
    found.extend(smt(machine));
    found.extend(turbo(machine));
    found.extend(idle(machine));
    found.extend(smi(r, machine));
    found.extend(aspm(r));
    found.extend(clock(machine));
    found.extend(hypervisor(machine));
    found
}

fn finding(name: &str, seen: String, advice: &str) -> SurveyFinding {
    SurveyFinding { name: name.to_owned(), seen, advice: advice.to_owned() }
}

fn smt(machine: &Machine) -> Option<SurveyFinding> {
    let threads = machine.topology.cpus.iter().map(|cpu| cpu.siblings.len()).max()?;
    (threads > 1).then(|| {
        finding(
            "smt",
            format!("cores have {threads} threads (SMT)"),
            "the sibling of a shielded CPU slows it down by what it does: the shield takes whole \
             cores; switching SMT off in the firmware is the stronger remedy",
        )
    })
}

fn turbo(machine: &Machine) -> Option<SurveyFinding> {
    machine.power.turbo?.then(|| {
        finding(
            "turbo",
            "turbo (boost) is allowed".to_owned(),
            "the speed of a CPU then depends on what the others do; switch it off where equal \
             times matter more than short ones",
        )
    })
}

fn idle(machine: &Machine) -> Option<SurveyFinding> {
    let deepest = machine
        .power
        .idle_states
        .iter()
        .filter(|state| !state.disabled && state.latency_us > DEEP_US)
        .max_by_key(|state| state.latency_us)?;
    Some(finding(
        "deep-idle",
        format!("idle state {} takes {} µs to wake from", deepest.name, deepest.latency_us),
        "a workload that sleeps between its cycles pays that at each wake-up; one that never \
         sleeps does not",
    ))
}

/// Interrupts of system management mode since boot, invisible to the kernel. Every CPU takes part
/// in each, so one counter says it; it is read on a CPU that is not isolated.
fn smi(r: &SurveyReader, machine: &Machine) -> Option<SurveyFinding> {
    let isolation = &machine.isolation;
    let away = [&isolation.isolated, &isolation.nohz_full, &isolation.partitions];
    let away =
        away.into_iter().flatten().fold(isolation.isolcpus_domain.clone(), |a, b| a.union(b));
    let cpu = machine.topology.online.minus(&away).first()?;
    let count = match r.host.smi_count(cpu) {
        Ok(count) => count,
        Err(error) if error.is_absent() => {
            let x86 = machine.kernel.arch.as_deref().is_some_and(|arch| arch == "x86_64");
            if x86 && machine.virt.guest != Some(true) {
                r.note(&error.path, "no MSR device: SMIs cannot be counted (modprobe msr)");
            }
            return None;
        }
        // Reading this register fails on processors that are not Intel's, and in guests.
        Err(error) => {
            r.note(&error.path, format!("SMIs cannot be counted ({})", error.reason()));
            return None;
        }
    };
    (count > 0).then(|| {
        finding(
            "smi",
            format!("{count} system management interrupts since power-on"),
            "firmware stops all CPUs for each; look for USB legacy support, power capping and \
             hardware monitoring in its setup. A count that does not grow does no harm",
        )
    })
}

/// `[default] performance powersave powersupersave`.
fn aspm(r: &SurveyReader) -> Option<SurveyFinding> {
    let text = r.line("/sys/module/pcie_aspm/parameters/policy")?;
    let policy = text.split_once('[')?.1.split_once(']')?.0;
    policy.starts_with("power").then(|| {
        finding(
            "pcie-aspm",
            format!("PCIe links save power (ASPM policy {policy})"),
            "devices answer later when their link sleeps; pcie_aspm.policy=performance keeps it awake",
        )
    })
}

fn clock(machine: &Machine) -> Option<SurveyFinding> {
    let current = machine.kernel.clocksource.as_deref()?;
    let slow = ["hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"];
    slow.contains(&current).then(|| {
        finding(
            "clocksource",
            format!("the kernel's clock is {current}"),
            "reading the time is slow then; the kernel has probably found the TSC unstable \
             (see dmesg)",
        )
    })
}

fn hypervisor(machine: &Machine) -> Option<SurveyFinding> {
    machine.virt.guest?.then(|| {
        let name = machine.virt.hypervisor.as_deref().unwrap_or("a hypervisor");
        finding(
            "guest",
            format!("this is a guest of {name}"),
            "the host can take a CPU away at any time; shield and pin the vCPUs on the host too",
        )
    })
}
