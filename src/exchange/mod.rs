//! Exchange with other tools. What another tool has set up becomes a policy with the same CPUs
//! ([`make_policy`]), and a plan becomes a file for another tool ([`tuned_profile`],
//! [`service_drop_in`]). What has no equivalent on the other side is a comment in the text. Pure.
//! See `imported_policy.rs` and `profile.rs`.

mod boot_words;
mod drop_in;
mod imported_policy;
mod known_settings;
mod profile;

pub use drop_in::{DropInRefusal, service_drop_in};
pub use imported_policy::{ImportRefusal, ImportedPolicy, ImportedShield, make_policy};
pub use profile::tuned_profile;

/// A text for a comment: names and values of other tools may have any character.
fn comment_text(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
