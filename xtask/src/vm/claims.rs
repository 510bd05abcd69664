//! The claims of a scenario, in TAP: `ok - claim`, `not ok - claim`, `ok - claim # SKIP why`.

use std::fmt;
use std::ops::AddAssign;

/// How many claims held, failed and were skipped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClaimCounts {
    pub ok: usize,
    pub not_ok: usize,
    pub skipped: usize,
}

impl AddAssign for ClaimCounts {
    fn add_assign(&mut self, other: ClaimCounts) {
        self.ok += other.ok;
        self.not_ok += other.not_ok;
        self.skipped += other.skipped;
    }
}

/// `N passed, N failed, N skipped`, which is also the last line of a run.
impl fmt::Display for ClaimCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.ok, self.not_ok, self.skipped)
    }
}

impl ClaimCounts {
    /// Reads what `Display` writes.
    pub fn parse(text: &str) -> Option<ClaimCounts> {
        let words: Vec<&str> = text.split(' ').collect();
        let [ok, "passed,", not_ok, "failed,", skipped, "skipped"] = words[..] else { return None };
        let number = |word: &str| word.parse().ok();
        Some(ClaimCounts { ok: number(ok)?, not_ok: number(not_ok)?, skipped: number(skipped)? })
    }
}

/// Counts the claims of a guest's output.
pub fn count(output: &str) -> ClaimCounts {
    let mut counts = ClaimCounts::default();
    for line in output.lines() {
        if line.starts_with("not ok - ") {
            counts.not_ok += 1;
        } else if line.starts_with("ok - ") && line.contains("# SKIP") {
            counts.skipped += 1;
        } else if line.starts_with("ok - ") {
            counts.ok += 1;
        }
    }
    counts
}

/// The skipped claims, each once, in order.
pub fn skipped(output: &str) -> Vec<String> {
    let mut lines: Vec<&str> = output.lines().filter(|line| line.contains("# SKIP")).collect();
    lines.sort_unstable();
    let same = lines.chunk_by(|a, b| a == b);
    same.map(|lines| format!("{:7} {}", lines.len(), lines[0])).collect()
}

/// Lines of an explanation that are shown at its beginning and at its end.
const SHOWN: (usize, usize) = (8, 32);

/// The failed claims and the messages about the guest, with the beginning and the end of a long
/// explanation.
pub fn failures(output: &str) -> Vec<String> {
    let (mut shown, mut explanation, mut is_failure) = (Vec::new(), Vec::new(), false);
    for line in output.lines() {
        if is_failure && line.starts_with('#') {
            explanation.push(line.to_owned());
            continue;
        }
        shown.append(&mut shortened(std::mem::take(&mut explanation)));
        is_failure = line.starts_with("not ok") || line.starts_with("vm:");
        if is_failure {
            shown.push(line.to_owned());
        }
    }
    shown.append(&mut shortened(explanation));
    shown
}

fn shortened(mut lines: Vec<String>) -> Vec<String> {
    let (head, tail) = SHOWN;
    if lines.len() > head + tail {
        lines.splice(head..lines.len() - tail, ["#   ...".to_owned()]);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
# a remark
ok - it holds
ok - it was left out # SKIP no such file
not ok - it failed
#   because
#   of this
ok - another
# remark
vm: the emulator crashed:
";

    #[test]
    fn claims_are_counted_by_kind() {
        assert_eq!(count(OUTPUT), ClaimCounts { ok: 2, not_ok: 1, skipped: 1 });
        assert_eq!(skipped(OUTPUT), ["      1 ok - it was left out # SKIP no such file"]);
    }

    #[test]
    fn a_failure_is_shown_with_its_explanation() {
        let shown = failures(OUTPUT);
        let wanted =
            ["not ok - it failed", "#   because", "#   of this", "vm: the emulator crashed:"];
        assert_eq!(shown, wanted);
        let long = "not ok - x\n".to_owned() + &"#   line\n".repeat(100);
        assert_eq!(failures(&long).len(), 1 + 8 + 1 + 32);
    }
}
