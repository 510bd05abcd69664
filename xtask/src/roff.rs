//! What every man page has: the escaping of troff, the date and the last section.

use std::process::Command;

/// The last section of every page.
pub const FILES: &str = ".SH FILES
.TP
.I /var/lib/cpushield/journal.jsonl
the original values of everything that was changed; exists while a shield is active
.TP
.I /etc/cpushield/policy.toml
the policy of the user
";

/// Escapes text for troff.
pub fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

/// The day of the last commit, or no date without git: the same source makes the same page.
pub fn date() -> String {
    let git = Command::new("git").args(["log", "-1", "--format=%cs"]).output();
    git.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}
