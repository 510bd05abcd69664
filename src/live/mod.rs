//! Live: consecutive readings of the machine → a [`LiveFrame`] each, and its view on a terminal.
//! Pure: `workflow/live_view.rs` reads the machine, and [`crate::screen`] owns the terminal.
//!
//! Every tone comes with a symbol of the same meaning, so the view also works without colours.
//! See `model.rs`.

mod model;
mod view;

pub use model::{CpuLine, CpuRole, LastSeen, LiveFrame, LiveModel, LiveReading, LiveSetup, SCHEMA};
pub use view::{ViewOptions, plain_lines, screen_lines};
