//! The report: documents → sections of texts, figures, doubts, tables and pictures → a page, a
//! picture, Markdown or lines for a terminal. Each section is written once; what it is written as
//! is decided last. Pure.

pub mod block;
mod html;
mod markdown;
mod material;
mod sections;
mod svg;
mod terminal;
mod words;

pub use block::{Picture, Report, TextTone};
pub use html::page;
pub use markdown::markdown;
pub use material::{
    LabelledDocument, PlanWithOutcome, ReportMaterial, WatchCommand, WatchWithVerdict,
};
pub use sections::report;
pub use svg::alone as picture;
pub use terminal::terminal;
