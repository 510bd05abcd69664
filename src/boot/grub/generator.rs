//! Our script in `/etc/grub.d`. `grub-mkconfig` runs it each time it generates `grub.cfg`, so a
//! kernel that is installed later is covered too. Pure: it produces text.
//!
//! It knows nothing about disks, initrds or distributions: it runs the distribution's `10_linux`
//! with more parameters and keeps the entries of the chosen kernels, under its own ids. The entries
//! that `10_linux` itself prints stay as they are.

use super::later_kernels::{LaterKernels, cokernel_names, realtime_options};
use crate::documents::boot::KernelRule;
use std::ops::RangeInclusive;

/// The first lines of every script that cpushield writes, which identify it.
pub const MARK: &str = "#!/bin/sh\n# Made by cpushield;";

/// The prefix of the ids of our entries.
pub const ID: &str = "cpushield-";

/// How our entries are named.
#[derive(Debug, Clone, Copy)]
pub struct EntryNames {
    /// The prefix of their ids, which begins with [`ID`].
    id: &'static str,
    /// What follows in their titles.
    title: &'static str,
}

/// Entries of an apply.
pub const PERMANENT: EntryNames = EntryNames { id: ID, title: "cpushield" };

/// Entries of a trial, with those of an earlier apply if there is one.
pub const TRIAL: EntryNames = EntryNames { id: "cpushield-trial-", title: "cpushield trial" };

/// The script. The words and the pattern must be plain: see
/// [`crate::glob::is_plain`] and [`crate::boot::line::is_plain`].
#[must_use]
pub fn script(kernels: &LaterKernels, names: &EntryNames) -> String {
    let enter = |words: &str| format!("enter '{words}'\n");
    format!(
        r#"{MARK} `cpushield boot undo` removes it.
# Entries with more kernel parameters for chosen kernels. Each is like the one that 10_linux makes
# for that kernel; the entries of 10_linux itself stay as they are, without these parameters.

{}
{}"#,
        ENTRIES.replace("@ID@", names.id).replace("@TITLE@", names.title),
        kernels.shell_code("version", chosen_test, enter),
    )
}

/// The part of the script that does not depend on the rule; `@ID@` and `@TITLE@` stand for the
/// [`EntryNames`].
const ENTRIES: &str = include_str!("entries.sh");

/// A shell command that succeeds if the version `$1` is a chosen kernel.
fn chosen_test(rule: &KernelRule) -> String {
    match rule {
        // Arch installs no configuration files: the image has a banner in its first sectors.
        KernelRule::Realtime => format!(
            "case $1 in ({names}) return ;; esac
    if [ -r \"/boot/config-$1\" ]; then
        grep -Eqx '{options}' \"/boot/config-$1\"
    else
        head -c 65536 \"/boot/vmlinuz-$1\" 2>/dev/null | grep -aq ' PREEMPT_RT '
    fi",
            names = cokernel_names(),
            options = realtime_options()
        ),
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
        let (begin, end) = marks(script);
        let begin = format!("\n{begin}");
        while let Some(from) = text.find(&begin) {
            let after = from + begin.len();
            let Some(to) = text.get(after..).and_then(|rest| rest.find(&end)) else { break };
            text.replace_range(from..after + to + end.len(), "");
        }
    }
    text
}

/// The lines of `grub.cfg`, from 1, that this script printed; `None` without a whole section.
#[must_use]
pub fn section_of(cfg: &str, script: &str) -> Option<RangeInclusive<usize>> {
    let (begin, end) = marks(script);
    let from = 1 + cfg.split_inclusive('\n').position(|line| line == begin)?;
    let length = cfg.split_inclusive('\n').skip(from).position(|line| line == end)?;
    Some(from + 1..=from + length)
}

/// The lines before and after the output of a script.
fn marks(script: &str) -> (String, String) {
    (format!("### BEGIN {script} ###\n"), format!("### END {script} ###\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::boot::KernelWords;
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
        let groups = ["nohz_full=1-3", "isolcpus=1-3", "isolcpus=managed_irq,1-3"].map(|word| {
            KernelWords { kernels: vec![format!("6.1-{word}")], words: vec![word.to_owned()] }
        });
        for rule in [
            KernelRule::Realtime,
            KernelRule::First,
            KernelRule::Matching { glob: "*-rt-[!a-c]?".to_owned() },
        ] {
            for count in [1, 3] {
                let groups = groups.get(..count).unwrap();
                let script = script(&LaterKernels { rule: &rule, groups }, &TRIAL);
                assert!(sh(&["-n"], &script).0, "{script}");
                assert!(script.starts_with(MARK));
            }
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
        assert_eq!(section_of(&both, "/etc/grub.d/10_linux"), Some(8..=8));
        assert_eq!(section_of(others, "/etc/grub.d/07_x"), None);
    }
}
