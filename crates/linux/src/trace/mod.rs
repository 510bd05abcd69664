//! The kernel's trace: instances in tracefs, and the pages of its ring buffer.

pub mod page_buffer;
pub mod ring_buffer;
pub mod tracefs;
