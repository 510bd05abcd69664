//! The price of a shield: the throughput of the same load without the shield and with it, on the
//! CPUs that other programs may use. [`LoadPrice`] is a part of the document of `try`. Pure.

use super::load_done::{LoadDone, SkippedLoad};
use super::load_doubt::LoadDoubt;
use cpushield_linux::CpuSet;
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};

/// A load that is faster or slower by this share in a part of its time did not run alone.
const UNSTEADY: f64 = 0.5;

/// The throughput of each load before the shield and under it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadPrice {
    /// The span of each of the two measurements, in nanoseconds.
    pub span_ns: u64,
    /// The CPUs that programs could use before.
    pub cpus_before: CpuSet,
    /// The CPUs that programs can use under the shield.
    pub cpus_shielded: CpuSet,
    /// The loads.
    pub loads: Vec<PriceOf>,
    /// Loads that could not run.
    #[serde(with = "crate::with_text::TextList::<SkippedLoad>")]
    pub skipped: Vec<SkippedLoad>,
}

/// The price for one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PriceOf {
    /// Which load: `messages`.
    pub name: String,
    /// A description of the load.
    pub what: String,
    /// What is counted: `messages`, `bytes`.
    pub unit: String,
    /// The throughput before.
    pub before: LoadRate,
    /// The throughput under the shield.
    pub shielded: LoadRate,
    /// `shielded` divided by `before`: 0.75 means a quarter less throughput for all other
    /// programs. `None` when one of them is unknown, or when nothing was done before.
    pub ratio: Option<f64>,
    /// The same per CPU: 1 means that the only price is the CPUs that the shield takes.
    pub ratio_per_cpu: Option<f64>,
    /// What makes the figures doubtful.
    #[serde(with = "crate::with_text::TextList::<PriceDoubt>")]
    pub doubts: Vec<PriceDoubt>,
}

/// What makes the price of a load doubtful.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum PriceDoubt {
    /// {window}: {doubt}.
    Load {
        /// In which measurement.
        window: PricePart,
        /// Why.
        #[serde(with = "crate::with_text::WithText::<LoadDoubt>")]
        doubt: LoadDoubt,
    },
    /// the throughput ranges before and under the shield overlap: the difference may be due to
    /// chance.
    MaybeChance,
    /// its work is not counted in parts, so the spread is unknown.
    SpreadUnknown,
    /// {window}: the throughput varied, perhaps because other programs were busy.
    Varied {
        /// In which measurement.
        window: PricePart,
    },
}

/// One of the two measurements of a price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[names]
pub enum PricePart {
    /// The one before the shield.
    Before,
    /// The one under the shield.
    Shielded,
}

/// The throughput of a load per second.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadRate {
    /// Over the whole span; `None` when it was not counted.
    pub per_s: Option<f64>,
    /// In the slowest part of the span; `None` when it was not counted in parts.
    pub least_per_s: Option<f64>,
    /// In the fastest part of the span.
    pub most_per_s: Option<f64>,
}

/// One of the two measurements.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PriceWindow {
    /// The CPUs of the load.
    pub cpus: CpuSet,
    /// Its span in nanoseconds.
    pub span_ns: u64,
    /// What each load did.
    pub loads: Vec<LoadDone>,
    /// The throughput per second of each load in each part of the span, by the load's name.
    pub parts: Vec<(String, Vec<f64>)>,
    /// Loads that could not run.
    pub skipped: Vec<SkippedLoad>,
}

impl LoadPrice {
    /// The price by a measurement before the shield and one under it.
    #[must_use]
    pub fn compute(before: &PriceWindow, shielded: &PriceWindow) -> LoadPrice {
        let mut skipped = before.skipped.clone();
        let later = shielded.skipped.iter().filter(|load| !before.skipped.contains(load));
        skipped.extend(later.cloned());
        let each = before.loads.iter().filter_map(|first| {
            let second = shielded.loads.iter().find(|load| load.name == first.name)?;
            Some(price_of_load(first, second, before, shielded))
        });
        LoadPrice {
            span_ns: before.span_ns.min(shielded.span_ns),
            cpus_before: before.cpus.clone(),
            cpus_shielded: shielded.cpus.clone(),
            loads: each.collect(),
            skipped,
        }
    }
}

fn price_of_load(
    first: &LoadDone,
    second: &LoadDone,
    before: &PriceWindow,
    shielded: &PriceWindow,
) -> PriceOf {
    let first_per_s = first.per_s.filter(|rate| *rate > 0.0);
    let ratio = second.per_s.zip(first_per_s).map(|(second, first)| second / first);
    let sizes = before.cpu_count().zip(shielded.cpu_count());
    let ratio_per_cpu = ratio
        .zip(sizes)
        .map(|(ratio, (first, second))| ratio * f64::from(first) / f64::from(second));
    let (before, shielded) = (load_rate(first, before), load_rate(second, shielded));
    let mut doubts = Vec::new();
    for (window, load) in [(PricePart::Before, first), (PricePart::Shielded, second)] {
        let own = load.doubts.iter().cloned();
        doubts.extend(own.map(|doubt| PriceDoubt::Load { window, doubt }));
    }
    match before.overlaps(&shielded) {
        Some(true) => doubts.push(PriceDoubt::MaybeChance),
        Some(false) => {}
        None => doubts.push(PriceDoubt::SpreadUnknown),
    }
    for (window, rate) in [(PricePart::Before, &before), (PricePart::Shielded, &shielded)] {
        if rate.spread().is_some_and(|spread| spread > UNSTEADY) {
            doubts.push(PriceDoubt::Varied { window });
        }
    }
    PriceOf {
        name: first.name.clone(),
        what: second.what.clone(),
        unit: first.unit.clone(),
        before,
        shielded,
        ratio,
        ratio_per_cpu,
        doubts,
    }
}

fn load_rate(load: &LoadDone, window: &PriceWindow) -> LoadRate {
    let parts = window.parts.iter().find(|(name, _)| *name == load.name);
    let parts = parts.map_or(&[][..], |(_, parts)| parts).iter().copied();
    LoadRate {
        per_s: load.per_s,
        least_per_s: parts.clone().reduce(f64::min),
        most_per_s: parts.reduce(f64::max),
    }
}

impl PriceWindow {
    fn cpu_count(&self) -> Option<u32> {
        u32::try_from(self.cpus.len()).ok().filter(|len| *len > 0)
    }
}

impl LoadRate {
    /// Whether a part of one was as fast as a part of the other; `None` without parts.
    fn overlaps(&self, other: &LoadRate) -> Option<bool> {
        let (least, most) = self.least_per_s.zip(self.most_per_s)?;
        let (other_least, other_most) = other.least_per_s.zip(other.most_per_s)?;
        Some(least <= other_most && other_least <= most)
    }

    /// The largest difference between a part and the whole, as a share of the whole.
    #[must_use]
    pub fn spread(&self) -> Option<f64> {
        let rate = self.per_s.filter(|rate| *rate > 0.0)?;
        let (least, most) = self.least_per_s.zip(self.most_per_s)?;
        Some((most - rate).max(rate - least) / rate)
    }
}
