//! Tasks and processes of the machine, and the programs that this one starts or talks to.

pub mod closer;
pub mod command_output;
pub mod external_program;
pub mod hogs;
pub mod inherited;
pub mod irqbalance;
pub mod namespaces;
pub mod open_files;
pub mod operator_socket;
pub mod orphans;
pub mod placement_probe;
pub mod process;
pub mod process_handle;
pub mod programs;
pub(crate) mod step_aside;
mod systemd;
pub mod task;
pub mod worker_process;
