//! Undo of a shield in all its versions: a change that was interrupted has left two, and ends
//! first.

use super::error::{ApplyError, UndoError};
use super::journal::JOURNAL;
use super::load::{FoundJournal, load};
use super::summary;
use super::undo::undo_locked;
use crate::documents::applied::{ShieldNote, UndoneShield, UnrestoredChanges};
use cpushield_linux::files::store::StoreLock;
use cpushield_linux::{CpuSet, Host, Store, processes::namespaces};

/// Removes the active shield of this name. Without a name, there must be only one.
///
/// # Errors
/// The journal cannot be used or names no such shield, `/proc` cannot be read, or a test killed the
/// undo. A step that could not be restored is no error: it is in [`UndoneShield`].
pub fn undo(host: &Host, store: &Store, name: Option<&str>) -> Result<UndoneShield, UndoError> {
    undo_with(host, store, name, UnrestoredChanges::Keep)
}

/// As [`undo`]. If changes that cannot be restored are forgotten, an archived copy of the journal
/// names them, and the shield is active no more. Other shields stay.
///
/// # Errors
/// As [`undo`], or the journal cannot be archived.
pub fn undo_with(
    host: &Host,
    store: &Store,
    name: Option<&str>,
    unrestored: UnrestoredChanges,
) -> Result<UndoneShield, UndoError> {
    match store.read(JOURNAL) {
        // No lock is needed, and the directory may not exist.
        Ok(None) => return Ok(UndoneShield::nothing()),
        Ok(Some(_)) => {}
        Err(error) => return Err(error.into()),
    }
    namespaces::check_sees_all_tasks(host)?;
    let lock = store.lock()?;
    summary::announce_change(host, store);
    let work = || undo_all_versions(host, store, name, unrestored, &lock);
    summary::publish_after(host, store, work, |undone| &mut undone.notes)
}

/// Removes a shield, and first the other version of it if it was being replaced.
fn undo_all_versions(
    host: &Host,
    store: &Store,
    name: Option<&str>,
    unrestored: UnrestoredChanges,
    lock: &StoreLock,
) -> Result<UndoneShield, UndoError> {
    let first = end_replacement(host, store, name, unrestored, lock)?;
    let Some(first) = first else {
        return undo_locked(host, store, name, unrestored, lock);
    };
    if unrestored == UnrestoredChanges::Keep && !first.is_removed() {
        return Ok(first);
    }
    let mut undone = undo_locked(host, store, name, unrestored, lock)?;
    undone.absorb(first);
    Ok(undone)
}

/// A change of a shield that was interrupted and has been ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedChange {
    /// The name of the shield.
    pub shield: String,
    /// The CPUs of both versions.
    pub cpus: CpuSet,
    /// What the undo of the other version has left as it was, and other notes of it.
    pub notes: Vec<ShieldNote>,
}

/// Ends a change of an active shield that was interrupted: completes it if the new version was in
/// force, otherwise removes the new version. Returns the shield, if there was one. Its programs are
/// placed by `run::end_change`.
///
/// # Errors
/// The journal cannot be used, or not everything could be restored.
pub fn end_change(host: &Host, store: &Store) -> Result<Option<EndedChange>, ApplyError> {
    // Without the lock: mostly there is no such change, and a normal user cannot take it.
    if matches!(find_replaced(host, store), Ok(None)) {
        return Ok(None);
    }
    namespaces::check_sees_all_tasks(host)?;
    let lock = store.lock()?;
    // Another process may have made the change until now.
    let Some((cpus, shield)) = find_replaced(host, store)? else { return Ok(None) };
    let keep = UnrestoredChanges::Keep;
    let ended = end_replacement(host, store, Some(&shield), keep, &lock);
    // Without it, only the next change tells other users.
    let _ = summary::publish(host, store);
    match ended {
        Ok(None) => Ok(None),
        Ok(Some(undone)) if undone.is_removed() => {
            Ok(Some(EndedChange { shield, cpus, notes: undone.notes_of_replaced() }))
        }
        Err(UndoError::Access(error)) if error.is_stop() => Err(error.into()),
        undone => {
            let undone = undone.map(|undone| undone.unwrap_or_else(UndoneShield::nothing));
            Err(ApplyError::OldRemains { shield, undone: Box::new(undone) })
        }
    }
}

/// The shield that is being replaced, with the CPUs of both versions.
///
/// # Errors
/// The journal cannot be used.
fn find_replaced(host: &Host, store: &Store) -> Result<Option<(CpuSet, String)>, ApplyError> {
    match load(host, store) {
        Ok(FoundJournal::Here(journal)) if journal.is_replacing() => {
            let name = journal.unfinished_name();
            Ok(name.map(|name| (journal.cpus_of_versions(&name), name)))
        }
        Ok(_) => Ok(None),
        // A normal user cannot read the journal.
        Err(error) if error.is_denied() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Ends the change with a lock that is held already; `None` if no shield of this name is being
/// replaced.
fn end_replacement(
    host: &Host,
    store: &Store,
    name: Option<&str>,
    unrestored: UnrestoredChanges,
    lock: &StoreLock,
) -> Result<Option<UndoneShield>, UndoError> {
    let Ok(FoundJournal::Here(journal)) = load(host, store) else { return Ok(None) };
    let Some(unfinished) = journal.unfinished_name() else { return Ok(None) };
    if name.is_some_and(|name| name != unfinished) {
        return Ok(None);
    }
    let Some(version) = journal.superfluous_version(&unfinished) else { return Ok(None) };
    undo_locked(host, store, Some(&version), unrestored, lock).map(Some)
}
