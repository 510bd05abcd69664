//! Programs of a shield that may starve the kernel, because they have raised themselves above its
//! threads, and programs whose threads compete for one CPU.

use super::{RunError, ShieldPlacement, order, raise};
use crate::documents::shield_status::ProgramRisk;
use cpushield_linux::error::present;
use cpushield_linux::processes::process;
use cpushield_linux::{Host, Task};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long after its start a program is observed, and how often.
const OBSERVED: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(250);

/// Finds the programs of the shield that are a risk, apart from those that were there before it.
///
/// # Errors
/// `/proc` cannot be read.
pub fn find_risks(host: &Host, place: &ShieldPlacement) -> Result<Vec<ProgramRisk>, RunError> {
    let (mut risks, mut busy) = (BTreeMap::new(), BTreeMap::<(i32, usize), Vec<Task>>::new());
    // All of /proc, read once, and only for a program with a real-time priority.
    let mut kernel = None;
    for tid in place.members(host)? {
        let Some(task) = present(super::task_lookup::find_task(host, tid))? else { continue };
        if place.residents.contains(&task.pid) {
            continue;
        }
        let policy = present(host.scheduling(tid))?;
        let cpus = present(host.affinity(tid))?.map(|cpus| cpus.intersection(&place.cpus));
        if let (Some(policy), Some(cpus)) = (policy, cpus)
            && policy.rt_priority() > 0
        {
            if kernel.is_none() {
                kernel = Some(raise::threads(host, &place.cpus)?);
            }
            let threads = order(policy, &cpus, kernel.as_deref().unwrap_or_default());
            let threads = threads.above.into_iter();
            let below = threads.filter(|it| !it.policy.is_above(policy.rt_priority()));
            let below: Vec<String> = below.map(|thread| thread.comm).collect();
            if !below.is_empty() {
                let (pid, comm) = (task.pid, task.comm.clone());
                risks.insert(pid, ProgramRisk::AboveKernel { pid, comm, policy, cpus, below });
            }
        }
        if task.state == 'R' {
            busy.entry((task.pid, task.cpu)).or_default().push(task);
        }
    }
    let can_spread = place.cpus.len() > 1;
    let crowded = busy.into_iter().filter(|(_, threads)| can_spread && threads.len() > 1);
    let crowded = crowded.map(|((pid, cpu), threads)| {
        let (comm, threads) = (threads[0].comm.clone(), threads.len());
        ProgramRisk::Crowded { pid, comm, cpu, threads }
    });
    Ok(risks.into_values().chain(crowded).collect())
}

/// Observes what starts in the shield from now on, in a process of its own, and reports each risk
/// once. That process ends with this one, or with the program that this one becomes.
///
/// # Errors
/// The kernel's error.
pub fn observe_start(
    host: &Host,
    place: &ShieldPlacement,
    report: &dyn Fn(String),
) -> std::io::Result<()> {
    let known = place.members(host).unwrap_or_default();
    let starter = host.own_pid().unwrap_or(0);
    process::start_observer(|| {
        let mut reported = Vec::new();
        let mut crowded = Vec::new();
        for _ in 0..OBSERVED.as_millis() / PAUSE.as_millis() {
            std::thread::sleep(PAUSE);
            if host.task(starter, starter).map_or(true, |task| task.has_ended()) {
                break;
            }
            let risks = find_risks(host, place).unwrap_or_default();
            for risk in risks.iter().filter(|risk| !known.contains(&risk.pid())) {
                // Threads that compete for a moment are no risk.
                let lasts = !matches!(risk, ProgramRisk::Crowded { .. }) || crowded.contains(risk);
                if lasts && !reported.contains(&risk.key()) {
                    reported.push(risk.key());
                    report(risk.to_string());
                }
            }
            crowded = risks;
        }
    })
}
