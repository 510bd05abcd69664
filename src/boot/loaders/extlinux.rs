//! `extlinux.conf`: extlinux itself, and U-Boot, which reads the same file. Each label has a kernel
//! and a line `append`, in front of which the words go.

use super::Files;
use super::lines::{Lines, Part, Wrong, lines, value};
use crate::boot::grub::menu::version_of;
use cpushield_linux::Host;

const FILES: &[&str] = &[
    "/boot/extlinux/extlinux.conf",
    "/boot/firmware/extlinux/extlinux.conf",
    "/boot/extlinux.conf",
];

pub(super) static EXTLINUX: Lines = Lines {
    name: "extlinux",
    files,
    parse,
    id: |_| None,
    any_kernel: false,
    menu: "press a key at the serial console or keyboard while the loader counts down",
};

fn files(host: &Host) -> Vec<String> {
    FILES.iter().find(|path| host.exists(path)).map(|path| (*path).to_owned()).into_iter().collect()
}

/// A label while it is read.
struct Label {
    title: String,
    line: usize,
    kernel: Option<String>,
    ramdisks: Vec<String>,
    args: Option<(std::ops::Range<usize>, usize)>,
}

/// The labels that load a kernel of Linux.
pub(super) fn parse(text: &str) -> Result<Vec<Part>, Wrong> {
    let mut labels: Vec<Label> = Vec::new();
    for (begin, number, line) in lines(text) {
        let (key, range) = value(begin, line);
        let said = text[range.clone()].to_owned();
        match (key.to_ascii_lowercase().as_str(), labels.last_mut()) {
            ("label", _) if said.is_empty() => return Err((number, "a label without a name")),
            ("label", _) => {
                let (kernel, ramdisks, args) = (None, Vec::new(), None);
                labels.push(Label { title: said, line: number, kernel, ramdisks, args });
            }
            ("kernel" | "linux", Some(label)) => label.kernel = Some(said),
            ("append", Some(label)) if label.args.is_some() => {
                return Err((number, "a second `append` in one label"));
            }
            ("append", Some(label)) => {
                let named = said.split_whitespace().filter_map(|it| it.strip_prefix("initrd="));
                label.ramdisks.extend(named.flat_map(|it| it.split(',')).map(str::to_owned));
                label.args = Some((range, number));
            }
            ("initrd", Some(label)) => {
                label.ramdisks.extend(said.split(',').map(|it| it.trim().to_owned()));
            }
            _ => {}
        }
    }
    let mut parts = Vec::new();
    for label in labels {
        let Some(kernel) = label.kernel else { continue };
        // Other programs (memtest, menus) are loaded the same way and have no version.
        let Some(version) = version_of(&kernel).map(str::to_owned) else { continue };
        let (args, line) = label.args.ok_or((label.line, "a label without a line `append`"))?;
        let files = Some(Files { kernel, ramdisks: label.ramdisks });
        parts.push(Part { version: Some(version), title: label.title, files, args, line });
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn labels_with_a_kernel_are_read() {
        let text = "default l0\nlabel l0\n\tmenu label Debian 6.1\n\tlinux /vmlinuz-6.1\n\tappend root=/dev/sda1 ro\nlabel mem\n kernel /memtest\n";
        let parts = parse(text).unwrap();
        assert_eq!((parts.len(), parts[0].version.as_deref()), (1, Some("6.1")));
        assert_eq!(&text[parts[0].args.clone()], "root=/dev/sda1 ro");
        let ramdisks = |text: &str| {
            let text = format!("label a\nkernel ../vmlinuz-1\n{text}\n");
            parse(&text).unwrap().remove(0).files.unwrap().ramdisks
        };
        assert_eq!(ramdisks("append ro"), [""; 0]);
        assert_eq!(ramdisks("initrd ../a\nappend ro"), ["../a"]);
        assert_eq!(ramdisks("append initrd=/a,/b ro"), ["/a", "/b"]);
        assert_eq!(parse("label a\nkernel /vmlinuz-1\n").unwrap_err().0, 1);
        assert_eq!(parse("label a\nappend x\nappend y\n").unwrap_err().0, 3);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}|((label|kernel|append) ?[a-z /-]{0,9}\n){0,9}") {
            let _ = parse(&text);
        }
    }
}
