//! Reading files of the machine that must be regular.

use super::Host;
use crate::error::{Error, Operation, Result};

impl Host {
    /// Reads a text file of the machine that must be regular, such as the configuration of another
    /// program. Symbolic links to such a file are followed. Bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// The file system's error, or it is not a regular file.
    pub fn read_regular(&self, path: &str) -> Result<String> {
        let bytes = self.finish_read(path, self.read_regular_file(path))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn read_regular_file(&self, path: &str) -> Result<Vec<u8>> {
        self.recorded_error(Operation::Read, path)?;
        self.files.read_regular(path).map_err(|error| Error::open(Operation::Read, path, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType as RawType, Mode, mknodat};
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_fifo_is_an_error_and_a_link_to_a_regular_file_is_read() {
        let dir = std::env::temp_dir().join(format!("cpushield-regular-{}", std::process::id()));
        fs::create_dir_all(dir.join("etc")).unwrap();
        fs::write(dir.join("etc/file"), "text\n").unwrap();
        symlink("file", dir.join("etc/link")).unwrap();
        mknodat(CWD, dir.join("etc/fifo"), RawType::Fifo, Mode::RUSR, 0).unwrap();
        symlink("fifo", dir.join("etc/to-fifo")).unwrap();
        let host = Host::recorded(&dir).unwrap();
        let read = |path: &str| host.read_regular(path).map_err(|error| error.reason());
        for path in ["/etc/file", "/etc/link"] {
            assert_eq!(read(path), Ok("text\n".to_owned()), "{path}");
        }
        for (path, kind) in
            [("/etc/fifo", "a FIFO"), ("/etc/to-fifo", "a FIFO"), ("/etc", "a directory")]
        {
            assert_eq!(read(path), Err(format!("it is {kind}, not a regular file")), "{path}");
        }
        assert!(host.read_regular("/etc/none").unwrap_err().is_absent());
        fs::remove_dir_all(dir).unwrap();
        let device = Host::live().read_regular("/dev/zero").unwrap_err().reason();
        assert_eq!(device, "it is a device, not a regular file");
    }
}
