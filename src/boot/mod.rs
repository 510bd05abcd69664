//! Boot: kernel parameters for the chosen kernels, written into the boot loader's files and
//! removed again, byte for byte. `Machine` + `ShieldRequest` + the loader's menu → [`BootPlan`] →
//! files and a [`BootJournal`] → [`BootStatus`].
//!
//! `line`, `grub`, `parameters` and `lint` are pure; `loaders` only read; `write` and `restore`
//! write, and know no particular loader. The journal of the runtime shield ends with the boot; this
//! one survives it. See `plan.rs` and `write.rs`.
//!
//! `write` replaces whole files. What GRUB's own program generates is compared with the old file
//! first: outside the section of cpushield, every byte must be equal. A loader itself sets only
//! what boots an entry once, for a trial: `next_entry` of GRUB's environment, or `extlinux --once`.
//! `src/workflow/conclude.rs` concludes a trial. It runs `verify` on the active shield, or watches
//! as `try` does if there is none. `trial.rs` makes the entry permanent only if it finds no reason
//! against it. `early.rs` writes the file that runs `apply` at each boot; undo leaves that file.
//!
//! The files of `src/boot/` import downward only:
//!
//! 1. `error.rs` has the errors, and `journal.rs` the files of the state directory. The documents
//!    are in `src/documents/boot/`.
//! 2. `line.rs` adds words to a command line. `grub/` parses GRUB's texts, `kernel_file.rs` finds
//!    the version of a kernel file, `kernel_modules.rs` reads the modules of a kernel, and
//!    `running_kernel.rs` reads what the running kernel shows, `parameter_effect.rs` whether a word
//!    is in force. `parameters/` is the catalogue of
//!    parameters, in the slice `PARAMETERS`, and `switches.rs` looks names of parameters and
//!    tunables up.
//! 3. `loaders/boot_loader.rs` has the traits of a loader, and `loaders/mod.rs` the slice
//!    `LOADERS`. A loader is one file. `cmdline_files.rs`, `grub_environment.rs` and
//!    `systemd_boot.rs` have what several of them share. No loader imports another one, except
//!    `sources.rs`. A loader reads its menu and plans the files to write. `kernel_release.rs` finds
//!    the release of each kernel. `sources.rs` has the programs that make boot entries, with their
//!    files (`source_file.rs`, `image_makers.rs`), and `menu_lst.rs` reads a `menu.lst`.
//! 4. `lint/` (pure) finds what is wrong with the running kernel's command line or a planned one,
//!    and `running_lint.rs` adds the kernel's messages. `foreign_words.rs` finds parameters that
//!    other programs have set.
//! 5. `init_files.rs` has the units and scripts of `enable`, `trial_unit.rs` the units of a trial.
//!    `own_unit.rs` removes units of a trial or an experiment, and `reachability.rs` tells whether
//!    a user can log in.
//! 6. `plan.rs` chooses kernels and parameters for a request (`request.rs`, `kernels.rs`,
//!    `cpu_choice.rs`, `selection.rs`, `requested_words.rs`, `planned_lines.rs`, `warnings.rs`,
//!    `planned_kernel.rs`, `by_hand.rs`), and `entry_changes.rs` finds what that does to each entry
//!    of the menu.
//!    `restore.rs`, `earlier.rs` (an apply whose words the next one replaces), `present_files.rs`,
//!    `write_mode.rs`, `written.rs` and `kexec.rs` come before `write.rs`. `trial.rs` uses
//!    them. `status.rs` and `early.rs` stand alone, and `at_every_boot.rs` asks the latter.

mod assigned_words;
mod at_every_boot;
mod by_hand;
mod cpu_choice;
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
pub mod own_unit;
pub mod parameter_effect;
pub mod parameters;
pub mod plan;
mod planned_kernel;
mod planned_lines;
mod present_files;
mod reachability;
mod refusals;
mod request;
mod requested_words;
mod restore;
mod running_kernel;
pub mod running_lint;
mod selection;
pub mod status;
pub mod switches;
pub mod trial;
mod trial_unit;
mod warnings;
pub mod write;
mod write_mode;
mod written;

pub use crate::documents::boot::*;
pub use at_every_boot::read_at_every_boot;
pub use error::BootError;
pub use journal::{JOURNAL, read_journal};
pub use parameters::names_kernel_parameter;
pub use parameters::offered_names;
pub use reachability::{goal_of_this_boot, is_reached, uptime_s};
pub use request::{GivenWords, MeasuredRow, UnknownWords, WordSource};
pub use requested_words::find_word_fault;
