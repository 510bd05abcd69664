//! Live: readings of the machine, one after the other → a [`LiveFrame`] each, and its view on a
//! terminal. Pure: who reads is `cli/watch.rs`, who owns the terminal is [`crate::screen`].

mod model;
mod view;

pub use model::{CpuLine, CpuRole, LastSeen, LiveFrame, LiveModel, LiveReading, LiveSetup, SCHEMA};
pub use view::{ViewOptions, draw, lines_of};
