//! Taking a CPU offline and online again. The kernel changes other things by the way; they are read
//! before and put back after (`besides`). What cannot be put back is told, and undo tries again.

use super::hotplug_side_effects::{NotBack, besides, put_back, would_be_emptied};
use super::journal::{ApplyJournal, ChangeFate, OriginalState, StepDone, StepOriginal};
use super::perform::PerformedChange;
use super::revert::{NOTHING, RevertedChange};
use crate::change::{Change, Outcome};
use cpushield_linux::{Host, Result};
use std::collections::BTreeMap;
use std::time::Duration;

/// How often a CPU is asked to come back, and how long between.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(100);

/// What is left when the CPU is online and everything else as it was.
const BACK: &str = "1";
/// What is left when it is online and some files are not as they were; they follow, a line each.
const BUT_FOR: &str = "1 but for\n";

fn online(cpu: usize) -> String {
    format!("/sys/devices/system/cpu/cpu{cpu}/online")
}

pub(super) fn original(host: &Host, cpu: usize) -> Result<OriginalState> {
    host.read_line(&online(cpu))?;
    Ok(OriginalState::Files { files: besides(host, cpu) })
}

pub(super) fn make(host: &Host, cpu: usize) -> Result<PerformedChange> {
    let path = online(cpu);
    let now = host.read_line(&path)?;
    if now != "1" {
        return Ok(PerformedChange::refused(format!("it is offline: {path} reads {now:?}")));
    }
    let files = besides(host, cpu);
    if let Some(group) = would_be_emptied(cpu, &files) {
        return Ok(PerformedChange::refused(format!(
            "{group} has no other CPU, and its programs would be moved out of it for good"
        )));
    }
    host.write(&path, "0")?;
    if let Some(reason) = bring_back(host, &path)? {
        let note = Some(format!("CPU {cpu} does not come back: {reason}"));
        let broken = note.clone();
        return Ok(PerformedChange { note, broken, ..PerformedChange::changed("0".to_owned()) });
    }
    let failed = put_back(host, cpu, &files)?;
    if failed.is_empty() {
        return Ok(PerformedChange::changed(BACK.to_owned()));
    }
    let paths: Vec<&str> = failed.iter().map(|file| file.path.as_str()).collect();
    let left = format!("{BUT_FOR}{}", paths.join("\n"));
    let note = Some(format!("{}; undo tries again", told(&failed)));
    Ok(PerformedChange { note, ..PerformedChange::changed(left) })
}

/// What is not as it was, in a sentence.
fn told(failed: &[NotBack]) -> String {
    let first = failed.first().map(|file| format!("{} is not back: {}", file.path, file.why));
    let more = match failed.len() {
        0 | 1 => String::new(),
        n => format!(", and {} more files", n - 1),
    };
    first.unwrap_or_default() + &more
}

/// Asks a CPU to come online; the reason when it does not.
fn bring_back(host: &Host, path: &str) -> Result<Option<String>> {
    let mut reason = None;
    for n in 0..TRIES {
        match host.write(path, "1") {
            Err(error) if error.is_stop() => return Err(error),
            Err(error) => reason = Some(error.reason()),
            Ok(()) => reason = Some("it stays offline".to_owned()),
        }
        if host.read_line(path)? == "1" {
            return Ok(None);
        }
        if host.is_live() && n + 1 < TRIES {
            std::thread::sleep(PAUSE);
        }
    }
    Ok(reason)
}

/// Whether the CPU may have been offline: it is the first step that has no outcome.
fn may_have_begun(journal: &ApplyJournal, cpu: usize) -> bool {
    let without = |intent: &&StepOriginal| !journal.outcomes.contains_key(&intent.step);
    let first = journal.intents.iter().find(without).and_then(|intent| journal.step(intent));
    first.is_some_and(|step| step.change == Change::CycleCpu { cpu })
}

pub(super) fn restore(
    host: &Host,
    journal: &ApplyJournal,
    cpu: usize,
    files: &BTreeMap<String, String>,
    done: Option<&StepDone>,
) -> Result<RevertedChange> {
    if is_finished(done) || (done.is_none() && !may_have_begun(journal, cpu)) {
        return Ok(NOTHING);
    }
    if let Some(reason) = bring_online(host, cpu)? {
        return Ok(ChangeFate::Failed { reason }.into());
    }
    let left = done.and_then(|done| done.left.as_deref());
    let some = left.and_then(|left| left.strip_prefix(BUT_FOR)).map(|paths| {
        let ours = files.iter().filter(|(path, _)| paths.lines().any(|line| line == *path));
        ours.map(|(path, text)| (path.clone(), text.clone())).collect()
    });
    let mut failed = put_back(host, cpu, some.as_ref().unwrap_or(files))?;
    // What is no more has nothing to be put back to.
    failed.retain(|file| host.exists(&file.path));
    Ok(match failed.as_slice() {
        [] => ChangeFate::Restored.into(),
        failed => ChangeFate::Failed { reason: told(failed) }.into(),
    })
}

/// Whether the CPU came back; if it is offline by now, that is somebody else's doing.
pub(super) fn is_finished(done: Option<&StepDone>) -> bool {
    done.is_some_and(|done| done.outcome != Outcome::Changed || done.left.as_deref() == Some(BACK))
}

/// Whether a cycle was cut off: what its CPU's files said before is in the journal only.
pub(super) fn was_cut(journal: &ApplyJournal) -> bool {
    journal.intents.iter().any(|intent| {
        let change = journal.step(intent).map(|step| &step.change);
        matches!(change, Some(Change::CycleCpu { .. }))
            && !journal.outcomes.contains_key(&intent.step)
    })
}

/// Brings a CPU online that was left offline; the reason when it stays so.
pub(super) fn bring_online(host: &Host, cpu: usize) -> Result<Option<String>> {
    let path = online(cpu);
    match host.read_line(&path) {
        Ok(text) if text == "0" => {}
        // Nothing to bring back: the file tells, or it is not there.
        Ok(_) | Err(_) => return Ok(None),
    }
    let reason = bring_back(host, &path)?;
    Ok(reason.map(|reason| format!("CPU {cpu} does not come back: {reason}")))
}
