//! The files that tunables ask for. A `*` in their paths stands for any one name in a directory.

use super::TunableReading;
use super::reader::SurveyReader;
use std::collections::BTreeMap;

/// Reads them all. Paths without a `*` are always in the answer; those with one only for files
/// that are there.
pub(super) fn settings(r: &SurveyReader, wanted: &[&str]) -> BTreeMap<String, TunableReading> {
    let mut found = BTreeMap::new();
    for pattern in wanted {
        let fixed = !pattern.contains('*');
        for path in expand(r, pattern) {
            if found.contains_key(&path) {
                continue;
            }
            let line = r.kept(&path).map_or_else(|| r.host.read_line(&path), Ok);
            let reading = match line {
                Ok(text) => TunableReading::Value(text),
                Err(error) if error.is_absent() => TunableReading::Absent,
                Err(error) => TunableReading::Unreadable(error.reason()),
            };
            if fixed || reading != TunableReading::Absent {
                found.insert(path, reading);
            }
        }
    }
    found
}

/// The paths that a pattern stands for.
fn expand(r: &SurveyReader, pattern: &str) -> Vec<String> {
    let mut paths = vec![String::new()];
    for part in pattern.trim_start_matches('/').split('/') {
        let Some((before, after)) = part.split_once('*') else {
            for path in &mut paths {
                path.push('/');
                path.push_str(part);
            }
            continue;
        };
        let fits = |name: &String| {
            name.len() >= before.len() + after.len()
                && name.starts_with(before)
                && name.ends_with(after)
        };
        paths = paths
            .iter()
            .flat_map(|dir| {
                let names = r.names(dir).into_iter().filter(fits);
                names.map(|name| format!("{dir}/{name}")).collect::<Vec<_>>()
            })
            .collect();
    }
    paths
}
