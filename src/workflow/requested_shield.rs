//! [`ShieldOptions`]: the options that request a shield in `plan`, `apply` and `try`. A policy file
//! can supply them.

use crate::boot::switches::switch_names;
use crate::input::KnownWord;
use crate::policy::{DisturbanceConsent, WrittenShield};
use clap::builder::NonEmptyStringValueParser;
use cpushield_linux::CpuSet;

/// The options that request one shield. `--all` requests those of a policy file instead.
pub const ONE_SHIELD: [&str; 13] = [
    "cpus",
    "count",
    "near",
    "node",
    "whole_node",
    "share",
    "siblings",
    "balance",
    "evict",
    "workload",
    "on",
    "off",
    "shield",
];

/// What a shield may do to others while it is made
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::Args)]
pub struct DisturbArgs {
    /// Also make changes that interrupt other active shields, such as cpu-hotplug-cycle
    #[arg(long)]
    pub disturb: bool,
}

impl DisturbArgs {
    /// The request for one shield.
    #[must_use]
    pub fn options(self, request: &ShieldOptions) -> ShieldOptions {
        ShieldOptions { disturbance: self.disturb.into(), ..request.clone() }
    }

    /// The request for all shields of the policy.
    #[must_use]
    pub fn policy_options(self, request: &ShieldOptions) -> PolicyOptions {
        PolicyOptions { policy: request.policy.clone(), disturbance: self.disturb.into() }
    }
}

/// The requested shield. These options follow all others, because their heading stays in effect
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "The shield")]
pub struct ShieldOptions {
    /// Its CPUs, and what they are for
    #[command(flatten)]
    pub written: WrittenShield,
    /// Enable a tunable (see `cpushield explain`); some take a value: `cpu-idle=20us`
    #[arg(long, value_name = "TUNABLE", value_parser = KnownWord(switch_names),
          hide_possible_values = true, value_delimiter = ',')]
    pub on: Vec<String>,
    /// Disable a tunable
    #[arg(long, value_name = "TUNABLE", value_parser = KnownWord(switch_names),
          hide_possible_values = true, value_delimiter = ',')]
    pub off: Vec<String>,
    /// Read the shield from this policy file [default: /etc/cpushield/policy.toml if it exists]
    #[arg(long, value_name = "FILE", value_parser = NonEmptyStringValueParser::new())]
    pub policy: Option<String>,
    /// Name of the shield; selects a shield of the policy file if there is one [default: cpushield]
    #[arg(long, value_name = "NAME")]
    pub shield: Option<String>,
    /// Whether the shield may interrupt others while it is made.
    #[arg(skip)]
    pub disturbance: DisturbanceConsent,
}

/// The request for all shields of a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyOptions {
    /// The policy file; the default one if `None`.
    pub policy: Option<String>,
    /// Whether a shield may interrupt others while it is made.
    pub disturbance: DisturbanceConsent,
}

impl ShieldOptions {
    /// The options that request these CPUs.
    #[must_use]
    pub fn of_list(cpus: &CpuSet) -> ShieldOptions {
        let written = WrittenShield { cpus: Some(cpus.to_string()), ..WrittenShield::default() };
        ShieldOptions { written, ..ShieldOptions::default() }
    }

    /// The command-line arguments that make the same request.
    #[must_use]
    pub fn to_arguments(&self) -> Vec<String> {
        fn value_name<T: clap::ValueEnum>(value: Option<T>) -> Option<String> {
            Some(value?.to_possible_value()?.get_name().to_owned())
        }
        let written = &self.written;
        let values = [
            ("--cpus", written.cpus.clone()),
            ("--count", written.count.map(|n| n.to_string())),
            ("--near", written.near.clone()),
            ("--node", written.node.map(|n| n.to_string())),
            ("--share", value_name(written.share)),
            ("--siblings", value_name(written.siblings)),
            ("--workload", value_name(written.workload)),
            ("--policy", self.policy.clone()),
            ("--shield", self.shield.clone()),
        ];
        let mut args = Vec::new();
        for (flag, value) in values {
            args.extend(value.into_iter().flat_map(|value| [flag.to_owned(), value]));
        }
        args.extend(self.on.iter().flat_map(|name| ["--on".to_owned(), name.clone()]));
        args.extend(self.off.iter().flat_map(|name| ["--off".to_owned(), name.clone()]));
        args.extend(written.whole_node.then(|| "--whole-node".to_owned()));
        args.extend(written.balance.then(|| "--balance".to_owned()));
        args.extend(written.evict.then(|| "--evict".to_owned()));
        args
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        request: ShieldOptions,
    }

    #[test]
    fn the_arguments_of_a_request_parse_to_the_same_request() {
        for line in [
            "",
            "--cpus 2-N --on thp --off watchdog --off ksm --siblings share --balance",
            "--count 2 --near eth0 --node 1 --share l2 --workload cyclic",
            "--policy /etc/x.toml --shield rt",
            "--node 1 --whole-node",
        ] {
            let parse = |args: &[String]| {
                Line::try_parse_from(["x".to_owned()].iter().chain(args)).unwrap().request
            };
            let given: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            let args = parse(&given);
            assert_eq!(args, parse(&args.to_arguments()), "{line}");
            assert_eq!(args.to_arguments().len(), given.len());
        }
    }

    #[test]
    fn several_tunables_may_stand_in_one_word() {
        let request =
            Line::try_parse_from(["x", "--on", "thp,ksm", "--on", "xps"]).unwrap().request;
        assert_eq!(request.on, ["thp", "ksm", "xps"]);
    }

    #[test]
    fn a_shield_has_at_least_one_cpu() {
        assert!(Line::try_parse_from(["x", "--count", "0"]).is_err());
    }
}
