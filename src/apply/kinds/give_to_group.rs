//! Gives the members of a group write access to a file of a cgroup. Its owner stays. Undo restores
//! the group and the permission bits.

use super::super::kind::{
    ChangeKind, NOTHING, PerformedChange, RemainingShields, RevertedChange, ShieldChanges,
};
use super::super::original::OriginalState;
use crate::change::{Change, Refusal, RefusalKind};
use crate::documents::applied::{ChangeFate, DriftedValue, StepDone};
use cpushield_linux::{FileAttributes, Host, Result};

/// The permission bit that lets the group write.
const GROUP_WRITES: u32 = 0o020;

/// A file, and the group that may write it.
pub struct GroupAccess<'a> {
    pub path: &'a str,
    pub gid: u32,
}

impl GroupAccess<'_> {
    /// The attributes of the file after the change.
    fn wanted(&self, now: FileAttributes) -> FileAttributes {
        let owner = now.owner.map(|(uid, _)| (uid, self.gid));
        FileAttributes { mode: now.mode | GROUP_WRITES, owner }
    }

    fn restore(&self, host: &Host, text: &str, done: Option<&StepDone>) -> Result<RevertedChange> {
        let Some(original) = parse(text) else { return Ok(NOTHING) };
        let now = host.access(self.path)?;
        if now == original {
            return Ok(RevertedChange::already_original(done));
        }
        // An apply that failed may have set only the owner.
        let left = done.and_then(|done| done.left.as_deref());
        if now != self.wanted(original) && left != Some(&show(now)) {
            let (now, ours) = (show(now), show(self.wanted(original)));
            return Ok(ChangeFate::Drifted { now, ours, original: text.to_owned() }.into());
        }
        host.set_access(self.path, original)?;
        Ok(ChangeFate::Restored.into())
    }
}

impl ChangeKind for GroupAccess<'_> {
    fn read_original(&self, host: &Host) -> Result<OriginalState> {
        let text = host.access(self.path).map(show);
        Ok(OriginalState::from_reading(text.map(|text| OriginalState::Text { text })))
    }

    fn perform(&self, host: &Host, _: &OriginalState) -> Result<PerformedChange> {
        let before = host.access(self.path)?;
        let wanted = self.wanted(before);
        if before == wanted {
            return Ok(PerformedChange::already_so());
        }
        let refusal = match host.set_access(self.path, wanted) {
            Err(error) if error.is_stop() => return Err(error),
            Err(error) => Refusal::from(&error),
            Ok(()) => {
                let left = match host.access(self.path) {
                    Err(error) => return PerformedChange::unknown_result(error, show(wanted)),
                    Ok(left) => left,
                };
                if left == wanted {
                    return Ok(PerformedChange::changed(show(left)));
                }
                let reason = format!("the kernel set it to {}", show(left));
                Refusal { kind: RefusalKind::Other, reason }
            }
        };
        // The owner may be set although the mode was refused.
        match host.set_access(self.path, before) {
            Ok(()) => Ok(PerformedChange::refused_by(refusal)),
            Err(error) if error.is_stop() || error.is_absent() => Err(error),
            Err(error) => {
                let left = host.access(self.path).ok();
                if left == Some(before) {
                    return Ok(PerformedChange::refused_by(refusal));
                }
                let left = left.map(show);
                Ok(PerformedChange::original_lost(refusal, show(before), &error, left))
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
        match was {
            OriginalState::Text { text } => self.restore(host, text, done),
            // The file is removed together with its group.
            _ => Ok(NOTHING),
        }
    }

    fn for_remaining(&self, _: &OriginalState, _: &RemainingShields<'_>) -> Option<Change> {
        Some(Change::GiveToGroup { path: self.path.to_owned(), gid: self.gid })
    }

    fn moves_tasks(&self) -> bool {
        false
    }

    fn find_drift(&self, host: &Host, left: Option<&str>) -> Option<DriftedValue> {
        let left = left?.to_owned();
        match host.access(self.path) {
            Ok(now) => (show(now) != left).then(|| DriftedValue { left, now: Some(show(now)) }),
            Err(error) if error.is_absent() => Some(DriftedValue { left, now: None }),
            Err(_) => None,
        }
    }
}

/// Attributes as text: `0:44 664`.
fn show(attributes: FileAttributes) -> String {
    let (uid, gid) = attributes.owner.unwrap_or_default();
    format!("{uid}:{gid} {:o}", attributes.mode)
}

fn parse(text: &str) -> Option<FileAttributes> {
    let (owner, mode) = text.split_once(' ')?;
    let (uid, gid) = owner.split_once(':')?;
    let mode = u32::from_str_radix(mode, 8).ok()?;
    Some(FileAttributes { mode, owner: Some((uid.parse().ok()?, gid.parse().ok()?)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_read_back_as_they_were_shown() {
        let attributes = FileAttributes { mode: 0o664, owner: Some((0, 44)) };
        assert_eq!(show(attributes), "0:44 664");
        assert_eq!(parse("0:44 664"), Some(attributes));
        for torn in ["", "0:44", "0 664", "x:44 664", "0:44 9"] {
            assert_eq!(parse(torn), None, "{torn}");
        }
    }
}
