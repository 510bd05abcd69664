//! Kernel files in as few system calls as they need: there are a thousand of them to read.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Whether a read into a larger buffer gives the whole file, so that asking again for nothing can
/// be spared: an attribute is at most a page, and shown at once (`sysfs_kf_read()` in
/// fs/sysfs/file.c; `proc_sys_call_handler()` in fs/proc/proc_sysctl.c; the files of an interrupt
/// are those of `single_open()`, kernel/irq/proc.c; 6.12). Not those of a cgroup: lists of tasks
/// come in parts.
pub(crate) fn comes_at_once(path: &str) -> bool {
    ["/proc/irq/", "/proc/sys/", "/sys/devices/", "/sys/class/"]
        .iter()
        .any(|begin| path.starts_with(begin))
}

/// Opens a file in one system call: musl's `open` makes two of it.
pub(crate) fn open(place: &Path, access: libc::c_int) -> io::Result<fs::File> {
    let name = CString::new(place.as_os_str().as_bytes())?;
    let flags = access | libc::O_CLOEXEC;
    // SAFETY: `name` ends with a zero byte and lives until the call returns.
    let fd = unsafe { libc::openat(libc::AT_FDCWD, name.as_ptr(), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { fs::File::from_raw_fd(fd) })
}
