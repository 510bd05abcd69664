//! `cpushield completions`: what a shell reads to complete words of the command line.

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

/// Runs it.
///
/// # Errors
/// Standard output cannot be written.
pub fn run(ui: &Ui, args: &CompletionsArgs) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut shown(), "cpushield", &mut text);
    ui.text(&String::from_utf8_lossy(&text))
}

/// The command line without what its help hides, which shells would complete all the same.
#[must_use]
pub fn shown() -> clap::Command {
    super::command().mut_subcommand("boot", |boot| {
        let shown = boot.get_subcommands().filter(|sub| !sub.is_hide_set()).cloned();
        let about = boot.get_about().cloned().unwrap_or_default();
        clap::Command::default().name("boot").about(about).subcommands(shown.collect::<Vec<_>>())
    })
}

/// A word that shells complete to known names. Any word is taken: what reads it says better what is
/// wrong with it, and what is near to it.
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
