//! Reads the version of a kernel from its file, before it is booted.
//!
//! Sources: Documentation/arch/x86/boot.rst (6.12), fields `header` and `kernel_version`;
//! `linux_banner` of init/version-timestamp.c (6.12), which every kernel has in its data.

use super::gzip;

/// The maximum length of a banner; a longer text is something else.
const BANNER_MAX: usize = 512;
/// How much of a compressed kernel is searched: an `Image` for arm64 has some 40 MiB.
const IMAGE_BYTES_MAX: u64 = 64 << 20;
/// The start of a kernel's banner.
const MARK: &[u8] = b"Linux version ";

/// The version and build of a kernel, like `uname -r` and `-v`:
/// `6.12.9-rt-amd64 (…) #1 SMP PREEMPT_RT …`. An x86 `bzImage` has them in its header. An `Image`,
/// which arm64 and RISC-V boot, has them in its data, compressed by gzip or not. `None` for any
/// other file.
#[must_use]
pub fn banner(image: &[u8]) -> Option<String> {
    if image.get(0x202..0x206) == Some(b"HdrS") {
        return banner_in_header(image).map(str::to_owned);
    }
    if gzip::is_gzip(image) {
        let unpacked = gzip::unpack_some(image, IMAGE_BYTES_MAX);
        return banner_in_data(&unpacked).map(str::to_owned);
    }
    banner_in_data(image).map(str::to_owned)
}

/// The kernel release at the start of a banner.
#[must_use]
pub fn release(banner: &str) -> Option<&str> {
    banner.split_whitespace().next()
}

fn banner_in_header(image: &[u8]) -> Option<&str> {
    let [low, high] = *image.get(0x20e..0x210)? else { return None };
    let at = match u16::from_le_bytes([low, high]) {
        0 => return None,
        offset => 0x200 + usize::from(offset),
    };
    let text = image.get(at..)?.split(|byte| *byte == 0).next()?;
    std::str::from_utf8(text).ok().filter(|text| text.len() < BANNER_MAX)
}

fn banner_in_data(image: &[u8]) -> Option<&str> {
    let mut rest = image;
    loop {
        let at = rest.iter().position(|byte| *byte == MARK[0])?;
        rest = rest.get(at..)?;
        let Some(after) = rest.strip_prefix(MARK) else {
            rest = rest.get(1..)?;
            continue;
        };
        let text = after.split(|byte| matches!(byte, 0 | b'\n')).next()?;
        let text = text.get(..BANNER_MAX).unwrap_or(text);
        if let Some(text) = std::str::from_utf8(text).ok().filter(|_| text.len() < BANNER_MAX)
            // A format string has a `%` in this place.
            && text.starts_with(|first: char| first.is_ascii_digit())
        {
            return Some(text);
        }
        rest = after;
    }
}

/// Whether a banner belongs to a PREEMPT_RT kernel (init/version-timestamp.c; patches before 5.3
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
    fn the_banner_of_an_image_is_found_and_shows_whether_it_is_realtime() {
        // As in Debian's 6.12, at this offset.
        let rt = "6.12.107+deb13-rt-amd64 (debian) #1 SMP PREEMPT_RT Debian 6.12.107-1";
        let other = "6.12.107+deb13-amd64 (debian) #1 SMP PREEMPT_DYNAMIC Debian 6.12.107-1";
        assert_eq!(banner(&image(rt)).as_deref(), Some(rt));
        assert!(is_realtime(rt) && !is_realtime(other));
        assert_eq!(banner(b"\x7fELF"), None);
    }

    #[test]
    fn an_image_without_a_header_has_its_banner_in_its_data_compressed_or_not() {
        let wanted =
            "5.15.148-tegra (build@host) (gcc 11) #1 SMP PREEMPT Tue Jan 7 17:14:38 PST 2025";
        let text = format!("L\0Linux version %s\nLinux Linux version {wanted}\n\0more");
        assert_eq!(banner(text.as_bytes()).as_deref(), Some(wanted));
        assert_eq!(release(wanted), Some("5.15.148-tegra"));
        // One stored block, and its end is missing.
        let length = u16::try_from(text.len() + 1).unwrap();
        let mut packed = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0];
        packed.extend(length.to_le_bytes().into_iter().chain((!length).to_le_bytes()));
        packed.extend(text.bytes());
        assert_eq!(banner(&packed).as_deref(), Some(wanted));
        let long = format!("Linux version 5{}", "x".repeat(600));
        assert_eq!((banner(b"Linux version 5\xff\n"), banner(long.as_bytes())), (None, None));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..0x300)) {
            let _ = banner(&bytes);
            let _ = banner(&[b"Linux version ", &bytes[..]].concat());
            let _ = banner(&[&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3], &bytes[..]].concat());
            let _ = banner(&[&image("")[..0x20e], &bytes].concat());
        }
    }
}
