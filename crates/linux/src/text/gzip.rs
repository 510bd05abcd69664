//! The gzip format (RFC 1952) of `/proc/config.gz` and of compressed kernels.

use super::TextError;
use miniz_oxide::inflate::decompress_to_vec_with_limit;

/// The maximum size of a kernel configuration, which has some 300 KiB; bounds hostile input.
const BYTES_MAX: usize = 8 << 20;

const FHCRC: u8 = 1 << 1;
const FEXTRA: u8 = 1 << 2;
const FNAME: u8 = 1 << 3;
const FCOMMENT: u8 = 1 << 4;

/// Whether the bytes are a gzip file.
#[must_use]
pub fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}

/// Decompresses a gzip file with one member.
///
/// # Errors
/// The header or the data are damaged, or the contents are larger than any kernel configuration.
pub fn unpack(bytes: &[u8]) -> Result<Vec<u8>, TextError> {
    let data = body(bytes).ok_or_else(|| TextError::new(0, "a gzip header", "other bytes"))?;
    decompress_to_vec_with_limit(data, BYTES_MAX)
        .map_err(|_| TextError::new(0, "deflated data", "other bytes"))
}

/// Decompresses up to `limit` bytes, even of a damaged or longer file; empty if it is not a gzip
/// file.
#[must_use]
pub fn unpack_some(bytes: &[u8], limit: usize) -> Vec<u8> {
    let Some(data) = body(bytes) else { return Vec::new() };
    decompress_to_vec_with_limit(data, limit).unwrap_or_else(|error| error.output)
}

/// The data after the header.
fn body(bytes: &[u8]) -> Option<&[u8]> {
    let (header, mut rest) = bytes.split_at_checked(10)?;
    if !is_gzip(header) || header[2] != 8 {
        return None;
    }
    let flags = header[3];
    if flags & FEXTRA != 0 {
        let (length, after) = rest.split_at_checked(2)?;
        rest = after.get(usize::from(u16::from_le_bytes([length[0], length[1]]))..)?;
    }
    for flag in [FNAME, FCOMMENT] {
        if flags & flag != 0 {
            let end = rest.iter().position(|byte| *byte == 0)?;
            rest = rest.get(end + 1..)?;
        }
    }
    if flags & FHCRC != 0 { rest.get(2..) } else { Some(rest) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `printf 'CONFIG_HZ=250\n' | gzip -9` with a name, as `gzip` stores it.
    const NAMED: &[u8] = &[
        0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 2, 3, b'c', 0, 0x73, 0xf6, 0xf7, 0x73, 0xf3, 0x74, 0x8f,
        0xf7, 0x88, 0xb2, 0x35, 0x32, 0x35, 0xe0, 0x02, 0x00,
    ];

    #[test]
    fn a_named_member_is_decompressed() {
        assert_eq!(unpack(NAMED).unwrap(), b"CONFIG_HZ=250\n");
        assert_eq!(unpack_some(NAMED, 6), b"CONFIG");
        assert_eq!(unpack_some(b"CONFIG", 6), b"");
    }

    #[test]
    fn damaged_data_is_an_error() {
        assert!(unpack(b"").is_err());
        assert!(unpack(&NAMED[..20]).is_err());
        assert!(unpack(b"CONFIG_HZ=250").is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(flags in any::<u8>(), tail in prop::collection::vec(any::<u8>(), 0..60)) {
            let mut bytes = vec![0x1f, 0x8b, 8, flags];
            bytes.extend(tail);
            let _ = unpack(&bytes);
        }
    }
}
