//! Chores: generated documentation, man pages and completions.

fn main() {}
