//! What a process inherits from the one that started it, and how it gets rid of it. sudo(8) passes
//! on the scheduling policy, the limits and the terminal of its caller.

use crate::sys::sched;
use crate::sys::sched_policy::SchedPolicy;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, setsid};

/// Signals that a terminal sends to all processes that it has started.
const TERMINAL_SIGNALS: [libc::c_int; 6] =
    [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

/// Limits that end a process, or make its writes fail.
const LIMITS: [Resource; 7] = [
    Resource::Cpu,
    Resource::Fsize,
    Resource::Data,
    Resource::Stack,
    Resource::As,
    Resource::Memlock,
    Resource::Rttime,
];

/// How many files a process may open: the kernel's own limit for the first process (`INR_OPEN_CUR`,
/// include/uapi/linux/fs.h, 6.12).
const OPEN_FILES: u64 = 1024;

/// Makes this process independent of the one that started it: a session of its own, ordinary
/// scheduling, and no limits that end it. A user that starts it as root can then neither stop nor
/// delay it. Without privilege, what the kernel refuses stays as it was.
pub fn shed_inherited() {
    // The leader of a process group cannot do this; it ignores the signals of the terminal.
    let _ = setsid();
    for signal in TERMINAL_SIGNALS {
        // SAFETY: no handler is installed; the disposition applies to this process only.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    for resource in LIMITS {
        let hard = getrlimit(resource).maximum;
        let without = Rlimit { current: None, maximum: None };
        let _ = setrlimit(resource, without)
            .or_else(|_| setrlimit(resource, Rlimit { current: hard, maximum: hard }));
    }
    let least = |limit: Option<u64>| limit.map(|limit| limit.max(OPEN_FILES));
    let files = getrlimit(Resource::Nofile);
    let (current, maximum) = (least(files.current), least(files.maximum));
    let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum });
    let _ = sched::set_policy(0, SchedPolicy::Other { nice: 0 });
    // The class "none" follows the nice value; the class "idle" may wait forever for the disk
    // (ioprio_set(2)). 1 is IOPRIO_WHO_PROCESS.
    // SAFETY: the call takes numbers only.
    unsafe { libc::syscall(libc::SYS_ioprio_set, 1, 0, 0) };
}
