//! The script of ours below `/etc/grub.d`. `grub-mkconfig` runs it each time it makes `grub.cfg`,
//! so a kernel that is installed later is covered too. Pure: it makes text.
//!
//! It knows nothing of disks, initrds or distributions: it runs the distribution's own `10_linux`
//! with more parameters and keeps the entries of the chosen kernels, under ids of its own. What
//! `10_linux` prints for itself stays as it is.

/// The first lines of every script of ours, by which it is known.
pub const MARK: &str = "#!/bin/sh\n# Made by cpushield;";

/// What ids of our entries begin with.
pub const ID: &str = "cpushield-";

/// Which kernels get the parameters.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "rule", rename_all = "kebab-case")]
pub enum KernelRule {
    /// PREEMPT_RT kernels, by their configuration: a name alone says nothing.
    Realtime,
    /// The first kernel of the menu; menus that sort their kernels have the newest one there.
    First,
    /// Kernels whose version matches.
    Matching {
        /// A pattern of the shell: `*-rt-*`.
        glob: String,
    },
}

/// Whether a pattern can stand in the script as it is.
#[must_use]
pub fn plain_glob(glob: &str) -> bool {
    !glob.is_empty() && glob.chars().all(|c| c.is_ascii_alphanumeric() || "._+-~*?[]!".contains(c))
}

/// Whether a version matches a pattern as the shell's `case` does.
#[must_use]
pub fn matches(glob: &str, version: &str) -> bool {
    let (glob, version): (Vec<char>, Vec<char>) =
        (glob.chars().collect(), version.chars().collect());
    fits(&glob, &version)
}

fn fits(glob: &[char], text: &[char]) -> bool {
    let Some((first, rest)) = glob.split_first() else { return text.is_empty() };
    match first {
        '*' => (0..=text.len()).any(|n| text.get(n..).is_some_and(|text| fits(rest, text))),
        '?' => text.split_first().is_some_and(|(_, text)| fits(rest, text)),
        '[' => match (set(rest), text.split_first()) {
            (Some((negated, members, rest)), Some((c, text))) => {
                member(members, *c) != negated && fits(rest, text)
            }
            (None, Some(('[', text))) => fits(rest, text),
            _ => false,
        },
        first => text.split_first().is_some_and(|(c, text)| c == first && fits(rest, text)),
    }
}

/// The members of a `[…]` behind its bracket, whether they are excluded, and what follows.
fn set(glob: &[char]) -> Option<(bool, &[char], &[char])> {
    let (negated, glob) = match glob {
        ['!', rest @ ..] => (true, rest),
        glob => (false, glob),
    };
    // A bracket in the first place is a member.
    let end = 1 + glob.iter().skip(1).position(|c| *c == ']')?;
    Some((negated, glob.get(..end)?, glob.get(end + 1..)?))
}

fn member(members: &[char], c: char) -> bool {
    match members {
        [from, '-', to, rest @ ..] => (*from..=*to).contains(&c) || member(rest, c),
        [one, rest @ ..] => *one == c || member(rest, c),
        [] => false,
    }
}

/// The script. `words` and the pattern are plain: see [`plain_glob`] and
/// [`crate::boot::line::plain`].
#[must_use]
pub fn script(rule: &KernelRule, words: &[String]) -> String {
    let (chosen, words) = (chosen(rule), words.join(" "));
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

/// What the script does with every kernel, whatever the rule: `@ID@` stands for [`ID`].
const ENTRIES: &str = include_str!("entries.sh");

/// A command of the shell that succeeds for the version `$1` of a chosen kernel.
fn chosen(rule: &KernelRule) -> String {
    match rule {
        // Arch keeps no configurations: an image says it of itself in its first sectors.
        KernelRule::Realtime => "if [ -r \"/boot/config-$1\" ]; then
        grep -Eqx 'CONFIG_PREEMPT_RT(_FULL)?=y' \"/boot/config-$1\"
    else
        head -c 65536 \"/boot/vmlinuz-$1\" 2>/dev/null | grep -aq ' PREEMPT_RT '
    fi"
        .to_owned(),
        // 10_linux lists its kernels by version, the newest first.
        KernelRule::First => "[ -z \"$seen\" ]".to_owned(),
        KernelRule::Matching { glob } => format!("case $1 in ({glob}) : ;; (*) false ;; esac"),
    }
}

/// The text of `grub.cfg` without what a script of ours printed: the section between its marks and
/// the empty line before them, as grub-mkconfig writes them (util/grub-mkconfig.in, 2.06, 2.12).
#[must_use]
pub fn without_ours(cfg: &str, scripts: &[&str]) -> String {
    let mut text = cfg.to_owned();
    for script in scripts {
        let (begin, end) =
            (format!("\n### BEGIN {script} ###\n"), format!("### END {script} ###\n"));
        while let Some(from) = text.find(&begin) {
            let behind = from + begin.len();
            let Some(to) = text.get(behind..).and_then(|rest| rest.find(&end)) else { break };
            text.replace_range(from..behind + to + end.len(), "");
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
    fn the_shell_takes_every_script() {
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
    fn our_section_is_taken_out_and_nothing_else() {
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
            prop_assert!(plain_glob(&glob));
            let script = format!("case {version:?} in ({glob}) ;; (*) exit 1 ;; esac");
            let (shell, _) = sh(&["-c", &script], "");
            prop_assert_eq!(matches(&glob, &version), shell, "{}", script);
        }
    }
}
