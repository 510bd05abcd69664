//! Reading kernel files with as few system calls as possible: a survey reads about a thousand.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
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
pub(crate) fn open(path: &Path, access: libc::c_int) -> io::Result<fs::File> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    let flags = access | libc::O_CLOEXEC;
    // SAFETY: `name` ends with a zero byte and lives until the call returns.
    let fd = unsafe { libc::openat(libc::AT_FDCWD, name.as_ptr(), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { fs::File::from_raw_fd(fd) })
}
