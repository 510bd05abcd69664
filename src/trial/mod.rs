//! Trial: a matrix of configurations and measurements → [`Trial`]: the same measurements under each
//! configuration, in alternating order, repeated, through reboots where a configuration needs them.

mod document;
mod summary;

pub use document::*;
pub use summary::run;
