//! The process that asks, and the one that it asks for. Each is held by a descriptor, so it is
//! noticed when its number belongs to another process.

use super::request::OperatorRefusal;
use cpushield_linux::processes::operator_socket::SocketPeer;
use cpushield_linux::text::task_status;
use cpushield_linux::{Host, ProcessHandle, Task, TaskId};

/// A process that the helper may move.
pub(super) struct HeldProcess {
    handle: ProcessHandle,
    /// Its identity.
    pub task: TaskId,
}

impl HeldProcess {
    /// The process of this descriptor; `None` if its number has no task.
    pub fn new(host: &Host, handle: ProcessHandle) -> Option<HeldProcess> {
        let (tid, started) = (handle.pid(), host.start_time(handle.pid())?);
        Some(HeldProcess { handle, task: TaskId { tid, started } })
    }

    /// Its number.
    pub fn pid(&self) -> i32 {
        self.handle.pid()
    }

    /// Its main thread; `None` if it has ended.
    pub fn task(&self, host: &Host) -> Option<Task> {
        host.task(self.pid(), self.pid()).ok().filter(|task| task.id == self.task)
    }

    /// Whether the number still belongs to the process.
    pub fn lives(&self, host: &Host) -> bool {
        // The descriptor comes last: as long as it has not ended, the number is its own.
        host.is_same_task(self.task) && self.handle.has_ended().is_ok_and(|ended| !ended)
    }
}

/// The process that asks.
pub(super) struct Asker {
    /// The process.
    pub process: HeldProcess,
    /// Its user.
    pub uid: u32,
    /// Its groups.
    pub groups: Vec<u32>,
}

impl Asker {
    /// Finds the process. With sudo, the user that called it must be the one that asks: its
    /// standard input may be any socket.
    pub fn find(
        host: &Host,
        peer: SocketPeer,
        sudo_user: Option<u32>,
    ) -> Result<Asker, OperatorRefusal> {
        let SocketPeer { process, uid, groups } = peer;
        let process = HeldProcess::new(host, process).ok_or(OperatorRefusal::Ended)?;
        let is_caller = sudo_user.is_none_or(|caller| caller == uid);
        let status = read_status(host, &format!("/proc/{}", process.pid()));
        let has_user = is_caller && task_status::user(&status) == Some(uid);
        // Last: the status was that of the process if it lives now. One that has ended has no user.
        match (process.lives(host), has_user) {
            (false, _) => Err(OperatorRefusal::Ended),
            (true, false) => Err(OperatorRefusal::UserDiffers { uid }),
            (true, true) => Ok(Asker { process, uid, groups }),
        }
    }

    /// Finds another process of the same user by its number.
    pub fn find_other(&self, host: &Host, pid: i32) -> Result<HeldProcess, OperatorRefusal> {
        let own = read_status(host, &format!("/proc/{}", self.process.pid()));
        if field(&own, "NSpid:").count() > 1 {
            return Err(OperatorRefusal::OtherNumbers);
        }
        let absent = || OperatorRefusal::NoProcess { pid };
        // The descriptor comes before the checks. So they are about this process as long as it has
        // not ended.
        let handle = ProcessHandle::open(pid);
        let status = read_status(host, &format!("/proc/{pid}"));
        if field(&status, "Tgid:").any(|process| process != pid.to_string()) {
            return Err(OperatorRefusal::Thread { pid });
        }
        if host.task(pid, pid).map_err(|_| absent())?.kthread {
            return Err(OperatorRefusal::KernelThread { pid });
        }
        let handle = handle.map_err(|_| absent())?;
        let process = HeldProcess::new(host, handle).ok_or_else(absent)?;
        let is_own = task_status::user(&status) == Some(self.uid) && self.owns_threads(host, pid);
        match (process.lives(host), is_own) {
            (false, _) => Err(absent()),
            (true, false) => Err(OperatorRefusal::OtherUser { pid, uid: self.uid }),
            (true, true) => Ok(process),
        }
    }

    /// Whether every thread of a process has the user of the process that asks. A thread can have
    /// another user than its process: the C library changes all, the kernel one (setuid(2)).
    fn owns_threads(&self, host: &Host, pid: i32) -> bool {
        let threads = host.thread_ids(pid).unwrap_or_default();
        threads.iter().all(|tid| {
            let status = host.read(&format!("/proc/{pid}/task/{tid}/status"));
            // A thread that has ended since has no user.
            status.is_err()
                || status.is_ok_and(|status| task_status::user(&status) == Some(self.uid))
        })
    }
}

/// The `status` of a process; empty if there is none.
fn read_status(host: &Host, dir: &str) -> String {
    host.read(&format!("{dir}/status")).unwrap_or_default()
}

/// The values of a line of `status`.
fn field<'a>(status: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_default().split_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_process_of_another_user_and_one_that_has_ended_have_different_refusals() {
        let own = i32::try_from(std::process::id()).unwrap();
        let root = std::env::temp_dir().join(format!("cpushield-asker-{own}"));
        let dir = root.join(format!("proc/{own}"));
        fs::create_dir_all(dir.join(format!("task/{own}"))).unwrap();
        let numbers = ["0"; 48].join(" ");
        for file in ["stat".to_owned(), format!("task/{own}/stat")] {
            fs::write(dir.join(file), format!("{own} (asker) S {numbers}\n")).unwrap();
        }
        let find = |users: &str, sudo_user| {
            fs::write(dir.join("status"), format!("Uid:\t{users}\n")).unwrap();
            let process = ProcessHandle::open(own).unwrap();
            let peer = SocketPeer { process, uid: 1000, groups: Vec::new() };
            let host = Host::recorded(&root).unwrap();
            Asker::find(&host, peer, sudo_user).map(|asker| asker.uid)
        };
        let differs = Err(OperatorRefusal::UserDiffers { uid: 1000 });
        assert_eq!(find("1000\t1000\t1000\t1000", None), Ok(1000));
        assert_eq!(find("1000\t1000\t1000\t1000", Some(1000)), Ok(1000));
        assert_eq!(find("1000\t1000\t1000\t1000", Some(1001)), differs, "another caller of sudo");
        assert_eq!(find("1000\t0\t0\t0", None), differs, "a set-user-ID program");
        fs::remove_dir_all(&root).unwrap();
        fs::create_dir_all(&dir).unwrap();
        assert_eq!(find("1000\t1000\t1000\t1000", None), Err(OperatorRefusal::Ended));
        fs::remove_dir_all(&root).unwrap();
    }
}
