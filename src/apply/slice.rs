//! The shield's slice: systemd makes it, so that systemd does not take it apart; systemd takes it
//! away again, after the programs in it have been moved out, because stopping a slice ends what
//! runs in it.

use super::journal::{ChangeFate, OriginalState, StepDone};
use super::moves::MovedOut;
use super::perform::{PerformedChange, writable};
use super::revert::{RevertedChange, needed_by, remove_below};
use crate::change::{Outcome, ValueComparison};
use cpushield_linux::{CpuSet, Host, Result};
use std::collections::BTreeMap;

/// Where systemd keeps cgroup v2.
const TREE: &str = "/sys/fs/cgroup";
/// What systemd does there to hand cpusets to the slice.
const CONTROL: &str = "/sys/fs/cgroup/cgroup.subtree_control";

/// Where `systemctl set-property --runtime` keeps what it was told (systemd 240 and later).
const CONTROL_DIR: &str = "/run/systemd/system.control";

/// Where units of that name would be configured: then it is somebody's, and undo would remove what
/// they wrote.
const UNIT_DIRS: &[&str] = &[
    "/etc/systemd/system",
    "/etc/systemd/system.control",
    "/run/systemd/system",
    "/usr/lib/systemd/system",
    CONTROL_DIR,
];

/// The directory of the slice.
#[must_use]
pub fn dir(unit: &str) -> String {
    format!("{TREE}/{unit}")
}

fn configured(host: &Host, unit: &str) -> Option<String> {
    let files = UNIT_DIRS.iter().flat_map(|d| [format!("{d}/{unit}"), format!("{d}/{unit}.d")]);
    files.into_iter().find(|file| host.exists(file))
}

pub(super) fn original(host: &Host, unit: &str) -> Result<OriginalState> {
    if host.exists(&dir(unit)) {
        return Ok(OriginalState::Present);
    }
    if let Some(file) = configured(host, unit) {
        let reason = format!("{file} exists, so the slice belongs to another program");
        return Ok(OriginalState::Unreadable { reason });
    }
    let text = host.read_line(CONTROL)?;
    Ok(OriginalState::Files { files: BTreeMap::from([(CONTROL.to_owned(), text)]) })
}

pub(super) fn make(
    host: &Host,
    unit: &str,
    cpus: &CpuSet,
    mems: &CpuSet,
    was: &OriginalState,
) -> Result<PerformedChange> {
    if *was == OriginalState::Present {
        return Ok(PerformedChange::refused(format!(
            "{} is there already, and not of this shield",
            dir(unit)
        )));
    }
    let (cpus_set, mems_set) =
        (format!("AllowedCPUs={cpus}"), format!("AllowedMemoryNodes={mems}"));
    host.systemctl(&["set-property", "--runtime", unit, &cpus_set, &mems_set])?;
    let started = host.systemctl(&["start", unit]).and_then(|()| {
        let shown = host.read_line(&format!("{}/cpuset.cpus", dir(unit)))?;
        Ok((!ValueComparison::List.same(&shown, &cpus.to_string())).then_some(shown))
    });
    let reason = match started {
        Ok(None) => return Ok(PerformedChange::plain(Outcome::Changed)),
        Err(error) if error.is_stop() => return Err(error),
        Ok(Some(shown)) => format!("systemd gave it the CPUs {shown:?}"),
        Err(error) => error.reason(),
    };
    take_away(host, unit)?;
    Ok(PerformedChange::refused(reason))
}

/// Whether a directory is left over from what was in it.
fn is_empty(host: &Host, dir: &str) -> bool {
    host.list(dir).is_ok_and(|names| names.is_empty())
}

/// Stops the slice and makes systemd forget what it was told. A slice that is stopped and that
/// nothing refers to leaves systemd's memory (`unit_may_gc()`, src/core/unit.c, v257), so it is
/// enough to remove the files. `systemctl revert` would read all units anew, which takes longer
/// than the rest of undo and brings in whatever else somebody edited.
fn take_away(host: &Host, unit: &str) -> Result<()> {
    host.systemctl(&["stop", unit])?;
    let dir = format!("{CONTROL_DIR}/{unit}.d");
    if host.exists(&dir) {
        for name in host.list(&dir)? {
            host.remove_file(&format!("{dir}/{name}"))?;
        }
        host.remove_dir(&dir)?;
    }
    if is_empty(host, CONTROL_DIR) {
        host.remove_dir(CONTROL_DIR)?;
    }
    // Something refers to it, a failed unit in it perhaps: then it is still in memory.
    if !host.unit_property(unit, "DropInPaths")?.is_empty() {
        host.systemctl(&["daemon-reload"])?;
    }
    Ok(())
}

pub(super) fn restore(
    host: &Host,
    unit: &str,
    files: &BTreeMap<String, String>,
    done: Option<&StepDone>,
) -> Result<RevertedChange> {
    let group = dir(unit);
    let there =
        host.exists(&group) || configured(host, unit).is_some() || is_empty(host, CONTROL_DIR);
    let mut moved = MovedOut::default();
    // Killed while it asked systemd: the answer may still be on its way, and systemd takes one
    // request after the other.
    if there || done.is_none() {
        empty(host, &group, &mut moved)?;
        take_away(host, unit)?;
        if host.exists(&group) {
            remove_below(host, &group, TREE, &mut moved, 0)?;
        }
    }
    let mut note = moved.note(TREE);
    for (path, text) in files {
        let words = writable(ValueComparison::Member, text, &host.read_line(path)?);
        // Only cpusets came because of the slice; other controllers are systemd's own business.
        let words: Vec<String> = words.into_iter().filter(|word| word == "-cpuset").collect();
        match needed_by(host, path, &words) {
            Some(by) => note = Some(format!("{by} now has its own CPUs, so cpusets stay enabled")),
            None => words.iter().try_for_each(|word| host.write(path, word))?,
        }
    }
    Ok(RevertedChange { fate: (there || done.is_some()).then_some(ChangeFate::Restored), note })
}

/// Moves the programs in the slice out of it, those in groups below too.
fn empty(host: &Host, group: &str, moved: &mut MovedOut) -> Result<()> {
    if !host.exists(&format!("{group}/cgroup.procs")) {
        return Ok(());
    }
    for name in host.list_directories(group)? {
        let below = format!("{group}/{name}");
        if host.exists(&format!("{below}/cgroup.procs")) {
            remove_below(host, &below, TREE, moved, 0)?;
        }
    }
    match moved.move_out(host, group, TREE) {
        Err(error) if error.is_absent() => Ok(()),
        answer => answer,
    }
}
