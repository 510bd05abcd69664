//! `/proc/<pid>/mountinfo` (proc_pid_mountinfo(5)), as far as kernel file systems need it.

use super::TextError;

/// A mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The directory of the file system that forms the root of this mount.
    pub root: String,
    /// Where it is mounted.
    pub point: String,
    /// `cgroup2`, `tracefs`, …
    pub kind: String,
    /// Options of this mount (`rw`, `ro`).
    pub options: Vec<String>,
    /// Options of the file system (`cpuset`, `noprefix`).
    pub super_options: Vec<String>,
}

/// Parses the whole file.
///
/// # Errors
/// A line has too few fields.
pub fn parse(text: &str) -> Result<Vec<Mount>, TextError> {
    let mut mounts = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let malformed = || TextError::new(i + 1, "the fields of mountinfo", line);
        let (left, right) = line.split_once(" - ").ok_or_else(malformed)?;
        let left: Vec<&str> = left.split(' ').collect();
        let right: Vec<&str> = right.split(' ').collect();
        let [_, _, _, root, point, options, ..] = left.as_slice() else {
            return Err(malformed());
        };
        let [kind, rest @ ..] = right.as_slice() else { return Err(malformed()) };
        mounts.push(Mount {
            root: unescape(root),
            point: unescape(point),
            kind: (*kind).to_owned(),
            options: split_options(options),
            // The source may be empty, so count from the end.
            super_options: rest.last().map_or_else(Vec::new, |text| split_options(text)),
        });
    }
    Ok(mounts)
}

fn split_options(text: &str) -> Vec<String> {
    text.split(',').map(str::to_owned).collect()
}

/// Converts `\040` and the like (`mangle()`, fs/proc_namespace.c) back to bytes.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let octal = tail.get(..3).filter(|digits| digits.iter().all(|d| (b'0'..=b'7').contains(d)));
        match octal.and_then(|digits| {
            let value = digits.iter().fold(0u32, |n, d| n * 8 + u32::from(d - b'0'));
            u8::try_from(value).ok()
        }) {
            Some(byte) if *first == b'\\' => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Linux 6.18, cgroup v1 with an empty v2.
    const HYBRID: &str = "\
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 master:1 - cgroup2 cgroup2 rw,nsdelegate
99 31 0:38 /a\\040b /mnt/with\\040space ro - ext4 /dev/sda1 rw
";

    #[test]
    fn mounts_are_parsed_with_optional_fields_and_escapes() {
        let mounts = parse(HYBRID).unwrap();
        assert_eq!(mounts[0].kind, "cgroup");
        assert_eq!(mounts[0].super_options, ["rw", "cpuset"]);
        assert_eq!(mounts[1].point, "/sys/fs/cgroup/unified");
        assert_eq!(mounts[1].kind, "cgroup2");
        assert_eq!(
            (mounts[2].root.as_str(), mounts[2].point.as_str()),
            ("/a b", "/mnt/with space")
        );
        assert_eq!(mounts[2].options, ["ro"]);
    }

    #[test]
    fn a_malformed_line_is_refused_with_its_number() {
        assert_eq!(parse("garbage").unwrap_err().line, 1);
        assert_eq!(parse(&format!("{HYBRID}1 2 3 - x")).unwrap_err().line, 4);
        assert_eq!(parse("").unwrap(), []);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[ 0-9a-z/\\\\,\n-]{0,80}") {
            let _ = parse(&text);
        }
    }
}
