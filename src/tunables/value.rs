//! The values of tunables: `--on cpu-idle=20us`. Pure.

use crate::policy::TunableSetting;
use cpushield_sentence::Sentence;

/// The values that a tunable takes.
#[derive(Debug, Clone, Copy)]
pub struct TunableValue {
    /// What it accepts, with the range: `a time from 0us to 2147483646us`.
    pub expected: &'static str,
    /// Spells a value as all documents do; `None` if it is none, or out of range.
    pub spell: fn(&str) -> Option<String>,
}

/// Why a tunable does not accept a value.
#[derive(Debug, Clone, PartialEq, Eq, Sentence)]
#[kind(Usage)]
pub enum ValueRefusal {
    /// {name} is only on or off: it takes no value such as {value:?}.
    #[hint("see what it does: cpushield explain {name}")]
    NoValue {
        /// The name of the tunable.
        name: String,
        /// The value.
        value: String,
    },
    /// {value:?} is no value of {name}; expected {expected}.
    #[hint("see what it does: cpushield explain {name}")]
    Wrong {
        /// The name of the tunable.
        name: String,
        /// The value.
        value: String,
        /// What the tunable accepts.
        expected: &'static str,
    },
}

/// A setting of a tunable or a boot parameter, spelled as all documents do.
///
/// # Errors
/// The tunable does not accept its value.
pub fn spell_setting(name: &str, setting: &TunableSetting) -> Result<TunableSetting, ValueRefusal> {
    let TunableSetting::Value(text) = setting else { return Ok(setting.clone()) };
    let (name, value) = (name.to_owned(), text.clone());
    let Some(values) = super::named(&name).and_then(|tunable| tunable.value) else {
        return Err(ValueRefusal::NoValue { name, value });
    };
    let expected = values.expected;
    let spelled = (values.spell)(text).ok_or(ValueRefusal::Wrong { name, value, expected })?;
    Ok(TunableSetting::Value(spelled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_spelled_by_its_tunable_or_refused_with_its_range() {
        let range = "; expected a whole number of microseconds, from 0us to 2147483646us";
        for (name, text, wanted) in [
            ("cpu-idle", "20us", Ok("20us")),
            ("cpu-idle", "20 µs", Ok("20us")),
            ("cpu-idle", "0.1ms", Ok("100us")),
            ("cpu-idle", "0ns", Ok("0us")),
            ("cpu-idle", "2147483646us", Ok("2147483646us")),
            ("cpu-idle", "2147483647us", Err("\"2147483647us\" is no value of cpu-idle")),
            ("cpu-idle", "20", Err("\"20\" is no value of cpu-idle")),
            ("cpu-idle", "1500ns", Err("\"1500ns\" is no value of cpu-idle")),
            ("cpu-idle", "", Err("\"\" is no value of cpu-idle")),
            ("thp", "5", Err("thp is only on or off: it takes no value such as \"5\"")),
            (
                "nohz-full",
                "2-3",
                Err("nohz-full is only on or off: it takes no value such as \"2-3\""),
            ),
        ] {
            let spelled = spell_setting(name, &TunableSetting::Value(text.to_owned()));
            let wanted = wanted.map(|text| TunableSetting::Value(text.to_owned()));
            let range = if name == "cpu-idle" { range } else { "" };
            let wanted = wanted.map_err(|why| format!("{why}{range}"));
            assert_eq!(spelled.map_err(|refusal| refusal.to_string()), wanted);
        }
    }
}
