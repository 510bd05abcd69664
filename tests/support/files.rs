//! The files below a directory.

use std::fs;
use std::path::{Path, PathBuf};

/// Each of them, and the links, which are not followed.
pub fn files_below(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(Result::unwrap);
    let below = |entry: fs::DirEntry| match entry.file_type().unwrap().is_dir() {
        true => files_below(&entry.path()),
        false => vec![entry.path()],
    };
    entries.flat_map(below).collect()
}
