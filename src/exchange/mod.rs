//! Exchange with other tools. What another tool has set up becomes a policy with the same CPUs
//! ([`make_policy`]). What has no equivalent on the other side is a comment in the text. Pure.

mod boot_words;
mod imported_policy;
mod known_settings;

pub use imported_policy::{ImportRefusal, ImportedPolicy, ImportedShield, make_policy};

/// A text for a comment: names and values of other tools may have any character.
fn comment_text(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
