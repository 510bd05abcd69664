//! Report: documents → blocks for users. Pure: it does not read the machine and prints nothing.
//!
//! A document becomes blocks once: lines with tones, tables, doubts, charts. `blocks/` renders them
//! for terminals, HTML, Markdown and SVG, and knows no document. `page/sections/` has the sections
//! of a page, most of which compare several documents. `status.rs` is a small example. Of the
//! stages, it calls only a few pure functions, such as the lint of a command line.

mod applied;
pub mod blocks;
mod boot;
pub mod compare;
mod cpu_sets;
mod every_boot;
pub mod experiment;
mod fix_report;
pub mod free_cpus;
mod isolated_now;
pub mod latency;
mod limits;
mod lint;
pub mod linuxcnc;
pub mod machine;
pub mod moment;
mod moved;
pub mod option_search;
pub mod page;
pub mod plan;
mod price;
mod status;
pub mod table;
mod try_report;
pub mod verdict;

pub use applied::{applied_blocks, applied_policy_blocks, script_blocks};
pub use boot::{
    boot_plan_blocks, boot_recipe_blocks, boot_status_blocks, boot_trial_blocks,
    boot_undone_blocks, boot_written_blocks,
};
pub use cpu_sets::cpu_set_blocks;
pub use every_boot::{disabled_blocks, enabled_blocks, enabled_policy_blocks, undo_blocks};
pub use lint::command_line_blocks;
pub use moved::moved_blocks;
pub use status::{StatusAudience, status_blocks};
