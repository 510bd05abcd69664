//! The boot that a row needs.

use super::ExperimentRow;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The word of a boot that changes nothing but the kernel. It tells this boot from others. The
/// kernel passes an unknown word with a dot neither to init nor to the log (`unknown_bootoption` in
/// init/main.c, v6.12).
const MARK: &str = "cpushield.experiment";

/// How a boot differs from the original one, in which the experiment began.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RowBoot {
    /// The release of another kernel; `None` is the one of the original boot.
    pub kernel: Option<String>,
    /// The kernel parameters that are added.
    pub parameters: Vec<String>,
}

impl RowBoot {
    /// Whether it is the original boot.
    #[must_use]
    pub fn is_original(&self) -> bool {
        self.kernel.is_none() && self.parameters.is_empty()
    }

    /// The words that the boot entry adds. No two kinds of boot are alike without them.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        match (&self.kernel, self.parameters.as_slice()) {
            (Some(_), []) => vec![MARK.to_owned()],
            _ => self.parameters.clone(),
        }
    }
}

impl fmt::Display for RowBoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kernel = self.kernel.iter().map(|kernel| format!("kernel {kernel}"));
        let parts: Vec<String> = kernel.chain(self.parameters.iter().cloned()).collect();
        f.write_str(&parts.join(" "))
    }
}

impl ExperimentRow {
    /// The boot that it needs.
    #[must_use]
    pub fn needed_boot(&self) -> RowBoot {
        RowBoot { kernel: self.kernel.clone(), parameters: self.boot.clone() }
    }

    /// Forgets the kernel of the row if it is the one of the original boot.
    pub fn set_original_kernel(&mut self, release: Option<&str>) {
        self.kernel = self.kernel.take().filter(|kernel| Some(kernel.as_str()) != release);
    }
}
