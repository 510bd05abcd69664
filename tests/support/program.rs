//! The program that tests on recorded machines start: `simulated_program.rs`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where it is. A test that runs alone does not build it, so it must not be older than its sources.
pub fn path() -> PathBuf {
    let own = Path::new(env!("CARGO_BIN_EXE_cpushield"));
    let program = own.with_file_name("examples").join("cpushield");
    let changed = |path: &Path| fs::metadata(path).and_then(|it| it.modified()).ok();
    let sources = fs::read_to_string(program.with_extension("d")).unwrap_or_default();
    let (built, mut sources) = (changed(&program), sources.split_whitespace().skip(1));
    let is_new = built.is_some() && sources.all(|path| changed(Path::new(path)) <= built);
    assert!(is_new, "{} is missing or old: run cargo build --example cpushield", program.display());
    program
}

pub fn command() -> Command {
    Command::new(path())
}
