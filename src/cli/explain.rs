//! `cpushield explain`: shows the page about a tunable, a cause, an instrument, a load, or any name
//! that a table shows. Pages link to each other by name.

use super::GlobalArgs;
use super::help::{HelpTail, READING};
use crate::failure::Failure;
use crate::input::KnownWord;
use crate::ui::Ui;
use crate::workflow::explained_page::{explain, list_pages, page_list, static_names};

/// Explain a tunable, a cause of interruptions, or a name from a table
///
/// Without a name, lists the pages of the reference.
#[derive(Debug, clap::Args)]
pub struct ExplainArgs {
    /// A tunable (`irq-affinity`), a kernel parameter (`skew-tick`), a cause (`tick`) or a term
    /// (`shield`); a culprit, thread or sender from a table (`vmstat_update`, `irq/24-eth0`); an
    /// instrument (`latency-timer`), a load (`load-messages`) or a key of the policy (`count`);
    /// several words form one name
    #[arg(num_args = 0.., value_parser = KnownWord(static_names), hide_possible_values = true)]
    pub name: Vec<String>,
}

/// The end of its help.
pub(super) const HELP: HelpTail = HelpTail {
    examples: &[
        ("cpushield explain", "list the pages of the reference"),
        ("cpushield explain irq-affinity", "what a tunable does"),
        ("cpushield explain vmstat_update", "what a kernel function does"),
    ],
    exit_codes: READING,
};

/// Runs the subcommand.
///
/// # Errors
/// There is no such name.
pub fn run(ui: &Ui, _: &GlobalArgs, args: &ExplainArgs) -> Result<(), Failure> {
    if args.name.is_empty() {
        let list = page_list();
        return ui.show(&list, || list_pages(&list.pages, ui.width()));
    }
    let page = explain(&args.name.join(" "))?;
    ui.show(&page, || page.text(ui.width()))
}
