//! The data of the charts of a report: maps of CPUs, bars and curves. Plain data.

use cpushield_linux::CpuSet;

/// The data of a chart.
#[derive(Debug, Clone, PartialEq)]
pub enum Drawing {
    /// A map of the CPUs.
    Map(CpuMap),
    /// A bar chart.
    Bars(BarChart),
    /// A curve chart.
    Curves(CurveChart),
}

/// A map of the CPUs and what they share.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuMap {
    /// Packages.
    pub packages: Vec<Package>,
    /// CPUs that are offline.
    pub offline: CpuSet,
}

/// A package.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Package {
    /// `package 0`.
    pub name: String,
    /// Its CPUs by NUMA node and last-level cache.
    pub groups: Vec<NodeGroup>,
}

/// CPUs of one NUMA node and one last-level cache.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeGroup {
    /// `NUMA node 0 · L3 32 MiB`; empty when both are unknown.
    pub name: String,
    /// Cores by the L2 cache they share.
    pub clusters: Vec<Cluster>,
}

/// Cores that share an L2 cache.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cluster {
    /// `L2 1 MiB`; empty when it is unknown.
    pub name: String,
    /// The cores.
    pub cores: Vec<Core>,
}

/// A core.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Core {
    /// `core 3`, `P core 3`.
    pub name: String,
    /// Its threads.
    pub cpus: Vec<(usize, MapRole)>,
}

/// The role of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapRole {
    /// It is shielded.
    Shielded,
    /// It is kept idle because its sibling is shielded.
    Idle,
    /// It runs everything else.
    Housekeeping,
    /// It has been isolated since boot.
    Isolated,
    /// There is no shield.
    Used,
    /// It is offline.
    Offline,
}

impl Drawing {
    /// The names of its series.
    pub(super) fn series(&self) -> Vec<&String> {
        match self {
            Drawing::Map(_) => Vec::new(),
            Drawing::Bars(bars) => bars.series.iter().collect(),
            Drawing::Curves(curves) => curves.series.iter().map(|curve| &curve.label).collect(),
        }
    }
}

impl MapRole {
    /// The word for the role.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            MapRole::Shielded => "shielded",
            MapRole::Idle => "kept idle",
            MapRole::Housekeeping => "housekeeping",
            MapRole::Isolated => "isolated",
            MapRole::Used => "in use",
            MapRole::Offline => "offline",
        }
    }
}

/// A bar chart.
#[derive(Debug, Clone, PartialEq)]
pub struct BarChart {
    /// The unit of the amounts.
    pub unit: String,
    /// The names of the series.
    pub series: Vec<String>,
    /// The rows, each with an amount per series.
    pub rows: Vec<BarRow>,
}

impl BarChart {
    /// The least and the greatest amount of those that have a bar.
    pub(super) fn range(&self) -> (f64, f64) {
        let known = self.rows.iter().flat_map(|row| &row.amounts).flatten().filter(|n| **n > 0.0);
        known.fold((f64::MAX, 0.0), |(least, most), n| (n.min(least), n.max(most)))
    }
}

/// The amounts of one row, in the order of [`BarChart::series`].
#[derive(Debug, Clone, PartialEq)]
pub struct BarRow {
    /// What is counted.
    pub label: String,
    /// The amounts; 0 means none, `None` that it could not be counted.
    pub amounts: Vec<Option<f64>>,
}

/// A curve chart.
#[derive(Debug, Clone, PartialEq)]
pub struct CurveChart {
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis; always logarithmic.
    pub y: Axis,
    /// How the curves are drawn.
    pub stroke: Stroke,
    /// The overlaid curves.
    pub series: Vec<Curve>,
}

/// How curves are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stroke {
    /// As a filled area that reaches down to the axis, for counts that are not 0.
    Area,
    /// As a line that is broken where there is no sample.
    Line,
}

/// An axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// The quantity.
    pub label: String,
    /// The first value; greater than 0 on a logarithmic axis.
    pub from: f64,
    /// The last value, greater than the first.
    pub to: f64,
    /// Whether the axis is logarithmic.
    pub log: bool,
    /// Whether the values are nanoseconds; otherwise they are counts.
    pub is_time: bool,
}

/// A step curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// The document it belongs to.
    pub label: String,
    /// Steps from left to right: from, to, height. There may be gaps between them.
    pub steps: Vec<(f64, f64, f64)>,
    /// Highlighted points with their labels.
    pub marks: Vec<(f64, f64, String)>,
}
