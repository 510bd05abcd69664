//! The shield's slice. systemd makes it, so that systemd does not remove it. systemd also removes
//! it at the end, after the programs in it were moved out, because stopping a slice kills them.
//!
//! Units with `Slice=` are in it too. Stopping the slice would stop them
//! (`unit_add_slice_dependencies()`, src/core/unit.c, v257), so with such units it stays and only
//! loses the limits. A slice that has no limits is taken over.

use super::super::groups::{
    end_partition, group_using_cpusets, is_default_cpuset, is_valid_partition, remove_below,
};
use super::super::kind::{ChangeKind, NOTHING, PerformedChange, RevertedChange, ShieldChanges};
use super::super::memory_moves::{cpus_of_change, cpus_of_removal};
use super::super::moves::MovedOut;
use super::super::original::OriginalState;
use crate::change::{Outcome, Refusal, RefusalKind, ValueComparison, slice_properties};
use crate::documents::applied::{ChangeFate, StepDone, StepNote};
use cpushield_linux::{CpuSet, Host, Result};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

/// How often to look whether systemd has set the CPUs, with pauses of [`WAIT_STEP`].
const WAIT_TRIES: usize = 100;
const WAIT_STEP: Duration = Duration::from_millis(20);

/// systemd's mount point of cgroup v2.
const TREE: &str = "/sys/fs/cgroup";
/// The file that systemd writes to enable cpusets for the slice.
const CONTROL: &str = "/sys/fs/cgroup/cgroup.subtree_control";

/// The lists of a cpuset.
const LISTS: [&str; 2] = ["cpuset.cpus", "cpuset.mems"];

/// The directory of `systemctl set-property --runtime` (systemd 240 and later).
const CONTROL_DIR: &str = "/run/systemd/system.control";

/// The directories of unit files. A unit of this name there belongs to another program, and undo
/// would remove its files.
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

fn find_unit_file(host: &Host, unit: &str) -> Option<String> {
    let files = UNIT_DIRS.iter().flat_map(|d| [format!("{d}/{unit}"), format!("{d}/{unit}.d")]);
    files.into_iter().find(|file| host.exists(file))
}

/// A slice of systemd, with its CPUs and memory nodes.
pub struct ShieldSlice<'a> {
    pub unit: &'a str,
    pub cpus: &'a CpuSet,
    pub mems: &'a CpuSet,
}

impl ChangeKind for ShieldSlice<'_> {
    fn read_original(&self, host: &Host) -> Result<OriginalState> {
        Ok(OriginalState::from_reading(read_original(host, self.unit)))
    }

    fn perform(&self, host: &Host, was: &OriginalState) -> Result<PerformedChange> {
        let ShieldSlice { unit, cpus, mems } = *self;
        if *was == OriginalState::Present {
            return Ok(PerformedChange::refused(format!(
                "{} already exists, but does not belong to this shield",
                dir(unit)
            )));
        }
        let properties = slice_properties(cpus, mems);
        let request = ["set-property", "--runtime", unit].into_iter();
        let request: Vec<&str> = request.chain(properties.iter().map(String::as_str)).collect();
        // An active shield has the slice, or units are in it. Stopping it would kill its programs.
        let is_in_use = host.exists(&dir(unit));
        let is_taken_over = is_in_use && has_no_limits(host, &dir(unit));
        let requested = match host.systemctl(&request) {
            // There is no `systemctl`.
            Err(error) if error.is_absent() => return Err(error),
            answer => answer,
        };
        let started = requested.and_then(|()| {
            host.systemctl(&["start", unit])?;
            let shown = read_cpus(host, unit, cpus)?;
            Ok((!ValueComparison::List.same(&shown, &cpus.to_string())).then_some(shown))
        });
        let refusal = match started {
            Ok(None) => {
                let note = self.note_of_mems(host);
                return Ok(PerformedChange {
                    note,
                    ..PerformedChange::with_outcome(Outcome::Changed)
                });
            }
            Err(error) if error.is_stop() => return Err(error),
            Ok(Some(shown)) => {
                let reason = format!("systemd gave the slice the CPUs {shown:?}");
                Refusal { kind: RefusalKind::Other, reason }
            }
            // Also after an error, systemd may have done what was requested, or do it later.
            Err(error) => Refusal::from(&error),
        };
        let removed = match (is_taken_over, is_in_use) {
            (true, _) => remove_limits(host, unit),
            (false, false) => stop_and_forget(host, unit),
            (false, true) => Ok(()),
        };
        match removed {
            Ok(()) => Ok(PerformedChange::refused_by(refusal)),
            Err(error) if error.is_stop() => Err(error),
            Err(error) => {
                let (slice, reason) = (unit.to_owned(), refusal.reason.clone());
                let answer = error.reason();
                let note = StepNote::SliceRemains { slice, refusal: reason, answer };
                Ok(PerformedChange {
                    note: Some(note),
                    failure: Some(refusal),
                    ..PerformedChange::with_outcome(Outcome::Changed)
                })
            }
        }
    }

    fn revert(
        &self,
        host: &Host,
        _: &ShieldChanges<'_>,
        was: &OriginalState,
        done: Option<&StepDone>,
    ) -> Result<RevertedChange> {
        let OriginalState::Files { files } = was else { return Ok(NOTHING) };
        restore(host, self.unit, files, done)
    }

    fn waits_for(&self, host: &Host) -> Option<CpuSet> {
        let path = format!("{}/cpuset.mems", dir(self.unit));
        let now = host.read_line(&path).ok()?;
        let is_same = ValueComparison::List.same(&now, &self.mems.to_string());
        (!is_same).then(|| cpus_of_change(host, &path)).flatten()
    }

    fn waits_for_revert(&self, host: &Host, was: &OriginalState) -> Option<CpuSet> {
        (*was != OriginalState::Present).then(|| cpus_of_removal(host, &dir(self.unit))).flatten()
    }

    fn sets_cpuset(&self) -> bool {
        true
    }

    fn made_dir(&self, was: &OriginalState) -> Option<String> {
        (*was != OriginalState::Present).then(|| dir(self.unit))
    }

    fn hint(&self, _: RefusalKind) -> Option<Cow<'static, str>> {
        Some(format!("`systemctl status {}` may show the cause", self.unit).into())
    }
}

impl ShieldSlice<'_> {
    /// The memory nodes that the slice has, if they are not those that it should have. The shield
    /// stays: its programs then only have slower memory.
    fn note_of_mems(&self, host: &Host) -> Option<StepNote> {
        let wanted = self.mems.to_string();
        let shown = host.read_line(&format!("{}/cpuset.mems", dir(self.unit))).ok()?;
        let differs = !self.mems.is_empty() && !ValueComparison::List.same(&shown, &wanted);
        differs.then_some(StepNote::OtherMemoryNodes { given: shown, wanted })
    }
}

fn read_original(host: &Host, unit: &str) -> Result<OriginalState> {
    if host.exists(&dir(unit)) && !has_no_limits(host, &dir(unit)) {
        return Ok(OriginalState::Present);
    }
    if let Some(file) = find_unit_file(host, unit) {
        let reason = format!("{file} exists, so the slice belongs to another program");
        return Ok(OriginalState::Unreadable { reason });
    }
    let text = host.read_line(CONTROL)?;
    Ok(OriginalState::Files { files: BTreeMap::from([(CONTROL.to_owned(), text)]) })
}

/// Whether a directory exists and is empty.
fn is_empty(host: &Host, dir: &str) -> bool {
    host.list(dir).is_ok_and(|names| names.is_empty())
}

/// Stops the slice and makes systemd forget its properties. systemd unloads a stopped slice that
/// nothing refers to (`unit_may_gc()`, src/core/unit.c, v257), so it is enough to remove the files.
/// `systemctl revert` would reload all units, which takes longer than the rest of undo and loads
/// unrelated edits, too.
fn stop_and_forget(host: &Host, unit: &str) -> Result<()> {
    host.systemctl(&["stop", unit])?;
    forget_properties(host, unit)?;
    // Something, perhaps a failed unit in it, refers to it, so it is still loaded.
    if !host.unit_property(unit, "DropInPaths")?.is_empty() {
        host.systemctl(&["daemon-reload"])?;
    }
    Ok(())
}

fn forget_properties(host: &Host, unit: &str) -> Result<()> {
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
    Ok(())
}

/// The units in the slice: systemd makes a group with the name of each.
fn units_in(host: &Host, group: &str) -> Vec<String> {
    let names = host.list_directories(group).unwrap_or_default();
    let is_unit = |name: &String| {
        let kinds = [".service", ".scope", ".slice"];
        kinds.iter().any(|kind| name.ends_with(kind))
    };
    names.into_iter().filter(is_unit).collect()
}

/// Removes the limits of the slice, for the units that stay in it.
fn remove_limits(host: &Host, unit: &str) -> Result<()> {
    let group = dir(unit);
    end_partition(host, &group)?;
    let exclusive = format!("{group}/cpuset.cpus.exclusive");
    if host.read_line(&exclusive).is_ok_and(|cpus| !cpus.is_empty()) {
        host.write(&exclusive, "")?;
    }
    host.systemctl(&["set-property", "--runtime", unit, "AllowedCPUs=", "AllowedMemoryNodes="])?;
    // systemd changes groups after it has answered, and before it takes the next request
    // (`manager_loop()`, src/core/manager.c, v257). So this answer means that it has done so.
    host.unit_property(unit, "AllowedCPUs")?;
    // systemd disables cpusets for the slice if no other unit needs them. Otherwise it writes empty
    // lists, which the kernel refuses for a group with tasks (ENOSPC, `validate_change()`,
    // kernel/cgroup/cpuset.c, 6.12). All CPUs and memory nodes limit nothing either.
    for list in LISTS {
        let file = format!("{group}/{list}");
        if host.read_line(&file).is_ok_and(|text| !text.is_empty()) {
            host.write(&file, &host.read_line(&format!("{TREE}/{list}.effective"))?)?;
        }
    }
    forget_properties(host, unit)
}

/// Whether a group has no limits of a cpuset, also after [`remove_limits`].
fn has_no_limits(host: &Host, group: &str) -> bool {
    let numbers = |file: String| host.read_value::<CpuSet>(&file);
    let limits_nothing = |list: &&str| {
        let all = numbers(format!("{TREE}/{list}.effective"));
        let own = numbers(format!("{group}/{list}"));
        all.zip(own).is_some_and(|(all, own)| own.is_empty() || all.is_subset(&own))
    };
    is_default_cpuset(host, group)
        || (LISTS.iter().all(limits_nothing) && !is_valid_partition(host, group))
}

/// Waits for the CPUs of a slice that was active before: systemd sets them later, in its event
/// loop. Returns what the kernel shows.
fn read_cpus(host: &Host, unit: &str, wanted: &CpuSet) -> Result<String> {
    let file = format!("{}/cpuset.cpus", dir(unit));
    for _ in 0..WAIT_TRIES {
        let shown = host.read_line(&file);
        let is_set = |shown: &String| ValueComparison::List.same(shown, &wanted.to_string());
        if !host.is_live() || shown.as_ref().is_ok_and(is_set) {
            return shown;
        }
        std::thread::sleep(WAIT_STEP);
    }
    host.read_line(&file)
}

fn restore(
    host: &Host,
    unit: &str,
    files: &BTreeMap<String, String>,
    done: Option<&StepDone>,
) -> Result<RevertedChange> {
    let group = dir(unit);
    let exists =
        host.exists(&group) || find_unit_file(host, unit).is_some() || is_empty(host, CONTROL_DIR);
    let mut moved = MovedOut::default();
    let units = units_in(host, &group);
    // Killed during a request to systemd, or without its answer: systemd may still be working on
    // it. It handles one request after the other.
    if exists || done.is_none_or(StepDone::is_unknown) {
        move_programs_out(host, &group, &units, &mut moved)?;
        if units.is_empty() {
            end_partition(host, &group)?;
            stop_and_forget(host, unit)?;
            if host.exists(&group) {
                remove_below(host, &group, TREE, &mut moved, 0)?;
            }
        } else {
            remove_limits(host, unit)?;
        }
    }
    let stay = (!units.is_empty()).then(|| StepNote::UnitsStay { slice: unit.to_owned(), units });
    let mut note = stay.or_else(|| moved.note(TREE));
    for (path, text) in files {
        let words = ValueComparison::Member.values_to_restore(text, &host.read_line(path)?);
        // Only cpusets were enabled for the slice; other controllers belong to systemd.
        let words: Vec<String> = words.into_iter().filter(|word| word == "-cpuset").collect();
        match group_using_cpusets(host, path, &words) {
            Some(group) => note = Some(StepNote::CpusetsStayEnabled { group }),
            None => words.iter().try_for_each(|word| host.write(path, word))?,
        }
    }
    Ok(RevertedChange { fate: (exists || done.is_some()).then_some(ChangeFate::Restored), note })
}

/// Moves the programs in the slice and in the groups below out of it, except those of its units.
fn move_programs_out(
    host: &Host,
    group: &str,
    units: &[String],
    moved: &mut MovedOut,
) -> Result<()> {
    if !host.exists(&format!("{group}/cgroup.procs")) {
        return Ok(());
    }
    let own = |moved: &mut MovedOut| match moved.move_out(host, group, TREE) {
        Err(error) if error.is_absent() => Ok(()),
        answer => answer,
    };
    // First, because the threads in threaded groups below leave with their processes.
    own(moved)?;
    for name in host.list_directories(group)? {
        let below = format!("{group}/{name}");
        if !units.contains(&name) && host.exists(&format!("{below}/cgroup.procs")) {
            remove_below(host, &below, TREE, moved, 0)?;
        }
    }
    own(moved)
}
