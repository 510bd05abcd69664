//! The report on several documents: sections with the blocks of each document. Pure.

mod material;
mod sections;

pub use material::{
    LabelledDocument, PlanWithOutcome, ReportMaterial, WatchCommand, WatchWithVerdict,
};
pub use sections::report;
