//! The numbers of the kernel's errors on this architecture, for code that decides by them
//! (errno(3)).

pub use libc::{EACCES, EBUSY, EINVAL, EIO, ENODEV, ENOENT, ENOSYS, ENXIO, EPERM, ESRCH};
