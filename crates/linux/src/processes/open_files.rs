//! The limit on open files. On a machine with many CPUs, this program needs more than the usual
//! 1024: the witnesses and the loads have several files for each CPU. Programs that it starts get
//! the limit that it was started with: select(2) cannot watch a file with a number from 1024 on.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;

/// The soft limit that this process was started with; empty if it was not raised.
static BEFORE: OnceLock<u64> = OnceLock::new();

/// Raises the soft limit of this process to the hard one. What the kernel refuses stays as it was.
pub fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let Some(before) = current.filter(|_| current != maximum) else { return };
    if setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok() {
        let _ = BEFORE.set(before);
    }
}

/// A program to start or to become, with the limit from before [`raise_limit`]. Every program that
/// this one starts comes from here, also this one itself, which then raises the limit again.
pub(crate) fn new_command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    if let Some(before) = BEFORE.get().copied() {
        let restore = move || {
            let maximum = getrlimit(Resource::Nofile).maximum;
            let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(before), maximum });
            Ok(())
        };
        // SAFETY: between fork and exec it makes two system calls and allocates nothing.
        unsafe { command.pre_exec(restore) };
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_started_program_has_the_limit_from_before() {
        let maximum = getrlimit(Resource::Nofile).maximum;
        // Other tests of this process are not disturbed by one file less.
        let before = maximum.unwrap_or(1 << 16) - 1;
        setrlimit(Resource::Nofile, Rlimit { current: Some(before), maximum }).unwrap();
        raise_limit();
        assert_eq!(getrlimit(Resource::Nofile).current, maximum);
        let output = new_command("sh").args(["-c", "ulimit -Sn; ulimit -Hn"]).output().unwrap();
        let hard = maximum.map_or("unlimited".to_owned(), |maximum| maximum.to_string());
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{before}\n{hard}\n"));
    }
}
