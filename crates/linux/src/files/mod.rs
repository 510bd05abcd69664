//! Files: opened safely, replaced atomically, and kept so that they survive a crash.

pub(crate) mod atomic_file;
pub mod documents;
pub mod event_log;
pub(crate) mod fast_read;
pub mod file_stamp;
mod kernel_log;
pub(crate) mod local_files;
pub mod machine_files;
pub mod public_dir;
pub mod regular;
pub mod scratch_file;
pub mod store;
