//! What the user requests: the [`ShieldRequest`] for one shield and the [`VerifyLimits`] that
//! `verify` checks. They come from options or from `/etc/cpushield/policy.toml`, which users keep
//! under version control. Pure.
//!
//! A key that it does not know is an error with its line, so a typing error never weakens a shield.
//! `PolicyFile` is the file. `src/workflow/shield_options.rs` applies the options on top of it.

mod boot_policy;
mod disturbance;
mod latency_limits;
mod operators;
mod share_key;
mod time_key;
mod toml_message;
mod toml_place;
mod tunable_settings;
mod verify_limits;
mod written_shield;

pub use boot_policy::BootPolicy;
pub use disturbance::DisturbanceConsent;
pub use latency_limits::{LatencyLimit, LatencyLimits, LinuxCncGrade};
pub use operators::{
    MemoryLimit, OPERATOR_PRIORITY_MAX, OperatorLimits, OperatorName, OperatorPolicy,
    ShieldOperators, parse_memory,
};
pub use share_key::parse_share;
pub(crate) use toml_message::translate_toml_error;
pub use tunable_settings::{TunableSetting, TunableSettings};
pub use verify_limits::{TickLimit, VerifyLimits};
pub use written_shield::WrittenShield;

use cpushield_linux::CpuSet;
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::num::{IntErrorKind, ParseIntError};
use toml_place::{find_byte, line_of};

/// The policy file that is used when none is named.
pub const DEFAULT_PATH: &str = "/etc/cpushield/policy.toml";

/// The kind of program that will run in the shield.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Never enters the kernel: packet processing, busy loops.
    #[default]
    Polling,
    /// Wakes up periodically: motion control, audio.
    Cyclic,
    /// The vCPUs of a guest.
    Vm,
}

impl std::fmt::Display for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Workload::Polling => "polling",
            Workload::Cyclic => "cyclic",
            Workload::Vm => "vm",
        })
    }
}

/// The hardware that a shield does not share with housekeeping CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum ShareLevel {
    /// Whole cores; their caches may be shared with housekeeping CPUs.
    Core,
    /// All CPUs that share a level-2 cache.
    L2,
    /// All CPUs that share a level-3 cache.
    L3,
}

/// What runs on the SMT siblings of a shield's cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Siblings {
    /// Shield whole cores; programs run on one sibling of each core, and the others stay idle.
    Idle,
    /// Like idle, but the other siblings are offline while the shield is active.
    Offline,
    /// Shield whole cores; programs run on all their siblings.
    Use,
    /// Allow half a core to be shielded: siblings outside the shield stay housekeeping CPUs.
    Share,
}

/// The name of the group of all other programs on cgroup v1, which no shield can have.
const RESERVED_NAME: &str = "housekeeping";

/// The longest name of a shield.
const NAME_LENGTH_MAX: usize = 31;

/// Whether a text can name a shield, its cgroup and its unit.
#[must_use]
pub fn is_shield_name(name: &str) -> bool {
    let is_plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let begins_well = name.starts_with(|c: char| c.is_ascii_lowercase());
    begins_well && name.len() <= NAME_LENGTH_MAX && is_plain && name != RESERVED_NAME
}

/// What to write instead of a name that no shield can have.
#[must_use]
pub fn expected_name(name: &str) -> &'static str {
    match name {
        RESERVED_NAME => "another name: this one is reserved for the group of all other programs",
        _ => "a lowercase letter, then at most 30 lowercase letters, digits and underscores",
    }
}

/// A request for one shield.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShieldRequest {
    /// The name of the shield, also of its cgroup and slice.
    pub name: String,
    /// Exactly these CPUs; `None` if cpushield chooses them ([`ShieldRequest::count`]).
    pub cpus: Option<CpuSet>,
    /// How many CPUs for programs cpushield chooses, not counting idle SMT siblings. `None` is one
    /// core, or one small L2 cluster.
    pub count: Option<usize>,
    /// Choose whole groups of CPUs that share this. `None`: whole cores, and whole L2 clusters if
    /// no count is given and the cluster is small.
    pub share: Option<ShareLevel>,
    /// Choose CPUs near this device (`eth0`, `nvme0n1`).
    pub near: Option<String>,
    /// Choose CPUs of this NUMA node.
    pub node: Option<usize>,
    /// What runs on the SMT siblings. `None` is [`Siblings::Idle`], but programs run on every CPU
    /// of the list.
    pub siblings: Option<Siblings>,
    /// Shield all CPUs of a NUMA node. With [`ShieldRequest::cpus`]: the list may take whole nodes.
    pub whole_node: bool,
    /// Balance the shield's own programs among its CPUs.
    pub balance: bool,
    /// Move away what the user has put on closed CPUs.
    pub evict: bool,
    /// The workload.
    pub workload: Workload,
    /// The `max_latency` of the policy, in nanoseconds.
    pub max_latency_ns: Option<u64>,
    /// What it says about tunables, by name.
    pub tunables: TunableSettings,
    /// Kernel parameters of the user's own, for the next boot.
    pub parameters: Vec<RequestedParameter>,
    /// Users other than root that may enter the shield.
    pub operators: Option<ShieldOperators>,
    /// Whether the shield may interrupt others while it is made.
    pub disturbance: DisturbanceConsent,
}

/// A kernel parameter that the user wrote, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedParameter {
    /// The word for the command line: `nohlt`, `radeon.modeset=0`.
    pub word: String,
    /// The flag, or the file and the line.
    pub place: String,
}

impl Default for ShieldRequest {
    fn default() -> ShieldRequest {
        ShieldRequest {
            name: "cpushield".to_owned(),
            cpus: None,
            count: None,
            share: None,
            near: None,
            node: None,
            siblings: None,
            whole_node: false,
            balance: false,
            evict: false,
            workload: Workload::default(),
            max_latency_ns: None,
            tunables: TunableSettings::default(),
            parameters: Vec::new(),
            operators: None,
            disturbance: DisturbanceConsent::NotGiven,
        }
    }
}

/// The limits of a shield in a policy file. It gives times with a unit: `"5us"`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table [shield.NAME.limits]")]
pub struct PolicyLimits {
    /// See [`VerifyLimits::max_entries`].
    pub max_entries: Option<u64>,
    /// See [`VerifyLimits::max_gap_ns`].
    #[serde(rename = "max_gap", deserialize_with = "time_key::deserialize_span")]
    pub max_gap_ns: Option<u64>,
    /// See [`VerifyLimits::two_witnesses`].
    pub two_witnesses: bool,
    /// See [`VerifyLimits::max_foreign`].
    pub max_foreign: Option<u64>,
    /// See [`VerifyLimits::max_steal_ppm`].
    #[serde(rename = "max_steal", deserialize_with = "share_key::deserialize_share")]
    pub max_steal_ppm: Option<u64>,
    /// See [`VerifyLimits::tick`].
    pub tick: TickLimit,
    /// See [`LatencyLimits::max_ns`].
    #[serde(rename = "max_latency", deserialize_with = "time_key::deserialize_span")]
    pub max_latency_ns: Option<u64>,
    /// See [`LatencyLimits::linuxcnc`].
    pub linuxcnc: Option<LinuxCncGrade>,
}

impl PolicyLimits {
    /// The limits that `verify` checks.
    #[must_use]
    pub fn of_verify(&self) -> VerifyLimits {
        let PolicyLimits { max_entries, max_gap_ns, max_foreign, max_steal_ppm, .. } = *self;
        let (two_witnesses, tick) = (self.two_witnesses, self.tick);
        VerifyLimits { max_entries, max_gap_ns, two_witnesses, max_foreign, max_steal_ppm, tick }
    }

    /// The limits that `latency` checks.
    #[must_use]
    pub fn of_latency(&self) -> LatencyLimits {
        LatencyLimits { max_ns: self.max_latency_ns, linuxcnc: self.linuxcnc }
    }
}

/// Parses a time with a unit into nanoseconds: `800ns`, `5us`, `1.5ms`, `30s`, `2m` (or `2min`),
/// `1h`, `1d`.
///
/// # Errors
/// The text is not a time, or the time is too long.
pub fn parse_span(text: &str) -> Result<u64, String> {
    const HOUR_NS: u64 = 3_600_000_000_000;
    const UNITS: &[(&str, u64)] = &[
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("min", 60_000_000_000),
        ("h", HOUR_NS),
        ("d", 24 * HOUR_NS),
    ];
    let malformed =
        format!("{text:?} is not a time; write a number and a unit, such as 5us, 30s or 10m");
    let too_long = format!("{text:?} is too long a time; the maximum is {}h", u64::MAX / HOUR_NS);
    let trimmed = text.trim();
    let Some(unit_start) = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.') else {
        return Err(malformed);
    };
    let Some((number, unit)) = trimmed.split_at_checked(unit_start) else { return Err(malformed) };
    let Some((_, scale)) = UNITS.iter().find(|(name, _)| *name == unit.trim()) else {
        return Err(malformed);
    };
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    let whole: u64 = match whole.parse() {
        Ok(whole) => whole,
        Err(error) => {
            let error: ParseIntError = error;
            let is_long = *error.kind() == IntErrorKind::PosOverflow;
            return Err(if is_long { too_long } else { malformed });
        }
    };
    let digits = u32::try_from(decimals.len()).ok().filter(|n| (1..=9).contains(n));
    let (Some(digits), Ok(decimals)) = (digits, decimals.parse::<u64>()) else {
        return Err(malformed);
    };
    let fraction = u128::from(decimals) * u128::from(*scale) / 10u128.pow(digits);
    u64::try_from(u128::from(whole) * u128::from(*scale) + fraction).map_err(|_| too_long)
}

/// A policy file: named shields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyFile {
    /// The shields, by name.
    #[serde(default)]
    pub shield: BTreeMap<String, WrittenShield>,
    /// The name of the file.
    #[serde(skip)]
    pub file: String,
    /// What it was parsed from.
    #[serde(skip)]
    text: String,
}

/// {file}{place}: {why}.
///
/// Why a policy file is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, Sentence)]
#[with(place = line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct PolicyError {
    /// The file.
    pub file: String,
    /// The line, from 1; `None` if the error is not about one line.
    pub line: Option<usize>,
    /// What is wrong and what was expected.
    pub why: String,
}

impl std::error::Error for PolicyError {}

impl PolicyFile {
    /// Parses a policy file; `file` is its name for errors.
    ///
    /// # Errors
    /// The file is not a valid policy, or has an unknown key. Names the line and what was expected.
    pub fn parse(text: &str, file: &str) -> Result<PolicyFile, PolicyError> {
        let parsed = toml::from_str(text).map_err(|error| PolicyError {
            file: file.to_owned(),
            line: error.span().map(|span| line_of(text, span.start)),
            why: translate_toml_error(&error, text),
        })?;
        let policy = PolicyFile { file: file.to_owned(), text: text.to_owned(), ..parsed };
        for (name, shield) in &policy.shield {
            if let Err((keys, why)) = shield.check(name) {
                let at = policy.find(name, keys);
                return Err(policy.error(at, format!("shield {name:?}: {why}")));
            }
        }
        Ok(policy)
    }

    /// Checks the names and values of tunables; `read` spells a setting as its tunable does, or
    /// says what is wrong.
    ///
    /// # Errors
    /// A name or a value is wrong. Names the line of the first one.
    pub fn read_tunables(
        &mut self,
        read: &dyn Fn(&str, &TunableSetting) -> Result<TunableSetting, String>,
    ) -> Result<(), PolicyError> {
        let mut wrong = Vec::new();
        for (shield, written) in &mut self.shield {
            for (name, setting) in written.tunables.iter_mut() {
                match read(name, setting) {
                    Ok(spelled) => *setting = spelled,
                    Err(why) => wrong.push((shield.clone(), name.clone(), why)),
                }
            }
        }
        let wrong =
            wrong.iter().map(|(shield, name, why)| (self.find(shield, &["tunables", name]), why));
        wrong.min().map_or(Ok(()), |(at, why)| Err(self.error(at, why.clone())))
    }

    /// The shield of this name, or the only shield.
    ///
    /// # Errors
    /// There is no such shield, or there are several and none was named.
    pub fn shield(&self, name: Option<&str>) -> Result<(&str, &WrittenShield), PolicyError> {
        let known: Vec<&str> = self.shield.keys().map(String::as_str).collect();
        let known = known.join(", ");
        let mut all = self.shield.iter();
        let found = match (name, all.next(), all.next()) {
            (Some(name), ..) => self
                .shield
                .get_key_value(name)
                .ok_or_else(|| format!("there is no shield {name:?}; expected one of: {known}")),
            (None, Some(only), None) => Ok(only),
            (None, None, _) => Err("expected a table [shield.NAME]".to_owned()),
            _ => Err(format!("the policy has several shields, but none was named: {known}")),
        };
        let (name, shield) = found.map_err(|why| self.error(None, why))?;
        Ok((name, shield))
    }

    /// The file, and the line of this key of a shield if it is there.
    #[must_use]
    pub fn place(&self, shield: &str, keys: &[&str]) -> String {
        match self.find(shield, keys) {
            Some(at) => format!("{}:{}", self.file, line_of(&self.text, at)),
            None => self.file.clone(),
        }
    }

    /// The kernel parameters of a shield, each with its place.
    #[must_use]
    pub fn boot_parameters(&self, shield: &str) -> Vec<RequestedParameter> {
        let words = self.shield.get(shield).into_iter().flat_map(|it| &it.boot.parameters);
        let parameters = words.enumerate().map(|(n, word)| RequestedParameter {
            word: word.clone(),
            place: self.place(shield, &["boot", "parameters", &n.to_string()]),
        });
        parameters.collect()
    }

    /// The byte where this key of a shield is.
    fn find(&self, shield: &str, keys: &[&str]) -> Option<usize> {
        find_byte(&self.text, &[&["shield", shield], keys].concat())
    }

    fn error(&self, at: Option<usize>, why: String) -> PolicyError {
        let line = at.map(|byte| line_of(&self.text, byte));
        PolicyError { file: self.file.clone(), line, why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu_selection::CpuNames;
    use proptest::prelude::*;

    fn eight_cpus() -> CpuNames {
        let all: CpuSet = (0..8).collect();
        CpuNames { active: all.clone(), isolated: CpuSet::new(), all }
    }

    const GOOD: &str = r#"
# lathe
[shield.rt]
count = 2
share = "l2"
near = "eth0"
workload = "cyclic"

[shield.rt.tunables]
watchdog = false

[shield.rt.limits]
max_entries = 0
max_gap = "5us"
max_latency = "20us"
linuxcnc = "very-good"

[shield.vm]
cpus = "4-N"
workload = "vm"
"#;

    #[test]
    fn named_shields_are_parsed_completely() {
        let policy = PolicyFile::parse(GOOD, "p.toml").unwrap();
        let (name, rt) = policy.shield(Some("rt")).unwrap();
        let request = rt.request(name, &eight_cpus()).unwrap();
        assert_eq!(
            request,
            ShieldRequest {
                name: "rt".to_owned(),
                count: Some(2),
                share: Some(ShareLevel::L2),
                near: Some("eth0".to_owned()),
                workload: Workload::Cyclic,
                max_latency_ns: Some(20_000),
                tunables: [("watchdog".to_owned(), false)].into(),
                ..ShieldRequest::default()
            }
        );
        let two_witnesses = false;
        let (max_entries, max_gap_ns) = (Some(0), Some(5_000));
        let limits =
            VerifyLimits { max_entries, max_gap_ns, two_witnesses, ..VerifyLimits::default() };
        assert_eq!(rt.limits.of_verify(), limits);
        let limits =
            LatencyLimits { max_ns: Some(20_000), linuxcnc: Some(LinuxCncGrade::VeryGood) };
        assert_eq!(rt.limits.of_latency(), limits);
        let vm = policy.shield["vm"].request("vm", &eight_cpus()).unwrap();
        assert_eq!(vm.cpus, Some("4-7".parse().unwrap()));
        let error = policy.shield(None).unwrap_err().to_string();
        assert_eq!(error, "p.toml: the policy has several shields, but none was named: rt, vm");
    }

    #[test]
    fn kernel_parameters_of_a_policy_have_their_line() {
        let text = "[shield.a]\nboot.parameters = [\n  \"nohlt\",\n  \"radeon.modeset=0\",\n]\n";
        let policy = PolicyFile::parse(text, "p.toml").unwrap();
        let words = policy.boot_parameters("a");
        let words: Vec<_> = words.iter().map(|it| (it.word.as_str(), it.place.as_str())).collect();
        assert_eq!(words, [("nohlt", "p.toml:3"), ("radeon.modeset=0", "p.toml:4")]);
    }

    #[test]
    fn the_example_of_the_document_parses() {
        let document = include_str!("../docs/policy.md");
        let example = document.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
        let policy = PolicyFile::parse(example, "policy.md").unwrap();
        assert_eq!(policy.shield.keys().collect::<Vec<_>>(), ["guest", "lathe"]);
        assert_eq!(policy.shield["lathe"].limits.max_gap_ns, Some(5_000));
        assert_eq!(policy.shield["lathe"].limits.max_latency_ns, Some(20_000));
    }

    #[track_caller]
    fn assert_error(text: &str, expected: &str) {
        let error = PolicyFile::parse(text, "p.toml").unwrap_err().to_string();
        let starts = error.starts_with(expected);
        assert!(starts, "{text:?}\n  got      {error}\n  expected {expected}");
    }

    #[test]
    fn errors_name_file_line_and_what_was_expected() {
        for (text, expected) in [
            ("[shield.a]\ncount = 1\ncolour = 2\n", "p.toml:3: unknown field `colour`, expected"),
            ("[shield.a]\nshare = \"l9\"\n", "p.toml:2: unknown variant `l9`, expected one of"),
            (
                "[shield.a]\ncount = \"x\"\n",
                "p.toml:2: invalid type: string \"x\", expected a whole",
            ),
            ("shield = 3\n", "p.toml:1: invalid type: integer `3`, expected a table"),
            ("[shield]\na = 3\n", "p.toml:2: invalid type: integer `3`, expected a table [sh"),
            ("[shield.a]\nlimits = 3\n", "p.toml:2: invalid type: integer `3`, expected a table"),
            ("[shield.a]\nshare = 3\n", "p.toml:2: expected a word in quotes"),
            (
                "[shield.a]\nboot.parameters = \"x\"\n",
                "p.toml:2: invalid type: string \"x\", expected a li",
            ),
            (
                "[shield.a.boot]\nparameter = []\n",
                "p.toml:2: unknown field `parameter`, expected `parameters`; did you mean parameters?",
            ),
            (
                "[shield.a]\nshare = \"l2\"\nboot = [\"nohlt\", \"radeon.modeset=0\"]\n",
                "p.toml:3: boot is a table; kernel parameters of your own are written as \
                 boot.parameters = [\"nohlt\", \"radeon.modeset=0\"]",
            ),
            (
                "[shield.a]\nboot = \"nohlt\"\n",
                "p.toml:2: boot is a table; kernel parameters of your own are written as \
                 boot.parameters = [\"nohlt\"]",
            ),
            (
                "[shield.a]\n[shield.a.boot]\nparameters = []\nnohlt = true\n",
                "p.toml:4: unknown field `nohlt`, expected `parameters`; kernel parameters of your \
                 own are written as parameters = [\"nohlt\"]",
            ),
            ("[shield.a]\nboot = 3\n", "p.toml:2: invalid type: integer `3`, expected a table [sh"),
            ("[shield.a]\nbalance = 3\n", "p.toml:2: invalid type: integer `3`, expected true"),
            (
                "[shield.a]\nsiblings = \"of\"\n",
                "p.toml:2: unknown variant `of`, expected one of `idle`, `offline`, `use`, `share`",
            ),
            ("[shields.a]\n", "p.toml:1: unknown field `shields`, expected `shield`"),
            (
                "[boot]\nparameters = [\"nohlt\"]\n",
                "p.toml:1: unknown field `boot`, expected `shield`; it belongs in [shield.NAME]",
            ),
            (
                "\ncpus = \"3\"\n[shield.a]\n",
                "p.toml:2: unknown field `cpus`, expected `shield`; it belongs in [shield.NAME]",
            ),
            (
                "boot = [\"nohlt\"]\n",
                "p.toml:1: unknown field `boot`, expected `shield`; it belongs in [shield.NAME]",
            ),
            (
                "parameters = [\"nohlt\"]\n",
                "p.toml:1: unknown field `parameters`, expected `shield`; it belongs in [shield.",
            ),
        ] {
            assert_error(text, expected);
        }
    }

    #[test]
    fn errors_of_values_name_the_shield_and_what_was_expected() {
        for (text, expected) in [
            ("\n[shield.a]\ncpus = \"3-1\"\n", "p.toml:3: shield \"a\": \"3-1\" is not a CPU list"),
            ("[shield.a]\ncpus = \"\"\n", "p.toml:2: shield \"a\": \"\" names no CPU"),
            ("[shield.a]\ncpus = \"3\"\ncount = 1\n", "p.toml:1: shield \"a\": expected either"),
            ("[shield.a.limits]\nmax_latency = \"x\"\n", "p.toml:2: \"x\" is not a time"),
            (
                "[shield.housekeeping]\n",
                "p.toml:1: shield \"housekeeping\": expected another name: this one is reserved",
            ),
            (
                "[shield.a.limits]\nlinuxcnc = \"best\"\n",
                "p.toml:2: unknown variant `best`, expected one of `very-good`, `good`, `hardware`",
            ),
            ("[shield.a.limits]\nmax_gap = \"5\"\n", "p.toml:2: \"5\" is not a time"),
            ("[shield.a\n", "p.toml:1: "),
            ("[shield.a-b]\n", "p.toml:1: shield \"a-b\": expected a lowercase letter"),
            ("[shield.a]\ncount = 0\n", "p.toml:1: shield \"a\": expected a count of at least 1"),
        ] {
            assert_error(text, expected);
        }
    }

    #[test]
    fn errors_suggest_the_key_or_the_value_that_was_meant() {
        for (text, meant) in [
            ("[sheild.a]\n", "shield"),
            ("[shield.a]\nsibling = \"idle\"\n", "siblings"),
            ("[shield.a]\nsiblings = \"offlin\"\n", "offline"),
            ("[shield.a]\nworkload = \"poling\"\n", "polling"),
            ("[shield.a]\nshare = \"l4\"\n", "l2"),
            ("[shield.a.operators]\ngruop = \"rt\"\n", "group"),
            ("[shield.a.limits]\nmax_latenci = \"5us\"\n", "max_latency"),
            ("[shield.a.limits]\nlinuxcnc = \"verygood\"\n", "very-good"),
            ("[shield.a.boot]\nparameter = [\"nohlt\"]\n", "parameters"),
        ] {
            let error = PolicyFile::parse(text, "p.toml").unwrap_err().to_string();
            assert!(error.ends_with(&format!("; did you mean {meant}?")), "{text}: {error}");
        }
    }

    #[test]
    fn time_spans_carry_a_unit() {
        for (text, ns) in [
            ("800ns", 800),
            ("5us", 5_000),
            ("5 µs", 5_000),
            ("1.5ms", 1_500_000),
            ("30s", 30_000_000_000),
            ("2m", 120_000_000_000),
            ("2min", 120_000_000_000),
            ("1.5h", 5_400_000_000_000),
            ("1d", 86_400_000_000_000),
        ] {
            assert_eq!(parse_span(text), Ok(ns), "{text}");
        }
        for text in ["", "5", "us", "-5us", "5 parsecs", "1.us", ".5us", "1.2.3s"] {
            let error = parse_span(text).unwrap_err();
            assert!(error.contains("is not a time; write a number and a unit"), "{error}");
        }
        for text in ["5124096h", "99999999999999s", "99999999999999999999999ns"] {
            let error = parse_span(text).unwrap_err();
            assert!(error.ends_with("is too long a time; the maximum is 5124095h"), "{error}");
        }
        assert!(parse_span("5124095h").is_ok());
    }

    proptest! {
        #[test]
        fn every_name_of_the_documented_form_is_accepted(name in "[a-z][a-z0-9_]{0,30}") {
            prop_assert_eq!(is_shield_name(&name), name != RESERVED_NAME);
        }

        #[test]
        fn no_name_of_another_form_is_accepted(
            name in "[a-z0-9_]{0,34}|[a-zA-Z_.@/ \u{0}\n\u{e4}\u{661}-]{0,6}[a-z0-9_]{0,30}|.{0,40}"
        ) {
            let bytes = name.as_bytes();
            let is_documented = matches!(bytes.first(), Some(b'a'..=b'z'))
                && bytes.len() <= 31
                && bytes.iter().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'));
            prop_assert_eq!(is_shield_name(&name), is_documented && name != RESERVED_NAME);
        }

        #[test]
        fn no_text_makes_the_parsers_panic(text in ".{0,80}", span in "[0-9.a-z ]{0,12}") {
            let _ = PolicyFile::parse(&text, "p");
            let _ = PolicyFile::parse(&format!("[shield.a]\n{text}"), "p");
            let _ = parse_span(&span);
        }
    }
}
