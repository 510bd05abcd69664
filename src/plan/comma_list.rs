//! [`comma_list`]: items as one text, for messages. Pure.

use std::fmt;

/// The items separated by commas, or `none`.
pub(super) fn comma_list<T: fmt::Display>(items: &[T]) -> String {
    if items.is_empty() {
        return "none".to_owned();
    }
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
