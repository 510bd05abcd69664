//! [`PublicSummary`]: what every user may know about the active shields. The journal belongs to
//! root, so apply and undo write this file for all others. It has names and CPUs, no settings and
//! no tasks. No change is based on it: code that changes something reads the journal.

use super::journal::ApplyJournal;
use super::load::{boot_id, load};
use crate::documents::applied::ShieldNote;
use crate::documents::plan::Shield;
use crate::policy::ShieldOperators;
use cpushield_linux::{CpuSet, Error, Host, Store};
use serde::{Deserialize, Serialize};

/// The file in the public directory.
pub const SUMMARY: &str = "shields.json";
/// The version of its schema.
const SCHEMA: u32 = 1;

/// What every user may know about the active shields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PublicSummary {
    schema: u32,
    /// The boot it belongs to.
    boot_id: Option<String>,
    /// A shield is being made or undone, or that was interrupted.
    unfinished: bool,
    shields: Vec<PublicShield>,
}

/// What every user may know about a shield.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublicShield {
    /// Its name and CPUs.
    pub shield: Shield,
    /// The directory of its cgroup; `None` for a shield that consists of affinities only.
    pub group: Option<String>,
    /// The users that may enter it; `None` if only root may.
    pub operators: Option<ShieldOperators>,
}

/// The shields, as far as a user other than root can know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublicState {
    /// There is no summary, or it cannot be trusted.
    Unknown,
    /// A shield is being made or undone, or that was interrupted.
    Unfinished,
    /// These are active; none if empty.
    Active(Vec<PublicShield>),
}

/// Says that a shield is about to change. A killed change leaves this. An error is no reason not
/// to make or undo a shield.
pub(super) fn announce_change(host: &Host, store: &Store) {
    let shields = Vec::new();
    if let Ok(boot_id) = boot_id(host) {
        drop(write(store, PublicSummary { schema: SCHEMA, boot_id, unfinished: true, shields }));
    }
}

/// Writes the summary of the journal. Returns a note if that failed. The caller has the lock.
pub(super) fn publish(host: &Host, store: &Store) -> Option<ShieldNote> {
    store.public()?;
    let (unfinished, shields) = match load(host, store) {
        Ok(found) => found
            .here()
            .map_or((false, Vec::new()), |journal| (!journal.is_whole(), summarize(&journal))),
        Err(_) => (true, Vec::new()),
    };
    let written = boot_id(host).and_then(|boot_id| {
        write(store, PublicSummary { schema: SCHEMA, boot_id, unfinished, shields })
    });
    let error = written.err()?.to_string();
    Some(ShieldNote::NotPublished { error })
}

/// Does work that changes shields, and then tells other users the result. The notes of what was
/// done say if that failed. The caller has the lock.
pub(super) fn publish_after<T, E>(
    host: &Host,
    store: &Store,
    work: impl FnOnce() -> Result<T, E>,
    notes_of: impl FnOnce(&mut T) -> &mut Vec<ShieldNote>,
) -> Result<T, E> {
    let mut result = work();
    let note = publish(host, store);
    if let Ok(done) = &mut result {
        notes_of(done).extend(note);
    }
    result
}

fn summarize(journal: &ApplyJournal) -> Vec<PublicShield> {
    let plans = journal.plans().into_iter();
    plans
        .map(|plan| PublicShield {
            group: plan.cgroup_dir(),
            shield: plan.shield,
            operators: plan.operators,
        })
        .collect()
}

fn write(store: &Store, summary: PublicSummary) -> Result<(), Error> {
    let Some(public) = store.public() else { return Ok(()) };
    let bytes = serde_json::to_vec(&summary).map_err(|error| Error::json(SUMMARY, error))?;
    public.publish(SUMMARY, &bytes)
}

/// Reads the summary. A summary of another boot is ignored: no shield survives a reboot.
#[must_use]
pub fn read_public_state(host: &Host, store: &Store) -> PublicState {
    let Some(public) = store.public() else { return PublicState::Unknown };
    let found = public.read(SUMMARY).and_then(|bytes| Ok((bytes, boot_id(host)?)));
    let Ok((bytes, boot)) = found else { return PublicState::Unknown };
    let Some(bytes) = bytes else { return without_summary(host) };
    match serde_json::from_slice::<PublicSummary>(&bytes) {
        Ok(summary) if summary.schema != SCHEMA => PublicState::Unknown,
        Ok(summary) if summary.boot_id != boot => without_summary(host),
        Ok(summary) if summary.unfinished => PublicState::Unfinished,
        Ok(summary) => PublicState::Active(summary.shields),
        Err(_) => PublicState::Unknown,
    }
}

/// The state without a summary of this boot: no shield, unless there is a cgroup of one.
fn without_summary(host: &Host) -> PublicState {
    match shield_groups(host).next() {
        Some(_) => PublicState::Unknown,
        None => PublicState::Active(Vec::new()),
    }
}

/// The cgroups with some of the CPUs that have the name of one of a shield: the directory above,
/// and the name. A slice with services of the user stays after undo, without CPUs of its own or
/// with all of them.
pub fn shield_groups(host: &Host) -> impl Iterator<Item = (&'static str, String)> {
    let mounts = ["/sys/fs/cgroup", "/sys/fs/cgroup/cpuset", "/dev/cpuset"];
    let groups = mounts.into_iter().flat_map(|mount| {
        let names = host.list_directories(mount).unwrap_or_default().into_iter();
        names.map(move |name| (mount, name))
    });
    let groups = groups.filter(|(_, name)| name.starts_with("cpushield"));
    let online = host.online_cpus().unwrap_or_default();
    groups.filter(move |(mount, name)| {
        let files = ["cpuset.cpus", "cpus"].map(|file| format!("{mount}/{name}/{file}"));
        let mut lists = files.iter().filter_map(|file| host.read_line(file).ok()?.parse().ok());
        lists.any(|cpus: CpuSet| !cpus.is_empty() && cpus != online)
    })
}
