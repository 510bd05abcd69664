//! `cpushield completions`: prints the script with which a shell completes the command line.

use super::GlobalArgs;
use super::help::{HelpTail, READING};
use crate::failure::Failure;
use crate::ui::Ui;
use clap_complete::Shell;

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
pub fn run(ui: &Ui, _: &GlobalArgs, args: &CompletionsArgs) -> Result<(), Failure> {
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
