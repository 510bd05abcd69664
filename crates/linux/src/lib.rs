//! The kernel boundary of cpushield: all unsafe code and all file access of the project.
//!
//! [`Host`] is the machine as a parameter; [`text`] parses what it reads; the rest are small
//! wrappers of system calls. Nothing here decides what to do.

mod atomic_file;
pub mod clock;
pub mod clock_sync;
pub mod cpuset;
mod device_request;
pub mod documents;
pub mod error;
pub mod event_log;
pub mod events;
pub mod external_program;
mod fast_read;
pub mod files;
pub mod hogs;
pub mod host;
pub mod hpet;
mod input_poll;
pub mod irqbalance;
mod kernel_log;
pub mod kexec;
pub mod latency_stats;
pub mod load_syscalls;
pub mod memory;
pub mod orphans;
pub mod page_buffer;
pub mod perf;
pub mod process;
pub mod programs;
pub mod progress_counter;
pub mod record;
pub mod redaction;
pub mod regular;
pub mod ring_buffer;
mod root_dir;
pub mod sampler;
pub mod sched;
pub mod scratch_file;
mod shared_memory;
pub mod signal;
mod simulate;
pub mod store;
pub mod syscalls;
mod systemd;
pub mod task;
pub mod terminal;
pub mod text;
pub mod tracefs;
pub mod worker_process;

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
