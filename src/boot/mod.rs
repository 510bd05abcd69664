//! Boot: kernel parameters for the chosen kernels, written into the boot loader's files and
//! removed again, byte for byte. `Machine` + `ShieldRequest` + the loader's menu → [`BootPlan`] →
//! files and a [`BootJournal`] → [`BootStatus`].
//!
//! Imports point down: documents and errors, then lines and GRUB's texts, then parameters and
//! loaders, then plan, write, restore, trial and status. `line`, `grub` and `parameters` are pure;
//! `loaders` only read; `write` and `restore` write, and know no particular loader.
//! The journal of the runtime shield ends with the boot; this one survives it.

mod by_hand;
mod document;
pub mod earlier;
pub mod early;
mod entry_changes;
pub mod error;
mod foreign_words;
pub mod grub;
mod init_files;
mod journal;
mod kernel_file;
mod kernel_modules;
mod kernels;
pub mod kexec;
pub mod line;
pub mod lint;
pub mod loaders;
mod menu_lst;
pub mod parameters;
mod permanent;
pub mod plan;
mod planned_lines;
mod present_files;
mod reachability;
mod refusals;
mod request;
mod requested_words;
mod restore;
pub mod running_kernel;
pub mod running_lint;
mod selection;
pub mod status;
pub mod trial;
mod trial_unit;
mod warnings;
pub mod write;

pub use document::*;
pub use error::BootError;
pub use journal::{JOURNAL, read_journal};
pub use reachability::{goal_of_this_boot, is_reached, uptime_s};
pub use request::{MeasuredRow, UnknownWords};
pub use requested_words::{find_word_fault, names_kernel_parameter};
