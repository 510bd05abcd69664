//! What tests of experiments and of searches on a simulated machine share: the directory of the
//! journal, and how the program is interrupted.

use cpushield::experiment::journal::ExperimentStore;
use cpushield_linux::Error;
use std::path::PathBuf;

/// A state directory that is removed at the end.
pub struct ScratchStore(pub PathBuf);

impl ScratchStore {
    /// An empty directory for this test.
    pub fn new(name: &str) -> ScratchStore {
        // In memory if possible: everything is synced to the disk, thousands of times.
        let memory = PathBuf::from("/dev/shm");
        let base = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let dir = base.join(format!("cpushield-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        ScratchStore(dir)
    }

    pub fn store(&self) -> ExperimentStore {
        ExperimentStore::new(&self.0)
    }
}

impl Drop for ScratchStore {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Why the program ended in the middle.
#[derive(Debug)]
pub enum Dead {
    /// A kill or a power failure.
    Cut,
    /// A write failed.
    Disk,
}

impl From<Error> for Dead {
    fn from(_: Error) -> Dead {
        Dead::Disk
    }
}
