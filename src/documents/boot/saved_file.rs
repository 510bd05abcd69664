//! [`SavedFile`]: a file of the boot loader as it was before it was written. Plain data.

use cpushield_linux::FileAttributes;
use serde::{Deserialize, Serialize};

/// A file that is written, as it was before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedFile {
    /// The file, with links resolved.
    pub path: String,
    /// Its bytes; `None`: it did not exist.
    pub original: Option<FileBytes>,
    /// Its permission bits.
    pub mode: u32,
    /// Its owner and group.
    pub owner: Option<(u32, u32)>,
    /// The bytes that we wrote; `None` while unknown.
    pub left: Option<FileBytes>,
}

/// Bytes in JSON, as text if they are UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileBytes {
    /// UTF-8.
    Text(String),
    /// Two hexadecimal digits for each byte.
    Hex(String),
}

impl FileBytes {
    /// Wraps the bytes for JSON.
    #[must_use]
    pub fn new(bytes: &[u8]) -> FileBytes {
        match std::str::from_utf8(bytes) {
            Ok(text) => FileBytes::Text(text.to_owned()),
            Err(_) => FileBytes::Hex(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        }
    }

    /// The bytes; `None` when the digits are invalid.
    #[must_use]
    pub fn get(&self) -> Option<Vec<u8>> {
        match self {
            FileBytes::Text(text) => Some(text.clone().into_bytes()),
            FileBytes::Hex(digits) => {
                let pairs = digits.as_bytes().chunks(2);
                pairs
                    .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
                    .collect()
            }
        }
    }
}

impl SavedFile {
    /// Its content before the apply; `None`: it did not exist.
    #[must_use]
    pub fn before(&self) -> Option<Vec<u8>> {
        self.original.as_ref().and_then(FileBytes::get)
    }

    /// Its permissions and owner.
    #[must_use]
    pub fn access(&self) -> FileAttributes {
        FileAttributes { mode: self.mode, owner: self.owner }
    }
}
