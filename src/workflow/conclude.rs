//! Concludes a trial boot. If the parameters are in force and a shield holds, they stay. Otherwise
//! all of them are removed.

use super::shield_options::ShieldOptions;
use super::try_shield::{self, TryRequest};
use super::{WorkContext, active_shields, catch_stops, verdict_check};
use crate::apply::ShieldPresence;
use crate::boot::trial::{self, TrialObservation};
use crate::boot::{BootError, is_reached, uptime_s};
use crate::change::EffectTime;
use crate::documents::boot::{ConcludedTrial, TrialDeadline, TrialDoubt, TrialGoal};
use crate::documents::evidence::Verdict;
use crate::failure::{Failure, FailureKind};
use crate::policy::ShieldRequest;
use crate::survey::survey;
use crate::tunables;
use crate::worker::log_argument;
use cpushield_linux::sys::signal::StopSignal;
use cpushield_linux::{CpuSet, Host, sys::signal};
use std::ffi::OsString;
use std::time::Duration;

/// How often the shield is watched. Right after a boot the system is still settling, so a shield
/// that leaks may hold a moment later.
const ATTEMPTS: u32 = 3;
/// How long each attempt watches, in seconds.
const SECONDS: u64 = 10;
/// How often a wait for a login or a network looks for it.
const GOAL_INTERVAL: Duration = Duration::from_secs(1);
/// How long the unit that falls back may take until the machine goes down, in seconds.
const FALL_BACK_S: u64 = 60;

/// Concludes the trial boot.
///
/// # Errors
/// There is no trial, the machine has not been rebooted since, or a boot file cannot be written.
pub fn conclude_trial(work: &WorkContext<'_>) -> Result<ConcludedTrial, Failure> {
    let WorkContext { ui, host, store, .. } = work;
    catch_stops()?;
    trial::remove_stale_unit(host, store)?;
    let seen = trial::observe(host, store)?;
    let mut doubts: Vec<TrialDoubt> = wait_for_goal(work, &seen)?.into_iter().collect();
    for attempt in 1..=ATTEMPTS {
        // If something already speaks against the trial, watching would add nothing.
        if !seen.against.is_empty() || !doubts.is_empty() || seen.proves.is_empty() {
            break;
        }
        ui.status(&format!(
            "watching a shield on CPU {}, attempt {attempt} of {ATTEMPTS}",
            seen.proves
        ));
        let doubt = find_doubt(work, &seen.proves);
        if let Some(signal) = signal::stopped_by() {
            // The trial stays open. A reboot without a decision boots the old entry.
            return Err(stopped_before_end(signal));
        }
        match doubt {
            None => break,
            Some(doubt) if attempt == ATTEMPTS => doubts.push(doubt),
            Some(_) => {}
        }
    }
    Ok(trial::conclude(host, store, &doubts)?.into())
}

/// Waits until the user can reach the machine, as the trial requires it. Returns a doubt when the
/// time passes. A unit falls back then; this waits a little longer, so that the unit comes first.
fn wait_for_goal(
    work: &WorkContext<'_>,
    seen: &TrialObservation,
) -> Result<Option<TrialDoubt>, Failure> {
    let WorkContext { ui, host, store, .. } = work;
    let Some(until) = seen.until.filter(|_| seen.against.is_empty()) else { return Ok(None) };
    let last_s = until.within_s.saturating_add(FALL_BACK_S);
    ui.status(&format!("waiting for {}", until.goal));
    let came = wait_until(host, until.goal, last_s)?;
    // The unit may have fallen back in that time.
    trial::observe(host, store)?;
    Ok((!came).then(|| not_reached(until)))
}

fn not_reached(until: TrialDeadline) -> TrialDoubt {
    TrialDoubt::NotReached { goal: until.goal, within_s: until.within_s }
}

fn stopped_before_end(signal: StopSignal) -> Failure {
    Failure::stopped(signal).hint("conclude the trial: cpushield boot conclude")
}

/// Waits for a goal until the kernel has run for so many seconds; `false` if it did not come.
fn wait_until(host: &Host, goal: TrialGoal, last_s: u64) -> Result<bool, Failure> {
    loop {
        if is_reached(host, goal) {
            return Ok(true);
        }
        if let Some(signal) = signal::stopped_by() {
            return Err(stopped_before_end(signal));
        }
        // Without a clock the time never passes, and a person decides.
        if uptime_s(host).is_some_and(|uptime| uptime >= last_s) {
            return Ok(false);
        }
        std::thread::sleep(GOAL_INTERVAL);
    }
}

/// Waits until the user can reach the machine. If that takes too long, undoes the trial and reboots
/// into the old entry. The loader boots that entry even if the trial cannot be undone.
///
/// # Errors
/// A signal stopped it, or the reboot was refused.
pub fn reboot_unless_reached(
    work: &WorkContext<'_>,
    until: TrialDeadline,
) -> Result<Option<ConcludedTrial>, Failure> {
    let WorkContext { ui, host, store, .. } = work;
    catch_stops()?;
    if wait_until(host, until.goal, until.within_s)? {
        return Ok(None);
    }
    let end = match trial::conclude(host, store, &[not_reached(until)]) {
        Ok(end) => Some(end.into()),
        // Another process concluded or undid the trial, so a user can reach the machine.
        Err(BootError::NoTrial | BootError::NotBooted { .. }) => return Ok(None),
        Err(error) => {
            ui.warn(&format!("cannot undo the trial in this boot: {error}"));
            None
        }
    };
    ui.warn(&format!("{} did not come up in time: rebooting into the old entry", until.goal));
    host.systemctl(&["reboot"]).or_else(|_| host.systemctl(&["reboot", "--force"]))?;
    Ok(end)
}

/// Watches a shield on these CPUs. Returns why it does not hold; `None` if it holds.
fn find_doubt(work: &WorkContext<'_>, cpus: &CpuSet) -> Option<TrialDoubt> {
    let WorkContext { host, store, .. } = work;
    match active_shields::find_settled_shield(host, store) {
        // A shield that the boot restored is the one to watch.
        Ok(ShieldPresence::Whole(journal)) => {
            let shielded = journal.shielded_cpus();
            return trial::why_unproved(cpus, &shielded).or_else(|| {
                let shields = journal.plans().into_iter().map(|plan| plan.shield);
                let mut shields = shields.filter(|shield| shield.cpus.intersects(cpus));
                shields.find_map(|shield| verify_active(work, &shield.name))
            });
        }
        Ok(ShieldPresence::Part(_, unfinished)) => {
            return Some(TrialDoubt::ShieldIncomplete { unfinished: unfinished.to_string() });
        }
        Ok(ShieldPresence::Absent) => {}
        Err(error) => return Some(not_watched(Failure::from(error))),
    }
    let machine = survey(host, &tunables::reads());
    let of_policy = ShieldOptions::default();
    // A policy with several shields, or a faulty one, says nothing about the parameters.
    let without_policy = ShieldOptions::of_list(cpus);
    let resolved = of_policy
        .resolve(host, &machine, EffectTime::Runtime)
        .or_else(|_| without_policy.resolve(host, &machine, EffectTime::Runtime));
    let resolved = match resolved {
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

/// Verifies an active shield in a separate `verify` process. Returns why it does not hold. Other
/// shields of this boot are interrupted a little by that. Where a program runs in the shield, the
/// gap sampler is refused, so that program is watched instead.
fn verify_active(work: &WorkContext<'_>, shield: &str) -> Option<TrialDoubt> {
    let mut arguments: Vec<OsString> = vec!["--state".into(), work.state_dir.clone().into()];
    arguments.extend(work.host.log_path().map(log_argument));
    let time = format!("{SECONDS}s");
    let words = ["verify", "--shield", shield, "--disturb", "--for", &time];
    arguments.extend(words.map(OsString::from));
    let refused = Some(i32::from(FailureKind::Machine.code()));
    let verify = |more: &[OsString]| {
        let mut child = work.host.spawn_self(&[&arguments[..], more].concat())?;
        child.wait().map(|status| status.code())
    };
    let ended = match verify(&[]) {
        Ok(code) if code == refused => verify(&["--busy".into()]),
        ended => ended,
    };
    let shield = shield.to_owned();
    match ended {
        Ok(Some(0)) => None,
        Ok(code) if code == Some(i32::from(FailureKind::DoesNotHold.code())) => {
            Some(TrialDoubt::VerifyFails { shield })
        }
        Ok(code) => {
            let end = code.map_or("a signal".to_owned(), |code| format!("exit code {code}"));
            let why = format!("`cpushield verify --shield {shield}` ended with {end}");
            Some(TrialDoubt::NotWatched { why })
        }
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
