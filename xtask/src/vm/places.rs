//! Where the guests' files lie: the directory `vm/` of the tree, the cache, and the build.

use super::VmResult;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the project's tree.
pub fn tree() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// A file of `vm/`.
pub fn vm(path: &str) -> PathBuf {
    tree().join("vm").join(path)
}

/// A file of the cache: `$CPUSHIELD_CACHE`, otherwise below the user's cache directory. The same
/// rule stands in `vm/common.sh`.
pub fn cache(path: &str) -> PathBuf {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let root = set("CPUSHIELD_CACHE").unwrap_or_else(|| {
        let home = || set("HOME").unwrap_or_default().join(".cache");
        set("XDG_CACHE_HOME").unwrap_or_else(home).join("cpushield/vm")
    });
    root.join(path)
}

/// The directory of the build.
pub fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| tree().join("target"), PathBuf::from)
}

/// The program under test: `$CPUSHIELD_BINARY`, otherwise the newest static build, if there is one.
pub fn binary() -> Option<PathBuf> {
    env::var_os("CPUSHIELD_BINARY").map(PathBuf::from).or_else(newest_build)
}

fn newest_build() -> Option<PathBuf> {
    let modified = |path: &PathBuf| path.metadata().and_then(|data| data.modified()).ok();
    ["release", "debug"]
        .map(|profile| target().join("x86_64-unknown-linux-musl").join(profile).join("cpushield"))
        .into_iter()
        .filter(|path| path.exists())
        .max_by_key(modified)
}

/// Runs a script of `vm/` and waits for it. The script finds this program in `CPUSHIELD_XTASK`.
pub fn run_script(name: &str) -> VmResult<()> {
    let status = Command::new(vm(name)).env("CPUSHIELD_XTASK", env::current_exe()?).status()?;
    if status.success() { Ok(()) } else { Err(format!("vm/{name} failed: {status}").into()) }
}
