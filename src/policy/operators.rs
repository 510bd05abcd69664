//! Operators: users other than root that may enter a shield, leave it and see its status, and what
//! they may set there. Pure: names become numbers elsewhere.

use super::toml_place::WrongValue;
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// The highest priority that an operator may have. A kernel hangs if none of its threads is above
/// a program that never sleeps.
pub const OPERATOR_PRIORITY_MAX: u32 = 98;

/// The operators of a shield in a policy file, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table [shield.NAME.operators]")]
pub struct OperatorPolicy {
    /// Users that may enter the shield.
    pub users: Vec<String>,
    /// A group whose members may enter the shield.
    pub group: Option<String>,
    /// See [`OperatorLimits::priority`].
    pub priority: Option<u32>,
    /// See [`OperatorLimits::locked_memory`].
    #[serde(deserialize_with = "deserialize_memory")]
    pub locked_memory: Option<MemoryLimit>,
}

/// What operators may set for their programs in the shield.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OperatorLimits {
    /// The highest `SCHED_FIFO` priority; `None` permits none, and raises no kernel thread above a
    /// priority that a program sets itself.
    pub priority: Option<u32>,
    /// How much memory a program may lock; `None` leaves its own limit.
    pub locked_memory: Option<MemoryLimit>,
}

/// How much memory a program may lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum MemoryLimit {
    /// Any amount.
    Unlimited,
    /// This number of bytes.
    Bytes(u64),
}

/// A user or group, by its name and its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OperatorName {
    /// The name in the policy.
    pub name: String,
    /// The number that the kernel uses.
    pub id: u32,
}

/// The operators of a shield, with the numbers of this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ShieldOperators {
    /// Users that may enter the shield.
    pub users: Vec<OperatorName>,
    /// A group whose members may enter the shield.
    pub group: Option<OperatorName>,
    /// What they may set.
    pub limits: OperatorLimits,
}

impl ShieldOperators {
    /// Whether a process with these credentials may enter the shield. `groups` includes its primary
    /// group.
    #[must_use]
    pub fn permit(&self, uid: u32, groups: &[u32]) -> bool {
        self.users.iter().any(|user| user.id == uid)
            || self.group.as_ref().is_some_and(|group| groups.contains(&group.id))
    }
}

impl fmt::Display for ShieldOperators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let users = self.users.iter().map(|user| format!("user {}", user.name));
        let group = self.group.iter().map(|group| format!("group {}", group.name));
        f.write_str(&users.chain(group).collect::<Vec<_>>().join(", "))?;
        match self.limits.priority {
            Some(priority) => write!(f, "; priority up to {priority}")?,
            None => f.write_str("; no real-time priority")?,
        }
        match self.limits.locked_memory {
            Some(limit) => write!(f, "; locked memory: {limit}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryLimit::Unlimited => f.write_str("unlimited"),
            MemoryLimit::Bytes(bytes) => write!(f, "up to {} KiB", bytes / 1024),
        }
    }
}

impl OperatorPolicy {
    /// Checks what needs no machine.
    pub(super) fn check(&self) -> Result<(), WrongValue> {
        if self.users.is_empty() && self.group.is_none() {
            return Err((&[], "expected users or group in operators".to_owned()));
        }
        match self.priority {
            Some(priority) if !(1..=OPERATOR_PRIORITY_MAX).contains(&priority) => {
                let why = format!("expected a priority of 1 to {OPERATOR_PRIORITY_MAX}");
                Err((&["operators", "priority"], why))
            }
            _ => Ok(()),
        }
    }

    /// What operators may set.
    #[must_use]
    pub fn limits(&self) -> OperatorLimits {
        OperatorLimits { priority: self.priority, locked_memory: self.locked_memory }
    }
}

fn deserialize_memory<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<MemoryLimit>, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_memory(&text).map(Some).map_err(serde::de::Error::custom)
}

/// Parses an amount of memory: `unlimited`, or a number with a unit.
///
/// # Errors
/// The text is no amount, or it is too large.
pub fn parse_memory(text: &str) -> Result<MemoryLimit, String> {
    const UNITS: &[(&str, u64)] = &[("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
    if text == "unlimited" {
        return Ok(MemoryLimit::Unlimited);
    }
    let number = UNITS.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale)));
    let bytes = number.and_then(|(number, scale)| {
        let is_plain = number.bytes().all(|byte| byte.is_ascii_digit());
        number.parse::<u64>().ok().filter(|_| is_plain)?.checked_mul(*scale)
    });
    let malformed =
        || format!("{text:?} is not an amount of memory; write \"64MiB\" or \"unlimited\"");
    bytes.map(MemoryLimit::Bytes).ok_or_else(malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_of_memory_need_a_unit() {
        assert_eq!(parse_memory("unlimited"), Ok(MemoryLimit::Unlimited));
        assert_eq!(parse_memory("64MiB"), Ok(MemoryLimit::Bytes(64 << 20)));
        for wrong in ["", "64", "MiB", "+1KiB", "-1KiB", "1.5GiB", "99999999999GiB", "64 MiB"] {
            assert!(parse_memory(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_user_or_a_member_of_the_group_is_permitted() {
        let name = |name: &str, id| OperatorName { name: name.to_owned(), id };
        let operators = ShieldOperators {
            users: vec![name("joe", 1000)],
            group: Some(name("rt", 44)),
            limits: OperatorLimits::default(),
        };
        assert!(operators.permit(1000, &[1000]));
        assert!(operators.permit(1001, &[1001, 44]));
        assert!(!operators.permit(1001, &[1000, 1001]));
        assert!(!operators.permit(0, &[0]));
        let empty = ShieldOperators { users: Vec::new(), group: None, ..operators };
        assert!(!empty.permit(0, &[]));
    }
}
