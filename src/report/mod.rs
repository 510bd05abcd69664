//! Report: documents → text for people. Pure: it reads no machine and prints nothing.

pub mod attempt;
pub mod table;
