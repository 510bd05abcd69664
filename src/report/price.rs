//! The price of a shield: what the same load did before it and under it, on the CPUs that programs
//! had. [`LoadPrice`] is the document, a part of that of `try`. Pure.

use super::table::{Align, lay_out, span};
use crate::latency::LoadDone;
use cpushield_linux::CpuSet;
use serde::{Deserialize, Serialize};

/// A load that is faster or slower in a part of its time by this share does not run alone.
const UNSTEADY: f64 = 0.5;

/// What a load did before a shield and under it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadPrice {
    /// How long each of the two was measured, in nanoseconds.
    pub span_ns: u64,
    /// The CPUs that programs had before.
    pub cpus_before: CpuSet,
    /// The CPUs that the shield left to them.
    pub cpus_shielded: CpuSet,
    /// Each load.
    pub loads: Vec<PriceOf>,
    /// What is good to know.
    pub notes: Vec<String>,
}

/// What it is in one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PriceOf {
    /// Which load: `messages`.
    pub name: String,
    /// What it did, in words.
    pub what: String,
    /// What is counted: `messages`, `bytes`.
    pub unit: String,
    /// How much before.
    pub before: LoadRate,
    /// How much under the shield.
    pub shielded: LoadRate,
    /// The second divided by the first: 0.75 is a quarter less for everybody else. `None` when one
    /// of them is not known, or nothing was done before.
    pub ratio: Option<f64>,
    /// The same for each CPU: 1 is no price but the CPUs that the shield takes.
    pub ratio_per_cpu: Option<f64>,
    /// What makes it doubtful.
    pub doubts: Vec<String>,
}

/// How much was done in a second.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadRate {
    /// In all of the time; `None` when nobody counted.
    pub per_s: Option<f64>,
    /// In the slowest part of it; `None` where it is not counted in parts.
    pub least_per_s: Option<f64>,
    /// In the fastest part of it.
    pub most_per_s: Option<f64>,
}

/// One of the two measurements.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PriceWindow {
    /// The CPUs of the load.
    pub cpus: CpuSet,
    /// How long it was.
    pub span_ns: u64,
    /// What the loads did.
    pub loads: Vec<LoadDone>,
    /// How much each did in a second, in each part of the time, by its name.
    pub parts: Vec<(String, Vec<f64>)>,
    /// What is good to know.
    pub notes: Vec<String>,
}

impl LoadPrice {
    /// Of both.
    #[must_use]
    pub fn of(before: &PriceWindow, shielded: &PriceWindow) -> LoadPrice {
        let mut notes = before.notes.clone();
        notes.extend(shielded.notes.iter().filter(|note| !before.notes.contains(note)).cloned());
        let each = before.loads.iter().filter_map(|first| {
            let second = shielded.loads.iter().find(|one| one.name == first.name)?;
            Some(one(first, second, before, shielded))
        });
        LoadPrice {
            span_ns: before.span_ns.min(shielded.span_ns),
            cpus_before: before.cpus.clone(),
            cpus_shielded: shielded.cpus.clone(),
            loads: each.collect(),
            notes,
        }
    }

    /// A table for `try`, with its own headline.
    #[must_use]
    pub fn text(&self) -> String {
        let (before, shielded) = (&self.cpus_before, &self.cpus_shielded);
        let mut rows = vec![vec![
            "The price: a load of all other programs, per second".to_owned(),
            "before".to_owned(),
            "shielded".to_owned(),
            "ratio".to_owned(),
            "a CPU".to_owned(),
        ]];
        let ratio = |ratio: Option<f64>| {
            ratio.map_or_else(|| "unknown".to_owned(), |ratio| format!("{ratio:.2}"))
        };
        for load in &self.loads {
            let unit =
                if load.name == load.unit { String::new() } else { format!(" ({})", load.unit) };
            rows.push(vec![
                format!("  {}{unit}", load.name),
                load.before.words(&load.unit),
                load.shielded.words(&load.unit),
                ratio(load.ratio),
                ratio(load.ratio_per_cpu),
            ]);
        }
        rows.push(vec!["  on CPU".to_owned(), before.to_string(), shielded.to_string()]);
        let columns = [Align::Left, Align::Right, Align::Right, Align::Right, Align::Right];
        let mut text = format!("\n{}", lay_out("", &columns, &rows));
        text.push_str(&format!(
            "  ± is the spread of parts of one run of {}: `cpushield compare` with several runs of\n  \
             `latency --load` before and under a shield tells whether a difference is more than \
             chance\n",
            span(self.span_ns)
        ));
        for load in &self.loads {
            for doubt in &load.doubts {
                text.push_str(&format!("  doubtful: {}: {doubt}\n", load.name));
            }
        }
        for note in &self.notes {
            text.push_str(&format!("  note: {note}\n"));
        }
        text
    }
}

fn one(
    first: &LoadDone,
    second: &LoadDone,
    before: &PriceWindow,
    shielded: &PriceWindow,
) -> PriceOf {
    let known = |rate: Option<f64>| rate.filter(|rate| *rate > 0.0);
    let ratio = second.per_s.zip(known(first.per_s)).map(|(second, first)| second / first);
    let size = |window: &PriceWindow| u32::try_from(window.cpus.len()).ok().filter(|len| *len > 0);
    let sizes = size(before).zip(size(shielded));
    let per_cpu = ratio
        .zip(sizes)
        .map(|(ratio, (first, second))| ratio * f64::from(first) / f64::from(second));
    let (was, is) = (rate(first, before), rate(second, shielded));
    let mut doubts: Vec<String> = Vec::new();
    doubts.extend(first.doubts.iter().map(|why| format!("before: {why}")));
    doubts.extend(second.doubts.iter().map(|why| format!("shielded: {why}")));
    let within = |one: &LoadRate, other: &LoadRate| {
        let (least, most) = one.least_per_s.zip(one.most_per_s)?;
        let (low, high) = other.least_per_s.zip(other.most_per_s)?;
        Some(least <= high && low <= most)
    };
    match within(&was, &is) {
        Some(true) => doubts.push(
            "parts of one were as fast as parts of the other: the difference may be chance"
                .to_owned(),
        ),
        Some(false) => {}
        None => doubts.push("it is not counted in parts, so its spread is not known".to_owned()),
    }
    for (when, rate) in [("before", &was), ("shielded", &is)] {
        if rate.spread().is_some_and(|spread| spread > UNSTEADY) {
            doubts.push(format!("{when}: it went up and down: other programs were busy, too"));
        }
    }
    PriceOf {
        name: first.name.clone(),
        what: second.what.clone(),
        unit: first.unit.clone(),
        before: was,
        shielded: is,
        ratio,
        ratio_per_cpu: per_cpu,
        doubts,
    }
}

fn rate(load: &LoadDone, window: &PriceWindow) -> LoadRate {
    let parts = window.parts.iter().find(|(name, _)| *name == load.name);
    let parts = parts.map_or(&[][..], |(_, parts)| parts).iter().copied();
    LoadRate {
        per_s: load.per_s,
        least_per_s: parts.clone().reduce(f64::min),
        most_per_s: parts.reduce(f64::max),
    }
}

impl LoadRate {
    /// How far the slowest or the fastest part is from the whole, as a share of it.
    fn spread(&self) -> Option<f64> {
        let rate = self.per_s.filter(|rate| *rate > 0.0)?;
        let (least, most) = self.least_per_s.zip(self.most_per_s)?;
        Some((most - rate).max(rate - least) / rate)
    }

    /// `12.3 k ±4 %`.
    fn words(&self, unit: &str) -> String {
        let Some(rate) = self.per_s else { return "unknown".to_owned() };
        let amount = super::latency::amount(rate, if unit == "bytes" { unit } else { "" });
        let spread = self.spread().map(|spread| 100.0 * spread);
        spread.map_or(amount.clone(), |percent| format!("{amount} ±{percent:.0} %"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::LoadDoubt;

    fn window(cpus: &str, per_s: f64, parts: &[f64]) -> PriceWindow {
        let cpus: CpuSet = cpus.parse().unwrap();
        let load = LoadDone {
            name: "messages".to_owned(),
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
        PriceWindow { cpus, span_ns: 5_000_000_000, loads: vec![load], parts, notes: Vec::new() }
    }

    #[test]
    fn the_ratio_is_told_of_all_and_of_each_cpu() {
        let before = window("0-3", 8_000.0, &[7_800.0, 8_200.0]);
        let price = LoadPrice::of(&before, &window("0-2", 5_400.0, &[5_300.0, 5_500.0]));
        let one = &price.loads[0];
        assert_eq!(one.ratio, Some(0.675));
        assert!(one.ratio_per_cpu.is_some_and(|ratio| (ratio - 0.9).abs() < 1e-9), "{one:?}");
        assert_eq!(one.doubts, Vec::<String>::new());
        let text = price.text();
        for words in ["8.00 k ±2 %", "5.40 k ±2 %", "0.68", "0.90", "0-3", "0-2", "5.00 s"] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }

    #[test]
    fn what_may_be_chance_or_is_not_known_is_doubtful() {
        let before = window("0-3", 8_000.0, &[5_000.0, 9_000.0]);
        let price = LoadPrice::of(&before, &window("0-2", 5_400.0, &[5_300.0, 5_500.0]));
        assert!(price.text().contains("doubtful: messages: parts of one"), "{}", price.text());
        let unsteady = LoadPrice::of(&before, &window("0-2", 2_000.0, &[100.0, 4_000.0]));
        assert!(unsteady.text().contains("shielded: it went up and down"), "{}", unsteady.text());
        let mut silent = window("0-2", 0.0, &[]);
        silent.loads[0].per_s = None;
        silent.loads[0].doubts = vec![LoadDoubt::NotCounted];
        let price = LoadPrice::of(&before, &silent);
        assert_eq!((price.loads[0].ratio, price.loads[0].ratio_per_cpu), (None, None));
        assert_eq!(price.loads[0].doubts.len(), 2);
        let none = LoadPrice::of(&window("0-3", 0.0, &[0.0]), &before);
        assert_eq!(none.loads[0].ratio, None, "nothing to compare with");
    }
}
