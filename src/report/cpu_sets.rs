//! [`MaskDocument`] → lines. Pure.

use super::blocks::{ReportBlock, TextLine};
use crate::documents::count_text::joined;
use crate::documents::cpu_sets::{CpuSetSpellings, MaskDocument};

/// The blocks of `cpushield mask`: a line for each set below the names of the columns. Programs
/// read it, so it is never wrapped. The words that could also be masks follow.
#[must_use]
pub fn cpu_set_blocks(document: &MaskDocument) -> Vec<ReportBlock> {
    let names = ["list", "mask", "kernel mask", "CPUs"].map(str::to_owned);
    let rows: Vec<[String; 4]> =
        [names].into_iter().chain(document.sets.iter().map(spellings)).collect();
    let widths = [0, 1, 2, 3].map(|at| {
        let cells = rows.iter().filter_map(|row| row.get(at));
        cells.map(String::len).max().unwrap_or_default()
    });
    let lines = rows.iter().map(|row| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        joined(cells, "  ").trim_end().to_owned()
    });
    let ambiguous = document.sets.iter().filter_map(|set| Some((set, set.as_mask.as_ref()?)));
    let ambiguous = ambiguous.map(|(set, as_mask)| {
        format!("{} was read as a list; as a mask (--mask): {}", set.list, list_or_none(as_mask))
    });
    let lines = lines.chain(ambiguous).map(TextLine::verbatim);
    vec![ReportBlock::Lines(lines.collect())]
}

fn spellings(set: &CpuSetSpellings) -> [String; 4] {
    [list_or_none(&set.list), set.hex.clone(), set.mask.clone(), set.count.to_string()]
}

fn list_or_none(cpus: &cpushield_linux::CpuSet) -> String {
    if cpus.is_empty() { "none".to_owned() } else { cpus.to_string() }
}

#[cfg(test)]
mod tests {
    use super::super::blocks::{terminal_blocks, unpainted};
    use super::*;

    #[test]
    fn columns_have_names_and_a_word_of_digits_shows_both_readings() {
        let set = |list: &str| list.parse().unwrap();
        let document = MaskDocument::new([(set("10"), Some(set("4"))), (set(""), None)]);
        let text = terminal_blocks(&cpu_set_blocks(&document), 100, &unpainted);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "list  mask   kernel mask  CPUs",
                "10    0x400  400          1",
                "none  0x0    0            0",
                "10 was read as a list; as a mask (--mask): 4",
            ]
        );
    }
}
