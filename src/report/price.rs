//! The blocks of a [`LoadPrice`]: the throughput of each load before the shield and under it. Pure.

use super::blocks::{ReportBlock, Table, TableCell, TableColumn, TextLine, TextTone};
use super::table::span;
use crate::documents::load_price::{LoadPrice, LoadRate};

impl LoadPrice {
    /// The table of the loads, and what makes its figures doubtful.
    #[must_use]
    pub fn blocks(&self) -> Vec<ReportBlock> {
        let rows = self.loads.iter().map(|load| {
            let unit =
                if load.name == load.unit { String::new() } else { format!(" ({})", load.unit) };
            vec![
                TableCell::new(format!("{}{unit}", load.name)),
                TableCell::new(load.before.describe(&load.unit)),
                TableCell::new(load.shielded.describe(&load.unit)),
                TableCell::new(format_ratio(load.ratio)),
                TableCell::new(format_ratio(load.ratio_per_cpu)),
            ]
        });
        let (before, shielded) = (self.cpus_before.to_string(), self.cpus_shielded.to_string());
        let cpus = ["on CPU", &before, &shielded].map(TableCell::new).to_vec();
        let numbers = ["before", "shielded", "ratio", "per CPU"];
        let columns = TableColumn::words_and_numbers(&["load, per second"], &numbers);
        let caption = "The price: throughput of a load on the CPUs of other programs";
        let table = Table::new(caption, columns, rows.chain([cpus]).collect());
        let mut lines = vec![TextLine::new(format!(
            "Each measurement takes {} and is divided into parts. ± is the largest deviation of a \
             part from the average. To tell whether a difference is significant, run `latency \
             --load` several times without and with a shield, then use `cpushield compare`.",
            span(self.span_ns)
        ))];
        for load in &self.loads {
            let doubts = load.doubts.iter().map(|doubt| format!("{}: {doubt}", load.name));
            lines.extend(doubts.map(|it| TextLine::remark(TextTone::Doubt, "doubtful", it)));
        }
        let skipped = self.skipped.iter();
        let notes = skipped.map(|load| TextLine::remark(TextTone::Plain, "note", load));
        lines.extend(notes);
        let lines = lines.into_iter().map(TextLine::below).collect();
        vec![ReportBlock::Table(table), ReportBlock::Lines(lines)]
    }
}

fn format_ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "unknown".to_owned(), |ratio| format!("{ratio:.2}"))
}

impl LoadRate {
    /// `12.3 k ±4 %`.
    fn describe(&self, unit: &str) -> String {
        let Some(rate) = self.per_s else { return "unknown".to_owned() };
        let amount = super::latency::amount(rate, if unit == "bytes" { unit } else { "" });
        let spread = self.spread().map(|spread| 100.0 * spread);
        spread.map_or(amount.clone(), |percent| format!("{amount} ±{percent:.0} %"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::load_done::LoadDone;
    use crate::documents::load_doubt::LoadDoubt;
    use crate::documents::load_price::PriceWindow;
    use crate::report::blocks::{terminal_blocks, unpainted};
    use cpushield_linux::CpuSet;

    fn text(price: &LoadPrice) -> String {
        terminal_blocks(&price.blocks(), 200, &unpainted)
    }

    fn window(cpus: &str, per_s: f64, parts: &[f64]) -> PriceWindow {
        let cpus: CpuSet = cpus.parse().unwrap();
        let load = LoadDone {
            name: "messages".to_owned(),
            arguments: Vec::new(),
            what: "8 pairs".to_owned(),
            program: None,
            cpus: cpus.clone(),
            unit: "messages".to_owned(),
            count: Some(1),
            per_s: Some(per_s),
            span_ns: 1,
            doubts: Vec::new(),
        };
        let parts = vec![("messages".to_owned(), parts.to_vec())];
        PriceWindow { cpus, span_ns: 5_000_000_000, loads: vec![load], parts, skipped: Vec::new() }
    }

    #[test]
    fn the_price_has_a_total_ratio_and_a_ratio_per_cpu() {
        let before = window("0-3", 8_000.0, &[7_800.0, 8_200.0]);
        let price = LoadPrice::compute(&before, &window("0-2", 5_400.0, &[5_300.0, 5_500.0]));
        let load = &price.loads[0];
        assert_eq!(load.ratio, Some(0.675));
        assert!(load.ratio_per_cpu.is_some_and(|ratio| (ratio - 0.9).abs() < 1e-9), "{load:?}");
        assert_eq!(load.doubts, []);
        let text = text(&price);
        for words in ["8.00 k ±2 %", "5.40 k ±2 %", "0.68", "0.90", "0-3", "0-2", "5.00 s"] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }

    #[test]
    fn a_difference_that_may_be_chance_or_is_unknown_is_doubtful() {
        let before = window("0-3", 8_000.0, &[5_000.0, 9_000.0]);
        let price = LoadPrice::compute(&before, &window("0-2", 5_400.0, &[5_300.0, 5_500.0]));
        assert!(
            text(&price).contains("doubtful: messages: the throughput ranges"),
            "{}",
            text(&price)
        );
        let unsteady = LoadPrice::compute(&before, &window("0-2", 2_000.0, &[100.0, 4_000.0]));
        assert!(text(&unsteady).contains("shielded: the throughput varied"), "{}", text(&unsteady));
        let mut silent = window("0-2", 0.0, &[]);
        silent.loads[0].per_s = None;
        silent.loads[0].doubts = vec![LoadDoubt::NotCounted];
        let price = LoadPrice::compute(&before, &silent);
        assert_eq!((price.loads[0].ratio, price.loads[0].ratio_per_cpu), (None, None));
        assert_eq!(price.loads[0].doubts.len(), 2);
        let none = LoadPrice::compute(&window("0-3", 0.0, &[0.0]), &before);
        assert_eq!(none.loads[0].ratio, None, "nothing to compare with");
    }
}
