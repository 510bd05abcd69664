//! Entries of the Boot Loader Specification: one file a kernel below `loader/entries` (Fedora and
//! RHEL with GRUB's `blscfg`, systemd-boot). The words go in front of `options`.

use super::lines::{Lines, Part, Wrong, lines, value};
use crate::boot::grub::menu::version_of;
use cpushield_linux::Host;

const DIRS: &[&str] = &["/boot/loader/entries", "/boot/efi/loader/entries", "/efi/loader/entries"];

pub(super) static BLS: Lines = Lines {
    name: "bls",
    files,
    parse,
    menu: "hold a key (space, Esc or Shift) while the machine starts to see the menu",
};

fn files(host: &Host) -> Vec<String> {
    let mut found = Vec::new();
    for dir in DIRS {
        let names = host.list(dir).unwrap_or_default();
        let entries = names.iter().filter(|name| name.ends_with(".conf"));
        found.extend(entries.map(|name| format!("{dir}/{name}")));
    }
    // The newest kernel first, as menus have it; names carry the version.
    found.sort_by(|a, b| compare(b, a));
    found
}

/// Numbers by their value, all else letter by letter.
fn compare(a: &str, b: &str) -> std::cmp::Ordering {
    let (mut a, mut b) = (a, b);
    loop {
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (n, m) = (digits(a), digits(b));
        let order = if n > 0 && m > 0 {
            let number = |text: &str, n: usize| text[..n].parse::<u64>().unwrap_or(u64::MAX);
            number(a, n).cmp(&number(b, m))
        } else {
            a.chars().next().cmp(&b.chars().next())
        };
        if order != std::cmp::Ordering::Equal || a.is_empty() || b.is_empty() {
            return order;
        }
        let step = |text: &str, n: usize| n.max(text.chars().next().map_or(0, char::len_utf8));
        (a, b) = (&a[step(a, n)..], &b[step(b, m)..]);
    }
}

/// One entry; later `options` lines are joined to the first by the loader.
pub(super) fn parse(text: &str) -> Result<Vec<Part>, Wrong> {
    let (mut title, mut version, mut args, mut kernel) = (None, None, None, None);
    for (begin, number, line) in lines(text) {
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        let (key, range) = value(begin, line);
        let said = &text[range.clone()];
        match key {
            "title" => title = Some(said.to_owned()),
            "version" => version = Some(said.to_owned()),
            "linux" | "efi" | "uki" => kernel = Some(said.to_owned()),
            "options" if args.is_none() => args = Some((range, number)),
            _ if !key.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) => {
                return Err((number, "expected a key and a value"));
            }
            _ => {}
        }
    }
    let last = text.lines().count().max(1);
    let (args, line) = args.ok_or((last, "expected a line `options` before the end"))?;
    let kernel = kernel.ok_or((last, "expected a line `linux` before the end"))?;
    let version = version_of(&kernel).map(str::to_owned).or(version);
    let title = title.or_else(|| version.clone()).unwrap_or(kernel);
    Ok(vec![Part { version, title, args, line }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_entry_is_read_and_the_newest_kernel_is_first() {
        let text = "title Fedora Linux\nversion 6.8.5-301.fc40.x86_64\n# x\nlinux /vmlinuz-6.8.5-301.fc40.x86_64\noptions  root=UUID=ab $kernelopts \ngrub_class fedora\n";
        let part = parse(text).unwrap().remove(0);
        assert_eq!(&text[part.args], "root=UUID=ab $kernelopts");
        assert_eq!((part.version.as_deref(), part.line), (Some("6.8.5-301.fc40.x86_64"), 5));
        assert_eq!(parse("title x\nlinux /vmlinuz-1\n").unwrap_err().0, 2);
        assert_eq!(parse("title x\n{ y\n").unwrap_err().0, 2);
        assert_eq!(compare("a-6.12.9", "a-6.9.12"), std::cmp::Ordering::Greater);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}|(options|linux|title)[ \ta-z\n]{0,40}", other in ".*") {
            let _ = parse(&text);
            let _ = compare(&text, &other);
        }
    }
}
