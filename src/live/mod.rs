//! Live: readings of the machine, one after the other → a [`Frame`] each, and its view on a
//! terminal. Pure: who reads is `cli/watch.rs`, who owns the terminal is [`crate::screen`].

mod model;
mod view;

pub use model::{CpuLine, Frame, Last, Model, Reading, Role, SCHEMA, Scene};
pub use view::{Look, draw, lines_of};
