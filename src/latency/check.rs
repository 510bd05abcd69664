//! Whether an order can be followed on this machine, and what of it is to be told.

use super::measure::exact;
use super::order::{LatencyError, MeasureRequest};
use cpushield_linux::{CpuSet, Host};

/// A shorter period leaves a thread no time to sleep on most machines.
const SHORTEST_NS: u64 = 10_000;

/// The online CPUs, when the order can be followed.
pub(super) fn check(host: &Host, order: &MeasureRequest<'_>) -> Result<CpuSet, LatencyError> {
    if !host.is_live() {
        return Err(LatencyError::Recorded);
    }
    if order.cpus.is_empty() {
        return Err(LatencyError::NoCpus);
    }
    let online = host.online_cpus()?;
    let offline = order.cpus.minus(&online);
    if !offline.is_empty() {
        return Err(LatencyError::Offline { cpus: offline, online });
    }
    let offline = order.load.cpus.minus(&online);
    if !offline.is_empty() {
        return Err(LatencyError::Offline { cpus: offline, online });
    }
    order
        .instrument
        .possible(host)
        .map_err(|why| LatencyError::Impossible { instrument: order.instrument.name(), why })?;
    suits(order, &online)
        .map_err(|why| LatencyError::Unsuited { instrument: order.instrument.name(), why })?;
    Ok(online)
}

/// Why the instrument cannot have these threads on these CPUs.
fn suits(order: &MeasureRequest<'_>, online: &CpuSet) -> Result<(), String> {
    let instrument = order.instrument;
    if online.minus(&order.cpus).is_empty() {
        if instrument.is_endless() {
            return Err("every CPU would be kept busy; leave one out of --cpus".to_owned());
        }
        if !order.force && order.beats.iter().any(|beat| beat.policy.rt_priority() > 0) {
            return Err(
                "real-time threads on every CPU could leave no time for anything else, not \
                 even for what ends them; leave a CPU out of --cpus, take --other, or --force it"
                    .to_owned(),
            );
        }
    }
    for beat in &order.beats {
        if !instrument.is_endless() && beat.period_ns < SHORTEST_NS {
            let (asked, least) = (exact(beat.period_ns), exact(SHORTEST_NS));
            return Err(format!(
                "a thread of {asked} would never sleep and take its CPU for itself; the shortest \
                 period is {least}"
            ));
        }
        instrument.suits(beat.period_ns)?;
    }
    if instrument.has_one_period() && order.beats.len() > 1 {
        return Err("it has one period for all CPUs: name one --thread".to_owned());
    }
    let most = instrument.threads_max();
    if order.beats.len().saturating_mul(order.cpus.len()) > most {
        return Err(format!("{most} thread at most: name one CPU (--cpus) and one period"));
    }
    Ok(())
}

/// What shares the measured CPUs with the threads, where it was asked for so.
pub(super) fn beforehand(order: &MeasureRequest<'_>, online: &CpuSet) -> Vec<String> {
    let mut notes = Vec::new();
    if online.minus(&order.cpus).is_empty() {
        notes.push(
            "every CPU is measured, so cpushield itself runs together with the threads".to_owned(),
        );
    }
    let both = order.cpus.and(&order.load.cpus);
    if !both.is_empty() && !order.load.wanted.is_empty() {
        notes.push(format!("the load runs on the measured CPU {both} too, as --load-cpus says"));
    }
    notes
}

/// On which CPUs the kernel may let the timers expire somewhere else.
pub(super) fn elsewhere(
    order: &MeasureRequest<'_>,
    nohz_full: Option<&CpuSet>,
    migration: Option<bool>,
) -> Option<String> {
    let by_tracer = order.instrument.tracer().is_some();
    let timed = !order.instrument.is_endless() && !order.instrument.is_driven() && !by_tracer;
    let cpus = order.cpus.and(nohz_full.filter(|_| timed && migration == Some(true))?);
    (!cpus.is_empty()).then(|| {
        format!(
            "CPU {cpus} is nohz_full and kernel.timer_migration is 1: its timers may expire on a \
             housekeeping CPU, and what that one does is part of the figures then"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::ThreadSpec;
    use crate::latency::instruments::by_name;
    use crate::load;
    use cpushield_linux::{SchedPolicy, Store};
    use std::time::Duration;

    fn order(
        name: &str,
        cpus: &str,
        period_ns: u64,
        policy: SchedPolicy,
    ) -> MeasureRequest<'static> {
        MeasureRequest {
            instrument: by_name(name).unwrap(),
            cpus: cpus.parse().unwrap(),
            beats: vec![ThreadSpec { period_ns, policy }],
            span: Duration::from_secs(1),
            warmup: Duration::ZERO,
            over_ns: Vec::new(),
            max_ns: None,
            cgroup: None,
            guard: None,
            store: Store::new(std::path::Path::new("/nonexistent")),
            load: load::LoadRequest::none(),
            force: false,
            why: false,
            progress: &|_| {},
            keep: None,
            stop: &|| false,
        }
    }

    #[test]
    fn a_timer_that_may_expire_elsewhere_is_told() {
        let nohz_full: CpuSet = "2-3".parse().unwrap();
        let said = |name, cpus, migration| {
            let order = order(name, cpus, 1_000_000, SchedPolicy::Other { nice: 0 });
            elsewhere(&order, Some(&nohz_full), migration)
        };
        assert!(said("timer", "1-2", Some(true)).is_some_and(|s| s.starts_with("CPU 2 is nohz")));
        for (name, cpus, migration) in [
            ("timer", "1", Some(true)),
            ("timer", "2", Some(false)),
            ("timer", "2", None),
            ("spin", "2", Some(true)),
            ("wakeup", "2", Some(true)),
            ("kernel", "2", Some(true)),
        ] {
            assert_eq!(said(name, cpus, migration), None, "{name} {cpus} {migration:?}");
        }
    }

    #[test]
    fn a_load_on_measured_cpus_is_told() {
        let other = SchedPolicy::Other { nice: 0 };
        let said = |words: &[&str], cpus: &str| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let wanted = load::wanted(&words).unwrap();
            let load = load::LoadRequest {
                wanted,
                cpus: cpus.parse().unwrap(),
                ..load::LoadRequest::none()
            };
            let order = MeasureRequest { load, ..order("timer", "2-3", 1_000_000, other) };
            beforehand(&order, &"0-3".parse().unwrap()).join(", ")
        };
        assert_eq!(said(&["disk"], "0-1"), "");
        assert_eq!(said(&[], "0-3"), "");
        assert!(said(&["disk"], "0-2").contains("measured CPU 2 too"));
    }

    #[test]
    fn threads_that_take_the_machine_are_refused() {
        let all: CpuSet = "0-3".parse().unwrap();
        let said = |instrument, cpus: &str, period_ns, policy, force| {
            let order = MeasureRequest { force, ..order(instrument, cpus, period_ns, policy) };
            suits(&order, &all).err().unwrap_or_default()
        };
        let (fifo, other) = (SchedPolicy::Fifo { priority: 80 }, SchedPolicy::Other { nice: 0 });
        assert_eq!(said("timer", "3", 10_000, fifo, false), "");
        assert!(said("timer", "3", 9_999, fifo, true).contains("the shortest period is 10us"));
        assert!(said("timer", "0-3", 1_000_000, fifo, false).contains("--force"));
        assert_eq!(said("timer", "0-3", 1_000_000, fifo, true), "");
        assert_eq!(said("timer", "0-3", 1_000_000, other, false), "");
        assert_eq!(said("spin", "3", 0, other, false), "");
        assert!(said("spin", "0-3", 0, other, true).contains("kept busy"));
    }
}
