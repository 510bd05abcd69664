//! Blocks: what a report consists of, and the media that show them. Each block is written once, for
//! a terminal, a web page, Markdown and SVG. Pure; no file here knows a document.

mod block;
mod charts;
mod clean;
mod html;
mod markdown;
mod svg;
mod terminal;
pub mod words;

pub use block::{
    Card, ColumnKind, LineKind, Picture, Report, ReportBlock, Section, Table, TableCell,
    TableColumn, TableHead, TextLine, TextPainter, TextPart, TextTone,
};
pub use charts::{
    Axis, BarChart, BarRow, Cluster, Core, CpuMap, Curve, CurveChart, Drawing, MapRole, NodeGroup,
    Package, Stroke,
};
pub use html::page;
pub use markdown::markdown;
pub use svg::standalone as picture;
pub use terminal::{CharacterSet, terminal, terminal_blocks, unpainted};
