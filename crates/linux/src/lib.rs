//! The kernel boundary of cpushield: all unsafe code and all file access of the project.
//!
//! [`Host`] is the machine as a parameter; [`text`] parses what it reads; the rest are small
//! wrappers of system calls. Nothing here decides what to do.
//!
//! The modules are grouped by idea. The groups are private: a module has its name at the root.

pub mod cpuset;
pub mod errno;
pub mod error;
mod files;
pub mod host;
mod processes;
mod recording;
mod shared_memory;
mod sys;
pub mod text;
mod trace;

pub use files::{documents, event_log, machine_files, public_dir, regular, scratch_file, store};
pub use processes::{
    external_program, hogs, inherited, irqbalance, namespaces, open_files, operator_socket,
    orphans, placement_probe, process, programs, task, worker_process,
};
pub use recording::{record, redaction};
pub use shared_memory::{latency_stats, progress_counter, sampler};
pub use sys::{
    clock, clock_sync, events, hpet, kexec, load_syscalls, membarrier, memory, perf, sched,
    sched_policy, signal, syscalls, terminal,
};
pub use trace::{page_buffer, ring_buffer, tracefs};

pub use cpuset::CpuSet;
pub use documents::UserFiles;
pub use error::{Error, Operation, Result};
pub use event_log::EventLog;
pub use files::file_stamp::FileStamp;
pub use hogs::RtHog;
pub use host::{FileWriter, Host};
pub use machine_files::{FileAttributes, FreeSpace};
pub use memory::RaisedLockLimit;
pub use processes::command_output::CommandOutput;
pub use processes::process_handle::ProcessHandle;
pub use processes::step_aside::AffinityGuard;
pub use public_dir::PublicDir;
pub use recording::root_dir::RecordedOutcome;
#[cfg(feature = "simulator")]
pub use recording::simulate::InjectedFault;
pub use regular::FileKind;
pub use sched_policy::SchedPolicy;
pub use store::{Store, StoreLock};
pub use task::{Task, TaskId};
