//! [`CommandOutput`]: what a program returned. Plain data.

/// The result of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandOutput {
    /// Its exit status; `None` if a signal ended it.
    pub status: Option<i32>,
    /// Standard output.
    pub out: Vec<u8>,
    /// Standard error, as text.
    pub err: String,
}
