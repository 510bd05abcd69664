//! The kernel boundary of cpushield: all unsafe code and all file access of the project.
//!
//! [`Host`] is the machine as a parameter; [`text`] parses what it reads; the rest are small
//! wrappers of system calls (`sys`), files, processes and the trace. `shared_memory` has the loops
//! that measure, `recording` recorded machines. `libc` is used only for what `rustix`
//! lacks. Nothing here decides what to do.
//!
//! The modules are grouped by idea. Only the types that most callers use are at the root too.

pub mod cpuset;
pub mod errno;
pub mod error;
pub mod files;
pub mod host;
pub mod processes;
pub mod recording;
pub mod shared_memory;
pub mod sys;
pub mod text;
pub mod trace;

pub use cpuset::CpuSet;
pub use error::{Error, Operation, Result};
pub use files::documents::UserFiles;
pub use files::event_log::EventLog;
pub use files::file_stamp::FileStamp;
pub use files::local_files::{FileAttributes, LocalFiles, MachineFiles};
pub use files::machine_files::FreeSpace;
pub use files::public_dir::PublicDir;
pub use files::regular::{FileKind, OpenError};
pub use files::store::{Store, StoreLock};
pub use host::{FileWriter, Host, SimulatedKernel};
pub use processes::command_output::CommandOutput;
pub use processes::hogs::RtHog;
pub use processes::process_handle::ProcessHandle;
pub use processes::step_aside::AffinityGuard;
pub use processes::task::{Task, TaskId};
pub use recording::root_dir::{Listed, RecordedOutcome};
pub use sys::memory::RaisedLockLimit;
pub use sys::sched_policy::SchedPolicy;

#[cfg(test)]
#[path = "../../../tests/support/not_run.rs"]
mod not_run;
