//! `cpu-idle`: a limit for the exit latency of the sleep states on the shield. Pure.

use super::setting::changes_of;
use super::want::setting;
use super::{Tunable, TunableValue, WantedChange, WantedChanges};
use crate::change::{Risk, ValueComparison};
use crate::documents::inapplicable::InapplicableReason;
use crate::documents::machine::{IdleState, Machine};
use crate::documents::plan::{OffReason, Shield, StepReason};
use crate::policy::{Workload, parse_span};

/// The limit where the user gives none, in microseconds.
const LIMIT_US: u64 = 20;

/// The limit of a CPU, in its directory.
const FILE: &str = "power/pm_qos_resume_latency_us";

pub(super) const CPU_IDLE: Tunable = Tunable {
    name: "cpu-idle",
    summary: "limit the exit latency of the sleep states on the shield",
    page: "\
A CPU in deep sleep can take hundreds of microseconds to wake. This tunable limits the exit latency
of the sleep states that a CPU of the shield uses. With `--on cpu-idle=20us`, the CPU uses only
states that it leaves within 20 µs by the table of the driver. A policy has `cpu-idle = \"20us\"`.

Without a value, the limit is a quarter of the `max_latency` of the policy, or 20 µs. It is then
never below the exit latency of the shallowest sleep state, and nothing is written for CPUs that
have no deeper state. With `0us`, a CPU uses no state with an exit latency: with a cpuidle driver on
x86 an idle CPU then polls; elsewhere it uses its shallowest state.

The limit is written in microseconds to `power/pm_qos_resume_latency_us` of each CPU that runs
programs, `n/a` for 0. On a kernel without that file, the deeper states are switched off
(`cpuidle/state*/disable`). Idle SMT siblings sleep as before, because a sibling that polls slows
down the work on its core. A lower limit that is there already stays.

On for `cyclic` workloads: a program that wakes periodically wakes sooner. This costs power and
heat. With SMT or turbo, it also slows down the neighbouring CPUs. Measure with and without it.

Off for other workloads unless requested (`--on cpu-idle`): a polling program never sleeps, so it
gains nothing.

Source: pm_qos_resume_latency_us_store() in drivers/base/power/sysfs.c (6.12): a limit is less than
2147483647, and 0 is written as `n/a`; cpuidle_governor_latency_req() in
drivers/cpuidle/governor.c; Documentation/ABI/testing/sysfs-devices-power; the state `POLL` in
drivers/cpuidle/poll_state.c; Documentation/admin-guide/pm/cpuidle.rst.",
    reads: &["/sys/devices/system/cpu/cpu*/power/pm_qos_resume_latency_us"],
    risk: Risk::Low,
    optional: |workload| (workload != Workload::Cyclic).then_some(OffReason::OnlyCostsPower),
    value: Some(TunableValue {
        expected: "a whole number of microseconds, from 0us to 2147483646us",
        spell: |text| latency_us(text).map(|us| format!("{us}us")),
    }),
    wants: limit_sleep,
    ..Tunable::PLAIN
};

fn limit_sleep(machine: &Machine, shield: &Shield) -> WantedChanges {
    if machine.power.cpuidle_driver.as_deref().is_none_or(|driver| driver == "none") {
        return WantedChanges::Nothing(InapplicableReason::NoIdleStates);
    }
    let given = shield.tunables.value(CPU_IDLE.name).and_then(latency_us);
    let wish = shield.sleep_limit_us().unwrap_or(LIMIT_US);
    let (mut wanted, mut shallow) = (Vec::new(), None);
    for cpu in shield.online_cpus().difference(&shield.idle_siblings).iter() {
        let states = machine.idle_states_of(cpu);
        let limit = given.unwrap_or_else(|| wish.max(shallowest_us(states)));
        let changes = match setting(machine, &format!("{}/{FILE}", dir(cpu))) {
            Some(now) => {
                limit_cpu(cpu, now, (limit, states), given.is_some()).into_iter().collect()
            }
            None => switch_off(cpu, limit, states),
        };
        if changes.is_empty() {
            shallow = Some(InapplicableReason::ShallowSleep { limit_us: limit });
        }
        wanted.extend(changes);
    }
    match shallow {
        Some(why) if wanted.is_empty() => WantedChanges::Nothing(why),
        _ => changes_of(wanted, FILE),
    }
}

/// The exit latency of the shallowest state in which a CPU sleeps; 0 if none is known.
fn shallowest_us(states: &[IdleState]) -> u64 {
    let sleep = states.iter().filter(|state| state.name != "POLL");
    sleep.map(|state| state.latency_us).min().unwrap_or(0)
}

fn dir(cpu: usize) -> String {
    format!("/sys/devices/system/cpu/cpu{cpu}")
}

/// Limits the states of one CPU; nothing if it has no deeper one and `always` is false.
fn limit_cpu(
    cpu: usize,
    now: &str,
    (limit, states): (u64, &[IdleState]),
    always: bool,
) -> Option<WantedChange> {
    let open = states.iter().filter(|state| !state.disabled && state.latency_us > limit);
    let reason = match open.map(named).collect::<Vec<_>>().join(", ") {
        none if none.is_empty() && always => "waking from deep sleep takes time".into(),
        none if none.is_empty() => return None,
        deeper => StepReason::DeepSleep { cpu, deeper, limit_us: limit },
    };
    let value = if limit == 0 { "n/a".to_owned() } else { limit.to_string() };
    let is_lower = now == "n/a" || now.parse().is_ok_and(|now: u64| 0 < now && now < limit);
    let (path, now) = (format!("{}/{FILE}", dir(cpu)), Some(now.to_owned()));
    let write = WantedChange::write(now, &path, &value, ValueComparison::Text, reason);
    Some(if is_lower { write.already_if(true) } else { write })
}

/// Switches the deeper states of one CPU off, on a kernel without a limit for one CPU.
fn switch_off(cpu: usize, limit: u64, states: &[IdleState]) -> Vec<WantedChange> {
    let deeper = states.iter().enumerate().filter(|(_, state)| state.latency_us > limit);
    let switch = |(number, state): (usize, &IdleState)| {
        let path = format!("{}/cpuidle/state{number}/disable", dir(cpu));
        let now = Some(u8::from(state.disabled).to_string());
        let reason = StepReason::DeepSleep { cpu, deeper: named(state), limit_us: limit };
        WantedChange::write(now, &path, "1", ValueComparison::Text, reason)
    };
    deeper.map(switch).collect()
}

fn named(state: &IdleState) -> String {
    format!("{} ({} µs)", state.name, state.latency_us)
}

/// Reads an exit latency that the kernel accepts as a limit, in microseconds.
fn latency_us(text: &str) -> Option<u64> {
    const LIMIT_MAX: u64 = i32::MAX as u64 - 1;
    let ns = parse_span(text).ok()?;
    Some(ns / 1_000).filter(|us| ns.is_multiple_of(1_000) && *us <= LIMIT_MAX)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{busy, shield};
    use super::*;
    use crate::documents::machine::{CgroupMode, IdleStates, TunableReading};
    use crate::policy::TunableSetting;

    const C6: &str = "leaving C6 (133 µs) takes longer than";

    #[test]
    fn a_limit_is_for_the_cpus_that_work_and_never_raises_a_lower_one() {
        let mut m = busy(CgroupMode::V2);
        m.power.cpuidle_driver = Some("intel_idle".to_owned());
        let state = |(name, latency_us): (&str, u64)| IdleState {
            name: name.to_owned(),
            latency_us,
            ..IdleState::default()
        };
        let mut shield = shield(&m);
        let file = |cpu| format!("/sys/devices/system/cpu/cpu{cpu}/power/pm_qos_resume_latency_us");
        shield.cpus = "2-3".parse().unwrap();
        let deep = [("POLL", 0), ("C1", 2), ("C1E", 10), ("C6", 133)];
        let odd = [("POLL", 0), ("C2", 40), ("C6", 133)];
        let light = [("POLL", 0), ("haltpoll idle", 1)];
        for (requested, max_us, states, idle, now, written) in [
            (Some("20us"), None, &deep[..], "", "0", Some(("20", C6))),
            (Some("0us"), None, &light, "", "0", Some(("n/a", "leaving haltpoll idle (1 µs)"))),
            (Some("500us"), None, &deep, "", "0", Some(("500", "waking from deep sleep"))),
            (None, None, &deep, "", "0", Some(("20", C6))),
            (None, Some(12), &deep, "", "0", Some(("3", "leaving C1E (10 µs), C6 (133 µs)"))),
            (None, Some(2), &deep, "", "0", Some(("2", "leaving C1E (10 µs), C6 (133 µs)"))),
            (None, Some(800), &deep, "", "0", None),
            (None, None, &odd, "", "0", Some(("40", C6))),
            (None, None, &light, "", "0", None),
            (None, None, &[], "", "0", None),
            (None, None, &deep, "2", "50", Some(("20", C6))),
            (Some("20us"), None, &deep, "", "10", Some(("already", C6))),
            (Some("20us"), None, &deep, "", "n/a", Some(("already", C6))),
        ] {
            shield.idle_siblings = idle.parse().unwrap_or_default();
            shield.max_latency_ns = max_us.map(|us| us * 1_000);
            let on = requested.map_or(true.into(), |it| TunableSetting::Value(it.to_owned()));
            shield.tunables.set("cpu-idle", on);
            let states = states.iter().copied().map(state).collect();
            m.power.idle_states = vec![IdleStates { cpus: shield.cpus.clone(), states }];
            for cpu in [2, 3] {
                m.settings.insert(file(cpu), TunableReading::Value(now.to_owned()));
            }
            let wanted = limit_sleep(&m, &shield).into_changes();
            let count = if written.is_some() { 2 - shield.idle_siblings.len() } else { 0 };
            assert_eq!(wanted.len(), count, "{requested:?} {max_us:?}");
            for (it, (value, why)) in wanted.iter().zip(written.iter().cycle()) {
                let wrote = it.change.requested_value();
                let wrote = if it.already { "already" } else { wrote.as_str() };
                assert_eq!(wrote, *value, "{requested:?} {now}");
                assert!(it.reason.to_string().starts_with(why), "{}", it.reason);
                assert!(!shield.idle_siblings.contains(2) || it.change.subject() == file(3));
            }
        }
        m.settings.retain(|path, _| !path.contains("pm_qos"));
        let wanted = limit_sleep(&m, &shield).into_changes().into_iter();
        let switches: Vec<String> = wanted.map(|it| it.change.subject()).collect();
        let switch = |cpu| format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle/state3/disable");
        assert_eq!(switches, [switch(2), switch(3)]);
    }

    #[test]
    fn a_command_has_the_limit_of_the_policy_once_and_only_where_it_counts() {
        let mut shield = shield(&busy(CgroupMode::V2));
        shield.max_latency_ns = Some(40_000);
        let value = || TunableSetting::Value("50us".to_owned());
        for (workload, setting, wanted) in [
            (Workload::Cyclic, None, "--on cpu-idle=10us"),
            (Workload::Cyclic, Some(true.into()), "--on cpu-idle=10us"),
            (Workload::Cyclic, Some(value()), "--on cpu-idle=50us"),
            (Workload::Cyclic, Some(false.into()), "--off cpu-idle"),
            (Workload::Polling, Some(true.into()), "--on cpu-idle=10us"),
            (Workload::Polling, None, ""),
        ] {
            shield.workload = workload;
            shield.tunables = setting.map(|it| ("cpu-idle".to_owned(), it)).into_iter().collect();
            let command = shield.request_command("apply");
            assert!(command.ends_with(wanted), "{command}");
            assert_eq!(command.matches("cpu-idle").count(), usize::from(!wanted.is_empty()));
        }
    }
}
