//! The gzip format (RFC 1952) of `/proc/config.gz` and of compressed kernels.

use super::TextError;
use flate2::bufread::GzDecoder;
use std::io::Read;

/// The maximum size of a kernel configuration, which has some 300 KiB; bounds hostile input.
const BYTES_MAX: u64 = 8 << 20;

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
    let mut unpacked = Vec::new();
    match GzDecoder::new(bytes).take(BYTES_MAX + 1).read_to_end(&mut unpacked) {
        Ok(count) if count as u64 <= BYTES_MAX => Ok(unpacked),
        _ => Err(TextError::new(0, "a gzip file", "other bytes")),
    }
}

/// Decompresses up to `limit` bytes, even of a damaged or longer file; empty if it is not a gzip
/// file.
#[must_use]
pub fn unpack_some(bytes: &[u8], limit: u64) -> Vec<u8> {
    let mut unpacked = Vec::new();
    // What was decompressed before an error remains in the vector.
    let _ = GzDecoder::new(bytes).take(limit).read_to_end(&mut unpacked);
    unpacked
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `printf 'CONFIG_HZ=250\n' | gzip -9` with a name, as `gzip` stores it.
    const NAMED: &[u8] = &[
        0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 2, 3, b'c', 0, 0x73, 0xf6, 0xf7, 0x73, 0xf3, 0x74, 0x8f,
        0xf7, 0x88, 0xb2, 0x35, 0x32, 0x35, 0xe0, 0x02, 0x00, 0xfb, 0x5f, 0x3a, 0x01, 0x0e, 0x00,
        0x00, 0x00,
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
        let mut wrong_sum = NAMED.to_vec();
        wrong_sum[28] ^= 1;
        assert!(unpack(&wrong_sum).is_err());
        assert_eq!(unpack_some(&wrong_sum, 100), b"CONFIG_HZ=250\n");
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
