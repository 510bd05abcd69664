//! Reading kernel files with as few system calls as possible: a survey reads about a thousand.

use rustix::fs::{Mode, OFlags};
use std::fs;
use std::io;
use std::path::Path;

/// Whether a read into a larger buffer returns the whole file, so that no second read is needed. An
/// attribute is at most a page and comes whole (`sysfs_kf_read()` in fs/sysfs/file.c;
/// `proc_sys_call_handler()` in fs/proc/proc_sysctl.c; the files of an interrupt are those of
/// `single_open()`, kernel/irq/proc.c; 6.12). Files of a cgroup do not: lists of tasks come in
/// parts.
pub(crate) fn is_whole_at_first_read(path: &str) -> bool {
    ["/proc/irq/", "/proc/sys/", "/sys/devices/", "/sys/class/"]
        .iter()
        .any(|begin| path.starts_with(begin))
}

/// Opens a file in one system call; musl's `open` makes two.
pub(crate) fn open(path: &Path, access: OFlags) -> io::Result<fs::File> {
    Ok(rustix::fs::open(path, access | OFlags::CLOEXEC, Mode::empty())?.into())
}
