//! [`MaskDocument`]: CPU sets in every notation. Plain data.

use cpushield_linux::CpuSet;
use serde::Serialize;

/// The version of the document's schema.
const SCHEMA: u32 = 1;

/// What `mask --json` prints.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MaskDocument {
    /// The version of the schema.
    pub schema: u32,
    /// The sets, one for each word.
    pub sets: Vec<CpuSetSpellings>,
}

/// One CPU set in every notation.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuSetSpellings {
    /// As a list: `0-3,8`.
    pub list: CpuSet,
    /// As the mask of a kernel file, in groups of 32 CPUs: `8000,00000000`.
    pub mask: String,
    /// The same mask as one hexadecimal number: `0x800000000000`.
    pub hex: String,
    /// The number of CPUs.
    pub count: usize,
    /// The CPUs of the same word as a mask; only for a word of digits that was read as a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub as_mask: Option<CpuSet>,
}

impl MaskDocument {
    /// These sets in every notation, each with its CPUs if the word could also be a mask.
    #[must_use]
    pub fn new(sets: impl IntoIterator<Item = (CpuSet, Option<CpuSet>)>) -> MaskDocument {
        let sets = sets.into_iter().map(|(list, as_mask)| CpuSetSpellings::new(list, as_mask));
        MaskDocument { schema: SCHEMA, sets: sets.collect() }
    }
}

impl CpuSetSpellings {
    fn new(list: CpuSet, as_mask: Option<CpuSet>) -> CpuSetSpellings {
        let mask = list.to_mask();
        let hex = format!("0x{}", mask.replace(',', ""));
        CpuSetSpellings { hex, mask, count: list.len(), list, as_mask }
    }
}
