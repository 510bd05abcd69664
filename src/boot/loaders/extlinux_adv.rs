//! The auxiliary data vector of EXTLINUX in the last sectors of `ldlinux.sys`: the label that boots
//! once. Pure; `extlinux --once` writes it.
//!
//! Source: libinstaller/setadv.c and com32/elflink/ldlinux/ldlinux.c (syslinux 6.04), which clears
//! it before it boots the label.

/// The file ends with two copies of this many bytes.
const SIZE: usize = 512;
const BEGIN: [u8; 4] = 0x5a2d_2fa5_u32.to_le_bytes();
const END: [u8; 4] = 0xdd28_bf64_u32.to_le_bytes();
/// The sum of all 4-byte words between the marks, including the checksum.
const SUM: u32 = 0xa304_1767;
/// The tag of the label that boots once.
const ONCE: u8 = 1;

/// The label that boots once, from the bytes of `ldlinux.sys`; `None` without one or a vector.
pub(super) fn once(bytes: &[u8]) -> Option<String> {
    let from = bytes.len().checked_sub(2 * SIZE)?;
    let mut copies = bytes.get(from..)?.chunks_exact(SIZE);
    let mut data = copies.find_map(check_copy)?;
    while let [tag, length, rest @ ..] = data {
        let value = rest.get(..usize::from(*length))?;
        match *tag {
            0 => return None,
            ONCE => return String::from_utf8(value.to_vec()).ok(),
            _ => data = rest.get(value.len()..)?,
        }
    }
    None
}

/// The data of a valid copy.
fn check_copy(copy: &[u8]) -> Option<&[u8]> {
    let inner = copy.strip_prefix(&BEGIN)?.strip_suffix(&END)?;
    let words = inner.chunks_exact(4);
    let sum = words.fold(0_u32, |sum, word| {
        let word = <[u8; 4]>::try_from(word).map_or(0, u32::from_le_bytes);
        sum.wrapping_add(word)
    });
    (sum == SUM).then(|| inner.get(4..)).flatten()
}

/// The vector as EXTLINUX writes it, for tests.
#[cfg(test)]
pub(super) fn vector(once: &str) -> Vec<u8> {
    let mut data = vec![0; SIZE - 12];
    if !once.is_empty() {
        data[0..2].copy_from_slice(&[ONCE, u8::try_from(once.len()).unwrap()]);
        data[2..2 + once.len()].copy_from_slice(once.as_bytes());
    }
    let sum = data
        .chunks(4)
        .fold(0_u32, |sum, word| sum.wrapping_add(u32::from_le_bytes(word.try_into().unwrap())));
    let copy = [&BEGIN[..], &SUM.wrapping_sub(sum).to_le_bytes(), &data, &END].concat();
    [copy.clone(), copy].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Written by `extlinux --once=cpushield-l0` and `--clear-once`, 6.04.
    #[test]
    fn a_vector_written_by_extlinux_is_read() {
        let mut real = vec![0_u8; SIZE];
        real[..4].copy_from_slice(&BEGIN);
        real[4..8].copy_from_slice(&[0x20, 0xfb, 0xd3, 0x9b]);
        real[8..22].copy_from_slice(b"\x01\x0ccpushield-l0");
        real[SIZE - 4..].copy_from_slice(&END);
        let file = [vec![7; 99], real.clone(), real].concat();
        assert_eq!(once(&file).as_deref(), Some("cpushield-l0"));
        assert!(file.ends_with(&vector("cpushield-l0")));
        let mut cleared = vector("");
        assert_eq!(cleared[4..8], [0x67, 0x17, 0x04, 0xa3]);
        assert_eq!(once(&cleared), None);
        // When the first copy is torn, the second one is used, as in the loader.
        cleared[4] ^= 1;
        let torn = [&cleared[..SIZE], &vector("a")[SIZE..]].concat();
        assert_eq!(once(&torn).as_deref(), Some("a"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..1100)) {
            let _ = once(&bytes);
            let mut whole = vector("x");
            whole.splice(10..10 + bytes.len().min(90), bytes.iter().take(90).copied());
            let _ = once(&whole);
        }
    }
}
