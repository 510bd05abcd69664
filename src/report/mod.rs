//! Report: documents → text for people. Pure: it reads no machine and prints nothing.

pub mod attempt;
mod machine;
mod plan;
pub mod table;
pub mod verdict;

pub use machine::machine_text;
pub use plan::plan_text;
