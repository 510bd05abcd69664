//! The report: documents → sections with texts, figures, doubts, tables and charts → a web page, an
//! SVG, Markdown or lines for a terminal. Each section is written once, for every output. Pure.

pub mod block;
mod clean;
mod html;
mod markdown;
mod material;
mod sections;
mod svg;
mod terminal;
pub mod words;

pub use block::{Picture, Report, ReportBlock, TextPainter, TextTone};
pub use html::page;
pub use markdown::markdown;
pub use material::{
    LabelledDocument, PlanWithOutcome, ReportMaterial, WatchCommand, WatchWithVerdict,
};
pub use sections::report;
pub use svg::standalone as picture;
pub use terminal::{CharacterSet, terminal, terminal_blocks};
