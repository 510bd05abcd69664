//! What a report is made of, whatever it is written as: sections of texts, figures, doubts, tables
//! and pictures. Each picture brings the table that says the same. Plain data.

use cpushield_linux::CpuSet;

/// A report.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Its title.
    pub title: String,
    /// What it is of, in a few words each.
    pub facts: Vec<String>,
    /// Its sections, none of them empty.
    pub sections: Vec<Section>,
    /// What made it.
    pub made: String,
}

/// A section.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// Its name in addresses.
    pub id: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// What is in it.
    pub blocks: Vec<ReportBlock>,
}

/// A part of a section.
#[derive(Debug, Clone, PartialEq)]
pub enum ReportBlock {
    /// A paragraph.
    Text(String),
    /// A heading below that of the section.
    Heading(String),
    /// Figures that are seen first.
    Cards(Vec<Card>),
    /// What is doubtful or not known: shown as prominently as figures.
    Doubts {
        /// What the doubts are about.
        title: String,
        /// They.
        items: Vec<String>,
    },
    /// A table.
    Table(Table),
    /// A picture.
    Picture(Box<Picture>),
    /// Lines for a shell or from the kernel.
    Code {
        /// What they are.
        caption: String,
        /// They.
        text: String,
    },
    /// Points.
    List(Vec<String>),
    /// Something long that is opened on request.
    Fold {
        /// What is in it.
        title: String,
        /// It.
        blocks: Vec<ReportBlock>,
    },
}

/// What a word or a figure means to the reader.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TextTone {
    /// Nothing special.
    #[default]
    Plain,
    /// As it should be.
    Good,
    /// Not as it should be.
    Bad,
    /// Nobody can say.
    Doubt,
}

/// A figure that is seen first.
#[derive(Debug, Clone, PartialEq)]
pub struct Card {
    /// What it is about.
    pub about: String,
    /// Whose it is.
    pub label: String,
    /// The figure or the word.
    pub value: String,
    /// What it means.
    pub tone: TextTone,
    /// What else is to be known about it.
    pub details: Vec<String>,
    /// Why it is doubtful; shown on the card itself.
    pub doubts: usize,
}

/// A table; the first column names the row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// What it shows.
    pub caption: String,
    /// Names of the columns.
    pub columns: Vec<TableColumn>,
    /// A cell for each column.
    pub rows: Vec<Vec<TableCell>>,
}

/// A column.
#[derive(Debug, Clone, PartialEq)]
pub struct TableColumn {
    /// Its name.
    pub name: String,
    /// Numbers stand to the right.
    pub number: bool,
}

/// A cell.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TableCell {
    /// What is in it.
    pub text: String,
    /// What that means.
    pub tone: TextTone,
    /// A command, a file or a value: as it is.
    pub code: bool,
}

/// A picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    /// Its name in addresses.
    pub id: String,
    /// Its title.
    pub title: String,
    /// What it shows, in a sentence, for those who cannot see it.
    pub about: String,
    /// How it is read.
    pub how: String,
    /// What is drawn.
    pub drawing: Drawing,
    /// The same as a table.
    pub table: Table,
}

/// What is drawn.
#[derive(Debug, Clone, PartialEq)]
pub enum Drawing {
    /// CPUs and what they share.
    Map(CpuMap),
    /// Amounts beside each other.
    Bars(BarChart),
    /// Amounts over a range.
    Curves(CurveChart),
}

/// CPUs and what they share.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuMap {
    /// Packages.
    pub packages: Vec<Package>,
    /// CPUs that are there but not in use.
    pub offline: CpuSet,
}

/// A package.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Package {
    /// `package 0`.
    pub name: String,
    /// Its CPUs by what they share: NUMA node and last cache.
    pub groups: Vec<NodeGroup>,
}

/// CPUs of one NUMA node and one last cache.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeGroup {
    /// `NUMA node 0 · L3 32 MiB`; empty when nothing is known of either.
    pub name: String,
    /// Cores by the L2 cache they share.
    pub clusters: Vec<Cluster>,
}

/// Cores that share an L2 cache.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cluster {
    /// `L2 1 MiB`; empty when that is not known.
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

/// What a CPU is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapRole {
    /// It is shielded.
    Shielded,
    /// It is kept idle beside a shielded sibling.
    Idle,
    /// Everything else runs there.
    Housekeeping,
    /// The kernel keeps it out of scheduling since it was booted.
    Isolated,
    /// There is no shield.
    Used,
    /// It is not in use.
    Offline,
}

impl MapRole {
    /// The word for it.
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

/// Amounts beside each other.
#[derive(Debug, Clone, PartialEq)]
pub struct BarChart {
    /// What is counted.
    pub unit: String,
    /// Whose amounts they are.
    pub series: Vec<String>,
    /// One for each thing that is counted.
    pub rows: Vec<BarRow>,
}

/// The amounts of one thing, in the order of [`BarChart::series`].
#[derive(Debug, Clone, PartialEq)]
pub struct BarRow {
    /// What is counted.
    pub label: String,
    /// The amounts.
    pub amounts: Vec<Amount>,
}

/// An amount.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// So much; none when 0.
    Known(f64),
    /// Nobody could count.
    Unknown,
}

/// Amounts over a range.
#[derive(Debug, Clone, PartialEq)]
pub struct CurveChart {
    /// From left to right.
    pub x: Axis,
    /// From bottom to top; always logarithmic.
    pub y: Axis,
    /// How they are drawn.
    pub stroke: Stroke,
    /// Curves that are drawn over each other.
    pub series: Vec<Curve>,
}

/// How curves are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stroke {
    /// Down to the axis, with the area below it filled: amounts, of which none is 0.
    Area,
    /// A line that is broken where nothing is known.
    Line,
}

/// An axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// What it shows.
    pub label: String,
    /// Its first value; more than 0 when it is logarithmic.
    pub from: f64,
    /// Its last value, more than the first.
    pub to: f64,
    /// Equal steps multiply instead of adding.
    pub log: bool,
    /// Values are nanoseconds; else they are counts.
    pub is_time: bool,
}

/// A curve of steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Whose it is.
    pub label: String,
    /// Steps from left to right: from, to, height. Between them is nothing.
    pub steps: Vec<(f64, f64, f64)>,
    /// Points that stand out, with their words.
    pub marks: Vec<(f64, f64, String)>,
}

impl TableColumn {
    /// A column of words.
    #[must_use]
    pub fn words(name: impl Into<String>) -> TableColumn {
        TableColumn { name: name.into(), number: false }
    }

    /// A column of numbers.
    #[must_use]
    pub fn numbers(name: impl Into<String>) -> TableColumn {
        TableColumn { name: name.into(), number: true }
    }
}

impl TableCell {
    /// Words.
    #[must_use]
    pub fn new(text: impl Into<String>) -> TableCell {
        TableCell { text: text.into(), ..TableCell::default() }
    }

    /// A command, a file or a value.
    #[must_use]
    pub fn code(text: impl Into<String>) -> TableCell {
        TableCell { text: text.into(), code: true, ..TableCell::default() }
    }

    /// Words with a meaning.
    #[must_use]
    pub fn toned(tone: TextTone, text: impl Into<String>) -> TableCell {
        TableCell { text: text.into(), tone, code: false }
    }

    /// What is not known.
    #[must_use]
    pub fn unknown() -> TableCell {
        TableCell::toned(TextTone::Doubt, "unknown")
    }
}

impl Report {
    /// Every picture, in order.
    pub fn pictures(&self) -> impl Iterator<Item = &Picture> {
        let blocks = self.sections.iter().flat_map(|section| &section.blocks);
        blocks.filter_map(|block| match block {
            ReportBlock::Picture(picture) => Some(&**picture),
            _ => None,
        })
    }
}
