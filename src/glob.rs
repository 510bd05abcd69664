//! Shell patterns, matched as the shell's `case` does: for versions of kernels, kernel functions,
//! threads, and the names in a path. Pure.

/// Whether a pattern needs no quoting in a shell script.
#[must_use]
pub fn is_plain(glob: &str) -> bool {
    !glob.is_empty() && glob.chars().all(|c| c.is_ascii_alphanumeric() || "._+-~*?[]!".contains(c))
}

/// Whether a pattern can match more than itself.
#[must_use]
pub fn is_pattern(glob: &str) -> bool {
    glob.contains(['*', '?', '['])
}

/// Whether a text matches one of some patterns with `|` between them, as the shell's `case` does.
#[must_use]
pub fn matches(globs: &str, text: &str) -> bool {
    globs.split('|').any(|glob| matches_one(glob, text))
}

fn matches_one(glob: &str, text: &str) -> bool {
    let (mut rest, mut tail) = (glob.chars(), text.chars());
    let Some(first) = rest.next() else { return text.is_empty() };
    let rest = rest.as_str();
    if first == '*' {
        let mut starts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
        return starts.any(|at| text.get(at..).is_some_and(|text| matches_one(rest, text)));
    }
    let Some(c) = tail.next() else { return false };
    let tail = tail.as_str();
    match (first, split_bracket(rest)) {
        ('?', _) => matches_one(rest, tail),
        ('[', Some(bracket)) => {
            is_member(bracket.members, c) != bracket.negated && matches_one(bracket.rest, tail)
        }
        _ => first == c && matches_one(rest, tail),
    }
}

/// Whether each name of a path matches the pattern of its place. A `*` matches no slash.
#[must_use]
pub fn matches_path(glob: &str, path: &str) -> bool {
    glob.split('/').count() == path.split('/').count()
        && glob.split('/').zip(path.split('/')).all(|(glob, name)| matches(glob, name))
}

/// A bracket expression, and the pattern after it.
struct Bracket<'a> {
    negated: bool,
    members: &'a str,
    rest: &'a str,
}

/// Splits the text after `[`; `None` if there is no closing bracket.
fn split_bracket(glob: &str) -> Option<Bracket<'_>> {
    let plain = glob.strip_prefix('!');
    let glob = plain.unwrap_or(glob);
    // A closing bracket in first position is a member.
    let (end, _) = glob.char_indices().skip(1).find(|(_, c)| *c == ']')?;
    let (members, rest) = glob.split_at_checked(end)?;
    Some(Bracket { negated: plain.is_some(), members, rest: rest.strip_prefix(']')? })
}

fn is_member(members: &str, c: char) -> bool {
    let mut chars = members.chars();
    let Some(first) = chars.next() else { return false };
    let rest = chars.as_str();
    let mut range = rest.strip_prefix('-').unwrap_or_default().chars();
    match range.next() {
        Some(last) => (first..=last).contains(&c) || is_member(range.as_str(), c),
        None => first == c || is_member(rest, c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::Command;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn patterns_match_as_the_shell_does(
            globs in proptest::collection::vec(proptest::collection::vec(
                proptest::sample::select(vec!["a", "b", "-", "*", "?", "[ab]", "[!a]", "[a-b]"]),
                1..6,
            ), 1..3),
            version in "[ab-]{0,5}",
        ) {
            let globs: Vec<String> = globs.iter().map(|parts| parts.concat()).collect();
            prop_assert!(globs.iter().all(|glob| is_plain(glob)));
            let glob = globs.join("|");
            let script = format!("case {version:?} in ({glob}) ;; (*) exit 1 ;; esac");
            let shell = Command::new("sh").args(["-c", &script]).status().unwrap().success();
            prop_assert_eq!(matches(&glob, &version), shell, "{}", script);
        }
    }

    #[test]
    fn a_star_matches_one_name_of_a_path() {
        assert!(matches_path("/sys/a*/cpumask", "/sys/ab/cpumask"));
        assert!(matches_path("/proc/irq/*/smp", "/proc/irq/12/smp"));
        assert!(!matches_path("/proc/irq/*/smp", "/proc/irq/1/2/smp"));
        assert!(!matches_path("/proc/irq/*", "/proc/irq/1/2"));
        assert!(!matches_path("/a/rx-*/b", "/a/tx-1/b"));
    }
}
