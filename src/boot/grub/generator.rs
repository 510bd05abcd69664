//! Our script in `/etc/grub.d`. `grub-mkconfig` runs it each time it generates `grub.cfg`, so a
//! kernel that is installed later is covered too. Pure: it produces text.
//!
//! It knows nothing about disks, initrds or distributions: it runs the distribution's `10_linux`
//! with more parameters and keeps the entries of the chosen kernels, under its own ids. The entries
//! that `10_linux` itself prints stay as they are.

/// The first lines of every script of ours, which identify it.
pub const MARK: &str = "#!/bin/sh\n# Made by cpushield;";

/// The prefix of the ids of our entries.
pub const ID: &str = "cpushield-";

/// Which kernels get the parameters.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "rule", rename_all = "kebab-case")]
pub enum KernelRule {
    /// PREEMPT_RT kernels, judged by their configuration and not by their name.
    Realtime,
    /// The first kernel in the menu; a sorted menu begins with the newest one.
    First,
    /// Kernels whose version matches.
    Matching {
        /// A shell pattern: `*-rt-*`.
        glob: String,
    },
}

/// Whether a pattern needs no quoting in the script.
#[must_use]
pub fn is_plain_glob(glob: &str) -> bool {
    !glob.is_empty() && glob.chars().all(|c| c.is_ascii_alphanumeric() || "._+-~*?[]!".contains(c))
}

/// Whether a version matches a pattern as the shell's `case` does.
#[must_use]
pub fn matches(glob: &str, version: &str) -> bool {
    let (glob, version): (Vec<char>, Vec<char>) =
        (glob.chars().collect(), version.chars().collect());
    matches_chars(&glob, &version)
}

fn matches_chars(glob: &[char], text: &[char]) -> bool {
    let Some((first, rest)) = glob.split_first() else { return text.is_empty() };
    match first {
        '*' => {
            (0..=text.len()).any(|n| text.get(n..).is_some_and(|text| matches_chars(rest, text)))
        }
        '?' => text.split_first().is_some_and(|(_, text)| matches_chars(rest, text)),
        '[' => match (split_bracket(rest), text.split_first()) {
            (Some((negated, members, rest)), Some((c, text))) => {
                is_member(members, *c) != negated && matches_chars(rest, text)
            }
            (None, Some(('[', text))) => matches_chars(rest, text),
            _ => false,
        },
        first => {
            text.split_first().is_some_and(|(c, text)| c == first && matches_chars(rest, text))
        }
    }
}

/// Splits the text after `[`: whether the members are excluded, the members, and the rest.
fn split_bracket(glob: &[char]) -> Option<(bool, &[char], &[char])> {
    let (negated, glob) = match glob {
        ['!', rest @ ..] => (true, rest),
        glob => (false, glob),
    };
    // A closing bracket in first position is a member.
    let end = 1 + glob.iter().skip(1).position(|c| *c == ']')?;
    Some((negated, glob.get(..end)?, glob.get(end + 1..)?))
}

fn is_member(members: &[char], c: char) -> bool {
    match members {
        [from, '-', to, rest @ ..] => (*from..=*to).contains(&c) || is_member(rest, c),
        [first, rest @ ..] => *first == c || is_member(rest, c),
        [] => false,
    }
}

/// The script. `words` and the pattern must be plain: see [`is_plain_glob`] and
/// [`crate::boot::line::is_plain`].
#[must_use]
pub fn script(rule: &KernelRule, words: &[String]) -> String {
    let (chosen, words) = (chosen_test(rule), words.join(" "));
    format!(
        r#"{MARK} `cpushield boot undo` removes it.
# Entries with more kernel parameters for chosen kernels. Each is the one that 10_linux makes for
# that kernel; the entries of 10_linux itself stay as they are, without these parameters.
parameters='{words}'

chosen() {{ # version
    {chosen}
}}

{}"#,
        ENTRIES.replace("@ID@", ID)
    )
}

/// The part of the script that does not depend on the rule; `@ID@` stands for [`ID`].
const ENTRIES: &str = include_str!("entries.sh");

/// A shell command that succeeds if the version `$1` is a chosen kernel.
fn chosen_test(rule: &KernelRule) -> String {
    match rule {
        // Arch installs no configuration files: the image has a banner in its first sectors.
        KernelRule::Realtime => "if [ -r \"/boot/config-$1\" ]; then
        grep -Eqx 'CONFIG_PREEMPT_RT(_FULL)?=y' \"/boot/config-$1\"
    else
        head -c 65536 \"/boot/vmlinuz-$1\" 2>/dev/null | grep -aq ' PREEMPT_RT '
    fi"
        .to_owned(),
        // 10_linux sorts its kernels by version, the newest first.
        KernelRule::First => "[ -z \"$seen\" ]".to_owned(),
        KernelRule::Matching { glob } => format!("case $1 in ({glob}) : ;; (*) false ;; esac"),
    }
}

/// The text of `grub.cfg` without the output of our scripts: the section between the marks and the
/// empty line before them, as grub-mkconfig writes them (util/grub-mkconfig.in, 2.06, 2.12).
#[must_use]
pub fn without_ours(cfg: &str, scripts: &[&str]) -> String {
    let mut text = cfg.to_owned();
    for script in scripts {
        let (begin, end) =
            (format!("\n### BEGIN {script} ###\n"), format!("### END {script} ###\n"));
        while let Some(from) = text.find(&begin) {
            let after = from + begin.len();
            let Some(to) = text.get(after..).and_then(|rest| rest.find(&end)) else { break };
            text.replace_range(from..after + to + end.len(), "");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    fn sh(arguments: &[&str], input: &str) -> (bool, String) {
        let mut child = Command::new("sh")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    }

    #[test]
    fn every_script_is_valid_shell() {
        let words = ["nohz_full=1-3".to_owned(), "isolcpus=managed_irq,1-3".to_owned()];
        for rule in [
            KernelRule::Realtime,
            KernelRule::First,
            KernelRule::Matching { glob: "*-rt-[!a-c]?".to_owned() },
        ] {
            let script = script(&rule, &words);
            assert!(sh(&["-n"], &script).0, "{script}");
            assert!(script.starts_with(MARK));
        }
    }

    #[test]
    fn only_our_section_is_removed() {
        let others =
            "#\n\n### BEGIN /etc/grub.d/10_linux ###\na\n### END /etc/grub.d/10_linux ###\n";
        let ours = "\n### BEGIN /etc/grub.d/07_x ###\nb\n### END /etc/grub.d/07_x ###\n";
        let both = others.replacen("#\n", &format!("#\n{ours}"), 1);
        assert_eq!(without_ours(&both, &["/etc/grub.d/07_x"]), others);
        assert_eq!(without_ours(others, &["/etc/grub.d/07_x"]), others);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn patterns_match_as_the_shell_does(
            parts in proptest::collection::vec(
                proptest::sample::select(vec!["a", "b", "-", "*", "?", "[ab]", "[!a]", "[a-b]"]),
                1..6,
            ),
            version in "[ab-]{0,5}",
        ) {
            let glob = parts.concat();
            prop_assert!(is_plain_glob(&glob));
            let script = format!("case {version:?} in ({glob}) ;; (*) exit 1 ;; esac");
            let (shell, _) = sh(&["-c", &script], "");
            prop_assert_eq!(matches(&glob, &version), shell, "{}", script);
        }
    }
}
