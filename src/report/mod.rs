//! Report: documents → blocks for users. Pure: it does not read the machine and prints nothing.

mod applied;
pub mod blocks;
mod boot;
pub mod compare;
pub mod experiment;
mod fix_report;
pub mod free_cpus;
pub mod latency;
mod limits;
mod lint;
pub mod linuxcnc;
pub mod machine;
pub mod moment;
pub mod option_search;
pub mod page;
pub mod plan;
mod price;
pub mod table;
mod try_report;
pub mod verdict;

pub use applied::{AppliedPolicyShield, applied_blocks, applied_policy_blocks, undone_blocks};
pub use boot::{
    boot_plan_blocks, boot_status_blocks, boot_trial_blocks, boot_undone_blocks,
    boot_written_blocks, enabled_line,
};
pub use lint::command_line_blocks;
