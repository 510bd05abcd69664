//! Reading files of the machine that need not exist.

use super::Host;
use crate::error::{Result, present};

impl Host {
    /// Reads a whole file; `None` when it does not exist.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn read_bytes_if_present(&self, path: &str) -> Result<Option<Vec<u8>>> {
        present(self.read_bytes(path))
    }

    /// Reads a whole file as text (bytes that are not UTF-8 are replaced); `None` when it does not
    /// exist.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn read_if_present(&self, path: &str) -> Result<Option<String>> {
        present(self.read(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn an_absent_file_is_none_and_any_other_error_stays_one() {
        let dir = std::env::temp_dir().join(format!("cpushield-optional-{}", std::process::id()));
        fs::create_dir_all(dir.join("etc")).unwrap();
        fs::write(dir.join("etc/file"), "text\n").unwrap();
        let host = Host::recorded(&dir).unwrap();
        assert_eq!(host.read_if_present("/etc/file").unwrap().as_deref(), Some("text\n"));
        assert_eq!(host.read_bytes_if_present("/etc/file").unwrap(), Some(b"text\n".to_vec()));
        assert_eq!(host.read_if_present("/etc/none").unwrap(), None);
        assert_eq!(host.read_bytes_if_present("/etc/none").unwrap(), None);
        assert!(host.read_if_present("/etc").is_err());
        fs::remove_dir_all(dir).unwrap();
    }
}
