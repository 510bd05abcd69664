//! Which parameters are written, booted and in force: compares the journal, the loader's menu,
//! `/proc/cmdline` and the kernel's files. Writes nothing.

use super::error::BootError;
use super::journal::{read_journal, read_last_trial};
use super::parameter_effect::ParameterEffect;
use super::running_kernel::boot_id;
use super::running_lint::lint_running;
use super::{early, foreign_words, line, loaders, refusals};
use crate::documents::boot::{
    BootDifference, BootJournal, BootStatus, KernelWords, LintFinding, SCHEMA, TrialState,
    WordStatus,
};
use crate::survey::survey_boot;
use cpushield_linux::{Host, Store};

/// Reads the status of the boot parameters.
///
/// # Errors
/// The journal or a file of the loader cannot be read or parsed.
pub fn status(host: &Host, store: &Store) -> Result<BootStatus, BootError> {
    let journal = read_journal(store)?;
    let menu = loaders::find(host)?;
    let booted = host.read_line("/proc/cmdline").unwrap_or_default();
    let running = host.read_line("/proc/sys/kernel/osrelease").ok();
    let found = menu.as_ref().map(|(_, found)| found.clone()).unwrap_or_default();
    let all = journal.as_ref().map(|it| it.groups.clone()).unwrap_or_default();
    let kernels = kernels_with(&found, &all);
    let (entries_with, entries_without) =
        if journal.is_none() { Default::default() } else { found.titles_by_words(&all) };
    let mut entries = found.entries.iter();
    let own = entries.find(|it| Some(it.release()) == running.as_deref());
    let own = own.and_then(|entry| entry.own_words(&all)).map(<[String]>::to_vec);
    let words = own.or(journal.as_ref().map(|it| it.words.clone())).unwrap_or_default();
    // Without a log refusals are unknown; whether a word is in force is still visible.
    let any_booted = words.iter().any(|word| line::has(&booted, word));
    let log = if any_booted { host.kernel_log().unwrap_or_default() } else { Vec::new() };
    let words: Vec<WordStatus> = words
        .iter()
        .map(|word| {
            let ParameterEffect { shows, in_force } = ParameterEffect::read(host, word);
            let written = found.entries.iter().any(|entry| line::has(&entry.args, word));
            let booted = line::has(&booted, word);
            let refusals = if booted { refusals::find(&log, word) } else { Vec::new() };
            WordStatus { word: word.clone(), written, booted, shows, in_force, refusals }
        })
        .collect();
    let findings = other_findings(host, &words);
    let names: Vec<&str> = words.iter().map(|it| line::name_of(&it.word)).collect();
    let foreign = foreign_words::find(host, &names);
    let trial_state = journal.as_ref().and_then(|it| trial_state(host, it, &booted, &found));
    let differs = journal
        .as_ref()
        .map(|journal| {
            let is_chosen = runs_one_of(&found, &kernels, running.as_deref());
            differences(journal, &words, &kernels, is_chosen)
        })
        .unwrap_or_default();
    let trial = journal.as_ref().and_then(|journal| journal.trial.clone());
    Ok(BootStatus {
        schema: SCHEMA,
        covers_later: found.covers_later,
        loader: menu.map(|(loader, _)| loader.name().to_owned()),
        words,
        groups: all,
        history: journal.as_ref().map(|journal| journal.history.clone()).unwrap_or_default(),
        rule: journal.map(|journal| journal.rule),
        kernels,
        entries_with,
        entries_without,
        next: found.next_boot(),
        trial,
        trial_state,
        last_trial: read_last_trial(store)?,
        enabled: early::installed(store)?,
        foreign,
        findings,
        differs,
        running,
    })
}

/// The kernels of the menu with an entry for normal work that has all words; empty when there are
/// no words.
fn kernels_with(menu: &loaders::FoundLoader, groups: &[KernelWords]) -> Vec<String> {
    let entries = menu.entries.iter().filter(|it| it.purpose.is_none() && it.has_words(groups));
    let mut versions: Vec<String> = Vec::new();
    for entry in entries {
        if !versions.contains(&entry.version) {
            versions.push(entry.version.clone());
        }
    }
    versions
}

/// Whether one of these kernels runs, or one of unknown release may be it.
fn runs_one_of(menu: &loaders::FoundLoader, kernels: &[String], running: Option<&str>) -> bool {
    let mut chosen = menu.entries.iter().filter(|entry| kernels.contains(&entry.version));
    running.is_some_and(|running| chosen.any(|it| it.release.is_none() || it.release() == running))
}

/// The state of the journal's trial; `None` when it has none.
fn trial_state(
    host: &Host,
    journal: &BootJournal,
    booted: &str,
    found: &loaders::FoundLoader,
) -> Option<TrialState> {
    let trial = journal.trial.as_ref()?;
    if boot_id(host) == journal.boot_id {
        return Some(TrialState::Armed);
    }
    if trial.words.iter().all(|word| line::has(booted, word)) {
        return Some(TrialState::Booted);
    }
    if found.boots_next(&trial.entry) {
        return Some(TrialState::NotTaken);
    }
    let stat = host.read("/proc/stat").unwrap_or_default();
    let since_s = stat.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok());
    Some(TrialState::FellBack { since_s })
}

/// Findings about the command line, without those that the status of our own words has.
fn other_findings(host: &Host, ours: &[WordStatus]) -> Vec<LintFinding> {
    let mut findings = lint_running(host, &survey_boot(host));
    findings.retain(|finding| match finding {
        LintFinding::NotInForce { words, .. } => {
            !words.iter().all(|word| ours.iter().any(|our| our.word == *word))
        }
        LintFinding::OtherValue { word, .. } => !ours.iter().any(|our| our.word == *word),
        _ => true,
    });
    findings
}

/// What differs from what was written, and what to do.
fn differences(
    journal: &BootJournal,
    words: &[WordStatus],
    kernels: &[String],
    is_chosen: bool,
) -> Vec<BootDifference> {
    let mut differs = Vec::new();
    if !journal.complete {
        differs.push(BootDifference::Interrupted);
    }
    for version in journal.kernels.iter().filter(|version| !kernels.contains(version)) {
        differs.push(BootDifference::EntryGone { version: version.clone() });
    }
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
            parameter: line::name_of(&word.word).to_owned(),
            message: message.clone(),
        }));
    }
    differs
}
