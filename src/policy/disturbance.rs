//! [`DisturbanceConsent`]: whether the user accepts that other shields are interrupted. Pure.

/// Whether the user consents to interruptions of other shields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DisturbanceConsent {
    /// No.
    #[default]
    NotGiven,
    /// `--disturb` was given.
    Given,
}

impl From<bool> for DisturbanceConsent {
    fn from(given: bool) -> DisturbanceConsent {
        if given { DisturbanceConsent::Given } else { DisturbanceConsent::NotGiven }
    }
}
