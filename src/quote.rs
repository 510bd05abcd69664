//! Quotes words for the languages in which cpushield writes commands, and names for its texts: one
//! function for each. Pure.

/// Quotes a word for a shell if it needs quotes.
#[must_use]
pub fn quote_for_shell(word: &str) -> String {
    let is_plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "-_,./+:=@%".contains(c));
    if is_plain && !word.is_empty() {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Quotes a word for a command line in a systemd unit: `%` and `$` are doubled (systemd.service(5),
/// "Command lines").
#[must_use]
pub fn quote_for_unit(word: &str) -> String {
    let word = word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    format!("\"{}\"", word.replace('$', "$$"))
}

/// Quotes names for a sentence, with a comma between two of them. A name may have commas itself.
#[must_use]
pub fn quote_names(names: &[&str]) -> String {
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_shell_reads_every_word_as_it_was() {
        for word in ["", "a", "/a/b-c_d.e,f:g=h@i%j+1", "a b", "it's", "$x `y` \\ \" * ~ # ! \n"] {
            let script = format!("printf %s {}", quote_for_shell(word));
            let output = Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
        }
        assert_eq!(quote_for_shell("/usr/bin/x"), "/usr/bin/x");
    }

    #[test]
    fn quoting_for_a_unit_keeps_every_character() {
        assert_eq!(quote_for_unit("/usr/bin/cpushield"), "\"/usr/bin/cpushield\"");
        assert_eq!(quote_for_unit(r#"/a b/$x/100%"\"#), r#""/a b/$$x/100%%\"\\""#);
    }
}
