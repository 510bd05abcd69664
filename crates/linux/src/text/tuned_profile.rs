//! Files of tuned: profiles (`tuned.conf`) and files of variables, as Python's `configparser` reads
//! them with tuned's settings (`Loader._load_config_data()` in tuned/profiles/loader.py and
//! `Variables.add_from_file()` in tuned/profiles/variables.py, 2.20): `=` separates, `#` begins a
//! comment also behind a value, an indented line continues a value.

use super::TextError;

/// An option of a profile, or a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileOption {
    /// The section; empty before the first one, where only files of variables have options.
    pub section: String,
    /// Its name.
    pub name: String,
    /// Its value; `None` without an equals sign. Lines that continue it are joined by a line end.
    pub value: Option<String>,
    /// The line of its name, from 1.
    pub line: usize,
}

/// The two kinds of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfileFile {
    /// A profile: each option is in a section and has a value.
    Profile,
    /// Variables: sections are not needed, and a name may have no value.
    Variables,
}

/// Parses a file of tuned. Where an option is repeated, both are returned; tuned takes the later
/// one.
///
/// # Errors
/// A line is none of a section, an option and a continued value. tuned rejects such a file too.
pub fn parse(text: &str, file: ProfileFile) -> Result<Vec<ProfileOption>, TextError> {
    let mut found: Vec<ProfileOption> = Vec::new();
    let mut section: Option<String> = (file == ProfileFile::Variables).then(String::new);
    let (mut indent, mut continues) = (0, false);
    for (index, full) in text.lines().enumerate() {
        let line = without_comment(full);
        let content = line.trim();
        if content.is_empty() {
            continue;
        }
        let deep = full.chars().take_while(|c| c.is_whitespace()).count();
        if continues && deep > indent {
            if let Some(value) = found.last_mut().and_then(|option| option.value.as_mut()) {
                value.push('\n');
                value.push_str(content);
            }
            continue;
        }
        indent = deep;
        if let Some(name) = section_name(content) {
            (section, continues) = (Some(name.to_owned()), false);
            continue;
        }
        let (name, value) = match content.split_once('=') {
            Some((name, value)) => (name.trim_end(), Some(value.trim_start().to_owned())),
            None => (content, None),
        };
        let wanted = "a section or NAME=VALUE";
        let Some(section) = &section else {
            let wanted = "a section in brackets before the first setting";
            return Err(TextError::new(index + 1, wanted, content));
        };
        if name.is_empty() || (value.is_none() && file == ProfileFile::Profile) {
            return Err(TextError::new(index + 1, wanted, content));
        }
        continues = value.is_some();
        let (section, name) = (section.clone(), name.to_owned());
        found.push(ProfileOption { section, name, value, line: index + 1 });
    }
    Ok(found)
}

/// The line before its comment: `;` and `#` begin one at the start of a line, and `#` after white
/// space.
fn without_comment(line: &str) -> &str {
    if line.trim_start().starts_with([';', '#']) {
        return "";
    }
    let mut previous = None;
    for (at, c) in line.char_indices() {
        if c == '#' && previous.is_some_and(char::is_whitespace) {
            return line.get(..at).unwrap_or(line);
        }
        previous = Some(c);
    }
    line
}

/// The name in `[name]`.
fn section_name(line: &str) -> Option<&str> {
    let (name, _) = line.strip_prefix('[')?.split_once(']')?;
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn options(text: &str, file: ProfileFile) -> Vec<(String, String, Option<String>, usize)> {
        let found = parse(text, file).unwrap();
        found.into_iter().map(|it| (it.section, it.name, it.value, it.line)).collect()
    }

    fn option(
        section: &str,
        name: &str,
        value: Option<&str>,
        line: usize,
    ) -> (String, String, Option<String>, usize) {
        (section.to_owned(), name.to_owned(), value.map(str::to_owned), line)
    }

    #[test]
    fn a_profile_of_tuned_2_20_is_parsed_as_tuned_does() {
        // Parts of cpu-partitioning and latency-performance.
        let text = "#\n[main]\nsummary=Optimize for CPU partitioning\ninclude=network-latency\n\n\
                    [variables]\n# comment\ninclude=/etc/tuned/cpu-partitioning-variables.conf\n\
                    isolated_cores_assert_check = \\\\${isolated_cores}\n[sysctl]\n\
                    kernel.nmi_watchdog = 0 # why not\nvm.x=a#b\n; also a comment\n[rtentsk]\n\
                    [bootloader]\ncmdline=+a=b\n    c=d\n";
        assert_eq!(
            options(text, ProfileFile::Profile),
            [
                option("main", "summary", Some("Optimize for CPU partitioning"), 3),
                option("main", "include", Some("network-latency"), 4),
                option(
                    "variables",
                    "include",
                    Some("/etc/tuned/cpu-partitioning-variables.conf"),
                    8
                ),
                option(
                    "variables",
                    "isolated_cores_assert_check",
                    Some("\\\\${isolated_cores}"),
                    9
                ),
                option("sysctl", "kernel.nmi_watchdog", Some("0"), 11),
                option("sysctl", "vm.x", Some("a#b"), 12),
                option("bootloader", "cmdline", Some("+a=b\nc=d"), 16),
            ]
        );
    }

    #[test]
    fn variables_need_no_section_and_no_value() {
        let text = "# Examples:\n# isolated_cores=2,4-7\n isolated_cores=2-3\nno_balance_cores\n";
        assert_eq!(
            options(text, ProfileFile::Variables),
            [option("", "isolated_cores", Some("2-3"), 3), option("", "no_balance_cores", None, 4)]
        );
    }

    #[test]
    fn a_line_that_tuned_rejects_is_an_error_with_its_number() {
        for (text, line) in [("a=1\n", 1), ("[a]\n\nb\n", 3), ("[a]\n=3\n", 2), ("[]\n", 1)] {
            let error = parse(text, ProfileFile::Profile).unwrap_err();
            assert_eq!(error.line, line, "{text:?}");
        }
        assert_eq!(parse("=3\n", ProfileFile::Variables).unwrap_err().line, 1);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[a-z0-9=#;\\[\\] \t\n\\\\é]{0,80}") {
            for file in [ProfileFile::Profile, ProfileFile::Variables] {
                for option in parse(&text, file).unwrap_or_default() {
                    prop_assert!(option.line >= 1 && option.line <= text.lines().count());
                    prop_assert!(!option.name.is_empty());
                }
            }
        }
    }
}
