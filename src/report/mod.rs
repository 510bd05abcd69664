//! Report: documents → text for users. Pure: it does not read the machine and prints nothing.

mod applied;
pub mod blocks;
mod boot;
pub mod compare;
pub mod experiment;
pub mod fix_report;
pub mod latency;
mod limits;
pub mod linuxcnc;
pub mod machine;
pub mod moment;
pub mod page;
mod plan;
pub mod price;
pub mod table;
pub mod try_report;
pub mod verdict;

pub use applied::{applied_text, undone_text};
pub use boot::{
    boot_plan_text, boot_status_text, boot_trial_text, boot_undone_text, boot_written_text,
    enabled_text,
};
pub use plan::{PlanDetail, plan_text};
