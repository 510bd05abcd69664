//! What a request says about tunables: on, off, or on with a value. Pure.

use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// What a request says about one tunable.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum TunableSetting {
    /// On (`true`) or off (`false`).
    Switch(bool),
    /// On with this value, as the tunable spells it: `20us`.
    Value(String),
}

impl TunableSetting {
    /// Whether the tunable is on.
    #[must_use]
    pub fn is_on(&self) -> bool {
        *self != TunableSetting::Switch(false)
    }

    /// The option that makes it: `--on cpu-idle=20us`, `--off thp`.
    #[must_use]
    pub fn option(&self, name: &str) -> String {
        match self {
            TunableSetting::Switch(true) => format!("--on {name}"),
            TunableSetting::Switch(false) => format!("--off {name}"),
            TunableSetting::Value(value) => format!("--on {name}={value}"),
        }
    }
}

/// As TOML has it.
impl fmt::Display for TunableSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TunableSetting::Switch(on) => write!(f, "{on}"),
            TunableSetting::Value(value) => write!(f, "{value:?}"),
        }
    }
}

impl From<bool> for TunableSetting {
    fn from(on: bool) -> TunableSetting {
        TunableSetting::Switch(on)
    }
}

impl<'de> Deserialize<'de> for TunableSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TunableSetting, D::Error> {
        struct SwitchOrValue;
        impl Visitor<'_> for SwitchOrValue {
            type Value = TunableSetting;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false, or a value in quotes such as \"20us\"")
            }
            fn visit_bool<E: Error>(self, on: bool) -> Result<TunableSetting, E> {
                Ok(TunableSetting::Switch(on))
            }
            fn visit_str<E: Error>(self, value: &str) -> Result<TunableSetting, E> {
                Ok(TunableSetting::Value(value.to_owned()))
            }
        }
        deserializer.deserialize_any(SwitchOrValue)
    }
}

/// The settings of a request, by the names of the tunables.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct TunableSettings(BTreeMap<String, TunableSetting>);

impl TunableSettings {
    /// Whether the request enables (`true`) or disables this tunable; `None` if it says nothing.
    #[must_use]
    pub fn choice(&self, name: &str) -> Option<bool> {
        self.0.get(name).map(TunableSetting::is_on)
    }

    /// The value of this tunable; `None` if the request has none.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        match self.0.get(name)? {
            TunableSetting::Switch(_) => None,
            TunableSetting::Value(value) => Some(value),
        }
    }

    /// Whether the request says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets a tunable.
    pub fn set(&mut self, name: &str, setting: impl Into<TunableSetting>) {
        self.0.insert(name.to_owned(), setting.into());
    }
}

impl Deref for TunableSettings {
    type Target = BTreeMap<String, TunableSetting>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for TunableSettings {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl<S: Into<TunableSetting>> FromIterator<(String, S)> for TunableSettings {
    fn from_iter<I: IntoIterator<Item = (String, S)>>(settings: I) -> TunableSettings {
        TunableSettings(settings.into_iter().map(|(name, it)| (name, it.into())).collect())
    }
}

impl<S: Into<TunableSetting>, const N: usize> From<[(String, S); N]> for TunableSettings {
    fn from(settings: [(String, S); N]) -> TunableSettings {
        settings.into_iter().collect()
    }
}
