//! Words of other tools in the place of a subcommand → the subcommand that does the same.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};
use std::ffi::OsString;

/// Words of other tools, and the subcommands that do the same.
const OTHER_WORDS: &[(&[&str], &str)] = &[
    (&["shield", "isolate", "set", "create", "start", "write"], "apply"),
    (
        &["unshield", "reset", "restore", "revert", "stop", "clear", "delete", "remove", "off"],
        "undo",
    ),
    (&["check", "test", "prove"], "verify"),
    (&["exec"], "run"),
    (&["shields", "list", "show", "info"], "status"),
    (&["move"], "add"),
    (&["top", "monitor"], "watch"),
    (&["cyclictest"], "latency"),
    (&["lint", "record"], "survey"),
    (&["export"], "plan"),
];

/// Suggests the subcommand for a word of another tool, if `command` has it.
pub(super) fn with_other_words(
    mut error: clap::Error,
    command: &clap::Command,
    args: &[OsString],
) -> clap::Error {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    if word == "version" {
        let tip = vec![StyledStr::from("to show the version, use '--version'")];
        error.remove(ContextKind::SuggestedSubcommand);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tip));
        return error;
    }
    let boot = command.find_subcommand("boot").filter(|_| args.iter().any(|arg| arg == "boot"));
    let scope = boot.unwrap_or(command);
    let known = OTHER_WORDS.iter().find(|(words, _)| words.contains(&word.as_str()));
    if let Some((_, name)) = known.filter(|(_, name)| scope.find_subcommand(name).is_some()) {
        let name = ContextValue::Strings(vec![(*name).to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, name);
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> String {
        let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        super::super::parse(&args).unwrap_err().to_string()
    }

    #[test]
    fn every_word_of_another_tool_leads_to_a_subcommand_that_exists() {
        for (words, name) in OTHER_WORDS {
            // `remove` is a subcommand of its own; of `boot` it is not.
            for word in words.iter().filter(|word| **word != "remove") {
                let text = shown(&format!("cpushield {word}"));
                assert!(text.contains(&format!("exists: '{name}'")), "{word}: {text}");
            }
        }
        for (word, name) in [("remove", "undo"), ("list", "status"), ("export", "plan")] {
            let text = shown(&format!("cpushield boot {word}"));
            assert!(text.contains(&format!("exists: '{name}'")), "{word}: {text}");
        }
        let text = shown("cpushield boot monitor");
        assert!(!text.contains("'watch'"), "{text}");
        let text = shown("cpushield version");
        assert!(text.contains("'--version'") && !text.contains("similar"), "{text}");
    }
}
