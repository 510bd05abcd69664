//! The kernel boundary of cpushield: the only unsafe code and the only file access of the project.
//!
//! [`Host`] is the machine as a parameter; [`text`] parses what it reads; the rest are small
//! wrappers of system calls. Nothing here decides anything.

mod calls;
pub mod chores;
pub mod clock;
pub mod companion;
pub mod cpuset;
pub mod documents;
pub mod error;
pub mod event_log;
pub mod events;
pub mod files;
pub mod hired;
pub mod hogs;
pub mod host;
pub mod hpet;
pub mod irqbalance;
mod kernel_log;
pub mod kexec;
pub mod memory;
pub mod meter;
pub mod orphans;
pub mod perf;
pub mod private;
pub mod process;
pub mod programs;
pub mod record;
mod region;
pub mod regular;
pub mod ring_buffer;
mod root_dir;
pub mod sampler;
pub mod sched;
pub mod scratch;
pub mod signal;
mod simulate;
pub mod spool;
pub mod store;
pub mod syscalls;
mod systemd;
pub mod tally;
pub mod task;
pub mod terminal;
pub mod text;
pub mod ties;
pub mod tracefs;
mod whole;

pub use cpuset::CpuSet;
pub use documents::{can_write, keep_document, read_document, write_document, write_stream};
pub use error::{Error, Operation, Result};
pub use event_log::EventLog;
pub use files::{FileAttributes, FreeSpace};
pub use hogs::RtHog;
pub use host::{FileWriter, Host, InjectedFault};
pub use programs::CommandOutput;
pub use regular::FileKind;
pub use store::{Store, StoreLock};
pub use task::{SchedPolicy, Task, TaskId};
