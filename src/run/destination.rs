//! The cgroup of a program that leaves a shield and was started in it.

use super::record::AddedThread;
use super::task_lookup::{belongs_to, cgroup_of};
use super::{RunError, ShieldPlacement};
use cpushield_linux::text::task_status;
use cpushield_linux::{Host, Task};

/// Where a program goes that was started in the shield.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Destination {
    /// The cgroup of this process. If that is in a shield, the cgroup of the nearest ancestor of
    /// this process outside of shields.
    Caller,
    /// A cgroup with the limits of its user: that of its nearest ancestor outside of shields, if
    /// that has the same user, else that of the process that asks, or of another one of the user.
    OfUser {
        /// The process that asks.
        asker: i32,
    },
}

/// The removal of a program that was started in the shield.
#[derive(Debug)]
pub(super) struct StartedRemoval<'a> {
    pub(super) destination: Destination,
    /// The programs that were added to shields, with the groups that they came from.
    pub(super) added: &'a [AddedThread],
    /// All active shields.
    pub(super) shields: &'a [ShieldPlacement],
}

/// Finds the cgroup of a destination. `shield` is the group of the shield.
///
/// # Errors
/// A group cannot be read, or no group is known that has the limits of the user or of the caller.
pub(super) fn find_destination(
    host: &Host,
    (shield, v2): (&str, bool),
    task: &Task,
    removal: &StartedRemoval<'_>,
) -> Result<String, RunError> {
    let root = shield.rsplit_once('/').map_or("", |(mount, _)| mount);
    let groups = UserGroups { host, shield, v2, root, user: find_user(host, task.pid), removal };
    let (asker, of_ancestor) = match removal.destination {
        Destination::OfUser { asker } => {
            let is_of_user = |pid| groups.is_of_user(pid);
            (Some(asker), groups.find_of_ancestor(task.parent, &is_of_user)?)
        }
        Destination::Caller => {
            let own_pid = host.own_pid().unwrap_or(0);
            (None, groups.find_of_ancestor(own_pid, &|_| true)?)
        }
    };
    if let Some(group) = of_ancestor {
        return Ok(group);
    }
    if !v2 {
        // A group of this hierarchy has no limits other than CPUs and memory nodes.
        return Ok(root.to_owned());
    }
    let of_user = |asker| groups.find_of_asker(asker, task).or_else(|| groups.find_of_others(task));
    asker.and_then(of_user).ok_or(RunError::NoDestination { tid: task.id.tid })
}

/// The user of a process; `None` if it has several.
fn find_user(host: &Host, pid: i32) -> Option<u32> {
    task_status::user(&host.read(&format!("/proc/{pid}/status")).ok()?)
}

/// The groups of the processes of a user.
struct UserGroups<'a> {
    host: &'a Host,
    shield: &'a str,
    v2: bool,
    root: &'a str,
    user: Option<u32>,
    removal: &'a StartedRemoval<'a>,
}

impl UserGroups<'_> {
    /// The group of a process outside of shields.
    fn find_outside(&self, process: &Task) -> Result<Option<String>, RunError> {
        let group = cgroup_of(self.host, self.shield, self.v2, process)?;
        let is_inside = self.removal.shields.iter().any(|place| place.contains_group(&group));
        Ok((!is_inside).then_some(group))
    }

    fn is_of_user(&self, pid: i32) -> bool {
        self.user.is_some() && find_user(self.host, pid) == self.user
    }

    /// The group of the nearest process outside of shields among this one and its ancestors, if
    /// `is_suitable`. One that was added to a shield counts with the group that it came from.
    fn find_of_ancestor(
        &self,
        pid: i32,
        is_suitable: &dyn Fn(i32) -> bool,
    ) -> Result<Option<String>, RunError> {
        let mut above = pid;
        while above > 1 {
            let Ok(ancestor) = self.host.task(above, above) else { break };
            if let Some(group) = self.find_outside(&ancestor)? {
                return Ok(Some(group).filter(|_| is_suitable(above)));
            }
            if let Some(group) = self.find_former(&ancestor).filter(|_| is_suitable(above)) {
                return Ok(Some(group));
            }
            above = ancestor.parent;
        }
        Ok(None)
    }

    /// The group from which a process was added.
    fn find_former(&self, process: &Task) -> Option<String> {
        let entry = self.removal.added.iter().find(|added| belongs_to(added, process))?;
        entry.group.clone().filter(|group| self.host.exists(group))
    }

    /// The group of the process that asks. With systemd no process of a user is in the root group,
    /// except for one that was put there, and it has no limits.
    fn find_of_asker(&self, asker: i32, task: &Task) -> Option<String> {
        let process = self.host.task(asker, asker).ok()?;
        let group = self.find_outside(&process).ok()??;
        let is_other = asker != task.pid && self.is_of_user(asker);
        (is_other && (group != self.root || !self.host.has_systemd())).then_some(group)
    }

    /// The group of another process of the user: with systemd one below the slice of the user
    /// (systemd-logind.service(8)), a session if there is one. A service may have the same user,
    /// and has its own limits.
    fn find_of_others(&self, task: &Task) -> Option<String> {
        let slice = format!("/user-{}.slice/", self.user?);
        let tasks = self.host.tasks().ok()?.into_iter();
        let processes = tasks.filter(|it| !it.kthread && it.pid == it.id.tid && it.pid != task.pid);
        let of_user = processes.filter(|process| self.is_of_user(process.pid));
        let groups = of_user.filter_map(|process| self.find_outside(&process).ok()?);
        let groups = groups.filter(|group| !self.host.has_systemd() || group.contains(&slice));
        groups.min_by_key(|group| {
            let is_session = group.contains(&format!("{slice}session-"));
            (group == self.root, !is_session, group.clone())
        })
    }
}
