//! The logs of guests that passed. `vm test --resume` reads them, so a run of all guests, which
//! takes hours, continues after an interruption.
//!
//! A pass counts only for the same program under test, scenario and guest line, and for the same
//! files that the guest gets.

use super::scenario::ScenarioGuest;
use super::{VmResult, places};
use sha2::{Digest, Sha256};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What makes and fills guests. The other directories of `vm/` are no part of a scenario.
const GUEST_FILES: [&str; 7] =
    ["guest", "tools", "build", "common.sh", "grub-disk", "efi-disk", "init-roots"];

#[derive(Debug)]
pub struct PassedGuests {
    dir: PathBuf,
    /// The digest of the program and of what all guests have in common.
    common: Sha256,
}

impl PassedGuests {
    /// The passes for this program; `None` for scenarios that need none.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn of(binary: Option<&Path>) -> VmResult<PassedGuests> {
        let mut common = Sha256::new();
        if let Some(binary) = binary.map(Path::to_owned).or_else(places::binary) {
            add_tree(&mut common, &binary)?;
        }
        for name in GUEST_FILES {
            add_tree(&mut common, &places::vm(name))?;
        }
        let dir = places::cache("passed");
        fs::create_dir_all(&dir)?;
        Ok(PassedGuests { dir, common })
    }

    /// Where the log of this guest's pass lies, if it passed.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn log(&self, script: &Path, guest: &ScenarioGuest) -> VmResult<PathBuf> {
        let mut digest = self.common.clone();
        let scenario = fs::read_to_string(script)?;
        // Its other guests do not matter.
        for line in scenario.lines().filter(|line| !line.starts_with("# guest")) {
            digest.update(line);
            digest.update("\n");
        }
        digest.update(&guest.words);
        if scenario.contains("/host/docs") {
            add_tree(&mut digest, &places::tree().join("docs"))?;
        }
        if guest.line.options.packages {
            add_tree(&mut digest, &places::target().join("packages"))?;
        }
        let name: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(self.dir.join(name + ".log"))
    }
}

/// Adds a file, or the names and contents of all files of a directory. One that is absent adds
/// nothing.
fn add_tree(digest: &mut Sha256, path: &Path) -> io::Result<()> {
    if path.is_dir() {
        let entries = fs::read_dir(path)?.map(|entry| Ok(entry?.path()));
        let mut paths = entries.collect::<io::Result<Vec<PathBuf>>>()?;
        paths.sort();
        for path in paths {
            digest.update(path.file_name().unwrap_or_default().as_encoded_bytes());
            add_tree(digest, &path)?;
        }
    } else if path.exists() {
        let content = fs::read(path)?;
        digest.update(content.len().to_le_bytes());
        digest.update(content);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::scenario::Scenario;

    #[test]
    fn a_pass_counts_only_for_the_same_program_and_guest() {
        let programs = ["Cargo.toml", "README.md"].map(|name| places::tree().join(name));
        let guests = Scenario::find("shield").unwrap();
        let other = Scenario::find("try").unwrap().script;
        let log = |program: &Path, script: &Path, guest: &ScenarioGuest| {
            PassedGuests::of(Some(program)).unwrap().log(script, guest).unwrap()
        };
        let first = log(&programs[0], &guests.script, &guests.guests[0]);
        assert_eq!(log(&programs[0], &guests.script, &guests.guests[0]), first);
        assert_ne!(log(&programs[1], &guests.script, &guests.guests[0]), first);
        assert_ne!(log(&programs[0], &guests.script, &guests.guests[1]), first);
        assert_ne!(log(&programs[0], &other, &guests.guests[0]), first);
    }
}
