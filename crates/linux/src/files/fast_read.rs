//! Reading kernel files with as few system calls as possible: a survey reads about a thousand.

use rustix::fs::{Mode, OFlags};
use std::cell::RefCell;
use std::fs;
use std::io;
use std::path::Path;

/// The size of the first read. Tracefs files such as events/header_page give only the part that the
/// first read asked for (seen on 6.1 and 6.12), so growing in small steps would lose text.
pub(crate) const CHUNK_BYTES: usize = 64 << 10;

thread_local! {
    /// Reused between reads: allocating and clearing memory costs more than reading a small file.
    pub(crate) static CHUNK: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Whether a read into a larger buffer returns the whole file, so that no second read is needed. An
/// attribute is at most a page and comes whole (`sysfs_kf_read()` in fs/sysfs/file.c;
/// `proc_sys_call_handler()` in fs/proc/proc_sysctl.c; the files of an interrupt are those of
/// `single_open()`, kernel/irq/proc.c, and so are those of a task, fs/proc/base.c; 6.12). Files of
/// a cgroup do not: lists of tasks come in parts.
pub(crate) fn is_whole_at_first_read(path: &str) -> bool {
    let of_task =
        path.starts_with("/proc/") && (path.ends_with("/stat") || path.ends_with("/status"));
    let begins = ["/proc/irq/", "/proc/sys/", "/sys/devices/", "/sys/class/"];
    of_task || begins.iter().any(|begin| path.starts_with(begin))
}

/// Opens a file in one system call; musl's `open` makes two.
pub(crate) fn open(path: &Path, access: OFlags) -> io::Result<fs::File> {
    Ok(rustix::fs::open(path, access | OFlags::CLOEXEC, Mode::empty())?.into())
}
