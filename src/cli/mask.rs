//! `cpushield mask`: converts between CPU lists and hexadecimal masks.

use super::GlobalArgs;
use crate::cpu_selection::{CpuNames, CpuSelection};
use crate::failure::Failure;
use crate::report::table::many;
use crate::ui::Ui;
use crate::workflow::cpu_names::read_names;
use cpushield_linux::CpuSet;
use serde::Serialize;

/// Convert between CPU lists and masks
///
/// A word with `0x`, a letter or groups of eight digits is a mask; any other word is a list.
#[derive(Debug, clap::Args)]
pub struct MaskArgs {
    /// A list as for `apply --cpus` (`0-3,8`, `0-31:2/8`, `all,^0`) or a mask (`0x80`,
    /// `8000,00000000`)
    #[arg(required = true, value_name = "LIST|MASK")]
    words: Vec<String>,
    /// Read words of digits as masks: `80` is CPU 7, not CPU 80
    #[arg(long)]
    mask: bool,
}

/// The version of the document's schema.
const SCHEMA: u32 = 1;

/// What `--json` prints.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MaskDocument {
    /// The version of the schema.
    schema: u32,
    /// The sets, one for each word.
    sets: Vec<CpuSetSpellings>,
}

/// One CPU set in every notation.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuSetSpellings {
    /// As a list: `0-3,8`.
    list: CpuSet,
    /// As the mask of a kernel file, in groups of 32 CPUs: `8000,00000000`.
    mask: String,
    /// The same mask as one hexadecimal number: `0x800000000000`.
    hex: String,
    /// The number of CPUs.
    count: usize,
}

/// Runs the subcommand.
///
/// # Errors
/// A word is neither a list nor a mask.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &MaskArgs) -> Result<(), Failure> {
    let notation = if args.mask { WordNotation::Mask } else { WordNotation::Detected };
    let names = read_names(&global.open(ui)?.host);
    let sets = args.words.iter().map(|word| parse(word, notation, &names));
    let sets = sets.collect::<Result<Vec<_>, _>>()?;
    let document = MaskDocument { schema: SCHEMA, sets: sets.into_iter().map(spell).collect() };
    ui.show(&document, || document.sets.iter().map(format_line).collect())
}

fn format_line(set: &CpuSetSpellings) -> String {
    format!("{}  {}  {}  ({})\n", set.list, set.hex, set.mask, many(set.count, "CPU"))
}

fn spell(list: CpuSet) -> CpuSetSpellings {
    let mask = list.to_mask();
    CpuSetSpellings { hex: format!("0x{}", mask.replace(',', "")), mask, count: list.len(), list }
}

/// The notation of the words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WordNotation {
    /// Each word is a list or a mask, by its form.
    Detected,
    /// Every word is a mask.
    Mask,
}

/// Parses a list or a mask. A word is a mask if it has `0x`, a hexadecimal letter, or an
/// eight-digit group after a comma, which no list has.
fn parse(word: &str, notation: WordNotation, names: &CpuNames) -> Result<CpuSet, Failure> {
    let groups = word.contains(',')
        && word
            .split(',')
            .skip(1)
            .all(|g| g.len() == 8 && g.bytes().all(|b| b.is_ascii_hexdigit()));
    let letters = word.bytes().all(|b| b.is_ascii_hexdigit() || b == b',')
        && word.bytes().any(|b| b.is_ascii_alphabetic());
    let parsed = if notation == WordNotation::Mask || word.starts_with("0x") || groups || letters {
        CpuSet::parse_mask(word).map_err(|error| error.to_string())
    } else {
        CpuSelection::parse(word).and_then(|selection| selection.resolve(names))
    };
    let hint = "a list looks like 0-3,8 or all,^0 and a mask like 0x10f or 8000,00000000";
    // A mask of zeros is a valid empty set. An empty word is usually an unset shell variable.
    let digits = word.bytes().any(|b| b.is_ascii_hexdigit());
    match parsed {
        Ok(cpus) if cpus.is_empty() && !digits => {
            Err(Failure::usage(format!("{word:?} names no CPU")).hint(hint))
        }
        parsed => parsed.map_err(|why| Failure::usage(why).hint(hint)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_a_word_decides_whether_it_is_a_list_or_a_mask() {
        let names = CpuNames::unknown();
        for (word, list) in [
            ("7", "7"),
            ("0x80", "7"),
            ("8000,00000000", "47"),
            ("ff", "0-7"),
            ("0-3,8", "0-3,8"),
            ("10,20", "10,20"),
        ] {
            assert_eq!(
                parse(word, WordNotation::Detected, &names).unwrap().to_string(),
                list,
                "{word}"
            );
        }
        assert_eq!(parse("80", WordNotation::Mask, &names).unwrap().to_string(), "7");
        assert!(parse("0x0", WordNotation::Detected, &names).unwrap().is_empty());
        for wrong in ["x", "", " ", ","] {
            assert!(
                parse(wrong, WordNotation::Detected, &names).is_err()
                    && parse(wrong, WordNotation::Mask, &names).is_err(),
                "{wrong:?}"
            );
        }
    }
}
