//! The options that request a shield in `plan`, `apply` and `try`. A policy file can supply them.

use super::completions::KnownWord;
use super::input;
use crate::boot::parameters::{self, PARAMETERS};
use crate::change::EffectTime;
use crate::failure::Failure;
use crate::plan::{Plan, plan};
use crate::policy::{DEFAULT_PATH, PolicyFile, ShareLevel, ShieldRequest, VerifyLimits, Workload};
use crate::survey::Machine;
use crate::tunables::{self, TUNABLES, nearest};
use cpushield_linux::{CpuSet, Host};
use std::path::Path;

/// The requested shield. These options follow all others, because their heading stays in effect
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "The shield")]
pub struct RequestArgs {
    /// CPUs to shield: `3`, `2-3`, `2-N` (`N` is the last CPU)
    #[arg(long, value_name = "LIST", conflicts_with_all = ["count", "near", "node", "share"])]
    pub cpus: Option<String>,
    /// Number of CPUs; cpushield chooses them
    #[arg(long, value_name = "N", value_parser = cpu_count)]
    pub count: Option<usize>,
    /// Choose CPUs near this device, for example `eth0` or `nvme0n1`
    #[arg(long, value_name = "DEVICE")]
    pub near: Option<String>,
    /// Choose CPUs of this NUMA node
    #[arg(long, value_name = "N", value_parser = input::node_number)]
    pub node: Option<usize>,
    /// Shield whole groups only, so that housekeeping CPUs share no core, L2 or L3 with them
    #[arg(long, value_enum)]
    pub share: Option<ShareLevel>,
    /// Allow shielding one SMT sibling of a core; the other stays a housekeeping CPU
    #[arg(long)]
    pub half_core: bool,
    /// Kind of workload that will run on the CPUs
    #[arg(long, value_enum)]
    pub workload: Option<Workload>,
    /// Enable a tunable (see `cpushield explain`)
    #[arg(long, value_name = "TUNABLE", value_parser = KnownWord(switchable_names),
          hide_possible_values = true)]
    pub on: Vec<String>,
    /// Disable a tunable
    #[arg(long, value_name = "TUNABLE", value_parser = KnownWord(switchable_names),
          hide_possible_values = true)]
    pub off: Vec<String>,
    /// Read the shield from this policy file [default: /etc/cpushield/policy.toml if it exists]
    #[arg(long, value_name = "FILE")]
    pub policy: Option<String>,
    /// Name of the shield in the policy file
    #[arg(long, value_name = "NAME")]
    pub shield: Option<String>,
}

/// A request, and the limits of the same policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestWithLimits {
    /// The requested shield.
    pub request: ShieldRequest,
    /// The limits that `verify` checks.
    pub limits: VerifyLimits,
}

impl RequestArgs {
    /// The command-line arguments that make the same request.
    #[must_use]
    pub fn to_arguments(&self) -> Vec<String> {
        fn value_name<T: clap::ValueEnum>(value: Option<T>) -> Option<String> {
            Some(value?.to_possible_value()?.get_name().to_owned())
        }
        let values = [
            ("--cpus", self.cpus.clone()),
            ("--count", self.count.map(|n| n.to_string())),
            ("--near", self.near.clone()),
            ("--node", self.node.map(|n| n.to_string())),
            ("--share", value_name(self.share)),
            ("--workload", value_name(self.workload)),
            ("--policy", self.policy.clone()),
            ("--shield", self.shield.clone()),
        ];
        let mut args = Vec::new();
        for (flag, value) in values {
            args.extend(value.into_iter().flat_map(|value| [flag.to_owned(), value]));
        }
        args.extend(self.on.iter().flat_map(|name| ["--on".to_owned(), name.clone()]));
        args.extend(self.off.iter().flat_map(|name| ["--off".to_owned(), name.clone()]));
        args.extend(self.half_core.then(|| "--half-core".to_owned()));
        args
    }

    /// Resolves the request for the running kernel or the next boot. Flags override the policy.
    ///
    /// # Errors
    /// The policy cannot be read or parsed, or an option is wrong.
    pub fn resolve(
        &self,
        host: &Host,
        machine: &Machine,
        when: EffectTime,
    ) -> Result<RequestWithLimits, Failure> {
        self.check_switches(when)?;
        let present = machine.topology.present.union(&machine.topology.online);
        let mut resolved = self.resolve_policy(host, present.last())?;
        let request = &mut resolved.request;
        // A policy may also name boot parameters, which do not apply to the running kernel.
        request
            .tunables
            .retain(|name, _| when == EffectTime::Boot || tunables::named(name).is_some());
        if let Some(list) = &self.cpus {
            let list = CpuSet::parse_list(list, present.last()).map_err(|error| {
                let hint = input::mask_hint(list);
                Failure::usage(error.to_string())
                    .hint(hint.unwrap_or_else(|| input::LIST_HINT.to_owned()))
            })?;
            if list.is_empty() {
                return Err(Failure::usage("--cpus names no CPU").hint(input::LIST_HINT));
            }
            // The list on the command line replaces every choice of the policy.
            *request = ShieldRequest {
                cpus: Some(list),
                count: None,
                share: None,
                near: None,
                ..request.clone()
            };
            request.node = None;
        } else if self.has_choice() {
            request.cpus = None;
        }
        request.count = self.count.or(request.count);
        request.near = self.near.clone().or(request.near.take());
        request.node = self.node.or(request.node);
        request.share = self.share.or(request.share);
        request.half_core |= self.half_core;
        request.workload = self.workload.unwrap_or(request.workload);
        request.tunables.extend(self.on.iter().map(|name| (name.clone(), true)));
        request.tunables.extend(self.off.iter().map(|name| (name.clone(), false)));
        Ok(resolved)
    }

    /// Checks that `--on` and `--off` do not contradict each other, and that each name exists at
    /// this time: on the running kernel, or at boot.
    fn check_switches(&self, when: EffectTime) -> Result<(), Failure> {
        if let Some(both) = self.on.iter().find(|name| self.off.contains(name)) {
            let why = format!("--on {both} and --off {both} contradict each other");
            return Err(Failure::usage(why).hint("omit one of them"));
        }
        let on = self.on.iter().map(|name| ("--on", name));
        for (flag, name) in on.chain(self.off.iter().map(|name| ("--off", name))) {
            let now = tunables::named(name).is_some();
            let boot = parameters::named(name).is_some();
            let (why, hint) = match when {
                EffectTime::Runtime if boot && !now => (
                    "is a boot parameter, not a tunable of the running kernel",
                    format!("cpushield boot plan {flag} {name}"),
                ),
                EffectTime::Boot if now && !boot => (
                    "is a tunable of the running kernel, not a boot parameter",
                    format!("cpushield plan {flag} {name}"),
                ),
                _ => continue,
            };
            return Err(Failure::usage(format!("{name} {why}")).hint(hint));
        }
        Ok(())
    }

    /// Whether an option limits the choice of CPUs.
    fn has_choice(&self) -> bool {
        self.count.is_some() || self.near.is_some() || self.node.is_some() || self.share.is_some()
    }

    /// The request of the policy file, or the default request without a policy.
    fn resolve_policy(
        &self,
        host: &Host,
        last: Option<usize>,
    ) -> Result<RequestWithLimits, Failure> {
        let file = match (&self.policy, &self.shield) {
            (Some(file), _) => file.as_str(),
            (None, Some(_)) if !host.exists(DEFAULT_PATH) => {
                let message =
                    format!("--shield needs a policy file, and {DEFAULT_PATH} does not exist");
                return Err(Failure::usage(message).hint("name the policy: --policy FILE"));
            }
            (None, Some(_)) => DEFAULT_PATH,
            // Options that select CPUs replace the default policy.
            (None, None) if self.cpus.is_some() || self.has_choice() => {
                return Ok(RequestWithLimits::default());
            }
            (None, None) if host.exists(DEFAULT_PATH) => DEFAULT_PATH,
            (None, None) => return Ok(RequestWithLimits::default()),
        };
        let text = match &self.policy {
            Some(file) => input::read_file(Path::new(file))?,
            None => host.read(file)?,
        };
        let policy = read_policy(&text, file)?;
        let (name, shield) = policy
            .shield(self.shield.as_deref(), file)
            .map_err(|error| Failure::usage(error.to_string()))?;
        let request = shield.request(name, last);
        let request = request.map_err(|why| Failure::usage(format!("{file}: {why}")))?;
        Ok(RequestWithLimits { request, limits: shield.limits })
    }

    /// Plans the request for the running kernel.
    ///
    /// # Errors
    /// The request is wrong, unsafe or impossible.
    pub fn plan(&self, host: &Host, machine: &Machine) -> Result<(Plan, VerifyLimits), Failure> {
        let resolved = self.resolve(host, machine, EffectTime::Runtime)?;
        Ok((plan(machine, &resolved.request)?, resolved.limits))
    }
}

/// The names that `--on` and `--off` accept: tunables and boot parameters.
fn switchable_names() -> Vec<&'static str> {
    let runtime = TUNABLES.iter().map(|tunable| tunable.name());
    let boot = PARAMETERS.iter().map(|parameter| parameter.name);
    runtime.chain(boot.filter(|name| tunables::named(name).is_none())).collect()
}

/// Parses a number of CPUs.
fn cpu_count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("a shield needs at least 1 CPU".to_owned()),
        Ok(count) => Ok(count),
        Err(_) => Err("expected a number of CPUs".to_owned()),
    }
}

/// Parses a policy file and checks that every tunable in it exists.
pub(super) fn read_policy(text: &str, file: &str) -> Result<PolicyFile, Failure> {
    let checked = PolicyFile::parse(text, file)
        .and_then(|policy| policy.check_tunables(text, file, &why_unknown).map(|()| policy));
    checked.map_err(|error| {
        Failure::usage(error.to_string()).hint("list all keys: cpushield explain policy")
    })
}

/// Why `--on` and `--off` do not accept this name; `None` if they do.
fn why_unknown(name: &str) -> Option<String> {
    if tunables::named(name).is_some() || parameters::named(name).is_some() {
        return None;
    }
    let near = nearest(name, &switchable_names());
    let near = near.first().map_or_else(
        || "; `cpushield explain` lists them".to_owned(),
        |near| format!("; did you mean {near}?"),
    );
    Some(format!("there is no tunable {name:?}{near}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        request: RequestArgs,
    }

    /// Resolves a command line on a machine with 8 CPUs and this default policy.
    fn resolve(name: &str, policy: &str, line: &str) -> Result<RequestWithLimits, Failure> {
        let dir =
            std::env::temp_dir().join(format!("cpushield-request-{}-{name}", std::process::id()));
        std::fs::create_dir_all(dir.join("etc/cpushield")).unwrap();
        std::fs::write(dir.join(DEFAULT_PATH.trim_start_matches('/')), policy).unwrap();
        let host = Host::recorded(&dir).unwrap();
        let mut machine = Machine::default();
        machine.topology.present = (0..8).collect();
        let args = Line::try_parse_from(format!("x {line}").split_whitespace()).unwrap();
        let resolved = args.request.resolve(&host, &machine, EffectTime::Runtime);
        std::fs::remove_dir_all(dir).unwrap();
        resolved
    }

    const POLICY: &str = "[shield.rt]\ncpus = \"2-3\"\nworkload = \"cyclic\"\n\
                          [shield.rt.tunables]\nthp = true\n[shield.rt.limits]\nmax_entries = 7\n";

    #[test]
    fn flags_override_the_policy_and_its_other_values_stay() {
        let set = |list: &str| Some(list.parse::<CpuSet>().unwrap());
        let plain = resolve("plain", POLICY, "").unwrap();
        assert_eq!((plain.request.name.as_str(), plain.request.cpus.clone()), ("rt", set("2-3")));
        assert_eq!(plain.limits.max_entries, Some(7));
        let flags = resolve("flags", POLICY, "--shield rt --cpus 6-N --off thp").unwrap();
        let wanted = ShieldRequest {
            name: "rt".to_owned(),
            cpus: set("6-7"),
            workload: Workload::Cyclic,
            tunables: [("thp".to_owned(), false)].into(),
            ..ShieldRequest::default()
        };
        assert_eq!(flags.request, wanted);
        let count = resolve("count", POLICY, "--shield rt --count 2").unwrap().request;
        assert_eq!((count.cpus, count.count), (None, Some(2)));
    }

    #[test]
    fn the_arguments_of_a_request_parse_to_the_same_request() {
        for line in [
            "",
            "--cpus 2-N --on thp --off watchdog --off ksm --half-core",
            "--count 2 --near eth0 --node 1 --share l2 --workload cyclic",
            "--policy /etc/x.toml --shield rt",
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
    fn options_that_select_cpus_replace_the_default_policy() {
        let request = resolve("cpus", POLICY, "--cpus 5").unwrap().request;
        assert_eq!(request.name, "cpushield");
        assert_eq!(request.tunables.len(), 0);
        let error = resolve("bad", "[shield.rt]\nx = 1\n", "").unwrap_err().to_string();
        assert!(error.starts_with("/etc/cpushield/policy.toml:2: unknown field"), "{error}");
        let error = resolve("list", POLICY, "--cpus 3-1").unwrap_err().to_string();
        assert!(error.contains("runs backwards"), "{error}");
    }

    #[test]
    fn an_unknown_name_is_reported_with_its_line() {
        let wrong = "[shield.rt]\ncount = 1\n[shield.rt.tunables]\nthp = true\nwatchdg = true\n";
        let error = resolve("name", wrong, "").unwrap_err().to_string();
        let expected =
            "/etc/cpushield/policy.toml:5: there is no tunable \"watchdg\"; did you mean w";
        assert!(error.starts_with(expected), "{error}");
        assert!(error.ends_with("hint:  list all keys: cpushield explain policy"), "{error}");
        // A policy may name boot parameters too.
        let both = "[shield.rt]\n[shield.rt.tunables]\nskew-tick = true\nthp = false\n";
        let request = resolve("both", both, "").unwrap().request;
        assert_eq!(request.tunables, [("thp".to_owned(), false)].into());
    }

    #[test]
    fn a_name_of_the_other_time_is_refused_with_the_command_that_accepts_it() {
        let refused = |line: &str, when| {
            let args = Line::try_parse_from(format!("x {line}").split_whitespace()).unwrap();
            args.request.check_switches(when).map_err(|failure| failure.hints.concat())
        };
        let (now, boot) = (EffectTime::Runtime, EffectTime::Boot);
        let hint = |hint: &str| Err(hint.to_owned());
        let plan = hint("cpushield boot plan --on skew-tick");
        assert_eq!(refused("--on skew-tick", now), plan);
        assert_eq!(refused("--off thp --off skew-tick", boot), hint("cpushield plan --off thp"));
        assert_eq!(refused("--on thp --off ksm", now), Ok(()));
        assert_eq!(refused("--on skew-tick --off nohz-full", boot), Ok(()));
        assert_eq!(refused("--on thp --on ksm --off thp", now), hint("omit one of them"));
        // A policy may name both kinds, so its names are not refused.
        assert!(
            resolve("empty", POLICY, "--cpus ,").unwrap_err().message.contains("--cpus names no")
        );
        assert!(Line::try_parse_from(["x", "--count", "0"]).is_err());
    }

    #[test]
    fn a_shield_name_without_a_policy_is_a_usage_error() {
        let args = Line::try_parse_from(["x", "--shield", "rt"]).unwrap();
        let host = Host::recorded(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
        let failure =
            args.request.resolve(&host, &Machine::default(), EffectTime::Runtime).unwrap_err();
        assert_eq!(failure.kind, crate::failure::FailureKind::Usage);
        assert_eq!(failure.hints, ["name the policy: --policy FILE"]);
    }
}
