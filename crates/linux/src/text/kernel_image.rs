//! What the file of a kernel says of itself before it is booted.
//!
//! Source: Documentation/arch/x86/boot.rst (6.12), fields `header` and `kernel_version`.

/// The version and build of an x86 `bzImage`, as `uname -r` and `-v` would tell them:
/// `6.12.9-rt-amd64 (…) #1 SMP PREEMPT_RT …`; `None` for anything else.
#[must_use]
pub fn banner(image: &[u8]) -> Option<&str> {
    if image.get(0x202..0x206)? != b"HdrS" {
        return None;
    }
    let [low, high] = *image.get(0x20e..0x210)? else { return None };
    let at = match u16::from_le_bytes([low, high]) {
        0 => return None,
        offset => 0x200 + usize::from(offset),
    };
    let text = image.get(at..)?.split(|byte| *byte == 0).next()?;
    std::str::from_utf8(text).ok().filter(|text| text.len() < 512)
}

/// Whether a banner is that of a PREEMPT_RT kernel (init/version-timestamp.c; patches before 5.3
/// wrote `PREEMPT RT`).
#[must_use]
pub fn is_realtime(banner: &str) -> bool {
    banner.contains(" PREEMPT_RT ") || banner.contains(" PREEMPT RT ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn image(text: &str) -> Vec<u8> {
        let mut image = vec![0; 0x4300 + 0x200];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x20e..0x210].copy_from_slice(&0x4300u16.to_le_bytes());
        image.extend(text.bytes().chain([0, 1]));
        image
    }

    #[test]
    fn the_banner_of_an_image_is_read_and_says_whether_it_is_realtime() {
        // As Debian's 6.12 have it, at this offset.
        let rt = "6.12.107+deb13-rt-amd64 (debian) #1 SMP PREEMPT_RT Debian 6.12.107-1";
        let other = "6.12.107+deb13-amd64 (debian) #1 SMP PREEMPT_DYNAMIC Debian 6.12.107-1";
        assert_eq!(banner(&image(rt)), Some(rt));
        assert!(is_realtime(rt) && !is_realtime(other));
        assert_eq!(banner(b"\x7fELF"), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..0x300)) {
            let _ = banner(&bytes);
            let _ = banner(&[&image("")[..0x20e], &bytes].concat());
        }
    }
}
