//! Suggestions for errors in a matrix file. Pure.

use crate::cpu_selection::SELECTION_HINT;
use crate::registry::nearest;
use cpushield_linux::CpuSet;
use std::ops::Range;

/// The keys of the file, of a row and of a column.
const ROOT_KEYS: &[&str] = &[
    "name", "cpus", "repeats", "boots", "time", "warmup", "workload", "siblings", "row", "column",
];
const ROW_KEYS: &[&str] = &["name", "cpus", "shield", "tunables", "boot", "allow_unknown"];
const COLUMN_KEYS: &[&str] = &["name", "instrument", "threads", "other", "over", "load"];

/// The key that is most similar to the one in this place; `None` if it is a key, or if there is
/// none like it.
pub(super) fn suggest_key(text: &str, span: Option<Range<usize>>) -> Option<String> {
    let key = text.get(span?)?.trim_matches(['"', '\'']);
    let table: toml::Table = text.parse().ok()?;
    let tables = |name: &str| -> Vec<&toml::Table> {
        let all = table.get(name).and_then(toml::Value::as_array);
        all.into_iter().flatten().filter_map(toml::Value::as_table).collect()
    };
    let (rows, columns) = (tables("row"), tables("column"));
    let known = if table.contains_key(key) {
        ROOT_KEYS
    } else if rows.iter().any(|row| row.contains_key(key)) {
        ROW_KEYS
    } else if columns.iter().any(|column| column.contains_key(key)) {
        COLUMN_KEYS
    } else {
        return None;
    };
    if known.contains(&key) {
        return None;
    }
    if key == "parameters" && known == ROW_KEYS {
        // A policy has its kernel parameters under this key.
        return Some("boot".to_owned());
    }
    nearest(key, known).into_iter().next()
}

/// What to write instead of a kernel parameter in the place of a tunable.
pub(super) fn advise_on_parameter(name: &str) -> String {
    format!("{name} is a kernel parameter, not a tunable; expected boot = [{name:?}] in the row")
}

/// What to write instead of a text that is not a CPU list.
pub(super) fn advise_on_list(text: &str) -> String {
    match CpuSet::parse_mask(text).ok().filter(|_| text.starts_with("0x")) {
        Some(cpus) => format!("it is a mask, of the list \"{cpus}\""),
        None => SELECTION_HINT.to_owned(),
    }
}
