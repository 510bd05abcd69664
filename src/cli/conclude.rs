//! `cpushield boot conclude`: the end of a trial boot. The words are in force, the machine
//! is up and a shield holds: then they stay; else everything is taken back.

use super::request::RequestArgs;
use super::try_shield::{self, TryRequest};
use super::{GlobalArgs, exit_status, standing};
use crate::apply::ShieldPresence;
use crate::boot::trial;
use crate::change::EffectTime;
use crate::failure::{Failure, FailureKind};
use crate::policy::ShieldRequest;
use crate::report::boot_trial_text;
use crate::survey::survey;
use crate::tunables;
use crate::ui::Ui;
use crate::verify::Verdict;
use cpushield_linux::{CpuSet, Host, Store, process, signal};
use std::time::Duration;

/// Right after a boot much is still settling; a shield that leaks then may hold a moment later.
const LOOKS: u32 = 3;
/// How long one look watches, in seconds.
const SECONDS: u64 = 10;

/// Runs it.
///
/// # Errors
/// There is no trial, the machine was not booted since, or a boot file cannot be written.
pub(super) fn run(ui: &Ui, global: &GlobalArgs, host: &Host, store: &Store) -> Result<(), Failure> {
    signal::catch_stops().map_err(|e| Failure::machine(format!("cannot catch signals: {e}")))?;
    trial::remove_stale_unit(host, store)?;
    let seen = trial::observe(host, store)?;
    let mut doubts = Vec::new();
    for look in 1..=LOOKS {
        // What speaks against it already needs no proof.
        if !seen.against.is_empty() || seen.proves.is_empty() {
            break;
        }
        ui.status(&format!("watching a shield on CPU {}, look {look} of {LOOKS}", seen.proves));
        doubts = doubt(ui, global, host, store, &seen.proves).into_iter().collect();
        if let Some(signal) = signal::stopped_by() {
            // Nothing is decided: whoever boots again without settling is on the old entry.
            let stopped = Failure::new(FailureKind::Undone, format!("stopped by signal {signal}"));
            return Err(stopped.hint("the trial is not concluded: cpushield boot conclude"));
        }
        if doubts.is_empty() {
            break;
        }
    }
    let end = trial::conclude(host, store, &doubts)?;
    ui.show(&end, || boot_trial_text(&end))
}

/// Why a shield on these CPUs does not hold; `None` when it does.
fn doubt(
    ui: &Ui,
    global: &GlobalArgs,
    host: &Host,
    store: &Store,
    cpus: &CpuSet,
) -> Option<String> {
    match standing::after_others(host, store) {
        // The shield that is restored at boot is the one that counts.
        Ok(ShieldPresence::Whole(journal)) => {
            let active = journal.plan();
            return trial::why_unproved(cpus, &active.shield.cpus).or_else(|| watched(global));
        }
        Ok(ShieldPresence::Part(_, unfinished)) => {
            return Some(format!("no whole shield is there to be watched: {unfinished}"));
        }
        Ok(ShieldPresence::Absent) => {}
        Err(error) => return Some(Failure::from(error).message),
    }
    let machine = survey(host, &tunables::reads());
    let asked = match RequestArgs::default().asked(host, &machine, EffectTime::Runtime) {
        Ok(asked) => asked,
        Err(failure) => return Some(failure.message),
    };
    let wish = ShieldRequest { cpus: Some(cpus.clone()), count: None, share: None, ..asked.wish };
    let wish = ShieldRequest { near: None, node: None, ..wish };
    let trying = TryRequest {
        machine,
        wish,
        limits: asked.limits,
        span: Duration::from_secs(SECONDS),
        price: Vec::new(),
    };
    match try_shield::attempted(ui, global, host, store, &trying) {
        Ok(attempt) if attempt.verdict.holds() => None,
        Ok(attempt) => Some(why(&attempt.verdict)),
        Err(failure) => Some(failure.message),
    }
}

/// The active shield, watched by a `verify` of its own.
fn watched(global: &GlobalArgs) -> Option<String> {
    let (state, time) = (global.state_dir().display().to_string(), format!("{SECONDS}s"));
    let ended = process::spawn_self(&["--state", &state, "verify", "--for", &time])
        .and_then(|mut child| child.wait());
    match ended {
        Ok(status) if status.success() => None,
        Ok(_) => Some("the shield does not hold: cpushield verify says why".to_owned()),
        Err(error) => Some(format!("verify cannot be run: {error}")),
    }
}

/// The words of a verdict, with what leaks and what is not known.
fn why(verdict: &Verdict) -> String {
    let mut parts = vec![exit_status::summary(verdict, exit_status::VerdictSubject::FixedShield)];
    for cpu in &verdict.cpus {
        parts.extend(cpu.leaks.iter().map(|leak| {
            let seen = &leak.interruptions;
            format!("{} {} times", seen.cause.name(), seen.count)
        }));
        parts.extend(cpu.unknown.iter().map(ToString::to_string));
    }
    parts.join(", ")
}
