//! Which parameters are written, booted and in force: compares the journal, the loader's menu,
//! `/proc/cmdline` and the kernel's files. Writes nothing.

use super::document::{BootDifference, BootJournal, BootStatus, SCHEMA, TrialState, WordStatus};
use super::error::BootError;
use super::{early, line, loaders, plan, refusals, trial, write};
use crate::survey::{CommandLineFault, isolation_setup};
use cpushield_linux::text::cmdline;
use cpushield_linux::text::kernel_version::KernelVersion;
use cpushield_linux::{CpuSet, Host, Store};

/// Reads the status of the boot parameters.
///
/// # Errors
/// The journal or a file of the loader cannot be read or parsed.
pub fn status(host: &Host, store: &Store) -> Result<BootStatus, BootError> {
    let journal = super::journal(store)?;
    let menu = loaders::find(host)?;
    let booted = host.read_line("/proc/cmdline").unwrap_or_default();
    let running = host.read_line("/proc/sys/kernel/osrelease").ok();
    let words = journal.as_ref().map(|it| it.words.clone()).unwrap_or_default();
    let found = menu.as_ref().map(|(_, found)| found.clone()).unwrap_or_default();
    let mut kernels: Vec<String> = Vec::new();
    for entry in &found.entries {
        let new = !kernels.contains(&entry.version);
        let has = !words.is_empty() && write::find_entry(&found, &entry.version, &words).is_some();
        if new && has {
            kernels.push(entry.version.clone());
        }
    }
    // Without a log refusals are unknown; whether a word is in force is still visible.
    let any_booted = words.iter().any(|word| line::has(&booted, word));
    let log = if any_booted { host.kernel_log().unwrap_or_default() } else { Vec::new() };
    let words: Vec<WordStatus> = words
        .iter()
        .map(|word| {
            let (shows, in_force) = read_effect(host, word);
            let written = found.entries.iter().any(|entry| line::has(&entry.args, word));
            let booted = line::has(&booted, word);
            let refusals = if booted { refusals::find(&log, word) } else { Vec::new() };
            WordStatus { word: word.clone(), written, booted, shows, in_force, refusals }
        })
        .collect();
    let trial_state = journal.as_ref().and_then(|it| trial_state(host, it, &words, &found));
    let differs = journal
        .as_ref()
        .map(|journal| differences(journal, &words, &kernels, running.as_deref()))
        .unwrap_or_default();
    let trial = journal.as_ref().and_then(|journal| journal.trial.clone());
    let last_trial = store.read(trial::TRIAL)?.and_then(|text| serde_json::from_slice(&text).ok());
    Ok(BootStatus {
        schema: SCHEMA,
        covers_later: menu.as_ref().is_some_and(|(loader, _)| loader.covers_later(host)),
        loader: menu.map(|(loader, _)| loader.name().to_owned()),
        words,
        rule: journal.map(|journal| journal.rule),
        kernels,
        next: plan::next_boot(&found),
        trial,
        trial_state,
        last_trial,
        enabled: early::installed(store)?,
        faults: command_line_faults(host, &booted, running.as_deref()),
        differs,
        running,
    })
}

/// The state of the journal's trial; `None` when it has none.
fn trial_state(
    host: &Host,
    journal: &BootJournal,
    words: &[WordStatus],
    found: &loaders::FoundLoader,
) -> Option<TrialState> {
    let trial = journal.trial.as_ref()?;
    if host.read_line("/proc/sys/kernel/random/boot_id").ok() == journal.boot_id {
        return Some(TrialState::Armed);
    }
    if words.iter().all(|word| word.booted) {
        return Some(TrialState::Booted);
    }
    let next = found.next.and_then(|index| found.entries.get(index));
    if next.is_some_and(|entry| entry.id.as_ref() == Some(&trial.entry)) {
        return Some(TrialState::NotTaken);
    }
    let stat = host.read("/proc/stat").unwrap_or_default();
    let since_s = stat.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok());
    Some(TrialState::FellBack { since_s })
}

/// The parameters of its own command line that the running kernel did not accept.
fn command_line_faults(host: &Host, line: &str, release: Option<&str>) -> Vec<CommandLineFault> {
    let version = release.and_then(KernelVersion::from_release);
    isolation_setup(line, &possible_cpus(host), version).faults
}

pub(super) fn possible_cpus(host: &Host) -> CpuSet {
    let text = host.read_line("/sys/devices/system/cpu/possible").unwrap_or_default();
    text.parse().unwrap_or_default()
}

/// What differs from what was written, and what to do.
fn differences(
    journal: &BootJournal,
    words: &[WordStatus],
    kernels: &[String],
    running: Option<&str>,
) -> Vec<BootDifference> {
    let mut differs = Vec::new();
    if !journal.complete {
        differs.push(BootDifference::Interrupted);
    }
    for version in journal.kernels.iter().filter(|version| !kernels.contains(version)) {
        differs.push(BootDifference::EntryGone { version: version.clone() });
    }
    let is_chosen = running.is_some_and(|running| kernels.iter().any(|kernel| kernel == running));
    let missing = words.iter().filter(|it| !it.booted).map(|it| it.word.clone());
    let missing: Vec<String> = missing.collect();
    // A trial reports the result of its own boot.
    if !missing.is_empty() && journal.trial.is_none() {
        differs.push(match is_chosen {
            true => BootDifference::EntryNotBooted { words: missing },
            false => BootDifference::OtherKernel { words: missing },
        });
    }
    for word in words.iter().filter(|it| it.booted && it.in_force == Some(false)) {
        let (word, shows) = (word.word.clone(), word.shows.clone());
        differs.push(BootDifference::NotInForce { word, shows });
    }
    for word in words {
        differs.extend(word.refusals.iter().map(|message| BootDifference::Refused {
            parameter: refusals::parameter_name(&word.word).to_owned(),
            message: message.clone(),
        }));
    }
    differs
}

/// Reads what the kernel shows for a word, and whether that is what the word requests; `None` where
/// it shows nothing.
#[must_use]
pub fn read_effect(host: &Host, word: &str) -> (Option<String>, Option<bool>) {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    let path = match name {
        "nohz_full" => "/sys/devices/system/cpu/nohz_full",
        "irqaffinity" => "/proc/irq/default_smp_affinity",
        "workqueue.unbound_cpus" => "/sys/devices/virtual/workqueue/cpumask",
        "nosmt" => "/sys/devices/system/cpu/smt/control",
        "clocksource" => "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        _ => return (None, None),
    };
    let Ok(text) = host.read_line(path) else { return (None, None) };
    let text = text.trim();
    let wanted = value.parse::<CpuSet>().ok();
    let (found, same) = match name {
        "nohz_full" => {
            let set = text.parse::<CpuSet>().ok();
            (text.to_owned(), set.is_some() && set == wanted)
        }
        // The masks have existing CPUs only; the parameter may name more.
        "irqaffinity" | "workqueue.unbound_cpus" => match CpuSet::parse_mask(text) {
            Ok(set) => (set.to_string(), wanted.is_some_and(|wanted| set.is_subset(&wanted))),
            Err(_) => (text.to_owned(), false),
        },
        "nosmt" => (text.to_owned(), ["off", "forceoff", "notsupported"].contains(&text)),
        _ => (text.to_owned(), text == value),
    };
    let name = if cmdline::same_name(name, "nosmt") { "smt" } else { name };
    (Some(format!("{name}: {found}")), Some(same))
}
