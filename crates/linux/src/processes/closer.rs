//! Closes files and removes tracing instances in a child process. Closing a perf event of a
//! tracepoint waits for a grace period of RCU (`perf_trace_destroy()` in
//! kernel/trace/trace_event_perf.c, 6.12), and disabling the events of an instance patches code on
//! all CPUs, both one after the other.

use super::process::fork_detached;
use crate::host::Host;
use crate::sys::sched;
use rustix::process::setsid;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// A file that takes the kernel a moment to close.
pub type OpenFile = File;

/// The command name of such a child.
pub const CLOSER: &str = "cpushield-close";

/// The roots of the cgroups: no unit of systemd waits for the child there, or ends it.
const ROOTS: [&CStr; 3] = [
    c"/sys/fs/cgroup/cgroup.procs",
    c"/sys/fs/cgroup/systemd/cgroup.procs",
    c"/sys/fs/cgroup/unified/cgroup.procs",
];

/// Closes the files and removes the instances in a child, which outlives this process. It has no
/// other file, not even the standard streams. Without a child, both are done here. The next run
/// removes what a killed child leaves. What was opened last goes first: a tracepoint that loses the
/// first of its two users waits for another grace period (`tracepoint_remove_func()`,
/// kernel/tracepoint.c, 6.12).
pub fn close_in_child(host: &Host, files: Vec<File>, instances: &[String]) {
    let kept: Vec<i32> = files.iter().map(AsRawFd::as_raw_fd).collect();
    // It ends when this process has closed its files: the last process that closes them waits.
    let gate = io::pipe().ok();
    let (wait, held) =
        gate.as_ref().map_or((-1, -1), |(reader, writer)| (reader.as_raw_fd(), writer.as_raw_fd()));
    let open = host.list("/proc/self/fd").unwrap_or_default();
    let open = open.iter().filter_map(|fd| fd.parse().ok());
    let others: Vec<i32> =
        open.filter(|fd| !kept.contains(fd) && ![wait, held].contains(fd)).collect();
    let dirs: Vec<CString> =
        instances.iter().filter_map(|dir| CString::new(dir.as_str()).ok()).collect();
    let cpus = sched::affinity(0).ok();
    let prepare = || {
        // SAFETY: system calls only. The files are copies that nothing in the child uses.
        unsafe {
            libc::close(held);
            for fd in &others {
                libc::close(*fd);
            }
            libc::prctl(libc::PR_SET_NAME, c"cpushield-close".as_ptr());
        }
    };
    let close = || {
        let _ = setsid();
        // SAFETY: system calls only, with pointers to strings of the parent's memory.
        unsafe {
            for root in ROOTS {
                let fd = libc::open(root.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
                libc::write(fd, c"0".as_ptr().cast(), 1);
                libc::close(fd);
            }
            // The move may have widened the mask (before 6.2).
            drop(cpus.as_ref().map(|cpus| sched::set_affinity(0, cpus)));
            let mut end = 0u8;
            libc::read(wait, (&raw mut end).cast(), 1);
            for fd in &kept {
                libc::close(*fd);
            }
            for dir in dirs.iter().rev() {
                // A process that is being started may have its files for a moment.
                let mut tries = 0..50;
                while libc::rmdir(dir.as_ptr()) != 0 && tries.next().is_some() {
                    libc::usleep(20_000);
                }
            }
        }
    };
    // SAFETY: both only make system calls, and allocate little: no other thread of this process
    // holds a lock of the allocator, which fork(2) in the C library takes.
    if unsafe { fork_detached(prepare, close) }.is_err() {
        instances.iter().for_each(|dir| drop(host.remove_dir(dir)));
    }
    drop(files);
    drop(gate);
}
