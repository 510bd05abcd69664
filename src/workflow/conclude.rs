//! Concludes a trial boot. If the parameters are in force and a shield holds, they stay. Otherwise
//! all of them are removed.

use super::shield_options::ShieldOptions;
use super::try_shield::{self, TryRequest};
use super::{WorkContext, catch_stops, standing, verdict_check};
use crate::apply::ShieldPresence;
use crate::boot::{TrialDoubt, TrialEnd, trial};
use crate::change::EffectTime;
use crate::documents::evidence::Verdict;
use crate::failure::{Failure, FailureKind};
use crate::policy::ShieldRequest;
use crate::survey::survey;
use crate::tunables;
use cpushield_linux::{CpuSet, process, signal};
use std::path::Path;
use std::time::Duration;

/// How often the shield is watched. Right after a boot the system is still settling, so a shield
/// that leaks may hold a moment later.
const ATTEMPTS: u32 = 3;
/// How long each attempt watches, in seconds.
const SECONDS: u64 = 10;

/// Concludes the trial boot.
///
/// # Errors
/// There is no trial, the machine has not been rebooted since, or a boot file cannot be written.
pub fn conclude_trial(work: &WorkContext<'_>) -> Result<TrialEnd, Failure> {
    let WorkContext { ui, host, store, .. } = work;
    catch_stops()?;
    trial::remove_stale_unit(host, store)?;
    let seen = trial::observe(host, store)?;
    let mut doubts = Vec::new();
    for attempt in 1..=ATTEMPTS {
        // If something already speaks against the trial, watching would add nothing.
        if !seen.against.is_empty() || seen.proves.is_empty() {
            break;
        }
        ui.status(&format!(
            "watching a shield on CPU {}, attempt {attempt} of {ATTEMPTS}",
            seen.proves
        ));
        doubts = find_doubt(work, &seen.proves).into_iter().collect();
        if let Some(signal) = signal::stopped_by() {
            // The trial stays open. A reboot without a decision boots the old entry.
            let stopped = Failure::new(FailureKind::Undone, format!("stopped by signal {signal}"));
            return Err(stopped.hint("conclude the trial: cpushield boot conclude"));
        }
        if doubts.is_empty() {
            break;
        }
    }
    Ok(trial::conclude(host, store, &doubts)?)
}

/// Watches a shield on these CPUs. Returns why it does not hold; `None` if it holds.
fn find_doubt(work: &WorkContext<'_>, cpus: &CpuSet) -> Option<TrialDoubt> {
    let WorkContext { host, store, .. } = work;
    match standing::find_settled_shield(host, store) {
        // A shield that the boot restored is the one to watch.
        Ok(ShieldPresence::Whole(journal)) => {
            let active = journal.plan();
            return trial::why_unproved(cpus, &active.shield.cpus)
                .or_else(|| verify_active(&work.state_dir));
        }
        Ok(ShieldPresence::Part(_, unfinished)) => {
            return Some(TrialDoubt::ShieldIncomplete { unfinished: unfinished.to_string() });
        }
        Ok(ShieldPresence::Absent) => {}
        Err(error) => return Some(not_watched(Failure::from(error))),
    }
    let machine = survey(host, &tunables::reads());
    let resolved = match ShieldOptions::default().resolve(host, &machine, EffectTime::Runtime) {
        Ok(resolved) => resolved,
        Err(failure) => return Some(not_watched(failure)),
    };
    let request = ShieldRequest {
        cpus: Some(cpus.clone()),
        count: None,
        share: None,
        near: None,
        node: None,
        ..resolved.request
    };
    let trying = TryRequest {
        machine,
        request,
        limits: resolved.limits,
        span: Duration::from_secs(SECONDS),
        price: Vec::new(),
    };
    match try_shield::attempt_guarded(work, &trying) {
        Ok(attempt) if attempt.verdict.holds() => None,
        Ok(attempt) => Some(TrialDoubt::ShieldLeaks { verdict: describe_leaks(&attempt.verdict) }),
        Err(failure) => Some(not_watched(failure)),
    }
}

fn not_watched(failure: Failure) -> TrialDoubt {
    TrialDoubt::NotWatched { why: failure.message }
}

/// Verifies the active shield in a separate `verify` process. Returns why it does not hold.
fn verify_active(state_dir: &Path) -> Option<TrialDoubt> {
    let (state, time) = (state_dir.display().to_string(), format!("{SECONDS}s"));
    let ended = process::spawn_self(&["--state", &state, "verify", "--for", &time])
        .and_then(|mut child| child.wait());
    match ended {
        Ok(status) if status.success() => None,
        Ok(_) => Some(TrialDoubt::VerifyFails),
        Err(error) => Some(TrialDoubt::NotWatched { why: format!("cannot run verify: {error}") }),
    }
}

/// Summarizes a verdict, with each leak and each unknown.
fn describe_leaks(verdict: &Verdict) -> String {
    let mut parts =
        vec![verdict_check::summary(verdict, verdict_check::VerdictSubject::FixedShield)];
    for cpu in &verdict.cpus {
        parts.extend(cpu.leaks.iter().map(|leak| {
            let seen = &leak.interruptions;
            format!("{} {} times", seen.cause.name(), seen.count)
        }));
        parts.extend(cpu.unknown.iter().map(ToString::to_string));
    }
    parts.join(", ")
}
