//! Checks whether a request is possible on this machine, and makes notes about it.

use super::LatencyNote;
use super::order::{LatencyError, MeasureRequest};
use super::refusal::ThreadRefusal;
use cpushield_linux::{CpuSet, Host};

/// The shortest period: a shorter one leaves a thread no time to sleep on most machines.
const SHORTEST_NS: u64 = 10_000;

/// Checks the request. Returns the online CPUs.
pub(super) fn check_request(
    host: &Host,
    request: &MeasureRequest<'_>,
) -> Result<CpuSet, LatencyError> {
    if !host.is_live() {
        return Err(LatencyError::Recorded);
    }
    if request.cpus.is_empty() {
        return Err(LatencyError::NoCpus);
    }
    let online = host.online_cpus()?;
    let offline = request.cpus.difference(&online);
    if !offline.is_empty() {
        return Err(LatencyError::Offline { cpus: offline, online });
    }
    let offline = request.load.cpus.difference(&online);
    if !offline.is_empty() {
        return Err(LatencyError::Offline { cpus: offline, online });
    }
    (request.instrument.possible)(host).map_err(|why| request.refuse(why))?;
    check_threads(request, &online)
        .map_err(|why| LatencyError::Unsuited { instrument: request.instrument.name, why })?;
    Ok(online)
}

/// Checks that the instrument can have the requested threads on these CPUs.
fn check_threads(request: &MeasureRequest<'_>, online: &CpuSet) -> Result<(), ThreadRefusal> {
    let instrument = request.instrument;
    if online.difference(&request.cpus).is_empty() {
        if instrument.is_endless {
            return Err(ThreadRefusal::EveryCpuBusy);
        }
        if !request.force && request.threads.iter().any(|thread| thread.policy.rt_priority() > 0) {
            return Err(ThreadRefusal::RealTimeOnEveryCpu);
        }
    }
    for thread in &request.threads {
        if !instrument.is_endless && thread.period_ns < SHORTEST_NS {
            return Err(ThreadRefusal::PeriodTooShort {
                period_ns: thread.period_ns,
                least_ns: SHORTEST_NS,
            });
        }
        (instrument.check_period)(thread.period_ns)?;
    }
    if instrument.has_one_period && request.threads.len() > 1 {
        return Err(ThreadRefusal::SeveralPeriods);
    }
    let most = instrument.threads_max;
    if request.threads.len().saturating_mul(request.cpus.len()) > most {
        return Err(ThreadRefusal::TooMany { most });
    }
    Ok(())
}

/// Finds the measured CPUs that other activity of this program shares.
pub(super) fn find_sharing_notes(
    request: &MeasureRequest<'_>,
    online: &CpuSet,
) -> Vec<LatencyNote> {
    let mut notes = Vec::new();
    if online.difference(&request.cpus).is_empty() {
        notes.push(LatencyNote::EveryCpuMeasured);
    }
    let cpus = request.cpus.intersection(&request.load.cpus);
    if !cpus.is_empty() && !request.load.wanted.is_empty() {
        notes.push(LatencyNote::LoadOnMeasuredCpus { cpus });
    }
    notes
}

/// Finds measured CPUs whose timers may expire on another CPU.
pub(super) fn find_timer_migration(
    request: &MeasureRequest<'_>,
    nohz_full: Option<&CpuSet>,
    migration: Option<bool>,
) -> Option<LatencyNote> {
    let by_tracer = request.instrument.tracer.is_some();
    let timed = !request.instrument.is_endless && request.instrument.drive.is_none() && !by_tracer;
    let cpus = request.cpus.intersection(nohz_full.filter(|_| timed && migration == Some(true))?);
    (!cpus.is_empty()).then_some(LatencyNote::TimersMayMigrate { cpus })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::instruments::named;
    use crate::latency::{IsolationChecking, ThreadSpec};
    use crate::load;
    use crate::policy::LatencyLimits;
    use cpushield_linux::{SchedPolicy, Store};
    use std::time::Duration;

    fn request(
        name: &str,
        cpus: &str,
        period_ns: u64,
        policy: SchedPolicy,
    ) -> MeasureRequest<'static> {
        MeasureRequest {
            instrument: named(name).unwrap(),
            cpus: cpus.parse().unwrap(),
            threads: vec![ThreadSpec { period_ns, policy }],
            span: Duration::from_secs(1),
            warmup: Duration::ZERO,
            over_ns: Vec::new(),
            limits: LatencyLimits::default(),
            cgroup: None,
            guard: None,
            store: Store::new(std::path::Path::new("/nonexistent")),
            load: load::LoadRequest::none(),
            force: false,
            why: false,
            isolation: IsolationChecking::Unchecked,
            progress: &|_| {},
            autosave: None,
            stop: &|| false,
        }
    }

    #[test]
    fn a_timer_that_may_expire_on_another_cpu_is_noted() {
        let nohz_full: CpuSet = "2-3".parse().unwrap();
        let note = |name, cpus, migration| {
            let request = request(name, cpus, 1_000_000, SchedPolicy::Other { nice: 0 });
            find_timer_migration(&request, Some(&nohz_full), migration)
        };
        let migrates = LatencyNote::TimersMayMigrate { cpus: CpuSet::single(2) };
        assert_eq!(note("timer", "1-2", Some(true)), Some(migrates));
        for (name, cpus, migration) in [
            ("timer", "1", Some(true)),
            ("timer", "2", Some(false)),
            ("timer", "2", None),
            ("spin", "2", Some(true)),
            ("wakeup", "2", Some(true)),
            ("kernel", "2", Some(true)),
        ] {
            assert_eq!(note(name, cpus, migration), None, "{name} {cpus} {migration:?}");
        }
    }

    #[test]
    fn a_load_on_measured_cpus_is_noted() {
        let other = SchedPolicy::Other { nice: 0 };
        let notes = |words: &[&str], cpus: &str| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let wanted = load::parse_loads(&words).unwrap();
            let load = load::LoadRequest {
                wanted,
                cpus: cpus.parse().unwrap(),
                ..load::LoadRequest::none()
            };
            let request = MeasureRequest { load, ..request("timer", "2-3", 1_000_000, other) };
            find_sharing_notes(&request, &"0-3".parse().unwrap())
        };
        assert_eq!(notes(&["disk"], "0-1"), []);
        assert_eq!(notes(&[], "0-3"), []);
        let shared = LatencyNote::LoadOnMeasuredCpus { cpus: CpuSet::single(2) };
        assert_eq!(notes(&["disk"], "0-2"), [shared]);
    }

    #[test]
    fn threads_that_could_starve_the_machine_are_refused() {
        let all: CpuSet = "0-3".parse().unwrap();
        let refusal = |instrument, cpus: &str, period_ns, policy, force| {
            let request = MeasureRequest { force, ..request(instrument, cpus, period_ns, policy) };
            check_threads(&request, &all).err()
        };
        let (fifo, other) = (SchedPolicy::Fifo { priority: 80 }, SchedPolicy::Other { nice: 0 });
        let short = ThreadRefusal::PeriodTooShort { period_ns: 9_999, least_ns: 10_000 };
        assert_eq!(refusal("timer", "3", 10_000, fifo, false), None);
        assert_eq!(refusal("timer", "3", 9_999, fifo, true), Some(short));
        assert!(short.to_string().ends_with("the shortest period is 10us"));
        let starved = Some(ThreadRefusal::RealTimeOnEveryCpu);
        assert_eq!(refusal("timer", "0-3", 1_000_000, fifo, false), starved);
        assert_eq!(refusal("timer", "0-3", 1_000_000, fifo, true), None);
        assert_eq!(refusal("timer", "0-3", 1_000_000, other, false), None);
        assert_eq!(refusal("spin", "3", 0, other, false), None);
        assert_eq!(refusal("spin", "0-3", 0, other, true), Some(ThreadRefusal::EveryCpuBusy));
    }
}
