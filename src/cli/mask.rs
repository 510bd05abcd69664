//! `cpushield mask`: converts between CPU lists and hexadecimal masks.

use super::GlobalArgs;
use super::help::{HelpTail, READING};
use super::paint::show;
use crate::documents::cpu_sets::MaskDocument;
use crate::failure::Failure;
use crate::report::cpu_set_blocks;
use crate::ui::Ui;
use crate::workflow::cpu_names::read_names;
use crate::workflow::list_or_mask::{WordNotation, other_reading, parse_set};

/// Convert between CPU lists and masks
///
/// A word with `0x`, a letter or groups of eight digits is a mask; any other word is a list.
#[derive(Debug, clap::Args)]
pub struct MaskArgs {
    /// A list as for `apply --cpus` (`0-3,8`, `0-31:2/8`, `all,^0`) or a mask (`0x80`,
    /// `8000,00000000`)
    #[arg(required = true, value_name = "LIST|MASK")]
    words: Vec<String>,
    /// Read words that have only digits as masks: `80` is CPU 7, not CPU 80
    #[arg(long)]
    mask: bool,
}

/// The end of its help.
pub(super) const HELP: HelpTail = HelpTail {
    examples: &[
        ("cpushield mask 0-3,8", "the mask of a list"),
        ("cpushield mask 0x80", "the list of a mask"),
    ],
    exit_codes: READING,
};

/// Runs the subcommand.
///
/// # Errors
/// A word is neither a list nor a mask.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &MaskArgs) -> Result<(), Failure> {
    let notation = if args.mask { WordNotation::Mask } else { WordNotation::Detected };
    let names = read_names(&global.open(ui)?.host);
    let sets = args
        .words
        .iter()
        .map(|word| Ok((parse_set(word, notation, &names)?, other_reading(word, notation))));
    let document = MaskDocument::new(sets.collect::<Result<Vec<_>, Failure>>()?);
    show(ui, &document, || cpu_set_blocks(&document))
}
