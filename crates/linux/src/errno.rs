//! The numbers of the kernel's errors on this architecture, for code that decides by them
//! (errno(3)).

pub use libc::{
    EACCES, EBUSY, EEXIST, EINVAL, EIO, EISDIR, ELOOP, ENODEV, ENOENT, ENOSPC, ENOSYS, ENOTDIR,
    ENOTEMPTY, ENXIO, EPERM, ESRCH,
};
