//! `cpushield completions`: prints the script with which a shell completes the command line.

use super::help::{HelpTail, READING};
use crate::failure::Failure;
use crate::ui::Ui;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap_complete::Shell;
use std::ffi::OsStr;

/// Print shell completions
///
/// Save the output where the shell looks for completions, or load it directly:
/// `source <(cpushield completions bash)`.
#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// The end of its help.
pub(super) const HELP: HelpTail = HelpTail {
    examples: &[
        ("source <(cpushield completions bash)", "for this shell"),
        (
            "cpushield completions fish > ~/.config/fish/completions/cpushield.fish",
            "for every new shell",
        ),
    ],
    exit_codes: READING,
};

/// Runs the subcommand.
///
/// # Errors
/// Standard output cannot be written.
pub fn run(ui: &Ui, args: &CompletionsArgs) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut visible_command(), "cpushield", &mut text);
    ui.text(&String::from_utf8_lossy(&text))
}

/// The command line without hidden subcommands, which `clap_complete` would include.
fn visible_command() -> clap::Command {
    super::command().mut_subcommand("boot", |boot| {
        let visible = boot.get_subcommands().filter(|sub| !sub.is_hide_set()).cloned();
        let about = boot.get_about().cloned().unwrap_or_default();
        clap::Command::default().name("boot").about(about).subcommands(visible.collect::<Vec<_>>())
    })
}

/// An argument that shells complete to known names. It accepts any text, because the
/// subcommand reports an unknown name better than clap does: it suggests similar names.
#[derive(Debug, Clone)]
pub(super) struct KnownWord(pub(super) fn() -> Vec<&'static str>);

impl TypedValueParser for KnownWord {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter().map(PossibleValue::new)))
    }
}
