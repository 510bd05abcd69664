//! Shell patterns for the versions of kernels, matched as the shell's `case` does. Pure.

/// Whether a pattern needs no quoting in the script.
#[must_use]
pub fn is_plain(glob: &str) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::Command;

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
            prop_assert!(is_plain(&glob));
            let script = format!("case {version:?} in ({glob}) ;; (*) exit 1 ;; esac");
            let shell = Command::new("sh").args(["-c", &script]).status().unwrap().success();
            prop_assert_eq!(matches(&glob, &version), shell, "{}", script);
        }
    }
}
