//! Small wrappers of system calls that concern this process, its threads, clocks and devices.

pub mod clock;
pub mod clock_sync;
mod device_request;
pub mod events;
pub mod hpet;
pub(crate) mod input_poll;
pub mod kexec;
pub mod load_syscalls;
pub mod membarrier;
pub mod memory;
pub mod perf;
pub mod sched;
pub mod sched_policy;
pub mod signal;
pub mod syscalls;
pub mod terminal;
