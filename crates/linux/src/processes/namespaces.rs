//! The namespaces of this process. In one of its own it sees only a part of the machine, and
//! settings of tasks that it does not see would be lost.

use crate::error::{Error, ErrorCause, NamespaceKind, Operation, Result};
use crate::host::Host;

/// The initial PID namespace (`PROC_PID_INIT_INO`, include/linux/proc_ns.h, 3.8 to 6.12).
const INITIAL_PID: &str = "pid:[4026531836]";

/// Whether this process is in another PID namespace than the initial one, which has all tasks.
#[must_use]
pub fn in_pid_namespace(host: &Host) -> bool {
    host.read_link("/proc/self/ns/pid").is_ok_and(|namespace| namespace != INITIAL_PID)
}

/// Succeeds if `/proc` lists all tasks of the machine.
///
/// # Errors
/// This process is in a PID namespace of its own.
pub fn check_sees_all_tasks(host: &Host) -> Result<()> {
    match in_pid_namespace(host) {
        false => Ok(()),
        true => Err(hidden(NamespaceKind::Pid, "/proc")),
    }
}

/// The error for a path that shows only a part of the machine.
#[must_use]
pub fn hidden(kind: NamespaceKind, path: &str) -> Error {
    let cause = ErrorCause::Namespace(kind);
    Error { verb: Operation::Read, path: path.to_owned(), value: None, cause }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_another_pid_namespace_hides_tasks() {
        let dir = std::env::temp_dir().join(format!("pid-namespace-{}", std::process::id()));
        for (namespace, other) in
            [(Some(INITIAL_PID), false), (Some("pid:[4026532448]"), true), (None, false)]
        {
            let links = dir.join("proc/self/ns");
            std::fs::create_dir_all(&links).unwrap();
            if let Some(namespace) = namespace {
                symlink(namespace, links.join("pid")).unwrap();
            }
            let host = Host::recorded(&dir).unwrap();
            assert_eq!(in_pid_namespace(&host), other, "{namespace:?}");
            assert_eq!(check_sees_all_tasks(&host).is_err(), other, "{namespace:?}");
            std::fs::remove_dir_all(&dir).unwrap();
        }
    }
}
