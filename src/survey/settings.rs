//! The files that tunables need. A `*` in their paths matches any one name in a directory.

use super::TunableReading;
use super::reader::SurveyReader;
use crate::glob;
use std::collections::BTreeMap;

/// Reads all of them. Paths without a `*` are always in the result; a `*` adds only files that
/// exist.
pub(super) fn read_settings(r: &SurveyReader, wanted: &[&str]) -> BTreeMap<String, TunableReading> {
    let mut found = BTreeMap::new();
    for pattern in wanted {
        let fixed = !glob::is_pattern(pattern);
        for path in expand(r, pattern) {
            if found.contains_key(&path) {
                continue;
            }
            let reading = r.cached(&path).unwrap_or_else(|| read_setting(r, &path));
            if fixed || reading != TunableReading::Absent {
                found.insert(path, reading);
            }
        }
    }
    found
}

fn read_setting(r: &SurveyReader, path: &str) -> TunableReading {
    match r.host.read_line(path) {
        Ok(text) => TunableReading::Value(text),
        Err(error) if error.is_absent() => TunableReading::Absent,
        Err(error) => TunableReading::Unreadable(error.reason()),
    }
}

/// The paths that match a pattern.
fn expand(r: &SurveyReader, pattern: &str) -> Vec<String> {
    let mut paths = vec![String::new()];
    for part in pattern.trim_start_matches('/').split('/') {
        if !glob::is_pattern(part) {
            for path in &mut paths {
                path.push('/');
                path.push_str(part);
            }
            continue;
        }
        let mut matching = Vec::new();
        for dir in &paths {
            for name in r.names(dir) {
                if glob::matches(part, &name) {
                    matching.push(format!("{dir}/{name}"));
                }
            }
        }
        paths = matching;
    }
    paths
}
